"""Masks that are the same for a whole tile: the scalar condition under which a comparison of indices holds everywhere.

    m = m0 + arange(0, 128),  n = n0 + arange(0, 64)
    m[:, None] >= n[None, :]  holds everywhere  if  m0 >= n0 + 63

A causal mask cuts only the tiles on the diagonal, a bound only the last tile. The least and the greatest element of an
index tile are sums of scalars and a number; where an index tile is not of that form there is no condition.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Block, Op, Value
from ....named_tuples import NamedTuple
from ....passes.simplify import number


class Sum(NamedTuple):
    """Scalars times factors, and a number."""

    terms: tuple[tuple[Value, int], ...]
    number: int

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """The sum of this and a multiple of another."""
        return Sum((*self.terms, *((x, factor * k) for x, k in other.terms)), self.number + factor * other.number)

    def write(self, b: Builder, type_: T.Scalar, value: Callable[[Value], Value]) -> Value:
        """Emit the sum in an integer type; `value` says what stands for a scalar."""
        out = None
        for x, factor in self.terms:
            x = value(x) if x.type is type_ else ops.cast(b, value(x), to=type_)
            x = x if factor == 1 else ops.mul(b, x, ops.constant(b, value=factor, type=type_))
            out = x if out is None else ops.add(b, out, x)
        if out is None or self.number:
            number = ops.constant(b, value=self.number, type=type_)
            out = number if out is None else ops.add(b, out, number)
        return out


class Condition(NamedTuple):
    """`least` is at least `most`, or greater if it is `strict`. Both are elements, computed in their type: the sums
    overflow only where the elements do."""

    least: Sum
    most: Sum
    type: T.Scalar
    strict: bool

    def write(self, b: Builder, value: Callable[[Value], Value]) -> Value:
        """Emit the condition, an i1."""
        compare = ops.gt if self.strict else ops.ge
        return compare(b, self.least.write(b, self.type, value), self.most.write(b, self.type, value))


class Guard(NamedTuple):
    """Where a select takes one of its tiles everywhere: the conditions, and that tile."""

    conditions: tuple[Condition, ...]
    chosen: Value


# Comparison -> (whether its operands are swapped to get one of >= or >, whether it is >).
_ORDERS = {ops.ge: (False, False), ops.gt: (False, True), ops.le: (True, False), ops.lt: (True, True)}
COMPARISONS = tuple(_ORDERS)
_OPPOSITE = {ops.ge: ops.lt, ops.gt: ops.le, ops.le: ops.gt, ops.lt: ops.ge}


def guards(block: Block) -> dict[Op, Guard]:
    """The selects between tiles in the body of a loop around dots whose masks rarely cut a tile."""
    if not any(op.kind.mma for op in block.ops):
        return {}
    found = {}
    for op in block.ops:
        if op.kind is ops.select and type(op.type) is T.Tile and len(op.type.shape) > 1:
            mask, x, y = op.operands
            both = Guard(conditions(mask), x), Guard(conditions(mask, wanted=False), y)
            useful = [guard for guard in both if any(map(_varies, guard.conditions)) and not _uniform(guard.chosen)]
            if useful:
                found[op] = useful[0]
    return found


def _varies(condition: Condition) -> bool:
    """True if a condition depends on scalars."""
    return bool(condition.least.terms or condition.most.terms)


def _uniform(x: Value) -> bool:
    """True for a tile of equal elements: it stands for what a mask leaves out."""
    return type(x) is Op and x.kind is ops.splat


def conditions(mask: Value, wanted: bool = True) -> tuple[Condition, ...]:
    """The conditions under which all elements of a mask are `wanted`; empty if they are not known.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%n: i32) {\\n %0 = arange {start=0, end=8} : tile<8xi32>\\n"
    ...                  " %1 = splat %n {shape=(8,)} : tile<8xi32>\\n %2 = lt %0, %1 : tile<8xi1>\\n}")
    >>> [(x.least.number, len(x.least.terms), x.most.number, x.strict) for x in conditions(m.body.ops[2])]
    [(0, 1, 7, True)]
    """
    if type(mask) is not Op:
        return ()
    if mask.kind is (ops.and_ if wanted else ops.or_):
        parts = [conditions(x, wanted) for x in mask.operands]
        return tuple(x for part in parts for x in part) if all(parts) else ()
    if mask.kind.view:
        return conditions(mask.operands[0], wanted)
    if mask.kind not in _ORDERS:
        return ()
    swapped, strict = _ORDERS[mask.kind if wanted else _OPPOSITE[mask.kind]]
    left, right = mask.operands[::-1] if swapped else mask.operands
    above, below, type_ = extremes(left), extremes(right), T.element(left.type)
    if above is None or below is None:
        return ()
    return (Condition(above[0], below[1], type_, strict),)


def extremes(x: Value) -> tuple[Sum, Sum] | None:
    """The least and the greatest element of integers; None if they are not known."""
    if T.element(x.type) not in (T.i32, T.i64):
        return None
    if type(x.type) is not T.Tile:
        known = number(x)
        same = Sum(((x, 1),), 0) if known is None else Sum((), known)
        return same, same
    if type(x) is not Op:
        return None
    if x.kind is ops.arange:
        return Sum((), x.attrs["start"]), Sum((), x.attrs["end"] - 1)
    if x.kind is ops.cast:
        (wide,) = x.operands
        return None if T.element(wide.type).bits > T.element(x.type).bits else extremes(wide)
    if x.kind is ops.splat or x.kind.view:
        return extremes(x.operands[0])
    if x.kind not in (ops.add, ops.sub):
        return None
    left, right = (extremes(y) for y in x.operands)
    if left is None or right is None:
        return None
    (a, b), (c, d) = left, right
    return (a.plus(c), b.plus(d)) if x.kind is ops.add else (a.plus(d, -1), b.plus(c, -1))
