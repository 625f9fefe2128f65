"""Hoist scales out of max: the maximum of scaled elements is the scaled maximum, one product per result.

    m = max(x * c)                            ->    m = max(x) * c        if 0 < c < inf
    m = max(select(mask, x * c, -inf))        ->    m = max(select(mask, x, -inf)) * c

Attention computes the maximum of scaled products, then their differences from it. The differences are fused
multiply-adds, so the products serve the maximum alone. Rounding is monotonic and NaNs propagate: the result is
bit-identical. Only results of dots are rewritten: other elements come from memory, which takes longer.

Factors usually are arguments. The launcher checks that one is not negative, nor so small or large that constants in the
kernel might scale it to zero or infinity: non-negative floats are ordered as their bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Module, Op, Value, op_of, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.assumed import Assumed
from ....passes.simplify import number
from ..analysis.preconditions import Row

ORDINARY = 2.0**-60, 2.0**60  # arguments, and products of constants


def hoist_scales(module: Module) -> Module:
    """Scale the maximum of a product instead of every element.

    Nothing else may need the scaled elements, and the launcher checks that scales are ordinary numbers.
    """
    assumed = Assumed(module)
    if assumed.nonnegative is None or not any(map(_is_extreme, walk(module.body))):
        return module
    masked = _Unscaling(module, assumed.nonnegative, _masked, _behind_mask).run()
    return assumed.stated_by(_Unscaling(masked, assumed.nonnegative, _extremes, _of_extreme).run())


class _Unscaling:
    """One sweep: `find(readers of a product)` chooses the ops to rewrite, `make` emits them."""

    def __init__(self, module: Module, preconditions: list[tuple[Row, ...]], find: Callable[[list[Op]], list[Op]],
                 make: Callable[[Rewriter, Op], Value]):
        self.module, self.preconditions, self.make = module, preconditions, make
        self.arguments = {}  # numbers of the arguments that factors are, by the op that is chosen
        products = [op for op in walk(module.body) if op.kind is ops.mul and _factor(op)]
        readers = {}
        for op in walk(module.body) if products else ():
            for x in op.operands:
                readers.setdefault(op_of(x), []).append(op)
        for op in products:
            argument = _argument(_factor(op)[1], module.args)
            if argument is not None:
                self.arguments |= dict.fromkeys(find(readers.get(op, [])), argument)

    def run(self) -> Module:
        return sweep(self.module, self.rule) if self.arguments else self.module

    def rule(self, b: Rewriter, op: Op) -> Value | None:
        argument = self.arguments.get(b.original) if b.original and op.kind is b.original.kind else None
        if argument is None:
            return None
        self.preconditions.extend(rows for rows in _rows(argument) if rows not in self.preconditions)
        return self.make(b, op)


def _masked(readers: list[Op]) -> list[Op]:
    """The selects between a product and an infinity, if the product has no other uses."""
    return readers if all(x.kind is ops.select and _infinite(x.operands[2]) for x in readers) else []


def _behind_mask(b: Rewriter, op: Op) -> Value:
    mask, product, infinity = op.operands
    x, factor = _factor(product)
    return ops.mul(b, b.emit_as_is(ops.select, (mask, x, infinity)), _spread(b, op.type, factor))


def _extremes(readers: list[Op]) -> list[Op]:
    """The extremes of a product whose other uses are fused multiply-adds."""
    found = [x for x in readers if _is_extreme(x)]
    return found if all(x in found or x.kind in (ops.add, ops.sub) for x in readers) else []


def _of_extreme(b: Rewriter, op: Op) -> Value:
    x, factor = _factor(op.operands[0])
    found = b.emit_as_is(op.kind, (x,), op.attrs, op.regions)
    return ops.mul(b, found, _spread(b, op.type, factor))


def _spread(b: Rewriter, type_: T.Type, x: Value) -> Value:
    """A scalar, broadcast to a type."""
    return ops.splat(b, x, shape=type_.shape) if type(type_) is T.Tile else x


def _factor(product: Op) -> Any:
    """(x, c) of a product x * c of an f32 result of a dot, perhaps masked, and a scalar; None for other products."""
    for x, y in (product.operands, product.operands[::-1]):
        if type(x) is type(y) is Op and y.kind is ops.splat and T.element(x.type) is T.f32 and _from_dot(x):
            return x, y.operands[0]
    return None


def _from_dot(x: Op) -> bool:
    if x.kind is ops.select and _infinite(x.operands[2]):
        x = x.operands[1]
    return type(x) is Op and x.kind.mma


def _infinite(x: Value) -> bool:
    known = number(x)
    return known is not None and math.isinf(known)


def _argument(x: Value, arguments: tuple[Arg, ...]) -> int | None:
    """The number of the argument that a scalar is, up to constant factors; None if it is none."""
    constants = 1.0
    while type(x) is Op and x.kind is ops.mul:
        known = [y.attrs["value"] for y in x.operands if type(y) is Op and y.kind is ops.constant]
        others = [y for y in x.operands if type(y) is Arg or y.kind is not ops.constant]
        if len(known) != 1:
            return None
        constants, (x,) = constants * known[0], others
    if type(x) is not Arg or not ORDINARY[0] <= constants <= ORDINARY[1]:
        return None
    return next((k for k, arg in enumerate(arguments) if arg is x), None)


def _is_extreme(op: Op) -> bool:
    if op.kind is not ops.reduce or len(op.operands) != 1:
        return False
    combined, last = op.regions[0].ops[0], op.regions[0].ops[-1]
    extreme = combined.kind.row is not None and combined.kind.row.idempotent  # on floats
    return len(op.regions[0].ops) == 2 and extreme and last.operands[0] is combined


def _rows(argument: int) -> Iterator[tuple[Row, ...]]:
    """Preconditions: the argument is an ordinary factor, by its bits."""
    least, most = (struct.unpack("i", struct.pack("f", x))[0] for x in ORDINARY)
    bits = ("argument", "i32", argument)
    yield bits, ("constant", "i64", least), ("sub", "i64", 0, 1)
    yield bits, ("constant", "i64", most), ("sub", "i64", 1, 0)
