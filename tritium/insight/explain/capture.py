"""The launch of a kernel that a program makes: the program runs until then, and no further."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from tritium.named_tuples import NamedTuple
from tritium.runtime.jit import JITFunction


class Captured(NamedTuple):
    """A launch as it was written. `frames` keeps what the program holds: tables of addresses may lead there."""

    kernel: Any
    grid: Any
    args: tuple
    meta: dict[str, Any]
    frames: Any = None


class _Found(BaseException):
    """Ends the program."""


def first_launch(program: Callable[[], Any], name: str | None = None, number: int = 1) -> Captured | None:
    """Run a program until it launches the kernel of this name, or any, for the `number`-th time; None if it
    never does.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import vector_add
    >>> found = first_launch(lambda: vector_add(np.zeros(8), np.zeros(8)), "add_kernel")
    >>> found.kernel.__name__, found.args[3], found.meta
    ('add_kernel', 8, {'BLOCK': 1024})
    """
    found: list[Captured] = []
    usual = JITFunction.__getitem__
    left = number

    def watching(self, grid):
        if name not in (None, self.__name__):
            return usual(self, grid)

        def launch(*args, **meta):
            nonlocal left
            left -= 1
            if left:
                return usual(self, grid)(*args, **meta)
            found.append(Captured(self, grid, args, meta))
            raise _Found

        return launch

    JITFunction.__getitem__ = watching
    try:
        program()
    except _Found as stopped:
        return found[0]._replace(frames=stopped.__traceback__)
    finally:
        JITFunction.__getitem__ = usual
    return None


@contextlib.contextmanager
def own_main():
    """A program may put itself in the place of `__main__`; afterwards all is as it was."""
    kept = sys.modules.get("__main__"), sys.argv, list(sys.path)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = kept[1], kept[2]
        if kept[0] is not None:
            sys.modules["__main__"] = kept[0]
