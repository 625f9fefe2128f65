"""Bounds clipping: which loops may end where their mask ends.

Of a tile of 1024 elements with 771 inside the mask, the loop skips the rest: stores have no effect beyond the mask, and
all elements of a reduction there are equal (computed from the `other` of masked loads). The loop runs one chunk beyond
the end for the value of these elements, and the reduction combines it as many times as there are chunks left. Loops
that write a buffer for such a reduction run as far.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value, closure
from ....ir.opdef import OpKind


def clip_mask(op: Op) -> Value | None:
    """The mask at whose end the loop of a store or a reduction may stop; None if there is none."""
    if op.kind is ops.store:
        return op.mask if op.mask is not None and _is_computed(op.mask) else None
    region, = op.regions
    if len(op.operands) > 1 or len(region.ops) != 2 or not _is_repeatable(region.ops[0].kind):
        return None
    x, = op.operands
    return next((m for m in _masks(x) if _is_computed(m) and uniform_beyond(x, m)), None)


def _is_computed(m: Value) -> bool:
    """Whether a mask can be computed again, to see where it ends: what a check has found cannot."""
    return type(m) is not Op or m.kind is not ops.check


def _is_repeatable(kind: OpKind) -> bool:
    """Whether n equal elements combine in closed form: to n * x, or to x."""
    return kind is ops.add or kind.row is not None and kind.row.idempotent


def _masks(x: Value) -> list[Value]:
    """The masks of the loads and selects that a tile is computed from."""
    tiles = closure([x], lambda y: y.operands if type(y) is Op and y.kind.elementwise else ())
    masks = {ops.load: slice(1, 2), ops.select: slice(1)}
    return [m for y in tiles if type(y) is Op and type(y.type) is T.Tile and y.kind in masks
            for m in y.operands[masks[y.kind]]]  # fmt: skip


def uniform_beyond(x: Value, m: Value, known: dict[Value, bool] | None = None) -> bool:
    """Whether a tile is uniform along each row where mask `m`, true up to some lane, is false."""
    known = {} if known is None else known
    if type(x.type) is not T.Tile or x is m:
        return True
    if type(x) is not Op:
        return False
    found = known.get(x)
    if found is None:
        found = known[x] = _uniform_beyond(x, m, known)
    return found


def _uniform_beyond(x: Op, m: Value, known: dict[Value, bool]) -> bool:
    if x.kind is ops.splat:
        return True
    if x.kind is ops.load:
        return x.mask is m and (len(x.operands) == 2 or uniform_beyond(x.operands[2], m, known))
    if x.kind is ops.select and x.operands[0] is m:
        return uniform_beyond(x.operands[2], m, known)
    if x.kind is ops.expand_dims:
        return x.attrs["axis"] == len(T.shape(x.type)) - 1 or uniform_beyond(x.operands[0], m, known)
    if x.kind is ops.broadcast:
        return T.shape(x.operands[0].type)[-1] == 1 or uniform_beyond(x.operands[0], m, known)
    if x.kind.positionwise and not x.kind.effects:
        return all(uniform_beyond(y, m, known) for y in x.operands)
    return False
