"""Derivations of the integers of a kernel as rows of `ir.bounds`, which a launcher can evaluate.

Pointers are counted in bytes from the parameter they are computed from.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.bounds import all_bounds, arguments_of, bounds
from ..ir.core import Arg, Op, behind_views, walk
from ..locks import once_property
from ..named_tuples import NamedTuple
from .arithmetic import EVERYTHING, Domain, constant_of, keeps_integers, lowest_bit, transfer
from .induction import steps
from .views import axes_behind

MOST_ROWS = 64  # of one value; operands further back count as unknown


class Derivations:
    """The derivations of the integers of a module.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%n: i32) {\\n %0 = program_id {axis=0} : i32\\n %1 = mul %0, %n : i32\\n}")
    >>> rows = Derivations(m).rows(m.body.ops[1])
    >>> rows
    (('program_id', 'i32', 0), ('argument', 'i32', 0), ('mul', 'i32', 0, 1))
    >>> bounds(rows), bounds(rows, {0: 100}, (8, 1, 1))
    ((-2147483648, 2147483647), (0, 700))
    """

    def __init__(self, module):
        self.arguments = {arg: k for k, arg in enumerate(module.args)}
        self.body = module.body

    @once_property
    def loops(self):
        """Parameter of the body of a `for` -> (loop, which)."""
        return {arg: (op, k) for op in walk(self.body) if op.kind is ops.for_
                for k, arg in enumerate(op.regions[0].args)}

    @once_property
    def pointers(self):
        """Pointer carried by a loop, or its result -> Carried, if the loop only advances it."""
        return {x: y for op in walk(self.body) if op.kind.loop for x, y in _carried_pointers(op)}

    @once_property
    def promised(self):
        """Value -> the lower bound that the program assumes."""
        return dict(filter(None, map(_promise, self.body.ops)))

    def carried(self, x):
        """How a loop advances a pointer that it carries; None if it does anything else."""
        return self.pointers.get(x)

    def shifted(self, x):
        """The initial value of a carried integer tile to which a loop adds a scalar in every iteration; else None."""
        loop, k = self.loops.get(x, (None, 0))
        if loop is None or k == 0:
            return None
        found = steps(x, loop.regions[0].yields[k - 1])
        uniform = found is not None and all(type(behind_views(step.value).type) is not T.Tile for step in found)
        return loop.operands[2 + k] if uniform else None

    def rows(self, x, mask=None):
        """The rows of a value, its own last; with a mask, of the elements where the mask is true."""
        return Rows(self, mask).of(x)

    def bounds(self, xs):
        """Value -> (least, greatest) at every launch, of many values at once.

        >>> from tritium.ir.text import parse_module
        >>> m = parse_module("kernel @f() {\\n %0 = program_id {axis=0} : i32\\n %1 = cast %0 {to=i64} : i64\\n"
        ...                  " %2 = add %1, %1 : i64\\n}")
        >>> list(Derivations(m).bounds(m.body.ops[1:]).values())
        [(0, 2147483646), (0, 4294967292)]
        """
        rows = Rows(self, most=inf)
        places = {x: rows.place(x) for x in xs}
        found = all_bounds(rows.out)
        return {x: found[at] for x, at in places.items()}


class Carried(NamedTuple):
    """A pointer that starts as `start` and is advanced by the `addptr` ops `steps` in every iteration of a loop."""

    loop: Op
    start: Any
    steps: tuple


def _carried_pointers(loop):
    first = loop.kind.loop.operands
    inits, yields = loop.operands[first:], loop.regions[-1].yields
    for k, (start, y) in enumerate(zip(inits, yields)):
        places = [region.args[len(region.args) - len(inits) + k] for region in loop.regions]
        found = steps(places[-1], y) if T.is_ptr(start.type) else None
        if found is not None:
            carried = Carried(loop, start, tuple([step.op for step in found]))
            yield from ((x, carried) for x in (*places, loop.results[k]))


class _Divisibility(Domain):
    """Powers of two that divide scalars at every launch. Integers may wrap. `axis_info` knows more, but asks for the
    rows of a value itself."""

    def of(self, x, depth=8):
        """A divisor of a scalar; operands further back count as odd."""
        if type(x) is not Op:
            return lowest_bit(x.attrs.get("divisible", 1)) if type(x) is Arg else 1
        return transfer(self, x, lambda y: self.of(y, depth - 1)) or 1 if depth else 1

    def constant(self, op, number):
        return lowest_bit(number)

    def sum(self, op, x, y, by):
        return min(x, y)

    def product(self, op, x, y):
        return min(x * y, EVERYTHING)

    def scaled(self, op, x, by):
        return min(x * by, EVERYTHING)

    def of_indices(self, loop):
        """A divisor, of 31 bits, of every index of a loop; 1 if its start is a constant, which says more."""
        first, _, step = loop.operands[:3]
        return 1 if constant_of(first) is not None else min(self.of(first), self.of(step), 1 << 30)


def _promise(op):
    """(a value, its lower bound) of an assumption of the program: `tl.assume(x >= 0)`."""
    cond = op.operands[0] if op.kind is ops.assume else None
    if type(cond) is not Op or cond.kind not in (ops.ge, ops.gt) or type(cond.operands[1]) is not Op:
        return None
    x, bound = cond.operands
    return (x, bound.attrs["value"] + (cond.kind is ops.gt)) if bound.kind is ops.constant else None


class Rows(Domain):
    """Builds the rows of values, each once.

    With a mask, `axes` tells which axis of the mask each axis of the value at hand runs along: `i[:, None] < n` says
    something of `i[:, None]` and nothing of `i[None, :]`.
    """

    def __init__(self, known, mask=None, most: float = MOST_ROWS):
        self.known, self.out, self.places, self.open = known, [], {}, set()
        self.most = most
        self.limits, self.axes = {}, None
        if mask is not None:
            self.axes = tuple(range(len(T.shape(mask.type))))
            self.limit(mask)

    def of(self, x):
        """All rows, those of `x` last."""
        at = self.place(x)
        return tuple(self.out[:at + 1])

    def place(self, x):
        """The index of a value's row, added if it is new."""
        key = self.key(x)
        if key in self.open:  # a cycle through a loop
            return self.add(_any(x))
        if key not in self.places:
            self.open.add(key)
            row = self.row(x)
            at = row if type(row) is int else self.add(row)
            if x in self.known.promised:
                at = self.add(("at_least", _counted(x).name, at, self.known.promised[x]))
            for name, bound, axes, strict in self.limits.get(key, ()):
                at = self.add((name, _counted(x).name, at, self.seen_from(axes, bound), strict))
            self.open.discard(key)
            self.places[key] = at
        return self.places[key]

    def is_full(self):
        """Whether operands further back count as unknown."""
        return len(self.open) > MOST_ROWS or len(self.out) + len(self.open) > self.most

    def key(self, x):
        """The key of a value: under a mask, one value along different axes has different keys."""
        return (x, self.axes if type(x.type) is T.Tile else ())

    def add(self, row):
        """Add a row and return its index."""
        self.out.append(row)
        return len(self.out) - 1

    def seen_from(self, axes, x):
        """The index of the row of a value with these axes."""
        outer, self.axes = self.axes, axes
        at = self.place(x)
        self.axes = outer
        return at

    def row(self, x):
        """The row of a value, or the index of an equal one."""
        t = T.element(x.type)
        if self.is_full() or type(t) is not T.Ptr and not _is_number(t):
            return _any(x)
        if type(x) is not Op:
            found = self.pointer(x) if type(t) is T.Ptr else self.parameter(x, t)
        elif x.kind.view:  # the same elements, along other axes
            return self.seen_from(axes_behind(x, self.axes), x.operands[0])
        else:
            found = transfer(self, x, self.place)
            if found is None:
                found = self.pointer(x) if type(t) is T.Ptr else self.other(x, t)
        return _any(x) if found is None else found

    def other(self, op, t):
        """The row of an op that is no index arithmetic; None if there is no rule for it."""
        rule = _ROWS.get(op.kind)
        return rule(self, op, t) if rule is not None and (t.is_int or op.kind in _OF_FLOATS) else None

    def parameter(self, x, t):
        """The row of a parameter of the kernel or of a loop."""
        if x in self.known.arguments:
            return ("argument", t.name, self.known.arguments[x]) if t.is_int else None
        loop, k = self.known.loops.get(x, (None, 0)) if t.is_int else (None, 0)
        if loop is None:
            return None
        if k == 0:
            places = [*map(self.place, loop.operands[:3])]
            multiple = _Divisibility().of_indices(loop)
            return ("index", t.name, *places, *([self.add(("constant", t.name, multiple))] if multiple > 1 else ()))
        found = steps(x, loop.regions[0].yields[k - 1])
        if found is None or len(found) != 1 or found[0].sign < 0:
            return None
        return ("carried", t.name, *map(self.place, (loop.operands[2 + k], found[0].value, *loop.operands[:3])))

    def pointer(self, x):
        """The row of the offset from its parameter, in bytes, of a pointer that is not computed from another one."""
        if x in self.known.arguments:
            return ("constant", "i64", 0)
        carried = self.known.carried(x)
        return None if carried is None else self.moved(carried, self.place(carried.start))

    def moved(self, carried, start):
        """The row of a pointer that a loop advances from `start`."""
        if carried.loop.kind is not ops.for_:
            return ("any", "i64")
        by = self.add(("constant", "i64", 0))
        for step in carried.steps:
            size, count = self.size(step), self.place(step.operands[1])
            by = self.add(("add", "i64", by, self.add(("mul", "i64", count, size))))
        return ("carried", "i64", start, by, *map(self.place, carried.loop.operands[:3]))

    # --- index arithmetic ---------------------------------------------------------------------------------------------
    def size(self, op):
        return self.add(("constant", "i64", T.element(op.type).pointee.bytes))

    def constant(self, op, number):
        t = T.element(op.type)
        return ("constant", t.name, int(number) if t.is_int else float(number)) if isfinite(number) else None

    def arange(self, op, start):
        return ("between", T.element(op.type).name, start, op.attrs["end"] - 1)

    def sum(self, op, x, y, by):
        if T.is_ptr(op.type):
            return ("add", "i64", x, self.add(("mul", "i64", y, by)))
        return ("add" if by > 0 else "sub", T.element(op.type).name, x, y)

    def product(self, op, x, y):
        return ("mul", T.element(op.type).name, x, y)

    def scaled(self, op, x, by):
        t = T.element(op.type)
        return ("mul", t.name, x, self.add(("constant", "i64", by)))

    def keeps(self, source, to):
        """The bounds of a row are those of its own type."""
        return False

    def cast(self, op, of):
        source, t = T.element(op.operands[0].type), T.element(op.type)
        if type(source) is not T.Scalar or not _is_number(source) or type(t) is T.Ptr:
            return None
        return ("truncated" if t.is_int and not source.is_int else "cast", t.name, of(op.operands[0]))

    def repointed(self, op, x):
        return x

    # --- masks ------------------------------------------------------------------------------------------------------
    def limit(self, mask):
        """Record the limits that a mask implies: of `x < y`, and of both operands of `&`."""
        if type(mask) is not Op:
            return
        if mask.kind is ops.and_ or mask.kind.view:
            outer, self.axes = self.axes, axes_behind(mask, self.axes)
            for x in mask.operands:
                self.limit(x)
            self.axes = outer
        elif mask.kind in _LIMITS:
            strict, smaller = _LIMITS[mask.kind]
            (x, x_axes), (y, y_axes) = (self.bare(z) for z in (mask.operands if smaller else mask.operands[::-1]))
            self.note(x, x_axes, ("below", y, y_axes, strict))
            self.note(y, y_axes, ("above", x, x_axes, strict))

    def note(self, x, axes, limit):
        """Record a limit of an integer that is not an argument or a constant."""
        if T.element(x.type) in T.FLOATS or x in self.known.arguments or type(x) is Op and x.kind is ops.constant:
            return
        self.limits.setdefault((x, axes if type(x.type) is T.Tile else ()), []).append(limit)

    def bare(self, x):
        """A value, and its axes, behind broadcasts, views and widening casts."""
        axes = self.axes
        while type(x) is Op and (x.kind.view or x.kind is ops.cast and keeps_integers(x.operands[0].type, x.type)):
            axes, x = axes_behind(x, axes), x.operands[0]
        return x, axes


_LIMITS = {ops.lt: (1, True), ops.le: (0, True), ops.gt: (1, False), ops.ge: (0, False)}


def _counted(x):
    """The integer type of a value's row."""
    t = T.element(x.type)
    return t if type(t) is T.Scalar and t.is_int else T.i64


def _any(x):
    """The row of an unknown value."""
    t = T.element(x.type)
    return ("any", t.name if type(t) is T.Scalar and t.name in _FLOATS else _counted(x).name)


def _is_number(t):
    """Whether values of a type have rows: integers, and the floats that an index is computed with."""
    return type(t) is T.Scalar and (t.is_int or t.name in _FLOATS)


def _by_name(rows, op, t):
    return (op.kind.name, t.name, *map(rows.place, op.operands))


def _abs(rows, op, t):
    x, zero = rows.place(op.operands[0]), rows.add(("constant", t.name, 0))
    return ("max", t.name, x, rows.add(("sub", t.name, zero, x)))


_FLOATS = ("f16", "bf16", "f32", "f64")
_OF_FLOATS = (ops.select, ops.min_, ops.max_)
# Other ops than index arithmetic.
_ROWS = {
    ops.program_id: lambda rows, op, t: ("program_id", t.name, op.attrs["axis"]),
    ops.num_programs: lambda rows, op, t: ("num_programs", t.name, op.attrs["axis"]),
    ops.select: lambda rows, op, t: ("select", t.name, *map(rows.place, op.operands[1:])),
    ops.abs_: _abs,
    **dict.fromkeys((ops.div, ops.rem, ops.min_, ops.max_, ops.and_, ops.shr), _by_name),
}  # fmt: skip


def assume(conditions, preconditions):
    """True if the values of these rows are nonnegative, at every launch or under preconditions.

    Conditions that depend on the launch are added to `preconditions`, if typical launches satisfy them; with None no
    preconditions are allowed.

    >>> preconditions = []
    >>> assume([(("program_id", "i32", 0),), (("argument", "i32", 0),)], preconditions), preconditions
    (True, [(('argument', 'i32', 0),)])
    """
    unsettled = [rows for rows in dict.fromkeys(conditions) if bounds(rows)[0] < 0]
    if unsettled and (preconditions is None or not all(map(_likely, unsettled))):
        return False
    if unsettled:
        preconditions += [rows for rows in unsettled if rows not in preconditions]
    return True


def _likely(rows):
    """True if the value is nonnegative in a typical launch: one program, arguments of medium size."""
    return bounds(rows, dict.fromkeys(arguments_of(rows), 1024), (1, 1, 1))[0] >= 0
