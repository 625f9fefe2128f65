"""Loads and stores of global memory: through buffers where that is known to be right, else with branches around what
masks leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...gpu.lower.control import guarded
from ...gpu.lower.words import bytes_of, pack, unpack
from ...llvm.writer import Val, value, vector
from . import buffers

if TYPE_CHECKING:
    from .target import AmdLowering


def zero(kind: str) -> Val:
    """The zero of an LLVM type."""
    return value(kind, "zeroinitializer")


def load(g: AmdLowering, pointer: Val, kind: str, count: int, mask: Val | None, fill: Sequence[Val] | None,
         attrs: Mapping[str, Any]) -> list[Val]:
    """`count` neighbouring elements of LLVM type `kind`; masked-off lanes read nothing and get `fill`, or zeros."""
    if "buffer" in attrs:
        return buffers.load(g, attrs["buffer"], pointer, kind, count, mask, fill, buffers.hints(g, attrs))
    w, type_ = g.w, vector(count, kind)
    how = "load volatile" if attrs.get("volatile") or attrs.get("cache") == ".cv" else "load"
    read = lambda: [w.effect(f"{how} {type_}, {pointer.typed}, align {bytes_of(kind) * count}", type_)]
    if mask is None:
        (x,) = read()
    else:
        other = zero(type_) if fill is None else pack(w, fill)
        (x,) = guarded(g, mask, read, [other])
    return unpack(w, x)


def store(g: AmdLowering, pointer: Val, items: Sequence[Val], mask: Val | None, attrs: Mapping[str, Any]) -> None:
    """Neighbouring elements; nothing is written where the mask is off."""
    if "buffer" in attrs:
        buffers.store(g, attrs["buffer"], pointer, items, mask, buffers.hints(g, attrs))
        return
    w, size = g.w, bytes_of(items[0].type) * len(items)
    whole = pack(w, items)
    with w.when(mask):
        w.effect(f"store {whole.typed}, {pointer.typed}, align {size}")
