"""The sanitizer's checks: one test of a whole tile where its extent is known, else a closer look by the runtime.

A check makes a tile of bits in scratch memory, which masks the access after it. Tiles with an affine form are looked
at by their corners first: where these lie in memory that nobody writes, that is all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from .... import ops
from ....analysis.affine import Form
from ....ir import types as T
from ....ir.core import Op, Value
from ...llvm.numbering import NumberingWriter
from ...llvm.rows import memory_type
from ...llvm.writer import Val, lanes, vector
from ..fuse.affine import form_of
from ..fuse.index import Index, chunks, width_of
from ..library import check as library
from . import loop_nests, scratch_chunks
from .function import Lowering
from .intrinsics import masked_gather
from .memory import Addresses, addresses_of
from .predication import mask_of
from .scratch import Buffer
from .table import statement

_UPDATE = library.flag("reads", "writes", "atomic")
_ROW = 2048  # the most lanes whose addresses are listed at once
_BYTES = 64  # of a mask that are filled at once
_FLAGS = {"load": library.flag("reads"), "store": library.flag("writes"), "atomic": _UPDATE, "swap": _UPDATE,
          "volatile": library.flag("reads", "atomic")}


@statement(ops.check, visits="some")
def _check(lo: Lowering, op: Op) -> None:
    context, p, *rest = op.operands
    mask = rest.pop(0) if op.attrs["masked"] else None
    look = _Look(lo, op, lo.scalar(context), _site(lo, op))
    if not T.shape(p.type):
        lo.values[op] = _one(look, p, mask, rest)
        return
    buffer = look.buffer = lo.allocate(op)
    if mask is None:
        scratch_chunks.fill_bytes(lo, buffer, 1)
    else:
        _copy(lo, mask, buffer)
    for index in rest:
        _fits(look, index)
    form = form_of(lo, p)
    if form.pointer is None or form.loose:
        _scattered(look, p)
    else:
        _affine(look, p, form)
    lo.buffers[op] = buffer


def _site(lo: Lowering, op: Op) -> Val:
    """The site's words, constants of the kernel."""
    access, size = op.attrs["access"], T.element(op.operands[1].type).pointee.bytes
    flags = _FLAGS[access] | (library.flag("foreign") if op.attrs["foreign"] else 0)
    return _words(lo, op, op.attrs["origin"], size, flags)


def _words(lo: Lowering, op: Op, origin: int = -1, size: int = 0, flags: int = 0) -> Val:
    """The words of an op's `library.SITE`."""
    return lo.w.string(struct.pack("<4q", op.attrs["site"], origin, size, flags))


class _Look:
    """What the parts of one check share."""

    def __init__(self, lo: Lowering, op: Op, context: Val, site: Val):
        self.lo, self.op, self.context, self.site = lo, op, context, site
        self.shape, self.size = T.shape(op.type), T.element(op.operands[1].type).pointee.bytes
        self.writes = bool(_FLAGS[op.attrs["access"]] & library.flag("writes"))
        self.buffer: Any = None  # of the mask, once there is one

    def call(self, name: str, *arguments: Val, result: str = "void") -> Val:
        """Call one of the runtime's checks."""
        return self.lo.w.call(result, f"tt.check.{name}", self.context, self.site, self.lo.program, *arguments)

    def outside(self, low: Val, high: Val) -> Val:
        """An i1: bytes from `low` to `high` (i64) may lie where a closer look is needed."""
        w = self.lo.w
        if self.op.attrs["origin"] < 0:
            return self.call("span", low, high, result="i1")
        least, most = self.extent()
        return w.binary("or", w.compare("icmp ult", low, least), w.compare("icmp ugt", high, most))

    def extent(self) -> list[Val]:
        """The addresses (i64) between which all is well: they are the same during a launch."""
        lo, w = self.lo, self.lo.w
        first = library.REGION.index("write_low" if self.writes else "read_low")
        at = (library.CONTEXT.size + self.op.attrs["origin"] * library.REGION.size) // 8 + first
        return [lo.cse(("extent", at + k), lambda k=k: w.load(
            "i64", w.gep("i64", self.context, w.const("i64", at + k)), at=0)) for k in range(2)]

    def lane(self, idx: Index) -> Val:
        """The number of an index's first lane in the tile."""
        return _lane(self.lo, idx, self.shape)

    def bits(self, idx: Index) -> Val:
        """Where the mask's bytes of a chunk lie."""
        return scratch_chunks.start_of(self.lo, self.buffer, idx)


def _lane(lo: Lowering, idx: Index, shape: Sequence[int]) -> Val:
    """The number of an index's first lane in a tile."""
    at = 0
    for (base, _), n in zip(idx, shape, strict=True):
        at = lo.add(lo.mul(at, n), base)
    return lo.const(at)


def _copy(lo: Lowering, mask: Value, buffer: Buffer) -> None:
    """Fill a mask with another. Rows of which the first lanes are active need no vectors of the mask's own width."""
    w, shape = lo.w, buffer.shape
    walk = chunks(shape, lo.width)
    if walk.inner != (len(shape) - 1,) or walk.total <= 2 * walk.width:
        loop_nests.fill(lo, [(mask, buffer)])
        return
    with walk.rows(lo) as at:
        first = walk.index(lo, at, 0)
        m = mask_of(lo, mask, first)
        high = None if m is None or m.base != 0 else m.end(lo)
        if high is None:
            with lo.counted(walk.total, walk.width) as base:
                idx = walk.index(lo, at, base)
                scratch_chunks.write(lo, buffer, idx, lo.ev(mask, idx))
            return
        row = scratch_chunks.start_of(lo, buffer, first)
        wide = min(_BYTES, walk.total & -walk.total)
        with lo.counted(walk.total, wide) as base:
            left = w.intrinsic("smax", "i64", w.binary("sub", high, lo.const(base)), lo.const(0))
            left = w.cast("trunc", w.intrinsic("smin", "i64", left, lo.const(wide)), "i8")
            on = w.compare("icmp ult", w.lanes_of("i8", range(wide)), lo.widen(left, wide))
            w.store(w.cast("zext", on, vector(wide, "i8")), w.gep("i8", row, lo.const(base)), 1)


# --- one element --------------------------------------------------------------------------------------------------
def _one(look: _Look, p: Value, mask: Value | None, indices: Sequence[Value]) -> Val:
    lo, w = look.lo, look.lo.w
    slot, pointer = lo.slot("check", 16), lo.scalar(p)
    on = w.const("i8", 1) if mask is None else w.cast("zext", lo.scalar(mask), "i8")
    w.store(on, slot)
    for index in indices:
        x = lo.scalar(index)
        with lo.when(_overflows(w, x), likely=False):
            wide = lo.slot("wide", 256)
            w.store(x, wide)
            look.call("wide", wide, lo.const(1), slot, lo.const(0))
    start = w.cast("ptrtoint", pointer, "i64")
    with lo.when(look.outside(start, w.binary("add", start, lo.const(look.size)))):
        look.call("row", pointer, lo.const(look.size), lo.const(1), slot, lo.const(0))
    if look.op.attrs["releases"]:
        w.call("void", "tt.check.release", look.context, lo.program, pointer)
    return w.compare("icmp ne", w.load("i8", slot), w.const("i8", 0))


def _overflows(w: NumberingWriter, x: Val) -> Val:
    """An i1, or a vector of them: a 64-bit index does not fit in 32 bits."""
    low = w.cast("trunc", x, vector(lanes(x.type), "i32"))
    return w.compare("icmp ne", w.cast("sext", low, x.type), x)


# --- tiles --------------------------------------------------------------------------------------------------------
def _hull(lo: Lowering, form: Form, shape: Sequence[int]) -> tuple[Any, Any]:
    """(least, largest) offset of an affine form from its base, i64 scalars."""
    low = high = 0
    for stride, n in zip(form.strides, shape, strict=True):
        reach = lo.mul(stride, n - 1)
        if type(reach) is int:
            low, high = lo.add(low, min(reach, 0)), lo.add(high, max(reach, 0))
        else:
            low = lo.add(low, lo.w.intrinsic("smin", "i64", reach, lo.const(0)))
            high = lo.add(high, lo.w.intrinsic("smax", "i64", reach, lo.const(0)))
    return low, high


def _fits(look: _Look, index: Value) -> None:
    """Leave out lanes whose index overflows."""
    lo, w = look.lo, look.lo.w
    form = form_of(lo, index)
    if form.loose:
        _fits_each(look, index)
        return
    low, high = _hull(lo, form, look.shape)
    ends = [lo.const(lo.add(form.base, end)) for end in (low, high)]
    beyond = w.binary("or", w.compare("icmp slt", ends[0], lo.const(-1 << 31)),
                      w.compare("icmp sgt", ends[1], lo.const((1 << 31) - 1)))
    with lo.when(beyond, likely=False), lo.inside():
        _fits_each(look, index)


def _fits_each(look: _Look, index: Value) -> None:
    lo, w = look.lo, look.lo.w
    with chunks(look.shape, lo.width).each(lo) as idx:
        x = lo.widen(lo.ev(index, idx), width_of(idx))
        with lo.when(lo.any_lane(_overflows(w, x)), likely=False):
            wide = lo.slot("wide", 256)
            w.store(x, wide, 8)
            look.call("wide", wide, lo.const(width_of(idx)), look.bits(idx), look.lane(idx))


def _affine(look: _Look, p: Value, form: Form) -> None:
    """A tile whose pointers have a form: its corners, then its rows."""
    lo, w, shape, size = look.lo, look.lo.w, look.shape, look.size
    element = memory_type(T.element(p.type).pointee)
    start = lo.offset(element, form.pointer, form.base)
    low, high = _hull(lo, form, shape)
    first = w.cast("ptrtoint", start, "i64")
    ends = [w.binary("add", first, lo.const(lo.mul(end, size))) for end in (low, lo.add(high, 1))]
    rows, step, mask_step = (1, 0, 0) if len(shape) == 1 else (shape[-2], form.strides[-2], look.buffer.strides[-2])
    with lo.when(look.outside(*ends)), lo.inside(), lo.loops(shape[:-2]) as at:
        offset = 0
        for i, stride in zip(at, form.strides):
            offset = lo.add(offset, lo.mul(i, stride))
        idx = tuple([(i, None) for i in (*at, 0, 0)[-len(shape):]])
        row = start if type(offset) is int and not offset else lo.offset(element, start, offset)
        look.call("rows", row, lo.const(lo.mul(step, size)), lo.const(rows), lo.const(lo.mul(form.strides[-1], size)),
                  lo.const(shape[-1]), look.bits(idx), lo.const(mask_step), look.lane(idx))


def _scattered(look: _Look, p: Value) -> None:
    """A tile of any pointers: chunks that are not plainly inside are looked at closely. Stores go to memory that is
    watched, as a rule, so they are looked at closely by whole rows."""
    lo, w = look.lo, look.lo.w
    walk = chunks(look.shape, lo.width)
    if look.writes and look.op.attrs["origin"] >= 0 and walk.inner == (len(look.shape) - 1,) and walk.total <= _ROW:
        with walk.rows(lo) as at:
            slot, first = lo.slot("row", 8 * _ROW), walk.index(lo, at, 0)
            with lo.counted(walk.total, walk.width) as base:
                idx = walk.index(lo, at, base)
                w.store(addresses_of(lo, p, idx, wrap=False).listed(), w.gep("i64", slot, lo.const(base)), 8)
            look.call("lanes", slot, lo.const(walk.total), look.bits(first), look.lane(first))
        return
    with walk.each(lo) as idx:
        place = addresses_of(lo, p, idx)
        with lo.when(_beyond(look, place), likely=False), lo.inside():
            slot = lo.slot("pointers")
            w.store(addresses_of(lo, p, idx, wrap=False).listed(), slot, 8)
            look.call("lanes", slot, lo.const(width_of(idx)), look.bits(idx), look.lane(idx))


def _beyond(look: _Look, place: Addresses) -> Val:
    """An i1: a chunk of addresses needs a closer look."""
    lo, w = look.lo, look.lo.w
    if place.kind != "scattered":
        first = w.cast("ptrtoint", place.pointer, "i64")
        length = look.size * (place.width if place.kind == "contiguous" else 1)
        out = look.outside(first, w.binary("add", first, lo.const(length)))
        if place.unbroken is not None:
            out = w.binary("or", out, w.binary("xor", place.unbroken, w.const("i1", True)))
        return out
    many = vector(place.width, "i64")
    addresses = w.cast("ptrtoint", place.listed(), many)
    if look.op.attrs["origin"] < 0:
        least, most = [w.intrinsic(f"vector.reduce.{end}", "i64", addresses, overload=(many,))
                       for end in ("umin", "umax")]
        return look.outside(least, w.binary("add", most, lo.const(look.size)))
    low, high = look.extent()
    last = w.binary("sub", high, lo.const(look.size))
    below = w.compare("icmp ult", addresses, lo.widen(low, place.width))
    above = w.compare("icmp ugt", addresses, lo.widen(last, place.width))
    out = lo.any_lane(w.binary("or", below, above))
    return w.binary("or", out, w.compare("icmp ugt", lo.const(look.size), high))  # an extent of nothing


# --- what was stored ----------------------------------------------------------------------------------------------
@statement(ops.verify, visits="some")
def _verify(lo: Lowering, op: Op) -> None:
    context, p, *_ = op.operands
    shape, form = T.shape(p.type), form_of(lo, p)
    overlap = None if form.pointer is None or form.loose else _overlaps(lo, form, shape)
    if overlap is not None and overlap == "false":
        return
    with lo.when(lo.w.const("i1", True) if overlap is None else overlap, likely=False), lo.inside():
        _compare(lo, op, lo.scalar(context), shape)


def _overlaps(lo: Lowering, form: Form, shape: Sequence[int]) -> Val:
    """An i1: lanes of an affine tile may be equal. Its axes are taken from the widest stride to the narrowest, in the
    order of the axes or the other way round."""
    w, axes = lo.w, [(lo.const(s), n) for s, n in zip(form.strides, shape) if n > 1]
    sizes = [(w.intrinsic("abs", "i64", s, w.const("i1", False)), n) for s, n in axes]

    def nested(order: Iterable[tuple[Val, int]]) -> Val:
        reach, total = lo.const(0), w.const("i1", True)
        for stride, n in order:
            total = w.binary("and", total, w.compare("icmp sgt", stride, reach))
            reach = w.binary("add", reach, w.binary("mul", stride, lo.const(n - 1)))
        return total
    if all(type(s) is int for s in form.strides):
        reach, ok = 0, True
        for s, n in sorted((abs(s), n) for s, n in zip(form.strides, shape) if n > 1):
            ok, reach = ok and s > reach, reach + s * (n - 1)
        return w.const("i1", not ok)
    fine = w.binary("or", nested(sizes[::-1]), nested(sizes))
    return w.binary("xor", fine, w.const("i1", True))


def _compare(lo: Lowering, op: Op, context: Val, shape: tuple[int, ...]) -> None:
    """Compare every active lane's element with what it stored."""
    w, (_, p, value, mask) = lo.w, op.operands
    t = T.element(value.type)
    site = _words(lo, op, size=t.bytes)
    with chunks(shape, lo.width).each(lo) as idx:
        n = width_of(idx)
        on, x = lo.widen(lo.ev(mask, idx), n), lo.widen(_bits(lo, lo.ev(value, idx), t), n)
        pointers = addresses_of(lo, p, idx, wrap=False).listed()
        bad = w.binary("and", on, w.compare("icmp ne", masked_gather(lo, pointers, on, x), x))
        with lo.when(lo.any_lane(bad), likely=False):
            slots = [lo.slot(name) for name in ("pointers", "wide", "differs")]
            w.store(pointers, slots[0], 8)
            w.store(x if t.bytes == 8 else w.cast("zext", x, vector(n, "i64")), slots[1], 8)
            w.store(w.cast("zext", bad, vector(n, "i8")), slots[2])
            w.call("void", "tt.check.stored", context, site, lo.program, slots[0], slots[1], lo.const(n), slots[2],
                   _lane(lo, idx, shape))


def _bits(lo: Lowering, x: Val, t: T.Scalar) -> Val:
    """The bytes of elements, as integers."""
    w, kind = lo.w, vector(lanes(x.type), f"i{8 * t.bytes}")
    if t is T.i1:
        return w.cast("zext", x, kind)
    if T.is_ptr(t):
        return w.cast("ptrtoint", x, kind)
    return x if x.type == kind else w.cast("bitcast", x, kind)


@statement(ops.demand)
def _demand(lo: Lowering, op: Op) -> None:
    if len(op.operands) == 1:  # not sanitized
        return
    w, x, context = lo.w, lo.scalar(op.operands[0]), lo.scalar(op.operands[1])
    rest = w.binary("and", x, lo.const(op.attrs["of"] - 1))
    with lo.when(w.compare("icmp ne", rest, lo.const(0)), likely=False):
        w.call("void", "tt.check.multiple", context, _words(lo, op), lo.program, x)


# --- moments ------------------------------------------------------------------------------------------------------
@statement(ops.notice)
def _notice(lo: Lowering, op: Op) -> None:
    context, *pointers = map(lo.scalar, op.operands)
    lo.w.call("void", f"tt.check.{op.attrs['moment']}", context, lo.program, *pointers)


@statement(ops.patience)
def _patience(lo: Lowering, op: Op) -> None:
    context = lo.scalar(op.operands[0])
    lo.values[op] = lo.w.call("i1", "tt.check.patience", context, _words(lo, op), lo.program)
