"""Data flow through the regions of loops and branches, shared by passes over control flow."""

from __future__ import annotations

from .. import ops
from ..analysis.arithmetic import constant_of


def counts_down(op):
    """True for a `for` whose step is a negative constant."""
    step = constant_of(op.operands[2])
    return step is not None and step < 0


def trip_count(op):
    """How often a `for` with constant bounds runs; None for bounds not known and for other loops.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f() {
    ...   %0 = constant {value=0, type=i32} : i32
    ...   %1 = constant {value=10, type=i32} : i32
    ...   %2 = constant {value=4, type=i32} : i32
    ...   for %0, %1, %2 {
    ...   ^(%i: i32):
    ...     yield
    ...   }
    ... }''')
    >>> trip_count(m.body.ops[3])
    3
    """
    if op.kind is not ops.for_:
        return None
    lo, hi, step = (constant_of(x) for x in op.operands[:3])
    if lo is None or hi is None or not step:
        return None
    return len(range(lo, hi, step))
