"""Which loads must be complete before the step that wants them writes.

A step works strip by strip: it loads a strip, computes, stores, and goes on to the next. Block operations act on
whole blocks, so nothing that a strip stores may be loaded by a later one. That holds where a store writes exactly the
elements its own strip has loaded (`x[i] = f(x[i])`), and where it writes to another array. Everything else through the
same parameter, or through pointers of unknown origin, is loaded as a whole before the first store.

Pointers computed from different parameters of the kernel are taken to point to different arrays, or to the same
elements in step (an element-wise kernel called in place), if the launcher can tell whether that holds of a launch: each
such pair of accesses is noted (`passes.apart`), and where it does not hold, a kernel compiled without is launched.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Arg, Result
from ...passes.apart import MOST_PAIRS, Accesses

__all__ = ["Taken", "apart", "origin", "overtakes", "positionwise"]

_WRITES = (ops.store, ops.atomic, ops.atomic_cas)


class Taken:
    """The accesses that are taken to be apart or in step, as `pairs`: none if there is nobody to make sure of it."""

    def __init__(self, module, pairs):
        self.module, self.pairs, self._accesses, self._known = module, pairs, None, {}

    def apart(self, a, b, in_step) -> bool:
        """Whether two accesses may be taken to be apart; `in_step` if they may also hit the same elements in step."""
        if self.pairs is None:
            return False
        key = id(a), id(b), in_step
        if key not in self._known:
            self._accesses = self._accesses or Accesses(self.module)
            pair = self._accesses.pair(a, b, in_step) if len(self.pairs) < MOST_PAIRS else None
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


def overtakes(lo, load, step, moved) -> bool:
    """Whether a step that wants `load` strip by strip may have written to some of its elements before it reads them.

    `moved`: it wants elements at other positions than those at which it writes.
    """
    return any(not _keeps_off(lo, load, op, moved) for op in step.ops if op.kind in _WRITES)


def apart(lo, op, others) -> bool:
    """Whether a store may share loops with others: they hit the same elements in step, or other arrays."""
    if op.kind is not ops.store:
        return True
    return all(_keeps_off(lo, other, op, False) for other in others if other.kind is ops.store)


def _keeps_off(lo, a, b, moved):
    """Whether no element of one access is hit by another position of the other."""
    p, q = a.operands[0], b.operands[0]
    distinct = not moved and _distinct(lo, p)
    if p is q and distinct:
        return True
    x, y = origin(lo, p), origin(lo, q)
    return x is not None and y is not None and x is not y and lo.taken.apart(a, b, distinct)


def positionwise(op) -> bool:
    """Whether each element of an op's result is made from the elements of its operands at the same position."""
    return op.kind.elementwise or op.kind in (ops.load, ops.hint, ops.map_, ops.rare)


# --- pointers that never meet -----------------------------------------------------------------------------------
def _distinct(lo, p):
    """Whether the pointers of a tile move along each of its axes. (Strides known only at run time are taken to set
    elements apart.)"""
    if type(p.type) is not T.Tile:
        return True
    axes = _axes(lo, p)
    return axes is not None and axes >= {a for a, n in enumerate(T.shape(p.type)) if n > 1}


def _axes(lo, x):
    """The axes along which integers or pointers count; None if they do something else."""
    if type(x.type) is not T.Tile:
        return frozenset()
    k = lo.key(x)
    if k in lo.origins:
        return _axes(lo, lo.origins[k])
    rule = None if type(x) in (Arg, Result) else _AXES.get(x.kind)
    return None if rule is None else rule(lo, x)


def _sum(lo, op):
    x, y = (_axes(lo, v) for v in op.operands)
    return None if x is None or y is None else x | y


def _product(lo, op):
    x, y = (_axes(lo, v) for v in op.operands)
    return None if x is None or y is None or x and y else x | y


def _shifted(lo, op):
    return None if _axes(lo, op.operands[1]) else _axes(lo, op.operands[0])


def _expand_dims(lo, op):
    axes, at = _axes(lo, op.operands[0]), op.attrs["axis"]
    return axes and frozenset(a + (a >= at) for a in axes)


def _trans(lo, op):
    axes = _axes(lo, op.operands[0])
    return axes and frozenset(k for k, a in enumerate(op.attrs["order"]) if a in axes)


def _reshape(lo, op):
    """What counts along all axes does so in any shape."""
    return frozenset(range(len(T.shape(op.type)))) if _distinct(lo, op.operands[0]) else None


def _through(lo, op):
    return _axes(lo, op.operands[0])


_AXES = {
    ops.arange: lambda lo, op: frozenset((0,)), ops.splat: lambda lo, op: frozenset(), ops.add: _sum, ops.sub: _sum,
    ops.addptr: _sum, ops.mul: _product, ops.shl: _shifted, ops.expand_dims: _expand_dims, ops.trans: _trans,
    ops.reshape: _reshape, ops.broadcast: _through, ops.cast: _through, ops.hint: _through,
}  # fmt: skip
