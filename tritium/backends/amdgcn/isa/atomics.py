"""Atomic read-modify-write on global memory: LLVM's instructions, which the hardware has or LLVM writes as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ...gpu.lower.control import guarded
from ...gpu.lower.convert import pack
from ...gpu.lower.words import bytes_of
from .global_memory import zero

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .lowering import AmdLowering

_ORDER = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
# Pairs that one instruction adds to, by family.
_PAIRS = {"cdna2": (T.f16,), **dict.fromkeys(("cdna3", "cdna4", "rdna4"), (T.f16, T.bf16))}
# What is updated within one device is ordinary memory of that device: instructions of its caches do. For memory that
# others see at once LLVM writes loops around compare-and-swap.
NOTHING = "!999998"  # an empty node of metadata
_ORDINARY = "".join(f", !amdgpu.{what} {NOTHING}" for what in ("no.fine.grained.memory", "no.remote.memory"))
SCOPES = {"gpu": 'syncscope("agent")', "cta": 'syncscope("workgroup")', "sys": ""}


def widest(family: str, how: str, t: T.Scalar) -> int:
    """The most neighbours of type `t` that one instruction updates."""
    return 2 if how == "add" and t in _PAIRS.get(family, ()) else 1


def atomic(g: AmdLowering, op: Op, pointer: Val, t: T.Scalar | T.Ptr, values: Sequence[Sequence[Val]],
           mask: Val | None) -> list[Val]:
    """Read-modify-write of neighbours; the old values, 0 where the mask is off. Bits are exchanged as integers."""
    w, how, kind = g.w, op.attrs.get("how", "cas"), values[0][0].type
    if len(values[0]) > 1:
        both = pack(w, values[0])
        update = lambda: _update(g, op, how, t, pointer, [both])
        (old,) = update() if mask is None else guarded(g, mask, update, [zero(both.type)])
        return [w.extract(old, k) for k in range(len(values[0]))]
    xs, back = [v[0] for v in values], None
    if how in ("cas", "xchg", "load", "store") and not kind.startswith("i"):
        pointers = kind.startswith("ptr")
        xs = [w.cast("ptrtoint" if pointers else "bitcast", x, f"i{8 * bytes_of(kind)}") for x in xs]
        back = "inttoptr" if pointers else "bitcast"
    if kind == "i1":
        xs, back = [w.cast("zext", x, "i8") for x in xs], "trunc"
    update = lambda: _update(g, op, how, t, pointer, xs)
    if how == "store":
        _stored(g, mask, update)
        return []
    old = update() if mask is None else guarded(g, mask, update, [zero(xs[0].type)])
    return [w.cast(back, x, kind) for x in old] if back else old


def _stored(g: AmdLowering, mask: Val | None, update: Callable[[], list[Val]]) -> None:
    if mask is None:
        update()
        return
    with g.w.when(mask):
        update()


def _update(g: AmdLowering, op: Op, how: str, t: T.Scalar | T.Ptr, pointer: Val, xs: Sequence[Val]) -> list[Val]:
    """The instruction; the old value."""
    w, word = g.w, xs[0].type
    order, scope = _ORDER[op.attrs.get("sem", "relaxed")], SCOPES[op.attrs.get("scope", "gpu")]
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
    name = how
    if how in ("add", "min", "max") and type(t) is not T.Ptr:
        name = ("f" if t.is_float else "u" if how != "add" and not t.signed else "") + how
    notes = _ORDINARY if scope else ""
    if name == "fadd":
        notes += f", !amdgpu.ignore.denormal.mode {NOTHING}"
    return [w.effect(f"atomicrmw {name} {pointer.typed}, {xs[0].typed} {scope} {order}, align {size}{notes}", word)]
