"""sum(for: total += x) -> for: total += sum(x). A tile that a loop accumulates only to be reduced is reduced in
each iteration.

On a CPU a carried tile goes through memory in every iteration, while the partial results of a reduction stay in
registers. It pays where there are enough elements for each result: combining the last of them costs a few steps.
The order of a sum changes, as it may in any reduction. A loop that leaves some elements as they are, `where(mask,
total + x, total)`, adds nothing to them instead. Besides single ops, the combination may be any that yields one of its
two elements, `where(cond(a, b), a, b)`: minima that let a NaN through are written so.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..analysis.axis_info import analyze
from ..ir import types as T
from ..ir.core import Arg, Block, Op, walk
from ..ir.rewrite import sweep, uses
from ..named_tuples import NamedTuple
from .functions import each_function
from .simplify import number

LEAST = 64  # elements for each result along contiguous ones
WIDE = 8  # neighbours in memory that are worth a chunk across the reduction


@each_function
def reduce_early(module):
    """Move reductions of loop-carried sums into the loops.

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
    places = {}  # reduction -> (loop, which result)
    for loop, sums in found.items():
        places |= {s.reduction: (loop, k) for k, s in sums.items()}
    made: dict[Op, Any] = {}

    def rule(b, op):
        key = b.original
        if op.kind is ops.for_ and key in found:
            made[key] = _rebuilt(b, op, found[key])
            return made[key]
        if op.kind is ops.reduce and key in places:
            loop, k = places[key]
            return made[loop][k]
        return None
    return sweep(module, rule)


def runs_across(info, x, axis):
    """Whether a tile is loaded from memory that runs along another of its axes than `axis`. Smaller tiles that are
    repeated along its axes, the weights of a row for instance, are read from few places and do not count.

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
        if type(x) is not Op or type(x.type) is not T.Tile or T.numel(x.type) < size or x in seen:
            continue
        seen.add(x)
        if x.kind is ops.load:
            runs = info(x.operands[0]).contiguity
            if runs[axis] >= WIDE // 2:
                return False
            found |= any(n >= WIDE for n in runs)
        elif x.kind.elementwise or x.kind is ops.broadcast:
            stack += [y for y in x.operands if len(T.shape(y.type)) == len(T.shape(x.type))]
    return found


class _Sum(NamedTuple):
    """What a loop adds up, with the reduction of it; `across` if chunks will run across the reduction."""

    reduction: Op
    across: bool


def _all_tiles(loop, sums):
    """Whether all of its tiles that are as large are added up: one that is not would be walked the other way."""
    shapes = {T.shape(loop.types[k]) for k in sums}
    return all(k in sums for k, t in enumerate(loop.types) if T.shape(t) in shapes)


def _candidates(module):
    """loop -> {which of its results is only reduced: how}."""
    if ops.for_ not in module.kinds or ops.reduce not in module.kinds:
        return {}
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and len(op.operands) > 3]
    if not loops:
        return {}
    users: dict[Any, list[Op]] = {}
    for op in walk(module.body):
        for x in op.operands:
            users.setdefault(x, []).append(op)
    found, info = {}, analyze(module)
    for loop in loops:
        sums = {k: _sum(loop, k, users.get(loop.results[k], []), info) for k in range(len(loop.types))}
        sums = {k: s for k, s in sums.items() if s is not None}
        if any(s.across for s in sums.values()) and not _all_tiles(loop, sums):
            sums = {k: s for k, s in sums.items() if not s.across}
        if sums:
            found[loop] = sums
    return found


def _sum(loop, k, users, info):
    if len(users) != 1 or users[0].kind is not ops.reduce or len(users[0].operands) > 1:
        return None
    reduction, shape = users[0], T.shape(loop.types[k])
    region, axis = reduction.regions[0], reduction.attrs["axis"]
    start = loop.operands[3 + k]
    if shape[axis] < 2 or type(start) is not Op or start.kind is not ops.splat or not _starts(region, start):
        return None
    found = _combined(loop.regions[0], k, region)
    if found is None:
        return None
    across = axis == len(shape) - 1 and max(shape[:-1], default=1) >= WIDE and runs_across(info, found[2], axis)
    short = axis == len(shape) - 1 and not across and shape[axis] < LEAST
    return None if short else _Sum(reduction, across)


def _starts(region, start):
    """Whether the result is the same if a loop starts from fewer elements that are all equal to `start`."""
    y = region.yields[0]
    if type(y) is not Op or any(op.regions or op.kind.effects for op in region.ops[:-1]):
        return False
    both = {*region.args}
    if y.kind is ops.select:
        return {*y.operands[1:]} == both
    # Many equal elements combine to one of them; a sum must start from nothing instead.
    idempotent = y.kind.row is not None and y.kind.row.idempotent
    fits = idempotent or y.kind is ops.add and number(start) == 0
    return fits and {*y.operands} == both


def _combined(body, k, region):
    """(ops, mask, x) if all that a loop does with its tile is to combine it with x by these ops, the last first, as a
    region does with two elements, in every iteration and where the mask is set (None: everywhere); else None."""
    arg, y = body.args[1 + k], body.yields[k]
    if type(y) is not Op:
        return None
    ways = [(None, y, [])]
    if y.kind is ops.select and y.operands[2] is arg and type(y.operands[0].type) is T.Tile:
        ways.append((*y.operands[:2], [y]))
    for mask, last, outer in ways:
        for this, other in (region.args, region.args[::-1]):
            same = {this: arg}
            if not _matches(region.yields[0], last, same) or other not in same:
                continue
            combination = list(dict.fromkeys([*outer, *[same.get(op) for op in reversed(region.ops[:-1])]]))
            if None not in combination and same[other] is not arg and _used_only_by(body, arg, combination):
                return combination, mask, same[other]
    return None


def _matches(one, many, same):
    """Whether a tile is computed from others as an element of a region is, each standing for one in `same`."""
    if one in same:
        return same[one] is many
    if type(one) is Op:
        if type(many) is not Op or one.kind is not many.kind or one.attrs != many.attrs or not one.operands:
            return False
        if not all(_matches(x, y, same) for x, y in zip(one.operands, many.operands, strict=True)):
            return False
    elif type(one) is not Arg:
        return False
    same[one] = many
    return True


def _used_only_by(body, arg, combination):
    """Whether ops of a loop's body, and nothing else, use its parameter and each other; the first is yielded once."""
    counts, within = uses(body), uses(Block((), combination))
    placed = {*body.ops}
    return counts.get(arg) == within.get(arg) and all(op in placed for op in combination) and \
        all(counts.get(op) == within.get(op, 0) + (op is combination[0]) for op in combination)


def _rebuilt(b, loop, sums):
    """The loop with the results `sums` reduced; returns all of its results."""
    body, inits = loop.regions[0], list(loop.operands)
    args, lines, yields = list(body.args), list(body.ops[:-1]), list(body.yields)
    for k, (reduction, _) in sums.items():
        arg, y, region = args[1 + k], yields[k], reduction.regions[0]
        found = _combined(body, k, region)
        assert found, "a loop is rebuilt for reductions that were found in it"
        combination, mask, x = found
        given = [] if mask is None else [Op(ops.select, (mask, x, _nothing(b, region, inits[3 + k])), {}, (x.type,),
                                            loc=y.loc)]  # fmt: skip
        part = reduction.replace(operands=(given[0] if given else x,))
        args[1 + k] = Arg(reduction.type, arg.name, arg.attrs)
        made = _applied(region, (args[1 + k], part), T.shape(reduction.type), y.loc)
        yields[k] = made[-1]
        at = next(n for n, op in enumerate(lines) if op is y)
        lines[at:at + 1] = [*given, part, *made]
        lines = [op for op in lines if op not in combination]
        inits[3 + k] = _first(b, inits[3 + k], reduction.type)
    lines.append(body.ops[-1].replace(operands=tuple(yields)))
    new = b.emit_as_is(ops.for_, inits, loop.attrs, (Block(args, lines),), loop.loc)
    return new if type(new) is tuple else (new,)


def _applied(region, xs, shape, loc):
    """The ops of a region on tiles of a shape (scalars for `()`) instead of elements."""
    same, made = dict(zip(region.args, xs, strict=True)), []
    for op in region.ops[:-1]:
        types = tuple([T.with_shape(t, shape) for t in op.types])
        same[op] = Op(op.kind, tuple([same[x] for x in op.operands]), op.attrs, types, loc=loc)
        made.append(same[op])
    return made


def _first(b, start, t):
    """What a loop starts from, as one element for each result."""
    value, = start.operands
    if type(t) is not T.Tile:
        return value
    return b.emit(ops.splat, (value,), {"shape": T.shape(t)})


def _nothing(b, region, start):
    """A tile that changes nothing: what the loop starts from, for a sum the zero that keeps the sign of zeros."""
    t = T.element(start.type)
    if region.yields[0].kind is not ops.add or not t.is_float:
        return start
    zero = b.emit(ops.constant, (), {"value": -0.0, "type": t})
    return b.emit(ops.splat, (zero,), {"shape": T.shape(start.type)})
