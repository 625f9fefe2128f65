"""Derivations of the integers of a kernel as rows of `ir.bounds`, which a launcher can evaluate.

Pointers are counted in bytes from the parameter they are computed from.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

from .. import ops
from ..ir import types as T
from ..ir.bounds import arguments_of, bounds
from ..ir.core import Arg, Op, behind_views, walk

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
        self.loops = {}  # parameter of a loop's body -> (loop, which)
        self.pointers = {}  # pointer carried by a loop, or its result -> Carried, if the loop only advances it
        for op in walk(module.body):
            if op.kind is ops.for_:
                self.loops |= {arg: (op, k) for k, arg in enumerate(op.regions[0].args)}
            if op.kind.loop:
                self.pointers |= _carried_pointers(op)
        self.promised = dict(filter(None, map(_promise, module.body.ops)))

    def carried(self, x):
        """How a loop advances a pointer that it carries; None if it does anything else."""
        return self.pointers.get(x)

    def shifted(self, x):
        """The initial value of a carried integer tile to which a loop adds a scalar in every iteration; else None."""
        loop, k = self.loops.get(x, (None, 0))
        if not k:
            return None
        y = loop.regions[0].yields[k - 1]
        while y is not x:
            if type(y) is not Op or y.kind not in (ops.add, ops.sub):
                return None
            left, right = y.operands
            if type(behind_views(right).type) is T.Tile:
                left, right = right, left
            if type(behind_views(right).type) is T.Tile or y.kind is ops.sub and right is y.operands[0]:
                return None
            y = left
        return loop.operands[2 + k]

    def rows(self, x, mask=None):
        """The rows of a value, its own last; with a mask, of the elements where the mask is true."""
        return Rows(self, mask).of(x)


class Carried(NamedTuple):
    """A pointer that starts as `start` and is advanced by the `addptr` ops `steps` in every iteration of a loop."""

    loop: Op
    start: Any
    steps: tuple


def _carried_pointers(loop):
    first = loop.kind.loop.operands
    found = {}
    for k, (start, y) in enumerate(zip(loop.operands[first:], loop.regions[-1].yields)):
        if not T.is_ptr(start.type):
            continue
        places = [region.args[len(region.args) - len(loop.operands[first:]) + k] for region in loop.regions]
        steps = []
        while type(y) is Op and y.kind is ops.addptr:
            steps.append(y)
            y = y.operands[0]
        if y is places[-1]:
            found |= {x: Carried(loop, start, tuple(steps)) for x in (*places, loop.results[k])}
    return found


def _promise(op):
    """(a value, its lower bound) of an assumption of the program: `tl.assume(x >= 0)`."""
    cond = op.operands[0] if op.kind is ops.assume else None
    if type(cond) is not Op or cond.kind not in (ops.ge, ops.gt) or type(cond.operands[1]) is not Op:
        return None
    x, bound = cond.operands
    return (x, bound.attrs["value"] + (cond.kind is ops.gt)) if bound.kind is ops.constant else None


class Rows:
    """Builds the rows of values, each once.

    With a mask, `axes` tells which axis of the mask each axis of the value at hand runs along: `i[:, None] < n` says
    something of `i[:, None]` and nothing of `i[None, :]`.
    """

    def __init__(self, known, mask=None):
        self.known, self.out, self.places, self.open = known, [], {}, set()
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
        if len(self.out) + len(self.open) > MOST_ROWS:
            return _any(x)
        if type(t) is T.Ptr:
            return self.pointer(x)
        if type(t) is not T.Scalar or not t.is_int and t.name not in _FLOATS:
            return _any(x)
        if type(x) is Op and x.kind.view:
            return self.seen_from(through(x, self.axes), x.operands[0])
        if type(x) is Arg and t.is_int:
            return self.parameter(x, t)
        rule = (_ROWS if t.is_int else _FLOAT_ROWS).get(x.kind) if type(x) is Op else None
        if rule is None:
            return ("any", t.name)
        return rule(self, x, t)

    def parameter(self, x, t):
        """The row of a parameter of the kernel or of a loop."""
        if x in self.known.arguments:
            return ("argument", t.name, self.known.arguments[x])
        if x not in self.known.loops:
            return ("any", t.name)
        loop, k = self.known.loops[x]
        if k == 0:
            return ("index", t.name, *map(self.place, loop.operands[:3]))
        step = _step(x, loop.regions[0].yields[k - 1])
        if step is None:
            return ("any", t.name)
        return ("carried", t.name, *map(self.place, (loop.operands[2 + k], step, *loop.operands[:3])))

    def pointer(self, x):
        """The row of a pointer's offset from its parameter, in bytes."""
        if type(x) is Arg and x in self.known.arguments:
            return ("constant", "i64", 0)
        if type(x) is Op and x.kind.view:
            return self.seen_from(through(x, self.axes), x.operands[0])
        if type(x) is Op and x.kind is ops.cast and T.is_ptr(x.operands[0].type):
            return self.place(x.operands[0])
        if type(x) is Op and x.kind is ops.addptr:
            return ("add", "i64", self.place(x.operands[0]), self.bytes(x))
        carried = self.known.carried(x)
        return ("any", "i64") if carried is None else self.moved(carried, self.place(carried.start))

    def moved(self, carried, start):
        """The row of a pointer that a loop advances from `start`."""
        if carried.loop.kind is not ops.for_:
            return ("any", "i64")
        steps = self.add(("constant", "i64", 0))
        for step in carried.steps:
            steps = self.add(("add", "i64", steps, self.bytes(step)))
        return ("carried", "i64", start, steps, *map(self.place, carried.loop.operands[:3]))

    def bytes(self, op):
        """The index of the row of the bytes that `addptr` adds."""
        size = self.add(("constant", "i64", T.element(op.type).pointee.bytes))
        return self.add(("mul", "i64", self.place(op.operands[1]), size))

    # --- masks ------------------------------------------------------------------------------------------------------
    def limit(self, mask):
        """Record the limits that a mask implies: of `x < y`, and of both operands of `&`."""
        if type(mask) is not Op:
            return
        if mask.kind is ops.and_ or mask.kind.view:
            outer, self.axes = self.axes, through(mask, self.axes)
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
        while type(x) is Op and (x.kind.view or x.kind is ops.cast and widens(x)):
            axes, x = through(x, axes), x.operands[0]
        return x, axes


def _step(x, out):
    """The value that a loop adds to its parameter `x` in every iteration; None if it does anything else."""
    if type(out) is not Op or out.kind is not ops.add:
        return None
    left, right = out.operands
    return right if left is x else left if right is x else None


_LIMITS = {ops.lt: (1, True), ops.le: (0, True), ops.gt: (1, False), ops.ge: (0, False)}


def _counted(x):
    """The integer type of a value's row."""
    t = T.element(x.type)
    return t if type(t) is T.Scalar and t.is_int else T.i64


def _any(x):
    """The row of an unknown value."""
    t = T.element(x.type)
    return ("any", t.name if type(t) is T.Scalar and t.name in _FLOATS else _counted(x).name)


def widens(op):
    """Whether a cast preserves every integer."""
    source, target = T.element(op.operands[0].type), op.attrs["to"]
    if any(type(t) is not T.Scalar or not t.is_int for t in (source, target)):
        return False
    return target.bits > source.bits and (target.signed or not source.signed)


def through(op, axes):
    """The axes of an op's operand, given those of its result; fresh ones if they are unknown."""
    if axes is None or op.kind is ops.splat:
        return axes and ()
    if op.kind is ops.expand_dims:
        return (*axes[:op.attrs["axis"]], *axes[op.attrs["axis"] + 1:])
    if op.kind is ops.trans:
        return tuple([axes[op.attrs["order"].index(a)] for a in range(len(axes))])
    if op.kind is ops.reshape:
        return tuple([(op, axes, a) for a in range(len(T.shape(op.operands[0].type)))])
    return axes


def _by_name(rows, op, t):
    return (op.kind.name, t.name, *map(rows.place, op.operands))


def _cast_row(rows, op, t):
    source = T.element(op.operands[0].type)
    if type(source) is not T.Scalar or not source.is_int and source.name not in _FLOATS:
        return ("any", t.name)
    return ("truncated" if t.is_int and not source.is_int else "cast", t.name, rows.place(op.operands[0]))


def _select_row(rows, op, t):
    return ("select", t.name, *map(rows.place, op.operands[1:]))


_ROWS = {
    ops.constant: lambda rows, op, t: ("constant", t.name, int(op.attrs["value"])),
    ops.arange: lambda rows, op, t: ("between", t.name, op.attrs["start"], op.attrs["end"] - 1),
    ops.program_id: lambda rows, op, t: ("program_id", t.name, op.attrs["axis"]),
    ops.num_programs: lambda rows, op, t: ("num_programs", t.name, op.attrs["axis"]),
    ops.select: _select_row,
    **dict.fromkeys((ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.min_, ops.max_, ops.and_, ops.shr),
                    _by_name),
    ops.cast: _cast_row,
}  # fmt: skip

# Of floats, what an index is computed with.
_FLOATS = ("f16", "bf16", "f32", "f64")
_FLOAT_ROWS = {
    ops.constant: lambda rows, op, t: ("constant", t.name, float(op.attrs["value"])) if isfinite(op.attrs["value"])
    else ("any", t.name),
    ops.select: _select_row, ops.cast: _cast_row,
    **dict.fromkeys((ops.add, ops.sub, ops.mul, ops.min_, ops.max_), _by_name),
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
