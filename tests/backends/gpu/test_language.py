"""Kernels that move elements between threads, on the emulated GPU, and on a real one where there is one.

Each is compared with the interpreter, for tiles of many shapes, any number of warps and every architecture.
"""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import WARPS, numbers, rng
from tritium.insight import emulator

pytestmark = pytest.mark.sampled

bf16, e4m3, e5m2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


# --- places -----------------------------------------------------------------------------------------------------------
@triton.jit
def rows_by_index(x, index, o, t, rows, N: tl.constexpr, K: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, K)
    here = n < rows
    row = tl.load(index + n, mask=here, other=0).to(tl.int64) * K
    a = tl.load(x + row[:, None] + k[None, :], mask=here[:, None] & (k < K - 1)[None, :], other=-1)
    b = tl.load(x + row[None, :] + k[:, None], mask=here[None, :] & (k > 0)[:, None], other=-2)
    tl.store(o + n[:, None] * K + k[None, :], a - 2 * tl.trans(b))
    tl.store(t + row[None, :] + k[:, None], b, mask=here[None, :])


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("shape", [(1, 64), (16, 16), (64, 32), (32, 128)])
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4"])
def test_rows_by_a_loaded_index(check, shape, dtype, warps):
    x, index = numbers(dtype, *shape), rng.permutation(shape[0]).astype("i4")
    rows = max(1, shape[0] - 3)
    check(rows_by_index, x, index, np.zeros(shape, dtype), np.zeros(shape, dtype), rows, *shape, warps=warps)


@triton.jit
def sum_of_pages(x, table, scale, o, length, N: tl.constexpr, K: tl.constexpr, PAGE: tl.constexpr, TURN: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, K)
    factor = tl.load(scale + k).to(tl.float32)
    total = tl.zeros((K, N) if TURN else (N, K), tl.float32)
    for start in range(0, length, N):
        at = start + n
        row = tl.load(table + at // PAGE, mask=at < length, other=0).to(tl.int64) * PAGE + at % PAGE
        if TURN:
            y = tl.load(x + row[None, :] * K + k[:, None], mask=(at < length)[None, :], other=0)
            total += y * factor[:, None]
        else:
            y = tl.load(x + row[:, None] * K + k[None, :], mask=(at < length)[:, None], other=0)
            total += y * factor[None, :]
    tl.store(o + tl.arange(0, N * K), tl.reshape(total, (N * K,)))


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize(("arch", "warps"), [(80, 4), (90, 1), (90, 4)])
def test_pages_by_a_loaded_table(check, arch, warps, turn):
    x, table = numbers("f2", 24 * 4, 32), rng.permutation(24).astype("i4")
    out = np.zeros(16 * 32, "f4")
    check(sum_of_pages, x, table, numbers("f2", 32), out, 85, 16, 32, 4, turn, arch=arch, warps=warps)


@triton.jit
def product_with_scales(a, b, s, r, o, K: tl.constexpr):
    k = tl.arange(0, K)
    at = k[:, None] * K + k[None, :]
    total = tl.dot(tl.load(a + at), tl.load(b + at))
    scale = tl.load(s + k)
    tl.store(o + at, scale[:, None] * scale[None, :] + total + tl.load(r + at).to(tl.float32))


@pytest.mark.parametrize(("arch", "warps"), [(80, 4), (90, 1), (90, 4)])
def test_product_with_scales_of_rows_and_columns(check, arch, warps):
    tiles = [numbers("f2", 64, 64) for _ in range(3)]
    check(product_with_scales, *tiles[:2], numbers("f4", 64), tiles[2], np.zeros((64, 64), "f4"), 64, arch=arch,
          warps=warps)  # fmt: skip


@triton.jit
def sum_and_greatest(a, b, c, d):
    return a + c, tl.maximum(b, d)


@triton.jit
def reduce_spread_and_loaded(x, w, o, p, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    spread = tl.broadcast_to(tl.load(w + m)[:, None], (M, K))
    total, greatest = tl.reduce((spread, tl.load(x + k[None, :] * M + m[:, None])), 1, sum_and_greatest)
    tl.store(o + m, total)
    tl.store(p + m, greatest)


@pytest.mark.parametrize("warps", WARPS)
def test_reduction_of_a_spread_and_a_loaded_tile(check, warps):
    outs = np.zeros(64, "f4"), np.zeros(64, "f4")
    check(reduce_spread_and_loaded, numbers("f4", 32, 64), numbers("f4", 64), *outs, 64, 32, warps=warps)


# --- shapes -----------------------------------------------------------------------------------------------------------
@triton.jit
def shuffle(x, o, q, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    a, b = tl.split(tl.reshape(tl.load(x + i), (K, M // 2, 2)))
    tl.store(o + i, tl.reshape(tl.permute(tl.join(b, a), (2, 0, 1)), (M, K)))
    mixed = tl.interleave(tl.reshape(a, (M * K // 2,)), tl.reshape(b, (M * K // 2,)))
    tl.store(q + tl.arange(0, M * K), tl.reshape(tl.trans(tl.reshape(mixed, (M, K))), (M * K,)))


@triton.jit
def pair_of_scalars(x, o):
    a, b = tl.load(x), tl.load(x + 1)
    tl.store(o + tl.arange(0, 2), tl.interleave(b, a))
    first, second = tl.split(tl.join(a, b))
    tl.store(o + 2, second)
    tl.store(o + 3, first)


@triton.jit
def gather_rows(x, index, o, M: tl.constexpr, K: tl.constexpr, MI: tl.constexpr, KI: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    j = tl.arange(0, MI)[:, None] * KI + tl.arange(0, KI)[None, :]
    tl.store(o + j, tl.gather(tl.load(x + i), tl.load(index + j), AXIS))


@triton.jit
def count(x, o, h, N: tl.constexpr, BINS: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(o + tl.arange(0, BINS), tl.histogram(v & (BINS - 1), BINS))
    tl.store(h + tl.arange(0, BINS), tl.histogram(v & (BINS - 1), BINS, mask=v > 0))


@triton.jit
def cross(a0, a1, b0, b1):
    return a1 + b1, a0 - b0


@triton.jit
def map_pairs(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.map_elementwise(cross, tl.load(x + i), tl.load(y + i), pack=2))


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("dtype", ["i1", "f4", "f8", bf16], ids=str)
@pytest.mark.parametrize("shape", [(2, 2), (4, 8), (64, 64)])
def test_shapes(check, shape, dtype, warps):
    x = numbers(dtype, *shape)
    check(shuffle, x, np.zeros_like(x), np.zeros_like(x), *shape, warps=warps)


@pytest.mark.parametrize("warps", WARPS)
def test_scalars_side_by_side(check, warps):
    check(pair_of_scalars, numbers("i4", 2), np.zeros(4, "i4"), warps=warps)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("shape", "many"), [((8, 16), 4), ((1, 64), 64), ((64, 2), 16)])
def test_gather(check, shape, many, axis, warps):
    wanted = (many, shape[1]) if axis == 0 else (shape[0], many)
    index = rng.integers(0, shape[axis], wanted).astype("i4")
    check(gather_rows, numbers("f4", *shape), index, np.zeros(wanted, "f4"), *shape, *wanted, axis, warps=warps)


@pytest.mark.parametrize("dtype", [bool, "i1", "f2", "f8"], ids=str)
def test_gather_of_every_type(check, dtype):
    index = rng.integers(0, 16, (8, 32)).astype("i8")
    check(gather_rows, numbers(dtype, 8, 16), index, np.zeros((8, 32), dtype), 8, 16, 8, 32, 1)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize(("n", "bins"), [(1, 2), (32, 16), (512, 256)])
def test_histogram(check, n, bins, warps):
    check(count, numbers("i4", n), np.zeros(bins, "i4"), np.zeros(bins, "i4"), n, bins, warps=warps)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("n", [2, 64, 1024])
def test_map_of_pairs(check, n, warps):
    check(map_pairs, numbers("f4", n), numbers("f4", n), np.zeros(n, "f4"), n, warps=warps)


@triton.jit
def turn(x, o, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(o + j * M + i, tl.load(x + i * N + j))


@pytest.mark.parametrize(("arch", "shape"), [(75, (256, 128)), (90, (256, 256)), (90, (64, 64))])
def test_tiles_larger_than_shared_memory_are_converted_in_pieces(check, arch, shape):
    check(turn, numbers("f4", *shape), np.zeros(shape[::-1], "f4"), *shape, arch=arch, warps=8)


@triton.jit
def shifted(x, o, n, k, N: tl.constexpr, START: tl.constexpr):
    i = tl.arange(START, START + N)
    tl.store(o + i, tl.load(x + 2 * N + k * N + i, mask=i < n, other=-1))
    tl.store(o + 4 * N + i, tl.load(x + (k * N + i) + 2 * N))
    tl.store(o + 8 * N + i, tl.load(x + (k * 8 + i).to(tl.int64) + 2 * N))
    tl.store(o + 12 * N + i, tl.load(x + (k * (2 * N) + i.to(tl.uint32)).to(tl.int32) + 4 * N))


@pytest.mark.parametrize("start", [0, 256, 12])
@pytest.mark.parametrize("k", [-1, 0, 1])
def test_elements_at_one_address_and_a_number(check, k, start):
    check(shifted, numbers("i4", 2304), np.zeros(4352, "i4"), start + 201, k, 256, start, warps=1)


# --- atomics ----------------------------------------------------------------------------------------------------------
@triton.jit
def gather_sums(x, o, e, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_add(o + i % 4, v)
    tl.atomic_add(o + 4 + i % 4, v, mask=i % 3 == 0)
    tl.store(e + i, tl.atomic_add(o + 8 + i, v))


@triton.jit
def extremes(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_max(o + i % 4, v)
    tl.atomic_min(o + 4 + i % 4, v)


@pytest.mark.parametrize("arch", [75, 80, 90])
@pytest.mark.parametrize("dtype", ["f2", bf16, "f4", "f8", "i4", "u8"], ids=str)
def test_atomic_sums(check, dtype, arch):
    small = rng.integers(0, 4, 64).astype(dtype)
    check(gather_sums, small, np.zeros(72, dtype), np.zeros(64, dtype), 64, arch=arch)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u4", "i8"], ids=str)
def test_atomic_extremes(check, dtype):
    check(extremes, numbers(dtype, 64), numbers(dtype, 8), 64)


@triton.jit
def add_rows(x, ids, keep, o, e, n, M: tl.constexpr, N: tl.constexpr, DOWN: tl.constexpr, SEM: tl.constexpr,
             WANTED: tl.constexpr):  # fmt: skip
    r, c = (tl.arange(0, M)[None, :], tl.arange(0, N)[:, None]) if DOWN else (
        tl.arange(0, M)[:, None], tl.arange(0, N)[None, :])  # fmt: skip
    old = tl.atomic_add(o + tl.load(ids + r) * N + c, tl.load(x + r * N + c), tl.load(keep + r) & (c < n), sem=SEM)
    if WANTED:
        tl.store(e + r * N + c, old)


ROWS = {"plain": (4, 64, 64, False), "odd": (4, 64, 43, False), "few": (1, 32, 32, False), "down": (8, 32, 32, True),
        "part": (4, 128, 80, False), "many": (32, 64, 64, False)}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("arch", [75, 80, 90])
@pytest.mark.parametrize("dtype", ["f2", bf16, "f4"], ids=str)
def test_atomic_sums_of_neighbours(check, dtype, arch, case):
    """Rows of a matrix, some of them left out: several elements by one instruction where they are aligned."""
    m, n, end, down = ROWS[case]
    small = lambda *shape: rng.integers(-4, 4, shape).astype(dtype)
    keep, warps = rng.integers(0, 4, m) != 0, 1 if case == "many" else 4
    ways = [("relaxed", False, 0), ("acq_rel", False, 0), ("acquire", True, 0), ("release", False, 1)]
    for sem, wanted, first in ways:
        ids = (rng.permutation(m) if wanted else rng.integers(0, m, m)).astype("i4")  # old values have one order
        o, e = small(m * n + 1)[first:], numbers(dtype, m * n)
        check(add_rows, small(m * n), ids, keep, o, e, end, m, n, down, sem, wanted, arch=arch, warps=warps)


# --- products ---------------------------------------------------------------------------------------------------------
@triton.jit
def product(a, b, c, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TYPE: tl.constexpr, TA: tl.constexpr,
            TB: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + ((k[None, :] * M + i) if TA else (i * K + k[None, :])))
    y = tl.load(b + ((j * K + k[:, None]) if TB else (k[:, None] * N + j)))
    acc = tl.load(c + i * N + j)
    tl.store(o + i * N + j, tl.dot(x, y, acc, out_dtype=TYPE, input_precision=PRECISION))


@triton.jit
def products(a, b, o, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    n, i, j = tl.arange(0, B)[:, None, None], tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :]
    x = tl.load(a + n * M * K + i * K + tl.arange(0, K)[None, None, :])
    y = tl.load(b + n * K * N + tl.arange(0, K)[None, :, None] * N + j)
    tl.store(o + n * M * N + i * N + j, tl.dot(x, y))


@triton.jit
def matmul(a, b, o, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TB: tl.constexpr, DOWN: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    if DOWN:
        for s in range(n - K, -1, -K):
            x = tl.load(a + i * n + (s + k)[None, :])
            y = tl.load(b + ((j * n + (s + k)[:, None]) if TB else ((s + k)[:, None] * N + j)))
            acc = tl.dot(x, y, acc)
    else:
        for s in range(0, n, K):
            inside = s + k < n
            x = tl.load(a + i * n + (s + k)[None, :], mask=inside[None, :], other=0)
            y = tl.load(b + ((j * n + (s + k)[:, None]) if TB else ((s + k)[:, None] * N + j)), mask=inside[:, None],
                        other=0)  # fmt: skip
            acc = tl.dot(x, y, acc)
    tl.store(o + i * N + j, acc)


KINDS = [("f2", tl.float32, "f4", None), ("f2", tl.float16, "f2", None), (bf16, tl.float32, "f4", None),
         ("f4", tl.float32, "f4", "tf32"), ("f4", tl.float32, "f4", "ieee"), ("i1", tl.int32, "i4", None),
         ("f8", tl.float64, "f8", None), (e4m3, tl.float32, "f4", None), (e5m2, tl.float16, "f2", None)]  # fmt: skip


@pytest.mark.parametrize("arch", [75, 80, 89, 90])
@pytest.mark.parametrize(("dtype", "type_", "total", "precision"), KINDS, ids=lambda x: str(x))
@pytest.mark.parametrize(
    ("shape", "warps", "turned"),
    [((16, 16, 32), 4, (False, False)), ((1, 8, 32), 1, (False, True)), ((64, 8, 32), 4, (True, False))],
)
def test_product(check, dtype, type_, total, precision, shape, warps, turned, arch):
    m, n, k = shape
    x, y = (numbers(dtype, *s) for s in ((m, k), (k, n)))
    x, y = (np.ascontiguousarray(v.T) if t else v for v, t in zip((x, y), turned))
    acc = numbers("f4", m, n).astype(total)
    check(product, x, y, acc, np.zeros_like(acc), m, n, k, type_, *turned, precision, arch=arch, warps=warps)


@pytest.mark.parametrize("arch", [75, 80, 90])
@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize(("dtype", "shape"), [("f2", (2, 16, 16, 32)), ("f2", (8, 32, 16, 16)), ("f4", (4, 4, 2, 16))])
def test_products(check, dtype, shape, warps, arch):
    check(products, *of_products(dtype, *shape), arch=arch, warps=warps)


def of_products(dtype, b, m, n, k):
    return numbers(dtype, b, m, k), numbers(dtype, b, k, n), np.zeros((b, m, n), "f4"), b, m, n, k


@pytest.mark.parametrize(("batch", "warps", "instructions"), [(8, 4, 4), (8, 8, 2), (2, 4, 1), (1, 4, 1)])
def test_warps_deal_out_a_batch(batch, warps, instructions):
    """Two instructions for each matrix: no warp multiplies what another does, as long as there are enough."""
    module, _ = module_of(products, of_products("f2", batch, 16, 16, 16))
    assert emulator.llvm_of(module, num_warps=warps)[0].count("mma.sync") == instructions


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("shape", "warps", "stages"), [
    ((64, 64, 32), 4, 1), ((64, 64, 32), 4, 2), ((64, 64, 32), 4, 5), ((64, 64, 32), 8, 3), ((64, 8, 64), 4, 3),
    ((128, 32, 16), 8, 3), ((64, 256, 16), 4, 4),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["f2", e4m3], ids=str)
def test_pipelined_products(check, dtype, shape, warps, stages, turned):
    m, n, k = shape
    if k * np.dtype(dtype).itemsize < 32:
        pytest.skip("8-bit products need K of 32")
    depth = 5 * k - 8
    x, y = numbers(dtype, m, depth), numbers(dtype, *((n, depth) if turned else (depth, n)))
    check(matmul, x, y, np.zeros((m, n), "f4"), depth, m, n, k, turned, False, warps=warps, stages=stages)


@pytest.mark.parametrize("arch", [80, 90])
def test_loops_that_count_down(check, arch):
    x, y = numbers("f2", 64, 128), numbers("f2", 128, 64)
    check(matmul, x, y, np.zeros((64, 64), "f4"), 128, 64, 64, 32, False, True, arch=arch)


@pytest.mark.parametrize("depth", [64, 264, 512])
def test_copies_behind_the_dots_of_a_block_alone(check, depth):
    """Four buffers leave no room for another block on this processor."""
    x, y = numbers("f2", 64, depth), numbers("f2", depth, 64)
    check(matmul, x, y, np.zeros((64, 64), "f4"), depth, 64, 64, 64, False, False, arch=86, stages=4)
