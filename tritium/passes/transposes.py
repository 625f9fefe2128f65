"""Tiles computed in the other order of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ops
from ..ir import types as T
from ..ir.core import Op
from ..ir.rewrite import effects

if TYPE_CHECKING:
    from ..ir.core import Value
    from ..ir.rewrite import Rewriter


def transposed(b: Rewriter, x: Value) -> Value:
    """The transpose of a tile of rank 2."""
    return b.emit_as_is(ops.trans, (x,), {"order": (1, 0)})


class Transposes:
    """Transposes of tiles, computed in the other order of axes where the tile is an expression of this block."""

    def __init__(self, b: Rewriter):
        self.b = b
        self.made: dict[Value, Value] = {}

    def of(self, x: Value) -> Value:
        """The transpose of a tile of rank 2; other values as they are."""
        if len(T.shape(x.type)) != 2:
            return x
        found = self.made.get(x)
        if found is None:
            found = self.made[x] = self.make(x)
        return found

    def make(self, x: Value) -> Value:
        b = self.b
        if type(x) is not Op:
            return transposed(b, x)
        if x.kind is ops.trans:
            return x.operands[0]
        if x.kind is ops.splat:
            return ops.splat(b, *x.operands, shape=x.attrs["shape"][::-1])
        if x.kind is ops.broadcast:
            return ops.broadcast(b, self.of(x.operands[0]), shape=x.attrs["shape"][::-1])
        if x.kind is ops.expand_dims:
            return ops.expand_dims(b, *x.operands, axis=1 - x.attrs["axis"])
        if x.kind.elementwise or x.kind is ops.load and self.may_move(x):
            return b.emit_as_is(x.kind, [self.of(y) for y in x.operands], x.attrs, (), x.loc)
        return transposed(b, x)

    def may_move(self, load: Op) -> bool:
        """Whether a load may as well be performed here: nothing is written in between."""
        if load.attrs["volatile"]:
            return False
        for op in reversed(self.b.here()):
            if op is load or effects(op) == "write":
                return op is load
        return False

    def dot(self, op: Op, total: Value | None = None) -> Value:
        """The transpose of a dot."""
        left, right, acc = op.operands
        return self.b.emit_as_is(ops.dot, (self.of(right), self.of(left), self.of(acc) if total is None else total),
                                 op.attrs, (), op.loc)
