"""How values travel through the regions of loops and branches: the facts that passes over control flow share."""

from __future__ import annotations

from typing import NamedTuple

from .. import ops


class Carry(NamedTuple):
    """Where a loop's carried values begin: among its operands, and among the parameters of its regions."""

    operands: int
    parameters: int


LOOPS = {ops.for_: Carry(3, 1), ops.while_: Carry(0, 0)}


def constant_of(x):
    """The Python number a scalar constant stands for, else None."""
    return x.attrs["value"] if getattr(x, "kind", None) is ops.constant else None


def trip_count(op):
    """How often a `for` with constant bounds runs; None for bounds not known and for other loops."""
    if op.kind is not ops.for_:
        return None
    lo, hi, step = (constant_of(x) for x in op.operands[:3])
    if lo is None or hi is None or not step:
        return None
    return len(range(lo, hi, step))
