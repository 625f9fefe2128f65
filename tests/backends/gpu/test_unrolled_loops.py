"""Unrolled loops, completely and by a factor: results, masks, branches of the first iteration, which loops are left."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import numbers
from tritium import ops, passes
from tritium.backends import get
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu.rewrite.unroll_loops import unroll_loops
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.core import walk
from tritium.ir.verify import verify


@triton.jit
def row_sums(x, o, least, N: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    smallest = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, N, BLOCK):
        inside = start + n < N
        v = tl.load(x + start + n, mask=inside, other=7.0)
        if start == 0:
            smallest = v
        else:
            smallest = tl.where(inside, tl.minimum(smallest, v), smallest)
        total += tl.where(inside, v, 0.0)
    tl.store(o + n, total)
    tl.store(least + n, smallest)


@pytest.mark.parametrize("n", [1, 256, 257, 1000, 2048, 4096, 4900])
def test_masked_iterations(check, n):
    check(row_sums, numbers("f4", n), np.zeros(256, "f4"), np.zeros(256, "f4"), n, 256, warps=4)


@triton.jit
def counted_down(x, o, N: tl.constexpr):
    n = tl.arange(0, N)
    product = tl.full([N], 1, tl.int32)
    for k in range(6, -2, -3):
        product = product * 3 + tl.load(x + n) * k
        tl.store(o + (k + 2) * N + n, product)


def test_steps_back_and_stores_in_order(check):
    check(counted_down, numbers("i4", 64), np.zeros(9 * 64, "i4"), 64)


def loops_of(kernel, *args):
    """How many loops are left where layouts are chosen."""
    module, _ = module_of(kernel, args)
    target = GPUTarget("cuda", 90, 32)
    module = module.replace(attrs={**module.attrs, "num_warps": 4, "num_stages": 3})
    return sum(op.kind.name == "for" for op in walk(passes.run(module, get(target).passes(target)).body))


def test_which_loops_are_written_out():
    out = np.zeros(256, "f4")
    assert [loops_of(row_sums, numbers("f4", n), out, out, n, 256) for n in (2048, 2049, 4096)] == [0, 0, 1]


# --- by a factor ------------------------------------------------------------------------------------------------------
BLOCK = 128


@triton.jit
def row_sum(out, p, n: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(p + i, mask=i < n, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def row_sum_of_any_length(out, p, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(3, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(p + i, mask=i < n, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def in_stages(out, p, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in tl.range(0, n, BLOCK, num_stages=3):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(p + i, mask=i < n, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def carried_pointers(out, p, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    at, step = p + tl.arange(0, BLOCK), 1
    for _k in range(n):
        total = total * 0.5 + tl.load(at)
        at += step
        step += 1
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def linked(out, p, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _k in range(n):
        at = tl.load(p + at)
    tl.store(out + tl.arange(0, BLOCK), at)


@triton.jit
def linked_in_stages(out, p, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _k in tl.range(n, num_stages=2):
        at = tl.load(p + at)
    tl.store(out + tl.arange(0, BLOCK), at)


@triton.jit
def indirect(out, indices, p, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(n):
        total += tl.load(p + tl.load(indices + k) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def largest_so_far(out, p, n, BLOCK: tl.constexpr):
    most, total = float("-inf"), 0.0
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(p + i, mask=i < n, other=float("-inf"))
        new = tl.maximum(most, tl.max(x, axis=0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(x - new), axis=0)
        most = new
    tl.store(out, most + tl.log(total))


@triton.jit
def in_place(p, n: tl.constexpr, BLOCK: tl.constexpr):
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        tl.store(p + i + BLOCK, tl.load(p + i) + 1)


@triton.jit
def volatile(out, p, n: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(0, n, BLOCK):
        total += tl.load(p + k + tl.arange(0, BLOCK), volatile=True)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def downwards(out, p, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(n, 0, -1):
        total = total * 0.5 + tl.load(p + k + tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, BLOCK), total)


def values(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


OUT = np.zeros(BLOCK, np.float32)
WHOLE = range(9, 26)  # trip counts, with and without iterations left over
KERNELS = {
    **{f"{trips} iterations": (row_sum, [OUT, values(BLOCK * trips), BLOCK * trips - 5]) for trips in WHOLE},
    **{f"{n} elements": (row_sum_of_any_length, [OUT, values(2048), n]) for n in (-9, 0, 3, 4, 1027, 1028, 2048)},
    **{f"{n} elements in stages": (in_stages, [OUT, values(2048), n]) for n in (-1, 0, 5, 1025, 2048)},
    "carried pointers": (carried_pointers, [OUT, values(1024), 19]),
    "linked": (linked, [np.zeros(BLOCK, np.int32), np.random.default_rng(0).permutation(BLOCK).astype(np.int32), 21]),
    "indirect": (indirect, [OUT, np.array([3, 0, 3, 1, 2, 6, 5, 4, 4, 1, 0], np.int32), values(7 * BLOCK), 11]),
    "largest so far": (largest_so_far, [np.zeros(1, np.float32), values(2048), 1999]),
    "in place": (in_place, [values(BLOCK * 13), BLOCK * 12]),
    "volatile": (volatile, [OUT, values(BLOCK * 12), BLOCK * 12]),
    "downwards": (downwards, [OUT, values(256), 20]),
}


def unrolled(kernel, args, warps=4, block=BLOCK):
    module = passes.run(module_of(kernel, [*args, block])[0], passes.CLEANUP)
    module = module.replace(attrs={**module.attrs, "num_warps": warps})
    return verify(unroll_loops(32, NvTarget.of(90).cost)(module))


def loads_of(module):
    """The loads in each loop, and after them."""
    loops = [op for op in module.body.ops if op.kind is ops.for_]
    inside = [sum(x.kind is ops.load for x in walk(op.regions[0])) for op in loops]
    return inside, sum(op.kind is ops.load for op in module.body.ops)


@pytest.mark.parametrize("name", KERNELS)
def test_as_the_interpreter_has_it(check, name):
    kernel, args = KERNELS[name]
    check(kernel, *args, BLOCK, tolerance=1e-5 if name == "largest so far" else 0.0)


@pytest.mark.parametrize(("trips", "loads"), [(8, ([], 8)), (9, ([], 9)), (16, ([8], 0)), (18, ([6], 0)),
                                               (19, ([8], 3)), (25, ([5], 0))])  # fmt: skip
def test_a_factor_that_leaves_nothing_over(trips, loads):
    assert loads_of(unrolled(row_sum, [OUT, values(BLOCK), BLOCK * trips])) == loads


def test_the_rest_of_unknown_length_takes_half_the_factor():
    assert loads_of(unrolled(*KERNELS["2048 elements"])) == ([8, 4, 2, 1], 0)


@pytest.mark.parametrize(("name", "later"), [("carried pointers", ops.mul), ("largest so far", ops.reduce)])
def test_loads_are_issued_first(name, later):
    """Before the sums of the iterations, and before what makes threads wait for each other."""
    loop = next(op for op in unrolled(*KERNELS[name]).body.ops if op.kind is ops.for_)
    kinds = [op.kind for op in loop.regions[0].ops]
    assert kinds.count(ops.load) == 8 and later in kinds
    assert later not in kinds[: len(kinds) - kinds[::-1].index(ops.load)]


def test_wide_tiles_take_a_smaller_factor():
    """No more bytes of a thread are in flight than it has registers for."""
    wide = lambda n: [loads_of(unrolled(row_sum, [OUT, values(9), 16 * n], warps, n)) for warps in (4, 2, 1)]
    assert wide(2048) == [([2], 0), ([1], 0), ([1], 0)]


def test_stages_take_the_bytes_of_two_tiles():
    """Where two tiles do not fit, or a load waits for another one, loads are issued an iteration early instead."""
    staged = lambda n: loads_of(unrolled(in_stages, [OUT, values(9), 16 * n], 1, n))
    assert [staged(n) for n in (512, 1024, 2048)] == [([4, 2, 1], 0), ([2, 1], 0), ([1], 0)]
    assert loads_of(unrolled(linked_in_stages, [np.zeros(BLOCK, np.int32), np.zeros(BLOCK, np.int32), 21])) == ([1], 0)


@triton.jit
def requests_before(out, starts, lengths, n, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    request, start = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int64)
    end = tl.zeros([], tl.int64)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        length = tl.load(lengths + i, mask=i < n, other=0).to(tl.int64)
        before = (end + tl.cumsum(length, 0)[None, :] <= rows[:, None]) & (i < n)[None, :]
        request += tl.sum(before.to(tl.int32), 1)
        start += tl.sum(tl.where(before, length[None, :], 0), 1)
        end += tl.sum(length, 0)
    tl.store(out + rows, request)
    tl.store(starts + rows, start)


@pytest.mark.parametrize(("block", "loads"), [(16, [8, 4, 2, 1]), (64, [1])])
def test_tiles_of_pairs_fill_the_registers(check, block, loads):
    """What compares a few loaded numbers with many rows keeps its thread busy, and has no registers to spare."""
    out, starts, lengths = np.zeros(block, "i4"), np.zeros(block, "i8"), np.arange(3 * block, dtype="i4") % 3
    assert loads_of(unrolled(requests_before, [out, starts, lengths, lengths.size], 4, block))[0] == loads
    check(requests_before, out, starts, lengths, lengths.size - 3, block, warps=4)


@pytest.mark.parametrize("name", ["in place", "volatile", "downwards"])
def test_other_loops_stay(name):
    assert loads_of(unrolled(*KERNELS[name])) == ([1], 0)


# --- from any index on ------------------------------------------------------------------------------------------------
@triton.jit
def segment_sum(out, p, begin, end, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(begin, end, BLOCK):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(p + 600 + i, mask=i < end, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def up_to_one_of_two(out, p, begin, end, BLOCK: tl.constexpr):
    """The bound is zero where `end` is negative, and the mask compares with `end`."""
    total = tl.zeros([BLOCK], tl.float32)
    bound = tl.where(end > 0, end, 0)
    for k in range(begin, bound, BLOCK):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(p + 600 + i, mask=i < end, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def pointers_of_the_loop(out, p, begin, end, BLOCK: tl.constexpr):
    """One is carried, one comes from a branch."""
    total = tl.zeros([BLOCK], tl.float32)
    at = p + 600
    for k in range(begin, end, BLOCK):
        other, scale = p + 600, 2.0
        if k < 500:
            other, scale = p + 603, 3.0
        total += tl.load(at + k + tl.arange(0, BLOCK), mask=k + tl.arange(0, BLOCK) < end, other=0.0)
        total += tl.load(other + k + tl.arange(0, BLOCK), mask=k + tl.arange(0, BLOCK) < end, other=0.0) * scale
        at += 1
    tl.store(out + tl.arange(0, BLOCK), total)


@pytest.mark.parametrize(("begin", "end"), [(0, 1500), (17, 1500), (-600, 1400), (-600, -87), (5, 3), (-300, 0)])
@pytest.mark.parametrize("kernel", [segment_sum, up_to_one_of_two, pointers_of_the_loop], ids=lambda k: k.__name__)
def test_segments(check, kernel, begin, end):
    check(kernel, np.zeros(BLOCK, "f4"), numbers("f4", 2200), begin, end, BLOCK)


def test_segments_are_unrolled():
    assert loads_of(unrolled(segment_sum, [OUT, values(2200), 17, 1500])) == ([8, 4, 2, 1], 0)


# --- over blocks ------------------------------------------------------------------------------------------------------
@triton.jit
def row_sum_by_blocks(out, p, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(tl.cdiv(n, BLOCK)):
        i = block * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(p + i, mask=i < n, other=0.0)
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def row_sum_behind_a_pointer(out, p, n, BLOCK: tl.constexpr):
    total = 1.0
    for block in range(0, triton.cdiv(n, BLOCK)):
        at = p + block * BLOCK
        i = tl.arange(0, BLOCK)
        total += tl.sum(tl.load(at + i, mask=block * BLOCK + i < n, other=0.0))
    tl.store(out, total)


@pytest.mark.parametrize("n", [-7, 0, 1, 128, 129, 1024, 1900])
@pytest.mark.parametrize("kernel", [row_sum_by_blocks, row_sum_behind_a_pointer], ids=lambda kernel: kernel.__name__)
def test_loops_over_blocks(check, kernel, n):
    check(kernel, np.zeros(BLOCK, "f4"), numbers("f4", max(n, 1)), n, BLOCK, tolerance=1e-5)


@triton.jit
def sum_of_starts(out, n, BLOCK: tl.constexpr):
    total = 0
    for block in range(tl.cdiv(n, BLOCK)):
        total += block * BLOCK
    tl.store(out, total)


@pytest.mark.parametrize("n", [1000, 2**31 - 1, 2**31 - BLOCK + 1])
def test_a_number_of_blocks_that_overflows(check, n):
    """There are none if the sum wraps around."""
    (total, *_) = check(sum_of_starts, np.zeros(1, "i4"), n, BLOCK)
    assert total == (sum(range(0, n, BLOCK)) if n < 2**30 else 0)
