"""Transposing loads and stores: tiles contiguous along another axis are transposed in registers, in squares.

Lines of a square are as long as a register if they are aligned. With AVX-512 that is a cache line of each row: rows are
often a page or more apart and share a few places of the first cache, so a line that is used in parts would be fetched
several times. Other squares have four lines: a longer one that is not aligned takes two cache lines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value, closure
from ...llvm.writer import lanes
from ..fuse.affine import form_of
from ..fuse.index import ZERO, Coordinate, Index, iota
from . import memory, predication, runs, scratch_chunks

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering
    from .runs import Runs
    from .scratch import Buffer


_BYTES = {"neon": 4, "avx2": 32, "avx512": 64}  # of a line of a square, which has four elements at least
_WORK = 128  # ops of the lines of a square: more would take long to compile


def contiguous_axis(lo: Lowering, x: Value) -> int | None:
    """The axis along which a tile's source in memory is contiguous; None if there is none."""
    shape = T.shape(x.type)
    return next((a for a in (memory.contiguous(strides, shape) for strides in _sources(lo, x)) if a is not None), None)


def _sources(lo: Lowering, x: Value, seen: set[Value] | None = None) -> Iterator[tuple[Any, ...]]:
    """The strides, along the axes of a tile, of all that it is computed from in memory."""
    seen = set() if seen is None else seen
    if x in lo.buffers:
        yield (*[None] * (len(T.shape(x.type)) - 1), 1)
    if not lo.computes(x) or x in seen:
        return
    seen.add(x)
    if x.kind is ops.load:
        yield form_of(lo, x.operands[0]).strides
    elif x.kind is ops.trans:
        for strides in _sources(lo, x.operands[0], seen):
            yield tuple([strides[a] for a in x.attrs["order"]])
    elif x.kind is ops.broadcast:
        shape = T.shape(x.operands[0].type)
        for strides in _sources(lo, x.operands[0], seen):
            yield tuple([s if n > 1 else 0 for s, n in zip(strides, shape, strict=True)])
    elif x.kind.elementwise:
        for y in x.operands:
            yield from _sources(lo, y, seen)


def runs_of(lo: Lowering, pointers: Value) -> Runs | None:
    """The runs of pointers that are contiguous within them along an axis other than the last one: on processors without
    gathers, four elements are loaded at once if a test finds that the quotients of the first and the last are equal."""
    shape = T.shape(pointers.type)
    if lo.target.simd != "neon" or len(shape) != 2 or shape[0] % 4 or shape[1] % 4:
        return None
    return runs.find(lo, pointers, 0)


def transposed_axes(lo: Lowering, op: Op, shape: tuple[int, ...]) -> tuple[int, int, Runs | None] | None:
    """(contiguous axis of a store's source, contiguous axis of its target, where that holds) if they differ, else None.
    """
    if len(shape) < 2:
        return None
    to, found = memory.contiguous(form_of(lo, op.operands[0]).strides, shape), None
    if to is None and masks_in_place(lo, op.operands[1]):
        found = runs_of(lo, op.operands[0])
        to = None if found is None else found.axis
    axis = contiguous_axis(lo, op.operands[1]) if to is not None else None
    if axis is None or to is None or axis == to or shape[axis] % 4 or shape[to] % 4:
        return None
    return axis, to, found


def fill_across(lo: Lowering, x: Value, buffer: Buffer, axis: int, found: Runs | None = None) -> None:
    """Materialize a tile that is contiguous along `axis` in memory: load, transpose and write 4 x 4 squares."""
    last = len(buffer.shape) - 1

    def put(idx: Index, line: Val) -> None:
        scratch_chunks.write(lo, buffer, idx, line)
    masks = _masks(lo, x)
    _across(lo, x, buffer.shape, axis, last, buffer.strides, masks, lambda at, line: lambda: put(at, line), found)


def store_across(lo: Lowering, op: Op, shape: Sequence[int], axis: int, to: int, found: Runs | None = None) -> None:
    """Store a tile whose source is contiguous along `axis` and whose target is along `to`."""
    _, x, *mask = op.operands
    masks = _masks(lo, x) | dict.fromkeys(mask)
    target = form_of(lo, op.operands[0]).strides
    _across(lo, x, shape, axis, to, target, masks, lambda at, line: memory.prepare_store(lo, op, at, line), found)


def _across(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, target: Sequence[Any], masks: Any,
            put: Callable, found: Runs | None) -> None:
    """Transpose squares without masks if the tile is inside all of them, else copy element by element.

    `target`: the strides of what is written. `put(idx, chunk)` prepares a store and returns a function that emits it.
    """
    inside = predication.tile_inside(lo, masks)

    def hot():
        with lo.inside(), lo.assuming(masks):
            _squares(lo, x, shape, axis, to, target, masks, put, found)

    def cold():
        if lo.target.simd == "neon" and len(shape) == 2 and masks_in_place(lo, x):
            with lo.inside():
                _squares(lo, x, shape, axis, to, target, masks, put, found, tested=True)
            return
        with lo.inside(), lo.loops(shape) as at:
            idx = tuple([(i, None) for i in at])
            put(idx, lo.ev(x, idx))()
    with lo.keeping_loaded():
        if inside is None:
            _squares(lo, x, shape, axis, to, target, masks, put, found)
        else:
            lo.either(inside, hot, cold, likely=True)


def _masks(lo: Lowering, x: Value) -> Any:
    """The masks of all loads that a tile is computed from: a dictionary, for its order."""
    tiles = closure([x], lambda y: () if not lo.computes(y) else y.operands[2:] if y.kind is ops.load else y.operands)
    return {y.mask: None for y in tiles if lo.computes(y) and y.kind is ops.load and y.mask is not None}


def masks_in_place(lo: Lowering, x: Value) -> bool:
    """Whether no view stands between a tile and the masked loads that it is computed from: an index is one of both."""
    tiles = closure([x], lambda y: y.operands if lo.computes(y) and y.kind.elementwise else ())
    return not any(lo.computes(y) and not (y.kind is ops.load or y.kind.elementwise) and _masks(lo, y) for y in tiles)


def _side(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, target: Sequence[Any]) -> int:
    """The lines of a square: as many as a register has lanes where all rows are a multiple of that apart, in memory and
    in the `target`. Fewer where much is computed."""
    def onward(y: Value) -> Sequence[Value]:
        return y.operands if lo.computes(y) and y.kind is not ops.load else ()
    wide = _BYTES.get(lo.target.simd, 16) // T.element(x.type).bytes
    n = max(4, 1 << min(wide, _WORK // len([*closure([x], onward)]), 16).bit_length() - 1)

    def aligned(strides: Sequence[Any], along: int) -> bool:
        return all(lo.divisor(s) % n == 0 for a, s in enumerate(strides) if a != along)
    fits = aligned(target, to) and shape[axis] % n == shape[to] % n == 0
    return n if fits and all(s[axis] in (0, 1) and aligned(s, axis) for s in _sources(lo, x)) else 4


def _squares(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, target: Sequence[Any], masks: Any,
             put: Callable, found: Runs | None, tested: bool = False) -> None:
    """All squares of a tile; `tested`: each of them for whether the masks are true there."""
    others = [a for a in range(len(shape)) if a not in (axis, to)]
    side = 4 if found or tested else _side(lo, x, shape, axis, to, target)
    with lo.loops([shape[a] for a in others]) as at, lo.counted(shape[to], side) as column, \
            lo.counted(shape[axis], side) as row:
        idx = [ZERO] * len(shape)
        for a, i in zip(others, at, strict=True):
            idx[a] = (i, None)

        def index(r: Coordinate, c: Coordinate) -> Index:
            out = list(idx)
            out[axis], out[to] = r, c
            return tuple(out)
        if found is None and not tested:
            _square(lo, x, side, row, column, index, put)
        else:
            _tested_square(lo, x, row, column, index, masks, put, found)


def _square(lo: Lowering, x: Value, n: int, row: int | Val, column: int | Val, index: Callable, put: Callable) -> None:
    """Transpose a square of n x n."""
    made = [lo.widen(lo.ev(x, index((row, iota(n)), (lo.add(column, k), None))), n) for k in range(n)]
    ready = [put(index((lo.add(row, k), None), (column, iota(n))), line)
             for k, line in enumerate(_transposed(lo, made, 16 // T.element(x.type).bytes))]
    for store in ready:
        store()


def _tested_square(lo: Lowering, x: Value, row: int | Val, column: int | Val, index: Callable, masks: Any,
                   put: Callable, found: Runs | None) -> None:
    """Transpose a square if its lines are runs, or, where there are no runs, inside all masks; else copy its elements
    one by one."""
    if found is None:
        along = [index((row, iota(4)), (lo.add(column, k), None)) for k in range(4)]
        inside = [predication.mask_of(lo, mask, at) for mask in masks for at in along]
        tests, tested = [mask.all_lanes(lo) for mask in inside if mask is not None], masks
    else:
        starts = [index((row, None), (lo.add(column, k), None)) for k in range(4)]
        tests, tested = list(dict.fromkeys([found.unbroken(lo, at, 4) for at in starts])), ()
    test = functools.reduce(lambda a, b: lo.w.binary("and", a, b), tests, lo.w.const("i1", True))

    def run() -> None:
        with lo.inside(), nullcontext() if found is None else found.assumed(lo), lo.assuming(tested):
            _square(lo, x, 4, row, column, index, put)

    def elements() -> None:
        with lo.inside(), lo.loops((4, 4)) as (c, r):
            one = index((lo.add(row, r), None), (lo.add(column, c), None))
            put(one, lo.ev(x, one))()
    lo.either(test, run, elements, likely=True)


def _transposed(lo: Lowering, xs: Sequence[Val], near: int) -> list[Val]:
    """The transpose of n vectors of n lanes, or of those of their lanes whose index has the same last bits.

    Each step takes the even and the odd lanes of pairs: first inside groups of `near` lanes, which x86 shuffles in one
    instruction, then whole groups.
    """
    if len(xs) == 1:
        return list(xs)
    n = lanes(xs[0].type)
    near = min(near, n)
    size, span = (1, near) if n // len(xs) < near else (near, n)

    def half(odd: int) -> list[Val]:
        one = [s + b + k for s in range(0, n, span) for b in range(odd * size, span, 2 * size) for k in range(size)]
        count = span // 2
        picks = [i + a for s in range(0, n // 2, count) for a in (0, n) for i in one[s:s + count]]
        return _transposed(lo, [lo.w.shuffle(x, y, picks) for x, y in zip(xs[::2], xs[1::2], strict=True)], near)
    return [x for pair in zip(half(0), half(1), strict=True) for x in pair]
