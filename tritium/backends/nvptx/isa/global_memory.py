"""Loads and stores of global memory, predicated, with hints for the caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...gpu.lower.convert import pack
from ...gpu.lower.words import bytes_of, pack_words, unpack_word
from .statements import bracketed, statement

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .target import NvLowering


def load(g: NvLowering, pointer: Val, kind: str, count: int, mask: Val | None, fill: Sequence[Val] | None,
         attrs: Mapping[str, Any]) -> list[Val]:
    """`count` neighbouring elements of LLVM type `kind`; masked-off lanes read nothing and get `fill`, or zeros."""
    w, size = g.w, bytes_of(kind) * count
    hints = _hints(attrs)
    if mask is None and not hints:
        type_ = kind if count == 1 else f"<{count} x {kind}>"
        volatile = "volatile " if attrs.get("volatile") else ""
        x = w.effect(f"load {volatile}{type_}, {pointer.typed}, align {size}", type_)
        return [x] if count == 1 else [w.extract(x, k) for k in range(count)]
    bits = 64 if bytes_of(kind) == 8 else min(32, size * 8)
    volatile = ".volatile" if attrs.get("volatile") else ""
    parts = _asm_load(g, f"ld{volatile}.global{hints}", bits, size * 8 // bits, pointer, mask, fill)
    if bits == 8:
        parts = [w.cast("trunc", p, "i8") for p in parts]
    return [e for p in parts for e in unpack_word(g, p, kind)]


def _asm_load(g: NvLowering, name: str, bits: int, words: int, pointer: Val, mask: Val | None,
              fill: Sequence[Val] | None) -> list[Val]:
    """The words an instruction loads; PTX has no 8-bit registers, so bytes come in 16 bits."""
    w, register, (pointer, constant) = g.w, max(bits, 16), g.sum_of(pointer)
    outs = [f"${k}" for k in range(words)]
    listed = f"{{{', '.join(outs)}}}" if words > 1 else outs[0]
    body = f"{name}{f'.v{words}' if words > 1 else ''}.b{bits} {listed}, {bracketed(f'${words}', constant)};"
    inputs = [pointer]
    if mask is not None:  # results are written before the rest is read
        start = ["0"] * words if fill is None else [f"${words + 2 + k}" for k in range(words)]
        moves = "".join(f"mov.b{register} {o}, {s}; " for o, s in zip(outs, start))
        body = f"{moves}@${words + 1} {body}"
        inputs.append(mask)
        if fill is not None:
            inputs += [w.cast("zext", x, "i16") if bits == 8 else x for x in pack_words(g, fill)]
    return statement(g, body, *inputs, gives=[f"i{register}"] * words, early=mask is not None, memory=False,
                     named=False)


def store(g: NvLowering, pointer: Val, items: Sequence[Val], mask: Val | None, attrs: Mapping[str, Any]) -> None:
    """Neighbouring elements; nothing is written where the mask is off."""
    w, hints = g.w, _hints(attrs)
    if mask is None and not hints:
        size = bytes_of(items[0].type) * len(items)
        w.effect(f"store {pack(w, items).typed}, {pointer.typed}, align {size}")
        return
    words = pack_words(g, items)
    bits = int(words[0].type[1:])
    if bits == 8:
        words = [w.cast("zext", x, "i16") for x in words]
    first, (pointer, constant) = 1 if mask is not None else 0, g.sum_of(pointer)
    ins = ", ".join(f"${first + 1 + k}" for k in range(len(words)))
    vector, listed = (f".v{len(words)}", f"{{{ins}}}") if len(words) > 1 else ("", ins)
    body = f"st.global{hints}{vector}.b{bits} {bracketed(f'${first}', constant)}, {listed};"
    masked, enabled = ("", []) if mask is None else ("@$0 ", [mask])
    statement(g, masked + body, *enabled, pointer, *words)


def _hints(attrs: Mapping[str, Any]) -> str:
    """Cache modifiers of a load or a store: PTX takes one, and none on volatile accesses."""
    if attrs.get("volatile"):
        return ""
    return attrs.get("cache") or (f".L1::{attrs['eviction']}" if attrs.get("eviction") else "")
