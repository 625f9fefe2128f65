"""Between which bounds an integer lies: for every launch, or for one whose arguments and grid are known.

How a value is computed is written down as rows, `(name, type, operands...)`, which JSON keeps: the compiler asks what
holds always, and the launcher, with the rows out of a kernel's metadata, what holds of the launch at hand. Integers
wrap: where a result may leave its type nothing is known of it.
"""

from __future__ import annotations

from .. import ops
from ..ir import types as T
from ..ir.core import Arg, Op, walk

MOST_ROWS = 64  # of one value; what lies further back may be anything
_GRID = (2**31 - 1, 65535, 65535)  # programs along an axis, at most
_BOUNDS = {t.name: (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.signed else (0, (1 << t.bits) - 1)
           for t in (T.i1, T.i8, T.i16, T.i32, T.i64, T.u8, T.u16, T.u32, T.u64)}  # fmt: skip
_BOUNDS["i1"] = (0, 1)
_PASSED_ON = frozenset((ops.splat, ops.expand_dims, ops.broadcast, ops.trans, ops.reshape, ops.hint))


class Derivations:
    """How the integers of a module are computed.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%n: i32) {\\n %0 = program_id {axis=0} : i32\\n %1 = mul %0, %n : i32\\n}")
    >>> rows = Derivations(m).rows(m.body.ops[1])
    >>> rows
    (('program_id', 'i32', 0), ('argument', 'i32', 0), ('mul', 'i32', 0, 1))
    >>> bounds(rows), bounds(rows, {0: 100}, (8, 1, 1))
    ((-2147483648, 2147483647), (0, 700))
    """

    def __init__(self, module):
        self.arguments = {id(arg): k for k, arg in enumerate(module.args)}
        self.loops = {}  # parameter of a loop's body -> (loop, which)
        for op in walk(module.body):
            if op.kind is ops.for_:
                self.loops |= {id(arg): (op, k) for k, arg in enumerate(op.regions[0].args)}
        self.promised = dict(filter(None, map(_promise, module.body.ops)))

    def rows(self, x):
        """The rows of a value, its own last."""
        return _Rows(self).of(x)


def _promise(op):
    """(value, what it is at least) where the program promises so: `tl.assume(x >= 0)`."""
    cond = op.operands[0] if op.kind is ops.assume else None
    if type(cond) is not Op or cond.kind not in (ops.ge, ops.gt) or type(cond.operands[1]) is not Op:
        return None
    x, bound = cond.operands
    return (id(x), bound.attrs["value"] + (cond.kind is ops.gt)) if bound.kind is ops.constant else None


class _Rows:
    def __init__(self, known):
        self.known, self.out, self.places, self.open = known, [], {}, set()

    def of(self, x):
        self.place(x)
        return tuple(self.out)

    def place(self, x):
        """The number of a value's row, written now if it is new."""
        if id(x) in self.open:  # a loop's value that comes round to itself
            return self.add(("any", T.element(x.type).name))
        if id(x) not in self.places:
            self.open.add(id(x))
            row = self.row(x)
            self.open.discard(id(x))
            at = row if type(row) is int else self.add(row)
            if id(x) in self.known.promised:
                at = self.add(("at_least", T.element(x.type).name, at, self.known.promised[id(x)]))
            self.places[id(x)] = at
        return self.places[id(x)]

    def add(self, row):
        self.out.append(row)
        return len(self.out) - 1

    def row(self, x):
        t = T.element(x.type)
        if type(t) is not T.Scalar or not t.is_int or len(self.out) + len(self.open) > MOST_ROWS:
            return ("any", "i64")
        if type(x) is Arg:
            return self.parameter(x, t)
        rule = _ROWS.get(x.kind) if type(x) is Op else None
        if type(x) is Op and x.kind in _PASSED_ON:
            return self.place(x.operands[0])
        if rule is None:
            return ("any", t.name)
        return rule(self, x, t)

    def parameter(self, x, t):
        if id(x) in self.known.arguments:
            return ("argument", t.name, self.known.arguments[id(x)])
        if id(x) not in self.known.loops:
            return ("any", t.name)
        loop, k = self.known.loops[id(x)]
        if k == 0:
            return ("index", t.name, *map(self.place, loop.operands[:3]))
        step = _step(x, loop.regions[0].yields[k - 1])
        if step is None:
            return ("any", t.name)
        return ("carried", t.name, *map(self.place, (loop.operands[2 + k], step, *loop.operands[:3])))


def _step(x, out):
    """What a loop adds to its parameter `x` in every round; None if it does something else."""
    if type(out) is not Op or out.kind is not ops.add:
        return None
    left, right = out.operands
    return right if left is x else left if right is x else None


def _by_name(rows, op, t):
    return (op.kind.name, t.name, *map(rows.place, op.operands))


def _cast_row(rows, op, t):
    source = T.element(op.operands[0].type)
    whole = type(source) is T.Scalar and source.is_int
    return _by_name(rows, op, t) if whole else ("any", t.name)


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


# --- bounds -----------------------------------------------------------------------------------------------------------
def bounds(rows, arguments=None, grid=None):
    """(least, greatest) that the value of the last row can be, for arguments by number and a grid, or for all.

    >>> bounds([("between", "i32", 0, 15), ("constant", "i32", 16), ("rem", "i32", 0, 1)])
    (0, 15)
    """
    found = []
    for name, type_, *operands in rows:
        least, most = all_ = _BOUNDS[type_]
        if name in _LEAVES:
            low, high = _LEAVES[name](all_, operands, arguments, grid)
        else:
            low, high = _RULES[name](all_, operands, found)
        found.append((low, high) if least <= low and high <= most else all_)
    return found[-1]


def _argument(all_, operands, arguments, grid):
    known = None if arguments is None else arguments.get(operands[0])
    return all_ if known is None else (known, known)


_LEAVES = {
    "any": lambda all_, operands, arguments, grid: all_,
    "constant": lambda all_, operands, arguments, grid: (operands[0], operands[0]),
    "between": lambda all_, operands, arguments, grid: tuple(operands),
    "argument": _argument,
    "program_id": lambda all_, operands, arguments, grid: (0, (grid or _GRID)[operands[0]] - 1),
    "num_programs": lambda all_, operands, arguments, grid: (
        (1, _GRID[operands[0]]) if grid is None else (grid[operands[0]],) * 2),
}  # fmt: skip


def _corners(fn, x, y):
    values = [fn(a, b) for a in x for b in y]
    return min(values), max(values)


def _toward_zero(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _div(all_, x, y):
    """By anything but zero, which has no meaning."""
    parts = [(low, high) for low, high in ((max(y[0], 1), y[1]), (y[0], min(y[1], -1))) if low <= high]
    values = [_corners(_toward_zero, x, part) for part in parts]
    return (min(v[0] for v in values), max(v[1] for v in values)) if values else all_


def _rem(all_, x, y):
    """The remainder has the sign of x and is nearer to zero than both x and y."""
    most = max(abs(y[0]), abs(y[1])) - 1
    return (min(0, max(x[0], -most)), max(0, min(x[1], most))) if most >= 0 else all_


def _and(all_, x, y):
    """No bit that one side lacks."""
    above = [z[1] for z in (x, y) if z[0] >= 0]
    return (0, min(above)) if above else all_


def _shr(all_, x, y):
    return _corners(lambda a, b: a >> b, x, y) if 0 <= y[0] and y[1] < 64 else all_


def _index(all_, first, end, step):
    """A loop counts up unless its step is negative for certain."""
    if step[1] < 0:
        return min(first[1], end[0] + 1), first[1]
    return first[0], max(first[0], end[1] - 1)


def _carried(all_, start, step, first, end, by):
    """What grows by `step` in each round, the last included."""
    if by[0] <= 0:
        return all_
    rounds = max(0, -(-(end[1] - first[0]) // by[0]))
    return start[0] + min(0, rounds * step[0]), start[1] + max(0, rounds * step[1])


def _of_ranges(fn):
    return lambda all_, operands, found: fn(all_, *[found[k] for k in operands])


_RULES = {name: _of_ranges(fn) for name, fn in {
    "add": lambda all_, x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda all_, x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda all_, x, y: _corners(lambda a, b: a * b, x, y),
    "div": _div, "rem": _rem, "and": _and, "shr": _shr, "index": _index, "carried": _carried,
    "min": lambda all_, x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "max": lambda all_, x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "select": lambda all_, x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "cast": lambda all_, x: x,
}.items()}  # fmt: skip
_RULES["at_least"] = lambda all_, operands, found: (
    max(found[operands[0]][0], operands[1]), max(found[operands[0]][1], operands[1]))  # fmt: skip


def arguments_of(rows):
    """The numbers of the arguments that rows mention.

    >>> arguments_of([("argument", "i32", 3), ("program_id", "i32", 0), ("argument", "i64", 1)])
    {1: 'i64', 3: 'i32'}
    """
    return dict(sorted((row[2], row[1]) for row in rows if row[0] == "argument"))


def likely(rows):
    """True if a launch with ordinary arguments, one program of some size, has the value at 0 or more."""
    return bounds(rows, dict.fromkeys(arguments_of(rows), 1024), (1, 1, 1))[0] >= 0
