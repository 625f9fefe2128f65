"""Kernels written one element at a time: loops with continue, x[i], x[i] = v, comprehensions (S09, S10, S24)."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.seeds.examples import example
from tritium.kernels import conv2d, max_pool


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("shape, taps", [((10, 13), (3, 3)), ((5, 5), (1, 2))])
def test_convolution_with_continue(rng, shape, taps):
    x, weight = rng.standard_normal(shape, dtype=np.float32), rng.standard_normal(taps, dtype=np.float32)
    out = np.zeros((shape[0] - taps[0] + 1, shape[1] - taps[1] + 1), np.float32)
    grid = (triton.cdiv(out.shape[0], 4), triton.cdiv(out.shape[1], 4))
    example("convolution").conv2d_kernel[grid](x, weight, out, *shape, *taps, *out.shape, shape[1], 1, out.shape[1], 1,
                                               BLOCK_SIZE_H=4, BLOCK_SIZE_W=4)
    np.testing.assert_allclose(out, conv2d.reference_filter(x.astype(np.float64), weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape, window, stride", [((9, 11), 3, 2), ((6, 6), 2, 2)])
def test_pooling_with_indices(rng, shape, window, stride):
    x = rng.standard_normal(shape, dtype=np.float32) - 3
    expected = max_pool.reference(x, window, stride)
    out = np.zeros(expected.shape, np.float32)
    grid = (triton.cdiv(out.size, 16),)
    example("pooling").pooling_kernel[grid](x, out, *shape, *out.shape, window, window, stride, BLOCK_SIZE=16)
    assert np.array_equal(out, expected)


def test_rows_padded_apart(rng):
    x = rng.standard_normal((8, 8), dtype=np.float32)
    out = np.full((8, 9), -1, np.float32)
    example("addresses").padded_kernel[(1,)](x, out, 8, 1, BLOCK_SIZE=8, PAD=1)
    assert np.array_equal(out[:, :8], x) and (out[:, 8] == -1).all()


@triton.jit
def aligned_kernel(ptr, out_ptr, size: tl.constexpr):
    is_aligned = (ptr % 16) == 0
    if is_aligned:
        total = tl.sum(tl.load(ptr + tl.arange(0, size)), axis=0)
    else:
        individual = [tl.load(ptr + i) for i in range(size)]
        total = individual[0]
        for i in tl.static_range(1, size):
            total += individual[i]
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, is_aligned.to(tl.float32))


@pytest.mark.parametrize("start", [0, 1])
def test_alignment(rng, start):
    buffer = np.zeros(64, np.float32)
    first = -(buffer.ctypes.data // 4) % 4  # the first element at a multiple of 16 bytes
    x = buffer[first + start:first + start + 8]
    x[:] = np.arange(8)
    out = np.zeros(2, np.float32)
    aligned_kernel[(1,)](x, out, size=8)
    assert out.tolist() == [28.0, 1.0 - start]


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_double_buffering(rng, chunks):
    x = rng.standard_normal(chunks * 32, dtype=np.float32)
    out = np.empty_like(x)
    example("double_buffering").double_buffer_kernel[(1,)](x, out, x.size, chunks, BLOCK_SIZE=32)
    assert np.array_equal(out, x * 2)


@triton.jit
def first_above_kernel(x_ptr, out_ptr, n, limit):
    at = -1
    for i in range(n):
        if tl.load(x_ptr + i) > limit:
            at = i
            break
    tl.store(out_ptr, at)
    if at < 0:
        return
    tl.store(out_ptr + 1, 1)


@pytest.mark.parametrize("limit, expected", [(2.5, [3, 1]), (100.0, [-1, 0])])
def test_break_and_early_return(limit, expected):
    out = np.zeros(2, np.int32)
    first_above_kernel[(1,)](np.arange(10, dtype=np.float32), out, 10, limit)
    assert out.tolist() == expected


@triton.jit
def transpose_by_rows_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        j = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + j, mask=j < cols)
        tl.store(out_ptr + j * rows + row, x, mask=j < cols)


def test_transposing_row_by_row(rng):
    x = rng.standard_normal((20, 50), dtype=np.float32)
    out = np.empty((50, 20), np.float32)
    transpose_by_rows_kernel[(20,)](x, out, 20, 50, BLOCK=16)
    assert np.array_equal(out, x.T)
