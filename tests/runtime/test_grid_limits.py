"""A grid that cannot be counted is an error that names the limit, on every way of a launch."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.cpu.runtime.image import Runtime
from tritium.interp.eager import InterpretedFunction
from tritium.interp.machine import programs
from tritium.language.builtins.grid import grid_sizes


def mark(p):
    tl.store(p, 1)


kernel = triton.jit(mark)

AXIS, PRODUCT = r"fewer than 2\*\*31 programs along each axis", r"fewer than 2\*\*63 programs"
GRIDS = [
    ((2**31, 2**31, 4), AXIS), ((2**63,), AXIS), ((2**64 + 1,), AXIS), (2**31, AXIS), ((1, 2**40), AXIS),
    ((1, 1, 2**31), AXIS), ((0, 2**31), AXIS), ((2**30, 2**30, 8), PRODUCT), ((2**31 - 1, 2**31 - 1, 3), PRODUCT),
    ((2**22, 2**21, 2**21), PRODUCT), ([2**30, 2**30, 2**30], PRODUCT), ((-1,), "negative"),
    ((2, -(2**70)), "negative"),
]  # fmt: skip


@pytest.mark.parametrize("grid, message", GRIDS)
def test_a_grid_that_is_too_large(grid, message):
    y = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match=message):
        grid_sizes(grid)
    for launch in (kernel, InterpretedFunction(mark)):
        launch[(1,)](y)  # the native launcher is ready from here on
        y[0] = 0
        for written in (grid, lambda meta: grid):
            with pytest.raises(ValueError, match=message):
                launch[written](y)
        assert y[0] == 0
    compiled = kernel.warmup(y, grid=(1,))
    with pytest.raises(ValueError, match=message):
        compiled[grid_of_three(grid)](y)


def grid_of_three(grid):
    return (*(grid if isinstance(grid, tuple | list) else (grid,)), 1, 1)[:3]


def test_a_grid_without_programs():
    y = np.zeros(1, np.int32)
    for grid in ((0,), (2**31 - 1, 2**31 - 1, 0), (0, 2**31 - 1, 2**31 - 1)):
        kernel[grid](y)
        kernel[grid](y)
    assert y[0] == 0


@pytest.mark.parametrize("raw", ["launch_raw", "launch_raw_slowly"])
@pytest.mark.parametrize("grid", [(2**31, 2**31, 4), (2**63, 1, 1), (2**30, 2**30, 8), (-1, 1, 1)])
def test_launches_of_packed_arguments(raw, grid):
    with pytest.raises(TypeError, match=r"2\*\*31|2\*\*63|negative"):
        getattr(Runtime.get(), raw)(4096, 0, *grid, b"")


def test_a_large_grid_is_walked_one_program_at_a_time():
    walk = programs((2**31 - 1, 2**31 - 1, 2))
    assert [next(walk) for _ in range(3)] == [(0, 0, 0), (0, 0, 1), (0, 1, 0)]
