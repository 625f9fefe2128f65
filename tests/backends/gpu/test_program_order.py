"""Persistent blocks run every program once, whatever decides how long its loop is."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import rng
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.insight import emulator


@triton.jit
def triangle(a_ptr, b_ptr, c_ptr, AXIS: tl.constexpr, FROM_INDEX: tl.constexpr, B: tl.constexpr):
    """The sum of the products of the tiles up to the program's index on an axis, or of those from it on."""
    index = tl.program_id(AXIS)
    program = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    m, n = tl.arange(0, 64), tl.arange(0, B)  # n is along K and along columns
    first = index if FROM_INDEX else 0
    end = tl.num_programs(AXIS) if FROM_INDEX else index + 1
    total = tl.zeros((64, B), tl.float32)
    for i in range(first, end):
        a = tl.load(a_ptr + (i * 64 + m)[:, None] * B + n[None, :])
        b = tl.load(b_ptr + (i * B + n)[:, None] * B + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + (program * 64 + m)[:, None] * B + n[None, :], total + program)


@pytest.mark.parametrize(("axis", "from_index", "grid"), [
    (0, False, (3, 3, 2)), (0, True, (2, 5, 1)), (1, False, (2, 3, 2)), (2, True, (2, 2, 3)), (0, False, (5, 1, 1)),
])  # fmt: skip
def test_every_program_runs_once(monkeypatch, check, axis, from_index, grid):
    monkeypatch.setitem(vars(NvTarget.of(90).cost), "dealt_together", 4)
    programs, tiles = int(np.prod(grid)), grid[axis]
    a = rng.standard_normal((tiles * 64, 32)).astype(np.float16)
    b = rng.standard_normal((tiles * 32, 32)).astype(np.float16)
    args = a, b, np.full((programs * 64, 32), np.nan, np.float32), axis, from_index, 32
    _, metadata = emulator.llvm_of(module_of(triangle, args)[0], num_warps=4, num_stages=3)
    assert metadata["persistent"]
    check(triangle, *args, grid=grid, tolerance=1e-5)


def ends(axis_size, others, blocks, together):
    """By which factor the last of some blocks ends later than all would with the same work, for a causal mask."""
    work, few = [0] * blocks, others <= together
    for number in range(axis_size * others):
        turn, place = divmod(number, blocks)
        slow, rest = divmod(number, others if few else axis_size)
        length = axis_size - (slow if few else rest) + 2  # the longest first; two iterations' time for all else
        work[blocks - 1 - place if turn % 2 else place] += length
    return max(work) / (sum(work) / blocks)


@pytest.mark.parametrize("heads", [12, 16, 32, 48, 64, 128])
@pytest.mark.parametrize("queries", [32, 64, 128])
def test_the_deal_is_even(queries, heads):
    """A model of the order that kernels follow, with the blocks of an H200."""
    assert ends(queries, heads, 132, NvTarget.of(90).cost.dealt_together) < (1.04 if heads > 12 else 1.1)
