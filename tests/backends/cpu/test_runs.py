"""Tiles whose addresses count from one end of a line to the other: read and written a run at a time on AArch64."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget


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


def test_only_processors_without_gathers_look_for_runs():
    def text(level):
        names = ("x_ptr", "y_ptr", "out_ptr", "begin", "W", "H", "STRIDE", "PLANE", "N", "K")
        types = {name: "*fp32" if name.endswith("_ptr") else "i32" for name in names}
        source = triton.compiler.ASTSource(lines, types, {"M": 32, "BLOCK": 16})
        return triton.compile(source, target=GPUTarget("cpu", level, 1)).asm["llir"]

    assert "masked.gather" not in text("aarch64") and "masked.gather" in text("x86-64-v3")
