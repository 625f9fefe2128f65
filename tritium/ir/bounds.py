"""Between which bounds an integer lies: for every launch, or for one whose arguments and grid are known.

How a value is computed is written down as rows, `(name, type, operands...)`, which JSON keeps (`passes.ranges` writes
them): the compiler asks what holds always, and the launcher, with the rows out of a kernel's metadata, what holds of
the launch at hand. Integers wrap: where a result may leave its type nothing is known of it.

An index may come about through floats, as those do that resize an image. Bounds of floats are widened by what rounding
may add; floats of which nothing is known may be NaN.
"""

from __future__ import annotations

from math import inf, isinf, trunc
from typing import NamedTuple

from . import types as T

__all__ = ["Pair", "arguments_of", "bounds", "forbidden", "residues"]

_GRID = (2**31 - 1, 65535, 65535)  # programs along an axis, at most
_BOUNDS = {t.name: (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.signed else (0, (1 << t.bits) - 1)
           for t in (T.i1, T.i8, T.i16, T.i32, T.i64, T.u8, T.u16, T.u32, T.u64)}  # fmt: skip
_BOUNDS["i1"] = (0, 1)
_EVERY_FLOAT = (-inf, inf)
# The largest number that counts as known, how far a result is rounded in relation to itself, and at least.
_FLOATS = {"f16": (6e4, 2.0**-10, 1e-7), "bf16": (1e38, 2.0**-7, 1e-37), "f32": (1e38, 2.0**-23, 1e-37),
           "f64": (1e300, 2.0**-52, 1e-300)}  # fmt: skip


def bounds(rows, arguments=None, grid=None):
    """(least, greatest) that the value of the last row can be, for arguments by number and a grid, or for all.

    >>> bounds([("between", "i32", 0, 15), ("constant", "i32", 16), ("rem", "i32", 0, 1)])
    (0, 15)
    """
    found = []
    for name, type_, *operands in rows:
        if type_ in _FLOATS:
            found.append(_float(name, type_, operands, found))
            continue
        least, most = all_ = _BOUNDS[type_]
        if name in _LEAVES:
            low, high = _LEAVES[name](all_, operands, arguments, grid)
        else:
            low, high = _RULES[name](all_, operands, found)
        found.append((low, high) if least <= low and high <= most else all_)
    return found[-1]


def _float(name, type_, operands, found):
    """Between which bounds a float lies."""
    if name == "any":
        return _EVERY_FLOAT
    low, high = operands * 2 if name == "constant" else _RULES[name](_EVERY_FLOAT, operands, found)
    most, relative, least = _FLOATS[type_]
    if not (-most < low and high < most):  # NaNs are neither
        return _EVERY_FLOAT
    return low - abs(low) * relative - least, high + abs(high) * relative + least


def _truncated(all_, x):
    """A float as an integer."""
    return all_ if isinf(x[0]) else (trunc(x[0]), trunc(x[1]))


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
    """A loop counts up unless its step is negative for certain; from one number in one step it meets no others."""
    if step[1] < 0:
        return min(first[1], end[0] + 1), first[1]
    rest = (end[1] - 1 - first[0]) % step[0] if first[0] == first[1] and step[0] == step[1] > 0 else 0
    return first[0], max(first[0], end[1] - 1 - rest)


def _carried(all_, start, step, first, end, by):
    """What grows by `step` in each round, the last included."""
    if by[0] <= 0:
        return all_
    rounds = max(0, -(-(end[1] - first[0]) // by[0]))
    return start[0] + min(0, rounds * step[0]), start[1] + max(0, rounds * step[1])


def _below(x, y, strict):
    """Where x is less than y; if it never is, anything may be said of it."""
    return x[0], max(x[0], min(x[1], y[1] - strict))


def _above(x, y, strict):
    return min(x[1], max(x[0], y[0] + strict)), x[1]


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
    "cast": lambda all_, x: x, "truncated": _truncated,
}.items()}  # fmt: skip
_RULES["below"] = lambda all_, operands, found: _below(found[operands[0]], found[operands[1]], operands[2])
_RULES["above"] = lambda all_, operands, found: _above(found[operands[0]], found[operands[1]], operands[2])
_RULES["at_least"] = lambda all_, operands, found: (
    max(found[operands[0]][0], operands[1]), max(found[operands[0]][1], operands[1]))  # fmt: skip


def arguments_of(rows):
    """The numbers of the arguments that rows mention.

    >>> arguments_of([("argument", "i32", 3), ("program_id", "i32", 0), ("argument", "i64", 1)])
    {1: 'i64', 3: 'i32'}
    """
    return dict(sorted((row[2], row[1]) for row in rows if row[0] == "argument"))


# --- pairs of accesses ------------------------------------------------------------------------------------------------
class Pair(NamedTuple):
    """Two accesses to memory: the numbers of their parameters and the bytes of an element of each.

    `same` holds arguments that must be equal, two by two, for them to be in step; None if they never are. `views` holds
    rows of the distance of each access from its parameter, in bytes, two by two: every view is right. `steps` holds
    rows that must not be negative for them to be in step. `period` holds a number of bytes and two rows: modulo that
    number, the distances are what these compute. It is empty where no such number tells the accesses apart.
    """

    x: int
    y: int
    sizes: tuple[int, int]
    same: tuple[tuple[int, int], ...] | None
    views: tuple[tuple, ...]
    steps: tuple = ()
    period: tuple = ()


def forbidden(pair, bounds_of):
    """(least, most) distance of the second argument from the first, in bytes, with which the accesses may meet.

    >>> forbidden(Pair(0, 1, (4, 4), None, ((0, 60), )), {0: (0, 60), 60: (8, 20)}.get)
    (-23, 55)
    """
    found = [(a - d - pair.sizes[1] + 1, b - c + pair.sizes[0] - 1)
             for (a, b), (c, d) in (map(bounds_of, view) for view in pair.views)]
    return max(least for least, _ in found), min(most for _, most in found)


def residues(pair, bounds_of):
    """(period, least, how many more): modulo the period, the distances of the second argument from the first with which
    the accesses may meet. The period is 0 where that is all of them.

    One access takes the first half of each row of 8 bytes, another one the second: only if the rows of both begin
    together, distances being multiples of 8, do they never meet.

    >>> residues(Pair(0, 1, (4, 4), None, (), (), (8, 0, 4)), {0: (0, 0), 4: (4, 4)}.get)
    (8, -7, 6)
    >>> residues(Pair(0, 1, (4, 4), None, (), (), (8, 0, 4)), {0: (0, 4), 4: (4, 4)}.get)
    (0, 0, 0)
    """
    if not pair.period:
        return 0, 0, 0
    period, *view = pair.period
    least, most = forbidden(pair._replace(views=(tuple(view),)), bounds_of)
    return (period, least, most - least) if most - least < period - 1 else (0, 0, 0)
