"""Matrix multiplication: operands are materialized row-major in scratch, which is all the packing needed; the runtime's
register-tiled loops add the product to the accumulator, in place if the old one is dead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import ops
from ....errors import CompilationError
from ....ir import types as T
from ....ir.core import Block, Op, Value
from ....passes.simplify import number
from ...llvm.writer import Val, value
from ..fuse import ops as cpu_ops
from ..library import dot, dot_amx, dot_neon, dot_vnni
from . import deferred_dots, loop_nests, scratch_chunks, views
from .function import Lowering
from .scratch import Buffer, View
from .table import statement

# (operands, accumulator) -> the runtime's multiplication
_KINDS = {(T.f32, T.f32): "f32", (T.f64, T.f64): "f64", (T.i8, T.i32): "i8", (T.u8, T.i32): "u8", (T.i32, T.i32): "i32",
          (T.bf16, T.f32): "bf16", (T.f16, T.f32): "f16"}
_NEAR = 32 << 10  # bytes that stay in the first cache


@statement(ops.dot)
def _dot(lo: Lowering, op: Op) -> None:
    a, b, acc = op.operands
    *batch, m, k = T.shape(a.type)
    n = T.shape(b.type)[-1]
    kind = _KINDS.get((T.element(a.type), T.element(op.type)))
    if kind is None:
        raise CompilationError(None, None, f"dot of {a.type} into {op.type} has no multiplication on the CPU")
    x, y = lo.force(a), lo.force(b)
    zero = number(acc) == 0
    fresh = lo.w.const("i1", zero) if acc not in lo.starts else lo.starts[acc]
    total = lo.allocate(op) if zero else _accumulator(lo, op, acc, (x, y))
    depth = _depth(lo, op)
    rows, columns = views.demanded_part(lo, op)
    sizes = [lo.const(s) for s in (rows, columns, depth, *[buffer.strides[-2] for buffer in (x, y, total)])]
    in_place = [v for v in (x, y) if type(v) is View]
    pending = lo.pending_dots.get(op) if len(in_place) == 2 and total is lo.buffers.get(acc) else None
    most, width = k if pending is None else deferred_dots.most(a), dot.panel_width(lo.target, kind, m, n)
    panel = None if _near(lo, kind, y) else lo.arena.take((most, width), T.element(op.type))
    place = value("ptr", "null") if panel is None else lo.address(panel)
    with lo.loops(batch) as at:
        where = []
        for buffer in (x, y, total):
            offset = 0
            for i, stride in zip(at, buffer.strides[:len(batch)], strict=True):
                offset = lo.add(offset, lo.mul(i, stride))
            where.append(scratch_chunks.pointer(lo, buffer, offset))
        arguments = (*where, *sizes, place, fresh)
        function = _function(lo, kind, y, arguments)
        if pending is None:
            lo.w.effect(f"call void {function}({', '.join(z.typed for z in arguments)})")
        else:
            deferred_dots.defer(lo, pending, in_place, most, function, arguments)
    if panel is not None:
        lo.arena.release(panel)
    lo.buffers[op] = total


def _function(lo: Lowering, kind: str, y: Buffer | View, arguments: Sequence[Val]) -> Val:
    """The runtime's function that multiplies by `y`."""
    def function(symbol: str) -> Val:
        lo.w.declare(symbol, "void", [x.type for x in arguments])
        return value("ptr", f"@{symbol}")
    by_rows = function(f"tt.dot.{kind}")
    if type(y) is not View or y.by_columns is None:
        return by_rows
    return lo.w.select(y.by_columns, function(dot_amx.BY_COLUMNS[kind]), by_rows)


def _depth(lo: Lowering, op: Op) -> int | Val:
    """K, or less where masks tell that the rest of both operands is zero: the last step of a sum is often short."""
    k, end, w = T.shape(op.operands[0].type)[-1], views.dot_end(lo, op), lo.w
    if end is None:
        return k
    return w.intrinsic("smax", "i64", w.intrinsic("smin", "i64", lo.const(end), lo.const(k)), lo.const(0))


def _near(lo: Lowering, kind: str, y: Buffer | View) -> bool:
    """Whether a rhs fits in the first cache, having just been written to scratch: it is read there, not copied."""
    packed = kind not in dot.KINDS or dot_vnni.is_vnni(lo.target, kind) or dot_neon.is_dotprod(lo.target, kind)
    return not packed and type(y) is Buffer and y.size <= _NEAR


def _accumulator(lo: Lowering, op: Op, acc: Value, operands: Any) -> Any:
    """The buffer of the accumulator, holding `acc`; never one of the operands."""
    held = lo.dying(acc)
    if held is not None and all(held.offset != x.offset for x in operands):
        held.users += 1
        return held
    buffer = lo.allocate(op)
    loop_nests.fill(lo, [(acc, buffer)])
    return buffer


def sums(loop: Op, inits: Sequence[Value]) -> frozenset[int]:
    """The positions of loop-carried accumulators: zero at first, and in each iteration only a product is added."""
    body = loop.regions[-1]
    used, added = cpu_ops.reads(body), {op.operands[2] for op in body.ops if op.kind is ops.dot}
    args = body.args[len(body.args) - len(inits):]
    return frozenset(k for k, (x, arg) in enumerate(zip(inits, args, strict=True))
                     if arg in added and used[arg] == 1 and number(x) == 0)


_ROWS_AHEAD = 4  # chosen for dots alone; the eight of other loads (memory.py) were not tried here


def look_ahead(lo: Lowering, block: Block) -> bool:
    """Have loads that feed the dots of a loop prefetch few rows; returns whether there are dots."""
    dots = [op for op in block.ops if op.kind is ops.dot]
    for op in dots:
        for x in op.operands[:2]:
            while isinstance(x, Op) and x.kind.elementwise and x.operands:
                x = x.operands[0]
            if isinstance(x, Op) and x.kind is ops.load:
                lo.rows_ahead[x] = _ROWS_AHEAD
    return bool(dots)
