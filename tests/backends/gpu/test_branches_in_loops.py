"""Branches with loads and stores in pipelined loops around dots. Against the interpreter."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.insight import emulator

BF16 = ml_dtypes.bfloat16


@triton.jit
def biased(a_ptr, b_ptr, c_ptr, bias_ptr, K, last, M: tl.constexpr, BLOCK: tl.constexpr):
    """Some iterations load a tile more, and add it to the sums."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total = tl.zeros((M, M), tl.float32)
    for s in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + s + k[None, :])
        b = tl.load(b_ptr + (s + k[:, None]) * M + i[None, :])
        total = tl.dot(a, b, total)
        if s < last:
            total += tl.load(bias_ptr + s + i[:, None] * M + i[None, :])
    tl.store(c_ptr + i[:, None] * M + i[None, :], total)


@triton.jit
def scored(q_ptr, k_ptr, v_ptr, o_ptr, row_ptr, N, has_rows, M: tl.constexpr, BLOCK: tl.constexpr):
    """Attention whose scores are changed in a branch: its result feeds a dot."""
    i, d, n = tl.arange(0, M), tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    q = tl.load(q_ptr + i[:, None] * BLOCK + d[None, :])
    most, total = tl.full((M,), -1e9, tl.float32), tl.zeros((M,), tl.float32)
    out = tl.zeros((M, BLOCK), tl.float32)
    for s in range(0, N, BLOCK):
        k = tl.load(k_ptr + (s + n)[None, :] * BLOCK + d[:, None])
        scores = tl.dot(q, k)
        if has_rows != 0:
            row = tl.load(row_ptr + s + n)
            if s > 0:
                row += tl.max(row, 0)
            scores += row[None, :]
        new = tl.maximum(most, tl.max(scores, 1))
        p, factor = tl.exp2(scores - new[:, None]), tl.exp2(most - new)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(v_ptr + (s + n)[:, None] * BLOCK + d[None, :])
        out = tl.dot(p.to(v.dtype), v, out * factor[:, None])
        most = new
    tl.store(o_ptr + i[:, None] * BLOCK + d[None, :], out / total[:, None])


@triton.jit
def flushed(a_ptr, b_ptr, c_ptr, K, every, M: tl.constexpr, BLOCK: tl.constexpr):
    """Some iterations store the sums and begin anew: results of a branch are carried to the next."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total, count = tl.zeros((M, M), tl.float32), 0
    for s in range(0, K):
        a = tl.load(a_ptr + (s * M + i[:, None]) * BLOCK + k[None, :])
        b = tl.load(b_ptr + (s * BLOCK + k[:, None]) * M + i[None, :])
        total = tl.dot(a, b, total)
        if s % every == every - 1:
            tl.store(c_ptr + s * M * M + i[:, None] * M + i[None, :], total.to(tl.bfloat16))
            total = tl.zeros((M, M), tl.float32)
            count += 1
    tl.store(c_ptr + K * M * M + i[:, None] * M + i[None, :], total + count)


@triton.jit
def selected(a_ptr, b_ptr, c_ptr, K, every, M: tl.constexpr, BLOCK: tl.constexpr):
    """Sums that a select keeps in some iterations only, and one that is never reset."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total, whole = tl.zeros((M, M), tl.float32), tl.zeros((M, M), tl.float32)
    for s in range(0, K):
        a = tl.load(a_ptr + (s * M + i[:, None]) * BLOCK + k[None, :])
        b = tl.load(b_ptr + (s * BLOCK + k[:, None]) * M + i[None, :])
        total = tl.dot(a, b, total)
        whole = tl.dot(a, b, whole)
        if s % every == 0:
            tl.store(c_ptr + s * M * M + i[:, None] * M + i[None, :], total.to(tl.bfloat16))
        total = tl.where(s % every != 0, total, 0.0)
    tl.store(c_ptr + K * M * M + i[:, None] * M + i[None, :], total + whole)


@triton.jit
def nested(a_ptr, b_ptr, c_ptr, d_ptr, K, M: tl.constexpr, BLOCK: tl.constexpr):
    """Branches in branches, one after the other: what one computes, and another needs in a branch of its own."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total, at = tl.zeros((M, M), tl.float32), i[:, None] * M + i[None, :]
    for s in range(0, K):
        a = tl.load(a_ptr + (s * M + i[:, None]) * BLOCK + k[None, :])
        b = tl.load(b_ptr + (s * BLOCK + k[:, None]) * M + i[None, :])
        total = tl.dot(a, b, total)
        if s % 2 == 0:
            total = total * 0.5 + tl.load(c_ptr + at)
            if s > 1:
                total += tl.sum(total, 1)[:, None]
                if s > 2:
                    total = total - at
        if s > 0:
            scale = s * 0.5
            if s % 3 == 0:
                total *= scale
    tl.store(d_ptr + at, total)


@triton.jit
def ordered(a_ptr, b_ptr, c_ptr, out_ptr, K, M: tl.constexpr, BLOCK: tl.constexpr):
    """A branch reads what an earlier branch of its iteration wrote."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total = tl.zeros((M, M), tl.float32)
    at = i[:, None] * M + i[None, :]
    for s in range(0, K):
        a = tl.load(a_ptr + (s * M + i[:, None]) * BLOCK + k[None, :])
        b = tl.load(b_ptr + (s * BLOCK + k[:, None]) * M + i[None, :])
        product = tl.dot(a, b)
        if s % 2 == 0:
            tl.store(c_ptr + at, product)
        if s % 3 == 0:
            total += tl.load(c_ptr + at)
    tl.store(out_ptr + at, total)


@triton.jit
def fed(a_ptr, b_ptr, c_ptr, out_ptr, K, M: tl.constexpr, BLOCK: tl.constexpr):
    """A dot multiplies what a branch with a store gives."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total = tl.zeros((M, M), tl.float32)
    at = i[:, None] * M + i[None, :]
    for s in range(0, K):
        a = tl.load(a_ptr + (s * M + i[:, None]) * BLOCK + k[None, :])
        b = tl.load(b_ptr + (s * BLOCK + k[:, None]) * M + i[None, :])
        tl.store(c_ptr + at, total)
        if s % 2 == 0:
            tl.store(c_ptr + at, total + 1)
            a = -a
        total = tl.dot(a, b, total)
    tl.store(out_ptr + at, total)


def of_biased(steps, m=64, block=64):
    a, b = data(BF16, m, steps * block), data(BF16, steps * block, m)
    return a, b, np.zeros((m, m), "f4"), data("f4", m * m + steps * block), steps * block, 2 * block, m, block


def of_scored(n, m=64, block=64):
    q, k, v = (data(BF16, x, block) for x in (m, n, n))
    return q, k, v, np.zeros((m, block), "f4"), data("f4", n), n, 1, m, block


def tiles(steps, m=64, block=64):
    return data(BF16, steps, m, block), data(BF16, steps, block, m)


def of_flushed(steps, every=2):
    return *tiles(steps), np.zeros((steps + 1, 64, 64), BF16), steps, every, 64, 64


def of_two(steps):
    return *tiles(steps), data("f4", 64, 64), np.zeros((64, 64), "f4"), steps, 64, 64


CASES = {  # kernel, arguments by the number of iterations, tolerance
    "biased": (biased, of_biased, 0.0),
    "scored": (scored, lambda n: of_scored(64 * n), 1e-2),
    "flushed": (flushed, of_flushed, 0.0),
    "selected": (selected, of_flushed, 0.0),
    "nested": (nested, of_two, 1e-2),
    "ordered": (ordered, of_two, 0.0),
    "fed": (fed, of_two, 0.0),
}


@pytest.mark.parametrize("arch", [90, 80, 100])
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_results(check, name, steps, arch):
    kernel, args, tolerance = CASES[name]
    for stages in (2, 4):
        check(kernel, *args(steps), arch=arch, stages=stages, tolerance=tolerance)


@pytest.mark.parametrize("warps", [1, 8])
@pytest.mark.parametrize("name", CASES)
def test_warps(check, name, warps):
    kernel, args, tolerance = CASES[name]
    check(kernel, *args(4), warps=warps, tolerance=tolerance)


@pytest.mark.parametrize("name", ["flushed", "selected"])
def test_only_branches_wait_for_sums_that_they_store(name):
    """The dot of an iteration is in flight when the next begins, which overwrites sums that were stored."""
    kernel, args, _ = CASES[name]
    text, _ = emulator.llvm_of(module_of(kernel, args(4))[0])
    assert text.count("wgmma.wait_group.sync.aligned 1") and "mov.pred p" in text
    assert re.search(r"^then.*?wgmma.wait_group.sync.aligned 0.*?^end", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("name", "copied"), [("biased", True), ("scored", True), ("flushed", True), ("fed", False)])
def test_loops_that_are_pipelined(name, copied):
    """All but the loop whose branch writes, and feeds a dot."""
    kernel, args, _ = CASES[name]
    for arch, copies in ((90, r"cp\.async"), (80, r"cp\.async\.cg")):
        text, _ = emulator.llvm_of(module_of(kernel, args(4))[0], arch=arch)
        assert bool(re.search(copies, text)) == copied


@triton.jit
def states(k_ptr, v_ptr, h_ptr, starts_ptr, H: tl.constexpr, M: tl.constexpr, BLOCK: tl.constexpr):
    """Linear attention over sequences of any length: offsets are loaded, and an iteration stores the state first."""
    n = tl.program_id(0)
    begin, end = tl.load(starts_ptr + n), tl.load(starts_ptr + n + 1)
    i, t = tl.arange(0, M), tl.arange(0, BLOCK)
    h = tl.zeros((M, M), tl.float32)
    for s in range(begin, end):
        tl.store(h_ptr + (s * M + i[:, None]) * M + i[None, :], h.to(tl.bfloat16))
        k = tl.load(k_ptr + (s * BLOCK + t[None, :]) * M + i[:, None])
        v = tl.load(v_ptr + (s * BLOCK + t[:, None]) * M + i[None, :])
        h += tl.dot(k, v) * H


def of_states(starts):
    rows = starts[-1] * 64
    return data(BF16, rows, 64), data(BF16, rows, 64), np.zeros((rows, 64), BF16), np.array(starts, "i4"), 0.5, 64, 64


@pytest.mark.parametrize("arch", [90, 80])
def test_offsets_that_are_loaded(check, arch):
    check(states, *of_states([0, 3, 3, 4, 9]), grid=(4,), arch=arch)


def test_the_same_pointer_is_loaded_in_order(check):
    """What is stored is the k of the next iteration: the launcher sees that both are one argument."""
    module, (k, v, h, *rest) = module_of(states, of_states([0, 5]))
    text, metadata = emulator.llvm_of(module)
    assert "cp.async" in text
    assert emulator.fit(metadata, [k, v, h, *rest], (1, 1, 1))
    assert not emulator.fit(metadata, [h, v, h, *rest], (1, 1, 1))


@triton.jit
def windowed(k_ptr, v_ptr, out_ptr, lo, hi, first, last, ABOVE: tl.constexpr, BLOCK: tl.constexpr):
    """A branch around the whole body: some iterations at the beginning or at the end do nothing."""
    i = tl.arange(0, BLOCK)
    total, count = tl.zeros((BLOCK, BLOCK), tl.float32), 0
    for s in range(lo, hi, BLOCK):
        if (s + BLOCK > first) if ABOVE else ((s >= first) & (s <= last)):
            k = tl.load(k_ptr + (s + i)[:, None] * BLOCK + i[None, :])
            v = tl.load(v_ptr + (s + i)[:, None] * BLOCK + i[None, :])
            total = tl.dot(k, v, total)
            count += s + 1
    tl.store(out_ptr + i[:, None] * BLOCK + i[None, :], total + count)


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("lo", [0, 32])
def test_branches_around_the_body_are_bounds(check, lo, above):
    k, v = data(BF16, 6 * 64 + 32, 64), data(BF16, 6 * 64 + 32, 64)
    limit = 2**31 - 1
    for first, last in ((0, 400), (64, 128), (63, 127), (65, 129), (-limit - 1, limit), (limit, -limit), (1000, -5)):
        check(windowed, k, v, np.zeros((64, 64), "f4"), lo, lo + 6 * 64, first, last, above, 64)


def test_the_body_of_a_branch_is_pipelined():
    args = data(BF16, 384, 64), data(BF16, 384, 64), np.zeros((64, 64), "f4"), 0, 384, 70, 200, True, 64
    text, _ = emulator.llvm_of(module_of(windowed, args)[0])
    assert "cp.async" in text and "ld.global" not in text
