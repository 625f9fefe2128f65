"""Induction-variable simplification: a loop-carried tile with a uniform step becomes a scalar offset.

    for p: p += step            ->      for o: p = start + o; o += step

The tile is not live across iterations, its addresses are an invariant part per thread plus one scalar, and prefetching
a later iteration needs only that scalar. Tiles with the same step share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import ops
from ....analysis.induction import increment
from ....ir import types as T
from ....ir.builder import Builder, several
from ....ir.core import Module, Op, Value
from ....ir.rewrite import substitute, sweep
from ....passes.functions import each_function
from ....passes.simplify import number


@each_function
def simplify_induction(module: Module) -> Module:
    """Carry tiles with a uniform step as scalar offsets through loops, in functions too."""
    return sweep(module, _rule) if ops.for_ in module.kinds else module


def _rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
    if op.kind is not ops.for_:
        return None
    body = op.regions[0]
    moved = [_step(arg, out) for arg, out in zip(body.args[1:], body.yields)]
    if not any(moved):
        return None
    lo, hi, step, *inits = op.operands
    held = [_holder(inits, moved, k) for k in range(len(inits))]
    kept = [k for k, at in enumerate(held) if at == k]
    starts = [ops.constant(b, value=0, type=_carrier(inits[k].type)) if moved[k] else inits[k] for k in kept]
    names = [body.args[0].name, *(body.args[1 + k].name for k in kept)]
    with b.region([lo.type, *(x.type for x in starts)], names) as region:
        index, *own = region.args
        carried = dict(zip(kept, own))
        values = [_moved(b, x, carried[at]) if s else carried[at] for x, at, s in zip(inits, held, moved)]
        outs = substitute(b, body, [index, *values])
        ops.yield_(b, *[ops.add(b, o, _to_carrier(b, _step(values[k], outs[k]), o.type)) if moved[k] else outs[k]
                        for k, o in carried.items()])  # fmt: skip
    ends = b.emit(ops.for_, (lo, hi, step, *starts), op.attrs, (region.block,))
    last = dict(zip(kept, several(ends)))
    return tuple(_moved(b, x, last[at]) if s else last[at] for x, at, s in zip(inits, held, moved))


def _holder(inits: Sequence[Value], moved: Sequence[Value | None], k: int) -> int:
    """The position of the carried value that stands for value k: the first offset with its type and step, or itself."""
    if moved[k] is None:
        return k
    kind = lambda j: (_carrier(inits[j].type), moved[j] if number(moved[j]) is None else number(moved[j]))
    return next(j for j in range(k + 1) if moved[j] is not None and kind(j) == kind(k))


def _step(arg: Value, out: Value) -> Value | None:
    """The scalar that `out` adds to the tile `arg`, by one splat; None if it is something else."""
    by = increment(arg, out) if type(arg.type) is T.Tile else None
    return by.operands[0] if type(by) is Op and by.kind is ops.splat else None


def _carrier(t: T.Tile) -> T.Scalar:
    """Offsets of pointers are kept in 64 bits; integers wrap in their own type."""
    return T.i64 if T.is_ptr(t) else t.element


def _to_carrier(b: Builder, x: Any, t: T.Scalar) -> Value:
    return x if x.type is t else ops.cast(b, x, to=t)


def _moved(b: Builder, start: Value, offset: Value) -> Value:
    kind = ops.addptr if T.is_ptr(start.type) else ops.add
    return kind(b, start, ops.splat(b, offset, shape=start.type.shape))
