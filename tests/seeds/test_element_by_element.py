"""Kernels written one element at a time: loops with continue, x[i], x[i] = v, comprehensions (S09, S10, S24)."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.kernels import conv2d, max_pool


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@triton.jit
def conv2d_kernel(input_ptr, filter_ptr, output_ptr, input_h, input_w, filter_h, filter_w, output_h, output_w,
                  stride_ih, stride_iw, stride_oh, stride_ow, BLOCK_SIZE_H: tl.constexpr, BLOCK_SIZE_W: tl.constexpr):
    pid_h = tl.program_id(0)
    pid_w = tl.program_id(1)
    h_start = pid_h * BLOCK_SIZE_H
    w_start = pid_w * BLOCK_SIZE_W
    for h in range(BLOCK_SIZE_H):
        for w in range(BLOCK_SIZE_W):
            if h + h_start >= output_h or w + w_start >= output_w:
                continue
            acc = tl.zeros((1, 1), dtype=tl.float32)
            for fh in range(filter_h):
                for fw in range(filter_w):
                    ih = h + h_start + fh
                    iw = w + w_start + fw
                    if ih < input_h and iw < input_w:
                        input_val = tl.load(input_ptr + ih * stride_ih + iw * stride_iw)
                        filter_val = tl.load(filter_ptr + fh * filter_w + fw)
                        acc += input_val * filter_val
            out_pos = (h + h_start) * stride_oh + (w + w_start) * stride_ow
            tl.store(output_ptr + out_pos, acc)


@pytest.mark.parametrize("shape, taps", [((10, 13), (3, 3)), ((5, 5), (1, 2))])
def test_convolution_with_continue(rng, shape, taps):
    x, weight = rng.standard_normal(shape, dtype=np.float32), rng.standard_normal(taps, dtype=np.float32)
    out = np.zeros((shape[0] - taps[0] + 1, shape[1] - taps[1] + 1), np.float32)
    grid = (triton.cdiv(out.shape[0], 4), triton.cdiv(out.shape[1], 4))
    conv2d_kernel[grid](x, weight, out, *shape, *taps, *out.shape, shape[1], 1, out.shape[1], 1, BLOCK_SIZE_H=4,
                        BLOCK_SIZE_W=4)
    np.testing.assert_allclose(out, conv2d.reference_filter(x.astype(np.float64), weight), rtol=1e-5, atol=1e-5)


@triton.jit
def pooling_kernel(input_ptr, output_ptr, input_h, input_w, output_h, output_w, window_h, window_w, stride,
                   BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    start_idx = pid * BLOCK_SIZE
    offsets = start_idx + tl.arange(0, BLOCK_SIZE)
    out_h = offsets // output_w
    out_w = offsets % output_w
    mask = (out_h < output_h) & (out_w < output_w)
    results = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for i in range(BLOCK_SIZE):
        if not mask[i]:
            continue
        in_h_start = out_h[i] * stride
        in_w_start = out_w[i] * stride
        max_val = tl.zeros((1,), dtype=tl.float32) - float("inf")
        for h in range(window_h):
            for w in range(window_w):
                ih = in_h_start + h
                iw = in_w_start + w
                if ih < input_h and iw < input_w:
                    val = tl.load(input_ptr + ih * input_w + iw)
                    max_val = tl.maximum(max_val, val)
        results[i] = max_val
    tl.store(output_ptr + offsets, results, mask=mask)


@pytest.mark.parametrize("shape, window, stride", [((9, 11), 3, 2), ((6, 6), 2, 2)])
def test_pooling_with_indices(rng, shape, window, stride):
    x = rng.standard_normal(shape, dtype=np.float32) - 3
    expected = max_pool.reference(x, window, stride)
    out = np.zeros(expected.shape, np.float32)
    pooling_kernel[(triton.cdiv(out.size, 16),)](x, out, *shape, *out.shape, window, window, stride, BLOCK_SIZE=16)
    assert np.array_equal(out, expected)


@triton.jit
def padded_copy_kernel(input_ptr, output_ptr, stride_row, stride_col, BLOCK_SIZE: tl.constexpr, PAD: tl.constexpr):
    row_offs = tl.arange(0, BLOCK_SIZE)[:, None]
    col_offs = tl.arange(0, BLOCK_SIZE)[None, :]
    data = tl.load(input_ptr + row_offs * stride_row + col_offs * stride_col)
    for i in range(BLOCK_SIZE):
        for j in range(BLOCK_SIZE):
            tl.store(output_ptr + i * (BLOCK_SIZE + PAD) + j, data[i, j])


def test_rows_padded_apart(rng):
    x = rng.standard_normal((8, 8), dtype=np.float32)
    out = np.full((8, 9), -1, np.float32)
    padded_copy_kernel[(1,)](x, out, 8, 1, BLOCK_SIZE=8, PAD=1)
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


@triton.jit
def double_buffer_kernel(ptr, out_ptr, num_chunks, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    buffer_a = tl.load(ptr + offsets)
    for i in range(1, num_chunks):
        buffer_b = tl.load(ptr + i * BLOCK_SIZE + offsets)
        tl.store(out_ptr + (i - 1) * BLOCK_SIZE + offsets, buffer_a * 2.0)
        buffer_a, buffer_b = buffer_b, buffer_a
    tl.store(out_ptr + (num_chunks - 1) * BLOCK_SIZE + offsets, buffer_a * 2.0)


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_double_buffering(rng, chunks):
    x = rng.standard_normal(chunks * 32, dtype=np.float32)
    out = np.empty_like(x)
    double_buffer_kernel[(1,)](x, out, chunks, BLOCK_SIZE=32)
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
