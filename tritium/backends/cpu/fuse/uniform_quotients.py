"""Quotients and remainders that are uniform or contiguous within a chunk, computed as one scalar.

Kernels that linearize several axes delinearize the index by division: `x // 64` is uniform in a chunk that starts at a
multiple of its length, and `x % 64` is contiguous there. `analysis.axis_info` finds such runs; if they depend on
an index that is 0 or more, that is a precondition, which the launcher checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from .... import ops
from ....analysis.axis_info import AxisInfo, analyze
from ....analysis.views import axes_behind
from ....ir import types as T
from ....ir.core import Block, Op, Value
from ....passes.simplify import number
from .index import Coordinate, Index, iota, width_of

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from ..lower.function import Lowering
    from .fuse_loops import _Fusion


Fact: TypeAlias = "str | tuple[str, int]"
# What a value does in a chunk: it is the same in all lanes ("constancy"), counts ("contiguity"), or is what "div" or
# "rem" with a number makes of lanes that count, beginning at a multiple of it.


def _above(fact: Fact, n: int) -> Sequence[int]:
    """What `n` lanes are above the first.

    >>> _above(("div", 4), 8), list(_above("contiguity", 3))
    ([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2])
    """
    if isinstance(fact, str):
        return range(n) if fact == "contiguity" else (0,) * n
    return [k // fact[1] if fact[0] == "div" else k % fact[1] for k in range(n)]


def _advanced(lo: Lowering, fact: Fact, x: int | Val, by: int | Val) -> int | Val:
    """What `x` is `by` elements further on."""
    if isinstance(fact, str):
        return lo.add(x, by) if fact == "contiguity" else x
    return lo.add(x, lo.divide(by, fact[1])) if fact[0] == "div" else lo.add(x, lo.modulo(by, fact[1]))


def steps(x: Op) -> tuple[str, int]:
    """What a quotient or remainder by a known number does, where its numerator begins at a multiple and counts."""
    by = number(x.operands[1])
    assert by is not None
    return "div" if x.kind is ops.div else "rem", int(by)


def counting(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> Index | None:
    """The index of the first element if the chunk of `x` is contiguous (x, x + 1, ...); None if that is not known."""
    found = _first(lo, x, idx)
    return found[0] if found is not None and found[1] == "contiguity" else None


def chunk(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> Val | None:
    """The chunk of a quotient or remainder that its first element tells, or of a buffered tile that is uniform because
    of one; None if it is neither."""
    if lo.run_start is not None and x in lo.runs:
        inside = _in_run(lo, x, idx, lo.run_start)
        if inside is not None:
            return inside
    found = _first(lo, x, idx)
    if found is None or found[1] != "constancy" and T.is_ptr(x.type):
        return None
    first, fact = found
    start = lo.ev(x, first)
    if fact == "constancy":
        return start
    offsets = _above(fact, width_of(idx))
    start = lo.widen(start, len(offsets))
    return lo.w.binary("add", start, lo.w.lanes_of(start.type.split(" x ")[1][:-1], offsets))


def numbers(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> tuple[int | Val, Sequence[int]] | None:
    """(the first element of the chunk of an integer, as an i64, and what its lanes are above it); None if that is not
    known, or they all are the same."""
    found = _first(lo, x, idx)
    if found is None or found[1] == "constancy" or x in lo.buffers and x not in lo.runs:
        return None
    (first, fact), t, start = found, T.element(x.type), lo.run_start
    if start is None or x not in lo.runs:
        return lo.index_of(lo.ev(x, first), t), _above(fact, width_of(idx))
    _, axis = lo.runs[x]
    begin = lo.index_of(lo.ev(x, _at(first, axis, start)), t)
    return _advanced(lo, fact, begin, lo.sub(first[axis][0], start)), _above(fact, width_of(idx))


def _in_run(lo: Lowering, x: Value, idx: Sequence[Coordinate], start: Val) -> Val | None:
    """A single element of a quotient or remainder inside the run from `start` on, of its first; None for others."""
    fact, axis = lo.runs[x]
    base = idx[axis][0]
    if base == start or any(lane is not None for _, lane in idx):
        return None
    first = lo.ev(x, _at(idx, axis, start))
    further = _advanced(lo, fact, 0, lo.sub(base, start))
    return first if further == 0 else lo.w.binary("add", first, lo.w.cast("trunc", lo.const(further), first.type))


def _at(idx: Sequence[Coordinate], axis: int, base: int | Val) -> Index:
    return tuple([(base, None) if a == axis else (b, None) for a, (b, _) in enumerate(idx)])


def _first(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> tuple[Index, Fact] | None:
    """The index of the first element, and what the chunk does from there on, if it is one of the facts."""
    if lo.runs and x in lo.runs:
        fact, axis = lo.runs[x]
        return (tuple([(b, None) for b, _ in idx]), fact) if idx[axis][1] is not None else None
    if type(x) is not Op or not _asks(lo, x) or lo.fills(x):
        return None
    axes = [(axis, base, lane) for axis, (base, lane) in enumerate(idx) if lane is not None]
    if len(axes) != 1:
        return None
    ((axis, base, lane),) = axes
    n = len(lane.offsets)
    if lane is not iota(n) or n & (n - 1) or lo.divisor(base) % n:
        return None
    fact = known(lo, x, axis, n)
    return None if fact is None else (tuple([(b, None) for b, _ in idx]), fact)


def known(lo: Lowering, x: Value, axis: int, n: int) -> Fact | None:
    """What `n` lanes of a value do along an axis, as far as axis info tells."""
    info = axis_info_of(lo, x)
    for fact in ("constancy", "contiguity"):
        if getattr(info, fact)[axis] % n == 0:
            return fact
    if type(x) is not Op or x in lo.buffers or not _is_quotient(x):
        return None
    run = info.constancy[axis] if x.kind is ops.div else info.contiguity[axis]
    counts = axis_info_of(lo, x.operands[0]).contiguity[axis] % n == 0
    return steps(x) if counts and divides(x, n) and run % steps(x)[1] == 0 else None


def divides(x: Op, n: int) -> bool:
    """Whether the number that a quotient or remainder divides by is known and divides `n`."""
    by = number(x.operands[1])
    return by is not None and by > 1 and n % int(by) == 0


def _asks(lo: Lowering, x: Op) -> bool:
    """Whether axis info is worth computing: only kernels that divide an index need it."""
    if x in lo.buffers:
        if lo.divides is None:
            lo.divides = _divides(lo.module.body)
        return lo.divides
    return _is_quotient(x)


def _divides(block: Block) -> bool:
    return any(type(op.type) is T.Tile and _is_quotient(op) or any(map(_divides, op.regions))
               for op in block.ops if op.types or op.regions)


def _is_quotient(op: Op) -> bool:
    """Whether an op makes runs of equal or contiguous integers."""
    row = op.kind.row
    return row is not None and row.steps and row.result == "same" and T.element(op.type).kind in ("int", "uint")


def axis_info_of(lo: _Fusion | Lowering, x: Value) -> AxisInfo:
    """What is known of a value along its axes."""
    if lo.axis_info is None:
        lo.axis_info = analyze(lo.module, lo.nonnegative)
    return lo.axis_info(x)


_LEAST = 8  # shorter chunks cost more than they save


def width(lo: Lowering, roots: Iterable[Op], most: int, axis: int | None = None) -> int:
    """The best number of lanes, at most `most`, for chunks of `roots` along an axis (the last one): the shortest run of
    uniform or contiguous elements in the quotients and remainders that `roots` are computed from."""
    for x, along, _ in quotients(lo, [x for op in roots for x in op.operands], axis):
        info = axis_info_of(lo, x)
        run = max(info.constancy[along], info.contiguity[along])
        if _LEAST <= run < most and known(lo, x, along, most) is None:
            most = run
    return most


def quotients(lo: Lowering, tiles: Iterable[Value], axis: int | None = None) -> Iterator[tuple[Op, int, tuple]]:
    """(quotient or remainder, axis of it, the views that lead to it, outermost first) behind tiles, along an axis of
    theirs (the last one)."""
    seen, stack = set(), [(x, len(T.shape(x.type)) - 1 if axis is None else axis, ()) for x in tiles]
    while stack:
        x, along, path = stack.pop()
        if type(x) is not Op or type(x.type) is not T.Tile or (x, along) in seen or x in lo.buffers:
            continue
        seen.add((x, along))
        if _is_quotient(x):
            yield x, along, path
        elif lo.is_lazy(x):
            inner = _behind(x, along)
            stack += [] if inner is None else [(y, inner, (*path, x) if x.kind.view else path) for y in x.operands]


def _behind(op: Op, axis: int) -> int | None:
    """The axis of an op's operands that corresponds to an axis of its result; None if there is none."""
    if op.kind is ops.reshape:
        last = axis == len(T.shape(op.type)) - 1
        return len(T.shape(op.operands[0].type)) - 1 if last else None
    if op.kind.view:
        axes = axes_behind(op, tuple(range(len(T.shape(op.type)))))
        return axes.index(axis) if axis in axes else None
    return axis if all(T.shape(x.type) == T.shape(op.type) or len(T.shape(x.type)) in (0, len(T.shape(op.type)))
                       for x in op.operands) else None
