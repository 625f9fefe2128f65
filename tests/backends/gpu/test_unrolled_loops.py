"""Unrolled loops: results, masks, branches of the first iteration, negative steps."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.test_language import data, module_of
from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import GPUTarget
from tritium.ir.core import walk


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


@pytest.mark.parametrize("n", [1, 256, 257, 1000, 2048])
def test_masked_iterations(check, n):
    check(row_sums, data("f4", n), np.zeros(256, "f4"), np.zeros(256, "f4"), n, 256, warps=4)


@triton.jit
def counted_down(x, o, N: tl.constexpr):
    n = tl.arange(0, N)
    product = tl.full([N], 1, tl.int32)
    for k in range(6, -2, -3):
        product = product * 3 + tl.load(x + n) * k
        tl.store(o + (k + 2) * N + n, product)


def test_steps_back_and_stores_in_order(check):
    check(counted_down, data("i4", 64), np.zeros(9 * 64, "i4"), 64)


def loops_of(kernel, *args):
    """How many loops are left where layouts are chosen."""
    module, _ = module_of(kernel, args)
    target = GPUTarget("cuda", 90, 32)
    module = module.replace(attrs={**module.attrs, "num_warps": 4, "num_stages": 3})
    return sum(op.kind.name == "for" for op in walk(passes.run(module, get(target).passes(target)).body))


def test_which_loops_are_written_out():
    out = np.zeros(256, "f4")
    assert [loops_of(row_sums, data("f4", n), out, out, n, 256) for n in (2048, 2049)] == [0, 1]
