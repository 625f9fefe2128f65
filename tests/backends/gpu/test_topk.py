"""The first elements of rows in order: compared with the interpreter and with NumPy, as in `test_language`."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import WARPS, numbers
from tritium.backends.gpu.rewrite import sort_topk
from tritium.insight import emulator
from tritium.interp.machine import interpret

pytestmark = pytest.mark.sampled

bf16 = ml_dtypes.bfloat16


@triton.jit
def best_of_rows(x, o, M: tl.constexpr, K: tl.constexpr, BEST: tl.constexpr, DOWN: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    at = tl.arange(0, M)[:, None] * BEST + tl.arange(0, BEST)[None, :]
    tl.store(o + at, tl.topk(tl.load(x + i), BEST, descending=DOWN))


def check_best(check, x, best, down, warps):
    """The interpreter's answer, which is NumPy's, is the kernel's."""
    out, theirs = (np.zeros((len(x), best), x.dtype) for _ in range(2))
    interpret(module_of(best_of_rows, (x, out, *x.shape, best, down))[0], [x, theirs])
    keys = np.sort(x, axis=1)
    np.testing.assert_array_equal(theirs, (keys[:, ::-1] if down else keys)[:, :best])
    check(best_of_rows, x, out, *x.shape, best, down, warps=warps)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize(("shape", "best"), [
    ((1, 4), 2), ((1, 512), 2), ((1, 512), 8), ((1, 512), 128), ((1, 512), 256), ((16, 64), 4), ((16, 64), 32),
    ((64, 8), 2), ((64, 8), 4), ((2, 256), 16),
])  # fmt: skip
def test_topk(check, shape, best, warps):
    check_best(check, numbers("f4", *shape), best, warps > 2, warps)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8", "f2", bf16, "f4", "f8"], ids=str)
def test_topk_of_every_type(check, dtype, down):
    check(best_of_rows, numbers(dtype, 4, 64), np.zeros((4, 8), dtype), 4, 64, 8, down)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_topk_of_what_compares_with_nothing(check, dtype, down):
    """Equal elements, zeros of both signs, infinities; and numbers that compare with nothing, which come last."""
    x = numbers(dtype, 2, 64)
    x[:, ::3], x[:, 1::5], x[:, 2::7], x[:, 3::13], x[0, 5::11] = 0.0, -0.0, np.inf, -np.inf, np.nan
    for best in (4, 32):
        check_best(check, x, best, down, 1)


@triton.jit
def best_of_cube(x, o, M: tl.constexpr, K: tl.constexpr, L: tl.constexpr, BEST: tl.constexpr):
    row = tl.arange(0, M)[:, None, None] * K + tl.arange(0, K)[None, :, None]
    v = tl.load(x + row * L + tl.arange(0, L)[None, None, :])
    tl.store(o + row * BEST + tl.arange(0, BEST)[None, None, :], tl.topk(v, BEST) + tl.topk(v, BEST, descending=False))


@pytest.mark.parametrize("best", [2, 16])
@pytest.mark.parametrize("warps", WARPS)
def test_topk_of_a_cube(check, best, warps):
    check(best_of_cube, numbers("i4", 4, 2, 32), np.zeros((4, 2, best), "i4"), 4, 2, 32, best, warps=warps)


@pytest.mark.parametrize("warps", WARPS)
def test_topk_by_sorting_all(check, warps, monkeypatch):
    monkeypatch.setattr(sort_topk, "WRITTEN_OUT", 0)
    check_best(check, numbers("f4", 8, 64), 16, True, warps)


@triton.jit
def best_in_turn(x, o, N: tl.constexpr, K: tl.constexpr):
    """The best so far meet the next elements."""
    at = tl.arange(0, K)
    best = tl.topk(tl.load(x + tl.arange(0, N)), K)
    for start in range(N, 4 * N, N):
        more = tl.topk(tl.load(x + start + tl.arange(0, N)), K)
        best = tl.topk(tl.ravel(tl.join(best, more)), K)
    tl.store(o + at, best)


@pytest.mark.parametrize("warps", WARPS)
def test_topk_in_a_loop(check, warps):
    check(best_in_turn, numbers("i4", 1024), np.zeros(8, "i4"), 256, 8, warps=warps)


@triton.jit
def best_of_what_was_not_loaded(o, N: tl.constexpr, K: tl.constexpr):
    tl.store(o + tl.arange(0, K), tl.topk((tl.arange(0, N) * 37) % N, K))


def test_topk_of_what_was_not_loaded(check):
    check(best_of_what_was_not_loaded, np.zeros(8, "i4"), 1024, 8)


@pytest.mark.parametrize("best", [2, 8, 32])
def test_topk_of_large_tiles_does_not_take_long_to_assemble(best):
    """A network of 128 registers of 64 bits: that for the first 32 would take three times as many."""
    x = np.zeros(1, "i8")
    text, _ = emulator.llvm_of(module_of(best_of_rows, (x, x, 64, 64, best, True))[0], 90, num_warps=1)
    assert len(text.splitlines()) < 5000
