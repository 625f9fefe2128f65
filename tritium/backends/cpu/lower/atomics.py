"""Atomics: LLVM's atomic instructions element by element, or plain chunks while no other thread runs programs."""

from __future__ import annotations

import math
from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ...llvm.numbering import NumberingWriter
from ...llvm.rows import ORDERINGS, atomic_name, llvm_type
from ...llvm.writer import Val
from ..fuse.index import Index, unravel
from . import plain_atomics, scratch_chunks
from .function import Lowering
from .memory import addresses_of
from .predication import mask_of
from .scratch import Buffer
from .table import statement

_ON_FAILURE = {"monotonic": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire"}


@statement(ops.atomic, visits="elements")
def _atomic(lo: Lowering, op: Op) -> None:
    t, how, order = T.element(op.type), op.attrs["how"], ORDERINGS[op.attrs["sem"]]
    in_f32 = how in ("add", "max", "min") and (t is T.bf16 or t is T.f16 and not lo.target.has_f16_convert)

    def update(idx: Index, pointer: Val) -> Val:
        x = lo.ev(op.operands[1], idx)
        if how in ("load", "store"):
            return _access(lo, how, pointer, x, t, order)
        return _by_swaps(lo, pointer, x, t, how, order) if in_f32 else \
            lo.w.effect(f"atomicrmw {atomic_name(how, t)} ptr {pointer}, {x.typed} {order}", x.type)

    def combined(old: Val, x: Val) -> Val:
        return _in_f32(lo.w, how, t, old, x) if in_f32 else _combined(lo.w, how, t, old, x)
    buffer = _old_values(lo, op)
    if plain_atomics.allowed(op):
        plain_atomics.if_alone(lo, lambda: plain_atomics.update(lo, op, buffer, combined, one_by_one=in_f32),
                               lambda: _each(lo, op, update, buffer))
    else:
        _each(lo, op, update, buffer)
    if buffer is not None:
        lo.buffers[op] = buffer


def _combined(w: NumberingWriter, how: str, t: T.Scalar, old: Val, x: Val) -> Val:
    """The new value of an element or a chunk."""
    if how == "xchg":
        return x
    if how in ("max", "min"):
        name = f"{how}num" if t.is_float else f"{'s' if t.signed else 'u'}{how}"
        return w.intrinsic(name, x.type, old, x)
    return w.binary("fadd" if how == "add" and t.is_float else how, old, x)


def _in_f32(w: NumberingWriter, how: str, t: T.Scalar, old: Val, x: Val) -> Val:
    """The new value of a 16-bit float, computed in f32.

    The second rounding, from f32, changes nothing: f32 has more than twice the digits.
    """
    kind = x.type  # bf16 is carried as its code
    from_code, to_code = (_from_bf16, _to_bf16) if t is T.bf16 else (_from_half, _to_half)
    both = [from_code(w, w.cast("bitcast", y, "i16")) for y in (old, x)]
    new = to_code(w, w.binary("fadd", *both) if how == "add" else w.intrinsic(f"{how}num", "float", *both))
    return w.cast("bitcast", new, kind)


def _access(lo: Lowering, how: str, pointer: Val, x: Val, t: T.Scalar, order: str) -> Val:
    """An atomic load or store, as an integer of the element's size."""
    w, kind = lo.w, x.type
    integer = kind if kind == "ptr" else f"i{8 * t.bytes}"
    if how == "load":
        found = w.effect(f"load atomic {integer}, ptr {pointer} {order}, align {t.bytes}", integer)
        return w.cast("bitcast", found, kind)
    bits = w.cast("bitcast", x, integer)
    w.effect(f"store atomic {bits.typed}, ptr {pointer} {order}, align {t.bytes}")
    return x


def _by_swaps(lo: Lowering, pointer: Val, x: Val, t: T.Scalar, how: str, order: str) -> Val:
    """Update a 16-bit float by a compare-and-swap loop on its encoding."""
    w, kind = lo.w, x.type
    x = w.cast("bitcast", x, "i16")
    first = w.effect(f"load atomic i16, ptr {pointer} monotonic, align 2", "i16")
    name, before = w.label("swap"), w.levels[-1].label
    w.jump(name)
    w.block(name)
    old = w.fresh("i16", len(w.levels) - 1)
    at = len(w.levels[-1].lines)
    new = _in_f32(w, how, t, old, x)
    pair = w.effect(f"cmpxchg ptr {pointer}, i16 {old}, i16 {new} {order} {_ON_FAILURE[order]}", "{ i16, i1 }")
    found, done = (w.emit(t, f"extractvalue {{ i16, i1 }} {pair}, {k}", pair) for k, t in enumerate(("i16", "i1")))
    w.levels[-1].lines.insert(at, f"  {old} = phi i16 [{first}, %{before}], [{found}, %{name}]")
    w.branch(done, f"{name}.done", name)
    w.block(f"{name}.done")
    return w.cast("bitcast", found, kind)


def _from_bf16(w: NumberingWriter, x: Val) -> Val:
    return w.cast("bitcast", w.binary("shl", w.cast("zext", x, "i32"), w.const("i32", 16)), "float")


def _to_bf16(w: NumberingWriter, x: Val) -> Val:
    """The nearest bf16, halves to even; NaN stays NaN."""
    bits = w.cast("bitcast", x, "i32")
    odd = w.binary("and", w.binary("lshr", bits, w.const("i32", 16)), w.const("i32", 1))
    rounded = w.binary("add", bits, w.binary("add", odd, w.const("i32", 0x7FFF)))
    picked = w.select(w.compare("fcmp uno", x, x), w.const("i32", 0x7FC00000), rounded)
    return w.cast("trunc", w.binary("lshr", picked, w.const("i32", 16)), "i16")


def _from_half(w: NumberingWriter, x: Val) -> Val:
    """A half moved into place is 2^-112 of its value, subnormal or not; infinities and NaN need the top exponent."""
    x = w.cast("zext", x, "i32")
    size = w.binary("shl", w.binary("and", x, w.const("i32", 0x7FFF)), w.const("i32", 13))
    scaled = w.binary("fmul", w.cast("bitcast", size, "float"), w.const("float", 2.0**112))
    special = w.compare("icmp uge", size, w.const("i32", 0x7C00 << 13))
    bits = w.select(special, w.binary("or", size, w.const("i32", 0x7F800000)), w.cast("bitcast", scaled, "i32"))
    sign = w.binary("shl", w.binary("and", x, w.const("i32", 0x8000)), w.const("i32", 16))
    return w.cast("bitcast", w.binary("or", bits, sign), "float")


def _to_half(w: NumberingWriter, x: Val) -> Val:
    """The nearest half, halves to even; NaN stays NaN."""
    bits = w.cast("bitcast", x, "i32")
    size = w.binary("and", bits, w.const("i32", 0x7FFFFFFF))
    odd = w.binary("and", w.binary("lshr", size, w.const("i32", 13)), w.const("i32", 1))
    rounded = w.binary("add", size, w.binary("add", odd, w.const("i32", 0xFFF)))
    code = w.binary("lshr", w.binary("sub", rounded, w.const("i32", 112 << 23)), w.const("i32", 13))
    # Beside one half, floats lie as far apart as subnormal halves.
    low = w.binary("fadd", w.cast("bitcast", size, "float"), w.const("float", 0.5))
    low = w.binary("sub", w.cast("bitcast", low, "i32"), w.const("i32", 0x3F000000))
    code = w.select(w.compare("icmp ult", size, w.const("i32", 113 << 23)), low, code)
    code = w.select(w.compare("icmp uge", size, w.const("i32", 0x477FF000)), w.const("i32", 0x7C00), code)
    code = w.select(w.compare("fcmp uno", x, x), w.const("i32", 0x7E00), code)
    sign = w.binary("and", w.binary("lshr", bits, w.const("i32", 16)), w.const("i32", 0x8000))
    return w.cast("trunc", w.binary("or", code, sign), "i16")


@statement(ops.atomic_cas, visits="elements")
def _cas(lo: Lowering, op: Op) -> None:
    _, expected, v = op.operands
    t, order, w = T.element(op.type), ORDERINGS[op.attrs["sem"]], lo.w
    code = llvm_type(t)
    integer = code if code[0] in "ip" else f"i{t.bits}"

    def update(idx: Index, pointer: Val) -> Val:
        x, y = (w.cast("bitcast", lo.ev(z, idx), integer) for z in (expected, v))
        orders = f"{order} {_ON_FAILURE[order]}"
        pair = w.effect(f"cmpxchg ptr {pointer}, {x.typed}, {y.typed} {orders}", f"{{ {integer}, i1 }}")
        return w.cast("bitcast", w.emit(integer, f"extractvalue {pair.type} {pair}, 0", pair), code)
    buffer = _old_values(lo, op)
    _each(lo, op, update, buffer)
    if buffer is not None:
        lo.buffers[op] = buffer


def _old_values(lo: Lowering, op: Op) -> Buffer | None:
    """A buffer for the old values of a tile if they are used, else None."""
    wanted = lo.scope.last_use(op) > lo.now
    return lo.allocate(op) if T.shape(op.type) and wanted else None


def _each(lo: Lowering, op: Op, update: Callable[[Index, Val], Val], buffer: Buffer | None) -> None:
    """Update every active element; the old values are written to `buffer` if given."""
    shape = T.shape(op.type)
    with lo.counted(math.prod(shape)) as i:
        idx = tuple(unravel(lo, (i, None), shape)) if shape else ()
        place, m = addresses_of(lo, op.pointer, idx), mask_of(lo, op.mask, idx)
        if m is None:
            old = update(idx, place.pointer)
        else:
            nothing = lo.w.const(llvm_type(T.element(op.type)), 0)
            old, = lo.either(m.condition, lambda: [update(idx, place.pointer)], lambda: [nothing])
        if buffer is not None:
            scratch_chunks.write(lo, buffer, idx, old)
    if not shape:
        lo.values[op] = old
