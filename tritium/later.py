"""NumPy, and what else the meanings of ops are made of, imported when something of it is first used.

Meanings are asked for where constants are folded or a kernel is interpreted. Most compilations do without, and
importing NumPy takes longer than compiling a small kernel.

    >>> int(np.arange(3).sum()), int(functions.add(2, 3))
    (3, 5)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["fractions", "functions", "ml_dtypes", "np"]

if TYPE_CHECKING:
    import fractions

    import ml_dtypes
    import numpy as np
else:

    class _Module:
        """A module whose attributes become attributes of this when they are first used."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, name: str) -> Any:
            found = getattr(importlib.import_module(self._name), name)
            setattr(self, name, found)
            return found

    np, ml_dtypes, fractions = _Module("numpy"), _Module("ml_dtypes"), _Module("fractions")


class _Functions:
    """NumPy's functions, looked up when they are called: for tables, which name many and call few."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return getattr(np, name)(*args)

        call.__name__ = name
        return call


functions = _Functions()
