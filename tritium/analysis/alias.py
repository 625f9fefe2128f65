"""Alias analysis of accesses through different parameters of a kernel, as conditions that a launcher can evaluate.

Element i of one access and element j of another, in the same program, overlap only if the distance between the two
arguments lies within bounds that follow from the address computation. The bounds are derived twice, and both hold: from
the extent of each access over the whole launch, within its mask; and from the elements of one program, without the
terms that both addresses have in common. *Identical* accesses (the same offsets) carry no dependence between different
positions if the arguments are the same address. Where iterations of a loop may be reordered, terms that vary with the
iteration do not count as common.

Accesses with overlapping extents may still be interleaved: two halves of each row of one array. Their addresses differ
modulo the length of a row, so a third view drops all terms that are multiples of such a length.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.bounds import Pair, arguments_of, bounds, dependence_distances
from ..ir.core import Arg, Op, Result, behind_views, walk
from ..named_tuples import NamedTuple
from .affine import Affine, Form, Loose
from .polynomial import Poly, Scalars, in_order
from .ranges import Carried, Derivations, Rows
from .views import axes_behind

__all__ = ["MOST_PAIRS", "AliasAnalysis"]

MOST_PAIRS = 64  # of a kernel: more would make its launches slow
_UNBOUNDED = 1 << 31  # bytes; larger extents count as unbounded
_NOWHERE = (("constant", "i64", 0),)  # rows of an offset that is 0
_SIZE, _GRID = 64, (1, 1, 1)  # a typical argument and launch, for which extents must be bounded
_GRIDS = (4096,) * 3  # a launch of many programs


class AliasAnalysis:
    """Pairwise dependences between the loads, stores and atomics of a module."""

    def __init__(self, module):
        self.known, self._reached, self._offsets = module.found_by(Derivations), {}, {}
        self.bytes, self.strides = _Bytes(self.known), _Strides()

    def pair(self, a, b, identical, loop=None):
        """The `Pair` of two accesses; None if no launch could be shown to keep them disjoint.

        `identical`: both may touch the same element at the same position. `loop` encloses both, and its iterations may
        be reordered.
        """
        p, q = a.pointer, b.pointer
        x, y = origins = self.origin(p), self.origin(q)
        if x is None or y is None:
            return None
        sizes = tuple(T.element(x.type).pointee.bytes for x in (p, q))
        steps = self.injectivity(a, b) if identical and sizes[0] == sizes[1] else None
        same = None if steps is None else _equalities(self.known, p, q, {})
        if same is not None:
            same = tuple(sorted(same - {origins}))
        views = [(view, _reach(sizes, view)) for view in (self.launch_extents(a, b), self.relative_extents(p, q, loop))]
        ends = tuple(view for view, reach in views if reach < _UNBOUNDED)
        return Pair(x, y, sizes, same, ends, steps or (), self.period(p, q, sizes)) if ends else None

    def pair_by_pointers(self, a, b):
        """The `Pair` of two accesses through different parameters that must not be the same pointer; None if one is
        derived from no parameter, or both are from the same. It says nothing of their extents."""
        x, y = self.origin(a.pointer), self.origin(b.pointer)
        sizes = tuple(T.element(access.pointer.type).pointee.bytes for access in (a, b))
        return None if x is None or y is None or x == y else Pair(x, y, sizes, None, ((_NOWHERE, _NOWHERE),))

    def injectivity(self, a, b):
        """Conditions (rows, each >= 0) under which access `b` is injective: no two positions touch the same element.
        None if it is not, or nothing is known. `a` is an access at the same offsets.

        The stride of each axis must exceed the extent of all axes with smaller strides, within the mask if both
        accesses have the same one. Strides known only at run time are assumed to be larger, outer axes first.
        """
        p, strides = b.pointer, {}
        for axes, scale, x in self.offset_of(p).tiles():
            step = None if type(x) is Carried else self.stride_of(x, axes, scale)
            if step is None or step.axis in strides:
                return None
            strides[step.axis] = step
        long = {axis for axis, n in enumerate(T.shape(p.type)) if n > 1}
        if not long <= strides.keys():
            return None
        mask = b.mask if a.mask is b.mask else None
        steps = sorted((strides[axis] for axis in long), key=lambda x: (bool(x.factors), -x.axis if x.factors else
                                                                        abs(x.scale)))
        found = [rows for rows in self.injectivity_rows(p, mask, steps) if bounds(rows)[0] < 0]
        return tuple(found) if all(map(arguments_of, found)) else None

    def injectivity_rows(self, p, mask, steps):
        """For each stride, the rows of its excess over the extent of the strides before it."""
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

    def stride_of(self, x, axes, scale):
        """The stride of a tile along the one axis it varies with; None if there is no such axis."""
        form = self.strides.of(x)
        varying = [(axis, step) for axis, step in zip(axes, form.strides) if step]
        if form.loose or len(varying) != 1 or len(varying[0][1].terms) != 1:
            return None
        (axis, step), = varying
        (product, times), = step.terms.items()
        factors = in_order(product)
        indices = [x for x in factors if _is_range(x)]
        if type(axis) is not int or len(indices) != 1:
            return None
        return _Stride(axis, scale * times, tuple([x for x in factors if not _is_range(x)]), indices[0])

    def origin(self, p):
        """The index of the parameter that pointers are derived from; None if that is not known."""
        return self.known.arguments.get(self.bytes.of(p).pointer)

    def offset_of(self, p):
        """The offset of a pointer from its parameter."""
        if p not in self._offsets:
            self._offsets[p] = _Offset(self.bytes, p, tuple(range(len(T.shape(p.type)))))
        return self._offsets[p]

    def launch_extents(self, a, b):
        """The extents of two accesses over the whole launch."""
        for x in (a, b):
            if x not in self._reached:
                self._reached[x] = self.known.rows(x.pointer, x.mask)
        return self._reached[a], self._reached[b]

    def relative_extents(self, p, q, loop=None):
        """The extents of two accesses without their common terms, in any two iterations of a loop."""
        x, y = self.offset_of(p), self.offset_of(q)
        varying = set() if loop is None else self.varying(loop)
        shared = {key for key in x.terms.keys() & y.terms.keys()
                  if x.terms[key].uniform and x.terms[key].scale == y.terms[key].scale
                  and not _is_among(x.terms[key].value, varying)}  # fmt: skip
        return x.rows(shared), y.rows(shared)

    def period(self, p, q, sizes):
        """A row length modulo which the accesses may be disjoint, and the extent of each from the beginning of a row;
        () if there is none. Of several lengths, the one that leaves the most distances disjoint, in launches of many
        programs if there is one."""
        x, y = self.offset_of(p), self.offset_of(q)
        found = []
        for length in {abs(term.scale) for s in (x, y) for term in s.terms.values()}:
            if length <= sum(sizes):
                continue
            view = tuple(s.rows({key for key, term in s.terms.items() if term.scale % length == 0}) for s in (x, y))
            reach = _reach(sizes, view)
            if reach < length - 1:
                found.append((_reach(sizes, view, _GRIDS) >= length - 1, reach / length, length, view))
        return (min(found)[2], *min(found)[3]) if found else ()

    def varying(self, loop):
        """The values that may vary with the iteration.

        A pass may have replaced the loop of the module by another with the same parameters.
        """
        before, _ = self.known.loops.get(loop.regions[0].args[0], (loop, 0))
        within = [op for x in (before, loop) for op in (x, *walk(x.regions[0]))]
        return {x for op in within for x in (op, *(arg for region in op.regions for arg in region.args))}


def _reach(sizes, view, grid=_GRID):
    """The number of dependence distances of a view, in a launch with typical arguments."""
    usual = {k: _SIZE for rows in view for k in arguments_of(rows)}
    least, most = dependence_distances(Pair(0, 1, sizes, None, (view,)), lambda rows: bounds(rows, usual, grid))
    return most - least


# --- offsets as sums of terms -----------------------------------------------------------------------------------------
class _Term(NamedTuple):
    """`scale` times a value, or times the displacement of a pointer by a loop; `uniform` if equal in all elements."""

    scale: int
    value: Any
    uniform: bool


class _Stride(NamedTuple):
    """`scale` bytes times the `factors` for each element of `index` along an axis."""

    axis: int
    scale: int
    factors: tuple
    index: Op


class _Bytes(Affine):
    """Pointers as a parameter, a number of bytes, and loose terms: all that is not a number."""

    def __init__(self, derivations):
        super().__init__()
        self.derivations = derivations

    def size(self, op):
        return T.element(op.type).pointee.bytes

    def repointed(self, op, x):
        return x

    def arange(self, op, start):
        return None

    def leaf(self, x):
        carried = self.derivations.carried(x)
        if carried is not None:
            form = self.of(carried.start)
            return form._replace(loose=(*form.loose, Loose(1, carried)))
        return self.form(x) if T.is_ptr(x.type) and x in self.derivations.arguments else super().leaf(x)


class _Strides(Scalars):
    """Strides along the axes of a tile: products of scalars, which count as they are, and of the range itself."""

    def find(self, x):
        number = type(x) is Op and x.kind is ops.constant
        return super().find(x) if type(x.type) is T.Tile or number else self.leaf(x)

    def arange(self, op, start):
        return Form(None, self.zero, (Poly.of(op),))


def _is_range(x):
    return type(x) is Op and x.kind is ops.arange


class _Offset:
    """The offset of a pointer from its parameter, in bytes: a constant and terms by key. `axes` are the pointer's."""

    def __init__(self, of, p, axes):
        self.of, self.known, self.terms, form = of, of.derivations, {}, of.of(p)
        self.constant_part = form.base
        for scale, x, path in form.loose:
            if type(x) is Carried:
                self.add(_key_of(x), scale, x, _moves_uniformly(x))
                continue
            inner = axes
            for op in path:
                inner = axes_behind(op, inner)
            self.add((x, inner), scale, x, type(x.type) is not T.Tile and not T.is_ptr(x.type))

    def tiles(self):
        """(axes, scale, value) of each term that is not uniform. A tile that a loop only shifts counts as its start."""
        for (_, axes), (scale, x, uniform) in self.terms.items():
            start = self.known.shifted(x) if type(x) is Arg else None
            if start is not None:
                yield from ((inner, scale * times, y) for inner, times, y in _Offset(self.of, start, axes).tiles())
            elif scale and not uniform:
                yield axes, scale, x

    def add(self, key, scale, value, uniform):
        """Add a term."""
        before = self.terms.get(key, _Term(0, value, uniform))
        self.terms[key] = before._replace(scale=before.scale + scale)

    def rows(self, without):
        """The rows of the offset without some terms."""
        rows = Rows(self.known)
        at = rows.add(("constant", "i64", self.constant_part))
        for scale, x, _ in (term for key, term in self.terms.items() if key not in without):
            start = rows.add(("constant", "i64", 0)) if type(x) is Carried else None
            place = rows.place(x) if start is None else rows.add(rows.moved(x, start))
            by = rows.add(("constant", "i64", scale))
            at = rows.add(("add", "i64", at, rows.add(("mul", "i64", place, by))))
        return tuple(rows.out)


def _is_uniform(x):
    return type(behind_views(x).type) is not T.Tile


def _is_among(x, values):
    """True if a value, or the loop that moves it, is in a set."""
    return (x.loop if type(x) is Carried else x.op if type(x) is Result else x) in values


def _moves_uniformly(carried):
    return all(_is_uniform(step.operands[1]) for step in carried.steps)


def _key_of(carried):
    """The key of a loop-carried pointer: equal for pointers that advance by the same amounts."""
    steps = [(behind_views(step.operands[1]), T.element(step.type).pointee.bytes) for step in carried.steps]
    return carried.loop, tuple(steps)


# --- identical accesses -----------------------------------------------------------------------------------------------
def _equalities(known, x, y, found):
    """Pairs of arguments whose equality makes two values equal; None if no equalities suffice."""
    if x is y:
        return frozenset()
    key = x, y
    if key not in found:
        found[key] = None  # cut cycles
        found[key] = _equalities_of_operands(known, x, y, found)
    return found[key]


def _equalities_of_operands(known, x, y, found):
    if T.shape(x.type) != T.shape(y.type) or _comparable(x.type) != _comparable(y.type):
        return None
    numbers = [known.arguments.get(z) for z in (x, y)]
    if None not in numbers:
        return frozenset((tuple(numbers),))
    moves = [known.carried(z) for z in (x, y)]
    if None not in moves:
        steps = [[step.operands[1] for step in move.steps] for move in moves]
        operands = [(move.start, *added) for move, added in zip(moves, steps)]
        same_op = moves[0].loop is moves[1].loop
    elif type(x) is Op and type(y) is Op:
        operands = x.operands, y.operands
        same_op = x.kind is y.kind and x.attrs == y.attrs and not x.kind.effects and not x.regions
    else:
        return None
    if not same_op or len(operands[0]) != len(operands[1]):
        return None
    equalities = [_equalities(known, x, y, found) for x, y in zip(*operands)]
    return None if None in equalities else frozenset().union(*equalities)


def _comparable(t):
    """The part of a type that equal values share: of pointers, the size of an element."""
    t = T.element(t)
    return t.pointee.bytes if type(t) is T.Ptr else t
