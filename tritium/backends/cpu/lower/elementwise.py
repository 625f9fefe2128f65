"""Elementwise ops, constants, and shape ops that only rearrange indices: at most one instruction for each chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Op, Result, Value
from ....passes.simplify import number
from ...llvm.rows import bitcast, elementwise, memory_type
from ...llvm.writer import Val, lanes
from ..fuse.index import Index, ravel, source_index, width_of
from . import erf, exp, integers, remainders, scratch_chunks
from .predication import mask_of
from .table import PULL, pulled, statement

if TYPE_CHECKING:
    from .function import Lowering


def apply(lo: Lowering, op: Op, xs: Sequence[Val]) -> Val:
    """An elementwise op on scalars or chunks."""
    if op.kind is ops.div and lanes(xs[0].type) > lanes(xs[1].type) and T.element(op.type) in _QUOTIENTS \
            and lo.target.has_fma:
        return _divide(lo, T.element(op.type), *xs)
    xs = lo.spread(xs)
    fn: Callable[..., Val] | None = _APPLY.get(op.kind)
    if fn is not None:
        return fn(lo, op, *xs)
    return elementwise(lo.w, op.kind, T.element(op.operands[0].type), list(xs), lo.contract)


def _bitcast(lo: Lowering, op: Op, x: Val) -> Val:
    return bitcast(lo.w, x, T.element(op.operands[0].type), op.attrs["to"])


def _addptr(lo: Lowering, op: Op, p: Val, offset: Val) -> Val:
    w, t = lo.w, memory_type(T.element(op.type).pointee)
    offset = lo.index_of(offset, T.element(op.operands[1].type))
    if p.type == "ptr":
        return w.gep(t, p, lo.const(offset))
    return w.emit(p.type, f"getelementptr {t}, {p.typed}, {offset.typed}", p, offset)


def _remainder(lo: Lowering, op: Op, x: Val, y: Val) -> Any:
    return (remainders.remainder if remainders.on_vectors(lo, op, x) else integers.APPLY[ops.rem])(lo, op, x, y)


_APPLY = {
    ops.bitcast: _bitcast,
    ops.select: lambda lo, op, c, x, y: lo.w.select(c, x, y),
    ops.addptr: _addptr,
    **exp.APPLY,
    **erf.APPLY,
    **integers.APPLY,
    ops.rem: _remainder,
}


def _pull(lo: Lowering, op: Op, idx: Index) -> Val:
    return apply(lo, op, [lo.ev(x, idx) for x in op.operands])


_QUOTIENTS = {T.f32: -126, T.f64: -1022}  # -> exponent of the smallest normal number


def _divide(lo: Lowering, t: T.Scalar, x: Val, y: Val) -> Val:
    """A chunk divided by a scalar: a multiplication by its reciprocal and a correction by the residual, which rounds
    correctly except for numerators so small that the residual underflows.

    Infinities and NaNs need no correction. The reciprocal of a denormal would overflow, so both are scaled up. They
    also get the signs with which a residual of zero keeps the sign of a zero: x is minus the numerator.
    """
    w, n = lo.w, lanes(x.type)
    one, size = w.const(y.type, 1.0), w.intrinsic("fabs", y.type, y)
    scale = one
    if y[0] in "%@":
        small = w.compare("fcmp olt", size, w.const(y.type, 2.0 ** _QUOTIENTS[t]))
        scale = w.select(small, w.const(y.type, 2.0 ** 64), one)
        size = w.binary("fmul", size, scale)
    x = w.binary("fmul", x, lo.widen(w.unary("fneg", w.intrinsic("copysign", y.type, scale, y)), n))
    inverse, size = lo.widen(w.unary("fneg", w.binary("fdiv", one, size)), n), lo.widen(size, n)
    near = w.binary("fmul", x, inverse)
    more = w.intrinsic("fma", x.type, near, size, x)
    exact = w.intrinsic("fma", x.type, more, inverse, near)
    return w.select(w.compare("fcmp uno", exact, exact), near, exact)


PULL["row"] = _pull
PULL.update(dict.fromkeys(_APPLY, _pull))


@pulled(ops.select)
def _select(lo: Lowering, op: Op, idx: Index) -> Val:
    """A uniform condition selects full chunks, and most chunks are inside a mask."""
    condition, x, y = op.operands
    clamp = _clamp(op) if lo.target.simd == "neon" and condition not in lo.pending else None
    x, y = lo.spread([lo.ev(x, idx), lo.ev(y, idx)])
    if clamp:
        return lo.w.intrinsic(clamp, x.type, y, x)
    mask = mask_of(lo, condition, idx) if width_of(idx) > 1 else None
    if mask is not None and mask.bounded and mask.each is None:
        x, y = lo.widen(x, mask.n), lo.widen(y, mask.n)
        full = mask.all_lanes(lo)
        with lo.at(max(full.level, mask.level(), x.level, y.level)):
            picked, = lo.either(full, lambda: [x], lambda: [lo.w.select(mask.pinned(lo).lanes(lo), x, y)], True)
        return picked
    chosen = lo.ev(condition, idx)
    if lanes(chosen.type) == 1:
        return lo.w.select(chosen, x, y)
    return lo.w.select(*lo.spread([chosen, x, y]))


def _clamp(op: Op) -> Any:
    """x < c ? c : x with a constant c is one instruction: `maximum` hands on NaN. On x86 it is one as it stands."""
    condition, x, y = op.operands
    if not isinstance(condition, Op) or condition.kind not in _CLAMPS or condition.operands != (y, x) \
            or not T.element(x.type).is_float:
        return None
    c = number(x)
    return _CLAMPS[condition.kind] if c not in (0, None) and c == c else None


_CLAMPS = {ops.lt: "maximum", ops.gt: "minimum"}


@pulled(ops.constant)
def _constant(lo: Lowering, op: Op, idx: Index) -> Val:
    return lo.literal(op.attrs["type"], op.attrs["value"])


@pulled(ops.arange)
def _arange(lo: Lowering, op: Op, idx: Index) -> Val:
    (base, lane), = idx
    w = lo.w
    base = lo.add(base, op.attrs["start"])
    if lane is None:
        return w.const("i32", base) if type(base) is int else w.cast("trunc", base, "i32")
    if type(base) is int:
        return w.lanes_of("i32", [base + o for o in lane.offsets])
    first = lo.widen(w.cast("trunc", base, "i32"), len(lane.offsets))
    return w.binary("add", first, w.lanes_of("i32", lane.offsets))


@pulled(ops.splat, ops.expand_dims, ops.broadcast, ops.trans, ops.hint)
def _moved(lo: Lowering, op: Op, idx: Index) -> Val:
    return lo.ev(op.operands[0], source_index(lo, op, idx) if idx else ())


@pulled(ops.reshape)
def _reshape(lo: Lowering, op: Op, idx: Index) -> Val:
    """A buffered tile is read at its row-major position; other tiles at the source index."""
    x, = op.operands
    buffer = lo.buffers.get(x)
    if buffer is None or not buffer.flat:
        return lo.ev(x, source_index(lo, op, idx))
    base, lane = ravel(lo, idx, T.shape(op.type)) if idx else (0, None)
    return scratch_chunks.read_flat(lo, buffer, base, lane)


@pulled(ops.split)
def _split(lo: Lowering, op: Op, idx: Index) -> list[Val]:
    x, = op.operands
    return [lo.ev(x, (*idx, (k, None))) for k in range(2)]


# --- regions of scalars -----------------------------------------------------------------------------------------
def inline(lo: Lowering, block: Block, args: Sequence[Val]) -> list[Val]:
    """Evaluate a region that acts lane by lane on scalars or chunks; returns the values it yields."""
    return _inline(lo, block, dict(zip(block.args, args, strict=True)))


def _inline(lo: Lowering, block: Block, made: dict[Value, Any]) -> list[Val]:
    def get(x: Value) -> Val:
        if type(x) is Result:
            return made[x.op][x.index] if x.op in made else lo.scalar(x)
        found = made.get(x)
        return lo.scalar(x) if found is None else found
    for op in block.ops:
        if op.kind.terminator:
            return [get(x) for x in op.operands]
        if op.kind is ops.if_:  # both branches are computed, lanes select
            then, other = (_inline(lo, region, dict(made)) for region in op.regions)
            picked = [lo.w.select(*lo.spread([get(op.operands[0]), x, y])) for x, y in zip(then, other, strict=True)]
            made[op] = picked[0] if len(picked) == 1 else picked
        elif op.kind is ops.constant:
            made[op] = _constant(lo, op, ())
        elif op.kind is ops.hint:
            made[op] = get(op.operands[0])
        elif op.kind is ops.rare:
            made[op] = _rare(lo, op, *[get(x) for x in op.operands])
        else:
            made[op] = apply(lo, op, [get(x) for x in op.operands])
    return []


def _rare(lo: Lowering, op: Op, condition: Val, usual: Val, *rest: Val) -> Val:
    """Branch around the region if no lane of the chunk needs it, as in most chunks."""
    w = lo.w
    condition, usual, *args = lo.spread([condition, usual, *rest])
    some = lo.any_lane(condition)

    def needed():
        pinned = [w.effect(f"freeze {x.typed}", x.type) for x in args]  # not hoisted
        if usual.type[0] != "<":
            made, = inline(lo, op.regions[0], pinned)
            return [w.select(condition, made, usual)]
        # lane by lane: a region is long, and its vector code would take LLVM long to compile
        with lo.loop(0, lanes(usual.type), carry=[usual]) as loop:
            made, = inline(lo, op.regions[0], [w.extract(x, loop.index) for x in pinned])
            chosen = w.select(w.extract(condition, loop.index), made, w.extract(loop.carried[0], loop.index))
            loop.next = [w.insert(loop.carried[0], chosen, loop.index)]
        return list(loop.results)
    with lo.at(max(x.level for x in (some, usual, *args))):
        return lo.either(some, needed, lambda: [usual], likely=False)[0]


@pulled(ops.rare)
def _pull_rare(lo: Lowering, op: Op, idx: Index) -> Any:
    return _rare(lo, op, *[lo.ev(x, idx) for x in op.operands])


@statement(ops.rare)
def _scalar_rare(lo: Lowering, op: Op) -> None:
    """On scalars, in program order."""
    lo.values[op] = _rare(lo, op, *[lo.scalar(x) for x in op.operands])


@pulled(ops.map_)
def _map(lo: Lowering, op: Op, idx: Index) -> list[Val] | Val:
    """A region without loops or effects acts on chunks."""
    out = inline(lo, op.regions[0], [lo.ev(x, idx) for x in op.operands])
    return out if len(op.types) > 1 else out[0]
