"""When two accesses through different parameters of a kernel can meet: what a launcher needs to know to tell.

Element i of one access and element j of another, in the same program, touch the same byte only if the distance of the
two arguments lies between bounds that follow from how the addresses are computed. They are found twice, and both hold:
from all that each access reaches in the whole launch, within its mask; and from one program's elements alone, whatever
moves both accesses alike left out. Accesses *in step* (the same offsets) never meet out of turn if the arguments are
the same address. Where the rounds of a loop may overtake each other, what differs from round to round moves no two
accesses alike.

Accesses whose reaches overlap may still be interleaved: two halves of each row of one array. Modulo the length of a row
their addresses differ, so a third view leaves out all parts that are multiples of such a length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..ir import types as T
from ..ir.bounds import Pair, arguments_of, bounds, forbidden
from ..ir.core import Arg, Op, Result, walk
from .ranges import PASSED_ON, Carried, Derivations, Rows, through, widens

__all__ = ["MOST_PAIRS", "Accesses", "packed"]

MOST_PAIRS = 64  # a kernel with more is one that a launch would take long to look at
_FAR = 1 << 31  # bytes; what reaches further is not known to end
_SIZE, _GRID = 64, (1, 1, 1)  # of an ordinary argument and launch, to tell what does not end


class Accesses:
    """The loads, stores and atomics of a module, two by two."""

    def __init__(self, module):
        self.known, self._reached, self._sums = Derivations(module), {}, {}

    def pair(self, a, b, in_step, loop=None):
        """The `Pair` of two accesses; None where no launch could be found to keep them apart.

        `in_step`: whether it is no harm that both touch the same element at the same position. `loop` is one around
        both in which an access of one round may come before or after that of another.
        """
        p, q = a.operands[0], b.operands[0]
        x, y = origins = self.origin(p), self.origin(q)
        if x is None or y is None:
            return None
        sizes = tuple(T.element(x.type).pointee.bytes for x in (p, q))
        steps = self.distinct(a, b) if in_step and sizes[0] == sizes[1] else None
        same = None if steps is None else _matches(self.known, p, q, {})
        if same is not None:
            same = tuple(sorted(same - {origins}))
        views = [(view, _reach(sizes, view)) for view in (self.whole(a, b), self.relative(p, q, loop))]
        ends = tuple(view for view, reach in views if reach < _FAR)
        return Pair(x, y, sizes, same, ends, steps or (), self.period(p, q, sizes)) if ends else None

    def distinct(self, a, b):
        """Rows that must not be negative for access `b` to hit as many elements as it has positions; None if it does
        not, or there is no telling. `a` is an access to elements at the same offsets.

        Each axis must step over all that the axes with smaller steps reach, within the mask if both have the same.
        Steps known only at run time are expected to be the larger ones, those of earlier axes before others.
        """
        p, strides = b.operands[0], {}
        for axes, scale, x in self.sum_of(p).tiles():
            step = None if type(x) is Carried else self.known_step(x, axes, scale)
            if step is None or step.axis in strides:
                return None
            strides[step.axis] = step
        long = {axis for axis, n in enumerate(T.shape(p.type)) if n > 1}
        if not long <= strides.keys():
            return None
        mask = _mask(b) if _mask(a) is _mask(b) else None
        steps = sorted((strides[axis] for axis in long), key=lambda x: (bool(x.factors), -x.axis if x.factors else
                                                                        abs(x.scale)))
        found = [rows for rows in self.conditions(p, mask, steps) if bounds(rows)[0] < 0]
        return tuple(found) if all(map(arguments_of, found)) else None

    def conditions(self, p, mask, steps):
        """For each step, the rows of how much longer it is than what those before it reach."""
        rows, out = Rows(self.known, mask), []
        reach = rows.add(("constant", "i64", T.element(p.type).pointee.bytes))
        for step in steps:
            by = rows.add(("constant", "i64", step.scale if step.factors else abs(step.scale)))
            for factor in step.factors:
                by = rows.add(("mul", "i64", by, rows.seen_from((), factor)))
            rows.add(("sub", "i64", by, reach))
            out.append(tuple(rows.out))
            index = rows.seen_from((step.axis,), step.index)
            reach = rows.add(("add", "i64", reach, rows.add(("mul", "i64", by, index))))
        return out

    def known_step(self, x, axes: Any, scale):
        """How a tile counts up along one axis; None if it does not."""
        factors = []
        while type(x) is not Op or x.kind is not ops.arange:
            if type(x) is Op and (x.kind in PASSED_ON or x.kind is ops.cast and widens(x)):
                axes, x = through(x, axes), x.operands[0]
            elif type(x) is Op and x.kind in (ops.add, ops.sub, ops.mul):
                y, other = x.operands if _is_uniform(x.operands[1]) else x.operands[::-1]
                if not _is_uniform(other) or _is_uniform(y):
                    return None
                factors += [_repeated(other)] if x.kind is ops.mul else []
                scale = -scale if x.kind is ops.sub and other is x.operands[0] else scale
                x = y
            else:
                return None
        return _Step(axes[0], scale, tuple(factors), x) if type(axes[0]) is int else None

    def origin(self, p):
        """The number of the parameter that pointers are computed from."""
        while True:
            carried = self.known.carried(p)
            if carried is not None:
                p = carried.start
            elif type(p) is Arg:
                return self.known.arguments.get(id(p))
            elif type(p) is not Op or not p.operands or not T.is_ptr(p.operands[0].type):
                return None
            else:
                p = p.operands[0]

    def sum_of(self, p):
        """The distance of a pointer from its parameter."""
        if id(p) not in self._sums:
            self._sums[id(p)] = _Sum(self.known, p)
        return self._sums[id(p)]

    def whole(self, a, b):
        """How far the accesses reach in the whole launch."""
        for x in (a, b):
            if id(x) not in self._reached:
                self._reached[id(x)] = self.known.rows(x.operands[0], _mask(x))
        return self._reached[id(a)], self._reached[id(b)]

    def relative(self, p, q, loop=None):
        """How far they reach from where they are together, in whatever rounds of a loop."""
        x, y = self.sum_of(p), self.sum_of(q)
        changing = set() if loop is None else self.changing(loop)
        shared = {key for key in x.parts.keys() & y.parts.keys()
                  if x.parts[key].alike and x.parts[key].scale == y.parts[key].scale
                  and not _is_among(x.parts[key].value, changing)}  # fmt: skip
        return x.rows(shared), y.rows(shared)

    def period(self, p, q, sizes):
        """A length of rows modulo which the accesses may be apart, and how far each reaches from the beginning of a
        row; () if there is none. Of several lengths, the one that most distances are apart with."""
        x, y = self.sum_of(p), self.sum_of(q)
        found = []
        for length in {abs(part.scale) for s in (x, y) for part in s.parts.values()}:
            if length <= sum(sizes):
                continue
            view = tuple(s.rows({key for key, part in s.parts.items() if part.scale % length == 0}) for s in (x, y))
            reach = _reach(sizes, view)
            if reach < length - 1:
                found.append((reach / length, length, view))
        return (min(found)[1], *min(found)[2]) if found else ()

    def changing(self, loop):
        """What may differ from round to round. A pass may have put another in the place of the loop that the module
        had; they have their parameters in common."""
        before, _ = self.known.loops.get(id(loop.regions[0].args[0]), (loop, 0))
        within = [op for x in (before, loop) for op in (x, *walk(x.regions[0]))]
        return {id(x) for op in within for x in (op, *(arg for region in op.regions for arg in region.args))}


def _reach(sizes, view):
    """How many distances a view forbids in a launch with ordinary arguments."""
    usual = {k: _SIZE for rows in view for k in arguments_of(rows)}
    least, most = forbidden(Pair(0, 1, sizes, None, (view,)), lambda rows: bounds(rows, usual, _GRID))
    return most - least


def packed(pairs):
    """Pairs as the metadata of a kernel: (lists of rows, each once; pairs whose views are numbers of these).

    >>> packed([Pair(0, 1, (4, 4), (), (("some rows", "some rows"),))])
    (('some rows',), (Pair(x=0, y=1, sizes=(4, 4), same=(), views=((0, 0),), steps=(), period=()),))
    """
    table = {}
    number = lambda rows: table.setdefault(rows, len(table))
    out = [pair._replace(views=tuple(tuple(map(number, view)) for view in pair.views),
                         steps=tuple(map(number, pair.steps)),
                         period=(*pair.period[:1], *map(number, pair.period[1:]))) for pair in pairs]  # fmt: skip
    return tuple(table), tuple(out)


def _mask(op):
    """The mask of an access."""
    at = _MASKS[op.kind]
    return op.operands[at] if at < len(op.operands) else None


_MASKS = {ops.load: 1, ops.store: 2, ops.atomic: 2, ops.atomic_cas: 3}


# --- distances as sums ------------------------------------------------------------------------------------------------
class _Part(NamedTuple):
    """So many times a value, or so many times how far a loop has moved a pointer. `alike` in all elements?"""

    scale: int
    value: Any
    alike: bool


class _Step(NamedTuple):
    """`scale` bytes times the `factors` for each of the numbers `index` along an axis."""

    axis: int
    scale: int
    factors: tuple
    index: Op


class _Sum:
    """The distance of a pointer from its parameter, in bytes: a number, and parts by what stands for them."""

    def __init__(self, known, p, axes=None):
        self.known, self.number, self.parts = known, 0, {}
        self.axes = tuple(range(len(T.shape(p.type)))) if axes is None else axes
        self.spread(p, 1)

    def tiles(self):
        """(axes, scale, value) of what is not alike in all elements. A tile that a loop only shifts is what it was."""
        for (_, axes), (scale, x, alike) in self.parts.items():
            start = self.known.shifted(x) if type(x) is Arg else None
            if start is not None:
                yield from ((inner, scale * times, y) for inner, times, y in _Sum(self.known, start, axes).tiles())
            elif scale and not alike:
                yield axes, scale, x

    def spread(self, x, scale):
        """Add a value so many times."""
        carried = self.known.carried(x)
        if carried is not None:
            self.spread(carried.start, scale)
            self.add(_key_of(carried), scale, carried, _is_alike(carried))
        elif type(x) is Op and x.kind in _SPREAD and not _wraps(x.type):
            _SPREAD[x.kind](self, x, scale)
        elif not T.is_ptr(x.type):
            tile = type(x.type) is T.Tile
            self.add((id(x), self.axes if tile else ()), scale, x, not tile)
        elif type(x) is not Arg or id(x) not in self.known.arguments:
            self.add((id(x), None), scale, x, False)

    def add(self, key, scale, value, alike):
        """Add a part."""
        before = self.parts.get(key, _Part(0, value, alike))
        self.parts[key] = before._replace(scale=before.scale + scale)

    def through(self, op, scale):
        """The operand of an op that only repeats it or counts it in another type."""
        outer, self.axes = self.axes, through(op, self.axes)
        self.spread(op.operands[0], scale)
        self.axes = outer

    def cast(self, op, scale):
        """Pointers stay where they are; integers that may become others are parts of their own."""
        if T.is_ptr(op.type) or widens(op):
            self.through(op, scale)
        else:
            self.add((id(op), self.axes), scale, op, type(op.type) is not T.Tile)

    def sum(self, op, scale):
        """x + y, x - y, pointer + y elements."""
        x, y = op.operands
        by = {ops.add: 1, ops.sub: -1}.get(op.kind) or T.element(op.type).pointee.bytes
        self.spread(x, scale)
        self.spread(y, scale * by)

    def product(self, op, scale):
        """x times a number."""
        for x, y in (op.operands, op.operands[::-1]):
            number = _number(y)
            if number is not None:
                self.spread(x, scale * number)
                return
        self.add((id(op), self.axes if type(op.type) is T.Tile else ()), scale, op, type(op.type) is not T.Tile)

    def constant(self, op, scale):
        """A number."""
        self.number += scale * int(op.attrs["value"])

    def rows(self, without):
        """How it is computed, less some parts."""
        rows = Rows(self.known)
        at = rows.add(("constant", "i64", self.number))
        for scale, x, _ in (part for key, part in self.parts.items() if key not in without):
            start = rows.add(("constant", "i64", 0)) if type(x) is Carried else None
            place = rows.place(x) if start is None else rows.add(rows.moved(x, start))
            by = rows.add(("constant", "i64", scale))
            at = rows.add(("add", "i64", at, rows.add(("mul", "i64", place, by))))
        return tuple(rows.out)


_SPREAD = {
    **dict.fromkeys(PASSED_ON, _Sum.through), **dict.fromkeys((ops.add, ops.sub, ops.addptr), _Sum.sum),
    ops.cast: _Sum.cast, ops.mul: _Sum.product, ops.constant: _Sum.constant,
}  # fmt: skip


def _wraps(t):
    """Unsigned integers narrower than an address may wrap on purpose."""
    t = T.element(t)
    return type(t) is T.Scalar and not t.signed and t.bits < 64


def _number(x):
    while type(x) is Op and x.kind in PASSED_ON:
        x = x.operands[0]
    return int(x.attrs["value"]) if type(x) is Op and x.kind is ops.constant else None


def _repeated(x):
    """What a tile repeats."""
    while type(x) is Op and x.kind in PASSED_ON:
        x = x.operands[0]
    return x


def _is_uniform(x):
    return type(_repeated(x).type) is not T.Tile


def _is_among(x, values):
    """Whether a value, or what moves it, is one of these (by id)."""
    return id(x.loop if type(x) is Carried else x.op if type(x) is Result else x) in values


def _is_alike(carried):
    return all(_is_uniform(step.operands[1]) for step in carried.steps)


def _key_of(carried):
    """Loops move what they carry alike if they add the same."""
    steps = [(id(_repeated(step.operands[1])), T.element(step.type).pointee.bytes) for step in carried.steps]
    return id(carried.loop), tuple(steps)


# --- in step ----------------------------------------------------------------------------------------------------------
def _matches(known, x, y, found):
    """The arguments that must be equal, in pairs, for two values to be equal; None if that does not do."""
    if x is y:
        return frozenset()
    key = id(x), id(y)
    if key not in found:
        found[key] = None  # what comes round to itself
        found[key] = _match(known, x, y, found)
    return found[key]


def _match(known, x, y, found):
    if T.shape(x.type) != T.shape(y.type) or _measure(x.type) != _measure(y.type):
        return None
    numbers = [known.arguments.get(id(z)) for z in (x, y)]
    if None not in numbers:
        return frozenset((tuple(numbers),))
    moves = [known.carried(z) for z in (x, y)]
    if None not in moves:
        steps = [[step.operands[1] for step in move.steps] for move in moves]
        operands = [(move.start, *added) for move, added in zip(moves, steps)]
        alike = moves[0].loop is moves[1].loop
    elif type(x) is Op and type(y) is Op:
        operands = x.operands, y.operands
        alike = x.kind is y.kind and x.attrs == y.attrs and not x.kind.effects and not x.regions
    else:
        return None
    if not alike or len(operands[0]) != len(operands[1]):
        return None
    parts = [_matches(known, x, y, found) for x, y in zip(*operands)]
    return None if None in parts else frozenset().union(*parts)


def _measure(t):
    """What must be the same of two types: all, and of pointers how far apart elements are."""
    t = T.element(t)
    return t.pointee.bytes if type(t) is T.Ptr else t
