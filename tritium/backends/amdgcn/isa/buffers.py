"""Accesses through buffer resources: a base and a size in scalar registers, an offset of 32 bits in each thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...gpu.lower.words import bytes_of, pack, unpack
from ...llvm.writer import Val, mangle, value, vector

if TYPE_CHECKING:
    from .target import AmdLowering

OUTSIDE = -(1 << 31)  # an offset beyond the end of every buffer
RECORDS = 1 << 31  # bytes of a buffer: offsets of this and more are out of bounds
# The last word of a resource: elements of 32 bits, and from GCN's successors on, bounds that are checked in bytes.
_FLAGS = {9: 0x27000, 10: 0x31027000, 11: 0x31027000, 12: 0x31027000}


# Bits of an access that say how caches treat it, by generation: what is used once, and what is kept in L2 alone.
_ONCE, _IN_L2 = {9: 2, 10: 2, 11: 2, 12: 1}, {9: 1, 10: 1, 11: 1, 12: 2 << 3}

_DEVICE = {12: 2 << 3}  # of an atomic: the caches that the whole device shares; older generations go there anyway


def hints(g: AmdLowering, attrs: Mapping[str, Any]) -> int:
    """The bits of a load's or store's hints; what has no like is left out."""
    generation = g.target.generation
    once = attrs.get("cache") == ".cs" or attrs.get("eviction") == "evict_first"
    return (_ONCE[generation] if once else 0) | (_IN_L2[generation] if attrs.get("cache") == ".cg" else 0)


def load(g: AmdLowering, number: int, pointer: Val, kind: str, count: int, mask: Val | None, fill: Sequence[Val] | None,
         aux: int) -> list[Val]:
    """`count` neighbours; lanes that the mask leaves out get zeros, or `fill`."""
    w, word = g.w, _word(bytes_of(kind) * count)
    name = f"llvm.amdgcn.raw.ptr.buffer.load.{mangle(word)}"
    w.declare(name, word, ["ptr addrspace(8)", "i32", "i32", "i32 immarg"], "nounwind memory(argmem: read)")
    arguments = f"{resource(g, number).typed}, {offset(g, number, pointer, mask).typed}, i32 0, i32 {aux}"
    x = w.cast("bitcast", w.effect(f"call {word} @{name}({arguments})", word), vector(count, kind))
    if mask is not None and fill is not None and not all(map(_is_zero, fill)):
        x = w.select(mask, x, pack(w, fill))
    return unpack(w, x)


def store(g: AmdLowering, number: int, pointer: Val, items: Sequence[Val], mask: Val | None, aux: int) -> None:
    """Neighbours; lanes that the mask leaves out write nothing."""
    w, word = g.w, _word(bytes_of(items[0].type) * len(items))
    name = f"llvm.amdgcn.raw.ptr.buffer.store.{mangle(word)}"
    w.declare(name, "void", [word, "ptr addrspace(8)", "i32", "i32", "i32 immarg"], "nounwind memory(argmem: write)")
    x, at = w.cast("bitcast", pack(w, items), word), offset(g, number, pointer, mask)
    w.effect(f"call void @{name}({x.typed}, {resource(g, number).typed}, {at.typed}, i32 0, i32 {aux})")


def atomic(g: AmdLowering, number: int, pointer: Val, name: str, x: Val, mask: Val) -> Val:
    """Read-modify-write by buffer instruction `name`; the old value, 0 in lanes that the mask leaves out: they update
    nothing."""
    w, kind = g.w, mangle(x.type)
    full = f"llvm.amdgcn.raw.ptr.buffer.atomic.{name}.{kind}"
    w.declare(full, x.type, [x.type, "ptr addrspace(8)", "i32", "i32", "i32 immarg"], "nounwind")
    at, aux = offset(g, number, pointer, mask), _DEVICE.get(g.target.generation, 0)
    old = w.effect(f"call {x.type} @{full}({x.typed}, {resource(g, number).typed}, {at.typed}, i32 0, i32 {aux})",
                   x.type)  # fmt: skip
    return w.select(mask, old, value(x.type, "zeroinitializer"))


def _word(size: int) -> str:
    """The LLVM type of an access of `size` bytes."""
    return f"i{8 * size}" if size <= 4 else f"<{size // 4} x i32>"


def _is_zero(x: Val) -> bool:
    """Whether a value is the constant 0, which buffers give by themselves."""
    return x in ("0", "0.0")


def _base(g: AmdLowering, number: int) -> Val:
    return g.get(g.module.args[number])[0]


def resource(g: AmdLowering, number: int) -> Val:
    """The resource of what an argument points to."""
    return g.once(("buffer", number), lambda: _make(g, _base(g, number)))


def _make(g: AmdLowering, base: Val) -> Val:
    name = "llvm.amdgcn.make.buffer.rsrc.p8.p1"
    g.w.declare(name, "ptr addrspace(8)", ["ptr addrspace(1)", "i16", "i64", "i32"], "nounwind memory(none)")
    flags = _FLAGS[g.target.generation]
    return g.w.effect(f"call ptr addrspace(8) @{name}({base.typed}, i16 0, i64 {RECORDS}, i32 {flags})",
                      "ptr addrspace(8)", at=0)  # fmt: skip


def offset(g: AmdLowering, number: int, pointer: Val, mask: Val | None) -> Val:
    """The bytes between an argument and a pointer; LLVM finds the integers that the pointer was computed from."""
    w = g.w
    here, there = (w.cast("ptrtoint", x, "i64") for x in (_base(g, number), pointer))
    between = w.cast("trunc", w.binary("sub", there, here), "i32")
    return between if mask is None else w.select(mask, between, g.int(OUTSIDE))
