"""Loops around dots that also load 1-D tiles (scales, sums, zeros), which are prefetched with the tiles."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tests.backends.gpu.test_redundant_loads import ttgir_of
from tritium.insight import emulator

pytestmark = pytest.mark.sampled


@triton.jit
def scaled(a_ptr, b_ptr, left_ptr, right_ptr, shift_ptr, c_ptr, M, N, K, trips, OTHER: tl.constexpr, BM: tl.constexpr,
           BN: tl.constexpr, BK: tl.constexpr):
    """Products of blocks along K, each with a scale for every row and column; one more sum, where columns are off."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * K + (s * BK + k)[None, :], mask=m[:, None] < M, other=0.0)
        b = tl.load(b_ptr + (s * BK + k)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        left = tl.load(left_ptr + m * trips + s, mask=m < M, other=0.0)
        right = tl.load(right_ptr + s * N + n, mask=n < N, other=OTHER)
        shift = tl.load(shift_ptr + s * BK + k)
        total += tl.dot(a, b) * left[:, None] * right[None, :] + tl.sum(shift, 0)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


# Architecture, rows and warps: warpgroups, whose copies are their own or those of a warp for it; warps by themselves.
ARCHS = [(90, 64, 16), (90, 64, 4), (90, 16, 4), (80, 32, 4)]


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
@pytest.mark.parametrize(("m", "n", "other"), [(1, 1, 0.0), (0, 0, 3.0), (3, 16, -2.0)])
def test_rows_are_prefetched(check, arch, block, warps, stages, m, n, other):
    """Strided, contiguous and of halves; masked, with zeros or other numbers elsewhere; any number of iterations."""
    m, n, deep = block - m, 64 - n, 32
    for trips in (0, 1, 2, 5):
        k = trips * deep
        args = data("f2", m, k), data("f2", k, n), data("f4", m, trips), data("f4", trips, n), data("f2", max(k, 1))
        args = *args, np.zeros((block, 64), "f4"), m, n, k, trips, other, block, 64, deep
        check(scaled, *args, arch=arch, warps=warps, stages=stages)


@pytest.mark.parametrize(("arch", "block", "warps"), [ARCHS[0], *ARCHS[2:]])
def test_prefetched_tiles_are_loaded_by_copies_alone(arch, block, warps):
    """No thread loads what it computes with."""
    args = data("f2", block, 64), data("f2", 64, 64), data("f4", block, 2), data("f4", 2, 64), data("f2", 64)
    args = *args, np.zeros((block, 64), "f4"), block, 64, 64, 2, 0.0, block, 64, 32
    text, _ = emulator.llvm_of(module_of(scaled, args)[0], arch, warps)
    assert "cp.async" in text and not re.findall(r"ld\.global|load [^\n]*addrspace\(1\)", text)


@triton.jit
def picked(a_ptr, b_ptr, order_ptr, weight_ptr, c_ptr, trips, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows that follow from other loads of their iteration: weights of what the order names."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + (s * BK + k)[None, :])
        b = tl.load(b_ptr + (s * BK + k)[:, None] * BN + n[None, :])
        order = tl.load(order_ptr + s * BN + n)
        total += tl.dot(a, b) * tl.load(weight_ptr + order)[None, :] + order[None, :]
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
def test_rows_that_depend_on_other_rows(check, arch, block, warps):
    """The order runs ahead; the weights it names are loaded when it is there."""
    trips, deep = 3, 32
    order = rng.permutation(trips * 64).astype("i4").reshape(trips, 64)
    args = data("f2", block, trips * deep), data("f2", trips * deep, 64), order, data("f4", trips * 64)
    check(picked, *args, np.zeros((block, 64), "f4"), trips, block, 64, deep, arch=arch, warps=warps)


@triton.jit
def gathered(a_ptr, b_ptr, order_ptr, left_ptr, right_ptr, c_ptr, M, N, trips, BM: tl.constexpr, BN: tl.constexpr,
             BK: tl.constexpr):
    """Products of rows in an order that is loaded; each has a scale of its row and of its column along K."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    row = tl.load(order_ptr + m)
    mask, total = row < M, tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        a = tl.load(a_ptr + row[:, None] * (trips * BK) + (s * BK + k)[None, :], mask=mask[:, None], other=0.0)
        b = tl.load(b_ptr + (s * BK + k)[:, None] * BN + n[None, :])
        left = tl.load(left_ptr + row * trips + s, mask=mask, other=0.0)
        total += tl.dot(a, b) * left[:, None] * tl.load(right_ptr + n % N * trips + s)[None, :]
    tl.store(c_ptr + row[:, None] * BN + n[None, :], total, mask=mask[:, None])


def of_gathered(block, trips, left, columns):
    """Arguments: `left` of the rows there are, in any order, and indices past them."""
    order = np.append(rng.permutation(left), [left + 3] * (block - left)).astype("i4")
    args = data("f2", left, trips * 32), data("f2", trips * 32, 64), order, data("f4", left, trips)
    return *args, data("f4", columns, trips), np.zeros((left, 64), "f4"), left, columns, trips, block, 64, 32


@pytest.mark.parametrize("left", [1, 13, 16])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
def test_rows_of_an_order(check, arch, block, warps, stages, left):
    for trips, columns in ((0, 64), (1, 64), (3, 17)):
        check(gathered, *of_gathered(block, trips, left, columns), arch=arch, warps=warps, stages=stages)


def test_rows_of_an_order_are_converted_before_the_loop():
    text = ttgir_of(gathered, of_gathered(64, 3, 13, 17), num_stages=3, launch_checks=False)
    before, loop = text.split(" = for ")
    assert "convert" in before and "convert" not in loop.split("\n  }\n")[0]


@triton.jit
def running(a_ptr, b_ptr, seen_ptr, c_ptr, trips, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A row that the iteration before has stored: it may not run ahead."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + (s * BK + k)[None, :])
        b = tl.load(b_ptr + (s * BK + k)[:, None] * BN + n[None, :])
        seen = tl.load(seen_ptr + n)
        total += tl.dot(a, b) + seen[None, :]
        tl.debug_barrier()
        tl.store(seen_ptr + n, seen + 1)
        tl.debug_barrier()
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
def test_rows_that_iterations_pass_through_memory(check, arch, block, warps):
    trips, deep = 4, 32
    args = data("f2", block, trips * deep), data("f2", trips * deep, 64), data("f4", 64)
    check(running, *args, np.zeros((block, 64), "f4"), trips, block, 64, deep, arch=arch, warps=warps)
