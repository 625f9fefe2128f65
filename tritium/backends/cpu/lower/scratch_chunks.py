"""Loads and stores of chunks in scratch memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....ir import types as T
from ...llvm.rows import memory_type
from ...llvm.writer import Val, lanes, vector
from ..fuse.index import Index, Lanes, iota, lanes_of, plus, width_of
from . import intrinsics, predication, short_rows, small_strides
from .scratch import ALIGN, Buffer, View
from .short_rows import Rows

if TYPE_CHECKING:
    from .function import Lowering


def place(lo: Lowering, buffer: Buffer | View, idx: Index) -> Any:
    """(row-major position of the first lane, offsets of the lanes from it)."""
    base, offsets = 0, None
    for (b, lane), stride in zip(idx, buffer.strides, strict=True):
        base = lo.add(base, lo.mul(b, stride))
        if lane is not None:
            offsets = plus(offsets, [o * stride for o in lane.offsets])
    return base, lanes_of(offsets) if offsets else None


def pointer(lo: Lowering, buffer: Buffer | View, base: int | Val) -> Val:
    """The address of element `base` of a buffer.

    The place of a buffer in the arena is added last: it is part of an instruction, and what is before it is shared.
    """
    t = memory_type(buffer.element)
    if type(base) is Val and type(buffer) is Buffer and buffer.late is None:
        return lo.offset("i8", lo.offset(t, lo.scratch, base), buffer.offset)
    return lo.offset(t, lo.address(buffer), base) if base != 0 else lo.address(buffer)


def start_of(lo: Lowering, buffer: Buffer | View, idx: Index) -> Val:
    """The address of the element at an index, or of the first lane there."""
    return pointer(lo, buffer, place(lo, buffer, idx)[0])


def read(lo: Lowering, buffer: Buffer | View, idx: Index) -> Val:
    """A chunk of a tile in scratch memory."""
    return read_flat(lo, buffer, *place(lo, buffer, idx))


def read_flat(lo: Lowering, buffer: Buffer | View, base: int | Val, pattern: Lanes | None) -> Val:
    """A chunk of a tile in scratch memory whose lanes lie at `base` plus a pattern, in elements."""
    w, t = lo.w, memory_type(buffer.element)
    start = pointer(lo, buffer, base)
    level, align = max(start.level, lo.region), buffer.element.bytes
    if pattern is None:
        x = w.load(t, start, align, at=level)
    elif pattern is iota(len(pattern.offsets)):
        x = w.load(vector(len(pattern.offsets), t), start, align, at=level)
    else:
        x = _read_pattern(lo, start, pattern, t, align, level, beyond=type(buffer) is Buffer)
    if buffer.element is T.i1:
        return w.compare("icmp ne", x, w.const(x.type, 0))
    return x


def fill_bytes(lo: Lowering, buffer: Buffer, byte: int) -> None:
    """Set all bytes of a buffer."""
    w = lo.w
    w.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    size = buffer.strides[0] * buffer.shape[0] * buffer.element.bytes
    w.effect(f"call void @llvm.memset.p0.i64(ptr align {ALIGN} {lo.address(buffer)}, i8 {byte}, i64 {size}, i1 false)")


def _read_pattern(lo: Lowering, start: Val, pattern: Lanes, t: str, align: int, level: int, beyond: bool) -> Val:
    """Lanes near each other are picked from vectors, short rows are loaded one by one, and other lanes gathered."""
    with lo.at(level):
        if small_strides.are_near(pattern):
            return small_strides.load(lo, start, pattern, t, align, beyond)
        if rows := short_rows.rows_of(pattern, [], len(pattern.offsets)):
            return short_rows.load(lo, rows, _firsts(lo, rows, start, pattern, t), t, align)
        n, at = len(pattern.offsets), lo.w.lanes_of("i64", pattern.offsets)
        pointers = lo.w.emit(vector(n, "ptr"), f"getelementptr {t}, ptr {start}, {at.typed}", start)
        return intrinsics.gather(lo, pointers, t, align)


def write(lo: Lowering, buffer: Buffer, idx: Index, x: Val) -> None:
    """Write a chunk of a tile to scratch memory."""
    w, t = lo.w, memory_type(buffer.element)
    base, pattern = place(lo, buffer, idx)
    start = pointer(lo, buffer, base)
    if buffer.element is T.i1:
        x = w.cast("zext", x, vector(lanes(x.type), "i8"))
    n = width_of(idx)
    x = lo.widen(x, n) if pattern is not None else w.extract(x, 0) if x.type[0] == "<" else x
    level, align = max(start.level, x.level, lo.region), buffer.element.bytes
    inside = predication.mask_of(lo, None, idx, ends=True)
    with lo.at(level if inside is None else max(level, inside.level())):
        if inside is not None and pattern is iota(n):
            intrinsics.masked(lo, "store", f"ptr align {align} {start}", "p0", inside.lanes(lo), x)
        elif pattern is None or pattern is iota(n):
            w.store(x, start, align)
        elif small_strides.are_near(pattern) and small_strides.stores(lo, pattern):
            small_strides.store(lo, x, start, pattern, align)
        elif (rows := short_rows.rows_of(pattern, [], n)) and not rows.uniform:
            short_rows.store(lo, x, rows, _firsts(lo, rows, start, pattern, t), align)
        else:
            at = w.lanes_of("i64", pattern.offsets)
            pointers = w.emit(vector(n, "ptr"), f"getelementptr {t}, ptr {start}, {at.typed}", start)
            intrinsics.scatter(lo, x, pointers, align)


def _firsts(lo: Lowering, rows: Rows, start: Val, pattern: Lanes, t: str) -> list[Val]:
    """The addresses of rows' first lanes."""
    return [lo.offset(t, start, pattern.offsets[lane]) for lane in rows.firsts(len(pattern.offsets))]
