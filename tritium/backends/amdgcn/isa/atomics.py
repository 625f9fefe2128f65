"""Atomic read-modify-write on global memory: LLVM's instructions, which the hardware has or LLVM writes as loops; for
tiles with masks those of buffers, where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ...gpu.lower.control import guarded
from ...gpu.lower.words import bytes_of, pack, unpack
from ...llvm.rows import ORDERINGS, atomic_name
from . import buffers
from .global_memory import zero

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import AmdLowering

# Pairs that one instruction adds to, by family.
_PAIRS = {"cdna2": (T.f16,), **dict.fromkeys(("cdna3", "cdna4", "rdna4"), (T.f16, T.bf16))}
# What is updated within one device is ordinary memory of that device: instructions of its caches do. For memory that
# others see at once LLVM writes loops around compare-and-swap.
NOTHING = "!999998"  # an empty node of metadata
_ORDINARY = "".join(f", !amdgpu.{what} {NOTHING}" for what in ("no.fine.grained.memory", "no.remote.memory"))
# Updates of floats that buffer instructions have, by family: (how, type). Pairs are those of `_PAIRS`, but for CDNA3.
_F64 = {(how, T.f64) for how in ("add", "min", "max")}
_F32 = {(how, T.f32) for how in ("add", "min", "max")}
_BUFFERED = {"cdna2": {("add", T.f32), *_F64}, "cdna3": {("add", T.f32), *_F64}, "cdna4": {("add", T.f32), *_F64},
             "rdna3": _F32, "rdna3.5": _F32, "rdna4": _F32}  # fmt: skip
_BUFFER_PAIRS = {**_PAIRS, "cdna3": (T.f16,)}
_IN_BUFFERS = {"xchg": "swap", "min": "smin", "max": "smax"}  # names of buffer instructions, for signed integers
SCOPES = {"gpu": 'syncscope("agent")', "cta": 'syncscope("workgroup")', "sys": ""}


def widest(family: str, how: str, t: T.Scalar) -> int:
    """The most neighbours of type `t` that one instruction updates."""
    return 2 if how == "add" and t in _PAIRS.get(family, ()) else 1


def has_buffer_instruction(family: str, op: Op) -> bool:
    """True if a buffer instruction does what an atomic op of tiles does to each element, or pair, within the device.

    Compare-and-swap has no mask, so buffers would gain it nothing.
    """
    how, t = op.attrs.get("how", "cas"), T.element(op.pointer.type).pointee
    if op.attrs["scope"] == "sys" or how in ("cas", "load", "store") or type(t) is T.Ptr:
        return False
    if op.attrs.get("vector") == 2:
        return t in _BUFFER_PAIRS.get(family, ())
    if how == "xchg" or not t.is_float:
        return t.bits in (32, 64)
    return (how, t) in _BUFFERED.get(family, ())


def atomic(g: AmdLowering, op: Op, pointer: Val, t: T.Scalar | T.Ptr, values: Sequence[Sequence[Val]],
           mask: Val | None) -> list[Val]:
    """Read-modify-write of neighbours; the old values, 0 where the mask is off. Bits are exchanged as integers."""
    w, how, kind = g.w, op.attrs.get("how", "cas"), values[0][0].type
    if len(values[0]) > 1:
        (old,) = _masked(g, op, how, t, pointer, [pack(w, values[0])], mask)
        return unpack(w, old)
    xs, back = [v[0] for v in values], None
    if how in ("cas", "xchg", "load", "store") and not kind.startswith("i"):
        pointers = kind.startswith("ptr")
        xs = [w.cast("ptrtoint" if pointers else "bitcast", x, f"i{8 * bytes_of(kind)}") for x in xs]
        back = "inttoptr" if pointers else "bitcast"
    if kind == "i1":
        xs, back = [w.cast("zext", x, "i8") for x in xs], "trunc"
    if how == "store":
        with w.when(mask):
            _update(g, op, how, t, pointer, xs)
        return []
    old = _masked(g, op, how, t, pointer, xs, mask)
    return [w.cast(back, x, kind) for x in old] if back else old


def _masked(g: AmdLowering, op: Op, how: str, t: T.Scalar | T.Ptr, pointer: Val, xs: Sequence[Val],
            mask: Val | None) -> list[Val]:
    """The old value, 0 where the mask is off: by bounds of a buffer, else by a branch."""
    if mask is not None and "buffer" in op.attrs:
        return [_in_buffer(g, op, how, t, pointer, xs[0], mask)]
    update = lambda: _update(g, op, how, t, pointer, xs)
    return update() if mask is None else guarded(g, mask, update, [zero(xs[0].type)])


def _in_buffer(g: AmdLowering, op: Op, how: str, t: T.Scalar | T.Ptr, pointer: Val, x: Val, mask: Val) -> Val:
    """Buffer instructions have no order of their own: fences give it to them."""
    order, scope, name = op.attrs["sem"], SCOPES[op.attrs["scope"]], atomic_name(how, t)
    if order in ("release", "acq_rel"):
        g.w.effect(f"fence {scope} release")
    old = buffers.atomic(g, op.attrs["buffer"], pointer, _IN_BUFFERS.get(name, name), x, mask)
    if order in ("acquire", "acq_rel"):
        g.w.effect(f"fence {scope} acquire")
    return old


def _update(g: AmdLowering, op: Op, how: str, t: T.Scalar | T.Ptr, pointer: Val, xs: Sequence[Val]) -> list[Val]:
    """The instruction; the old value."""
    w, word = g.w, xs[0].type
    order, scope = ORDERINGS[op.attrs.get("sem", "relaxed")], SCOPES[op.attrs.get("scope", "gpu")]
    size = bytes_of(word) if word[0] != "<" else 4
    if how == "load":
        return [w.effect(f"load atomic {word}, {pointer.typed} {scope} {order}, align {size}", word)]
    if how == "store":
        return [w.effect(f"store atomic {xs[0].typed}, {pointer.typed} {scope} {order}, align {size}")]
    if how == "cas":
        weaker = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
        both = f"{{ {word}, i1 }}"
        made = w.effect(f"cmpxchg {pointer.typed}, {xs[0].typed}, {xs[1].typed} {scope} {order} {weaker}", both)
        return [w.effect(f"extractvalue {both} {made}, 0", word)]
    name, notes = atomic_name(how, t), _ORDINARY if scope else ""
    if name == "fadd":
        notes += f", !amdgpu.ignore.denormal.mode {NOTHING}"
    return [w.effect(f"atomicrmw {name} {pointer.typed}, {xs[0].typed} {scope} {order}, align {size}{notes}", word)]
