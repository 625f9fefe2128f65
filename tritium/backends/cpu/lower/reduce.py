"""Reductions, scans, and maps whose regions need real control flow.

A reduction along contiguous elements carries a vector of partial results and combines its lanes at the end; along
another axis it carries a chunk of results. A scan combines within a chunk in log2(lanes) steps, then with the prefix of
the chunks before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import TYPE_CHECKING, Any

from .... import ops
from ....errors import CompilationError
from ....ir import types as T
from ....passes.reduce_early import runs_across
from ...llvm.rows import llvm_type
from ...llvm.writer import Val, lanes, vector
from ..fuse import uniform_quotients
from ..fuse.index import ZERO, Chunks, Index, chunks, lanes_of, unravel, width_of
from . import loop_nests, scratch_chunks, table
from .elementwise import inline
from .exp import joined
from .merged_loops import merged
from .table import statement

if TYPE_CHECKING:
    from ....ir.core import Block, Op
    from .function import Lowering
    from .scratch import Buffer

_SMALLEST = {"int": lambda t: -(1 << t.bits - 1), "uint": lambda t: 0, "bool": lambda t: 0}
_LARGEST = {"int": lambda t: (1 << t.bits - 1) - 1, "uint": lambda t: (1 << t.bits) - 1, "bool": lambda t: 1}
# Combinations that LLVM can do across the lanes of a vector, by type class, and their neutral elements. That of maxnum
# and minnum is NaN, which loses against any number.
_KNOWN = {
    ops.add: ({"int": "add", "uint": "add", "float": "fadd"}, lambda t: -0.0 if t.is_float else 0),
    ops.mul: ({"int": "mul", "uint": "mul", "float": "fmul"}, lambda t: 1.0 if t.is_float else 1),
    ops.and_: (dict.fromkeys(("int", "uint", "bool"), "and"), lambda t: 1 if t is T.i1 else -1),
    ops.or_: (dict.fromkeys(("int", "uint", "bool"), "or"), lambda t: 0),
    ops.xor: (dict.fromkeys(("int", "uint", "bool"), "xor"), lambda t: 0),
    ops.max_: ({"int": "smax", "uint": "umax", "float": "fmax"},
               lambda t: nan if t.is_float else _SMALLEST[t.kind](t)),
    ops.min_: ({"int": "smin", "uint": "umin", "float": "fmin"},
               lambda t: nan if t.is_float else _LARGEST[t.kind](t)),
    ops.max_nan: ({"float": "fmaximum"}, lambda t: -inf),
    ops.min_nan: ({"float": "fminimum"}, lambda t: inf),
}

# Reductions of floats that LLVM expands lane by lane on x86.
_ONE_BY_ONE = ("fmax", "fmin", "fmaximum", "fminimum")


def combine(lo: Lowering, region: Block, args: Sequence[Val]) -> list[Val]:
    """Apply a combination to scalars or chunks."""
    if table.lane_by_lane(region):
        return lo.spread(inline(lo, region, args))
    return lo.run(region, args)


def _known(op: Op) -> tuple[str, Any] | None:
    """(LLVM's name of the reduction, its neutral element) for a region of one op that LLVM knows; else None."""
    region, = op.regions
    if len(op.operands) > 1 or len(region.ops) != 2:
        return None
    inner, t = region.ops[0], T.element(op.operands[0].type)
    names, unit = _KNOWN.get(inner.kind, ({}, None))
    fits = llvm_type(t)[0] != "i" if t.is_float else True
    if t.kind not in names or not fits or set(inner.operands) != set(region.args):
        return None
    return (names[t.kind], unit(t)) if region.yields[0] is inner else None


class Reduction:
    """One reduction inside a loop nest."""

    def __init__(self, lo: Lowering, op: Op):
        self.lo, self.op, self.region = lo, op, op.regions[0]
        self.elements = [T.element(x.type) for x in op.operands]
        self.lane_by_lane = table.lane_by_lane(self.region)
        self.known: Any = _known(op) if self.lane_by_lane else None
        self.totals = []
        self.carries = len(op.operands)  # loop-carried values
        self.buffers = [] if T.shape(op.types[0]) == () else [lo.allocate(x) for x in op.results]

    def inits(self, walk: Chunks, stop: Val | None = None) -> list[Val]:
        """The initial accumulators: the neutral element, or anything if the first chunk replaces it.

        A clipped sum also carries the last chunk, which stands for those after it.
        """
        w = self.lo.w
        if walk.total == walk.width:
            return []
        start = self.known[1] if self.known else 0
        self.carries = len(self.elements) * (1 + (stop is not None and self.adds))
        types = [vector(walk.width, llvm_type(t)) for t in self.elements]
        return [w.const(t, start) for t in types] + [w.const(t, 0) for t in types[len(types) * 2 - self.carries:]]

    @property
    def adds(self) -> bool:
        """Whether repeated elements change the result."""
        return self.known is not None and self.known[0] in ("add", "fadd")

    def take(self, results: Sequence[Val], walk: Chunks, stop: Any) -> Sequence[Val]:
        """Take the totals of a row from the loop's results; returns the remaining ones."""
        mine, rest = results[:self.carries], results[self.carries:]
        if self.carries > len(self.elements):
            total, last = mine
            mine = [self.repeated(total, last, walk, stop)]
        self.totals = mine
        return rest

    def repeated(self, total: Val, last: Val, walk: Chunks, stop: Val) -> Val:
        """The total with the chunks after `stop`, all equal to the last one."""
        w, t = self.lo.w, llvm_type(self.elements[0])
        left = w.binary("lshr", w.binary("sub", self.lo.const(walk.total), stop),
                        self.lo.const(walk.width.bit_length() - 1))
        if self.known[0] == "add":
            times = self.lo.widen(w.cast("trunc", left, t) if t != "i64" else left, walk.width)
            return w.binary("add", total, w.binary("mul", last, times))
        times = self.lo.widen(w.cast("uitofp", left, t), walk.width)
        more = w.binary("fadd", total, w.binary("fmul", last, times))
        return w.select(w.compare("icmp eq", left, self.lo.const(0)), total, more)

    def accumulate(self, xs: Sequence[Val], carried: Sequence[Val], base: int | Val, n: int) -> list[Val]:
        """The accumulators after chunk `xs`, the one at `base`."""
        lo = self.lo
        xs = [lo.widen(x, n) for x in xs]
        if not carried:
            self.totals = xs
            return []
        if self.known:  # the new element first: x86 tests the first operand of a maximum for NaN
            last = xs if self.carries > len(xs) else []
            return [*combine(lo, self.region, [*xs, *carried[:len(xs)]]), *last]
        first = lo.w.compare("icmp eq", lo.const(base), lo.const(0))
        if not self.lane_by_lane:
            return lo.either(first, lambda: xs, lambda: combine(lo, self.region, [*carried, *xs]))
        merged = combine(lo, self.region, [*carried, *xs])
        return [lo.w.select(first, x, y) for x, y in zip(xs, merged, strict=True)]

    def across(self) -> Sequence[Val]:
        """The accumulators' lanes combined."""
        lo, w = self.lo, self.lo.w
        n = lanes(self.totals[0].type)
        if n == 1:
            return self.totals
        if self.known and (lo.target.simd == "neon" or self.known[0] not in _ONE_BY_ONE):
            name, _ = self.known
            x, t = self.totals[0], llvm_type(self.elements[0])
            starts = [w.const(t, -0.0 if name == "fadd" else 1.0)] if name in ("fadd", "fmul") else []
            return [w.intrinsic(f"vector.reduce.{name}", t, *starts, x, overload=(x.type,),
                                flags="reassoc" if starts else "")]
        xs = self.totals
        while n > 1:
            n //= 2
            halves = [[w.shuffle(x, None, range(k * n, k * n + n)) for x in xs] for k in (0, 1)]
            if n == 1:
                halves = [[w.extract(x, k) for x in xs] for k in (0, 1)]
            xs = combine(lo, self.region, [*halves[0], *halves[1]])
        return xs

    def finish(self, at: Sequence[int | Val], walk: Chunks) -> None:
        """Deliver the result of a row; `at` are the indices of the outer loops."""
        axis = self.op.attrs["axis"]
        where = dict(zip(walk.outer, at, strict=True))
        idx = tuple([(where[a], None) if a in where else ZERO for a in range(len(walk.shape)) if a != axis])
        self.deliver(idx, self.across())

    def deliver(self, idx: Index, xs: Sequence[Val]) -> None:
        """Results at an index of the reduced tile."""
        lo = self.lo
        for k, (result, x) in enumerate(zip(self.op.results, xs, strict=True)):
            if not self.buffers:
                lo.values[result] = x
            else:
                scratch_chunks.write(lo, self.buffers[k], idx, x)

    def close(self) -> None:
        """Bind the results to their buffers, after the loops."""
        self.lo.buffers.update(zip(self.op.results, self.buffers))


def columns(lo: Lowering, roots: Sequence[Op], axis: int) -> None:
    """Reductions along an axis other than that of the chunks."""
    if in_lanes(lo, roots, axis):
        return
    reductions = [Reduction(lo, op) for op in roots]
    shape = T.shape(roots[0].operands[0].type)
    kept = shape[:axis] + shape[axis + 1:]
    width = loop_nests.width_for(lo, shape, *[t for r in reductions for t in r.elements])
    width = width if all(r.lane_by_lane for r in reductions) else 1
    if all(n == 1 for n in kept):  # chunks along the reduced axis
        order = (*[a for a in range(len(shape)) if a != axis], axis)
        loop_nests.rows(lo, [], reductions, chunks(shape, width, order), [])
    else:
        walk = chunks(kept, _regular_width(lo, roots, kept, axis, width))
        with merged(lo, walk, [x for op in roots for x in op.operands], axis).each(lo) as idx:
            _column(lo, reductions, axis, shape[axis], idx, walk.width)
    for r in reductions:
        r.close()


def in_lanes(lo: Lowering, roots: Sequence[Op], axis: int) -> bool:
    """Lower reductions along an axis so short that a chunk holds several groups of all elements along it; returns
    whether it is."""
    tiles = [x for op in roots for x in op.operands]
    shape = T.shape(tiles[0].type)
    width = loop_nests.width_for(lo, shape, *[T.element(x.type) for x in tiles])
    walk, group = chunks(shape, width), math.prod(shape[axis:])
    if walk.width % group or group == walk.width or not all(table.lane_by_lane(op.regions[0]) for op in roots) \
            or uniform_quotients.width(lo, roots, width) < width \
            or any(runs_across(lambda x: uniform_quotients.axis_info_of(lo, x), x, axis) for x in tiles):
        return False
    reductions = [Reduction(lo, op) for op in roots]
    with merged(lo, walk, tiles, len(shape)).each(lo) as idx:
        for base, _ in idx:  # strength reduction takes longer than it gains here, too
            if type(base) is Val:
                lo.w.hide(base)
        _in_lanes(lo, reductions, axis, idx, group, group // shape[axis])
    for r in reductions:
        r.close()
    return True


def _in_lanes(lo: Lowering, reductions: Sequence[Reduction], axis: int, idx: Index, group: int, below: int) -> None:
    """Combine the lanes of a chunk in groups that are whole along a short axis, `below` elements after each other."""
    n, at, w = width_of(idx), idx[axis][1], lo.w
    firsts = [l for l in range(n) if at is None or at.offsets[l] == 0]
    kept = tuple([(base, lane and lanes_of([lane.offsets[l] for l in firsts])) for base, lane in idx])
    for r in reductions:
        xs, size = [lo.widen(lo.ev(x, idx), n) for x in r.op.operands], group
        while size > below:
            picks = [[l for l in range(lanes(xs[0].type)) if (l % size >= size // 2) == k] for k in (False, True)]
            xs, size = combine(lo, r.region, [w.shuffle(x, None, half) for half in picks for x in xs]), size // 2
        r.deliver((*kept[:axis], *kept[axis + 1:]), xs)


def _regular_width(lo: Lowering, roots: Sequence[Op], kept: Sequence[int], axis: int, width: int) -> int:
    """The lanes of chunks along the last kept axis, `width` at most, in which quotients and remainders are regular."""
    last = len(kept) - 1
    return uniform_quotients.width(lo, roots, width, last + (last >= axis)) if kept[last] >= width else width


def _column(lo: Lowering, reductions: Sequence[Reduction], axis: int, size: int, kept: Index, width: int) -> None:
    def chunk(i: int | Val) -> list[list[Val]]:
        idx = (*kept[:axis], (i, None), *kept[axis:])
        return [[lo.ev(x, idx) for x in r.op.operands] for r in reductions]
    if size == 1:
        for r, xs in zip(reductions, chunk(0), strict=True):
            r.deliver(kept, xs)
        return
    walk = Chunks((), (), (), width, size * width)
    inits = [x for r in reductions for x in r.inits(walk)]
    with lo.loop(0, size, carry=inits) as loop:
        carried = list(loop.carried)
        loop.next = []
        for r, xs in zip(reductions, chunk(loop.index), strict=True):
            loop.next += r.accumulate(xs, carried[:len(xs)], loop.index, width)
            carried = carried[len(xs):]
    rest = list(loop.results)
    for r in reductions:
        n = len(r.op.types)
        r.deliver(kept, rest[:n])
        rest = rest[n:]


@statement(ops.reduce)
def _reduce(lo: Lowering, op: Op) -> None:
    """Lowered with the loop nest that it stands in (`loop_nests.group`)."""
    raise CompilationError(None, None, "reduce stands in no loop nest: run the pass fuse_loops first")


# --- scans ------------------------------------------------------------------------------------------------------
@statement(ops.scan)
def _scan(lo: Lowering, op: Op) -> None:
    axis, shape = op.attrs["axis"], T.shape(op.operands[0].type)
    width = loop_nests.width_for(lo, shape, *[T.element(x.type) for x in op.operands])
    buffers = [lo.allocate(x) for x in op.results]
    last = len(shape) - 1
    if not table.lane_by_lane(op.regions[0]):
        width = 1
    if axis == last and (shape[last] >= 16 or last == 0):
        walk = chunks(shape, loop_nests.inside_rows(width, shape))
        with walk.rows(lo) as at:
            _scan_chunks(lo, op, buffers, walk.total, walk.width, lambda base: walk.index(lo, at, base))
    else:
        kept = shape[:axis] + shape[axis + 1:]
        with chunks(kept, width).each(lo) as idx:
            _scan_chunks(lo, op, buffers, shape[axis], 1, lambda i: (*idx[:axis], (i, None), *idx[axis:]))
    lo.buffers.update(zip(op.results, buffers, strict=True))


def _scan_chunks(lo: Lowering, op: Op, buffers: Sequence[Buffer], total: int, along: int,
                 index: Callable[[Any], Index]) -> None:
    """Scan `total` elements, `along` of them in each chunk (1: chunks run across the scan)."""
    w, reverse, region = lo.w, op.attrs["reverse"], op.regions[0]
    n = along if along > 1 else max(width_of(index(0)), 1)
    types = [vector(n if along == 1 else 1, llvm_type(T.element(x.type))) for x in op.operands]
    with lo.loop(0, total, along, carry=[w.const(t, 0) for t in types]) as loop:
        at = lo.sub(total - along, loop.index) if reverse else loop.index
        idx = index(at)
        xs = [lo.widen(lo.ev(x, idx), n) for x in op.operands]
        if along > 1:
            xs = _scan_lanes(lo, region, xs, along, reverse)
        first = w.compare("icmp eq", loop.index, lo.const(0))
        before = [lo.widen(c, n) for c in loop.carried]
        if table.lane_by_lane(region):
            merged = combine(lo, region, [*before, *xs])
            xs = [w.select(first, x, y) for x, y in zip(xs, merged, strict=True)]
        else:
            xs = lo.either(first, lambda: xs, lambda: combine(lo, region, [*before, *xs]))
        for buffer, x in zip(buffers, xs, strict=True):
            scratch_chunks.write(lo, buffer, idx, x)
        loop.next = [w.extract(x, 0 if reverse else along - 1) for x in xs] if along > 1 else xs


def _scan_lanes(lo: Lowering, region: Block, xs: Sequence[Val], n: int, reverse: bool) -> Sequence[Val]:
    """The scan of a chunk: after step k each lane holds the combination of 2**k lanes."""
    w, by = lo.w, 1
    while by < n:
        picks = [min(l + by, n - 1) if reverse else max(l - by, 0) for l in range(n)]
        merged = combine(lo, region, [*[w.shuffle(x, None, picks) for x in xs], *xs])
        reached = w.lanes_of("i1", [l + by < n if reverse else l >= by for l in range(n)])
        xs = [w.select(reached, y, x) for x, y in zip(xs, merged, strict=True)]
        by *= 2
    return xs


# --- maps -------------------------------------------------------------------------------------------------------
@statement(ops.map_, visits="elements")
def _map(lo: Lowering, op: Op) -> None:
    """A map with control flow, element by element, or of several elements at once."""
    (region,), pack, shape = op.regions, op.attrs["pack"], T.shape(op.operands[0].type)
    walk = chunks(shape, _PACKS * pack)
    if walk.width < _PACKS * pack or pack & (pack - 1) or not table.lane_by_lane(region):
        each(lo, op, shape, pack, lambda args: lo.run(region, args))
        return
    buffers, w = [lo.allocate(x) for x in op.results], lo.w
    with walk.each(lo) as idx:
        xs = [lo.widen(lo.ev(x, idx), walk.width) for x in op.operands]
        made = inline(lo, region, [w.shuffle(x, None, range(k, walk.width, pack)) for x in xs for k in range(pack)])
        for j, buffer in enumerate(buffers):
            parts = [lo.widen(x, _PACKS) for x in made[j * pack:j * pack + pack]]
            picks = [k * _PACKS + l for l in range(_PACKS) for k in range(pack)]
            scratch_chunks.write(lo, buffer, idx, w.shuffle(joined(w, parts, walk.width), None, picks))
    lo.buffers.update(zip(op.results, buffers, strict=True))


_PACKS = 16  # neighbouring packs whose elements are computed together


def each(lo: Lowering, op: Op, shape: Sequence[int], pack: int, compute: Callable[[list[Val]], Sequence[Val]]) -> None:
    """Results of `compute` on every `pack` neighbouring elements of the operands."""
    buffers = [lo.allocate(x) for x in op.results]
    with lo.counted(math.prod(shape), pack) as base:
        at = [tuple(unravel(lo, (lo.add(base, k), None), shape)) for k in range(pack)]
        made = compute([lo.ev(x, idx) for x in op.operands for idx in at])
        for j, buffer in enumerate(buffers):
            for k, idx in enumerate(at):
                scratch_chunks.write(lo, buffer, idx, made[j * pack + k])
    lo.buffers.update(zip(op.results, buffers, strict=True))
