"""Which loads must be complete before the step that wants them writes.

A step works chunk by chunk: it loads a chunk, computes, stores, and goes on to the next. Block operations act on
whole blocks, so nothing that a chunk stores may be loaded by a later one. That holds where a store writes exactly the
elements its own chunk has loaded (`x[i] = f(x[i])`), and where it writes to another array. Everything else through the
same parameter, or through pointers of unknown origin, is loaded as a whole before the first store.

Pointers computed from different parameters of the kernel are taken to point to different arrays, or to the same
elements in step (an element-wise kernel called in place), if the launcher can tell whether that holds of a launch: each
such pair of accesses is noted (`passes.alias`), and where it does not hold, a kernel compiled without is launched.
"""

from __future__ import annotations

import functools

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Result
from ....passes.alias import MOST_PAIRS, AliasAnalysis

__all__ = ["Taken", "apart", "origin", "positionwise", "reorders"]

_WRITES = (ops.store, ops.atomic, ops.atomic_cas)


class Taken:
    """What is taken for granted of launches, if there is a launcher to make sure of it: accesses that are apart or in
    step, as `pairs`, and rows of values that are not negative."""

    def __init__(self, module, pairs=None, nonnegative=None):
        self.module, self.pairs, self.nonnegative, self._known = module, pairs, nonnegative, {}

    @functools.cached_property
    def accesses(self):
        """What is known of the module's accesses."""
        return AliasAnalysis(self.module)

    def distinct(self, a, b) -> bool:
        """Whether accesses through the same pointers, one of which writes, may be taken not to hit an element twice."""
        if type(b.operands[0].type) is not T.Tile:
            return True
        found = self.accesses.injectivity(a, b)
        if found and self.nonnegative is not None:
            self.nonnegative += [rows for rows in found if rows not in self.nonnegative]
        return found is not None and (not found or self.nonnegative is not None)

    def apart(self, a, b, identical) -> bool:
        """Whether two accesses may be taken to be apart; `identical` if they may also hit the same elements in step."""
        if self.pairs is None:
            return False
        key = id(a), id(b), identical
        if key not in self._known:
            pair = self.accesses.pair(a, b, identical) if len(self.pairs) < MOST_PAIRS else None
            self._known[key] = pair is not None
            if pair is not None and pair not in self.pairs:
                self.pairs.append(pair)
        return self._known[key]


def origin(lo, p):
    """The parameter of the kernel that pointers are computed from; None when that is not known."""
    while True:
        k = lo.key(p)
        if k in lo.origins:
            p = lo.origins[k]
        elif type(p) is Arg:
            return p if any(p is arg for arg in lo.module.args) else None
        elif type(p) is Result or not p.operands or not T.is_ptr(p.operands[0].type):
            return None
        else:
            p = p.operands[0]


def reorders(lo, load, nest, moved) -> bool:
    """Whether a loop nest that uses `load` by chunks may overwrite some of its elements before it reads them.

    `moved`: it reads elements at other positions than those that it writes.
    """
    return any(not _keeps_off(lo, load, op, moved) for op in nest.ops if op.kind in _WRITES)


def apart(lo, op, others) -> bool:
    """Whether a store may share loops with others: they hit the same elements in step, or other arrays."""
    if op.kind is not ops.store:
        return True
    return all(_keeps_off(lo, other, op, False) for other in others if other.kind is ops.store)


def _keeps_off(lo, a, b, moved):
    """Whether no element of one access is hit by another position of the other, which writes."""
    p, q = a.operands[0], b.operands[0]
    if p is q:
        return not moved and lo.taken.distinct(a, b)
    x, y = origin(lo, p), origin(lo, q)
    return x is not None and y is not None and x is not y and lo.taken.apart(a, b, not moved)


def positionwise(op) -> bool:
    """Whether each element of an op's result is made from the elements of its operands at the same position."""
    return op.kind.elementwise or op.kind in (ops.load, ops.hint, ops.map_, ops.rare)
