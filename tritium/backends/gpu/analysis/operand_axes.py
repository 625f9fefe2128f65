"""What the operands of an op must be like for its results to be cut along an axis: one rule for each kind of op."""

from __future__ import annotations

from typing import Any, TypeAlias

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Op, Result, Value

Along: TypeAlias = "tuple[int | None, ...]"  # an axis of each operand
Node: TypeAlias = "tuple[Value, int]"  # an axis of a value


def operand_axes(op: Op, axis: int, blocks: int, least_of_dot: int = 1) -> Along | None:
    """The axis along which each operand of an op must be split (None: replicated) for its results, or its effect on
    memory, to be split along `axis`; None if that is impossible, or leaves a dot fewer rows or columns.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: tile<8x4xf32>) {\\n %0 = trans %x {order=(1, 0)} : tile<4x8xf32>\\n}")
    >>> operand_axes(m.body.ops[0], 0, 2)
    (1,)
    """
    if op.kind.positionwise:
        return (axis,) * len(op.operands)
    if op.kind is ops.dot:
        return _dot(op, axis, blocks, least_of_dot)
    rule = _RULES.get(op.kind)
    return rule(op, axis, blocks) if rule else None


def _packed(op: Op, axis: int, blocks: int) -> Along | None:
    """Neighbours that are computed together stay in one block."""
    shape = T.shape(op.operands[0].type) if op.operands else ()
    inner = T.numel(T.with_shape(T.i1, shape[axis:])) if shape else 0
    return (axis,) * len(op.operands) if shape and inner // blocks % op.attrs["pack"] == 0 else None


def _reshape(op: Op, axis: int, blocks: int) -> Along | None:
    """The axis that begins at the same element."""
    old, new = T.shape(op.operands[0].type), T.shape(op.type)
    if op.attrs["reorder"]:
        return None
    behind = T.numel(T.with_shape(T.i1, new[axis:]))
    for k, size in enumerate(old):
        if size % blocks == 0 and T.numel(T.with_shape(T.i1, old[k:])) == behind:
            return (k,)
    return None


def _not_last(op: Op, axis: int, blocks: int) -> Along | None:
    return (axis,) * len(op.operands) if axis < len(op.type.shape) - 1 else None


def _not_along(op: Op, axis: int, blocks: int) -> Along | None:
    return (axis,) * len(op.operands) if axis != op.attrs["axis"] else None


def _dot(op: Op, axis: int, blocks: int, least: int) -> Along | None:
    shape = op.type.shape
    if axis < len(shape) - 2:
        return (axis, axis, axis)
    if shape[axis] // blocks < least:
        return None
    return (axis, None, axis) if axis == len(shape) - 2 else (None, axis, axis)


_RULES = {
    ops.arange: lambda op, axis, blocks: (),
    ops.splat: lambda op, axis, blocks: (None,),
    ops.expand_dims: lambda op, axis, blocks: (
        (axis - (axis > op.attrs["axis"]),) if axis != op.attrs["axis"] else None),
    ops.broadcast: lambda op, axis, blocks: (axis if T.shape(op.operands[0].type)[axis] != 1 else None,),
    ops.reshape: _reshape,
    ops.trans: lambda op, axis, blocks: (op.attrs["order"][axis],),
    ops.join: _not_last,
    ops.split: lambda op, axis, blocks: (axis,),
    ops.cat: _not_along,
    ops.gather: lambda op, axis, blocks: (None if axis == op.attrs["axis"] else axis, axis),
    ops.sort: _not_last,
    ops.topk: _not_last,
    ops.reduce: lambda op, axis, blocks: (axis + (axis >= op.attrs["axis"]),) * len(op.operands),
    ops.scan: _not_along,
    ops.map_: _packed,
    ops.inline_asm: _packed,
}


def tile_of(x: Any) -> T.Tile | None:
    """The type of a tile; for an op without results, of its first operand."""
    t = x.type if type(x) in (Arg, Result) or x.types else x.operands[0].type if x.operands else None
    return t if type(t) is T.Tile else None
