"""Deferred dots: iterations that follow each other are multiplied as one product."""

import ctypes

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import floats
from tritium.backends.cpu.library import defer
from tritium.backends.cpu.runtime.image import Runtime

_NUMBERS = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 6 + [ctypes.c_void_p, ctypes.c_bool]
A, B, C = 1 << 20, 2 << 20, 3 << 20  # addresses that nobody reads
SIZE, MOST = 4, 100


class Products:
    """A pending product, and the products that were computed: (A, B, ks, whether C is written)."""

    def __init__(self):
        self.done, symbols = [], Runtime.get().symbols
        self.memory = ctypes.create_string_buffer(defer.PENDING.size)
        ctypes.c_int64.from_buffer(self.memory, defer.PENDING.offset("K")).value = defer.NOTHING
        record = lambda a, b, c, m, n, k, lda, ldb, ldc, panel, fresh: self.done.append((a, b, k, fresh))
        self.function = ctypes.CFUNCTYPE(None, *_NUMBERS)(record)
        own = [ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_bool, ctypes.c_void_p]
        self.call = ctypes.CFUNCTYPE(None, *own, *_NUMBERS)(symbols["tt.dot.defer"])
        self.end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(symbols["tt.dot.flush"])

    def defer(self, k, first=0, a=None, b=None, m=8, n=16, lda=64, ldb=32, stays=True):
        """A product of `k` ks from `first` on."""
        a, b = A + SIZE * first if a is None else a, B + SIZE * ldb * first if b is None else b
        self.call(ctypes.addressof(self.memory), MOST, SIZE, SIZE * ldb, stays,
                  ctypes.cast(self.function, ctypes.c_void_p), a, b, C, m, n, k, lda, ldb, 16, 0, first == 0)
        return len(self.done)

    def flush(self):
        """All products."""
        self.end(ctypes.addressof(self.memory))
        return self.done


def test_products_that_follow_each_other_are_one():
    products = Products()
    assert [products.defer(16, first) for first in (0, 16, 32)] == [0, 0, 0]
    assert products.flush() == [(A, B, 48, True)]
    assert products.flush() == [(A, B, 48, True)]  # nothing is left


def test_at_most_so_many():
    products = Products()
    for first in range(0, 256, 32):
        products.defer(32, first)
    assert [(k, fresh) for _, _, k, fresh in products.flush()] == [(96, True), (96, False), (64, False)]


def test_a_short_one_ends_a_product():
    products = Products()
    products.defer(16)
    products.defer(7, 16)
    products.defer(16, 32)
    assert [k for _, _, k, _ in products.flush()] == [23, 16]


def test_no_ks_at_all_clear_the_result():
    products = Products()
    products.defer(0)
    products.defer(16, 16)
    assert [(k, fresh) for _, _, k, fresh in products.flush()] == [(0, True), (16, False)]


@pytest.mark.parametrize("other", [{"a": A}, {"b": B}, {"m": 7}, {"n": 8}, {"lda": 65}, {"ldb": 31}], ids=str)
def test_others_are_products_of_their_own(other):
    products = Products()
    products.defer(16)
    assert products.defer(16, 16, **other) == 1
    assert len(products.flush()) == 2


def test_what_is_overwritten_is_multiplied_at_once():
    products = Products()
    assert [products.defer(16), products.defer(16, 16, stays=False), products.defer(16, 32)] == [0, 2, 2]
    assert [k for _, _, k, _ in products.flush()] == [16, 16, 16]


@triton.jit
def product_kernel(a_ptr, b_ptr, starts_ptr, c_ptr, N, K, TRIPS, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   BK: tl.constexpr):
    """Sums of products of columns of a and rows of b: all in order, backwards, or from `starts` on."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for i in range(0, TRIPS):
        start = i * BK
        if HOW == "backwards":
            start = (TRIPS - 1 - i) * BK
        elif HOW == "listed":
            start = tl.load(starts_ptr + i)
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
        if HOW == "halved":
            a = a * 0.5
        total = tl.dot(a, b, total, input_precision="ieee")
        if HOW == "stored":
            tl.store(c_ptr + m[:, None] * BN + n[None, :], total)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize("how", ["in order", "backwards", "listed", "halved", "stored"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("trips", [0, 1, 9, 40])
def test_products(how, dtype, trips):
    torch = pytest.importorskip("torch")
    k = max(trips, 1) * 32
    a, b = (torch.from_numpy(floats(*shape)).to(getattr(torch, dtype)) for shape in ((32, k), (k, 64)))
    starts = np.sort(np.random.default_rng(3).integers(0, max(trips, 1), max(trips, 1)) * 32).astype("i4")
    c = torch.full((32, 64), torch.nan)
    product_kernel[1,](a, b, starts, c, 64, k, trips, HOW=how, BM=32, BN=64, BK=32)
    order = starts if how == "listed" else range(0, 32 * trips, 32)
    parts = [(a[:, s : s + 32].double() * (0.5 if how == "halved" else 1), b[s : s + 32].double()) for s in order]
    expected = sum((x @ y for x, y in parts[:trips]), torch.zeros(32, 64, dtype=torch.float64))
    assert (c - expected).abs().max() <= 1e-5 * max(1, float(expected.abs().max()))


@triton.jit
def two_kernel(a_ptr, b_ptr, c_ptr, d_ptr, K, ROUNDS, B: tl.constexpr):
    """Two sums in a loop within a loop; the second one goes on from round to round."""
    i, k = tl.arange(0, B), tl.arange(0, B)
    second = tl.zeros((B, B), tl.float32)
    for j in range(0, ROUNDS):
        first = tl.zeros((B, B), tl.float32)
        for start in range(0, K, B):
            a = tl.load(a_ptr + i[:, None] * K + (start + k)[None, :], (start + k)[None, :] < K - j, other=0.0)
            b = tl.load(b_ptr + (start + k)[:, None] * B + i[None, :])
            first = tl.dot(a, b, first, input_precision="ieee")
            second = tl.dot(b, a, second, input_precision="ieee")
        tl.store(c_ptr + j * B * B + i[:, None] * B + i[None, :], first)
    tl.store(d_ptr + i[:, None] * B + i[None, :], second)


def test_two_sums_in_loops():
    size, k, rounds = 32, 256, 3
    a, b, c, d = floats(size, k), floats(k, size), np.empty((rounds, size, size), "f4"), np.empty((size, size), "f4")
    two_kernel[1,](a, b, c, d, k, rounds, B=size)
    kept = [np.where(np.arange(k) < k - j, a, 0).astype("f8") for j in range(rounds)]
    parts = range(0, k, size)
    np.testing.assert_allclose(c, [x @ b for x in kept], rtol=1e-4, atol=1e-4)
    expected = sum(b[s : s + size].astype("f8") @ x[:, s : s + size] for x in kept for s in parts)
    np.testing.assert_allclose(d, expected, rtol=1e-4, atol=1e-3)
