"""Persistent products with one loop over all steps of all their tiles become two loops. Against the interpreter."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of
from tritium.backends.gpu.rewrite.nest_loops import nest_loops
from tritium.insight import emulator
from tritium.ir.core import walk
from tritium.passes import CLEANUP, run

BF16 = ml_dtypes.bfloat16


@triton.jit
def counted(a_ptr, b_ptr, c_ptr, ends_ptr, M, N, K, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """A carried number counts the steps; it is stored with the last tile."""
    start, steps = tl.program_id(0), tl.cdiv(K, BLOCK)
    columns = tl.cdiv(N, BLOCK)
    tiles = tl.cdiv(M, BLOCK) * columns
    mine = tiles // PROGRAMS
    if start < tiles % PROGRAMS:
        mine += 1
    tile, step, row, column = start - PROGRAMS, -1, 0, 0
    m, n, k = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, steps * mine):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += PROGRAMS
            row, column = tile // columns, tile % columns
            m, n = row * BLOCK + tl.arange(0, BLOCK), column * BLOCK + tl.arange(0, BLOCK)
            m, n = tl.where(m < M, m, 0), tl.where(n < N, n, 0)
        at = step * BLOCK + k
        a = tl.load(a_ptr + m[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
        if step == steps - 1:
            i, j = row * BLOCK + tl.arange(0, BLOCK), column * BLOCK + tl.arange(0, BLOCK)
            tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    tl.store(ends_ptr + 3 * start, tile)
    tl.store(ends_ptr + 3 * start + 1, step)
    tl.store(ends_ptr + 3 * start + 2, row)


@triton.jit
def indexed(a_ptr, b_ptr, c_ptr, ends_ptr, M, N, K, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """The step is the index modulo the steps, the tile its quotient."""
    start, steps = tl.program_id(0), tl.cdiv(K, BLOCK)
    columns = tl.cdiv(N, BLOCK)
    k, acc = tl.arange(0, BLOCK), tl.zeros((BLOCK, BLOCK), tl.float32)
    mine = tl.cdiv(tl.cdiv(M, BLOCK) * columns - start, PROGRAMS)
    for s in range(0, mine * steps):
        step, tile = s % steps, start + s // steps * PROGRAMS
        m, n = tile // columns * BLOCK + k, tile % columns * BLOCK + k
        at = step * BLOCK + k
        a = tl.load(a_ptr + m[:, None] * K + at[None, :], mask=(m[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + n[None, :], mask=(at[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        if step == steps - 1:
            tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
            tl.store(ends_ptr + 3 * start, s)


def arguments(m, n, k, programs, block=64):
    return (data(BF16, m, k), data(BF16, k, n), np.zeros((m, n), "f4"), np.zeros(3 * programs, "i4"), m, n, k, block,
            programs)  # fmt: skip


SIZES = {  # of several steps, of one, more programs than tiles, no K at all
    "several": (256, 192, 160, 5),
    "one": (192, 128, 64, 2),
    "few": (64, 128, 128, 3),
    "none": (128, 64, 0, 2),
}


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kernel", [counted, indexed])
def test_results(check, kernel, sizes, arch):
    check(kernel, *arguments(*sizes), grid=(sizes[-1],), arch=arch, stages=3)


def clean(kernel, args):
    """The kernel's module as the pass gets it."""
    return run(module_of(kernel, args)[0], CLEANUP)


def loops(module):
    return [op for op in walk(module.body) if op.kind.name == "for"]


@pytest.mark.parametrize("kernel", [counted, indexed])
def test_two_loops(kernel):
    module = clean(kernel, arguments(*SIZES["several"]))
    assert len(loops(module)) == 1
    outer, inner = loops(nest_loops(module))
    assert inner in walk(outer.regions[0])
    assert not [op for op in walk(outer.regions[0]) if op.kind.name == "if"]


def test_a_producer_warp_loads_for_all_tiles():
    module, args = module_of(counted, arguments(256, 128, 128, 2))
    _, metadata = emulator.llvm_of(module)
    assert metadata["producer_warps"] and emulator.fit(metadata, args, (2, 1, 1))


def test_threads_that_copy_keep_one_loop():
    """Their copies go on across the ends of tiles."""
    args = arguments(256, 128, 128, 2)
    count = lambda arch: len(re.findall(r"= for |^ *for ", ttgir_of(counted, args, arch, num_stages=3), re.MULTILINE))
    assert count(80) == 1 and count(90) == 6  # of each role over programs, tiles and steps


@triton.jit
def seen(x_ptr, out_ptr, steps, tasks, KIND: tl.constexpr):
    """Something depends on there being one loop."""
    step, first, total, x = -1, 0, 0, 0
    for s in range(0, steps * tasks):
        before = step
        step = tl.where(step == steps - 1, 0, step + 1)
        if KIND == 0:  # the step before is read
            total += before
        if KIND == 1:  # what the branch sets is read before it is set
            total += first
        if KIND == 2:  # memory is written before the branch
            tl.store(out_ptr + 8 + s, s)
        if step == 0:
            first = first + tl.load(x_ptr + s + x)
            if KIND == 2:
                first += tl.load(out_ptr + 8 + s)
        if KIND == 3:  # the branch reads what an iteration computes
            x = tl.load(x_ptr + s)
        total += first * s + x
        loaded = tl.load(x_ptr + s)
        if step == steps - 1:
            tl.store(out_ptr + s, total + (loaded if KIND == 4 else 0))
            total = total // 2
        if KIND == 5:  # the end of a task is not the end of its last iteration
            tl.store(out_ptr + s, total)
    tl.store(out_ptr + 63, total + step)


@pytest.mark.parametrize("kind", [0, 1, 2, 4, 5])
def test_loops_that_stay(kind):
    module = clean(seen, (np.zeros(64, "i4"), np.zeros(64, "i4"), 3, 4, kind))
    assert nest_loops(module) is module


@pytest.mark.parametrize("kind", range(7))
def test_one_loop_and_two_give_the_same(check, kind):
    check(seen, np.arange(64, dtype="i4"), np.zeros(64, "i4"), 3, 4, kind)
