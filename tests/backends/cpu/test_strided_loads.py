"""Loads and stores whose stride is known at run time: elements that are broadcast, rows, and any others."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import guarded


@triton.jit(do_not_specialize=["stride", "step"])
def gathered(x_ptr, o_ptr, n, stride, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + i * step + j * stride, mask=j < n, other=5)
    tl.store(o_ptr + i * BLOCK + j, x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i8", "?"])
@pytest.mark.parametrize("n", [64, 61, 1, 0])
@pytest.mark.parametrize("stride", [0, 1, 2, -1, 7])
def test_any_stride(dtype, n, stride):
    x = (np.arange(4 * 512) * 37 % 101 - 50).astype(dtype)
    start, step = 64, 500
    out = np.zeros((4, 64), dtype)
    gathered[1,](x[start:], out, n, stride, step, 64)
    j = np.arange(64)
    expected = np.where(j < n, x[start + np.arange(4)[:, None] * step + np.minimum(j, max(n - 1, 0)) * stride],
                        np.array(5).astype(dtype))
    np.testing.assert_array_equal(out, expected)


@triton.jit(do_not_specialize=["stride", "step"])
def scattered(x_ptr, o_ptr, n, stride, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    tl.store(o_ptr + i * step + j * stride, tl.load(x_ptr + i * BLOCK + j), mask=j < n)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
@pytest.mark.parametrize("n", [64, 61, 1, 0])
@pytest.mark.parametrize("stride", [1, 2, -1, 7])
def test_stores_with_any_stride(dtype, n, stride):
    x = (np.arange(4 * 64).reshape(4, 64) * 37 % 101 - 50).astype(dtype)
    out = np.full(4 * 512, 9, dtype)
    expected, start, step = out.copy(), 64, 500
    scattered[1,](x, out[start:], n, stride, step, 64)
    expected[start + np.arange(4)[:, None] * step + np.arange(n) * stride] = x[:, :n]
    np.testing.assert_array_equal(out, expected)


def test_lanes_at_one_address_are_one_load():
    """A chunk of a broadcast tensor is gathered only if its stride is neither 0 nor 1."""
    x = np.zeros(1, np.float32)
    text = gathered.warmup(x, x, 64, 0, 500, 64, grid=(1,)).asm["llir"]
    assert "icmp ule i64" in text and "llvm.masked.gather" in text


@triton.jit
def picked(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i)
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=-7))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8"])
@pytest.mark.parametrize("n", [0, 1, 50])
@pytest.mark.parametrize("size", [16, 128])
def test_elements_outside_of_a_mask_are_not_touched(dtype, n, size):
    x, rng = guarded(np.arange(50).astype(dtype)), np.random.default_rng(n)
    index, out = rng.integers(-30, 3000, size).astype(np.int32), np.zeros(size, dtype)
    index[::3] %= 50
    picked[1,](x, index, out, n, size)
    inside = (index >= 0) & (index < n)
    np.testing.assert_array_equal(out, np.where(inside, x[np.where(inside, index, 0)], -7))
