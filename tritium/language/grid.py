"""The grid of a launch: how many programs run along each of its axes."""

from __future__ import annotations

import math
import operator
from typing import Any


_LARGEST = 1 << 31  # program ids are i32
_MOST = 1 << 63  # programs are counted in i64


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse sizes that no machine can count.

    >>> check_sizes((1 << 30, 1 << 30, 8))
    Traceback (most recent call last):
    ValueError: a grid has fewer than 2**63 programs, not 1073741824 * 1073741824 * 8: let each program do more
    """
    if min(sizes) < 0:
        raise ValueError(f"a grid cannot have negative sizes: {sizes}")
    if max(sizes) >= _LARGEST:
        raise ValueError(f"a grid has fewer than 2**31 programs along each axis, not {max(sizes)}: use further axes, or "
                         "let each program do more")
    if math.prod(sizes) >= _MOST:
        raise ValueError(f"a grid has fewer than 2**63 programs, not {' * '.join(map(str, sizes))}: let each program do "
                         "more")


def grid_sizes(grid: Any) -> tuple[int, int, int]:
    """The three sizes of a grid given as one to three ints, or as one int.

    >>> grid_sizes(97), grid_sizes((4, 2)), grid_sizes([1, 2, 3])
    ((97, 1, 1), (4, 2, 1), (1, 2, 3))
    """
    if grid.__class__ is tuple and len(grid) == 1:  # what most launches give
        first = grid[0]
        if first.__class__ is int and 0 <= first < _LARGEST:
            return first, 1, 1
    try:
        sizes = tuple(map(operator.index, grid)) if isinstance(grid, tuple | list) else (operator.index(grid),)
    except TypeError:
        raise TypeError(f"a grid is one to three ints, or a function that returns them, not {grid!r}") from None
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three axes, not {len(sizes)}: {grid!r}")
    check_sizes(sizes)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
