"""When two accesses through different parameters of a kernel can meet: what a launcher needs to know to tell.

Element i of one access and element j of another, in the same program, touch the same byte only if the distance of the
two arguments lies between bounds that follow from how the addresses are computed. They are found twice, and both hold:
from all that each access reaches in the whole launch, within its mask; and from one program's elements alone, whatever
moves both accesses alike left out. Accesses *in step* (the same offsets) never meet out of turn if the arguments are
the same address.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..ir import types as T
from ..ir.bounds import Pair, arguments_of, bounds, forbidden
from ..ir.core import Arg, Op
from .ranges import PASSED_ON, Carried, Derivations, Rows, through, widens

__all__ = ["MOST_PAIRS", "Accesses", "packed"]

MOST_PAIRS = 64  # a kernel with more is one that a launch would take long to look at
_FAR = 1 << 31  # bytes; what reaches further is not known to end
_SIZE, _GRID = 64, (1, 1, 1)  # of an ordinary argument and launch, to tell what does not end


class Accesses:
    """The loads, stores and atomics of a module, two by two."""

    def __init__(self, module):
        self.known, self._reached, self._sums = Derivations(module), {}, {}

    def pair(self, a, b, in_step):
        """The `Pair` of two accesses; None where no launch could be found to keep them apart.

        `in_step`: whether it is no harm that both touch the same element at the same position.
        """
        p, q = a.operands[0], b.operands[0]
        origins = self.origin(p), self.origin(q)
        if None in origins:
            return None
        sizes = tuple(T.element(x.type).pointee.bytes for x in (p, q))
        same = _matches(self.known, p, q, {}) if in_step and sizes[0] == sizes[1] else None
        if same is not None:
            same = tuple(sorted(same - {origins}))
        views = [(view, _reach(sizes, view)) for view in (self.whole(a, b), self.relative(p, q))]
        ends = tuple(view for view, reach in views if reach < _FAR)
        return Pair(*origins, sizes, same, ends) if ends else None

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

    def whole(self, a, b):
        """How far the accesses reach in the whole launch."""
        for x in (a, b):
            if id(x) not in self._reached:
                self._reached[id(x)] = self.known.rows(x.operands[0], _mask(x))
        return self._reached[id(a)], self._reached[id(b)]

    def relative(self, p, q):
        """How far they reach from where they are together."""
        for pointer in (p, q):
            if id(pointer) not in self._sums:
                self._sums[id(pointer)] = _Sum(self.known, pointer)
        x, y = self._sums[id(p)], self._sums[id(q)]
        shared = {key for key in x.parts.keys() & y.parts.keys()
                  if x.parts[key].alike and x.parts[key].scale == y.parts[key].scale}  # fmt: skip
        return x.rows(shared), y.rows(shared)


def _reach(sizes, view):
    """How many distances a view forbids in a launch with ordinary arguments."""
    usual = {k: _SIZE for rows in view for k in arguments_of(rows)}
    least, most = forbidden(Pair(0, 1, sizes, None, (view,)), lambda rows: bounds(rows, usual, _GRID))
    return most - least


def packed(pairs):
    """Pairs as the metadata of a kernel: (lists of rows, each once; pairs whose views are numbers of these).

    >>> packed([Pair(0, 1, (4, 4), (), (("some rows", "some rows"),))])
    (('some rows',), (Pair(x=0, y=1, sizes=(4, 4), same=(), views=((0, 0),)),))
    """
    table = {}
    number = lambda rows: table.setdefault(rows, len(table))
    out = tuple(pair._replace(views=tuple(tuple(map(number, view)) for view in pair.views)) for pair in pairs)
    return tuple(table), out


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


class _Sum:
    """The distance of a pointer from its parameter, in bytes: a number, and parts by what stands for them."""

    def __init__(self, known, p):
        self.known, self.number, self.parts = known, 0, {}
        self.axes = tuple(range(len(T.shape(p.type))))
        self.spread(p, 1)

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


def _is_alike(carried):
    return all(type(_repeated(step.operands[1]).type) is not T.Tile for step in carried.steps)


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
    parts = [_matches(known, *pair, found) for pair in zip(*operands)]
    return None if None in parts else frozenset().union(*parts)


def _measure(t):
    """What must be the same of two types: all, and of pointers how far apart elements are."""
    t = T.element(t)
    return t.pointee.bytes if type(t) is T.Ptr else t
