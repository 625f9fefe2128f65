"""Loads and stores of global memory, predicated, with hints for the caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...gpu.lower.convert import pack
from ...gpu.lower.words import bytes_of, pack_words, unpack_word
from .operands import LETTER, bracketed

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .lowering import NvLowering


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
    constraints, arguments = ["l"], [pointer.typed]
    if mask is not None:
        start = ["0"] * words if fill is None else [f"${words + 2 + k}" for k in range(words)]
        moves = "".join(f"mov.b{register} {o}, {s}; " for o, s in zip(outs, start))
        body = f"{moves}@${words + 1} {body}"
        constraints.append("b")
        arguments.append(f"i1 {mask}")
        if fill is not None:
            packed = [w.cast("zext", x, "i16") if bits == 8 else x for x in pack_words(g, fill)]
            constraints += [LETTER[register]] * words
            arguments += [x.typed for x in packed]
    type_ = f"i{register}"
    result = type_ if words == 1 else "{" + ", ".join([type_] * words) + "}"
    out = f"={'' if mask is None else '&'}{LETTER[register]}"  # with a mask it is written before the rest is read
    constraints = ",".join([out] * words + constraints)
    x = w.effect(f'call {result} asm sideeffect "{body}", "{constraints}"({", ".join(arguments)})', result)
    return [x] if words == 1 else [w.emit(type_, f"extractvalue {result} {x}, {k}", x) for k in range(words)]


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
    constraints = ["l"] + [LETTER[max(bits, 16)]] * len(words)
    arguments = [pointer.typed, *(x.typed for x in words)]
    if mask is not None:
        body, constraints, arguments = f"@$0 {body}", ["b", *constraints], [f"i1 {mask}", *arguments]
    w.effect(f'call void asm sideeffect "{body}", "{",".join(constraints)},~{{memory}}"({", ".join(arguments)})')


def _hints(attrs: Mapping[str, Any]) -> str:
    """Cache modifiers of a load or a store: PTX takes one, and none on volatile accesses."""
    if attrs.get("volatile"):
        return ""
    return attrs.get("cache") or (f".L1::{attrs['eviction']}" if attrs.get("eviction") else "")
