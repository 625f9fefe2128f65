"""Elementwise kernels that divide indices: chunks within a run are computed from its first element, others by lane."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import guarded
from tritium.backends.compiler import GPUTarget
from tritium.interp.eager import launch as interpret

rng = np.random.default_rng(0)


@triton.jit
def resampled(x_ptr, bias_ptr, out_ptr, begin, N, H, W, OH, OW, UP: tl.constexpr, DOWN: tl.constexpr,
              BLOCK: tl.constexpr):
    """Pixels of images H x W, UP times as many each way, then every DOWN'th, with a bias for each image."""
    i = begin + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image, row, column = i // (OH * OW), i // OW % OH, i % OW
    y, z = row * DOWN // UP - 1, column * DOWN // UP - 1
    inside = (y >= 0) & (y < H) & (z >= 0) & (z < W) & (i < N)
    x = tl.load(x_ptr + image * H * W + y * W + z, mask=inside, other=7)
    tl.store(out_ptr + i, x + tl.load(bias_ptr + image, mask=i < N, other=0), mask=i < N)


@pytest.mark.parametrize("up, down", [(1, 1), (2, 1), (1, 2), (4, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (2, 16), (2, 31), (3, 32), (5, 64), (2, 100), (1, 300)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_images_of_all_sizes(size, up, down, dtype):
    height, width = size
    out_height, out_width = max(1, height * up // down), max(1, width * up // down)
    n, begin = 3 * out_height * out_width, 0
    x = guarded(rng.integers(-9, 9, (3, height, width)).astype(dtype))
    bias = guarded(rng.integers(-9, 9, 3).astype(dtype))
    mine, theirs = (guarded(np.full(n, 99, dtype)) for _ in range(2))
    numbers, options = (begin, n, height, width, out_height, out_width), dict(UP=up, DOWN=down, BLOCK=256)
    grid = (-(-n // 256),)
    resampled[grid](x, bias, mine, *numbers, **options)
    interpret(resampled, grid, (x, bias, theirs, *numbers), options)
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def divided(out_ptr, other_ptr, begin, by, other, BLOCK: tl.constexpr):
    i, at = begin + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    tl.store(out_ptr + at, i // by * 1000 + i % by + i % by // 2 + i % by % 4 * 100)
    tl.store(other_ptr + at, i // (by * other) + i // by % other * 3 + i % (by * other) // by)


@triton.jit
def by_numbers(out_ptr, begin, by, BY: tl.constexpr, BLOCK: tl.constexpr):
    i = begin + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), i // by + i % by // BY * 7 + i % by % BY * 100)


@pytest.mark.parametrize("by", [0, 1, -4, 3, 8, 32])
@pytest.mark.parametrize("begin", [0, 3, -64])
def test_small_numbers(by, begin):
    mine, theirs = np.zeros(512, np.int32), np.zeros(512, np.int32)
    by_numbers[(1,)](mine, begin, 96, BY=by, BLOCK=512)
    interpret(by_numbers, (1,), (theirs, begin, 96), dict(BY=by, BLOCK=512))
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("begin", [0, 5, -100, -64, 1 << 20])
@pytest.mark.parametrize("by, other", [(0, 3), (1, 5), (16, 2), (33, 1), (64, 3), (100, 7), (-64, 2), (64, -2), (64, 0),
                                       (64, -1)])
def test_quotients_as_values(begin, by, other):
    mine, theirs = np.zeros((2, 512), np.int32), np.zeros((2, 512), np.int32)
    divided[(1,)](*mine, begin, by, other, BLOCK=512)
    interpret(divided, (1,), (*theirs, begin, by, other), dict(BLOCK=512))
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def reduced(x_ptr, sum_ptr, place_ptr, x_start, C, STRIDE, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + tl.arange(0, ROWS)[:, None] * 3
    x = tl.load(x_ptr + x_start + i // C * STRIDE + i % C)
    tl.store(sum_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.sum(x, 1))
    tl.store(place_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.argmax(x, 1))


@pytest.mark.parametrize("columns", [1, 7, 40, 64, 200])
def test_reductions_over_runs(columns):
    stride = columns + 3
    x = guarded(rng.integers(-99, 99, ((4 * 512 + 30) // columns + 1) * stride + 5).astype(np.float32))
    mine, places = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.int32)
    theirs, others = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.int32)
    reduced[(4,)](x, mine, places, 5, columns, stride, ROWS=8, BLOCK=512)
    interpret(reduced, (4,), (x, theirs, others, 5, columns, stride), dict(ROWS=8, BLOCK=512))
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(places, others)


@triton.jit
def pooled(x_ptr, out_ptr, C, TAPS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full([BLOCK], -100.0, tl.float32)
    for tap in range(TAPS):
        best = tl.maximum(best, tl.load(x_ptr + i // C * (C * 2 + TAPS) + i % C * 2 + tap))
    tl.store(out_ptr + i, best)


@pytest.mark.parametrize("columns", [1, 7, 40, 64, 200])
def test_tiles_that_a_loop_carries(columns):
    x = guarded(rng.integers(-99, 99, ((1023 // columns + 1) * (columns * 2 + 3))).astype(np.float32))
    mine, theirs = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    pooled[(4,)](x, mine, columns, 3, BLOCK=256)
    interpret(pooled, (4,), (x, theirs, columns, 3), dict(BLOCK=256))
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def in_place(x_ptr, scale_ptr, C, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * tl.load(scale_ptr + i // C) + tl.load(x_ptr + i // C * C))


@pytest.mark.parametrize("columns", [5, 64, 90])
def test_stores_over_what_is_read(columns):
    """Each element is computed once: rows are scaled in place. The first element of a row is read, then written."""
    x, scale = np.arange(1, 513, dtype=np.int32), np.arange(1, 200, dtype=np.int32)
    expected = x * scale[np.arange(512) // columns] + x[np.arange(512) // columns * columns]
    in_place[(1,)](x, scale, columns, BLOCK=512)
    np.testing.assert_array_equal(x, expected)


@triton.jit
def nibbles(out_ptr, packed_ptr, scale_ptr, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    value = (tl.load(packed_ptr + n // 2) >> (n % 2 * 4)) & 15
    tl.store(out_ptr + n, value.to(tl.float32) * tl.load(scale_ptr + n // 4))


def test_small_known_divisors():
    packed, scale, out = (guarded(x) for x in (rng.integers(0, 255, 128).astype(np.uint8),
                                               np.arange(64, dtype=np.float32), np.zeros(256, np.float32)))
    nibbles[(1,)](out, packed, scale, BLOCK=256)
    expected = np.stack([packed & 15, packed >> 4], 1).ravel() * scale.repeat(4)
    np.testing.assert_array_equal(out, expected)
    types = {"out_ptr": "*fp32", "packed_ptr": "*u8", "scale_ptr": "*fp32"}
    for level in ("aarch64", "x86-64-v3", "x86-64-v4"):
        source = triton.compiler.ASTSource(nibbles, types, {"BLOCK": 256})
        assert "gather" not in str(triton.compile(source, target=GPUTarget("cpu", level, 1)).asm["llir"])


@triton.jit
def by_two_divisors(x_ptr, out_ptr, W, S, N, COUNT, BLOCK: tl.constexpr):
    """A remainder that two loops share, beside rows of W: it is written to scratch memory when it is first needed."""
    i = tl.arange(0, BLOCK)
    at = i % S
    for k in range(COUNT):
        y = tl.load(x_ptr + (i // W) * S + at, i < N, other=0)
        tl.store(out_ptr + k * BLOCK + i // W * W + i % W, y + at, i < N)


@pytest.mark.parametrize("width, size", [(5, 7), (40, 64), (64, 40), (100, 30), (33, 300)])
def test_runs_of_two_divisors(width, size):
    x = guarded(rng.integers(-99, 99, 256 // width * size + size).astype(np.int32))
    mine, theirs = (guarded(np.full((3, 256), 99, np.int32)) for _ in range(2))
    by_two_divisors[(1,)](x, mine, width, size, 250, 3, BLOCK=256)
    interpret(by_two_divisors, (1,), (x, theirs, width, size, 250, 3), dict(BLOCK=256))
    np.testing.assert_array_equal(mine, theirs)


@triton.jit
def strided(x_ptr, out_ptr, W, N, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i // W * (W * STEP) + i % W * STEP, (i < N) & (i % W != 3), other=5)
    tl.store(out_ptr + i, x, i < N)


@pytest.mark.parametrize("step", [2, 3, -1])
@pytest.mark.parametrize("width", [8, 20, 90])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_some_lanes_of_small_strides(width, step, dtype):
    """Nothing outside of the array is read, though a vector that holds the lanes would reach there."""
    n = width * 5
    x = guarded(rng.integers(-99, 99, (n - 1) * abs(step) + 1).astype(dtype))
    first = x if step > 0 else x[-1:]
    mine, theirs = (np.full(n, 99, dtype) for _ in range(2))
    grid, options = (-(-n // 128),), dict(STEP=step, BLOCK=128)
    strided[grid](first, mine, width, n, **options)
    interpret(strided, grid, (first, theirs, width, n), options)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("level", ["x86-64-v4", "sapphirerapids"])
def test_chunks_end_with_runs(level):
    """Loads and stores are masked where a run ends: only the arm for short runs gathers."""
    types = {name: "*fp32" if name.endswith("_ptr") else "i32" for name in ("x_ptr", "out_ptr", "W", "N")}
    source = triton.compiler.ASTSource(strided, types, {"STEP": 1, "BLOCK": 256})
    text = str(triton.compile(source, target=GPUTarget("cpu", level, 1)).asm["llir"])
    assert "@llvm.masked.load.v32f32" in text and "@llvm.masked.store.v32f32" in text
