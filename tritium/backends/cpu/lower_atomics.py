"""Atomics: one element at a time, by LLVM's atomic instructions."""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ..llvm.rows import llvm_type
from . import scratch_strips
from .index import unravel
from .lower_masks import mask_of
from .lower_memory import place_of
from .table import step

__all__ = []

_ORDER = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_ON_FAILURE = {"monotonic": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire"}


@step(ops.atomic)
def _atomic(lo, op):
    p, v, mask = (*op.operands, None)[:3]
    t, order = T.element(op.type), _ORDER[op.attrs["sem"]]

    def update(idx, pointer):
        x = lo.ev(v, idx)
        return _float_code(lo, pointer, x, op.attrs["how"], order) if t is T.bf16 and op.attrs["how"] != "xchg" else \
            lo.w.effect(f"atomicrmw {_opcode(op.attrs['how'], t)} ptr {pointer}, {x.typed} {order}", x.type)
    _each(lo, op, p, mask, update)


def _opcode(how, t):
    if how in ("add", "max", "min") and t.is_float:
        return f"f{how}"
    return f"u{how}" if how in ("max", "min") and not t.signed else how


def _float_code(lo, pointer, x, how, order):
    """Combine with a bf16 that is carried as its code: compare and swap until nobody came between."""
    w = lo.w
    first = w.effect(f"load atomic i16, ptr {pointer} monotonic, align 2", "i16")
    name, before = w.label("swap"), w.levels[-1].label
    w.jump(name)
    w.block(name)
    old = w.fresh("i16", len(w.levels) - 1)
    at = len(w.levels[-1].lines)
    both = _from_code(w, old), _from_code(w, x)
    new = _to_code(w, w.binary("fadd", *both) if how == "add" else w.intrinsic(f"{how}num", "float", *both))
    pair = w.effect(f"cmpxchg ptr {pointer}, i16 {old}, i16 {new} {order} {_ON_FAILURE[order]}", "{ i16, i1 }")
    found, done = (w.emit(t, f"extractvalue {{ i16, i1 }} {pair}, {k}", pair) for k, t in enumerate(("i16", "i1")))
    w.levels[-1].lines.insert(at, f"  {old} = phi i16 [{first}, %{before}], [{found}, %{name}]")
    w.branch(done, f"{name}.done", name)
    w.block(f"{name}.done")
    return found


def _from_code(w, x):
    return w.cast("bitcast", w.binary("shl", w.cast("zext", x, "i32"), w.const("i32", 16)), "float")


def _to_code(w, x):
    """The nearest bf16, halves to even; NaN stays NaN."""
    bits = w.cast("bitcast", x, "i32")
    odd = w.binary("and", w.binary("lshr", bits, w.const("i32", 16)), w.const("i32", 1))
    rounded = w.binary("add", bits, w.binary("add", odd, w.const("i32", 0x7FFF)))
    picked = w.select(w.compare("fcmp uno", x, x), w.const("i32", 0x7FC00000), rounded)
    return w.cast("trunc", w.binary("lshr", picked, w.const("i32", 16)), "i16")


@step(ops.atomic_cas)
def _cas(lo, op):
    p, expected, v = op.operands
    t, order, w = T.element(op.type), _ORDER[op.attrs["sem"]], lo.w
    code = llvm_type(t)
    integer = code if code[0] in "ip" else f"i{t.bits}"

    def update(idx, pointer):
        x, y = (w.cast("bitcast", lo.ev(z, idx), integer) for z in (expected, v))
        orders = f"{order} {_ON_FAILURE[order]}"
        pair = w.effect(f"cmpxchg ptr {pointer}, {x.typed}, {y.typed} {orders}", f"{{ {integer}, i1 }}")
        return w.cast("bitcast", w.emit(integer, f"extractvalue {pair.type} {pair}, 0", pair), code)
    _each(lo, op, p, None, update)


def _each(lo, op, p, mask, update):
    """Update every element that takes part; the old values go to scratch if somebody wants them."""
    shape = T.shape(op.type)
    wanted = lo.plan.last.get(lo.key(op), -1) > lo.now
    room = lo.room(op) if shape and wanted else None
    total = 1
    for n in shape:
        total *= n
    with lo.counted(total) as i:
        idx = tuple(unravel(lo, (i, None), shape)) if shape else ()
        place, m = place_of(lo, p, idx), mask_of(lo, mask, idx)
        if m is None:
            old = update(idx, place.pointer)
        else:
            nothing = lo.w.const(llvm_type(T.element(op.type)), 0)
            old, = lo.either(m.condition, lambda: [update(idx, place.pointer)], lambda: [nothing])
        if room is not None:
            scratch_strips.write(lo, room, idx, old)
    if room is not None:
        lo.homes[lo.key(op)] = room
    elif not shape:
        lo.values[lo.key(op)] = old
