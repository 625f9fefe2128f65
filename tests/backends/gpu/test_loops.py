"""Loops around dots: nested, consecutive, with early exits; against the interpreter."""

import re
from itertools import groupby

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tritium.insight import emulator
from tritium.insight.emulator.memory import Memory

pytestmark = pytest.mark.sampled


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
def test_programs_that_loop_over_tiles(check, arch):
    """The buffers of a tile lie where the tile before it passed to its stores."""
    m, n, k = 112, 48, 64
    args = data("f2", m, k), data("f2", k, n), np.zeros((m, n), "f4"), m, n, k, 64, 32, 32
    check(tiles_in_turn, *args, grid=(2,), arch=arch)


@pytest.mark.parametrize(("arch", "room"), [(86, 101376), (80, 166912), (90, 232448)])
def test_multibuffers_have_as_many_slots_as_fit(arch, room):
    """Seven iterations' tiles of 32 KiB fit nowhere, with what the result passes through beside them."""
    args = data("f2", 256, 128), data("f2", 128, 128), np.zeros((256, 128), "f4"), 256, 128, 128, 128, 128, 64
    _, metadata = emulator.llvm_of(module_of(tiles_in_turn, args)[0], arch, 4, 7)
    assert room - (40 << 10) < metadata["shared"] <= room


@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4"])
def test_multibuffers_that_are_read_back(check, dtype, stages, warps):
    """Tiles too small for warpgroups, on any architecture: bytes, halves and words, lying along K and along N."""
    m, n, k = 32, 32, 256
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
def test_loads_of_computed_operands_are_prefetched(check, arch, warps):
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


def test_lhs_in_registers_is_rounded_after_dots_finish(check):
    """The next iteration may compute them while a dot runs, but not write the registers it reads."""
    args = (data("i1", 64, 128) % 5).astype("i1"), data("f2", 128, 64), np.zeros((64, 64), "f4"), 128, 64, 64, 32
    text, _ = emulator.llvm_of(module_of(widened_left_side, args)[0])
    steps = re.finditer(r"call <2 x half> @llvm\.nvvm\.ff2f16|mma_async|wgmma\.wait_group\.sync\.aligned \d", text)
    order = [x.split()[-1] for x, _ in groupby(step[0] for step in steps)]
    assert order == ["0", "@llvm.nvvm.ff2f16", "mma_async", "1", "0"]
    check(widened_left_side, *args)


@pytest.mark.parametrize("stages", [2, 3])
def test_two_dots_on_one_sum(check, stages):
    """The second takes up what the first has not finished; buffers are given back when it has."""
    args = data("f2", 64, 256), data("f2", 256, 64), np.zeros((64, 64), "f4"), 256, 64, 64, 32
    _, metadata = emulator.llvm_of(module_of(two_in_a_row, args)[0], num_stages=stages)
    assert len(metadata["tensor_maps"]) == 5  # the last is the result's
    check(two_in_a_row, *args, stages=stages)
    check(two_in_a_row, *args, stages=stages, arch=80)


TURNED = [((64, 64, 32), 4), ((64, 128, 32), 4), ((64, 128, 16), 8), ((128, 64, 64), 4)]  # blocks, warps


def turned_arguments(blocks):
    m, n, k = 96, 112, 80
    return data("f4", m, k), data("f4", k, n), np.zeros((m, n), "f4"), m, n, k, *blocks


@pytest.mark.parametrize(("blocks", "warps"), TURNED)
def test_transposed_rhs_is_swapped(check, blocks, warps):
    """TMA brings them, and threads pick them out of their buffers: no element takes another way."""
    args = turned_arguments(blocks)
    text, metadata = emulator.llvm_of(module_of(lying_across, args)[0], num_warps=warps)
    assert "wgmma.mma_async" in text and len(metadata["tensor_maps"]) == 3  # the last is the result's
    assert not re.search(r"wait_group.sync.aligned [1-9]", text), "the next iteration's registers are those of this one"
    check(lying_across, *args, grid=(-(-96 // blocks[0]), -(-112 // blocks[1])), warps=warps)


@pytest.mark.parametrize(("blocks", "warps"), TURNED)
def test_transposed_rhs_without_tma(blocks, warps):
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
def test_rhs_that_is_no_load(check, kernel, depth, arch):
    """They go through one buffer: the dot of the iteration before must have read it."""
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
@pytest.mark.parametrize("trips", [0, 1, 4])
def test_initialized_accumulators(check, trips, integers, first, twice):
    """They stay in registers of their own all through the loop, which may have no iteration at all."""
    size = 32 * trips
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
def test_packed_weights_are_prefetched(check, arch, block, warps, turned, stages):
    """No warp copies the lhs alone: threads would wait for the weights in every iteration."""
    size = 4 * 32
    q = rng.integers(0, 256, (64, size // 2) if turned else (size // 2, 64)).astype("i4")
    args = (data("f2", block, size), q, data("f4", 4, 64), np.zeros((block, 64), "f4"), size, block, 64, 32, turned)
    text, metadata = emulator.llvm_of(module_of(few_bits, args)[0], arch, num_warps=warps, num_stages=stages)
    assert not metadata["producer_warps"] and text.count("cp.async.commit_group") == stages
    check(few_bits, *args, arch=arch, warps=warps, stages=stages)
