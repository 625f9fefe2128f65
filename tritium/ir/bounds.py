"""Interval analysis of integers: over every launch, or over one whose arguments and grid are known.

The derivation of a value is a list of rows, `(name, type, operands...)`, which survives JSON (`analysis.ranges` writes
it). The compiler evaluates the rows for all launches; the launcher evaluates those in a kernel's metadata, its
preconditions, for the launch at hand. Integers wrap: a result that may leave its type has unknown bounds.

An index may be computed with floats, as in kernels that resize an image. Bounds of floats are widened by the rounding
error; floats with unknown bounds may be NaN.
"""

from __future__ import annotations

from math import inf, isinf, trunc

from ..named_tuples import NamedTuple
from . import types as T

__all__ = ["Pair", "all_bounds", "arguments_of", "bounds", "dependence_distances", "residues"]

_GRID = (2**31 - 1, 65535, 65535)  # programs along an axis, at most
_BOUNDS = {t.name: (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.signed else (0, (1 << t.bits) - 1)
           for t in (T.i1, T.i8, T.i16, T.i32, T.i64, T.u8, T.u16, T.u32, T.u64)}  # fmt: skip
_BOUNDS["i1"] = (0, 1)
_EVERY_FLOAT = (-inf, inf)
# The largest magnitude with known bounds, the relative rounding error, the absolute rounding error.
_FLOATS = {"f16": (6e4, 2.0**-10, 1e-7), "bf16": (1e38, 2.0**-7, 1e-37), "f32": (1e38, 2.0**-23, 1e-37),
           "f64": (1e300, 2.0**-52, 1e-300)}  # fmt: skip


def bounds(rows, arguments=None, grid=None):
    """(least, greatest) value of the last row, for arguments by index and a grid, or for all launches.

    >>> bounds([("between", "i32", 0, 15), ("constant", "i32", 16), ("rem", "i32", 0, 1)])
    (0, 15)
    """
    return all_bounds(rows, arguments, grid)[-1]


def all_bounds(rows, arguments=None, grid=None):
    """As `bounds`, of every row.

    >>> all_bounds([("between", "i32", 0, 15), ("constant", "i32", 16), ("rem", "i32", 0, 1)])
    [(0, 15), (16, 16), (0, 15)]
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
    return found


def _float(name, type_, operands, found):
    """The bounds of a float."""
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
    """Division; a zero divisor is undefined and left out."""
    parts = [(low, high) for low, high in ((max(y[0], 1), y[1]), (y[0], min(y[1], -1))) if low <= high]
    values = [_corners(_toward_zero, x, part) for part in parts]
    return (min(v[0] for v in values), max(v[1] for v in values)) if values else all_


def _rem(all_, x, y):
    """The remainder has the sign of x and is nearer to zero than both x and y."""
    most = max(abs(y[0]), abs(y[1])) - 1
    return (min(0, max(x[0], -most)), max(0, min(x[1], most))) if most >= 0 else all_


def _and(all_, x, y):
    """A nonnegative operand bounds the result."""
    above = [z[1] for z in (x, y) if z[0] >= 0]
    return (0, min(above)) if above else all_


def _shr(all_, x, y):
    return _corners(lambda a, b: a >> b, x, y) if 0 <= y[0] and y[1] < 64 else all_


def _index(all_, first, end, step, multiple=(1, 1)):
    """The index of a loop, which counts up unless its step is known to be negative. Both its start and its step are
    multiples of `multiple`."""
    if step[1] < 0:
        return min(first[1], end[0] + 1), first[1]
    rest = (end[1] - 1) % multiple[0]
    if first[0] == first[1] and step[0] == step[1] > 0:
        rest = (end[1] - 1 - first[0]) % step[0]
    return first[0], max(first[0], end[1] - 1 - rest)


def _carried(all_, start, step, first, end, by):
    """A value that grows by `step` in each iteration, after the last one included."""
    if by[0] <= 0:
        return all_
    iterations = max(0, -(-(end[1] - first[0]) // by[0]))
    return start[0] + min(0, iterations * step[0]), start[1] + max(0, iterations * step[1])


def _below(x, y, strict):
    """x where it is less than y; if it never is, any bounds are right."""
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
    """The indices of the arguments that rows refer to, with their types.

    >>> arguments_of([("argument", "i32", 3), ("program_id", "i32", 0), ("argument", "i64", 1)])
    {1: 'i64', 3: 'i32'}
    """
    return dict(sorted((row[2], row[1]) for row in rows if row[0] == "argument"))


# --- pairs of accesses ------------------------------------------------------------------------------------------------
class Pair(NamedTuple):
    """Two accesses to memory: the indices of their parameters and the bytes of an element of each.

    `same` holds pairs of arguments that must be equal for the accesses to be identical; None if they never are. `views`
    holds pairs of rows, the offset of each access from its parameter in bytes: every view is right. `injective` holds
    rows that must be >= 0 for identical accesses to carry no dependence. `period` holds a number of bytes and two rows,
    the offsets modulo that number; it is empty if no such number shows the accesses disjoint.
    """

    x: int
    y: int
    sizes: tuple[int, int]
    same: tuple[tuple[int, int], ...] | None
    views: tuple[tuple, ...]
    injective: tuple = ()
    period: tuple = ()


def dependence_distances(pair, bounds_of):
    """(least, most) distance of the second argument from the first, in bytes, at which the accesses may overlap.

    >>> dependence_distances(Pair(0, 1, (4, 4), None, ((0, 60), )), {0: (0, 60), 60: (8, 20)}.get)
    (-23, 55)
    """
    found = [(a - d - pair.sizes[1] + 1, b - c + pair.sizes[0] - 1)
             for (a, b), (c, d) in (map(bounds_of, view) for view in pair.views)]
    return max(least for least, _ in found), min(most for _, most in found)


def residues(pair, bounds_of):
    """(period, least, count of further ones): the dependence distances modulo the period. The period is 0 if no
    distance is free of a dependence.

    One access covers the first half of each row of 8 bytes, another one the second: they are disjoint only if the rows
    of both begin together, at distances that are multiples of 8.

    >>> residues(Pair(0, 1, (4, 4), None, (), (), (8, 0, 4)), {0: (0, 0), 4: (4, 4)}.get)
    (8, -7, 6)
    >>> residues(Pair(0, 1, (4, 4), None, (), (), (8, 0, 4)), {0: (0, 4), 4: (4, 4)}.get)
    (0, 0, 0)
    """
    if not pair.period:
        return 0, 0, 0
    period, *view = pair.period
    least, most = dependence_distances(pair._replace(views=(tuple(view),)), bounds_of)
    return (period, least, most - least) if most - least < period - 1 else (0, 0, 0)
