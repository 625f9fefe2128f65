"""The grid of a launch: how many programs run along each of its axes."""

from __future__ import annotations

import operator
from typing import Any


def grid_sizes(grid: Any) -> tuple[int, int, int]:
    """The three sizes of a grid given as one to three ints, or as one int.

    >>> grid_sizes(97), grid_sizes((4, 2)), grid_sizes([1, 2, 3])
    ((97, 1, 1), (4, 2, 1), (1, 2, 3))
    """
    if grid.__class__ is tuple and len(grid) == 1:  # what most launches give
        first = grid[0]
        if first.__class__ is int and first >= 0:
            return first, 1, 1
    try:
        sizes = tuple(map(operator.index, grid)) if isinstance(grid, tuple | list) else (operator.index(grid),)
    except TypeError:
        raise TypeError(f"a grid is one to three ints, or a function that returns them, not {grid!r}") from None
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three axes, not {len(sizes)}: {grid!r}")
    if min(sizes) < 0:
        raise ValueError(f"a grid cannot have negative sizes: {grid!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
