"""Loops around dots as kernels have them: nested, one after the other, left early; against the interpreter."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.gpu import emulator
from tests.gpu.emulator.memory import Memory
from tests.gpu.modules import run_cuda
from tests.gpu.test_language import module_of
from tests.gpu.test_modules import agree
from tritium.interp.machine import interpret

rng = np.random.default_rng(11)


def data(dtype, *shape):
    """Small whole numbers: their products and sums are exact."""
    return np.round(2 * rng.standard_normal(shape)).astype(dtype)


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def check(request):
    """A function that runs a kernel and compares every array with what the interpreter makes of it."""

    def run(kernel, *args, grid=(1,), arch=90, warps=4, stages=3, tolerance=0.0):
        if request.param == "cuda" and arch != 90:
            pytest.skip("a real GPU has one architecture")
        module, values = module_of(kernel, args)
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        if request.param == "emulated":
            emulator.run(module, mine, grid, arch, warps, stages)
        else:
            run_cuda(module, mine, grid, num_warps=warps, num_stages=stages)
        interpret(module, theirs, grid)
        agree(theirs, mine, tolerance)

    return run


@triton.jit
def tiles_in_turn(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    k = tl.arange(0, BK)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0), flatten=True):
        m = tile // across * BM + tl.arange(0, BM)
        n = tile % across * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for s in range(0, K, BK):
            a = tl.load(a_ptr + m[:, None] * K + (s + k)[None, :], mask=m[:, None] < M, other=0.0)
            b = tl.load(b_ptr + (s + k)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
            total = tl.dot(a, b, total)
        tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


ARCHS = [90, 89, 80]  # warpgroups that multiply from buffers; warps that read them back, with copies of their own


@pytest.mark.parametrize("arch", ARCHS)
def test_programs_that_take_tiles_in_turn(check, arch):
    """The buffers of a tile lie where the tile before it passed to its stores."""
    m, n, k = 112, 48, 64
    args = data("f2", m, k), data("f2", k, n), np.zeros((m, n), "f4"), m, n, k, 64, 32, 32
    check(tiles_in_turn, *args, grid=(2,), arch=arch)


@pytest.mark.parametrize(("arch", "room"), [(86, 101376), (80, 166912), (90, 232448)])
def test_rings_have_as_many_slots_as_there_is_room_for(arch, room):
    """Seven rounds' tiles of 32 KiB fit nowhere, with what the result passes through beside them."""
    args = data("f2", 256, 128), data("f2", 128, 128), np.zeros((256, 128), "f4"), 256, 128, 128, 128, 128, 64
    _, metadata = emulator.llvm_of(module_of(tiles_in_turn, args)[0], arch, 4, 7)
    assert room - (40 << 10) < metadata["shared"] <= room


@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4"])
def test_rings_that_warps_read_back(check, dtype, stages, warps):
    """Tiles too small for warpgroups, on any architecture: bytes, halves and words, lying along K and along N."""
    m, n, k = 32, 64, 256
    args = data(dtype, m, k), data(dtype, k, n), np.zeros((m, n), "i4" if dtype == "i1" else "f4")
    text, _ = emulator.llvm_of(module_of(either_way, (*args, k, m, n, 64))[0], num_warps=warps, num_stages=stages)
    assert "mma.sync" in text and "cp.async" in text
    check(either_way, *args, k, m, n, 64, stages=stages, warps=warps, arch=90)


@triton.jit
def either_way(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), c_ptr.dtype.element_ty)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :])
        b = tl.load(b_ptr + (s + k)[:, None] * N + j[None, :])
        total = tl.dot(a, b, total, out_dtype=total.dtype, input_precision="tf32")
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


@triton.jit
def widened(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]).to(tl.float16)
        b = tl.load(b_ptr + j[None, :] * K + (s + k)[:, None]).to(tl.float16)
        total = tl.dot(a * 2, b - 1, total)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("arch", ARCHS)
def test_operands_that_are_computed_run_ahead_too(check, arch, warps):
    """Bytes are copied as they are, and widened when they have been read back."""
    small = lambda *shape: (data("i1", *shape) % 5).astype("i1")
    args = small(64, 128), small(64, 128), np.zeros((64, 64), "f4"), 128, 64, 64, 32
    text, _ = emulator.llvm_of(module_of(widened, args)[0], arch, warps)
    assert "mma" in text and "cp.async" in text
    check(widened, *args, arch=arch, warps=warps)


@triton.jit
def both_ways(a_ptr, b_ptr, c_ptr, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    d = tl.arange(0, D)
    a = tl.load(a_ptr + tl.arange(0, BM)[:, None] * D + d[None, :])
    total = tl.zeros((BM, D), tl.float32)
    for s in range(0, L, BN):
        b = tl.load(b_ptr + (s + tl.arange(0, BN))[None, :] * D + d[:, None])
        total = tl.dot(tl.dot(a, b).to(tl.float16), tl.trans(b), total)
    tl.store(c_ptr + tl.arange(0, BM)[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("warps", [4, 8])
def test_tiles_that_two_dots_read_one_of_them_transposed(check, warps, arch):
    """With two groups of warps side by side the second dot cannot read its part of the buffer as it lies."""
    a, b = np.sign(data("f2", 64, 64)), data("f2", 96, 64)
    check(both_ways, a, b, np.zeros((64, 64), "f4"), 96, 64, 32, 64, warps=warps, arch=arch)


@triton.jit
def lying_across(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    k = tl.arange(0, BK)
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    a_ptrs = a_ptr + (m % M)[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + (n % N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptrs, mask=k[None, :] < K - s, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - s, other=0.0)
        total = tl.dot(a, b, total, input_precision="tf32")
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def two_in_a_row(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, 2 * BK):
        a, b = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]), tl.load(b_ptr + (s + k)[:, None] * BN + j[None, :])
        total = tl.dot(a, b, total)
        k2 = s + BK + k
        a, b = tl.load(a_ptr + i[:, None] * K + k2[None, :]), tl.load(b_ptr + k2[:, None] * BN + j[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@triton.jit
def widened_left_side(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]).to(tl.float16)
        total = tl.dot(a, tl.load(b_ptr + (s + k)[:, None] * BN + j[None, :]), total)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


def test_left_sides_in_registers_are_waited_for(check):
    """The next round writes them while a dot would still read them."""
    args = (data("i1", 64, 128) % 5).astype("i1"), data("f2", 128, 64), np.zeros((64, 64), "f4"), 128, 64, 64, 32
    text, _ = emulator.llvm_of(module_of(widened_left_side, args)[0])
    assert "wgmma.mma_async" in text and not re.search(r"wait_group.sync.aligned [1-9]", text)
    check(widened_left_side, *args)


@pytest.mark.parametrize("stages", [2, 3])
def test_two_dots_on_one_sum(check, stages):
    """The second takes up what the first has not finished; buffers are given back when it has."""
    args = data("f2", 64, 256), data("f2", 256, 64), np.zeros((64, 64), "f4"), 256, 64, 64, 32
    _, metadata = emulator.llvm_of(module_of(two_in_a_row, args)[0], num_stages=stages)
    assert len(metadata["maps"]) == 5  # the last is the result's
    check(two_in_a_row, *args, stages=stages)
    check(two_in_a_row, *args, stages=stages, arch=80)


TURNED = [((64, 64, 32), 4), ((64, 128, 32), 4), ((64, 128, 16), 8), ((128, 64, 64), 4)]  # blocks, warps


def turned_arguments(blocks):
    m, n, k = 96, 112, 80
    return data("f4", m, k), data("f4", k, n), np.zeros((m, n), "f4"), m, n, k, *blocks


@pytest.mark.parametrize(("blocks", "warps"), TURNED)
def test_right_sides_that_lie_across_become_left_ones(check, blocks, warps):
    """The copy engine brings them, and threads pick them out of their buffers: no element takes another way."""
    args = turned_arguments(blocks)
    text, metadata = emulator.llvm_of(module_of(lying_across, args)[0], num_warps=warps)
    assert "wgmma.mma_async" in text and len(metadata["maps"]) == 3  # the last is the result's
    assert not re.search(r"wait_group.sync.aligned [1-9]", text), "the next round's registers are those of this one"
    check(lying_across, *args, grid=(-(-96 // blocks[0]), -(-112 // blocks[1])), warps=warps)


@pytest.mark.parametrize(("blocks", "warps"), TURNED)
def test_right_sides_that_lie_across_without_the_copy_engine(blocks, warps):
    module, args = module_of(lying_across, turned_arguments(blocks))
    text, _ = emulator.llvm_of(module, num_warps=warps, launch_checks=False)
    assert "cp.async.cg" in text and "wgmma.mma_async" in text and text.count("bar") < 12
    exact = args[0] @ args[1]
    emulator.run(module, args, (-(-96 // blocks[0]), -(-112 // blocks[1])), num_warps=warps, launch_checks=False)
    np.testing.assert_array_equal(args[2], exact)


@triton.jit
def changing_right_side(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    b = tl.load(b_ptr + k[:, None] * BN + j[None, :])
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        total = tl.dot(tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]), b, total)
        b = 1 - b
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@triton.jit
def half_of_a_pair(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    pairs = (k[:, None, None] * BN + j[None, :, None]) * 2 + tl.arange(0, 2)[None, None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        _, b = tl.split(tl.load(b_ptr + s * (2 * BN) + pairs))
        total = tl.dot(tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]), b, total)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("kernel", "depth"), [(changing_right_side, 32), (half_of_a_pair, 192)])
def test_right_sides_that_are_no_loads(check, kernel, depth, arch):
    """They go through one buffer: the dot of the round before must have read it."""
    check(kernel, data("f2", 64, 96), data("f2", depth, 64), np.zeros((64, 64), "f4"), 96, 64, 64, 32, arch=arch)


@triton.jit
def with_the_last(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BEFORE: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    last = total
    for s in range(0, K, BK):
        last = total
        a, b = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]), tl.load(b_ptr + (s + k)[:, None] * BN + j[None, :])
        total = tl.dot(a, b, total)
        if not BEFORE:
            last = total
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total + 3 * last)


@pytest.mark.parametrize("before", [False, True])
def test_results_that_are_handed_on_twice_are_waited_for(check, before):
    """Tensor cores write the registers of a dot that runs on: nothing may copy them."""
    args = data("f2", 64, 96), data("f2", 96, 64), np.zeros((64, 64), "f4"), 96, 64, 64, 32, before
    text, _ = emulator.llvm_of(module_of(with_the_last, args)[0])
    assert "wgmma.mma_async" in text and "wgmma.wait_group.sync.aligned 1" not in text
    check(with_the_last, *args)


@triton.jit
def begun_elsewhere(a_ptr, b_ptr, c_ptr, first, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                    INTEGERS: tl.constexpr, TWICE: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    dtype: tl.constexpr = tl.int32 if INTEGERS else tl.float32
    total = tl.full((BM, BN), first, dtype)
    for _ in range(TWICE + 1):
        for s in range(0, K, BK):
            a = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :])
            b = tl.load(b_ptr + j[None, :] * K + (s + k)[:, None])
            total = tl.dot(a, b, total, out_dtype=dtype)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(("integers", "first"), [(False, 0), (False, 3), (True, 0), (True, -5)])
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_sums_that_begin_with_something(check, rounds, integers, first, twice):
    """They stay in registers of their own all through the loop, which may have no round at all."""
    size = 32 * rounds
    kinds = ("i1", "i4") if integers else ("f2", "f4")
    a, b = (data(kinds[0], 64, max(size, 1)) for _ in range(2))
    args = a, b, np.full((64, 64), 99, kinds[1]), first, size, 64, 64, 32, integers, twice
    text, _ = emulator.llvm_of(module_of(begun_elsewhere, args)[0])
    assert "wgmma.mma_async" in text and ".reg .b32 sums_" in text
    check(begun_elsewhere, *args)


def test_sums_in_use_are_noticed():
    """The emulator does not let anybody read registers that a product may still be adding to."""
    args = data("f2", 64, 96), data("f2", 64, 96), np.zeros((64, 64), "f4"), 0, 96, 64, 64, 32, False, False
    module, values = module_of(begun_elsewhere, args)
    text, metadata = emulator.llvm_of(module, launch_checks=False)
    wait = "wgmma.wait_group.sync.aligned 0;"
    late = re.sub(f'"{wait} (mov[^"]*)', rf'"\1 {wait}', text)
    assert late != text
    with pytest.raises(emulator.Fault, match="sums are read while a product"):
        emulator.execute(late, Memory(values), (1, 1, 1), 128, metadata["shared"])


@triton.jit
def with_a_flag(a_ptr, b_ptr, c_ptr, flag_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a, b = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :]), tl.load(b_ptr + (s + k)[:, None] * BN + j[None, :])
        total = tl.dot(a, b, total)
        if s == BK:
            tl.store(flag_ptr, 7)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("arch", ARCHS)
def test_what_a_branch_writes_is_written(check, arch):
    args = data("f2", 64, 96), data("f2", 96, 64), np.zeros((64, 64), "f4"), np.zeros(1, "i4"), 96, 64, 64, 32
    check(with_a_flag, *args, arch=arch)


# --- addresses that are loaded ----------------------------------------------------------------------------------------
FAR = 1 << 20  # a page that is nowhere near


@triton.jit
def paged(a_ptr, b_ptr, table_ptr, c_ptr, L, W, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
          BN: tl.constexpr):
    """A product with rows that lie on pages, as in the caches of attention; the last block may not be whole."""
    i, d = tl.arange(0, M), tl.arange(0, D)
    total = tl.zeros((M, D), tl.float32)
    for s in range(0, L, BN):
        n = s + tl.arange(0, BN)
        page = tl.load(table_ptr + n // PAGE, mask=n < L, other=0).to(tl.int64)
        row = page * PAGE + n % PAGE
        b = tl.load(b_ptr + row[:, None] * D + d[None, :], mask=(n < L)[:, None], other=0.0)
        total = tl.dot(tl.load(a_ptr + i[:, None] * W + n[None, :]), b, total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


SIZES = [(90, 64, 64), (90, 16, 64), (80, 16, 64)]  # architecture, rows: a warpgroup's, or what warps multiply


def page_table(count, pages, further=0):
    """So many pages of all there are, in any order; what follows in the table is poison."""
    return np.concatenate([rng.permutation(pages)[:count], np.full(further, FAR)]).astype("i4")


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_rows_on_pages_are_copied_ahead(check, arch, m, d, stages):
    """The next round's pages are looked up while this one is at work; those of rounds that are not, never."""
    page, block = 8, 32
    for length in (0, 1, 13, 32, 33, 64, 130, 200):
        width = -(-max(length, 1) // block) * block
        args = data("f2", m, width), data("f2", 30 * page, d), page_table(-(-length // page), 30, 9)
        args = *args, np.zeros((m, d), "f4"), length, width, m, d, page, block
        check(paged, *args, arch=arch, stages=stages)
    text, _ = emulator.llvm_of(module_of(paged, args)[0], arch, num_stages=stages)
    assert "cp.async" in text and len(re.findall(r"ld\.global[^\"]*b32", text)) == 1 + stages  # and no other look-up


@triton.jit
def whole_pages(a_ptr, b_ptr, table_ptr, c_ptr, first, end, step, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                SCALED: tl.constexpr):
    """A page in every round, with no mask that would keep the look-up within its table."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    total = tl.zeros((M, D), tl.float32)
    for s in range(first, end, step):
        page = tl.load(table_ptr + s)
        b = tl.load(b_ptr + (page * PAGE + n)[:, None] * D + d[None, :])
        a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
        if SCALED:
            a = a * (page % 3).to(tl.float16)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_pages_are_looked_up_only_for_rounds_there_are(check, arch, m, d, stages, scaled):
    """Also in loops that skip some, and where the page is of interest in itself."""
    page = 32
    for first, end, step in ((0, 6, 1), (0, 1, 1), (0, 0, 1), (3, 3, 2), (1, 6, 2)):
        args = data("f2", m, page), data("f2", 7 * page, d), page_table(6, 7), np.zeros((m, d), "f4")
        check(whole_pages, *args, first, end, step, m, d, page, scaled, arch=arch, stages=stages)
    module, _ = module_of(whole_pages, (*args, first, end, step, m, d, page, scaled))
    assert "cp.async" in emulator.llvm_of(module, arch, num_stages=stages)[0]


@triton.jit
def pages_counted_down(a_ptr, b_ptr, table_ptr, c_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    total = tl.zeros((M, D), tl.float32)
    for s in range(count - 1, -1, -1):
        rows = tl.load(table_ptr + s) * PAGE + n
        total = tl.dot(a, tl.load(b_ptr + rows[:, None] * D + d[None, :]), total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


@triton.jit
def chained_pages(a_ptr, b_ptr, table_ptr, c_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    """Every page says which is the next."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    total, page = tl.zeros((M, D), tl.float32), 0
    for _ in range(count):
        rows = page * PAGE + n
        total = tl.dot(a, tl.load(b_ptr + rows[:, None] * D + d[None, :]), total)
        page = tl.load(table_ptr + page)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total + page)


@triton.jit
def pages_of_pages(a_ptr, b_ptr, table_ptr, c_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    """An index of an index."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    total = tl.zeros((M, D), tl.float32)
    for s in range(count):
        rows = tl.load(table_ptr + tl.load(table_ptr + s)) * PAGE + n
        total = tl.dot(a, tl.load(b_ptr + rows[:, None] * D + d[None, :]), total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
@pytest.mark.parametrize("kernel", [pages_counted_down, chained_pages, pages_of_pages])
def test_other_ways_to_a_page(check, kernel, arch, m, d, stages):
    page, order = 32, rng.permutation(6).astype("i4")
    table = order
    if kernel is chained_pages:  # from page 0 through all; the last leads nowhere
        order = np.roll(order, -np.argmin(order))
        table = np.full_like(order, FAR)
        table[order[:-1]] = order[1:]
    for count in (0, 1, 2, 6):
        args = data("f2", m, page), data("f2", 6 * page, d), table, np.zeros((m, d), "f4"), count, m, d, page
        check(kernel, *args, arch=arch, stages=stages)
    assert "cp.async" in emulator.llvm_of(module_of(kernel, args)[0], arch, num_stages=stages)[0]


# --- stores that loads run ahead of -----------------------------------------------------------------------------------
@triton.jit
def linear_attention(out_ptr, q_ptr, k_ptr, v_ptr, L, BLOCK: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * L * D
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, L, BLOCK):
        rows = base + (start + t[:, None]) * D + d[None, :]
        q, k, v = tl.load(q_ptr + rows), tl.load(k_ptr + rows), tl.load(v_ptr + rows)
        s = tl.where(t[:, None] >= t[None, :], tl.dot(q, tl.trans(k)), 0.0)
        out = tl.dot(s.to(v.dtype), v) + tl.dot(q, state.to(q.dtype))
        state += tl.dot(tl.trans(k), v)
        tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty))


def rarely(*shape):
    """Mostly zeros: products of products stay small, and exact."""
    return (rng.integers(-1, 2, shape) * (rng.random(shape) < 0.1)).astype("f2")


def compare(kernel, memory, views, *args, arch=90):
    """Run a kernel on arrays that may overlap, `views` of the same memory, and compare that with what the interpreter
    leaves there. Returns whether the kernel that is pipelined was fit for it."""
    bases = memory.copy(), memory.copy()
    (module, mine), (_, theirs) = (module_of(kernel, (*views(base), *args)) for base in bases)
    _, metadata = emulator.llvm_of(module, arch)
    assert metadata["overtaken"]
    fit = emulator.fit(metadata, mine, (1, 1, 1))
    emulator.run(module, mine, arch=arch)
    interpret(module, theirs, (1,))
    np.testing.assert_array_equal(*bases)
    return fit


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_loads_run_ahead_of_stores_to_other_memory(check, stages, arch):
    block, d = (64, 64) if arch == 90 else (32, 32)
    for rounds in (0, 1, 2, 5):
        length, programs = block * rounds, 2
        q, k, v = (rarely(programs, max(length, 1), d) for _ in range(3))
        args = np.zeros_like(q), q, k, v, length, block, d
        check(linear_attention, *args, grid=(programs,), arch=arch, stages=stages)
    text, metadata = emulator.llvm_of(module_of(linear_attention, args)[0], arch, num_stages=stages)
    assert "cp.async" in text and len(metadata["overtaken"][1]) == 3
    text, metadata = emulator.llvm_of(module_of(linear_attention, args)[0], arch, launch_checks=False)
    assert "cp.async" not in text and metadata["overtaken"] == ()


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize("shift", [0, 1, -1, 32, 64, 159, -160, 160])
def test_results_that_lie_on_what_is_loaded(shift, which, arch):
    """In place, a row or a block further on or back: what a round stores, a later one may load."""
    length, block, d, far = 160, 32, 32, 1000

    def views(base):
        starts = [length + k * far for k in range(3)]
        return [base[start:start + length] for start in (starts[which] + shift, *starts)]

    fit = compare(linear_attention, rarely(3 * far, d), views, length, block, d, arch=arch)
    assert fit == (abs(shift) >= length)


@triton.jit
def kept_state(out_ptr, state_ptr, new_ptr, x_ptr, w_ptr, rounds, M: tl.constexpr, D: tl.constexpr,
               BLOCK: tl.constexpr):
    """Every round loads a state, and stores the next."""
    i, d, k = tl.arange(0, M), tl.arange(0, D), tl.arange(0, BLOCK)
    at = i[:, None] * D + d[None, :]
    total = tl.zeros((M, D), tl.float32)
    for r in range(rounds):
        w = tl.load(w_ptr + (r * BLOCK + k)[:, None] * D + d[None, :])
        state = tl.load(state_ptr + at)
        total = tl.dot(tl.load(x_ptr + i[:, None] * BLOCK + k[None, :]), w, total)
        total = tl.dot(state.to(tl.float16), tl.load(w_ptr + d[:, None] * D + d[None, :]), total)
        tl.store(new_ptr + at, (state + r + 1) % 4)
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
@pytest.mark.parametrize("together", [False, True])
def test_a_state_that_is_stored_and_loaded_through_two_arguments(together, arch, m, d):
    """If it is one, every round must see what the last has stored."""
    block = 32
    sizes = np.array([m * d, m * d, m * d, m * block, 6 * block * d])
    ends = np.cumsum(sizes) + np.arange(5) * 4096

    def views(base):
        out, state, new, x, w = (base[end - size:end] for end, size in zip(ends, sizes))
        return out, state, state if together else new, x.astype("f2"), w.astype("f2")

    fit = compare(kept_state, data("f4", ends[-1]), views, 6, m, d, block, arch=arch)
    assert fit != together


@triton.jit
def own_state(out_ptr, state_ptr, x_ptr, w_ptr, rounds, M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """The same through one argument."""
    i, d, k = tl.arange(0, M), tl.arange(0, D), tl.arange(0, BLOCK)
    total = tl.zeros((M, D), tl.float32)
    for r in range(rounds):
        a = tl.load(x_ptr + i[:, None] * BLOCK + k[None, :])
        state = tl.load(state_ptr + k[:, None] * D + d[None, :])
        total = tl.dot(a, tl.load(w_ptr + (r * BLOCK + k)[:, None] * D + d[None, :]), total)
        total = tl.dot(a, state, total)
        tl.store(state_ptr + k[:, None] * D + d[None, :], 1 - state)
    tl.store(out_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_what_is_loaded_and_stored_through_one_argument_stays_in_its_round(check, arch, m, d):
    """While the rest runs ahead."""
    args = np.zeros((m, d), "f4"), data("f2", 32, d), data("f2", m, 32), data("f2", 5 * 32, d), 5, m, d, 32
    text, metadata = emulator.llvm_of(module_of(own_state, args)[0], arch)
    assert "cp.async" in text and len(metadata["overtaken"][1]) == 2
    check(own_state, *args, arch=arch)


@triton.jit
def twice(out_ptr, x_ptr, w_ptr, L, HEADS, BLOCK: tl.constexpr, D: tl.constexpr):
    """Pointers that move, in a loop within another; then a loop on its own."""
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    w = tl.load(w_ptr + d[:, None] * D + d[None, :])
    for head in range(HEADS):
        xs = x_ptr + (head * L + t[:, None]) * D + d[None, :]
        outs = out_ptr + (head * L + t[:, None]) * D + d[None, :]
        for _ in range(0, L, BLOCK):
            tl.store(outs, tl.dot(tl.load(xs), w))
            xs += BLOCK * D
            outs += BLOCK * D
    for s in range(0, L, BLOCK):
        x = tl.load(x_ptr + (s + t[:, None]) * D + d[None, :])
        tl.store(out_ptr + (HEADS * L + s + t[:, None]) * D + d[None, :], tl.dot(x, w) + s)


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("shift", [None, 0, 64, -64, 128])
def test_pointers_that_move_past_stores(shift, arch):
    """In units of the result, whose rows are as long as two of what is loaded."""
    length, heads, block, d = 256, 2, 64, 64
    size = length * heads * d

    def views(base):
        start = 8 * size if shift is None else size + shift * d
        return base[start:start + 2 * size], base[size:2 * size].view("f2")[:size], base[:d * d].view("f2")[:d * d]

    memory = np.zeros(12 * size, "f4")
    memory[:2 * size].view("f2")[:] = rarely(4 * size)
    assert compare(twice, memory, views, length, heads, block, d, arch=arch) == (shift is None)


@triton.jit
def paged_results(out_ptr, a_ptr, b_ptr, table_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                  TABLED: tl.constexpr):
    """Where pages lie nobody knows before: a store may be what a later round is to load."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    for s in range(count):
        page = tl.load(table_ptr + s)
        rows = page if TABLED else s
        b = tl.load(b_ptr + (rows * PAGE + n)[:, None] * D + d[None, :])
        tl.store(out_ptr + ((s if TABLED else page) * M + i)[:, None] * D + d[None, :], tl.dot(a, b))


@pytest.mark.parametrize("tabled", [False, True])
def test_unknown_addresses_pass_no_stores(check, tabled):
    args = np.zeros((6, 16, 64), "f4"), data("f2", 16, 32), data("f2", 6, 32, 64), page_table(6, 6), 6, 16, 64, 32
    text, metadata = emulator.llvm_of(module_of(paged_results, (*args, tabled))[0], 80)
    assert "cp.async" not in text and metadata["overtaken"] == ()
    check(paged_results, *args, tabled, arch=80)


@triton.jit
def few_bits(a_ptr, q_ptr, scale_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
             TURNED: tl.constexpr):
    """Weights of four bits, eight of a column (or of a row) in a word, with a scale for each column."""
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :])
        if TURNED:
            q = tl.load(q_ptr + j[None, :] * (K // 2) + (s + k)[:, None] // 2)
        else:
            q = tl.load(q_ptr + (s + k)[:, None] // 2 * BN + j[None, :])
        scale = tl.load(scale_ptr + s // BK * BN + j)
        w = ((q >> (k % 2 * 4)[:, None]) & 15) * scale[None, :]
        total = tl.dot(a, w.to(tl.float16), total)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("arch", "block", "warps"), [(90, 64, 4), (90, 128, 8), (80, 16, 4), (89, 32, 2)])
@pytest.mark.parametrize("stages", [2, 3])
def test_weights_of_few_bits_run_ahead(check, arch, block, warps, turned, stages):
    """No warp copies the left side alone: threads would wait for the weights in every round."""
    size = 4 * 32
    q = rng.integers(0, 256, (64, size // 2) if turned else (size // 2, 64)).astype("i4")
    args = (data("f2", block, size), q, data("f4", 4, 64), np.zeros((block, 64), "f4"), size, block, 64, 32, turned)
    text, metadata = emulator.llvm_of(module_of(few_bits, args)[0], arch, num_warps=warps, num_stages=stages)
    assert not metadata["copy_warps"] and text.count("cp.async.commit_group") == stages
    check(few_bits, *args, arch=arch, warps=warps, stages=stages)
