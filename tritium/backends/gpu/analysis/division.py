"""Division strength reduction: quotients of small integers by way of floats. Programs compute the index of their tile
by quotients, and integer division, for which GPUs have no instruction, is a seventh of the time to assemble a matmul.

For 0 <= x < 2^21 the quotient is (x + 0.5) / y truncated, even with a relative error of 2^-22: the float is at least
0.5 / y away from the next integer, and x / y times 2^-22 is less.
"""

from __future__ import annotations

from .... import ops
from ....analysis.ranges import Derivations, assume
from ....ir import types as T
from ....ir.bounds import bounds
from ....ir.core import Module, Op, walk
from ....passes.simplify import number
from .preconditions import Row

SMALL = 1 << 21
_KINDS = (ops.div, ops.rem)


def small_dividends(module: Module, preconditions: list[tuple[Row, ...]] | None) -> bool:
    """True if all scalar dividends are small, at every launch or under preconditions that the launcher checks, which
    are added to `preconditions`. False if nothing is divided."""
    asked = [op for op in walk(module.body) if divides(op)]
    if not asked:
        return False
    known, conditions = module.found_by(Derivations), []
    for op in asked:
        rows = known.rows(op.operands[0])
        if bounds(rows)[0] < 0:
            return False
        conditions.append((*rows, ("constant", "i64", SMALL - 1), ("sub", "i64", len(rows), len(rows) - 1)))
    return assume(conditions, preconditions)


def divides(op: Op) -> bool:
    """True for a quotient or a remainder of scalars whose divisor is not a constant."""
    return op.kind in _KINDS and op.types == (T.i32,) and number(op.operands[1]) is None
