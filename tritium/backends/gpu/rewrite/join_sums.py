"""Sums of rows that a loop carries: the lanes that share a row join their parts behind the loop.

    for i, total:                                 for i, parts:                 (one for each lane of a row)
      p = ... dot(q, k) ...                         p = ... dot(q, k) ...
      total = total * f + sum(p, 1)         ->      parts = parts * f + sum of a lane's own elements of p
                                                  total = sum(parts, 1)

Lanes of a row hold the same factor, so the parts add up to what the sum would have been; only the order of the
additions differs, which the language leaves open. Attention has two shuffles less for each row in every iteration, and
does not wait for them between its products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Result, walk
from ....ir.rewrite import sweep, uses
from ....named_tuples import NamedTuple
from ....passes.dce import dce
from ....passes.simplify import number
from .. import ops as gpu_ops
from ..layout.linear import axis_bits

if TYPE_CHECKING:
    from ....ir.core import Module, Value
    from ....ir.rewrite import Rewriter
    from ..layout.linear import Layout
    from ..target import Target


class Carried(NamedTuple):
    """A sum that a loop carries at a position. product: what it is scaled by (the op), None if it is not. parts: the
    elements of a row as (groups, lanes, neighbours), of which the lanes stay apart."""

    position: int
    total: Arg
    product: Op | None
    rows: Op
    ends: Op
    parts: tuple[int, int, int]
    replaced: Arg


def join_sums(module: Module, target: Target) -> Module:
    """Combine the lanes' partial row sums after loops around dots, not in each iteration."""
    if ops.for_ not in module.kinds:
        return module
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and any(x.kind.mma for x in op.regions[0].ops)]
    found = {op: sums for op in loops if (sums := _sums(op, target, module.attrs["num_warps"]))}
    return dce(sweep(module, _Joining(found).rule)) if found else module


def _sums(loop: Op, target: Target, warps: int) -> list[Carried]:
    body, found = loop.regions[0], []
    used = uses(body)
    once = lambda x: used.get(x) == 1
    for k, (total, ends) in enumerate(zip(body.args[1:], body.yields)):
        if not (type(ends) is Op and ends.kind is ops.add and once(ends) and once(total)):
            continue
        if number(loop.operands[3 + k]) != 0:
            continue
        for scaled, rows in (ends.operands, ends.operands[::-1]):
            product = scaled if type(scaled) is Op and scaled.kind is ops.mul and total in scaled.operands else None
            if (scaled is total or product and once(product)) and _is_row_sum(rows) and once(rows):
                parts = _parts(rows.operands[0], target, warps)
                if parts is not None and all(x in body.ops for x in (ends, rows, *filter(None, (product,)))):
                    replaced = Arg(T.Tile((total.type.shape[0], parts[1]), total.type.element), total.name)
                    found.append(Carried(k, total, product, rows, ends, parts, replaced))
                    break
    return found


def _is_row_sum(op: Value) -> bool:
    """True for a sum of the rows of a tile of floats."""
    if type(op) is not Op or op.kind is not ops.reduce or len(op.operands) != 1:
        return False
    (x,), inner = op.operands, op.regions[0].ops
    adds = len(inner) == 2 and inner[0].kind is ops.add and {*inner[0].operands} == {*op.regions[0].args}
    return adds and len(x.type.shape) == 2 and op.attrs["axis"] == 1 and x.type.element.is_float


def _parts(x: Value, target: Target, warps: int) -> tuple[int, int, int] | None:
    """The elements of a row as (groups, lanes, neighbours), if `x` is computed from a dot some lanes of which share a
    row; else None."""
    layout = _layout_behind(x, target, warps)
    if layout is None or layout.shape != x.type.shape:
        return None
    low, width = axis_bits(layout.shape, 1)
    along = lambda images: [bit for bit in range(width) if any(image == 1 << (low + bit) for image in images)]
    lanes, others = along(layout.lane), along(layout.reg)
    if not lanes or len(lanes) + len(others) != width or lanes != [*range(lanes[0], lanes[0] + len(lanes))]:
        return None
    first, count = lanes[0], len(lanes)
    return 1 << (width - first - count), 1 << count, 1 << first


def _layout_behind(x: Value, target: Target, warps: int) -> Layout | None:
    """The layout of the dot that a tile is computed from, element by element."""
    seen, todo = set(), [x]
    while todo:
        op = todo.pop()
        op = gpu_ops.op_of(op)
        if type(op) is not Op or op in seen or op.type != T.with_element(x.type, T.element(op.type)):
            continue
        seen.add(op)
        if target.mma.columns(op, warps) is not None:  # a thread reads rows of tensor memory
            return None
        if op.kind is gpu_ops.dot_shared and target.mma.started is not None:
            return target.mma.started(op, warps)[0]
        if op.kind is ops.dot:
            a, b = (y.type for y in op.operands[:2])
            return target.mma.accumulator(a, b, op.type, op.attrs["precision"], warps)
        todo += op.operands if op.kind.elementwise or op.kind is gpu_ops.dot_wait else ()
    return None


class _Joining:
    """Rewrites loops: their bodies come first, with parameters that the loops have yet to get."""

    def __init__(self, loops: dict[Op, list[Carried]]):
        self.loops = loops
        self.ops = {op: sum_ for sums in loops.values() for sum_ in sums
                    for op in (sum_.rows, sum_.ends, sum_.product) if op is not None}  # fmt: skip

    def rule(self, b: Rewriter, op: Op) -> Value | tuple[Value, ...] | None:
        original = b.original
        if original is None or op.kind is not original.kind:
            return None
        if original in self.loops:
            return self.loop(b, op, self.loops[original])
        sum_ = self.ops.get(original)
        if sum_ is None:
            return None
        if original is sum_.rows:
            return _own(b, op, sum_.parts)
        if original is sum_.product:
            factor = next(x for x in op.operands if x is not sum_.total)
            factor = b.emit_as_is(ops.expand_dims, (factor,), {"axis": 1})
            factor = b.emit_as_is(ops.broadcast, (factor,), {"shape": sum_.replaced.type.shape})
            return b.emit_as_is(ops.mul, (sum_.replaced, factor))
        operands = tuple(sum_.replaced if x is sum_.total else x for x in op.operands)
        return b.emit_as_is(ops.add, operands)

    def loop(self, b: Rewriter, op: Op, sums: list[Carried]) -> tuple[Value, ...]:
        (body,), operands = op.regions, list(op.operands)
        args = list(body.args)
        for sum_ in sums:
            zero = b.emit_as_is(ops.constant, (), {"value": 0.0, "type": sum_.replaced.type.element})
            operands[3 + sum_.position] = b.emit_as_is(ops.splat, (zero,), {"shape": sum_.replaced.type.shape})
            args[1 + sum_.position] = sum_.replaced
        types = tuple(x.type for x in operands[3:])
        made = b.place(Op(ops.for_, tuple(operands), op.attrs, types, (Block(args, body.ops),), op.loc))
        outs: list[Value] = [made] if len(types) == 1 else [Result(made, k) for k in range(len(types))]
        for sum_ in sums:
            outs[sum_.position] = _sum(b, outs[sum_.position], 1)
        return tuple(outs)


def _own(b: Rewriter, op: Op, parts: tuple[int, int, int]) -> Value:
    """The sums of each lane's own elements of a row."""
    (x,) = op.operands
    x = b.emit_as_is(ops.reshape, (x,), {"shape": (x.type.shape[0], *parts), "reorder": False})
    return _sum(b, _sum(b, x, 3), 1)


def _sum(b: Rewriter, x: Value, axis: int) -> Value:
    left, right = (Arg(T.element(x.type), "") for _ in range(2))
    made = Op(ops.add, (left, right), {}, (left.type,))
    region = Block([left, right], [made, Op(ops.yield_, (made,), {}, ())])
    return b.emit_as_is(ops.reduce, (x,), {"axis": axis}, (region,))


__all__ = ["join_sums"]
