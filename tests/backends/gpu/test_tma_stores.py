"""Stores of tiles by TMA: right for every start and bound, in program order."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of, run_cuda
from tests.backends.gpu.samples import agree
from tritium.backends.gpu.analysis.preconditions import Assumptions
from tritium.backends.gpu.pipeline import tma_stores
from tritium.insight import emulator
from tritium.interp.machine import interpret
from tritium.ir.preconditions import preconditions_of

rng = np.random.default_rng(11)


def data(dtype, *shape):
    """Small whole numbers."""
    made = np.round(4 * rng.standard_normal(shape))
    return (np.abs(made) if np.dtype(dtype).kind == "u" else made).astype(dtype)


def tma_stores_of(module, **options):
    """How many copies by TMA a kernel's text has: (to memory, combined with it)."""
    text, _ = emulator.llvm_of(module, **options)
    return text.count("cp.async.bulk.tensor.2d.global"), text.count("cp.reduce.async.bulk")


@pytest.fixture(autouse=True)
def everywhere(monkeypatch):
    """Kernels without a producer warp leave stores to their threads; here they do not, so that all kinds are tried. And
    they look for themselves whether a box is within reach, which else the launcher does."""
    monkeypatch.setattr(tma_stores, "BY_THREADS", tma_stores.BY_PRODUCER)
    monkeypatch.setattr(Assumptions, "in_range", lambda *args, **options: False)


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def check(request):
    """A function that runs a kernel and compares every array with what the interpreter makes of it."""

    def run(kernel, *args, grid=(1,), warps=4, stages=3, tma=True):
        module, values = module_of(kernel, args)
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        assert any(tma_stores_of(module, num_warps=warps, num_stages=stages)) == tma
        where = emulator.run if request.param == "emulated" else run_cuda
        where(module, mine, grid, num_warps=warps, num_stages=stages)
        interpret(module, theirs, grid)
        agree(theirs, mine)

    return run


@triton.jit
def doubled(x_ptr, y_ptr, M, N, row, column, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    at = tl.program_id(0) * BM + row
    y.store([at, column], x.load([at, column]) * 2)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int32, np.uint8],
                         ids=lambda d: np.dtype(d).name)  # fmt: skip
def test_types(check, dtype):
    x = data(dtype, 96, 128)
    check(doubled, x, np.zeros_like(x), 96, 128, 0, 16, 32, 64, grid=(3,))


@pytest.mark.parametrize(("row", "column"), [(0, 0), (-16, 0), (48, 32), (0, -8), (-80, 0), (0, 1000)])
def test_elements_outside_are_dropped(check, row, column):
    x = data(np.float32, 80, 96)
    check(doubled, x, np.zeros_like(x), 80, 96, row, column, 64, 32, grid=(2,))


@pytest.mark.parametrize(("block", "warps"), [((8, 32), 1), ((512, 16), 4), ((16, 512), 4), ((32, 8), 2)], ids=str)
def test_boxes(check, block, warps):
    """More rows than one copy takes, rows of several copies, and narrow ones."""
    x = data(np.float32, 520, 512)
    check(doubled, x, np.zeros_like(x), 520, 512, 3, 0, *block, grid=(2,), warps=warps)


@pytest.mark.parametrize("block", [(4, 128), (16, 4)], ids=str)
def test_boxes_that_tma_does_not_store(check, block):
    x = data(np.float32, 32, 128)
    check(doubled, x, np.zeros_like(x), 32, 128, 0, 0, *block, tma=False)


@triton.jit
def turned(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x_ptr + m[:, None] * BN + n[None, :])
    tl.store(y_ptr + n[None, :] * M + m[:, None], tile, mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize(("m", "n"), [(64, 32), (48, 30)])
def test_rows_along_the_first_axis(check, m, n):
    check(turned, data(np.float16, 64, 32), np.zeros((32, m), np.float16), m, n, 64, 32)


@triton.jit
def shifted(x_ptr, y_ptr, first, row, N, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x_ptr + m[:, None] * BN + n[None, :])
    at = (tl.program_id(0) - 1) * row + m
    tl.store(y_ptr + first + at[:, None] * N + n[None, :], tile, mask=n[None, :] < N)


@pytest.mark.parametrize("row", [0, 16, -24])
def test_starts_before_the_tensor(check, row):
    """Without a mask there, what lies before the pointer is written like anything else."""
    check(shifted, data(np.float16, 16, 64), np.zeros((128, 48), np.float16), 64 * 48, row, 48, 16, 64, grid=(2,))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([i, k]), b.load([k, j]), total)
    c.store([i, j], total.to(c_ptr.dtype.element_ty))


@pytest.mark.parametrize(("blocks", "dtype", "warps", "stages"), [
    ((64, 64, 64), np.float16, 4, 3),
    ((128, 256, 64), np.float16, 8, 4),  # in pieces, through two buffers
    ((256, 128, 32), np.float32, 8, 3),  # in pieces, through one
    ((64, 128, 32), np.float32, 4, 2),
], ids=str)  # fmt: skip
def test_products(check, blocks, dtype, warps, stages):
    m, n, k = 144, 272, 80
    grid = (-(-m // blocks[0]), -(-n // blocks[1]))
    args = data(np.float16, m, k), data(np.float16, k, n), np.zeros((m, n), dtype), m, n, k
    check(product, *args, *blocks, grid=grid, warps=warps, stages=stages)


@triton.jit
def halves(x_ptr, y_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [BM, N], [N, 1], [BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, [BM, N], [N, 1], [BM, BN])
    at = tl.program_id(0) * 2 * BN
    left, right = x.load([0, at]), x.load([0, at + BN])
    y.store([0, at], right)
    y.store([0, at + BN], left)


def test_parts_of_a_tensor_need_not_wait_for_each_other(check):
    x = data(np.float16, 16, 256)
    check(halves, x, np.zeros_like(x), 256, 16, 64, grid=(2,))


@triton.jit
def over_and_over(x_ptr, y_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    y = tl.make_tensor_descriptor(y_ptr, [BM, N], [N, 1], [BM, BN])
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x_ptr + m[:, None] * BN + n[None, :])
    for k in range(0, 4):
        y.store([0, k * BN // 2], tile + k.to(tl.float16))
    y.store([0, 8], tile * 3)


def test_overlapping_boxes_are_stored_in_order(check):
    check(over_and_over, data(np.float16, 16, 64), np.zeros((16, 256), np.float16), 256, 16, 64)


@triton.jit
def there_and_back(x_ptr, y_ptr, z_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    y = tl.make_tensor_descriptor(y_ptr, [BM, N], [N, 1], [BM, BN])
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    at = m[:, None] * BN + n[None, :]
    y.store([0, 0], tl.load(x_ptr + at))
    tl.debug_barrier()
    tl.store(z_ptr + at, tl.load(y_ptr + (BM - 1 - m[:, None]) * N + n[None, :]))


def test_what_the_program_reads_again_is_written_by_threads(check):
    """Only the last store is TMA's: what the first one writes is read."""
    x = data(np.float16, 16, 64)
    check(there_and_back, x, np.zeros((16, 64), np.float16), np.zeros_like(x), 64, 16, 64)
    assert tma_stores_of(module_of(there_and_back, (x, x.copy(), x.copy(), 64, 16, 64))[0]) == (1, 0)


@triton.jit
def combined(x_ptr, y_ptr, M, N, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    tile = x.load([tl.program_id(0) * 8 - 8, 16])
    where = [tl.program_id(0) * 8 - 8, 16]
    if HOW == "add":
        y.atomic_add(where, tile)
    elif HOW == "min":
        y.atomic_min(where, tile)
    elif HOW == "max":
        y.atomic_max(where, tile)
    elif HOW == "and":
        y.atomic_and(where, tile)
    elif HOW == "or":
        y.atomic_or(where, tile)
    else:
        y.atomic_xor(where, tile)


@pytest.mark.parametrize(("how", "dtype"), [
    *(("add", t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.int32, np.uint32, np.uint64)),
    *((how, t) for how in ("min", "max") for t in (np.int32, np.uint32, np.int64)),
    *((how, np.int32) for how in ("and", "or", "xor")),
], ids=str)  # fmt: skip
def test_atomics(check, how, dtype):
    x, y = data(dtype, 40, 80), data(dtype, 40, 80)
    check(combined, x, y, 40, 80, how, 16, 64, grid=(4,))


def test_threads_store_without_a_producer_warp_and_on_other_architectures(monkeypatch):
    x = data(np.float16, 96, 128)
    module, _ = module_of(doubled, (x, np.zeros_like(x), 96, 128, 0, 16, 32, 64))
    for arch in (80, 120):
        assert tma_stores_of(module, arch=arch) == (0, 0)
    assert tma_stores_of(module) != (0, 0)
    monkeypatch.undo()
    assert tma_stores_of(module) == (0, 0)


# --- loops over tiles, written by the user ----------------------------------------------------------------------------
@triton.jit
def walking(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN // PARTS])
    across = tl.cdiv(N, BN)
    done = 0
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0), flatten=True):
        i, j = tile // across * BM, tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([i, k]), b.load([j, k]).T, total)
        done += 1
        if PARTS == 1:
            c.store([i, j], (total + done).to(tl.float16))
        else:
            left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
            c.store([i, j], left.to(tl.float16))
            c.store([i, j + BN // 2], (right + done).to(tl.float16))


@triton.jit
def walking_by_pointers(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                        PARTS: tl.constexpr):
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m, n = tile // across * BM + tl.arange(0, BM), tile % across * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        a_ptrs = a_ptr + (m % M)[:, None] * K + k[None, :]
        b_ptrs = b_ptr + (n % N)[None, :] * K + k[:, None]
        total = tl.zeros((BM, BN), tl.float32)
        for step in range(0, tl.cdiv(K, BK)):
            a = tl.load(a_ptrs, mask=k[None, :] < K - step * BK, other=0.0)
            b = tl.load(b_ptrs, mask=k[:, None] < K - step * BK, other=0.0)
            total = tl.dot(a, b, total)
            a_ptrs += BK
            b_ptrs += BK
        tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


def walk_args(m, n, k):
    return data(np.float16, m, k), data(np.float16, n, k), np.zeros((m, n), np.float16), m, n, k


@pytest.mark.parametrize(("kernel", "parts", "sizes", "programs", "stages"), [
    (walking, 1, (192, 128, 64), 4, 2),
    (walking, 1, (80, 112, 144), 1, 4),
    (walking, 2, (192, 128, 128), 2, 3),
    (walking, 2, (64, 64, 64), 3, 3),  # programs without a tile
    (walking_by_pointers, 1, (144, 128, 128), 2, 3),
    (walking_by_pointers, 1, (64, 64, 64), 3, 2),
], ids=str)  # fmt: skip
def test_loops_over_tiles(check, kernel, parts, sizes, programs, stages):
    """The producer warp goes along, and the multibuffer's phases go on from tile to tile."""
    check(kernel, *walk_args(*sizes), 64, 64, 64, parts, grid=(programs,), stages=stages)
    _, metadata = emulator.llvm_of(module_of(kernel, (*walk_args(*sizes), 64, 64, 64, parts))[0], num_stages=stages)
    assert metadata["producer_warps"] and preconditions_of(metadata).stores[0] == 2


def test_parts_go_through_buffers_of_their_own(check):
    """Where there is room, the second need not wait until TMA has read the first."""
    args, buffers, part = (*walk_args(256, 128, 64), 128, 128, 64, 2), 4 * 2 * 128 * 64 * 2, 128 * 64 * 2
    check(walking, *args, grid=(1,), warps=8, stages=4)
    _, metadata = emulator.llvm_of(module_of(walking, args)[0], num_warps=8, num_stages=4)
    assert metadata["shared"] >= buffers + 2 * part


@triton.jit
def recurrent(h_ptr, w_ptr, steps, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    w = tl.make_tensor_descriptor(w_ptr, [BN, N], [N, 1], [BN, BK])
    for step in range(0, steps):
        h = tl.make_tensor_descriptor(h_ptr, [BM * steps + BM, N], [N, 1], [BM, BK])
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, N, BK):
            total = tl.dot(h.load([step * BM, k]), w.load([0, k]).T, total)
        tl.debug_barrier()
        h.store([step * BM + BM, 0], total.to(tl.float16))
        tl.debug_barrier()


def test_loops_that_read_what_they_wrote_keep_their_order(check):
    h, w = data(np.float16, 64 * 4, 64), np.eye(64, dtype=np.float16)
    check(recurrent, h, w, 3, 64, 64, 64, 64, tma=False)
    _, metadata = emulator.llvm_of(module_of(recurrent, (h, w, 3, 64, 64, 64, 64))[0])
    assert not metadata["producer_warps"]


@triton.jit
def gradients(dq_ptr, dk_ptr, q_ptr, k_ptr, row_ptr, L, SHIFT: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr):
    """As those of attention in one kernel: programs add to all rows of dq, and each loads a row of numbers."""
    n, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < L, other=0.0)
    dk = tl.zeros((BN, D), tl.float32)
    for start in range(0, L, BM):
        m = start + tl.arange(0, BM)
        q_t = tl.load(q_ptr + m[None, :] * D + d[:, None], mask=m[None, :] < L, other=0.0)
        row = tl.load(row_ptr + m + (L // 32 if SHIFT is None else SHIFT), mask=m < L, other=0.0)
        ds_t = (tl.dot(k, q_t) - row[None, :]).to(q_t.dtype)
        dk = tl.dot(ds_t, tl.trans(q_t), dk)
        tl.atomic_add(dq_ptr + m[:, None] * D + d[None, :], tl.dot(tl.trans(ds_t), k), mask=m[:, None] < L,
                      sem="relaxed")
    tl.store(dk_ptr + n[:, None] * D + d[None, :], dk, mask=n[:, None] < L)


def gradient_args(length, d, bm, bn, shift=0):
    few = lambda *shape: (rng.random(shape) < 0.1).astype(np.float16)  # products of three stay exact
    zeros = [np.zeros((length, d), np.float32) for _ in range(2)]
    return *zeros, few(length, d), few(length, d), data(np.float32, length + 16), length, shift, d, bm, bn


@pytest.mark.parametrize(("d", "bm", "bn", "warps"), [(64, 64, 64, 4), (128, 64, 128, 8), (64, 64, 128, 8)], ids=str)
def test_updates_in_a_loop_beside_a_producer_warp(check, d, bm, bn, warps):
    """The launcher checks that the rows are not where TMA adds. No update waits until another one is written."""
    args = gradient_args(2 * bn, d, bm, bn)
    check(gradients, *args, grid=(2,), warps=warps, stages=2)
    text, metadata = emulator.llvm_of(module_of(gradients, args)[0], num_warps=warps, num_stages=2)
    assert metadata["producer_warps"] and "cp.reduce.async.bulk" in text and preconditions_of(metadata).disjoint
    loop = text[: text.index("cp.reduce.async.bulk")]
    assert "cp.async.bulk.wait_group.read 0" in loop and "cp.async.bulk.wait_group 0" not in loop


@pytest.mark.parametrize("shift", [0, 4, 1, None])
@pytest.mark.parametrize("length", [128, 80, 144])
def test_rows_that_the_producer_warp_loads(check, length, shift):
    """In one piece where that is aligned and whole, and else element by element. None: a quotient, which may be any."""
    args = gradient_args(length, 64, 64, 64, shift)
    check(gradients, *args, grid=(-(-length // 64),), stages=2)
    text, metadata = emulator.llvm_of(module_of(gradients, args)[0], num_stages=2)
    assert metadata["producer_warps"]
    assert (ROW in text) == (shift in (0, 4))


ROW = "cp.async.bulk.shared::cluster.global.mbarrier"


@triton.jit
def tiles_with_rows(out_ptr, q_ptr, k_ptr, row_ptr, L, B: tl.constexpr):
    """A loop over tiles, which stores, around a loop that loads rows."""
    q = tl.make_tensor_descriptor(q_ptr, [L, B], [B, 1], [B, B])
    k = tl.make_tensor_descriptor(k_ptr, [L, B], [B, 1], [B, B])
    out = tl.make_tensor_descriptor(out_ptr, [L, B], [B, 1], [B, B])
    for tile in range(tl.program_id(0) * B, L, tl.num_programs(0) * B):
        total = tl.zeros((B, B), tl.float32)
        for start in range(0, L, B):
            x = q.load([start, 0])
            s = tl.dot(k.load([tile, 0]), tl.trans(x)) - tl.load(row_ptr + start + tl.arange(0, B))[None, :]
            total = tl.dot(s.to(x.dtype), x, total)
        out.store([tile, 0], total)


def test_rows_in_a_loop_over_tiles_are_not_loaded_ahead(check):
    """What the loop around it stores might be the next row."""
    few = lambda *shape: (rng.random(shape) < 0.1).astype(np.float16)
    args = np.zeros((256, 64), np.float32), few(256, 64), few(256, 64), data(np.float32, 256), 256, 64
    check(tiles_with_rows, *args, grid=(2,), stages=2, tma=False)  # threads load after each store
    text, _ = emulator.llvm_of(module_of(tiles_with_rows, args)[0], num_stages=2)
    assert ROW not in text


def test_rows_that_lie_where_tma_would_add():
    """Then the launch takes the kernel whose threads do everything in order."""
    memory = data(np.float32, 256, 64)
    args = [*gradient_args(128, 64, 64, 64)]
    args[0], args[4] = memory[:128], memory.reshape(-1)[:144]
    module, values = module_of(gradients, args)
    _, metadata = emulator.llvm_of(module, num_stages=2)
    assert not emulator.fit(metadata, values, (2, 1, 1))
    values[4] = memory.reshape(-1)[-144:]
    assert emulator.fit(metadata, values, (2, 1, 1))
