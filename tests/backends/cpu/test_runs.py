"""Tiles whose addresses count from one end of a line to the other: read and written a run at a time."""

import itertools

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import guarded
from tritium.backends.compiler import GPUTarget
from tritium.interp.eager import launch as interpret
from tritium.kernels.conv2d import conv_kernel


@triton.jit
def lines(x_ptr, y_ptr, out_ptr, begin, W, H, STRIDE, PLANE, N, K, M: tl.constexpr, BLOCK: tl.constexpr):
    """Products of windows of lines with y: `begin + m` is a position, of which W make a line and H lines an image."""
    m = begin + tl.program_id(0) * M + tl.arange(0, M)
    k = tl.arange(0, BLOCK)
    image, row, column = m // (W * H), m // W % H, m % W
    at = column[:, None] + (k % 3)[None, :] - 1
    inside = (k[None, :] < K) & (at >= 0) & (at < W) & (image[:, None] < 2)
    start = image[:, None] * PLANE + (k // 3)[None, :] * 5 + row[:, None] * STRIDE
    x = tl.load(x_ptr + start + at, mask=inside, other=0.5)
    y = tl.load(y_ptr + k[:, None] * N + tl.arange(0, BLOCK)[None, :], mask=k[:, None] < K, other=0.0)
    total = tl.dot(x * 2, y, input_precision="ieee")
    place = m % (W * H)
    tl.store(out_ptr + (image[:, None] * BLOCK + k[None, :]) * (W * H) + place[:, None], total,
             mask=(k[None, :] < N) & (image[:, None] < 2) & (m[:, None] >= 0))


def expected(x, y, width, height, stride, plane, n, taps, block):
    """The same in NumPy, and which elements are written."""
    out = np.zeros((2, block, height * width), np.float32)
    for image, row, column in np.ndindex(2, height, width):
        at = column + np.arange(taps) % 3 - 1
        values = x[np.clip(image * plane + np.arange(taps) // 3 * 5 + row * stride + at, 0, x.size - 1)]
        window = np.where((at >= 0) & (at < width), values, np.float32(0.5))
        out[image, :n, row * width + column] = (2 * window) @ y[:taps, :n]
    return out


@pytest.mark.parametrize("width, height", [(1, 40), (2, 3), (3, 11), (4, 8), (5, 7), (16, 4), (23, 5), (58, 3),
                                           (100, 2)])
@pytest.mark.parametrize("taps", [3, 8, 16])
def test_lines_of_all_lengths(width, height, taps):
    rng, block, stride = np.random.default_rng(width), 16, width + 3
    plane, n = stride * height + 1, 16 if width % 2 else 13
    x = rng.standard_normal(2 * plane + 40).astype(np.float32)
    y = rng.standard_normal((block, n)).astype(np.float32)
    padded = np.zeros(block * n + block, np.float32)
    padded[:y.size] = y.ravel()
    out = np.zeros((2, block, height * width), np.float32)
    positions = 2 * height * width
    lines[(-(-positions // 32),)](x, padded, out, 0, width, height, stride, plane, n, taps, M=32, BLOCK=block)
    np.testing.assert_allclose(out, expected(x, y, width, height, stride, plane, n, taps, block), rtol=1e-4, atol=1e-4)


def test_positions_below_zero_divide_towards_it():
    """Quotients and remainders turn around at zero: runs end there."""
    x, out = np.arange(200, dtype=np.float32), np.full((32, 4), -1, np.float32)
    moved[(1,)](x, out, -9, 5, 20, M=32, BLOCK=4)
    m = -9 + np.arange(32)
    at = np.fix(m / 5).astype(int) * 20 + np.fmod(m, 5).astype(int) + 60
    np.testing.assert_array_equal(out, x[at[:, None] + np.arange(4) % 3 * 2])


@pytest.mark.parametrize("width", [3, 16, 40, 64])
@pytest.mark.parametrize("limit", [-(2**31), -3, 0, 2, 39, 2**31 - 1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda t: t.__name__)
def test_windows_of_all_limits(width, limit, dtype):
    """Bounds from both sides, and conditions of rows and of lines beside them."""
    x, rows, taps = np.arange(300, dtype=dtype), 16, 11
    out = np.full((rows, 64), -1, dtype)
    windows[(1,)](x, out, width, limit, taps, M=64, BLOCK=rows)
    m, k = np.arange(64)[:, None], np.arange(rows)[None, :]
    at, line = m % width + k % 3 - 1, m // width + k // 3 - 2
    inside = (at >= 0) & (at < limit) & (line >= 0) & (line < 3) & (k < taps)
    np.testing.assert_array_equal(out.T, np.where(inside, x[np.clip(50 + line * width + at, 0, 299)], 0))


@triton.jit
def windows(x_ptr, out_ptr, W, LIMIT, K, M: tl.constexpr, BLOCK: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, BLOCK)
    line, at = (m // W)[:, None] + (k // 3)[None, :] - 2, (m % W)[:, None] + (k % 3)[None, :] - 1
    inside = (at >= 0) & (at < LIMIT) & (line >= 0) & (line < 3) & (k[None, :] < K)
    x = tl.load(x_ptr + 50 + line * W + at, mask=inside, other=0.0)
    wide: tl.constexpr = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    total = tl.dot(x.to(wide), _one(BLOCK).to(wide), input_precision="ieee")
    tl.store(out_ptr + k[None, :] * M + m[:, None], total)


@triton.jit
def moved(x_ptr, out_ptr, begin, W, STRIDE, M: tl.constexpr, BLOCK: tl.constexpr):
    m = begin + tl.arange(0, M)
    k = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + 60 + (m // W)[:, None] * STRIDE + (m % W)[:, None] + (k % 3 * 2)[None, :])
    tl.store(out_ptr + tl.arange(0, M)[:, None] * BLOCK + k[None, :], tl.dot(x, _one(BLOCK), input_precision="ieee"))


@triton.jit
def _one(BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    return tl.where(k[:, None] == k[None, :], 1.0, 0.0)


@pytest.mark.parametrize("level", ["aarch64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_nothing_is_gathered(level):
    """Masks are those of AVX-512, of chunks at a line's end."""
    names = ("x_ptr", "y_ptr", "out_ptr", "begin", "W", "H", "STRIDE", "PLANE", "N", "K")
    types = {name: "*fp32" if name.endswith("_ptr") else "i32" for name in names}
    source = triton.compiler.ASTSource(lines, types, {"M": 32, "BLOCK": 16})
    text = str(triton.compile(source, target=GPUTarget("cpu", level, 1)).asm["llir"])
    assert not any(word in text for word in ("gather", "scatter", "extractelement"))
    assert ("masked." in text) == (level == "x86-64-v4")


# images, channels, height, width, filters, size of a filter, step, padding
IMAGES = [(1, 3, 5, 5, 4, 3, 1, 1), (2, 2, 7, 9, 5, 3, 1, 2), (1, 2, 4, 40, 3, 1, 1, 0), (2, 1, 3, 70, 17, 3, 1, 1),
          (1, 2, 9, 11, 4, 3, 2, 1), (1, 1, 1, 1, 1, 1, 1, 0), (2, 3, 6, 17, 16, 3, 1, 0), (1, 4, 2, 2, 3, 3, 1, 1),
          (3, 1, 16, 16, 2, 5, 1, 2), (1, 2, 12, 13, 4, 3, 3, 0)]


@pytest.mark.parametrize("images", IMAGES, ids=str)
@pytest.mark.parametrize("blocks", [(64, 32, 32), (16, 16, 16), (128, 4, 8)], ids=str)
def test_convolutions_of_odd_sizes(images, blocks):
    count, channels, height, width, filters, size, step, pad = images
    rng = np.random.default_rng(width)
    x = guarded(rng.integers(-4, 5, (count, channels, height, width)).astype(np.float32))
    weight = guarded(rng.integers(-4, 5, (filters, channels, size, size)).astype(np.float32))
    out_h, out_w = ((n + 2 * pad - size) // step + 1 for n in (height, width))
    mine, theirs = (guarded(np.full((count, filters, out_h, out_w), -1, np.float32)) for _ in range(2))
    grid = (-(-count * out_h * out_w // blocks[0]), -(-filters // blocks[1]))
    scalars = (count, channels, height, width, filters, out_h, out_w, step, pad)
    options = dict(KH=size, KW=size, BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2])
    conv_kernel[grid](x, weight, mine, *scalars, **options)
    interpret(conv_kernel, grid, (x, weight, theirs, *scalars), options)
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def scaled(x_ptr, w_ptr, scale_ptr, bias_ptr, out_ptr, W, STRIDE, N, K, M: tl.constexpr, BLOCK: tl.constexpr):
    """Lines in half precision times columns, plus what the output holds, scaled by position and biased by row."""
    m, k = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, BLOCK)
    inside = (m[:, None] < N) & (k[None, :] < K)
    x = tl.load(x_ptr + (m // W * STRIDE + m % W)[:, None] + k[None, :] * 3, mask=inside, other=1.0)
    x = x.to(tl.float32) * tl.load(scale_ptr + m, mask=m < N, other=0.0)[:, None] + 1.0
    w = tl.load(w_ptr + k[:, None] + k[None, :] * BLOCK)
    places = out_ptr + k[None, :] * (N + 5) + m[:, None]
    total = tl.load(places, mask=m[:, None] < N, other=0.0)
    total = tl.dot(x, w, total, input_precision="ieee") + tl.load(bias_ptr + k)[None, :]
    tl.store(places, tl.maximum(total, 0.0), mask=m[:, None] < N)


@pytest.mark.parametrize("width, count, taps", [*itertools.product((1, 5, 16, 37), (64, 71), (0, 5, 16))])
def test_what_is_computed_on_the_way(width, count, taps):
    rng, block, stride = np.random.default_rng(width), 16, width + 2
    x = rng.integers(-4, 5, count // width * stride + width + 64).astype(np.float16)
    w, scale, bias = (rng.integers(-4, 5, n).astype(np.float32) for n in ((block, block), count, block))
    mine = rng.integers(-4, 5, (block, count + 5)).astype(np.float32)
    theirs, grid, options = mine.copy(), (-(-count // 32),), dict(M=32, BLOCK=block)
    scaled[grid](x, w, scale, bias, mine, width, stride, count, taps, **options)
    interpret(scaled, grid, (x, w, scale, bias, theirs, width, stride, count, taps), options)
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def product(x_ptr, y_ptr, out_ptr, K, BOTH: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + i * BLOCK + j, mask=j < K, other=0.0)
    y = tl.load(y_ptr + i * BLOCK + j, mask=i < K, other=0.0) if BOTH else tl.load(y_ptr + i * BLOCK + j)
    tl.store(out_ptr + i * BLOCK + j, tl.dot(x, y, input_precision="ieee"))


@pytest.mark.parametrize("depth", [-3, 0, 1, 6, 16, 20])
@pytest.mark.parametrize("both", [False, True])
def test_zeros_beyond_both_masks_are_not_multiplied(depth, both):
    """Zero times what is not finite is not zero, so both operands must be."""
    x, y = np.arange(256, dtype=np.float32).reshape(16, 16) - 100, np.arange(256, dtype=np.float32).reshape(16, 16)
    y[max(depth, 0):] = np.inf
    mine, theirs = (np.full((16, 16), -1, np.float32) for _ in range(2))
    product[(1,)](x, y, mine, depth, BOTH=both, BLOCK=16)
    interpret(product, (1,), (x, y, theirs, depth), dict(BOTH=both, BLOCK=16))
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def ranks(x_ptr, y_ptr, out_ptr, sums_ptr, begin, W, STRIDE, N, M: tl.constexpr, FIXED: tl.constexpr):
    """A line in one axis, lines in three, and lines that end elsewhere in each row."""
    i, j, k = tl.arange(0, 2)[:, None, None], tl.arange(0, 16)[None, :, None], tl.arange(0, M)[None, None, :]
    m = begin + tl.arange(0, M).to(tl.int64)
    line = tl.load(x_ptr + m // W * STRIDE + m % W, mask=m % W < N, other=-1.0)
    tl.store(sums_ptr + tl.arange(0, M), tl.cumsum(line, 0))
    three = begin + k
    lhs = tl.load(y_ptr + i * 256 + j * 16 + tl.arange(0, 16)[None, None, :])
    rhs = tl.load(x_ptr + i * 3 + j * 7 + three // W * STRIDE + three % W)
    total = tl.dot(lhs, rhs, input_precision="ieee")
    each = begin + j * 5 + k
    rhs = tl.load(x_ptr + i * 3 + each // FIXED * STRIDE + each % FIXED, mask=each % FIXED > 1, other=2.0)
    total = tl.dot(lhs, rhs, total, input_precision="ieee")
    tl.store(out_ptr + (i * 16 + j) * M + k, total)


@pytest.mark.parametrize("width, count", [(1, 1), (7, 3), (16, 16), (33, 30), (1000, 70)])
@pytest.mark.parametrize("fixed", [8, 13, 16])
def test_lines_of_all_ranks(width, count, fixed):
    rng, stride = np.random.default_rng(width), width + 1
    x = rng.integers(-4, 5, 20_000).astype(np.float32)
    y = rng.integers(-4, 5, (2, 16, 16)).astype(np.float32)
    results, options = [], dict(M=64, FIXED=fixed)
    for run in (lambda *args: ranks[(1,)](*args, **options), lambda *args: interpret(ranks, (1,), args, options)):
        out, sums = np.zeros((2, 16, 64), np.float32), np.zeros(64, np.float32)
        run(x, y, out, sums, 5, width, stride, count)
        results.append((out, sums))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@triton.jit
def wrapped(x_ptr, out_ptr, begin, n, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M)[:, None], tl.arange(0, K)[None, :]
    x = tl.load(x_ptr + (begin + m + k * M) % n)
    tl.debug_barrier()
    tl.store(out_ptr + m * K + k, x)


@pytest.mark.parametrize("begin", [0, 118, 297])
@pytest.mark.parametrize("n", [9, 32, 300])
def test_runs_of_columns_end_at_different_rows(begin, n):
    x, out = np.arange(n, dtype=np.int32), np.full((8, 32), -1, np.int32)
    wrapped[(1,)](x, out, begin, n, M=8, K=32)
    assert np.array_equal(out, (begin + np.arange(8)[:, None] + np.arange(32) * 8) % n)
