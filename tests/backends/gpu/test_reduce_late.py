"""Reductions that a loop accumulates are done behind it: results of all kinds of them, and which ones stay."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import numbers
from tritium import ops
from tritium.backends.gpu.rewrite.reduce_late import reduce_late
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.core import walk
from tritium.passes import simplify

BLOCK = 256


@triton.jit
def extremes(out, p, n, BLOCK: tl.constexpr):
    least, most, total = float("inf"), float("-inf"), 10.0
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(p + i, mask=i < n, other=0.0)
        least = tl.minimum(least, tl.min(x))
        most = tl.maximum(tl.max(x), most)
        total += tl.sum(x)
        total += tl.sum(x * x)
    tl.store(out, least)
    tl.store(out + 1, most)
    tl.store(out + 2, total)


@triton.jit
def bits(out, p, n, first, BLOCK: tl.constexpr):
    total, parity = first, first
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(p + i, mask=i < n, other=0)
        total = total * 3 + tl.sum(x)
        parity ^= tl.xor_sum(x)
    tl.store(out, total)
    tl.store(out + 1, parity)


@triton.jit
def log_of_sum(out, p, n, BLOCK: tl.constexpr):
    top, total = float("-inf"), 0.0
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(p + i, mask=i < n, other=float("-inf"))
        new = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new))
        top = new
    tl.store(out, top + tl.log(total))


@triton.jit
def matrix_vector(out, p, q, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.arange(0, ROWS)
    total = tl.full([ROWS], 1.0, tl.float32)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        x = tl.load(p + r[:, None] * n + i, mask=i < n, other=0.0)
        total = total + tl.sum(x * tl.load(q + i, mask=i < n, other=0.0), axis=1)
    tl.store(out + r, total)


@triton.jit
def columns(out, p, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(0, n, ROWS):
        r = k + tl.arange(0, ROWS)
        total = total * 0.5 + tl.sum(tl.load(p + r[:, None] * BLOCK + i, mask=r[:, None] < n, other=0.0), axis=0)
    tl.store(out + i, total)


@pytest.mark.parametrize("n", [0, 1, 256, 1500, 4099])
def test_results(check, n):
    check(extremes, np.zeros(3, "f4"), numbers("f4", n + 1), n, BLOCK, warps=4, tolerance=1e-4)
    check(bits, np.zeros(2, "i4"), numbers("i4", n + 1), n, 0, BLOCK, warps=4)
    check(bits, np.zeros(2, "i4"), numbers("i4", n + 1), n, 7, BLOCK, warps=1)


@pytest.mark.parametrize("n", [1, 1500, 4099])
def test_scaled_sums(check, n):
    check(log_of_sum, np.zeros(1, "f4"), numbers("f4", n), n, BLOCK, warps=4, tolerance=1e-5)
    check(log_of_sum, np.zeros(1, "f4"), numbers("f2", n), n, 1024, warps=2, tolerance=1e-5)


@pytest.mark.parametrize("n", [1, 100, 257])
def test_tiles(check, n):
    check(matrix_vector, np.zeros(8, "f4"), numbers("f4", 8 * n), numbers("f4", n), n, 8, 64, warps=4, tolerance=1e-4)
    check(columns, np.zeros(32, "f4"), numbers("f4", 32 * n), n, 16, 32, warps=4, tolerance=1e-4)


# --- which stay -------------------------------------------------------------------------------------------------------
@triton.jit
def shown(out, p, n, BLOCK: tl.constexpr):
    total = 0.0
    for k in range(0, n, BLOCK):
        total += tl.sum(tl.load(p + k + tl.arange(0, BLOCK)))
        tl.store(out + k, total)


@triton.jit
def scaled_from_one(out, p, n, BLOCK: tl.constexpr):
    total = 1.0
    for k in range(0, n, BLOCK):
        total = total * 0.5 + tl.sum(tl.load(p + k + tl.arange(0, BLOCK)))
    tl.store(out, total)


@triton.jit
def large_tiles(out, p, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(0, n, ROWS):
        total += tl.sum(tl.load(p + (k + tl.arange(0, ROWS))[:, None] * BLOCK + i), axis=0)
    tl.store(out + i, total)


def in_loops(kernel, *args):
    """The reductions to scalars, or to other tiles, that loops have after the pass; four warps."""
    module, _ = module_of(kernel, args)
    module = reduce_late(32, NvTarget.of(90).cost)(simplify(module.replace(attrs={**module.attrs, "num_warps": 4})))
    return sum(op.kind is ops.reduce for loop in walk(module.body) if loop.kind is ops.for_
               for op in walk(loop.regions[0]))


def test_which_stay():
    x, out = numbers("f4", 64), np.zeros(64, "f4")
    assert in_loops(extremes, out, x, 64, BLOCK) == 0
    assert in_loops(log_of_sum, out, x, 64, BLOCK) == 1  # the maximum is needed at once
    assert in_loops(shown, out, x, 64, BLOCK) == 1
    assert in_loops(scaled_from_one, out, x, 64, BLOCK) == 1
    assert in_loops(columns, out, x, 64, 16, 32) == 0
    assert in_loops(large_tiles, out, x, 64, 128, 128) == 1
