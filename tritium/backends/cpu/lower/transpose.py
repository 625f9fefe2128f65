"""Transposing loads and stores: tiles contiguous along another axis are transposed in registers, 4 x 4 at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ..fuse.affine import form_of
from ..fuse.index import ZERO, iota
from . import memory, predication, scratch_chunks

if TYPE_CHECKING:
    from ....ir.core import Value
    from ...llvm.writer import Val
    from ..fuse.index import Coordinate, Index
    from .function import Lowering
    from .scratch import Buffer

__all__ = ["contiguous_axis", "fill_across", "store_across", "transposed_axes"]


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


def transposed_axes(lo: Lowering, op: Op, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """(contiguous axis of a store's source, contiguous axis of its target) if they differ, else None."""
    if len(shape) < 2:
        return None
    to = memory.contiguous(form_of(lo, op.operands[0]), shape)
    axis = contiguous_axis(lo, op.operands[1]) if to is not None else None
    if axis is None or to is None or axis == to or shape[axis] % 4 or shape[to] % 4:
        return None
    return axis, to


def fill_across(lo: Lowering, x: Value, buffer: Buffer, axis: int) -> None:
    """Materialize a tile that is contiguous along `axis` in memory: load, transpose and write 4 x 4 squares."""
    last = len(buffer.shape) - 1

    def put(idx: Index, line: Val) -> None:
        scratch_chunks.write(lo, buffer, idx, line)
    _across(lo, x, buffer.shape, axis, last, _masks(lo, x), lambda at, line: lambda: put(at, line))


def store_across(lo: Lowering, op: Op, shape: Sequence[int], axis: int, to: int) -> None:
    """Store a tile whose source is contiguous along `axis` and whose target is along `to`."""
    _, x, *mask = op.operands
    masks = _masks(lo, x) | dict.fromkeys(mask)
    _across(lo, x, shape, axis, to, masks, lambda at, line: memory.prepare_store(lo, op, at, line))


def _across(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, masks: Any, put: Callable) -> None:
    """Transpose squares without masks if the tile is inside all of them, else copy element by element.

    `put(idx, chunk)` prepares a store and returns a function that emits it.
    """
    inside = predication.tile_inside(lo, masks)
    if inside is None:
        _squares(lo, x, shape, axis, to, put)
        return

    def hot():
        with lo.inside(), lo.assuming(masks):
            _squares(lo, x, shape, axis, to, put)

    def cold():
        with lo.inside(), lo.loops(shape) as at:
            idx = tuple([(i, None) for i in at])
            put(idx, lo.ev(x, idx))()
    lo.either(inside, hot, cold, likely=True)


def _masks(lo: Lowering, x: Value) -> Any:
    """The masks of all loads that a tile is computed from: a dictionary, for its order."""
    found, seen, stack = {}, set(), [x]
    while stack:
        x = stack.pop()
        if type(x) is not Op or type(x.type) is not T.Tile or x in seen or x in lo.buffers \
                or not lo.is_lazy(x):
            continue
        seen.add(x)
        if x.kind is ops.load and x.mask is not None:
            found[x.mask] = None
        stack += x.operands[2:] if x.kind is ops.load else x.operands
    return found


def _squares(lo: Lowering, x: Value, shape: Sequence[int], axis: int, to: int, put: Callable) -> None:
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
        lines = [lo.ev(x, index((row, iota(4)), (lo.add(column, k), None))) for k in range(4)]
        ready = [put(index((lo.add(row, k), None), (column, iota(4))), line)
                 for k, line in enumerate(_transposed(lo, lines))]
        for store in ready:
            store()


def _transposed(lo: Lowering, xs: Sequence[Val]) -> list[Val]:
    """The transpose of four vectors of four lanes."""
    w = lo.w
    xs = [lo.widen(x, 4) for x in xs]
    low = [w.shuffle(xs[0], xs[1], (0, 4, 1, 5)), w.shuffle(xs[2], xs[3], (0, 4, 1, 5))]
    high = [w.shuffle(xs[0], xs[1], (2, 6, 3, 7)), w.shuffle(xs[2], xs[3], (2, 6, 3, 7))]
    return [w.shuffle(a, b, picks) for a, b in (low, high) for picks in ((0, 1, 4, 5), (2, 3, 6, 7))]
