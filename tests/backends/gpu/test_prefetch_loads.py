"""Loops without dots that ask for stages: loads of the next iteration overlap with this one."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tests.backends.gpu.test_reordering import compare
from tritium.insight import emulator

pytestmark = pytest.mark.sampled


def loads(kernel, *args, **options):
    """How many instructions load from global memory."""
    text, _ = emulator.llvm_of(module_of(kernel, args)[0], **options)
    return len(re.findall(r"ld\.global|load [^\n]*addrspace\(1\)", text))


@triton.jit
def rows(out_ptr, in_ptr, in_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        columns = tl.arange(0, BLOCK)
        mask = columns < n_cols
        x = tl.load(in_ptr + row * in_stride + columns, mask=mask, other=-9)
        x -= tl.max(x, axis=0)
        tl.store(out_ptr + row * out_stride + columns, x * tl.sum(x, axis=0), mask=mask)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "f8"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_rows_of_any_number(check, count, dtype):
    """The buffers end where the rows do: a load past the end would be seen."""
    for programs, cols in ((1, 128), (3, 100)):
        x = data(dtype, max(count, 1), cols)
        check(rows, np.zeros(x.shape, dtype), x, cols, cols, count, cols, 128, 4, grid=(programs,))


def test_the_user_asks_for_it():
    """Twice the loads: those of the first iteration, and those of the next. By default loops have none ahead."""
    args = np.zeros((4, 128), "f4"), data("f4", 4, 128), 128, 128, 4, 128, 128
    assert loads(rows, *args, 1) == loads(rows, *args, None) == 1
    assert loads(rows, *args, 2) == loads(rows, *args, 4) == 2
    assert loads(rows, *args, 4, launch_checks=False) == 1


@pytest.mark.parametrize(("block", "warps", "ahead"), [(8192, 4, True), (16384, 4, False), (16384, 16, True),
                                                       (32768, 16, False), (16384, 32, True), (32768, 32, False)])
def test_tiles_that_find_registers(block, warps, ahead):
    """Up to a quarter of those a thread can have."""
    args = np.zeros((4, 128), "f4"), data("f4", 4, 128), 128, 128, 4, 128, block
    plain, staged = (loads(rows, *args, stages, num_warps=warps) for stages in (1, 2))
    assert staged == (2 * plain if ahead else plain)


@pytest.mark.parametrize("shift", [None, 0, 1, -1, 4, -4, 5, -5, 20, -20])
def test_rows_that_lie_on_others(shift):
    """In place, or some rows further on or back: what an iteration stores, a later one may load. Numbers wrap."""
    count, cols = 20, 64

    def views(base):
        start = 60 if shift is None else 20 + shift
        return base[start:start + count], base[20:20 + count]

    fit = compare(rows, data("i4", 100, cols), views, cols, cols, count, cols, 64, 4)
    assert fit == (shift is None or abs(shift) >= count)


@triton.jit
def own_rows(x_ptr, y_ptr, n_rows, BLOCK: tl.constexpr):
    """Every iteration loads what the last has stored, through one argument."""
    columns = tl.arange(0, BLOCK)
    for row in tl.range(1, n_rows, num_stages=3):
        before = tl.load(x_ptr + (row - 1) * BLOCK + columns)
        y = tl.load(y_ptr + row * BLOCK + columns)
        tl.store(x_ptr + row * BLOCK + columns, before + y)


def test_loads_that_may_alias_a_store_are_not_prefetched(check):
    args = np.zeros((6, 128), "f4"), data("f4", 6, 128), 6, 128
    assert loads(own_rows, *args) == 3
    check(own_rows, *args)


@triton.jit
def backwards(out_ptr, in_ptr, weight_ptr, n, BLOCK: tl.constexpr):
    """A negative step, two carried values, one of them a pointer, and a result that hangs on the order."""
    columns = tl.arange(0, BLOCK)
    total, weights = tl.zeros((BLOCK,), tl.float32), weight_ptr
    for i in tl.range(n - 1, -1, -2, num_stages=2):
        x = tl.load(in_ptr + i * BLOCK + columns, mask=columns != i, other=3)
        weights += 1
        total = tl.load(weights) * x - total + i
    tl.store(out_ptr + columns, total)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
def test_steps_down_and_carried_values(check, n):
    """No store, so nobody needs to see that anything is apart."""
    args = np.zeros(128, "f4"), data("f4", max(n, 1), 128), data("f4", 2 + n // 2)
    assert loads(backwards, *args, 5, 128) == loads(backwards, *args, 5, 128, launch_checks=False) == 4
    check(backwards, *args, n, 128)


@triton.jit
def named(out_ptr, id_ptr, in_ptr, n, step, BLOCK: tl.constexpr):
    """Rows that a table names; its entries are computed with, too."""
    columns = tl.arange(0, BLOCK)
    for i in tl.range(0, n, step, num_stages=2):
        row = tl.load(id_ptr + i)
        x = tl.load(in_ptr + row * BLOCK + columns)
        tl.store(out_ptr + i * BLOCK + columns, x + row)


@pytest.mark.parametrize("n", [0, 1, 5, 6])
def test_rows_that_others_name(check, n):
    """Where they lie nobody knows before, so the entries run ahead of the stores alone."""
    args = np.zeros((6, 128), "f4"), rng.permutation(6).astype("i4")[:max(n, 1)].copy(), data("f4", 6, 128), n
    assert loads(named, *args, 2, 128) == 3
    for step in (1, 2, 7):
        check(named, *args, step, 128)


@triton.jit
def chase(out_ptr, next_ptr, in_ptr, n, BLOCK: tl.constexpr):
    """Where an iteration loads from, the last has loaded; what that names is summed up."""
    at, columns = 0, tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.range(n, num_stages=2):
        at = tl.load(next_ptr + at)
        total = 2 * total + tl.load(in_ptr + at * BLOCK + columns)
    tl.store(out_ptr + columns, total + at)


@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_loads_that_depend_on_loads_of_earlier_iterations(check, n):
    args = np.zeros(128, "f4"), rng.permutation(8).astype("i4"), data("f4", 8, 128)
    assert loads(chase, *args, 5, 128) == 4
    check(chase, *args, n, 128)


@triton.jit
def nested(out_ptr, in_ptr, bias_ptr, heads, n, BLOCK: tl.constexpr):
    """A loop in a loop in a loop, a branch in the innermost that takes what is loaded; then a loop around another."""
    columns, k = tl.arange(0, BLOCK), 0
    while k < 2:
        for head in tl.range(heads, num_stages=2):
            bias = tl.load(bias_ptr + head)
            for i in tl.range(head, n, num_stages=3):
                x = tl.load(in_ptr + (head * n + i) * BLOCK + columns) + bias
                if i % 2 == 0:
                    x = x * 2 + i
                tl.store(out_ptr + (head * n + i) * BLOCK + columns, x)
        k += 1
    for head in tl.range(heads, num_stages=2):
        x = tl.load(bias_ptr + head)
        j = 0
        while j < head:
            x += j
            j += 1
        tl.store(bias_ptr + heads + head, x)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_loops_in_loops(check, n):
    """Only innermost ones run ahead."""
    heads = 3
    args = np.zeros((heads, max(n, 1), 128), "f4"), data("f4", heads, max(n, 1), 128), data("f4", 2 * heads), heads
    assert loads(nested, *args, 5, 128) == 4
    check(nested, *args, n, 128)


@triton.jit
def locked(out_ptr, in_ptr, count_ptr, n, BLOCK: tl.constexpr, HOW: tl.constexpr):
    """What other programs may wait for, and what one may learn from them, keeps its order."""
    columns = tl.arange(0, BLOCK)
    for i in tl.range(n, num_stages=2):
        turn = 0
        if HOW == "atomic":
            turn = tl.atomic_add(count_ptr, 1)
        if HOW == "sum":
            tl.atomic_add(count_ptr, 1)
        if HOW == "barrier":
            tl.debug_barrier()
        if HOW == "branch":
            if i > 1:
                tl.store(count_ptr, i)
        x = tl.load(in_ptr + i * BLOCK + columns, volatile=HOW == "volatile")
        tl.store(out_ptr + i * BLOCK + columns, x + turn)


@pytest.mark.parametrize(("how", "count"), [("", 2), ("sum", 2), ("atomic", 1), ("barrier", 1), ("branch", 2),
                                            ("volatile", 1)])
def test_loops_that_are_left_alone(check, how, count):
    args = np.zeros((5, 128), "f4"), data("f4", 5, 128), np.zeros(1, "i4"), 5, 128, how
    assert loads(locked, *args) == count
    check(locked, *args)


@triton.jit
def wide(out_ptr, in_ptr, n, BLOCK: tl.constexpr):
    """An index of 64 bits."""
    columns = tl.arange(0, BLOCK)
    for i in tl.range(tl.cast(0, tl.int64), n.to(tl.int64), 1, num_stages=2):
        tl.store(out_ptr + i * BLOCK + columns, tl.load(in_ptr + i * BLOCK + columns) + 1)


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_every_architecture_prefetches(check, arch):
    args = np.zeros((3, 128), "i8"), data("i8", 3, 128), 3, 128
    assert loads(wide, *args, arch=arch) == 2
    check(wide, *args, arch=arch)
