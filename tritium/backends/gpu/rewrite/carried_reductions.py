"""Reductions that a loop accumulates: threads keep their parts apart until the loop is over.

    for i, total:                                 for i, parts:
      x = ...                                       x = ...
      total = total * f + reduce(x, 1)      ->      parts = parts * f + (what x has for each part)
                                                  total = reduce(parts, 1)

The result is the same but for the order of the combination, which the language leaves open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Result, Value
from ....ir.opdef import OpKind
from ....ir.rewrite import Rewriter, sweep, uses
from ....named_tuples import NamedTuple
from ....passes.dce import dce
from ....passes.simplify import number

Parts = tuple[int, int, int]


class Carried(NamedTuple):
    """A reduction that a loop carries at a position.

    links: from an op between the carried value and the yielded one to its operand that comes from the carried value.
    reductions: what they combine it with. parts: elements along the reduced axis as (groups, parts, neighbours), of
    which the groups and the neighbours are combined in the loop. replaced: what the loop carries instead.
    """

    position: int
    total: Arg
    links: dict[Op, int]
    reductions: tuple[Op, ...]
    parts: Parts
    replaced: Arg

    @property
    def kind(self) -> OpKind:
        """The operation that combines two parts."""
        return self.reductions[0].regions[0].ops[0].kind

    @property
    def unit(self) -> Any:
        """What the parts begin with; None if they begin with the initial value itself, which may count several times.
        """
        row = self.kind.row
        return None if row is None or row.idempotent else row.unit

    @property
    def axis(self) -> int:
        """The axis that is reduced."""
        return self.reductions[0].attrs["axis"]


def carried_reductions(loop: Op, parts_of: Callable[[Op], Parts | None]) -> list[Carried]:
    """The reductions that a loop only accumulates; `parts_of` says how a reduction is taken apart, if it is."""
    body, found = loop.regions[0], []
    used, inside = uses(body), set(body.ops)
    once = lambda x: used.get(x) == 1
    for k, (total, ends) in enumerate(zip(body.args[1:], body.yields)):
        links = _links(ends, total, lambda op: op in inside and once(op)) if once(total) else None
        if not links:
            continue
        reductions = tuple(op.operands[1 - links[op]] for op in links if op.kind is not ops.mul)
        if not reductions:
            continue
        first, *rest = reductions
        scaled = len(reductions) < len(links)
        starts = not scaled or number(loop.operands[3 + k]) == 0
        alike = all(x.attrs == first.attrs and x.operands[0].type == first.operands[0].type for x in rest)
        parts = parts_of(first) if starts and alike else None
        if parts is not None:
            shape, axis = first.operands[0].type.shape, first.attrs["axis"]
            carried = T.Tile((*shape[:axis], parts[1], *shape[axis + 1:]), T.element(total.type))
            found.append(Carried(k, total, links, reductions, parts, Arg(carried, total.name)))
    return found


def _links(x: Value, total: Arg, alone: Callable[[Op], bool]) -> dict[Op, int] | None:
    """The ops that make `x` of `total`: combinations with a reduction, all of one kind, and products if they are sums;
    None if there are others."""
    if x is total:
        return {}
    if type(x) is not Op or not alone(x):
        return None
    for k in range(2 if x.kind.row is not None and x.kind.row.commutes else 0):
        before, other = x.operands[k], x.operands[1 - k]
        if x.kind is not ops.mul and not (_is_reduction(other, x.kind) and alone(other)):
            continue
        links = _links(before, total, alone)
        if links is None:
            continue
        kinds = {op.kind for op in (*links, x)}
        if len(kinds - {ops.mul}) < 2 and (ops.mul not in kinds or kinds <= {ops.mul, ops.add}):
            return {**links, x: k}
    return None


def _is_reduction(x: Value, kind: OpKind) -> TypeGuard[Op]:
    """True for the reduction of one tile by an operation."""
    return type(x) is Op and x.kind is ops.reduce and len(x.operands) == 1 and _combination(x) is kind


def _combination(reduction: Op) -> OpKind | None:
    """The operation that combines two elements, if it is one that has a unit or may combine an element twice."""
    region = reduction.regions[0]
    inner = region.ops[0]
    row = inner.kind.row
    if len(region.ops) != 2 or {*inner.operands} != {*region.args} or row is None or not row.commutes:
        return None
    return inner.kind if row.idempotent or row.unit is not None else None


def keep_apart(module: Module, found: dict[Op, list[Carried]]) -> Module:
    """Have loops carry the parts of their reductions, and combine them behind the loops."""
    return dce(sweep(module, _Loops(found).rule)) if any(found.values()) else module


class _Loops:
    """Rewrites loops: their bodies come first, with parameters that the loops have yet to get."""

    def __init__(self, loops: dict[Op, list[Carried]]):
        self.loops = loops
        self.ops = {op: one for found in loops.values() for one in found for op in (*one.reductions, *one.links)}

    def rule(self, b: Rewriter, op: Op) -> Value | tuple[Value, ...] | None:
        original = b.original
        if original is None or op.kind is not original.kind:
            return None
        if self.loops.get(original):
            return self.loop(b, op, self.loops[original])
        one = self.ops.get(original)
        if one is None:
            return None
        if original in one.reductions:
            b.loc = next(iter(one.links)).loc  # the reduction itself comes behind the loop
            return _own(b, op, one)
        operands = [one.replaced if x is one.total else x for x in op.operands]
        if op.kind is ops.mul:
            factor = 1 - one.links[original]
            operands[factor] = _spread(b, operands[factor], one)
        return b.emit_as_is(op.kind, operands, op.attrs)

    def loop(self, b: Rewriter, op: Op, found: list[Carried]) -> tuple[Value, ...]:
        (body,), operands, args = op.regions, list(op.operands), list(op.regions[0].args)
        for one in found:
            first, element = operands[3 + one.position], one.replaced.type.element
            if one.unit is not None:
                value = float(one.unit) if element.is_float else one.unit
                first = b.emit_as_is(ops.constant, (), {"value": value, "type": element})
            operands[3 + one.position] = _spread(b, first, one)
            args[1 + one.position] = one.replaced
        types = tuple(x.type for x in operands[3:])
        made = b.place(Op(ops.for_, tuple(operands), op.attrs, types, (Block(args, body.ops),), op.loc))
        outs: list[Value] = [made] if len(types) == 1 else [Result(made, k) for k in range(len(types))]
        for one in found:
            b.loc = one.reductions[0].loc
            total = _reduced(b, outs[one.position], one, one.axis)
            first = op.operands[3 + one.position]
            if one.unit is not None and number(first) != one.unit:
                total = b.emit_as_is(one.kind, (first, total))
            outs[one.position] = total
        return tuple(outs)


def _own(b: Rewriter, op: Op, one: Carried) -> Value:
    """What a tile has for each part."""
    (x,), (groups, count, neighbours), axis = op.operands, one.parts, one.axis
    shape, parts = x.type.shape, (*(groups,) * (groups > 1), count, *(neighbours,) * (neighbours > 1))
    if len(parts) > 1:
        x = b.emit_as_is(ops.reshape, (x,), {"shape": (*shape[:axis], *parts, *shape[axis + 1:]), "reorder": False})
    if neighbours > 1:
        x = _reduced(b, x, one, axis + len(parts) - 1)
    return _reduced(b, x, one, axis) if groups > 1 else x


def _reduced(b: Rewriter, x: Value, one: Carried, axis: int) -> Value:
    left, right = (Arg(T.element(x.type), "") for _ in range(2))
    made = Op(one.kind, (left, right), {}, (left.type,))
    region = Block([left, right], [made, Op(ops.yield_, (made,), {}, ())])
    return b.emit_as_is(ops.reduce, (x,), {"axis": axis}, (region,))


def _spread(b: Rewriter, x: Value, one: Carried) -> Value:
    """A value of the loop for each of its parts."""
    shape = one.replaced.type.shape
    if not isinstance(x.type, T.Tile):
        return b.emit_as_is(ops.splat, (x,), {"shape": shape})
    x = b.emit_as_is(ops.expand_dims, (x,), {"axis": one.axis})
    return b.emit_as_is(ops.broadcast, (x,), {"shape": shape})
