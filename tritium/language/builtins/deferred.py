"""`ops`, imported when the first builtin runs: it needs NumPy, and a process that only decorates kernels does not."""

from __future__ import annotations


class _Ops:
    """Stands for the package `tritium.ops`; each attribute is looked up there once."""

    def __getattr__(self, name):
        from tritium import ops as package
        value = getattr(package, name)
        setattr(self, name, value)
        return value


ops = _Ops()


def row(name):
    """The op kind that has this name in the op table.

    >>> row("exp2")
    ops.exp2
    """
    return ops.KINDS[name]
