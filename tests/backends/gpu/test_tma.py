"""Loads of tiles by TMA: right for every start and bound."""


import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of, run_cuda
from tests.backends.gpu.samples import agree, data, rng
from tritium.backends.gpu.analysis.preconditions import Assumptions
from tritium.backends.gpu.pipeline import warp_plan
from tritium.insight import emulator
from tritium.interp.machine import interpret
from tritium.ir.preconditions import preconditions_of
from tritium.kernels.attention import forward_kernel
from tritium.tensors import is_descriptor
from tritium.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.sampled

e4m3 = ml_dtypes.float8_e4m3fn


@pytest.fixture(autouse=True)
def always_a_producer(monkeypatch):
    """Kernels have a producer warp, also where the search would have the threads copy for themselves."""
    monkeypatch.setattr(warp_plan, "CLEARLY", float("inf"))


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def check(request):
    """A function that runs a kernel and compares every array with what the interpreter makes of it."""

    def run(kernel, *args, grid=(1,), warps=4, stages=3, tma=True):
        module, values = module_of(kernel, args)
        values = [part for x in values for part in ((x.base, *x.shape, *x.strides) if is_descriptor(x) else (x,))]
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        _, metadata = emulator.llvm_of(module, num_warps=warps, num_stages=stages)
        assert bool(metadata["tensor_maps"]) == tma
        if request.param == "emulated":
            emulator.run(module, mine, grid, num_warps=warps, num_stages=stages)
        else:
            run_cuda(module, mine, grid, num_warps=warps, num_stages=stages)
        interpret(module, theirs, grid)
        agree(theirs, mine)
        return metadata

    return run


def strides(x):
    return [step // x.itemsize for step in x.strides]


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    i, j = pid // across, pid % across
    m = (i * BM + tl.arange(0, BM)) % M
    n = (j * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * am + k[None, :] * ak
    b_ptrs = b_ptr + k[:, None] * bk + n[None, :] * bn
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - step * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK * ak
        b_ptrs += BK * bk
    m = i * BM + tl.arange(0, BM)
    n = j * BN + tl.arange(0, BN)
    tl.store(c_ptr + m[:, None] * cm + n[None, :] * cn, total, mask=(m[:, None] < M) & (n[None, :] < N))


def product_args(m, n, k, blocks, dtype=np.float16, turned=False):
    a, b = data(dtype, m, k), data(dtype, n, k).T if turned else data(dtype, k, n)
    c = np.zeros((m, n), np.float32)
    grid = (-(-m // blocks[0]) * -(-n // blocks[1]),)
    return (a, b, c, m, n, k, *strides(a), *strides(b), *strides(c), *blocks), grid


@pytest.mark.parametrize(("sizes", "blocks", "options"), [
    ((128, 128, 128), (64, 64, 64), {}),
    ((128, 128, 192), (64, 64, 32), {"stages": 4}),
    ((80, 96, 176), (64, 64, 64), {"stages": 2}),
    ((48, 64, 64), (64, 128, 64), {}),  # a block larger than the matrix
    ((128, 256, 128), (128, 256, 64), {"warps": 8}),
    ((64, 64, 16), (64, 64, 64), {}),  # one iteration
], ids=str)  # fmt: skip
def test_products(check, sizes, blocks, options):
    args, grid = product_args(*sizes, blocks)
    check(product, *args, grid=grid, **options)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, e4m3], ids=lambda d: np.dtype(d).name)
def test_products_of_transposed_matrices(check, dtype):
    args, grid = product_args(64, 64, 256, (64, 64, 64), dtype, turned=True)
    check(product, *args, grid=grid)


def test_odd_strides_do_not_use_tma(check):
    args, grid = product_args(64, 60, 60, (64, 64, 64))
    check(product, *args, grid=grid, tma=False)


@triton.jit
def tiles_in_turn(a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, SHORT: tl.constexpr, B: tl.constexpr,
                  PROGRAMS: tl.constexpr):
    """Rows and columns behind the end are replaced by others; a second counter follows the tiles that are stored."""
    across, k = tl.cdiv(N, B), tl.arange(0, B)
    stored = tl.program_id(0) - PROGRAMS
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * across, PROGRAMS):
        m, n = tile // across * B + tl.arange(0, B), tile % across * B + tl.arange(0, B)
        m, n = tl.where(m < M, m, 0), tl.minimum(n, N - 1 - SHORT)
        total = tl.zeros((B, B), tl.float32)
        for at in range(0, K, B):
            a = tl.load(a_ptr + m[:, None] * am + (at + k)[None, :], mask=k[None, :] < K - at, other=0.0)
            b = tl.load(b_ptr + (at + k)[:, None] * bk + n[None, :], mask=k[:, None] < K - at, other=0.0)
            total = tl.dot(a, b, total)
        stored += PROGRAMS
        m, n = stored // across * B + tl.arange(0, B), stored % across * B + tl.arange(0, B)
        tl.store(c_ptr + m[:, None] * cm + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize(("short", "tma"), [(0, True), (8, False)], ids=["masked", "stored"])
def test_rows_behind_the_end_are_other_rows(check, short, tma):
    """TMA reads zeros there, so it is used only if the stores mask them off."""
    a, b, c = data(np.float16, 80, 64), data(np.float16, 64, 128), np.zeros((80, 128), np.float32)
    check(tiles_in_turn, a, b, c, 80, 120, 64, 64, 128, 128, short, 64, 2, grid=(2,), tma=tma)


@triton.jit
def shifted(a_ptr, b_ptr, c_ptr, first, row, K, am, column: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr):
    z = tl.program_id(0) - 1
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, K, BK):
        a = tl.load(a_ptr + first + (z * row + m[:, None]) * am + z * column + step + k[None, :])
        b = tl.load(b_ptr + (step + k[:, None]) * BN + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + (z + 1) * BM * BN + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize(("row", "column"), [(0, 0), (32, 16), (-32, 0), (0, -16), (-64, 32)])
def test_starts_before_the_tensor(check, row, column):
    """Without a mask, what lies before the pointer is read like anything else."""
    a, b, c = data(np.float16, 256, 256), data(np.float16, 128, 64), np.zeros((2, 64, 64), np.float32)
    check(shifted, a, b, c, 96 * 256 + 64, row, 128, 256, column, 64, 64, 64, grid=(2,))


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_trip_counts(check, trips):
    a, b = data(np.float16, 64, 512), data(np.float16, 512, 64)
    check(shifted, a, b, np.zeros((1, 64, 64), np.float32), 0, 0, 64 * trips, 512, 0, 64, 64, 64)


@triton.jit
def triangle(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    pid, r = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, pid * B, B):
        a = tl.load(a_ptr + (pid * B + r[:, None]) * K + k + r[None, :])
        total = tl.dot(a, tl.load(b_ptr + (k + r[:, None]) * B + r[None, :]), total)
    tl.store(c_ptr + (pid * B + r[:, None]) * B + r[None, :], total)


def test_programs_with_different_trip_counts(check):
    """The first has none: nothing is taken for granted of a loop whose trip count differs between programs."""
    a, b, c = data(np.float16, 192, 192), data(np.float16, 192, 64), np.ones((192, 64), np.float32)
    check(triangle, a, b, c, 192, 64, grid=(3,))


@triton.jit
def by_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, row, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM + row
    n = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a_tiles.load([m, k]), b_tiles.load([n, k]).T, total)
    c_tiles.store([m, n], total)


@pytest.mark.parametrize("looks", [False, True], ids=["certain", "looks"])
@pytest.mark.parametrize("row", [0, -16, 48])
def test_descriptors(check, row, looks, monkeypatch):
    """Outside of a descriptor's bounds, before them too, there are zeros, also if the kernel `looks` for such boxes."""
    if looks:
        monkeypatch.setattr(Assumptions, "in_range", lambda *args, **options: False)
    m, n, k = 112, 80, 144
    check(by_descriptors, data(np.float16, m, k), data(np.float16, n, k), np.zeros((m, n), np.float32), m, n, k, row,
          64, 64, 64, grid=(2, 2))  # fmt: skip


@triton.jit
def by_host_descriptors(a_tiles, b_tiles, c_tiles, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a_tiles.load([m, k]), b_tiles.load([k, n]), total)
    c_tiles.store([m, n], total)


def test_descriptors_of_the_host(check):
    """Columns that are no multiple of 16 in rows that are: the end of a row masks nothing for TMA."""
    a = TensorDescriptor(data(np.float16, 100, 144), [100, 137], [144, 1], [64, 64])
    b, c = data(np.float16, 137, 72), np.zeros((100, 72), np.float32)
    b, c = (TensorDescriptor.from_tensor(x, [64, 64]) for x in (b, c))
    check(by_host_descriptors, a, b, c, 137, 64, 64, 64, grid=(2, 2))


@triton.jit
def batched(a_ptr, b_ptr, c_ptr, K, batch, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    z = tl.program_id(1)
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + z * batch + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + n[None, :] * K + k[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs)) * 0.5
        a_ptrs += BK
        b_ptrs += BK
    tl.atomic_add(c_ptr + z * BM * BN + m[:, None] * BN + n[None, :], total)


def test_an_axis_of_its_own_for_batches(check):
    """And a kernel with atomics, whose programs are started one by one."""
    check(batched, data(np.float16, 3, 64, 128), data(np.float16, 64, 128), np.zeros((3, 64, 64), np.float32), 128,
          64 * 128, 64, 64, 64, grid=(1, 3))  # fmt: skip


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(1) * L * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n, d = tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + start + m[:, None] * D + d[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, L, BN):
        k = tl.load(k_ptr + start + (first + n)[None, :] * D + d[:, None])
        s = tl.dot(q, k)
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(best - new)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + start + (first + n)[:, None] * D + d[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
        best = new
    tl.store(out_ptr + start + m[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16))


@pytest.mark.parametrize(("warps", "stages", "rows", "d"), [
    (4, 2, 128, 64), (4, 3, 128, 64), (8, 2, 128, 64), (8, 4, 128, 64), (8, 2, 256, 64), (8, 2, 128, 128)
])  # fmt: skip
def test_attention(check, warps, stages, rows, d):
    """Two dots with mbarriers of their own; the second stays in flight across the back edge. Warpgroups alternate."""
    q, k, v = (rng.standard_normal((2, 256, d)).astype(np.float16) / 4 for _ in range(3))
    grid = 256 // rows, 2
    check(attention, q, k, v, np.zeros_like(q), 256, rows, 64, d, grid=grid, warps=warps, stages=stages)


@pytest.mark.parametrize(("length", "causal", "d"), [(200, False, 128), (192, True, 128), (64, True, 64)])
def test_attention_with_masks(check, length, causal, d):
    """The last blocks of queries and keys are cut off; some programs have one iteration, some more."""
    q, k, v = (rng.standard_normal((2, length, d)).astype(np.float16) / 4 for _ in range(3))
    args = (q, k, v, np.zeros_like(q), np.zeros((2, length), np.float32), 0.125, length, d * length, d, 128, 64, causal)
    check(forward_kernel, *args, grid=(-(-length // 128), 2), warps=8, stages=2)


@triton.jit
def stacked(a_ptr, b_ptr, c_ptr, Z, H, K, BY_GRID: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products of stacked matrices, whose number the grid says, or two arguments."""
    if BY_GRID:
        rows, deep = tl.num_programs(0) * tl.num_programs(1) * BM, tl.num_programs(1) * K
    else:
        rows, deep = Z * H * BM, H * K
    a = tl.make_tensor_descriptor(a_ptr, [rows, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [deep, BN], [BN, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [rows, BN], [BN, 1], [BM, BN])
    first = (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * BM
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([first, k]), b.load([tl.program_id(1) * K + k, 0]), total)
    c.store([first, 0], total)


@triton.jit
def of_batches(a_ptr, b_ptr, c_ptr, Z, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products by descriptors of three axes, the first one of size 1 in each tile."""
    a = tl.make_tensor_descriptor(a_ptr, [Z, M, K], [M * K, K, 1], [1, BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [Z, M, N], [M * N, N, 1], [1, BM, BN])
    z, m, n = tl.program_id(1) - 1, tl.program_id(0) * BM, 0
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([z, m, k]).reshape(BM, BK), b.load([n, k]).T, total)
    c.store([z, m, n], total.reshape(1, BM, BN))


@pytest.mark.parametrize(("m", "k"), [(128, 128), (80, 112)])
def test_tensors_of_batches(check, m, k):
    """Also before the first and behind the last matrix, where nothing is loaded or stored."""
    a, b = data(np.float16, 2, m, k), data(np.float16, 64, k)
    metadata = check(of_batches, a, b, np.zeros((2, m, 64), np.float32), 2, m, 64, k, 64, 64, 64, grid=(-(-m // 64), 4))
    assert len(metadata["tensor_maps"]) == 3


@pytest.mark.parametrize("by_grid", [True, False])
def test_tensors_as_large_as_the_grid_or_a_product_of_arguments(check, by_grid):
    z, h, k = 2, 3, 128
    a, b = data(np.float16, z * h * 64, k), data(np.float16, h * k, 64)
    args = a, b, np.zeros((z * h * 64, 64), np.float32), z, h, k, by_grid, 64, 64, 64
    check(stacked, *args, grid=(z, h))


@triton.jit
def grouped(a_ptr, b_ptr, c_ptr, Z, H, G, deep, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products of stacked matrices; G neighbours share their left side, as heads in attention do."""
    K = deep // 4
    a = tl.make_tensor_descriptor(a_ptr, [Z * (H // G) * BM, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [tl.cdiv(deep, 4), BN], [BN, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [Z * (H // G) * G * BM, BN], [BN, 1], [BM, BN])
    z, h = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([(z * (H // G) + h // G) * BM, k]), b.load([k, 0]), total)
    c.store([(z * (H // G) * G + h) * BM, 0], total)


@pytest.mark.parametrize(("heads", "group", "deep"), [(6, 3, 512), (7, 3, 480), (2, 3, 256), (-7, 3, 256),
                                                      (6, 3, 144), (4, -2, 256)])
def test_tensors_as_large_as_quotients(check, heads, group, deep):
    """Rounded toward zero. The driver refuses sizes that are not positive, and strides that are no multiples of 16
    bytes: then the fallback variant loads."""
    a, b = data(np.float16, 2 * 2 * 64, deep // 4), data(np.float16, deep // 4, 64)
    args = a, b, np.zeros((2 * 6 * 64, 64), np.float32), 2, heads, group, deep, 64, 64, 64
    check(grouped, *args, grid=(2, 6))


@triton.jit
def clamped(a_ptr, b_ptr, c_ptr, M, K, most, REDUCE: tl.constexpr, B: tl.constexpr):
    """Tensors whose sizes are clamped, or what remains of a division."""
    rows = M - M % B if REDUCE else tl.maximum(tl.minimum(M, most), 0)
    a = tl.make_tensor_descriptor(a_ptr, [rows, K], [K, 1], [B, B])
    m, n, total = tl.program_id(0) * B, tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        b = tl.load(b_ptr + (k + n)[:, None] * B + n[None, :], mask=(k + n)[:, None] < tl.minimum(K, most), other=0.0)
        total = tl.dot(a.load([m, k]), b, total)
    tl.store(c_ptr + (m + n)[:, None] * B + n[None, :], total)


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize(("rows", "most"), [(128, 192), (192, 100), (64, -1), (63, 63)])
def test_tensors_as_large_as_minima_and_remainders(check, rows, most, reduce):
    a, b = data(np.float16, 192, 128), data(np.float16, 128, 64)
    check(clamped, a, b, np.zeros((192, 64), np.float32), rows, 128, most, reduce, 64, grid=(3,))


@triton.jit
def one_left_side(a_ptr, b_ptr, c_ptr, N, AGAIN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * BK + k[None, :])
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, N, BN):
        total = tl.dot(a, tl.load(b_ptr + k[:, None] * N + first + n[None, :]), total)
    if AGAIN:
        total += a
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize(("warps", "again", "columns", "maps"), [
    (8, False, 256, 3), (8, True, 64, 2), (8, False, 64, 2), (4, False, 64, 2)
])  # fmt: skip
def test_loop_invariant_tiles_are_prefetched(check, warps, again, columns, maps):
    """Each of two blocks has three programs, and room for the tiles of two. But what threads read as well they load.
    With small results there is another block to multiply meanwhile."""
    a, b = data(np.float16, 768, 64), data(np.float16, 64, 3 * columns)
    args = a, b, np.zeros((768, columns), np.float32), 3 * columns, again, 128, columns, 64
    _, metadata = emulator.llvm_of(module_of(one_left_side, args)[0], num_warps=warps)
    assert len(metadata["tensor_maps"]) == maps
    check(one_left_side, *args, grid=(6,), warps=warps)


@triton.jit
def scaled_extremes(a_ptr, b_ptr, out_ptr, factor, N, LEAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                    BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * BK + k[None, :])
    best = tl.full((BM,), float("inf") if LEAST else -float("inf"), tl.float32)
    apart = tl.zeros((BM,), tl.float32)
    for first in range(0, N, BN):
        s = tl.dot(a, tl.load(b_ptr + k[:, None] * N + first + n[None, :])) * factor
        best = tl.minimum(best, tl.min(s, 1)) if LEAST else tl.maximum(best, tl.max(s, 1))
        apart += tl.sum(s - best[:, None], 1)
    tl.store(out_ptr + m, best)
    tl.store(out_ptr + BM + m, apart)


@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("factor", [0.5, 1e30, -0.5, 0.0, -0.0, float("inf"), float("nan")])
def test_extremes_of_scaled_dots(check, factor, least):
    """The factor is left out of the search for the largest where that changes nothing, whatever the elements are."""
    a, b = data(np.float16, 64, 64), data(np.float16, 64, 128)
    a[3, 5], a[7], b[:, 9] = np.inf, 0, 0
    args = a, b, np.zeros((2, 64), np.float32), factor, 128, least, 64, 64, 64
    _, metadata = emulator.llvm_of(module_of(scaled_extremes, args)[0])
    assert any(("argument", "i32", 3) in rows for rows in preconditions_of(metadata).nonnegative)
    check(scaled_extremes, *args)


@triton.jit
def attention_of_bytes(q_ptr, k_ptr, v_ptr, out_ptr, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, L, BN):
        s = tl.dot(q, tl.load(k_ptr + (first + n)[None, :] * D + d[:, None]))
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - new[:, None]).to(tl.float8e4nv)
        acc = tl.dot(p, tl.load(v_ptr + (first + n)[:, None] + d[None, :] * L), acc * tl.exp2(best - new)[:, None])
        best = new
    tl.store(out_ptr + m[:, None] * D + d[None, :], acc)


@triton.jit
def attention_across_warps(q_ptr, k_ptr, v_ptr, out_ptr, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, L, BN):
        s = tl.dot(q, tl.load(k_ptr + (first + n)[None, :] * D + d[:, None]))
        p = tl.exp2(s - tl.max(s, 0)[None, :]).to(tl.float16)
        acc = tl.dot(p, tl.load(v_ptr + (first + n)[:, None] * D + d[None, :]), acc)
    tl.store(out_ptr + m[:, None] * D + d[None, :], acc)


def test_bytes_change_lanes_by_shuffles(check):
    q, k, v = (data(np.float16, 256, 64).astype(e4m3) for _ in range(3))
    args = q, k, v, np.zeros((256, 64), np.float16), 256, 128, 64, 64
    text, _ = emulator.llvm_of(module_of(attention_of_bytes, args)[0], num_warps=8, num_stages=2)
    assert text.count("llvm.nvvm.shfl.sync.idx.i32(") > 8 and "store <2 x i8>" not in text
    check(attention_of_bytes, *args, grid=(2,), warps=8)


def test_ping_pong_unless_warps_synchronize():
    """Where scores are compared across warps, all of them meet in every iteration."""
    signals = {}
    for kernel, dtype in ((attention, np.float16), (attention_of_bytes, e4m3), (attention_across_warps, np.float16)):
        q, k, v = (np.zeros((256, 64), dtype) for _ in range(3))
        module, _ = module_of(kernel, (q, k, v, np.zeros((256, 64), np.float16), 256, 128, 64, 64))
        text, metadata = emulator.llvm_of(module, num_warps=8, num_stages=2)
        assert metadata["producer_warps"]
        signals[kernel] = text.count("call void @llvm.nvvm.barrier.cta.arrive.aligned.count")
    assert signals == {attention: 3, attention_of_bytes: 3, attention_across_warps: 0}


@triton.jit
def causal(q_ptr, k_ptr, v_ptr, out_ptr, L, HEADS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    for head in range(0, HEADS):
        q_tiles = tl.make_tensor_descriptor(q_ptr, [HEADS * L, D], [D, 1], [BM, D])
        k_tiles = tl.make_tensor_descriptor(k_ptr, [HEADS * L, D], [D, 1], [BN, D])
        v_tiles = tl.make_tensor_descriptor(v_ptr, [HEADS * L, D], [D, 1], [BN, D])
        out_tiles = tl.make_tensor_descriptor(out_ptr, [HEADS * L, D], [D, 1], [BM, D])
        q = q_tiles.load([head * L + tl.program_id(0) * BM, 0])
        best = tl.full((BM,), -float("inf"), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        for first in range(0, tl.program_id(0) * BM, BN):
            s = tl.dot(q, k_tiles.load([head * L + first, 0]).T)
            new = tl.maximum(best, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
            shrink = tl.exp2(best - new)
            total = total * shrink + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), v_tiles.load([head * L + first, 0]), acc * shrink[:, None])
            best = new
        for first in range(tl.program_id(0) * BM, tl.program_id(0) * BM + BM, BN):
            s = tl.dot(q, k_tiles.load([head * L + first, 0]).T)
            s = tl.where(m[:, None] >= first + n[None, :], s, -float("inf"))
            new = tl.maximum(best, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
            shrink = tl.exp2(best - new)
            total = total * shrink + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), v_tiles.load([head * L + first, 0]), acc * shrink[:, None])
            best = new
        out_tiles.store([head * L + tl.program_id(0) * BM, 0], (acc / total[:, None]).to(tl.float16))


@pytest.mark.parametrize(("warps", "d"), [(4, 64), (8, 64), (8, 128)])
def test_causal_attention_in_a_loop_over_heads(check, warps, d):
    """Two loops one after the other, the first of no iterations in some programs, and one around them."""
    q, k, v = (rng.standard_normal((2, 256, d)).astype(np.float16) / 4 for _ in range(3))
    check(causal, q, k, v, np.zeros_like(q), 256, 2, 128, 64, d, grid=(2,), warps=warps, stages=2)


@triton.jit
def two_loops(a_ptr, b_ptr, c_ptr, first, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + (tl.program_id(0) * BM + m[:, None]) * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * BN + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, first, BK):
        total = tl.dot(tl.load(a_ptrs + step), tl.load(b_ptrs + step * BN), total)
    total *= 2
    for step in range(first, K, BK):
        total = tl.dot(tl.load(a_ptrs + step), tl.load(b_ptrs + step * BN), total)
    tl.store(c_ptr + (tl.program_id(0) * BM + m[:, None]) * BN + n[None, :], total)


@pytest.mark.parametrize("first", [0, 64, 128, 320])
def test_loops_one_after_the_other_share_their_barriers(check, first):
    a, b = data(np.float16, 192, 320), data(np.float16, 320, 64)
    check(two_loops, a, b, np.zeros((192, 64), np.float32), first, 320, 64, 64, 64, grid=(3,))


@triton.jit
def two_loops_of_a_group(a_ptr, b_ptr, c_ptr, K, G, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a_ptrs = a_ptr + (tl.program_id(0) // G * BM + m[:, None]) * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * BN + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, K, BK):
        total = tl.dot(tl.load(a_ptrs + step), tl.load(b_ptrs + step * BN), total)
    total *= 2
    for step in range(0, K, BK):
        total = tl.dot(tl.load(a_ptrs + step), tl.load(b_ptrs + step * BN), total)
    tl.store(c_ptr + (tl.program_id(0) * BM + m[:, None]) * BN + n[None, :], total)


def test_loops_one_after_the_other_want_the_same_scalars(check):
    """What the producer warp works out in one loop it does not have in the next."""
    a, b = data(np.float16, 128, 128), data(np.float16, 128, 64)
    check(two_loops_of_a_group, a, b, np.zeros((256, 64), np.float32), 128, 2, 64, 64, 64, grid=(4,))


@triton.jit
def read_twice(q_ptr, k_ptr, v_ptr, out_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
               AGAIN: tl.constexpr):
    """A tile that two dots of an iteration read, with or without another tile's dot between them."""
    i, j, d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * D + d[None, :])
    total = tl.zeros((BM, D), tl.float32)
    for s in range(0, N, BN):
        k = tl.load(k_ptr + (s + j)[None, :] * D + d[:, None])
        v = tl.load(v_ptr + (s + j)[None, :] * D + d[:, None])
        a = tl.dot(q, k)
        if AGAIN == 1:
            a = a - tl.dot(q, v)
        b = (a * 0.125).to(tl.float16)
        total = tl.dot(b, tl.trans(k), total)
        if AGAIN == 2:
            total = tl.dot((b * 0.5).to(tl.float16), tl.trans(v), total)
    tl.store(out_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize(("again", "warps"), [(0, 4), (1, 4), (2, 4), (1, 8)])
def test_tiles_that_several_dots_read(check, again, warps, trips, stages):
    """They are given back behind the last of them."""
    rows, block, d = 16 * warps, 32, 64
    args = (data("f2", rows, d), data("f2", trips * block, d), data("f2", trips * block, d),
            np.zeros((rows, d), "f4"), trips * block, rows, block, d, again)  # fmt: skip
    _, metadata = emulator.llvm_of(module_of(read_twice, args)[0], num_warps=warps, num_stages=stages)
    assert metadata["producer_warps"]
    check(read_twice, *args, warps=warps, stages=stages)


@triton.jit
def gradients(dk_ptr, dv_ptr, q_ptr, k_ptr, v_ptr, do_ptr, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """As attention's, without exponentials: q and do are read twice each, and the first sum needs the last dot."""
    m, n, d = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    k = tl.load(k_ptr + n[:, None] * D + d[None, :])
    v = tl.load(v_ptr + n[:, None] * D + d[None, :])
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for s in range(0, L, BM):
        q_t = tl.load(q_ptr + (s + m)[None, :] * D + d[:, None])
        p_t = tl.dot(k, q_t)
        do = tl.load(do_ptr + (s + m)[:, None] * D + d[None, :])
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        ds_t = tl.dot(v, tl.trans(do))
        dk = tl.dot(ds_t.to(do.dtype), tl.trans(q_t), dk)
    tl.store(dv_ptr + n[:, None] * D + d[None, :], dv)
    tl.store(dk_ptr + n[:, None] * D + d[None, :], dk)


@pytest.mark.parametrize(("block", "warps", "stages"), [(64, 4, 2), (64, 4, 3), (128, 8, 2), (128, 4, 2)])
def test_dots_keep_their_order(check, block, warps, stages):
    """The first of them to read a box waits for it, whatever comes first of what the loop carries."""
    rows, d = 3 * 32, 32
    args = (*(np.zeros((2 * block, d), "f4") for _ in range(2)), data("f2", rows, d), data("f2", 2 * block, d),
            data("f2", 2 * block, d), data("f2", rows, d), rows, 32, block, d)  # fmt: skip
    check(gradients, *args, grid=(2,), warps=warps, stages=stages)
