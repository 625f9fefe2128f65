"""User-written PTX, applied to every `pack` elements; those narrower than 32 bits travel packed in 32-bit registers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from .... import ops
from ....errors import CompilationError, place_of
from ....ir import types as T
from ...gpu.lower.function import llvm_type
from ...gpu.lower.words import pack_words, unpack_word

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

_REGISTER = {"r": "i32", "l": "i64", "f": "float", "d": "double", "h": "i16", "b": "i1", "c": "i8"}
_NUMBER = "n", "i"  # constraints of inputs that the text holds as numbers, not as registers


def inline_asm(g: NvLowering, op: Op, *xs: Sequence[Val]) -> tuple[list[Val], ...]:
    """One asm statement for each group of `pack` registers."""
    w, pack = g.w, op.attrs["pack"]
    constraints = op.attrs["constraints"].replace(" ", "")
    outputs, inputs = _constraints(op, constraints)
    _check_placeholders(op, len(outputs) + len(inputs))
    count = len(xs[0]) if xs else 1
    outs = [[] for _ in op.types]
    side = "" if op.attrs["pure"] else "sideeffect "
    result = outputs[0] if len(outputs) == 1 else "{" + ", ".join(outputs) + "}"
    text = op.attrs["asm"].replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A").replace("\t", "\\09")
    for start in range(0, count, pack):
        words = [word for x, value in zip(xs, op.operands) for word in _words(g, x[start : start + pack], value.type)]
        if len(words) != len(inputs):
            _refuse(op, f"inline assembly has {len(inputs)} inputs, but its arguments fill {len(words)} registers for "
                    f"pack={pack}")
        arguments = ", ".join(_input(g, op, word, kind).typed for word, kind in zip(words, inputs))
        call = f'asm {side}"{text}", "{constraints}"({arguments})'
        if not outputs:
            w.effect(f"call void {call}")
            continue
        made = w.effect(f"call {result} {call}", result)
        each = lambda k, kind, made=made: w.emit(kind, f"extractvalue {result} {made}, {k}", made)
        parts = [made] if len(outputs) == 1 else [each(k, kind) for k, kind in enumerate(outputs)]
        for out, t in zip(outs, op.types):
            out += _elements(g, op, parts, T.element(t), pack)
    return tuple(outs)


def _refuse(op: Op, what: str) -> NoReturn:
    raise CompilationError(None, None, what, span=place_of(op.loc))


def _constraints(op: Op, text: str) -> tuple[list[str], list[str]]:
    """LLVM types of the outputs and of the inputs that a constraint string names; a number's is its constraint."""
    outputs, inputs = [], []
    for item in text.split(","):
        if item.startswith("~"):
            continue
        letter = re.sub(r"[=&+*]", "", item)
        if letter.isdigit():
            inputs.append(outputs[int(letter)])
        elif item in _NUMBER:
            inputs.append(item)
        elif letter not in _REGISTER:
            _refuse(op, f"unknown constraint {item!r} in inline assembly; use one of {', '.join(_REGISTER)}, or n for "
                    "a number")
        else:
            (outputs if item.startswith("=") else inputs).append(_REGISTER[letter])
    return outputs, inputs


def _check_placeholders(op: Op, count: int) -> None:
    """Refuse what LLVM would end the process for: a `$` that stands for no register."""
    text = op.attrs["asm"]
    for found in re.finditer(r"\$(?:\$|(\d+)|\{(\d+)\})?", text):
        number = found[1] or found[2]
        if found[0] == "$" or (number and int(number) >= count):
            shown = text[found.start() :].split()[0]
            have = f"write $0 to ${count - 1}" if count else "it has none"
            _refuse(op, f"inline assembly: {shown!r} names no register; {have}, and $$ for a dollar sign")


def _words(g: NvLowering, items: Sequence[Val], t: T.Type) -> list[Val]:
    element = T.element(t)
    if type(element) is T.Ptr:
        return [g.w.cast("ptrtoint", x, "i64") for x in items]
    if element is T.i1:
        return list(items)
    return pack_words(g, list(items)) if element.bits < 32 else list(items)


def _input(g: NvLowering, op: Op, x: Val, kind: str) -> Val:
    """A register of the type a constraint asks for, or a number where it asks for that."""
    if kind not in _NUMBER:
        return _as(g, op, x, kind)
    if not re.fullmatch(r"-?\d+", x):  # LLVM would end the process
        _refuse(op, f"inline assembly: constraint {kind!r} takes an integer that is known at compile time")
    return x


def _as(g: NvLowering, op: Op, x: Val, kind: str) -> Val:
    """A register of the type a constraint asks for."""
    if x.type == kind:
        return x
    bits = {"float": 32, "double": 64, "half": 16, "bfloat": 16}
    have, want = (bits.get(k) or int(k[1:]) for k in (x.type, kind))
    if have == want:
        return g.w.cast("bitcast", x, kind)
    if x.type.startswith("i") and kind.startswith("i"):
        return g.w.cast("zext" if want > have else "trunc", x, kind)
    _refuse(op, f"inline assembly: a {have}-bit argument does not fit a {want}-bit register")


def _elements(g: NvLowering, op: Op, parts: list[Val], t: T.Scalar | T.Ptr, pack: int) -> list[Val]:
    """Take the next result's elements from the front of the output registers."""
    kind = llvm_type(t)
    if t is T.i1 or t.bits >= 32:
        return [_as(g, op, parts.pop(0), kind) for _ in range(pack)]
    out = []
    while len(out) < pack:
        word = parts.pop(0)
        word = g.w.cast("bitcast", word, "i32") if word.type == "float" else word
        if pack * t.bits < 32 and word.type == "i32":
            word = g.w.cast("trunc", word, f"i{pack * t.bits}")
        out += unpack_word(g, word, kind)
    return out[:pack]


LOWER = {ops.inline_asm: inline_asm}
