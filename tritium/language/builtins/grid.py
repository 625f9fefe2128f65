"""The grid of a launch: how many programs run along each of its axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ...errors import explain
from ...refusals import UnknownName, misnamed, refusal

_LARGEST = 1 << 31  # program ids are i32
_MOST = 1 << 63  # programs are counted in i64


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Refuse sizes that no machine can count.

    >>> check_sizes((1 << 30, 1 << 30, 8))
    Traceback (most recent call last):
    ValueError: a grid has fewer than 2**63 programs, not 1073741824 * 1073741824 * 8: let each program do more
    """
    if min(sizes) < 0:
        raise refusal(ValueError, f"a grid cannot have negative sizes: {sizes}")
    if max(sizes) >= _LARGEST:
        raise refusal(ValueError, f"a grid has fewer than 2**31 programs along each axis, not {max(sizes)}: use "
                      "further axes, or let each program do more")
    if math.prod(sizes) >= _MOST:
        raise refusal(ValueError, f"a grid has fewer than 2**63 programs, not {' * '.join(map(str, sizes))}: let each "
                      "program do more")


def grid_sizes(grid: Any) -> tuple[int, int, int]:
    """The three sizes of a grid given as one to three ints, or as one int. Further axes of one program change nothing.

    >>> grid_sizes(97), grid_sizes((4, 2)), grid_sizes([1, 2, 3]), grid_sizes((4, 2, 1, 1))
    ((97, 1, 1), (4, 2, 1), (1, 2, 3), (4, 2, 1))
    """
    if grid.__class__ is tuple and len(grid) == 1:  # what most launches give
        first = grid[0]
        if first.__class__ is int and 0 <= first < _LARGEST:
            return first, 1, 1
    try:
        sizes = tuple(map(operator.index, grid)) if isinstance(grid, tuple | list) else (operator.index(grid),)
    except TypeError:
        raise refusal(TypeError, f"a grid is one to three ints, or a function that returns them, not {grid!r}",
                      _next_step(grid)) from None
    if not sizes or any(size != 1 for size in sizes[3:]):
        raise refusal(ValueError, f"a grid has one to three axes, not {len(sizes)}: {grid!r}",
                      "compute several indices from one axis: pid // n and pid % n" if sizes else "one program is (1,)")
    check_sizes(sizes[:3])
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _next_step(grid: Any) -> str | None:
    """What may help where a grid is made of something else."""
    parts = grid if isinstance(grid, tuple | list) else (grid,)
    if any(isinstance(part, float) for part in parts):
        return "divide with triton.cdiv(n, BLOCK), or with //"
    if any(part is None for part in parts):
        return "let the grid function return a tuple of ints"
    if any(hasattr(part, "shape") for part in parts):
        return "turn the sizes into ints of Python's: int(x)"
    return None


class _Arguments(dict):
    """The arguments of a launch by name; one that is not there is said to be missing."""

    def __init__(self, asking: str, kernel: str, named: dict[str, Any]):
        super().__init__(named)
        self._asking, self._kernel = asking, kernel

    def __missing__(self, name: Any) -> Any:
        problem = f"{self._asking} of kernel `{self._kernel}` asks for {name!r}"
        names = [known for known in self if known not in ("grid", "warmup")]  # which heuristics see beside arguments
        raise refusal(UnknownName, problem, misnamed(self._kernel, str(name), names))

    def __getattr__(self, name: str) -> Any:
        raise refusal(AttributeError, f"'dict' object has no attribute {name!r}",
                      f"{self._asking} is called with a dict: write [{name!r}]")


def asked(function: Callable, kernel: str, named: dict[str, Any], asking: str = "the grid function") -> Any:
    """What a function of a user's, such as a grid, makes of the arguments of a launch; its errors are the user's.

    >>> asked(lambda meta: (meta["n"] // 2,), "add", {"n": 8})
    (4,)
    >>> asked(lambda meta: (meta["N"],), "add", {"n": 8})
    Traceback (most recent call last):
    tritium.refusals.UnknownName: the grid function of kernel `add` asks for 'N'
    hint: did you mean n? kernel `add` has the parameters n
    """
    try:
        return function(_Arguments(asking, kernel, named))
    except Exception as error:
        trace = error.__traceback__
        if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:  # it was not even entered
            raise refusal(TypeError, f"{asking} of kernel `{kernel}` cannot be called: {error}",
                          "it is called with one argument, a dict of the kernel's arguments by name") from None
        explain(error, hint=getattr(error, "hint", None))  # so that it is shown without frames of ours
        raise
