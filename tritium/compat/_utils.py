"""Index paths into nested tuples, as frameworks compute them that make an `ASTSource` of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["find_paths_if", "get_iterable_path"]


def get_iterable_path(values: Sequence, path: Sequence[int]) -> Any:
    """What stands at an index path.

    >>> get_iterable_path((1, (2, 3)), (1, 0))
    2
    """
    for index in path:
        values = values[index]
    return values


def find_paths_if(values: Sequence, wanted: Callable[[tuple[int, ...], Any], bool]) -> list[tuple[int, ...]]:
    """The index paths of the leaves for which `wanted(path, leaf)` holds.

    >>> find_paths_if((1, ("a", 3)), lambda path, x: isinstance(x, int))
    [(0,), (1, 1)]
    """
    return [path for path, leaf in _leaves((), values) if wanted(path, leaf)]


def _leaves(path: tuple[int, ...], value: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    if path and not isinstance(value, tuple | list):
        yield path, value
        return
    for index, part in enumerate(value):
        yield from _leaves((*path, index), part)
