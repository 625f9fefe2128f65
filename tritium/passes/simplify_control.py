"""Simplification of memory ops, reductions, loops and branches."""

from __future__ import annotations

from .. import ops
from ..analysis.arithmetic import constant_of
from ..analysis.induction import increment
from ..analysis.polynomial import Scalars
from ..ir import types as T
from ..ir.builder import several
from ..ir.core import Op, walk
from ..ir.rewrite import ERASE, effects, substitute
from .regions import trip_count
from .simplify import full, number, on


# --- memory -------------------------------------------------------------------------------------------------------
@on(ops.load)
def load_mask(b, op):
    """A mask that is always on is no mask; one that is always off reads nothing"""
    if len(op.operands) < 2 or op.attrs["volatile"]:
        return None
    mask = number(op.operands[1])
    if mask is None:
        return None
    if mask:
        return b.emit(ops.load, op.operands[:1], op.attrs)
    if len(op.operands) == 3:
        return op.operands[2]
    t = T.element(op.type)
    is_float = type(t) is T.Scalar and t.is_float
    return full(b, 0.0 if is_float else False if t is T.i1 else 0, op.type)


@on(ops.store)
def store_mask(b, op):
    """A store whose mask is always on, or always off"""
    return _write_mask(b, op, 2)


@on(ops.atomic)
def atomic_mask(b, op):
    """An atomic whose mask is always on"""
    return _write_mask(b, op, 2) if len(op.operands) == 3 and number(op.operands[2]) else None


def _write_mask(b, op, count):
    mask = number(op.operands[count]) if len(op.operands) > count else None
    if mask is None:
        return None
    return (b.emit(op.kind, op.operands[:count], op.attrs) or ERASE) if mask else ERASE


@on(ops.assume, ops.assert_)
def known(b, op):
    """A promise or a check that holds"""
    return ERASE if number(op.operands[0]) else None


# --- reductions ---------------------------------------------------------------------------------------------------
@on(ops.reduce)
def reduce_one(b, op):
    """A reduction along an axis of size 1"""
    if T.shape(op.operands[0].type)[op.attrs["axis"]] != 1:
        return None
    return tuple(ops.reshape(b, x, shape=T.shape(t)) for x, t in zip(op.operands, op.types))


@on(ops.scan)
def scan_one(b, op):
    """A scan along an axis of size 1"""
    return op.operands if T.shape(op.operands[0].type)[op.attrs["axis"]] == 1 else None


# --- branches and loops -------------------------------------------------------------------------------------------
@on(ops.if_)
def branch(b, op):
    """A branch with a known condition, or one that only chooses between values at hand"""
    cond, = op.operands
    value = constant_of(cond)
    if value is not None:
        return substitute(b, op.regions[0 if value else 1], ())
    then, other = op.regions
    if op.types and len(then.ops) == len(other.ops) == 1:
        return tuple(_select(b, cond, x, y) for x, y in zip(then.yields, other.yields))
    return None


def _select(b, cond, x, y):
    if T.shape(x.type):
        cond = ops.splat(b, cond, shape=T.shape(x.type))
    return ops.select(b, cond, x, y)


@on(ops.for_)
def few_trips(b, op):
    """A loop that runs not at all, or once"""
    count = trip_count(op)
    if count == 0:
        return op.operands[3:]
    return substitute(b, op.regions[0], (op.operands[0], *op.operands[3:])) if count == 1 else None


@on(ops.while_)
def never(b, op):
    """A loop whose condition is false"""
    value = constant_of(op.regions[0].yields[0])
    return op.operands if value is not None and not value and not effects_of_block(op.regions[0]) else None


@on(ops.while_)
def counted(b, op):
    """`while i < n: i += c` becomes `for i in range(i, n, c)`, if c is a positive constant and n is loop-invariant."""
    condition, body = op.regions
    compare = condition.yields[0]
    if len(condition.ops) != 2 or type(compare) is not Op or compare.kind is not ops.lt:
        return None
    counter, bound = compare.operands
    k = next((k for k, arg in enumerate(condition.args) if arg is counter), None)
    if k is None or bound in condition.args or not counter.type.signed:
        return None
    by = number(increment(body.args[k], body.yields[k]))
    if by is None or by <= 0:
        return None
    with b.region([counter.type, *(a.type for a in body.args)], [counter.name, *(a.name for a in body.args)]) as inner:
        index, *carried = inner.args
        carried[k] = index
        ops.yield_(b, *substitute(b, body, carried))
    bounds = op.operands[k], bound, full(b, by, counter.type)
    made = b.emit(ops.for_, (*bounds, *op.operands), ops.for_.defaults, (inner.block,))
    return made if type(made) is tuple else (made,)


@on(ops.for_)
def second_counter(b, op):
    """A carried integer that is always a number apart from the index is read as that sum; its result stays"""
    body, (lo, _, step, *inits) = op.regions[0], op.operands
    apart = {}
    for k, (arg, out) in enumerate(zip(body.args[1:], body.yields)):
        if arg.type is lo.type and increment(arg, out) is step:
            apart[k] = (Scalars()(inits[k]) - Scalars()(lo)).number
    if not apart:
        return None
    outs = {body.yields[k] for k in apart}
    read = {x for inner in walk(body) if inner not in outs and inner is not body.ops[-1] for x in inner.operands}
    apart = {k: n for k, n in apart.items() if n is not None and {body.args[1 + k], body.yields[k]} & read}
    if not apart:
        return None
    with b.region([a.type for a in body.args], [a.name for a in body.args]) as inner:
        index, *carried = inner.args
        values = [ops.add(b, index, full(b, apart[k], x.type)) if k in apart else x for k, x in enumerate(carried)]
        outs = substitute(b, body, [index, *values])
        ops.yield_(b, *(ops.add(b, carried[k], step) if k in apart else y for k, y in enumerate(outs)))
    return several(b.emit(ops.for_, op.operands, op.attrs, (inner.block,)))


def effects_of_block(block):
    return any(effects(inner) == "write" for inner in block.ops)


@on(ops.for_, ops.while_)
def unchanged(b, op):
    """A carried value that no iteration changes is the value it began with"""
    carry = op.kind.loop
    inits = op.operands[carry.operands:]
    if not inits:
        return None
    body = op.regions[-1]
    params = body.args[carry.parameters:]
    kept = [k for k, (x, y) in enumerate(zip(params, body.yields)) if y is not x and y != inits[k]]
    if len(kept) == len(inits):
        return None
    regions = [_with_fewer(b, op, region, carry, kept) for region in op.regions]
    operands = (*op.operands[:carry.operands], *[inits[k] for k in kept])
    made = b.emit(op.kind, operands, op.attrs, regions)
    made = iter(made if type(made) is tuple else () if made is None else (made,))
    return tuple(next(made) if k in kept else x for k, x in enumerate(inits))


def _with_fewer(b, op, region, carry, kept):
    """The region without the parameters that never change; a condition keeps its one yield."""
    inits = op.operands[carry.operands:]
    head, params = region.args[:carry.parameters], region.args[carry.parameters:]
    stay = [*head, *[params[k] for k in kept]]
    with b.region([a.type for a in stay], [a.name for a in stay]) as inner:
        new = iter(inner.args)
        values = [next(new) for _ in head] + [next(new) if k in kept else x for k, x in enumerate(inits)]
        yields = substitute(b, region, values)
        is_condition = op.kind is ops.while_ and region is op.regions[0]
        ops.yield_(b, *(yields if is_condition else [yields[k] for k in kept]))
    return inner.block
