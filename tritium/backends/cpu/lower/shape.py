"""Ops that permute elements in ways that index arithmetic cannot express: they go through scratch memory."""

from __future__ import annotations

from collections.abc import Sequence

from .... import ops
from ....errors import CompilationError
from ....ir import types as T
from ....ir.core import Op
from ...llvm.rows import memory_type
from ...llvm.writer import Val, lanes, vector
from ..fuse.index import ZERO, Index, chunks, width_of
from . import intrinsics, loop_nests, scratch_chunks
from .function import Lowering
from .scratch import Buffer
from .table import pulled, statement


@statement(ops.reshape, ops.split)
def _to_scalars(lo: Lowering, op: Op) -> None:
    """A tile of one or two elements becomes scalars."""
    x, = op.operands
    for k, result in enumerate(op.results):
        idx: list[tuple] = [ZERO] * len(T.shape(x.type))
        if op.kind is ops.split:
            idx[-1] = (k, None)
        lo.values[result] = lo.ev(x, tuple(idx))


@statement(ops.extract, visits="some")
def _extract(lo: Lowering, op: Op) -> None:
    x, *index = op.operands
    lo.values[op] = lo.ev(x, tuple([(lo.index_of(lo.scalar(i), i.type), None) for i in index]))


@statement(ops.insert)
def _insert(lo: Lowering, op: Op) -> None:
    x, element, *index = op.operands
    buffer = lo.dying(x)
    if buffer is not None:
        buffer.users += 1
    else:
        buffer = lo.allocate(op)
        loop_nests.fill(lo, [(x, buffer)])
    idx = tuple([(lo.index_of(lo.scalar(i), i.type), None) for i in index])
    scratch_chunks.write(lo, buffer, idx, lo.scalar(element))
    lo.buffers[op] = buffer


@statement(ops.cat)
def _cat(lo: Lowering, op: Op) -> None:
    axis, buffer, start = op.attrs["axis"], lo.allocate(op), 0
    for x in op.operands:
        shape = T.shape(x.type)
        with chunks(shape, loop_nests.width_for(lo, shape, T.element(x.type))).each(lo) as idx:
            i, lane = idx[axis]
            scratch_chunks.write(lo, buffer, (*idx[:axis], (lo.add(i, start), lane), *idx[axis + 1:]), lo.ev(x, idx))
        start += shape[axis]
    lo.buffers[op] = buffer


@statement(ops.join)
def _join(lo: Lowering, op: Op) -> None:
    buffer, shape = lo.allocate(op), T.shape(op.operands[0].type)
    if not shape:
        for k, x in enumerate(op.operands):
            scratch_chunks.write(lo, buffer, ((k, None),), lo.scalar(x))
    else:
        with chunks(shape, loop_nests.width_for(lo, shape, T.element(op.type))).each(lo) as idx:
            pair = [lo.widen(lo.ev(x, idx), width_of(idx)) for x in op.operands]
            _interleave(lo, buffer, idx, pair)
    lo.buffers[op] = buffer


def _interleave(lo: Lowering, buffer: Buffer, idx: Index, pair: Sequence[Val]) -> None:
    """Write chunks of the two operands interleaved."""
    n = width_of(idx)
    if n == 1:
        for k, x in enumerate(pair):
            scratch_chunks.write(lo, buffer, (*idx, (k, None)), x)
        return
    picks = [l // 2 + n * (l % 2) for l in range(2 * n)]
    both = lo.w.shuffle(pair[0], pair[1], picks)
    if buffer.element is T.i1:
        both = lo.w.cast("zext", both, vector(2 * n, "i8"))
    lo.w.store(both, scratch_chunks.start_of(lo, buffer, (*idx, ZERO)), buffer.element.bytes)


@pulled(ops.gather)
def _gather(lo: Lowering, op: Op, idx: Index) -> Val:
    """Elements of a tile in scratch memory; indices out of bounds are clamped."""
    x, index = op.operands
    w, axis, buffer = lo.w, op.attrs["axis"], lo.force(x)
    i = lo.index_of(lo.ev(index, idx), T.element(index.type))
    size = T.shape(x.type)[axis]
    if type(i) is int:
        return scratch_chunks.read(lo, buffer, (*idx[:axis], (min(max(i, 0), size - 1), None), *idx[axis + 1:]))
    low, high = (w.const(i.type, v) for v in (0, size - 1))
    i = w.intrinsic("smin", i.type, w.intrinsic("smax", i.type, i, low), high)
    if lanes(i.type) == 1:
        return scratch_chunks.read(lo, buffer, (*idx[:axis], (i, None), *idx[axis + 1:]))
    n, t = lanes(i.type), memory_type(buffer.element)
    base, pattern = scratch_chunks.place(lo, buffer, (*idx[:axis], ZERO, *idx[axis + 1:]))
    stride = buffer.strides[axis]
    offsets = i if stride == 1 else w.binary("mul", i, w.const(i.type, stride))
    if pattern is not None:
        offsets = w.binary("add", offsets, w.lanes_of("i64", pattern.offsets))
    pointer = scratch_chunks.pointer(lo, buffer, base)
    pointers = w.emit(vector(n, "ptr"), f"getelementptr {t}, ptr {pointer}, {offsets.typed}", pointer, offsets)
    with lo.at(max(pointers.level, lo.region)):
        out = intrinsics.gather(lo, pointers, t, buffer.element.bytes)
    return w.compare("icmp ne", out, w.const(out.type, 0)) if buffer.element is T.i1 else out


_SORT = {T.bf16: "bf16", **dict.fromkeys((T.f8e5, T.f8e5b16, T.f8e4nv, T.f8e4b8, T.f8e4b15), "f8"), T.i1: "u8"}


@statement(ops.sort)
def _sort(lo: Lowering, op: Op) -> None:
    x, = op.operands
    buffer = lo.allocate(op)
    loop_nests.fill(lo, [(x, buffer)])
    _sort_rows(lo, op, buffer)
    lo.buffers[op] = buffer


@statement(ops.topk)
def _topk(lo: Lowering, op: Op) -> None:
    """Rows are sorted in a copy of the operand, whose beginnings are the result."""
    x, = op.operands
    rows = lo.arena.take(T.shape(x.type), T.element(x.type))
    loop_nests.fill(lo, [(x, rows)])
    _sort_rows(lo, op, rows)
    buffer, shape = lo.allocate(op), T.shape(op.type)
    with chunks(shape, loop_nests.width_for(lo, shape, T.element(op.type))).each(lo) as idx:
        scratch_chunks.write(lo, buffer, idx, scratch_chunks.read(lo, rows, idx))
    lo.arena.release(rows)
    lo.buffers[op] = buffer


def _sort_rows(lo: Lowering, op: Op, buffer: Buffer) -> None:
    """Put the elements of an op's result in order, at the beginning of the rows of a buffer."""
    *rows, n = buffer.shape
    if n & (n - 1):
        raise CompilationError(None, None, f"{op.kind.name} needs a last axis of a power of two, got {n}")
    t, numbers = T.element(op.type), (n, T.shape(op.type)[-1], int(op.attrs["descending"]))
    with lo.loops(rows) as at:
        start = scratch_chunks.start_of(lo, buffer, (*[(i, None) for i in at], ZERO))
        lo.w.call("void", f"tt.sort.{_SORT.get(t, t.name)}", start, *map(lo.const, numbers))


@statement(ops.histogram, visits="elements")
def _histogram(lo: Lowering, op: Op) -> None:
    """One element after the other."""
    x, *masks = op.operands
    mask = masks[0] if masks else None
    w, buffer, bins = lo.w, lo.allocate(op), op.attrs["bins"]
    size, = T.shape(x.type)
    with lo.counted(bins) as i:
        scratch_chunks.write(lo, buffer, ((i, None),), w.const("i32", 0))
    with lo.counted(size) as i:
        bin = lo.const(lo.index_of(lo.ev(x, ((i, None),)), T.element(x.type)))
        counts = w.compare("icmp ult", bin, lo.const(bins))
        if mask is not None:
            counts = w.binary("and", counts, lo.ev(mask, ((i, None),)))
        with lo.when(counts):
            place = w.gep("i32", lo.address(buffer), bin)
            w.store(w.binary("add", w.load("i32", place), w.const("i32", 1)), place)
    lo.buffers[op] = buffer
