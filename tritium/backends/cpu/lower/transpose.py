"""Transposing loads and stores: tiles contiguous along another axis are transposed in registers, 4 x 4 at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value, closure
from ..fuse.affine import form_of
from ..fuse.index import ZERO, Coordinate, Index, iota
from . import memory, predication, runs, scratch_chunks

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering
    from .runs import Runs
    from .scratch import Buffer


def contiguous_axis(lo: Lowering, x: Value, seen: set[Value] | None = None) -> int | None:
    """The axis along which a tile's source in memory is contiguous; None if there is none."""
    seen = set() if seen is None else seen
    if x in lo.buffers:
        return len(T.shape(x.type)) - 1
    if type(x) is not Op or type(x.type) is not T.Tile or x in seen or not lo.is_lazy(x):
        return None
    seen.add(x)
    if x.kind is ops.load:
        return memory.contiguous(form_of(lo, x.operands[0]), x.type.shape)
    if x.kind is ops.trans:
        axis = contiguous_axis(lo, x.operands[0], seen)
        return None if axis is None else x.attrs["order"].index(axis)
    if x.kind is ops.broadcast:
        axis = contiguous_axis(lo, x.operands[0], seen)
        return axis if axis is not None and T.shape(x.operands[0].type)[axis] > 1 else None
    if x.kind.elementwise:
        for y in x.operands:
            axis = contiguous_axis(lo, y, seen)
            if axis is not None:
                return axis
    return None


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
    to, found = memory.contiguous(form_of(lo, op.operands[0]), shape), None
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
    _across(lo, x, buffer.shape, axis, last, _masks(lo, x), lambda at, line: lambda: put(at, line), found)


def store_across(lo: Lowering, op: Op, shape: Sequence[int], axis: int, to: int, found: Runs | None = None) -> None:
    """Store a tile whose source is contiguous along `axis` and whose target is along `to`."""
    _, x, *mask = op.operands
    masks = _masks(lo, x) | dict.fromkeys(mask)
    _across(lo, x, shape, axis, to, masks, lambda at, line: memory.prepare_store(lo, op, at, line), found)


def _across(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, masks: Any, put: Callable,
            found: Runs | None) -> None:
    """Transpose squares without masks if the tile is inside all of them, else copy element by element.

    `put(idx, chunk)` prepares a store and returns a function that emits it.
    """
    inside = predication.tile_inside(lo, masks)

    def hot():
        with lo.inside(), lo.assuming(masks):
            _squares(lo, x, shape, axis, to, masks, put, found)

    def cold():
        if lo.target.simd == "neon" and len(shape) == 2 and masks_in_place(lo, x):
            with lo.inside():
                _squares(lo, x, shape, axis, to, masks, put, found, tested=True)
            return
        with lo.inside(), lo.loops(shape) as at:
            idx = tuple([(i, None) for i in at])
            put(idx, lo.ev(x, idx))()
    with lo.keeping_loaded():
        if inside is None:
            _squares(lo, x, shape, axis, to, masks, put, found)
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


def _squares(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, masks: Any, put: Callable,
             found: Runs | None, tested: bool = False) -> None:
    """All squares of a tile; `tested`: each of them for whether the masks are true there."""
    others = [a for a in range(len(shape)) if a not in (axis, to)]
    with lo.loops([shape[a] for a in others]) as at, lo.counted(shape[to], 4) as column, \
            lo.counted(shape[axis], 4) as row:
        idx = [ZERO] * len(shape)
        for a, i in zip(others, at, strict=True):
            idx[a] = (i, None)

        def index(r: Coordinate, c: Coordinate) -> Index:
            out = list(idx)
            out[axis], out[to] = r, c
            return tuple(out)
        if found is None and not tested:
            _square(lo, x, row, column, index, put)
        else:
            _tested_square(lo, x, row, column, index, masks, put, found)


def _square(lo: Lowering, x: Value, row: int | Val, column: int | Val, index: Callable, put: Callable) -> None:
    """Transpose a square."""
    lines = [lo.widen(lo.ev(x, index((row, iota(4)), (lo.add(column, k), None))), 4) for k in range(4)]
    ready = [put(index((lo.add(row, k), None), (column, iota(4))), line)
             for k, line in enumerate(_transposed(lo, lines))]
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
            _square(lo, x, row, column, index, put)

    def elements() -> None:
        with lo.inside(), lo.loops((4, 4)) as (c, r):
            one = index((lo.add(row, r), None), (lo.add(column, c), None))
            put(one, lo.ev(x, one))()
    lo.either(test, run, elements, likely=True)


def _transposed(lo: Lowering, xs: Sequence[Val]) -> list[Val]:
    """The transpose of four vectors of four lanes."""
    w = lo.w
    low = [w.shuffle(xs[0], xs[1], (0, 4, 1, 5)), w.shuffle(xs[2], xs[3], (0, 4, 1, 5))]
    high = [w.shuffle(xs[0], xs[1], (2, 6, 3, 7)), w.shuffle(xs[2], xs[3], (2, 6, 3, 7))]
    return [w.shuffle(a, b, picks) for a, b in (low, high) for picks in ((0, 1, 4, 5), (2, 3, 6, 7))]
