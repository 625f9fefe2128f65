"""Consecutive loops that read the same operand, and the registers that are live meanwhile."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tritium.insight import emulator

pytestmark = pytest.mark.sampled


@triton.jit
def attend(acc, top, total, q, k_ptr, v_ptr, pages, count, MASKED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           D: tl.constexpr):  # fmt: skip
    d, j = tl.arange(0, D), tl.arange(0, BN)
    for i in range(count):
        n = tl.load(pages + i) * BN + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None])
        v = tl.load(v_ptr + n[:, None] * D + d[None, :])
        s = tl.dot(q, k) * 0.125
        if MASKED:
            s = tl.where(tl.arange(0, BM)[:, None] >= n[None, :] % BM, s, -1e9)
        above = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - above[:, None])
        scale = tl.exp2(top - above)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), v, acc * scale[:, None])
        top = above
    return acc, top, total


@triton.jit
def masked_then_whole(o_ptr, q_ptr, k_ptr, v_ptr, first, second, n, m, BM: tl.constexpr, BN: tl.constexpr,
                      D: tl.constexpr):  # fmt: skip
    """As attention over blocks that a mask lists: those it cuts, then the others."""
    i, d = tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * D + d[None, :])
    acc, top, total = tl.zeros((BM, D), tl.float32), tl.full((BM,), -1e9, tl.float32), tl.zeros((BM,), tl.float32)
    acc, top, total = attend(acc, top, total, q, k_ptr, v_ptr, first, n, True, BM, BN, D)
    acc, top, total = attend(acc, top, total, q, k_ptr, v_ptr, second, m, False, BM, BN, D)
    tl.store(o_ptr + i[:, None] * D + d[None, :], acc / total[:, None])


def of_attention(m, block, d, n1, n2):
    pages = lambda n: rng.permutation(4)[:n].astype("i4")
    return (np.zeros((m, d), "f4"), data("f2", m, d), data("f2", 4 * block, d), data("f2", 4 * block, d), pages(4),
            pages(4), n1, n2, m, block, d)  # fmt: skip


@pytest.mark.parametrize(("m", "block", "warps"), [(64, 32, 4), (128, 64, 8), (128, 128, 4), (32, 32, 4)])
@pytest.mark.parametrize("counts", [(1, 0), (2, 4), (0, 3)])
def test_masked_blocks_then_whole_ones(check, m, block, warps, counts):
    check(masked_then_whole, *of_attention(m, block, 64, *counts), warps=warps, tolerance=4e-3)


def test_the_tile_they_share_is_in_shared_memory_once():
    """It stays where it is while the first loop's buffers are released, and the second loop's come there."""
    text, metadata = emulator.llvm_of(module_of(masked_then_whole, of_attention(128, 64, 64, 2, 2))[0], num_warps=8)
    tile, buffers = 128 * 64 * 2, 2 * 3 * 64 * 64 * 2
    assert metadata["producer_warps"] == 0 and metadata["shared"] == tile + buffers
    first_loop = text.index("wgmma.mma_async")
    assert len(re.findall(r"store <8 x half>.*addrspace\(3\)|stmatrix", text[:first_loop])) > 0
    assert not re.findall(r"store <8 x half>.*addrspace\(3\)", text[first_loop:])


@pytest.mark.parametrize(("block", "runs_on"), [(64, True), (128, False)])
def test_a_dot_runs_on_only_if_threads_hold_what_it_reads(block, runs_on):
    """Of four warps, a thread has 64 registers of sums. With 64 columns, 64 of products and 32 of what it multiplies
    come to them; with 128, twice as many, which are all there are."""
    text, _ = emulator.llvm_of(module_of(masked_then_whole, of_attention(128, block, 64, 2, 2))[0], num_warps=4)
    waits = re.findall(r"wgmma\.wait_group\.sync\.aligned (\d+)", text)
    assert ("1" in waits) == runs_on


def test_reductions_precede_a_dot_that_is_waited_for():
    """The sum of a row is computed before the product that reads the row, or threads would hold both."""
    text, _ = emulator.llvm_of(module_of(masked_then_whole, of_attention(128, 128, 64, 2, 0))[0], num_warps=4)
    body = text[text.index("wgmma.mma_async") :]
    second = re.search(r"wgmma\.mma_async\S*m64n64k16", body).start()
    assert len(re.findall("shfl.sync.bfly", body[:second])) == 8  # four rows, two exchanges each, for the largest
    assert len(re.findall("= fadd", body[:second])) >= 4 * 31  # a thread has 32 elements of each row
