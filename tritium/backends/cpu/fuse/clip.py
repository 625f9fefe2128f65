"""Which loops may stop where their mask ends.

A tile of 1024 elements of which 771 are real need not be walked to its end: stores do nothing beyond the mask, and a
reduction meets the same element again and again there (what masked-off lanes of a load get, and what is computed from
it). One chunk beyond the end shows that element; the rest is accounted for at once.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Result

__all__ = ["REPEATABLE", "clip_of", "settles"]

# Combinations for which many equal elements are easily accounted for: added, or the same as one.
REPEATABLE = (ops.add, ops.max_, ops.min_, ops.max_nan, ops.min_nan, ops.and_, ops.or_)


def clip_of(op):
    """The mask beyond which a store or a reduction meets nothing new; None if there is none."""
    if op.kind is ops.store:
        return op.operands[2] if len(op.operands) > 2 else None
    region, = op.regions
    if len(op.operands) > 1 or len(region.ops) != 2 or region.ops[0].kind not in REPEATABLE:
        return None
    x, = op.operands
    return next((m for m in _masks(x) if settles(x, m)), None)


def _masks(x):
    """The masks that a tile's elements were loaded or selected by."""
    found, seen, stack = [], set(), [x]
    while stack:
        x = stack.pop()
        if type(x) in (Arg, Result) or type(x.type) is not T.Tile or id(x) in seen:
            continue
        seen.add(id(x))
        if x.kind is ops.load:
            found += x.operands[1:2]
            continue
        if x.kind is ops.select:
            found.append(x.operands[0])
        if x.kind.elementwise:
            stack += x.operands
    return found


def settles(x, m, known=None) -> bool:
    """Whether a tile has one value (for each row) in all lanes where mask `m`, true up to some lane, is false."""
    known = {} if known is None else known
    if type(x.type) is not T.Tile or x is m:
        return True
    if type(x) in (Arg, Result):
        return False
    found = known.get(id(x))
    if found is None:
        found = known[id(x)] = _settles(x, m, known)
    return found


def _settles(x, m, known):
    if x.kind is ops.splat:
        return True
    if x.kind is ops.load:
        return len(x.operands) > 1 and x.operands[1] is m and (len(x.operands) == 2 or settles(x.operands[2], m, known))
    if x.kind is ops.select and x.operands[0] is m:
        return settles(x.operands[2], m, known)
    if x.kind is ops.expand_dims:
        return x.attrs["axis"] == len(T.shape(x.type)) - 1 or settles(x.operands[0], m, known)
    if x.kind is ops.broadcast:
        return T.shape(x.operands[0].type)[-1] == 1 or settles(x.operands[0], m, known)
    if x.kind.elementwise or x.kind in (ops.hint, ops.rare):
        return all(settles(y, m, known) for y in x.operands)
    return False
