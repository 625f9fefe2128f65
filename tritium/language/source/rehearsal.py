"""Launches that are told to somebody instead of made: what a host function would launch, without memory to launch on.

torch runs a function on tensors that only have shapes, to learn the shapes of its results. Kernels are launched there
on nothing; a rehearsal takes note of them.

    >>> import numpy as np
    >>> from tritium.kernels.silu import silu
    >>> with rehearsing(lambda kernel, grid, args, kwargs: print(kernel.__name__, grid, kwargs)):
    ...     out = silu(np.zeros(3, np.float32))
    silu_kernel (1,) {'BLOCK': 1024}

Launches on the fast way are not asked: those on plain tensors and arrays of kinds that the kernel has met before. A
tensor of a class that torch derived has none of its own, and is always asked about.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

__all__ = ["current", "rehearsing"]

# What is told of launches: (kernel, grid, args, kwargs); a warm-up has the grid None. What it returns, the launch does.
current: ContextVar[Callable[[Any, Any, tuple, dict[str, Any]], Any] | None] = ContextVar("rehearsal", default=None)


@contextlib.contextmanager
def rehearsing(tell: Callable[[Any, Any, tuple, dict[str, Any]], Any]) -> Iterator[None]:
    """Inside, launches and warm-ups of this thread call `tell(kernel, grid, args, kwargs)` and return what it does.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> with rehearsing(lambda kernel, grid, args, kwargs: len(args)):
    ...     add_kernel.warmup(1, 2, 3, 4, BLOCK=8, grid=(1,))
    4
    """
    token = current.set(tell)
    try:
        yield
    finally:
        current.reset(token)
