"""Loops around dots as kernels have them: nested, one after the other, left early; against the interpreter."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.gpu import emulator
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


def test_programs_that_take_tiles_in_turn(check):
    """The buffers of a tile lie where the tile before it passed to its stores."""
    m, n, k = 112, 48, 64
    check(tiles_in_turn, data("f2", m, k), data("f2", k, n), np.zeros((m, n), "f4"), m, n, k, 64, 32, 32, grid=(2,))


@triton.jit
def both_ways(a_ptr, b_ptr, c_ptr, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    d = tl.arange(0, D)
    a = tl.load(a_ptr + tl.arange(0, BM)[:, None] * D + d[None, :])
    total = tl.zeros((BM, D), tl.float32)
    for s in range(0, L, BN):
        b = tl.load(b_ptr + (s + tl.arange(0, BN))[None, :] * D + d[:, None])
        total = tl.dot(tl.dot(a, b).to(tl.float16), tl.trans(b), total)
    tl.store(c_ptr + tl.arange(0, BM)[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("warps", [4, 8])
def test_tiles_that_two_dots_read_one_of_them_transposed(check, warps):
    """With two groups of warps side by side the second dot cannot read its part of the buffer as it lies."""
    a, b = np.sign(data("f2", 64, 64)), data("f2", 96, 64)
    check(both_ways, a, b, np.zeros((64, 64), "f4"), 96, 64, 32, 64, warps=warps)


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


@pytest.mark.parametrize(("kernel", "depth"), [(changing_right_side, 32), (half_of_a_pair, 192)])
def test_right_sides_that_are_no_loads(check, kernel, depth):
    """They go through one buffer: the dot of the round before must have read it."""
    check(kernel, data("f2", 64, 96), data("f2", depth, 64), np.zeros((64, 64), "f4"), 96, 64, 64, 32)


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
