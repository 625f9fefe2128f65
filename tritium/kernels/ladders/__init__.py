"""Ladders: one task, five ways, each faster than the one before, with what changed and why. See docs/ladders.md.

    >>> from tritium.kernels.ladders.transpose import RUNGS
    >>> [rung.name for rung in RUNGS]
    ['V0', 'V1', 'V2', 'V3', 'V4']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tritium.kernels.registry import Kernel


@dataclass(frozen=True)
class Rung:
    """A step of a ladder. V0 is the framework's own way: it has no kernel.

    >>> from tritium.kernels.ladders.gemm import RUNGS
    >>> RUNGS[0].kernel is None, RUNGS[2].record.name
    (True, 'gemm_v2')
    """

    name: str
    record: Kernel  # wrapper, reference, arguments, bytes, operations
    changed: str
    why: str
    kernel: Any = None
    launch: Callable | None = None  # (*arguments, result) -> (grid, arguments of the kernel, options and constants)

    def run(self, result: Any, *arguments: Any) -> Any:
        """Launch the kernel; `result` is written and given back.

        >>> import numpy as np
        >>> from tritium.kernels.ladders.transpose import RUNGS
        >>> RUNGS[3].run(np.empty((2, 1), np.float32), np.float32([[1, 2]])).ravel()
        array([1., 2.], dtype=float32)
        """
        assert self.launch is not None
        grid, args, options = self.launch(*arguments, result)
        self.kernel[grid](*args, **options)
        return result
