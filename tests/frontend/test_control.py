"""Branches and loops, run on the machine. S09."""

# ruff: noqa: B007

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import ops
from tritium.ir.core import walk

from .running import ints, module_of, run


def kinds(module):
    return [op.kind for op in walk(module.body)]


@triton.jit
def first_above(out, x, n, limit):
    for i in range(n):
        if tl.load(x + i) > limit:
            break
    tl.store(out, i)


@pytest.mark.parametrize("limit, where", [(0, 0), (3, 2), (5, 5), (100, 7)])
def test_break_leaves_the_loop_variable(limit, where):
    assert run(first_above, ints(), ints(3, 1, 4, 1, 5, 9, 2, 6), 8, limit)[0] == where


@triton.jit
def sum_of_odd(out, x, n):
    total = 0
    for i in range(n):
        value = tl.load(x + i)
        if value % 2 == 0:
            continue
        total += value
    tl.store(out, total)


def test_continue_keeps_a_plain_for():
    assert run(sum_of_odd, ints(), ints(3, 1, 4, 1, 5, 9, 2, 6), 8)[0] == 19
    found = kinds(module_of(sum_of_odd, ints(), ints(), 8))
    assert ops.for_ in found and ops.while_ not in found


@triton.jit
def return_from_two_loops(out, x, n):
    for i in range(n):
        for j in range(n):
            if tl.load(x + i) + tl.load(x + j) == 11:
                tl.store(out, i)
                tl.store(out + 1, j)
                return
    tl.store(out, -1)


def test_return_from_nested_loops():
    assert run(return_from_two_loops, ints(), ints(3, 1, 4, 1, 5, 9, 2, 6), 8)[:2].tolist() == [4, 7]
    assert run(return_from_two_loops, ints(), ints(1, 1, 1), 3)[0] == -1


@triton.jit
def find(x, n, wanted):
    for i in range(n):
        if tl.load(x + i) == wanted:
            return i
    return -1


@triton.jit
def call_find(out, x, n):
    tl.store(out, find(x, n, 9))
    tl.store(out + 1, find(x, n, 8))


def test_a_function_returns_from_its_loop():
    assert run(call_find, ints(), ints(3, 1, 4, 1, 5, 9, 2, 6), 8)[:2].tolist() == [5, -1]


@triton.jit
def collatz(out, n):
    steps = 0
    while True:
        if n == 1:
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    tl.store(out, steps)


def test_while_true():
    assert run(collatz, ints(), 27)[0] == 111


@triton.jit
def count_down(out, n):
    turns = 0
    while n:
        n -= 1
        turns += 1
    tl.store(out, turns)
    tl.store(out + 1, n)


def test_while_of_a_number():
    assert run(count_down, ints(), 5)[:2].tolist() == [5, 0]
    assert run(count_down, ints(), 0)[0] == 0


@triton.jit
def never(out, FLAG: tl.constexpr):
    while FLAG:
        tl.store(out, 1)
        break
    tl.store(out + 1, 2)


def test_while_of_a_constant():
    assert run(never, ints(), FLAG=False)[:2].tolist() == [0, 2]
    assert run(never, ints(), FLAG=True)[:2].tolist() == [1, 2]


@triton.jit
def guarded_test(out, x, n):
    i = 0
    while tl.load(x + i) != 0:
        i += 1
        if i == n:
            break
    tl.store(out, i)


def test_the_test_is_not_evaluated_after_break():
    # x has 4 elements: the machine would refuse to read the fifth
    assert run(guarded_test, ints(), np.array([1, 1, 1, 1], np.int32), 4)[0] == 4


@triton.jit
def hinted(out, n):
    total = 0
    while tl.condition(n > 0, disable_licm=True):
        total += n
        n -= 1
    for i in tl.range(0, 6, 2, num_stages=4, loop_unroll_factor=2, flatten=True, disallow_acc_multi_buffer=True):
        total += i
    tl.store(out, total)


def test_hints_change_nothing_but_the_op():
    assert run(hinted, ints(), 4)[0] == 16
    loop, = [op for op in walk(module_of(hinted, ints(), 4).body) if op.kind is ops.for_]
    assert (loop.attrs["num_stages"], loop.attrs["unroll"], loop.attrs["flatten"]) == (4, 2, True)


@triton.jit
def counting(out, lo, hi, STEP: tl.constexpr):
    count = 0
    for i in range(lo, hi, STEP):
        count = count * 10 + i
    tl.store(out, count)
    tl.store(out + 1, i)


@pytest.mark.parametrize("lo, hi, step", [(1, 5, 1), (1, 8, 3), (5, 1, -1), (7, 0, -3), (3, 4, 1)])
def test_bounds_and_steps(lo, hi, step):
    number = int("".join(map(str, range(lo, hi, step))))
    assert run(counting, ints(), lo, hi, STEP=step)[:2].tolist() == [number, range(lo, hi, step)[-1]]


@triton.jit
def variable_before_and_after(out, n):
    i = 42
    for i in range(n):
        pass
    tl.store(out, i)


def test_a_loop_without_turns_leaves_its_variable_alone():
    assert run(variable_before_and_after, ints(), 0)[0] == 42
    assert run(variable_before_and_after, ints(), 5)[0] == 4


@triton.jit
def variable_rebound(out, n):
    for i in range(n):
        i = i * 2.5
    tl.store(out, i.to(tl.int32))


def test_the_loop_variable_may_be_bound_again():
    assert run(variable_rebound, ints(), 5)[0] == 10


@triton.jit
def names_used_twice(out, n):
    for j in range(n):
        tl.store(out + j, j)
    for i in tl.range(n.to(tl.int64)):
        for j in range(n.to(tl.int64)):
            tl.store(out + j, i.to(tl.int32))


def test_a_loop_variable_of_another_type_later():
    assert run(names_used_twice, ints(), 3)[:3].tolist() == [2, 2, 2]


@triton.jit
def unrolled(out, N: tl.constexpr):
    total = 0
    for i in tl.static_range(N):
        if i == 2:
            continue
        square: tl.constexpr = i * i
        total += square
        if i == 4:
            break
    tl.store(out, total)
    tl.store(out + 1, i)
    for k in tl.static_range(3, 0, -1):
        tl.store(out + 1 + k, tl.arange(0, 2 ** k)[k])


def test_static_range():
    assert run(unrolled, ints(), N=8)[:5].tolist() == [0 + 1 + 9 + 16, 4, 1, 2, 3]
    assert ops.for_ not in kinds(module_of(unrolled, ints(), N=8))


@triton.jit
def early_return(out, n):
    if n > 5:
        return
    x = 1
    x = 2.0
    tl.store(out, x)


def test_what_follows_a_return_is_in_the_other_branch():
    module = module_of(early_return, np.zeros(1, np.float32), 3)
    branch, = [op for op in module.body.ops if op.kind is ops.if_]
    assert [len(region.ops) for region in branch.regions] == [1, 4]
    assert not branch.types
    assert run(early_return, np.zeros(1, np.float32), 3)[0] == 2.0
    assert run(early_return, np.zeros(1, np.float32), 6)[0] == 0.0


@triton.jit
def branches(out, a, b):
    if a > b:
        larger, which = a, 0
    elif a == b:
        larger, which = a, 2
    else:
        larger, which = b, 1
    tl.store(out, larger)
    tl.store(out + 1, which)


@pytest.mark.parametrize("a, b, which", [(3, 2, 0), (2, 3, 1), (4, 4, 2)])
def test_a_name_bound_in_every_branch(a, b, which):
    assert run(branches, ints(), a, b)[:2].tolist() == [max(a, b), which]


@triton.jit
def pruned(out, MODE: tl.constexpr, x=None):
    if MODE == "fast":
        y = 1
    elif MODE == "slow":
        y = 2
    else:
        raise ValueError("unknown mode")
    if x is not None and tl.load(x) > 0:
        y += 10
    tl.store(out, y)


def test_static_branches_are_not_looked_at():
    assert run(pruned, ints(), MODE="fast", x=None)[0] == 1
    assert run(pruned, ints(), MODE="slow", x=None)[0] == 2
    assert ops.if_ not in kinds(module_of(pruned, ints(), MODE="slow", x=None))


@triton.jit
def dead_names(out, n):
    scratch = n + 1
    for i in range(n):
        scratch = i * 2
        tl.store(out + i, scratch)


def test_a_name_nobody_reads_later_is_not_carried():
    loop, = [op for op in walk(module_of(dead_names, ints(), 3).body) if op.kind is ops.for_]
    assert not loop.types


@triton.jit
def tuples_in_loops(out, n):
    pair = (0, 1)
    for i in range(n):
        pair = (pair[1], pair[0] + pair[1])
    a, b = pair
    tl.store(out, a)
    tl.store(out + 1, b)


def test_tuples_are_carried():
    assert run(tuples_in_loops, ints(), 10)[:2].tolist() == [55, 89]


@triton.jit
def nested(out, x, n):
    best = -1
    for i in range(n):
        row = 0
        for j in range(i + 1):
            value = tl.load(x + j)
            if value < 0:
                break
            row += value
            if row > 20:
                return
        if row > best:
            best = row
    tl.store(out, best)


@pytest.mark.parametrize("data", [(3, 1, 4), (3, -1, 4), (1, 2, 30), (5, 5, 5, 5)])
def test_nested_loops_left_in_several_ways(data):
    def python(x):
        best = -1
        for i in range(len(x)):
            row = 0
            for j in range(i + 1):
                if x[j] < 0:
                    break
                row += x[j]
                if row > 20:
                    return 0
            best = max(best, row)
        return best

    assert run(nested, ints(), ints(*data), len(data))[0] == python(data)


@triton.jit
def pointer_condition(out, p):
    if p:
        tl.store(out, 1)
    else:
        tl.store(out, 2)


def test_a_pointer_is_a_condition():
    assert run(pointer_condition, ints(), ints())[0] == 1


@triton.jit
def single_element_condition(out, x):
    if tl.load(x + tl.arange(0, 1)) > 2:
        tl.store(out, 1)


def test_a_tile_of_one_element_is_a_condition_with_a_warning():
    with pytest.warns(UserWarning, match="multidimensional"):
        assert run(single_element_condition, ints(), ints(3))[0] == 1


@triton.jit
def sizes_of_both_sides(out, n):
    for i in tl.static_range(2):
        if n > i:
            SIZE: tl.constexpr = 2
            tl.store(out + 8 * i + tl.arange(0, SIZE), 1)
        else:
            SIZE: tl.constexpr = 4 * 2**i
            tl.store(out + 8 * i + tl.arange(0, SIZE), 2)
    SIZE: tl.constexpr = 1
    tl.store(out + 16 + tl.arange(0, SIZE), 3)


def test_a_constant_ends_with_its_side_of_a_branch():
    assert run(sizes_of_both_sides, ints(*[0] * 20), 1)[:18].tolist() == [1, 1] + 6 * [0] + 8 * [2] + [3, 0]
    assert run(sizes_of_both_sides, ints(*[0] * 20), 0)[:18].tolist() == 4 * [2] + 4 * [0] + 8 * [2] + [3, 0]


@triton.jit
def size_after_a_return(out, n):
    if n > 3:
        SIZE: tl.constexpr = 2
        tl.store(out + tl.arange(0, SIZE), 1)
    else:
        SIZE: tl.constexpr = 4
        tl.store(out + tl.arange(0, SIZE), 2)
        return
    SIZE: tl.constexpr = 8
    tl.store(out + 2 + tl.arange(0, SIZE), 3)


def test_a_constant_ends_with_its_side_where_the_other_returns():
    assert run(size_after_a_return, ints(*[0] * 10), 1).tolist() == 4 * [2] + 6 * [0]
    assert run(size_after_a_return, ints(*[0] * 10), 4).tolist() == 2 * [1] + 8 * [3]


@triton.jit
def size_after_an_early_exit(out, n, EARLY: tl.constexpr):
    for i in range(n):
        if EARLY:
            if i > 2:
                break
            SIZE: tl.constexpr = 4
        tl.store(out + 4 * i + tl.arange(0, SIZE), i)


def test_a_constant_lives_on_after_an_early_exit():
    made = run(size_after_an_early_exit, ints(*[9] * 16), 7, EARLY=True)
    assert made.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [9] * 4


@triton.jit
def size_of_one_side_used_after(out, n):
    if n > 3:
        SIZE: tl.constexpr = 4
        tl.store(out + tl.arange(0, SIZE), 1)
    else:
        SIZE: tl.constexpr = 4
        tl.store(out + tl.arange(0, SIZE), 2)
    tl.store(out + tl.arange(0, SIZE), 3)


def test_a_constant_of_a_branch_is_not_defined_after_it():
    with pytest.raises(triton.CompilationError, match="SIZE is not defined") as raised:
        run(size_of_one_side_used_after, ints(), 3)
    assert "SIZE is a constant of this side of the branch" in str(raised.value)
