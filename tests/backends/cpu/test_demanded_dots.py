"""Dots compute only the rows and columns that stores may write."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import floats, guarded
from tritium.backends.cpu.fuse.demanded_dots import masks_of_stores
from tritium.ir.text import parse_module


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, WRAP: tl.constexpr, LATE: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    rows, columns = (m % M, n % N) if WRAP else (m, n)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        left = K - start
        a_mask, b_mask = k[None, :] < left, k[:, None] < left
        if not WRAP:
            a_mask, b_mask = a_mask & (m[:, None] < M), b_mask & (n[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + (start + k)[None, :], a_mask, other=0.0)
        b = tl.load(b_ptr + (start + k)[:, None] * N + columns[None, :], b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    if LATE:  # what the mask is computed from follows the dot
        M = M + tl.program_id(2)
        N = N * (1 + tl.program_id(2))
    out = tl.maximum(total * 2.0, -100.0)
    tl.store(c_ptr + m[:, None] * N + n[None, :], out, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("size", [(1, 40, 33), (96, 96, 96), (65, 31, 100), (32, 64, 7), (5, 70, 0)], ids=str)
def test_product(size, wrap, late):
    m, n, k = size
    a, b, c = floats(m, k), floats(k, n), np.full((m + 1, n), np.nan, np.float32)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    product_kernel[grid](a, b, c, m, n, k, BLOCK=32, WRAP=wrap, LATE=late)
    expected = np.maximum(a.astype(np.float64) @ b * 2, -100)
    assert np.abs(c[:m] - expected).max() <= 1e-5 * max(1, np.abs(expected).max())
    assert np.isnan(c[m]).all()  # nothing behind the matrix is written


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("size", [(1, 33), (33, 1), (17, 48)], ids=str)
def test_other_operands(dtype, size):
    """Widened operands, bytes, and the tile unit where there is one, which multiplies whole tiles."""
    torch = pytest.importorskip("torch")
    (m, n), k = size, 64
    a, b = (torch.randint(-8, 9, s).to(getattr(torch, dtype)) for s in ((m, k), (k, n)))
    c = torch.full((m, n), 7, dtype=torch.int32 if dtype == "int8" else torch.float32)

    @triton.jit
    def kernel(a_ptr, b_ptr, c_ptr, M, N, K: tl.constexpr, ACC: tl.constexpr):
        m, n, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], m[:, None] < M, other=0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], n[None, :] < N, other=0)
        c = tl.dot(a, b, out_dtype=ACC)
        tl.store(c_ptr + m[:, None] * N + n[None, :], c, (m[:, None] < M) & (n[None, :] < N))

    kernel[(1,)](a, b, c, m, n, K=k, ACC=tl.int32 if dtype == "int8" else tl.float32)
    assert torch.equal(c.double(), a.double() @ b.double())


@pytest.mark.parametrize("rows", [1, 3, 32])
def test_rows_behind_the_matrix_are_not_read(rows):
    a, b, c = guarded(floats(rows, 32)), guarded(floats(32, 40)), guarded(np.zeros((rows, 40), np.float32))
    product_kernel[(1, 2)](a, b, c, rows, 40, 32, BLOCK=32, WRAP=False, LATE=False)
    np.testing.assert_allclose(c, np.maximum(a @ b * 2, -100), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("use", ["sum", "both", "row", "loaded"])
def test_results_that_other_ops_read_are_whole(use):
    """A sum of all rows needs all rows; so does a store without a mask."""
    @triton.jit
    def kernel(a_ptr, c_ptr, s_ptr, M, limit_ptr, USE: tl.constexpr):
        i = tl.arange(0, 32)
        at = i[:, None] * 32 + i[None, :]
        a = tl.load(a_ptr + at)
        c = tl.dot(a, a, input_precision="ieee")
        if USE == "loaded":
            M = tl.load(limit_ptr)
        tl.store(c_ptr + at, c, (i[:, None] < M) & (i[None, :] < M))
        if USE == "sum":
            tl.store(s_ptr + i, tl.sum(c, axis=0))
        if USE == "both":
            tl.store(s_ptr + at, c)
        if USE == "row":
            tl.store(s_ptr + at, tl.trans(c), (i[:, None] < 32) & (i[None, :] < 32))

    a, c, s = floats(32, 32), np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    kernel[(1,)](a, c, s, 5, np.array([5], np.int32), USE=use)
    product = a @ a
    expected = np.zeros_like(c)
    expected[:5, :5] = product[:5, :5]
    assert np.allclose(c, expected, rtol=1e-4, atol=1e-4)
    if use != "loaded":
        expected = {"sum": product.sum(0), "both": product, "row": product.T}[use]
        assert np.allclose(s[0] if use == "sum" else s, expected, rtol=1e-4, atol=1e-4)


def test_sums_of_several_iterations():
    """One iteration stores what another one added: the part that its own mask keeps is not enough."""
    @triton.jit
    def kernel(a_ptr, c_ptr, rows, STEPS: tl.constexpr):
        i = tl.arange(0, 16)
        at = i[:, None] * 16 + i[None, :]
        total = tl.zeros((16, 16), tl.float32)
        for step in range(STEPS):
            a = tl.load(a_ptr + step * 256 + at)
            total = tl.dot(a, a, total, input_precision="ieee")
            tl.store(c_ptr + step * 256 + at, total, i[:, None] < rows * (step + 1))

    a, c = floats(3, 16, 16), np.zeros((3, 16, 16), np.float32)
    kernel[(1,)](a, c, 4, STEPS=3)
    expected = np.cumsum(a @ a, 0)
    expected[np.arange(16)[None, :] >= np.array([[4], [8], [12]])] = 0
    assert np.allclose(c, expected, rtol=1e-4, atol=1e-4)


def test_masks_of_long_chains():
    """Each step of the hash reads the one before twice: every value is looked at once."""
    @triton.jit
    def kernel(a_ptr, c_ptr, seed):
        i = tl.arange(0, 16)
        at = i[:, None] * 16 + i[None, :]
        a = tl.load(a_ptr + at)
        c = tl.dot(a, a, input_precision="ieee")
        limit = seed
        for _ in tl.static_range(60):
            limit = (limit ^ (limit >> 3)) + 1
        tl.store(c_ptr + at, c, (i[:, None] < (limit & 3) + 5) & (i[None, :] < 7))

    a, c = floats(16, 16), np.zeros((16, 16), np.float32)
    kernel[(1,)](a, c, 12345)
    limit = 12345
    for _ in range(60):
        limit = (limit ^ (limit >> 3)) + 1
    rows, expected = (limit & 3) + 5, np.zeros_like(c)
    expected[:rows, :7] = (a @ a)[:rows, :7]
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)


TEXT = """kernel @f(%p: tile<32x32xptr<f32>>, %x: tile<32x32xf32>, %m: tile<32x32xi1>, %i: tile<32x32xi32>) {
  %a = dot %x, %x, %x : tile<32x32xf32>
  %b = dot %x, %x, %a : tile<32x32xf32>
  BODY
}"""


@pytest.mark.parametrize(
    "body, found",
    [
        ("store %p, %b, %m", 2),
        ("store %p, %b", 0),
        ("store %p, %b, %m\n  store %p, %a", 1),
        ("%c = mul %b, %x : tile<32x32xf32>\n  store %p, %c, %m", 2),
        ("%c = trans %b {order=(1, 0)} : tile<32x32xf32>\n  store %p, %c, %m", 0),
        ("%c = cast %b {to=i32} : tile<32x32xi32>\n  %d = div %i, %c : tile<32x32xi32>\n"
         "  %e = cast %d {to=f32} : tile<32x32xf32>\n  store %p, %e, %m", 0),
    ],
)  # fmt: skip
def test_masks_of_stores(body, found):
    module = parse_module(TEXT.replace("BODY", body))
    assert [len(masks) for masks in masks_of_stores(module.body).values()] == [1] * found
