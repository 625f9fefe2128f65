"""sum(for: total += x) -> for: total += sum(x). What a loop adds up only to reduce it is reduced in each round.

On a CPU a tile that is carried goes through memory in every round, while the partial results of a reduction stay in
registers. It pays where there are enough elements for each result: combining the last of them costs a few steps.
The order of a sum changes, as it may in any reduction. A loop that leaves some elements as they are, `where(mask,
total + x, total)`, adds nothing to them instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..ir import types as T
from ..ir.core import Arg, Block, Op, Result, walk
from ..ir.rewrite import sweep, uses
from .axis_info import analyze
from .functions import each_function
from .simplify import number

LEAST = 64  # elements for each result along contiguous ones
WIDE = 8  # neighbours in memory that are worth a strip across the reduction
# Combinations of which many equal elements are one of them; a sum must start from nothing instead.
_IDEMPOTENT = (ops.max_, ops.min_, ops.max_nan, ops.min_nan, ops.and_, ops.or_)


@each_function
def reduce_early(module):
    """The module with reductions of what loops add up inside these loops.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%p: ptr<f32>, %n: i32, %x: tile<64xf32>) {
    ...   %0 = constant {value=0.0, type=f32} : f32
    ...   %1 = splat %0 {shape=(64,)} : tile<64xf32>
    ...   %2 = for %n, %n, %n, %1 : tile<64xf32> {
    ...   ^(%i: i32, %total: tile<64xf32>):
    ...     %3 = add %total, %x : tile<64xf32>
    ...     yield %3
    ...   }
    ...   %4 = reduce %2 {axis=0} : f32 {
    ...   ^(%a: f32, %b: f32):
    ...     %5 = add %a, %b : f32
    ...     yield %5
    ...   }
    ...   store %p, %4
    ... }''')
    >>> [op.kind.name for op in reduce_early(m).body.ops]
    ['constant', 'splat', 'for', 'store']
    """
    found = _candidates(module)
    if not found:
        return module
    places = {}  # id of a reduction -> (id of the loop, which result)
    for loop, sums in found.items():
        places |= {id(s.reduction): (loop, k) for k, s in sums.items()}
    made: dict[int, Any] = {}

    def rule(b, op):
        key = id(b.original)
        if op.kind is ops.for_ and key in found:
            made[key] = _rebuilt(b, op, found[key])
            return made[key]
        if op.kind is ops.reduce and key in places:
            loop, k = places[key]
            return made[loop][k]
        return None
    return sweep(module, rule)


def runs_across(facts, x, axis):
    """Whether a tile is loaded from memory that runs along another of its axes than `axis`. What it is computed with and
    what is repeated along its axes, the weights of a row for instance, is read from few places and does not count.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%p: tile<16x16xptr<f32>>) {
    ...   %0 = load %p : tile<16x16xf32>
    ... }''')
    >>> runs_across(analyze(m), m.body.ops[0], 1)  # nothing is known of %p
    False
    """
    seen, stack, found, size = set(), [x], False, T.numel(x.type)
    while stack:
        x = stack.pop()
        if type(x) is not Op or type(x.type) is not T.Tile or T.numel(x.type) < size or id(x) in seen:
            continue
        seen.add(id(x))
        if x.kind is ops.load:
            runs = facts(x.operands[0]).contiguity
            if runs[axis] >= WIDE // 2:
                return False
            found |= any(n >= WIDE for n in runs)
        elif x.kind.elementwise or x.kind is ops.broadcast:
            stack += [y for y in x.operands if len(T.shape(y.type)) == len(T.shape(x.type))]
    return found


class _Sum(NamedTuple):
    """What a loop adds up, with the reduction of it; `turned` if strips will run across the reduction."""

    reduction: Op
    kind: Any
    turned: bool


def _all_tiles(loop, sums):
    """Whether all of its tiles that are as large are added up: one that is not would be walked the other way."""
    shapes = {T.shape(loop.types[k]) for k in sums}
    return all(k in sums for k, t in enumerate(loop.types) if T.shape(t) in shapes)


def _candidates(module):
    """id of a loop -> {which of its results is only reduced: how}."""
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and len(op.operands) > 3]
    if not loops or not any(op.kind is ops.reduce for op in walk(module.body)):
        return {}
    users: dict[Any, list[Op]] = {}
    for op in walk(module.body):
        for x in op.operands:
            users.setdefault((id(x.op), x.index) if type(x) is Result else (id(x), 0), []).append(op)
    found, facts = {}, analyze(module)
    for loop in loops:
        sums = {k: _sum(loop, k, users.get((id(loop), k), []), facts) for k in range(len(loop.types))}
        sums = {k: s for k, s in sums.items() if s is not None}
        if any(s.turned for s in sums.values()) and not _all_tiles(loop, sums):
            sums = {k: s for k, s in sums.items() if not s.turned}
        if sums:
            found[id(loop)] = sums
    return found


def _sum(loop, k, users, facts):
    if len(users) != 1 or users[0].kind is not ops.reduce or len(users[0].operands) > 1:
        return None
    reduction, shape = users[0], T.shape(loop.types[k])
    region, axis = reduction.regions[0], reduction.attrs["axis"]
    if shape[axis] < 2 or len(region.ops) != 2:
        return None
    inner = region.ops[0]
    kind, both = inner.kind, {id(x) for x in inner.operands} == {id(x) for x in region.args}
    start = loop.operands[3 + k]
    fits = kind in _IDEMPOTENT or kind is ops.add and number(start) == 0
    if type(start) is not Op or start.kind is not ops.splat or not fits:
        return None
    if not both or region.yields[0] is not inner:
        return None
    added = _added(loop.regions[0], k, kind)
    if added is None:
        return None
    turned = axis == len(shape) - 1 and max(shape[:-1], default=1) >= WIDE and runs_across(facts, added[1], axis)
    short = axis == len(shape) - 1 and not turned and shape[axis] < LEAST
    return None if short else _Sum(reduction, kind, turned)


def _added(body, k, kind) -> Any:
    """(mask, x) if all that a loop does with its tile is to combine it with x, in every round and where the mask is set
    (None: everywhere); else None."""
    arg, y = body.args[1 + k], body.yields[k]
    counts, mask, inner = uses(body), None, y
    if type(y) is Op and y.kind is ops.select and y.operands[2] is arg:
        mask, inner = y.operands[:2]
        if type(inner) is not Op or counts.get(id(inner)) != 1 or type(mask.type) is not T.Tile:
            return None
    if type(inner) is not Op or inner.kind is not kind or not any(x is arg for x in inner.operands):
        return None
    if counts.get(id(arg)) != (1 if mask is None else 2) or counts.get(id(y)) != 1:
        return None
    if not all(any(op is one for op in body.ops) for one in (y, inner)):
        return None
    given = [x for x in inner.operands if x is not arg]
    return (mask, given[0]) if given else None


def _rebuilt(b, loop, sums):
    """The loop with the results `sums` reduced; returns all of its results."""
    body, inits = loop.regions[0], list(loop.operands)
    args, lines, yields = list(body.args), list(body.ops[:-1]), list(body.yields)
    for k, (reduction, kind, *_) in sums.items():
        arg, y = args[1 + k], yields[k]
        mask, x = _added(body, k, kind)
        inner = y if mask is None else y.operands[1]
        given = [] if mask is None else [Op(ops.select, (mask, x, _nothing(b, kind, inits[3 + k])), {}, (x.type,),
                                            loc=y.loc)]  # fmt: skip
        part = reduction.replace(operands=(given[0] if given else x,))
        args[1 + k] = Arg(reduction.type, arg.name, arg.attrs)
        yields[k] = Op(kind, (args[1 + k], part), inner.attrs, part.types, loc=y.loc)
        at = next(n for n, op in enumerate(lines) if op is y)
        lines[at:at + 1] = [*given, part, yields[k]]
        lines = [op for op in lines if op is not inner]
        inits[3 + k] = _first(b, inits[3 + k], reduction.type)
    lines.append(body.ops[-1].replace(operands=tuple(yields)))
    new = b.emit_as_is(ops.for_, inits, loop.attrs, (Block(args, lines),), loop.loc)
    return new if type(new) is tuple else (new,)


def _first(b, start, t):
    """What a loop starts from, as one element for each result."""
    value, = start.operands
    if type(t) is not T.Tile:
        return value
    return b.emit(ops.splat, (value,), {"shape": T.shape(t)})


def _nothing(b, kind, start):
    """A tile that changes nothing: what the loop starts from, for a sum the zero that keeps the sign of zeros."""
    t = T.element(start.type)
    if kind is not ops.add or not t.is_float:
        return start
    zero = b.emit(ops.constant, (), {"value": -0.0, "type": t})
    return b.emit(ops.splat, (zero,), {"shape": T.shape(start.type)})
