"""Loop nests over tiles: materializing tiles in scratch memory, and fused stores and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value
from ....passes.simplify import number
from ..fuse import ops as cpu_ops
from ..fuse import uniform_quotients
from ..fuse.affine import described, form_of
from ..fuse.index import Chunks, Index, chunks, width_of
from . import integers, lines, memory, predication, reduce, runs, scratch_chunks, tile_copies, transpose, views
from .merged_loops import merged
from .scratch_chunks import write
from .table import statement
from .tile_copies import is_zero

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering
    from .scratch import Buffer


def width_for(lo: Lowering, shape: Sequence[int], *types: T.Scalar | T.Ptr) -> int:
    """The lanes of chunks of these element types, which take as many registers as 16 lanes of 4 bytes.

    Short tiles use narrower chunks: compiling code for wide ones takes longer than they save.
    """
    wide = max([t.bytes for t in types], default=4)
    return lo.width if wide <= 4 and math.prod(shape) > _SHORT * lo.width else lo.width // 2


_SHORT = 4
_LONG = 512
# Bytes by which long rows are prefetched. With AVX-512 a sum of 1M floats in 4096 sums takes 0.93 of the time.
_BYTES_AHEAD = {"neon": 512, "avx512": 2048}


def inside_rows(width: int, shape: Sequence[int]) -> int:
    """The largest width that fits into a row: a reduction along rows must not mix two rows in a chunk."""
    while width > shape[-1]:
        width //= 2
    return width


# --- the ops of the CPU stage -----------------------------------------------------------------------------------
@statement(cpu_ops.loop_nest)
def _loop_nest(lo: Lowering, op: Op) -> None:
    """Statements that share loops; the nest's results are theirs."""
    *roots, end = op.regions[0].ops
    force = roots.pop(0).operands[0] if roots[0].kind is cpu_ops.materialize else None
    pairs = list(zip(op.results, end.operands, strict=True))
    lo.destinations.update([(y, lo.destinations[x]) for x, y in pairs if x in lo.destinations])
    group(lo, roots, op.attrs["axis"], force, op.operands[0] if op.operands else None, op.attrs["beyond"])
    for x, y in pairs:
        held = lo.buffers if y in lo.buffers else lo.values
        held[x] = held.pop(y)


@statement(cpu_ops.materialize)
def _materialize(lo: Lowering, op: Op) -> None:
    """Tiles with a closed form are written only if their buffer is read."""
    for x in op.operands:
        found = views.view(lo, x) if op.attrs["in_place"] and x not in lo.buffers else None
        if found is not None:
            lo.buffers[x] = found
        elif x in lo.buffers:
            continue
        elif described(x):
            lo.postpone(x)
        else:
            lo.force(x)


@statement(cpu_ops.buffer)
def _buffer(lo: Lowering, op: Op) -> None:
    lo.kept = op.operands


@statement(cpu_ops.free)
def _free(lo: Lowering, op: Op) -> None:
    for x in op.operands:
        lo.drop(x)


# --- filling ----------------------------------------------------------------------------------------------------
def fill(lo: Lowering, pairs: Sequence[tuple[Value, Buffer]]) -> None:
    """Compute tiles of one shape and write each to its buffer, in one loop nest."""
    zeros, pairs = [b for x, b in pairs if is_zero(x)], [(x, b) for x, b in pairs if not is_zero(x)]
    if pairs:
        _fill(lo, pairs)
    for buffer in zeros:  # last: the others may read the old contents
        scratch_chunks.fill_bytes(lo, buffer, 0)


def _fill(lo: Lowering, pairs: Sequence[tuple[Value, Buffer]]) -> None:
    shape: tuple[int, ...] = T.shape(pairs[0][0].type)
    rank = len(shape)
    axis = transpose.contiguous_axis(lo, pairs[0][0]) if len(pairs) == 1 and rank > 1 else None
    if axis is not None and axis != rank - 1 and shape[axis] % 4 == 0 and shape[-1] % 4 == 0:
        (x, buffer), = pairs
        transpose.fill_across(lo, x, buffer, axis)
        return
    in_lines = lines.of_load(lo, pairs[0][0]) if len(pairs) == 1 and axis is None else None
    if in_lines is not None:
        (x, buffer), dot = pairs[0], lo.scope.dots.get(pairs[0][0])
        in_lines.fill(x, buffer, views.dot_end(lo, dot) if dot is not None and dot.operands[1] is x else None)
        return
    load = runs.source(lo, pairs[0][0]) if len(pairs) == 1 and axis is None else None
    straight = load if load is not None and transpose.masks_in_place(lo, pairs[0][0]) else None
    found = None if straight is None else transpose.runs_of(lo, straight.pointer)
    if found is not None:
        transpose.fill_across(lo, *pairs[0], found.axis, found)
        return
    width = width_for(lo, shape, *[T.element(x.type) for x, _ in pairs])
    width = uniform_quotients.width(lo, [x for x, _ in pairs if isinstance(x, Op)], width)
    walk = chunks(shape, 1 if all(_divides(lo, x) for x, _ in pairs) else width)
    walk = merged(lo, walk, [x for x, _ in pairs], rank)
    unrolled = len(walk.outer) > 0 and walk.total == 2 * walk.width and any(_gathers(lo, x) for x, _ in pairs)
    if not unrolled:
        def chunk(base: int | Val, carried: Sequence[Val]) -> Sequence[Val]:
            _fill_chunk(lo, pairs, walk.index(lo, at, base))
            return carried
        with walk.rows(lo) as at:
            _in_chunks(lo, [x for x, _ in pairs], walk, at, walk.total, [], chunk)
        return
    with walk.rows(lo) as at:
        for base in range(0, walk.total, walk.width):
            _fill_chunk(lo, pairs, walk.index(lo, at, base))


def _fill_chunk(lo: Lowering, pairs: Sequence[tuple[Value, Buffer]], idx: Index) -> None:
    made = [lo.ev(x, idx) for x, _ in pairs]
    for (_, buffer), chunk in zip(pairs, made, strict=True):
        write(lo, buffer, idx, chunk)


def _gathers(lo: Lowering, x: Value) -> bool:
    """Whether a tile is loaded from addresses that are not affine. If a row is short enough to unroll its chunks, the
    parts of the addresses that do not depend on the row are hoisted out of the loop over rows."""
    load = runs.source(lo, x)
    return load is not None and bool(form_of(lo, load.pointer).loose)


def _divides(lo: Lowering, x: Value) -> bool:
    """Whether integers are divided one by one, as there is no vector division. Constants divide by multiplication."""
    if not isinstance(x, Op) or x.kind not in (ops.div, ops.rem) or not T.element(x.type).is_int:
        return False
    by_constant = T.element(x.type).bits <= 32 and number(x.operands[1]) is not None
    return not by_constant and not integers.divides_vectors(lo, x)


# --- fused statements -------------------------------------------------------------------------------------------
def group(lo: Lowering, roots: Sequence[Op], axis: int | None, force: Value | None = None,
          clip: Value | None = None, beyond: bool = False) -> None:
    """Lower stores and reductions over tiles of one shape, and a tile to materialize, in one loop nest.

    `axis` is that of reductions whose loops do not run along rows, `clip` a mask at whose
    end the loops may stop, or one chunk later (`beyond`; clip.py).
    """
    if axis is not None:
        reduce.columns(lo, roots, axis)
        return
    shape = T.shape(roots[0].operands[0].type)
    stores = [op for op in roots if op.kind is ops.store]
    if not stores and force is None and clip is None and len(shape) > 1 and reduce.in_lanes(lo, roots, len(shape) - 1):
        return
    axes = transpose.transposed_axes(lo, stores[0], shape) if len(roots) == 1 and stores and force is None else None
    if axes:
        transpose.store_across(lo, stores[0], shape, *axes)
        return
    if len(roots) == 1 and stores and force is None:
        if tile_copies.store(lo, stores[0]):
            return
        in_lines = lines.of_store(lo, stores[0])
        if in_lines is not None:
            in_lines.store(stores[0])
            return
    buffer = None if force is None or force in lo.buffers else lo.allocate(force)
    fills = [] if buffer is None else [(force, buffer)]
    reductions = [reduce.Reduction(lo, op) for op in roots if op.kind is ops.reduce]
    vectorised = all(r.lane_by_lane for r in reductions)
    width = width_for(lo, shape, *[T.element(x.type) for op in roots for x in op.operands[-2:] if not T.is_ptr(x.type)])
    width = uniform_quotients.width(lo, roots, inside_rows(width, shape) if reductions else width)
    walk = chunks(shape, width if vectorised else 1, memory.store_order(lo, stores) if not reductions else None)
    with walk.rows(lo) as at:
        stop = _stop(lo, clip, walk, at, beyond) if clip is not None and vectorised else None
        rows(lo, stores, reductions, walk, at, fills, stop)
    for r in reductions:
        r.close()
    if buffer is not None:
        lo.buffers[force] = buffer


def _stop(lo: Lowering, clip: Value, walk: Chunks, at: Sequence[int | Val], one_more: bool) -> Any:
    """The end of a clipped row: the end of the mask, or one chunk later. None if the mask has no single upper bound."""
    if walk.inner != (len(walk.shape) - 1,) or walk.total <= 2 * lo.width:
        return None
    mask = predication.mask_of(lo, clip, walk.index(lo, at, 0))
    high = None if mask is None or mask.base != 0 else mask.end(lo)
    if high is None:
        return None
    w = lo.w
    end = w.binary("add", w.intrinsic("smax", "i64", high, lo.const(0)), lo.const((1 + one_more) * lo.width - 1))
    return w.intrinsic("smin", "i64", w.binary("and", end, lo.const(-lo.width)), lo.const(walk.total))


def rows(lo: Lowering, stores: Sequence[Op], reductions: Sequence[Any], walk: Chunks, at: Sequence[int | Val],
         fills: Sequence[Any] = (), stop: Any = None) -> None:
    """One row of a nest: its chunks up to `stop`, then the results of the reductions."""
    inits = [x for r in reductions for x in r.inits(walk, stop)]
    if walk.total == walk.width:
        _chunk(lo, stores, reductions, fills, walk.index(lo, at, 0), ())
    else:
        end = walk.total if stop is None else stop

        def chunk(base: Val, carried: Sequence[Val]) -> Sequence[Val]:
            ahead = walk.total >= _LONG and lo.run_start is None
            lo.bytes_ahead = _BYTES_AHEAD.get(lo.target.simd, 0) if ahead else 0
            made = _chunk(lo, stores, reductions, fills, walk.index(lo, at, base), carried, base)
            lo.bytes_ahead = 0
            return made
        wanted = [*[x for op in (*stores, *[r.op for r in reductions]) for x in op.operands], *[x for x, _ in fills]]
        rest = _in_chunks(lo, wanted, walk, at, end, inits, chunk, bool(reductions), ends=not reductions)
        for r in reductions:
            rest = r.take(rest, walk, stop)
    for r in reductions:
        r.finish(at, walk)


def _in_chunks(lo: Lowering, wanted: Sequence[Value], walk: Chunks, at: Sequence[int | Val], end: int | Val,
               carry: Sequence[Val], chunk: Callable[[Any, Sequence[Val]], Sequence[Val]],
               nonempty: bool = False, ends: bool = True) -> list[Val]:
    """The chunks of a row of `wanted` tiles: `chunk(base, carried)` emits one, and returns what it carries. With `ends`
    they may end within their lanes."""
    if walk.total == walk.width:
        return list(chunk(0, carry))
    found = runs.of_nest(lo, wanted, walk.inner[0], walk.width) if len(walk.inner) == 1 else None
    if found is not None:
        return runs.in_runs(lo, found, walk, at, end, carry, chunk, ends and runs.have_ends(lo, wanted, walk))
    with lo.loop(0, end, walk.width, carry=carry, nonempty=nonempty) as loop:
        loop.next = chunk(loop.index, loop.carried)
    return list(loop.results)


def _chunk(lo: Lowering, stores: Sequence[Op], reductions: Sequence[Any], fills: Sequence[Any], idx: Index,
           carried: Sequence[Val], base: int | Val = 0) -> Any:
    """One chunk of all statements: values are computed before stores, which may overwrite what another reads."""
    carried, out = list(carried), []
    filled = [lo.ev(x, idx) for x, _ in fills]
    elements = [[lo.ev(x, idx) for x in r.op.operands] for r in reductions]
    ready = [memory.prepare_store(lo, op, idx) for op in stores]
    for r, xs in zip(reductions, elements, strict=True):
        n = r.carries
        out += r.accumulate(xs, carried[:n], base, width_of(idx))
        carried = carried[n:]
    for (_, buffer), chunk in zip(fills, filled, strict=True):
        write(lo, buffer, idx, chunk)
    for store in ready:
        store()
    return out
