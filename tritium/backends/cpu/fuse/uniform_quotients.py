"""Quotients and remainders that are uniform or contiguous within a chunk, computed as one scalar.

Kernels that linearize several axes delinearize the index by division: `x // 64` is uniform in a chunk that starts at a
multiple of its length, and `x % 64` is contiguous there. `analysis.axis_info` finds such runs; if they depend on
an index that is 0 or more, that is a precondition, which the launcher checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....analysis.axis_info import AxisInfo, analyze
from ....analysis.views import axes_behind
from ....ir import types as T
from ....ir.core import Block, Op, Value
from .index import Coordinate, Index, iota

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from ..lower.function import Lowering
    from .fuse_loops import _Fusion


def same(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> Index | None:
    """The index of the first element if the chunk of `x` is uniform; None if that is not known."""
    return _first(lo, x, idx, "constancy")


def counting(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> Index | None:
    """The index of the first element if the chunk of `x` is contiguous (x, x + 1, ...); None if that is not known."""
    return _first(lo, x, idx, "contiguity")


def chunk(lo: Lowering, x: Value, idx: Sequence[Coordinate]) -> Val | None:
    """The chunk of a uniform or contiguous quotient or remainder, or of a buffered tile that is uniform because of one;
    None if it is neither."""
    if lo.run_start is not None and x in lo.runs:
        inside = _in_run(lo, x, idx, lo.run_start)
        if inside is not None:
            return inside
    first = same(lo, x, idx)
    if first is not None:
        return lo.ev(x, first)
    first = counting(lo, x, idx)
    if first is None or T.is_ptr(x.type):
        return None
    offsets = next(lane.offsets for _, lane in idx if lane is not None)
    start = lo.widen(lo.ev(x, first), len(offsets))
    return lo.w.binary("add", start, lo.w.lanes_of(start.type.split(" x ")[1][:-1], offsets))


def first_number(lo: Lowering, x: Value, first: Index) -> int | Val:
    """The first element of a contiguous chunk, which `counting` has found, as an i64."""
    t, start = T.element(x.type), lo.run_start
    if start is None or x not in lo.runs:
        return lo.index_of(lo.ev(x, first), t)
    _, axis = lo.runs[x]
    return lo.add(lo.index_of(lo.ev(x, _at(first, axis, start)), t), lo.sub(first[axis][0], start))


def _in_run(lo: Lowering, x: Value, idx: Sequence[Coordinate], start: Val) -> Val | None:
    """A single element of a quotient or remainder inside the run from `start` on, of its first; None for others."""
    fact, axis = lo.runs[x]
    base = idx[axis][0]
    if base == start or any(lane is not None for _, lane in idx):
        return None
    first = lo.ev(x, _at(idx, axis, start))
    if fact == "constancy":
        return first
    return lo.w.binary("add", first, lo.w.cast("trunc", lo.const(lo.sub(base, start)), first.type))


def _at(idx: Sequence[Coordinate], axis: int, base: int | Val) -> Index:
    return tuple([(base, None) if a == axis else (b, None) for a, (b, _) in enumerate(idx)])


def _first(lo: Lowering, x: Value, idx: Sequence[Coordinate], fact: str) -> Index | None:
    if lo.runs and x in lo.runs:
        known, axis = lo.runs[x]
        return tuple([(b, None) for b, _ in idx]) if known == fact and idx[axis][1] is not None else None
    if type(x) is not Op or not _asks(lo, x) or lo.fills(x):
        return None
    axes = [(axis, base, lane) for axis, (base, lane) in enumerate(idx) if lane is not None]
    if len(axes) != 1:
        return None
    ((axis, base, lane),) = axes
    n = len(lane.offsets)
    if lane is not iota(n) or n & (n - 1) or lo.divisor(base) % n:
        return None
    if getattr(axis_info_of(lo, x), fact)[axis] % n:
        return None
    return tuple([(b, None) for b, _ in idx])


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
    return row is not None and row.steps and row.result == "same" and T.element(op.type).is_int


def axis_info_of(lo: _Fusion | Lowering, x: Value) -> AxisInfo:
    """What is known of a value along its axes."""
    if lo.axis_info is None:
        lo.axis_info = analyze(lo.module, lo.nonnegative)
    return lo.axis_info(x)


_LEAST = 8  # shorter chunks cost more than they save


def width(lo: Lowering, roots: Iterable[Op], most: int, axis: int | None = None) -> int:
    """The best number of lanes, at most `most`, for chunks of `roots` along an axis (the last one): the shortest run of
    uniform or contiguous elements in the quotients and remainders that `roots` are computed from."""
    seen, stack = set(), [(x, len(T.shape(x.type)) - 1 if axis is None else axis) for op in roots for x in op.operands]
    while stack:
        x, axis = stack.pop()
        if type(x) is not Op or type(x.type) is not T.Tile or (x, axis) in seen or x in lo.buffers:
            continue
        seen.add((x, axis))
        if _is_quotient(x):
            info = axis_info_of(lo, x)
            run = max(info.constancy[axis], info.contiguity[axis])
            most = run if _LEAST <= run < most else most
        elif lo.is_lazy(x):
            inner = _behind(x, axis)
            stack += [] if inner is None else [(y, inner) for y in x.operands]
    return most


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
