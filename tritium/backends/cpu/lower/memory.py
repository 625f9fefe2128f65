"""Loads and stores of chunks, full and masked.

A chunk's address is a scalar if its pointers have an affine form (affine.py): contiguous lanes are one vector access,
uniform ones a single access outside the inner loop. A chunk inside its mask is accessed without it; other chunks take a
cold path. (a + arange) % n is contiguous where it does not wrap. A run-time stride may be 0 or 1, which is tested.
Lanes with small constant strides are shuffled (small_strides.py), short rows accessed one by one (short_rows.py), and
only what is left is gathered or scattered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.affine import Form, Loose, is_uniform
from ....ir import types as T
from ....ir.core import Op, Value
from ....named_tuples import NamedTuple
from ...llvm.rows import memory_type
from ...llvm.writer import Val, lanes, vector
from ..fuse.affine import form_of, loose_index, usual_stride
from ..fuse.index import Index, Lanes, iota, lanes_of, plus, width_of
from ..fuse.uniform_quotients import numbers
from . import intrinsics, short_rows, small_strides
from .predication import Mask, mask_of
from .short_rows import Rows
from .table import pulled, statement

if TYPE_CHECKING:
    from .function import Lowering


# --- addresses ---------------------------------------------------------------------------------------------------
class Addresses(NamedTuple):
    """The addresses of a chunk's lanes: "contiguous" from `pointer` on, all at `pointer` ("uniform"), or "scattered".

    `unbroken` is None or a condition (i1) for a chunk to be contiguous; `listed()` returns a vector of pointers. Of
    scattered lanes with the same distance, `stride` is that distance in elements, if it is a run-time number; `near` is
    their constant offsets, if they have such and are near each other; `starts()` returns the pointers of their `rows`.
    """

    kind: str
    pointer: Val
    width: int
    level: int
    listed: Callable[[], Val]
    unbroken: Val | None = None
    stride: Val | None = None
    near: Lanes | None = None
    rows: Rows | None = None
    starts: Callable[[], list[Val]] = list

    @property
    def row_vectors(self) -> Rows | None:
        """The rows, if each is a vector in memory."""
        return None if self.rows is None or self.rows.uniform else self.rows


class Offsets(NamedTuple):
    """Offsets of the lanes that are known at run time: of all as a vector, and of one.

    Lanes that are alike in all `patterns` have the same.
    """

    vector: Val
    patterns: list[Lanes]
    of: Callable[[int], int | Val]


def addresses_of(lo: Lowering, p: Value, idx: Index, wrap: bool = True) -> Addresses:
    """The addresses in a chunk of a tile of pointers."""
    form, n = form_of(lo, p), width_of(idx)
    if form.pointer is None:
        pointers = lo.ev(p, idx)
        kind = "scattered" if lanes(pointers.type) > 1 else "uniform"
        return Addresses(kind, pointers, n, pointers.level, lambda: lo.widen(pointers, n))
    terms, fixed, vectors, unbroken = _terms(lo, form, idx, wrap)
    if unbroken is not None and (vectors or fixed is not iota(n)):  # not contiguous in any case
        return addresses_of(lo, p, idx, wrap=False)
    element = memory_type(T.element(p.type).pointee)
    pointer = form.pointer
    level_of = lambda x: x.level if type(x) is Val else 0
    terms = sorted([x for x in terms if x != 0], key=level_of)
    if lo.runs and terms:  # of the deepest level, one sum, which other chunks of the run share
        deepest = [x for x in terms if level_of(x) == level_of(terms[-1])]
        terms = [*terms[:len(terms) - len(deepest)], functools.reduce(lo.add, deepest)]
    for term in terms:
        pointer = lo.offset(element, pointer, term)
    level = max([x.level for x in (pointer, unbroken, *[v.vector for v in vectors]) if x is not None])

    def listed():
        return _listed(lo, pointer, element, fixed, vectors, n)
    if vectors or fixed is not None and fixed is not iota(n):
        stride = _stride(form, idx) if fixed is None and len(vectors) == 1 else None
        rows = short_rows.rows_of(fixed, [pattern for v in vectors for pattern in v.patterns], n)
        few = rows is not None and n <= _FEW * rows.size
        known = fixed is not None and not vectors and small_strides.are_near(fixed) and not few

        def start(lane: int) -> Val:
            offsets = [fixed.offsets[lane] if fixed else 0, *[v.of(lane) for v in vectors]]
            return functools.reduce(functools.partial(lo.offset, element), [x for x in offsets if x != 0], pointer)
        firsts = rows.firsts(n) if rows else range(0)
        return Addresses("scattered", pointer, n, level, listed, stride=stride, near=fixed if known else None,
                         rows=None if known else rows, starts=lambda: [start(lane) for lane in firsts])
    return Addresses("uniform" if fixed is None else "contiguous", pointer, n, level, listed, unbroken)


def _stride(form: Form, idx: Index) -> Val | None:
    """The run-time distance of neighbouring lanes, where that is all in which their pointers differ."""
    strides = [(lane, stride) for (_, lane), stride in zip(idx, form.strides) if lane is not None and stride != 0]
    (lane, stride), *others = strides or [(None, None)]
    return stride if type(stride) is Val and not others and lane is iota(width_of(idx)) else None


_FEW = 4  # rows that are loaded one by one, and not picked from vectors, where these would do


def _terms(lo: Lowering, form: Form, idx: Index,
           wrap: bool) -> tuple[list[Any], Lanes | None, list[Offsets], Val | None]:
    """(uniform terms, constant offsets of the lanes, others, condition for a contiguous chunk)."""
    terms, fixed, vectors, unbroken = [form.base], None, [], None
    for (base, lane), stride in zip(idx, form.strides, strict=True):
        terms.append(lo.mul(base, stride))
        if lane is None or stride == 0:
            continue
        if type(stride) is int:
            fixed = plus(fixed, [stride * o for o in lane.offsets])
        else:
            all_lanes = times(lo, lo.w.lanes_of("i64", lane.offsets), stride)
            vectors.append(Offsets(all_lanes, [lane], functools.partial(_along, lo, lane, stride)))
    for loose in form.loose:
        at = loose_index(lo, loose, idx)
        if loose.value in lo.pending:  # all its elements are written to scratch, not only those below
            lo.ev(loose.value, at)
        found = numbers(lo, loose.value, at) if type(loose.scale) is int else None
        if found is not None:
            first, offsets = found
            terms.append(lo.mul(first, loose.scale))
            fixed = plus(fixed, [loose.scale * o for o in offsets])
            continue
        wrapped = _wrapped(lo, loose, at) if wrap and unbroken is None and lo.run_end is None else None
        if wrapped is not None:
            first, unbroken = wrapped
            terms.append(first)
            fixed = plus(fixed, range(width_of(idx)))
            continue
        x = lo.index_of(lo.ev(loose.value, at), T.element(loose.value.type))
        if type(x) is Val and lanes(x.type) > 1:
            vectors.append(Offsets(times(lo, x, loose.scale), [lane for _, lane in at if lane is not None],
                                   functools.partial(_picked, lo, x, loose.scale)))
        else:
            terms.append(lo.mul(x, loose.scale))
    return terms, lanes_of(fixed) if fixed else None, vectors, unbroken


def _along(lo: Lowering, lanes: Lanes, stride: Val, lane: int) -> int | Val:
    """The offset of a lane along an axis with a run-time stride."""
    return lo.mul(stride, lanes.offsets[lane])


def _picked(lo: Lowering, x: Val, scale: int | Val, lane: int) -> int | Val:
    """The offset of a lane by its element of a vector of indices."""
    return lo.mul(lo.w.extract(x, lane), scale)


def _wrapped(lo: Lowering, loose: Loose, at: Index) -> tuple[Val, Val] | None:
    """(x % n of the first lane, whether it does not wrap in the others), for x that is contiguous along the lanes.

    The remainder is computed once, at the start of the axis; along the axis it wraps at most once if the axis is not
    longer than n. None if `loose` is no such remainder.
    """
    x = loose.value
    if type(x) is not Op or x.kind is not ops.rem or type(loose.scale) is not int or loose.scale != 1:
        return None
    top, n = (form_of(lo, y) for y in x.operands)
    axes = [(axis, base, lane) for axis, (base, lane) in enumerate(at) if lane is not None]
    if top.loose or not is_uniform(n) or x in lo.buffers or lo.fills(x) or len(axes) != 1:
        return None
    ((axis, base, lane),), w = axes, lo.w
    stride, limit = top.strides[axis], lo.const(n.base)
    if type(stride) is not int or stride != 1 or lane is not iota(len(lane.offsets)):
        return None
    start = lo.ev(x, tuple([(b, None) if a != axis else (0, None) for a, (b, _) in enumerate(at)]))
    start = lo.const(lo.index_of(start, T.element(x.type)))
    once = w.binary("and", w.compare("icmp sge", start, lo.const(0)),
                    w.compare("icmp sge", limit, lo.const(T.shape(x.type)[axis])))
    place = lo.const(lo.add(start, base))
    again = w.compare("icmp sge", place, limit)
    place = w.select(again, w.binary("sub", place, limit), place)
    inside = w.compare("icmp sle", w.binary("add", place, lo.const(len(lane.offsets))), limit)
    return place, w.binary("and", inside, once)


def times(lo: Lowering, x: Val, by: int | Val) -> Val:
    """A vector of i64 times a scalar."""
    if type(by) is int and by == 1:
        return x
    return lo.w.binary("mul", x, lo.widen(lo.const(by), lanes(x.type)))


def _listed(lo: Lowering, pointer: Val, element: str, fixed: Lanes | None, vectors: Sequence[Offsets],
            n: int) -> Val:
    """A pointer for each lane."""
    w = lo.w
    offsets = [w.lanes_of("i64", fixed.offsets)] if fixed is not None else []
    if not offsets and not vectors:
        return lo.widen(pointer, n)
    total = functools.reduce(lambda x, y: w.binary("add", x, y), (*offsets, *[v.vector for v in vectors]))
    return w.emit(vector(n, "ptr"), f"getelementptr {element}, ptr {pointer}, {total.typed}", pointer, total)


# --- loads ------------------------------------------------------------------------------------------------------
@pulled(ops.load)
def _load(lo: Lowering, op: Op, idx: Index) -> Val:
    mask, other = op.mask, op.operands[2] if len(op.operands) > 2 else None
    t = T.element(op.types[0])
    if mask in lo.denied:
        x = _other(lo, other, t, idx)
        return lo.w.compare("icmp ne", x, lo.w.const(x.type, 0)) if t is T.i1 else x
    place = addresses_of(lo, op.pointer, idx)
    m = mask_of(lo, mask, idx, ends=place.kind != "uniform" or mask is not None)
    if place.kind == "contiguous" and place.width > 4 or place.row_vectors is not None:
        _prefetch_rows(lo, op, place)
    if lo.bytes_ahead and place.kind == "contiguous" and place.width * t.bytes >= _LINE:
        _prefetch_along(lo, place)
    if m is None and place.unbroken is None:
        with lo.at(max(place.level, lo.region)):
            x = _read(lo, place, t, "volatile " if op.attrs["volatile"] else "")
    else:
        x = _masked_load(lo, op, place, m or Mask(place.width), _other(lo, other, t, idx), idx)
    return lo.w.compare("icmp ne", x, lo.w.const(x.type, 0)) if t is T.i1 else x


@statement(ops.load)
def _volatile_load(lo: Lowering, op: Op) -> None:
    """A volatile tile is loaded in program order, once."""
    lo.force(op)


def _prefetch_rows(lo: Lowering, op: Op, place: Addresses) -> None:
    """Prefetch some rows ahead: the hardware prefetcher does not follow rows far apart."""
    rows = lo.rows_ahead.get(op, _ROWS_AHEAD)
    shape, form, t = T.shape(op.type), form_of(lo, op.pointer), T.element(op.type)
    along = contiguous(form.strides, shape)
    axes = [axis for axis, n in enumerate(shape) if n > 1 and axis != along]
    stride = usual_stride(lo, form, axes[-1]) if axes else 0
    if rows == 0 or type(stride) is int and abs(stride) * t.bytes <= _NEXT:
        return
    distance = lo.const(lo.mul(stride, rows))
    for start in place.starts() or [place.pointer]:
        ahead = lo.w.gep(memory_type(t), start, distance)
        for line in range(0, place.width * t.bytes if place.rows is None else 1, _LINE):
            _prefetch_at(lo, lo.w.gep("i8", ahead, lo.const(line)) if line else ahead)


def _prefetch_along(lo: Lowering, place: Addresses) -> None:
    """Prefetch a few chunks ahead of a long row that is read together with others."""
    _prefetch_at(lo, lo.w.gep("i8", place.pointer, lo.const(lo.bytes_ahead)))


def _prefetch_at(lo: Lowering, pointer: Val) -> None:
    lo.w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    with lo.at(pointer.level):
        lo.w.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


_ROWS_AHEAD = 8
_NEXT = 512  # bytes between rows that the hardware prefetcher takes for one
_LINE = 64  # bytes of a cache line


def _other(lo: Lowering, other: Value | None, t: T.Scalar, idx: Index) -> Val:
    """The values of masked-off lanes."""
    w = lo.w
    if other is None:
        return w.const(memory_type(t), 0)
    x = lo.ev(other, idx)
    return w.cast("zext", x, vector(lanes(x.type), "i8")) if t is T.i1 else x


def _read(lo: Lowering, place: Addresses, t: T.Scalar, volatile: str = "") -> Val:
    """All lanes of a chunk, loaded at the current position: a load must not be hoisted above the test of its mask."""
    m = memory_type(t)
    if place.kind == "scattered":
        if place.near is not None:
            return small_strides.load(lo, place.pointer, place.near, m, t.bytes)
        if place.rows is not None:
            return short_rows.load(lo, place.rows, place.starts(), m, t.bytes)
        every = lambda: intrinsics.gather(lo, place.listed(), m, t.bytes)
        return every() if place.stride is None else _read_strided(lo, place, place.stride, t, every)
    out = vector(place.width, m) if place.kind == "contiguous" else m
    return lo.w.effect(f"load {volatile}{out}, ptr {place.pointer}, align {t.bytes}", out)


def _read_strided(lo: Lowering, place: Addresses, stride: Val, t: T.Scalar, every: Callable[[], Val]) -> Val:
    """All lanes of a chunk with a run-time stride: 0 in tensors that are broadcast, 1 in rows, and else any."""
    few = lo.w.compare("icmp ule", stride, lo.const(1))
    one = lambda: lo.widen(_read(lo, place._replace(kind="uniform"), t), place.width)
    row = lambda: _read(lo, place._replace(kind="contiguous"), t)
    near = lambda: lo.either(lo.w.compare("icmp eq", stride, lo.const(0)), lambda: [one()], lambda: [row()])
    return lo.either(few, near, lambda: [every()])[0]


def _masked_load(lo: Lowering, op: Op, place: Addresses, mask: Mask, other: Val, idx: Index) -> Val:
    level, t = max(place.level, mask.level(), other.level), T.element(op.type)
    n = place.width
    if not mask.in_lanes and place.unbroken is None:  # all lanes or none
        wide = lanes(other.type) if place.kind == "uniform" else n
        with lo.at(level):
            return lo.either(mask.condition, lambda: [lo.widen(_read(lo, place, t), wide)],
                             lambda: [lo.widen(other, wide)], likely=True if n > 1 else None)[0]
    other = lo.widen(other, n)
    if place.kind == "uniform":  # one element, read by some lanes
        with lo.at(level):
            some = lo.w.compare("icmp ne", mask.bits(lo), lo.const(0))
            x, = lo.either(some, lambda: [_read(lo, place, t)], lambda: [lo.w.const(memory_type(t), 0)])
            return lo.w.select(mask.lanes(lo), lo.widen(x, n), other)
    if lo.target.simd == "avx512" and place.kind == "contiguous" and place.unbroken is None \
            and (lo.by_lane or mask.each is not None):
        with lo.at(level):
            return _native_load(lo, place, t, mask, other)
    full = lo.w.all_of(mask.all_lanes(lo), place.unbroken)

    def some_lanes():
        return [_load_some(lo, place, t, mask, other) if place.unbroken is None else _load_each(lo, op, other, idx)]
    with lo.at(max(level, full.level)):
        return lo.either(full, lambda: [_read(lo, place, t)], some_lanes, True)[0]


def _load_some(lo: Lowering, place: Addresses, t: T.Scalar, mask: Mask, other: Val) -> Val:
    """The active lanes; the others are `other`."""
    if place.kind == "contiguous" and lo.target.masked:
        return _native_load(lo, place, t, mask.pinned(lo), other)
    if place.row_vectors is not None and lo.target.masked:
        return short_rows.load_some(lo, place.row_vectors, place.starts(), mask.pinned(lo).lanes(lo), other, t.bytes)
    if place.near is not None and (lo.target.simd == "avx512" or lo.target.masked and t.bytes >= 4):
        inside = mask.pinned(lo).lanes(lo)
        x = small_strides.load(lo, place.pointer, place.near, memory_type(t), t.bytes, mask=inside)
        return lo.w.select(inside, x, other)
    if t.bytes >= 4 and lo.target.simd == "avx512" and "prefer-no-gather" not in lo.target.features:
        return intrinsics.masked_gather(lo, place.listed(), mask.pinned(lo).lanes(lo), other)
    chunk = _move_some(lo, place, t, mask, other, reads=True, partial=True)
    return lo.w.load(other.type, chunk, t.bytes)


def _move_some(lo: Lowering, place: Addresses, t: T.Scalar, mask: Mask, x: Val, reads: bool, partial: bool) -> Val:
    """Write `x` to a slot, and have the runtime load active lanes to it, or store them from it; returns the slot."""
    w, chunk = lo.w, lo.slot("chunk")
    count = mask.count(lo) if place.kind == "contiguous" else None
    bits: Any = mask.bits(lo, partial) if count is None else None
    w.store(x, chunk, t.bytes)
    if count is not None:
        w.call("void", f"tt.copy.{t.bytes}", *((chunk, place.pointer) if reads else (place.pointer, chunk)), count)
    elif place.kind == "contiguous":
        name = "load" if reads else "store"
        w.call("void", f"tt.{name}.{t.bytes}", chunk, place.pointer, bits, lo.const(t.bytes))
    else:
        w.store(place.listed(), lo.slot("pointers"), 8)
        name = "gather" if reads else "scatter"
        w.call("void", f"tt.{name}.{t.bytes}", chunk, lo.slot("pointers"), bits)
    return chunk


def _load_each(lo: Lowering, op: Op, other: Val, idx: Index) -> Val:
    """A chunk that wraps, lane by lane."""
    w, chunk, t = lo.w, lo.slot("chunk"), memory_type(T.element(op.type))
    w.store(other, chunk, T.element(op.type).bytes)

    def load(place: Addresses, lane: Val) -> None:
        w.store(w.load(t, place.pointer), w.gep(t, chunk, lane))
    _each_lane(lo, op, idx, load)
    return w.load(other.type, chunk, T.element(op.type).bytes)


def _each_lane(lo: Lowering, op: Op, idx: Index, access: Callable[[Addresses, Val], None]) -> None:
    """`access(place, lane)` for the active lanes of a load or store, one by one."""
    with lo.loop(0, width_of(idx)) as loop:
        at = tuple([(b if lane is None else lo.add(b, loop.index), None) for b, lane in idx])
        place, m = addresses_of(lo, op.pointer, at), mask_of(lo, op.mask, at)
        if m is None:
            access(place, loop.index)
        else:
            with lo.when(m.condition):
                access(place, loop.index)


def _native_load(lo: Lowering, place: Addresses, t: T.Scalar, mask: Mask, other: Val) -> Val:
    return intrinsics.masked(lo, "load", f"ptr align {t.bytes} {place.pointer}", "p0", mask.lanes(lo), other)


# --- stores -----------------------------------------------------------------------------------------------------
def store_order(lo: Lowering, stores: Sequence[Op]) -> tuple[int, ...] | None:
    """The loop order of the axes: the axis along which the first store is contiguous is innermost."""
    shape = T.shape(stores[0].operands[0].type)
    axis = contiguous(form_of(lo, stores[0].operands[0]).strides, shape)
    last = len(shape) - 1
    if axis is None or axis == last or shape[axis] < 4:
        return None
    return (*[a for a in range(last + 1) if a != axis], axis)


def contiguous(strides: Sequence[Any], shape: Sequence[int]) -> int | None:
    """The last axis with stride 1; None if there is none."""
    axes = [a for a, s in enumerate(strides) if type(s) is int and s == 1 and shape[a] > 1]
    return axes[-1] if axes else None


def prepare_store(lo: Lowering, op: Op, idx: Index, x: Val | None = None) -> Callable[[], None]:
    """Compute the addresses and value (unless given) of a chunk; returns a function that emits the store."""
    mask = op.mask
    if mask in lo.denied:
        return lambda: None
    t = T.element(op.operands[1].type)
    x = lo.ev(op.operands[1], idx) if x is None else x
    if t is T.i1:
        x = lo.w.cast("zext", x, vector(lanes(x.type), "i8"))
    place, m = addresses_of(lo, op.pointer, idx), mask_of(lo, mask, idx, ends=True)
    return lambda: _store(lo, op, place, m, x, idx)


@statement(ops.store)
def _store_scalar(lo: Lowering, op: Op) -> None:
    prepare_store(lo, op, ())()


def _store(lo: Lowering, op: Op, place: Addresses, mask: Mask | None, x: Val, idx: Index) -> None:
    w, n, t = lo.w, place.width, T.element(op.operands[1].type)
    if place.kind == "uniform" and (mask is None or not mask.in_lanes):
        x = w.extract(x, n - 1) if lanes(x.type) > 1 else x  # all lanes store to one element: the last wins
        if mask is None:
            w.store(x, place.pointer, t.bytes)
            return
        with lo.when(mask.condition):
            w.store(x, place.pointer, t.bytes)
        return
    x = lo.widen(x, n)
    if mask is not None and not mask.in_lanes and place.unbroken is None:  # all lanes or none
        with lo.when(mask.condition, likely=True):
            _store_all(lo, place, t, x)
        return
    native = mask is not None and lo.target.simd == "avx512" and place.kind == "contiguous" and place.unbroken is None \
        and (lo.by_lane or mask.each is not None)
    mask = mask or Mask(n)
    if place.kind == "uniform":
        _store_some(lo, place, t, mask, x)
    elif native:
        _native_store(lo, place, t, mask, x)
    else:
        full = w.all_of(mask.all_lanes(lo), place.unbroken)

        def some_lanes():
            if place.unbroken is None:
                _store_some(lo, place, t, mask, x, partial=True)
            else:
                _store_each(lo, op, x, idx)
        if full is None:
            _store_all(lo, place, t, x)
        else:
            lo.either(full, lambda: _store_all(lo, place, t, x), some_lanes, True)


def _store_all(lo: Lowering, place: Addresses, t: T.Scalar, x: Val) -> None:
    if place.kind == "contiguous":
        lo.w.store(x, place.pointer, t.bytes)
    elif place.near is not None and small_strides.stores(lo, place.near):
        small_strides.store(lo, x, place.pointer, place.near, t.bytes)
    elif place.row_vectors is not None:
        short_rows.store(lo, x, place.row_vectors, place.starts(), t.bytes)
    else:
        each = lambda: intrinsics.scatter(lo, x, place.listed(), t.bytes)
        if place.stride is None:
            each()
        else:
            row = lo.w.compare("icmp eq", place.stride, lo.const(1))
            lo.either(row, lambda: lo.w.store(x, place.pointer, t.bytes), each)


def _store_some(lo: Lowering, place: Addresses, t: T.Scalar, mask: Mask, x: Val, partial: bool = False) -> None:
    if place.kind == "contiguous" and lo.target.masked:
        _native_store(lo, place, t, mask.pinned(lo), x)
    elif place.row_vectors is not None and lo.target.masked:
        short_rows.store_some(lo, x, place.row_vectors, place.starts(), mask.pinned(lo).lanes(lo), t.bytes)
    else:
        _move_some(lo, place, t, mask, x, reads=False, partial=partial)


def _store_each(lo: Lowering, op: Op, x: Val, idx: Index) -> None:
    w, chunk, t = lo.w, lo.slot("chunk"), T.element(op.operands[1].type)
    w.store(x, chunk, t.bytes)

    def store(place: Addresses, lane: Val) -> None:
        m = memory_type(t)
        w.store(w.load(m, w.gep(m, chunk, lane)), place.pointer)
    _each_lane(lo, op, idx, store)


def _native_store(lo: Lowering, place: Addresses, t: T.Scalar, mask: Mask, x: Val) -> None:
    intrinsics.masked(lo, "store", f"ptr align {t.bytes} {place.pointer}", "p0", mask.lanes(lo), x)
