"""Which programs of a grid are looked at, and for how many others each of them stands."""

from __future__ import annotations

import itertools
import math

Pid = tuple[int, int, int]


def sample(grid: tuple[int, int, int], most: int) -> list[Pid]:
    """The programs to run, the most telling first: the corners and the middle of the grid, a few neighbours at the
    beginning, then all others of a small grid, and of a large one some that are evenly spaced.

    >>> sample((4, 1, 1), 10)
    [(0, 0, 0), (3, 0, 0), (2, 0, 0), (1, 0, 0)]
    >>> sample((1000, 1, 1), 8)
    [(0, 0, 0), (999, 0, 0), (500, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (333, 0, 0), (666, 0, 0)]
    """
    total = math.prod(grid)
    xs, ys, zs = (dict.fromkeys((0, n - 1, n // 2)) for n in grid)
    first = list(itertools.product(xs, ys, zs))
    if total <= most:
        x, y, z = map(range, grid)
        return list(dict.fromkeys([*first, *itertools.product(x, y, z)]))
    neighbours = [_at(k, grid) for k in range(4)]
    spaced = max(2, most - len(first) - 3)
    even = [_at(k * total // (spaced + 1), grid) for k in range(1, spaced + 1)]
    return list(dict.fromkeys([*first, *neighbours, *even]))[:most]


def _at(k: int, grid: tuple[int, int, int]) -> Pid:
    """Program number k, x innermost, as a GPU counts them."""
    return k % grid[0], k // grid[0] % grid[1], k // (grid[0] * grid[1])


def weights(grid: tuple[int, int, int], chosen: list[Pid]) -> list[float]:
    """For how many programs of the grid each chosen one stands. The first and last along an axis stand for the others
    at that end only: masks mostly differ there.

    >>> weights((100, 1, 1), [(0, 0, 0), (99, 0, 0), (50, 0, 0), (1, 0, 0)])
    [1.0, 1.0, 49.0, 49.0]
    """
    classes = [tuple(_class(i, n) for i, n in zip(pid, grid)) for pid in chosen]
    counts = {c: classes.count(c) for c in dict.fromkeys(classes)}
    population = {c: math.prod(_population(k, n) for k, n in zip(c, grid)) for c in counts}
    scale = math.prod(grid) / sum(population.values())
    return [scale * population[c] / counts[c] for c in classes]


def _class(i: int, n: int) -> int:
    return 0 if i == 0 else 2 if i == n - 1 else 1


def _population(k: int, n: int) -> int:
    return n - 2 if k == 1 else 1
