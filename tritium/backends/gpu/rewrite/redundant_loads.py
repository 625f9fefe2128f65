"""Redundant-load elimination: tiles with repeated neighbours (packed weights, scales of groups) are loaded once and
broadcast.

    q = load p + k // 8 * n          ->     few = load p + (0, 8, 16, ...) // 8 * n
    w = q >> k % 8 * 4                      q = few, every row eight times
    acc = dot a, w, acc                     ...

The operands of a dot are prefetched, so this saves copies and buffers. The addresses of the distinct elements are
recomputed from every eighth index; if that is not possible the load stays.
"""

from __future__ import annotations

from .... import ops
from ....analysis.axis_info import AxisAnalysis, analyze
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.assumed import Assumed
from ....passes.dce import dce
from ....passes.licm import licm
from ....passes.simplify import full, number
from ..pipeline.capabilities import capabilities
from ..pipeline.loop_info import LoopInfo, is_loaded, stages_of
from ..pipeline.schedule import prefetched_loads
from ..target import Target


def eliminate_redundant_loads(module: Module, target: Target) -> Module:
    """Load elements that a dot's operand repeats along an axis once, and broadcast them."""
    if ops.for_ not in module.kinds:
        return module
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and _computes_operands(op)]
    if not loops:
        return module
    assumed = Assumed(module)
    info, can, found = analyze(module, assumed.nonnegative), capabilities(target, module, []), {}
    for loop in loops:
        if stages_of(loop, module) < 2:
            continue
        around = LoopInfo.of(loop, can)
        if prefetched_loads(around) is not None:
            found |= _repeating(around, info)

    def rule(b: Rewriter, op: Op) -> Value | None:
        steps = found.get(b.original)
        if steps is None or b.original is None or op.kind is not ops.load or op.type is not b.original.type:
            return None
        few = _few(b, op, steps)
        assert few is not None, "as `_repeating` found"
        return _spread(b, few, steps)

    return dce(licm(assumed.stated_by(sweep(module, rule)))) if found else module


def _computes_operands(loop: Op) -> bool:
    """True if a dot of the loop has an operand that is not a plain load."""
    dots = [op for op in loop.regions[0].ops if op.kind is ops.dot]
    return any(not is_loaded(x) for dot in dots for x in dot.operands[:2])


def _repeating(loop: LoopInfo, info: AxisAnalysis) -> dict[Op, tuple[int, ...]]:
    """{id of a load behind an operand: repetitions of its elements along each axis}, if the distinct ones can be
    copied."""
    dots = (*loop.dots, *loop.in_registers)
    operands = [x for dot in dots for x in dot.operands[:2]]
    loads = [load for x in operands for rank in (1, 2) for load in loop.loads_behind(x, rank)]
    found = {}
    for load in loads:
        steps = _steps(load, info)
        few = _few(Builder(), load, steps) if max(steps) > 1 and not load.attrs["volatile"] else None
        if few is not None and (loop.can_copy if len(steps) == 2 else loop.can_prefetch)(few):
            found[load] = steps
    return found


def _steps(load: Op, info: AxisAnalysis) -> tuple[int, ...]:
    """The number of equal neighbours along each axis, in aligned groups."""
    constancies = [info(x).constancy for x in load.operands if type(x.type) is T.Tile]
    return tuple(map(min, load.type.shape, *constancies))


def _few(b: Builder, load: Op, steps: tuple[int, ...]) -> Op | None:
    """The load of the first element of each group; None if its addresses or its mask cannot be recomputed."""
    operands = [_sampled(b, x, steps) for x in load.operands]
    return None if None in operands else b.emit(ops.load, operands, load.attrs, loc=load.loc)


def _spread(b: Builder, x: Value, steps: tuple[int, ...]) -> Value:
    """The elements of `x`, each repeated `steps` times along each axis."""
    shape = T.shape(x.type)
    parts = [(n,) if step == 1 else (step,) if n == 1 else (n, step) for n, step in zip(shape, steps)]
    for axis in reversed(range(len(shape))):
        if len(parts[axis]) == 2:
            x = ops.expand_dims(b, x, axis=axis + 1)
    x = ops.broadcast(b, x, shape=tuple(n for part in parts for n in part))
    full = tuple(n * step for n, step in zip(shape, steps))
    return x if T.shape(x.type) == full else ops.reshape(b, x, shape=full)


def _sampled(b: Builder, x: Value, steps: tuple[int, ...], divisor: int = 1) -> Value | None:
    """Every `steps`-th element of a tile along each axis, divided by `divisor` if they are multiples of it; None if
    that cannot be recomputed from scalars."""
    if divisor == 1 and max(steps, default=1) == 1:
        return x
    if type(x) is not Op or type(x.type) is not T.Tile:
        return None
    shape = tuple(n // step for n, step in zip(x.type.shape, steps))
    if x.kind is ops.arange:
        return _sampled_range(b, x, steps[0], divisor)
    if x.kind is ops.splat:
        return ops.splat(b, x.operands[0], shape=shape) if divisor == 1 else None
    if x.kind is ops.expand_dims:
        axis = x.attrs["axis"]
        inner = _sampled(b, x.operands[0], steps[:axis] + steps[axis + 1 :], divisor)
        return None if inner is None else ops.expand_dims(b, inner, axis=axis)
    if x.kind is ops.broadcast:
        inner = tuple(step if n > 1 else 1 for n, step in zip(T.shape(x.operands[0].type), steps))
        inner = _sampled(b, x.operands[0], inner, divisor)
        return None if inner is None else ops.broadcast(b, inner, shape=shape)
    return _sampled_result(b, x, steps) if divisor == 1 and x.kind.elementwise else None


def _sampled_range(b: Builder, x: Op, step: int, divisor: int) -> Value | None:
    start, count = x.attrs["start"], x.type.numel // step
    if start % divisor or step % divisor:
        return None
    made = ops.arange(b, start=0, end=count)
    made = made if step == divisor else ops.mul(b, made, full(b, step // divisor, made.type))
    return ops.add(b, made, full(b, start // divisor, made.type)) if start else made


def _sampled_result(b: Builder, x: Op, steps: tuple[int, ...]) -> Value | None:
    """For an elementwise op. A quotient of a range becomes a range, which keeps contiguity visible."""
    divisor = number(x.operands[1]) if x.kind is ops.div else None
    if type(divisor) is int and divisor > 1:
        quotient = _sampled(b, x.operands[0], steps, divisor)
        if quotient is not None:
            return quotient
    operands = [_sampled(b, y, steps) if type(y.type) is T.Tile else y for y in x.operands]
    return None if None in operands else b.emit(x.kind, operands, x.attrs, loc=x.loc)
