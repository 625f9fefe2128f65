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

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value, closure, op_of, walk
from .. import ops as gpu_ops
from ..layout.linear import Layout, axis_bits
from ..target import Target
from .carried_reductions import Parts, carried_reductions, keep_apart


def join_sums(module: Module, target: Target) -> Module:
    """Combine the lanes' partial row sums after loops around dots, not in each iteration."""
    if ops.for_ not in module.kinds:
        return module
    parts_of = lambda reduction: _parts(reduction, target, module.attrs["num_warps"])
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and any(x.kind.mma for x in op.regions[0].ops)]
    return keep_apart(module, {op: carried_reductions(op, parts_of) for op in loops})


def _parts(reduction: Op, target: Target, warps: int) -> Parts | None:
    """The elements of a row as (groups, lanes, neighbours), if it is computed from a dot some lanes of which share a
    row; else None."""
    (x,) = reduction.operands
    if len(x.type.shape) != 2 or reduction.attrs["axis"] != 1 or not x.type.element.is_float:
        return None
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
    alike = lambda ys: [op for y in ys if type(op := op_of(y)) is Op
                        and op.type == T.with_element(x.type, T.element(op.type))]
    passes = lambda op: op.kind.elementwise or op.kind is gpu_ops.dot_wait
    for op in closure(alike([x]), lambda op: alike(op.operands) if passes(op) else ()):
        if target.mma.columns(op, warps) is not None:  # a thread reads rows of tensor memory
            return None
        if op.kind is gpu_ops.dot_shared and target.mma.started is not None:
            return target.mma.started(op, warps)[0]
        if op.kind is ops.dot:
            return target.mma.result_of(op, warps)
    return None
