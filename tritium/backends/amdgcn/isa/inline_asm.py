"""Inline assembly: read here, and lowered to what its instructions do (`assembly.INSTRUCTIONS`)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from .... import ops
from ....errors import CompilationError
from ....ir import types as T
from ....ops import ptx
from ...gpu.lower.function import llvm_type
from ...gpu.lower.words import bytes_of, pack_words, unpack_word
from .assembly import INSTRUCTIONS, Instruction

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import AmdLowering

_OPERAND = re.compile(r"(?P<minus>-)?(?P<bar>\|)?\$(?:(\d+)|\{(\d+)\})(?(bar)\|)$")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+(\.\d*)?)$")


def inline_asm(g: AmdLowering, op: Op, *xs: Sequence[Val]) -> tuple[list[Val], ...]:
    """The instructions for each group of `pack` elements; those narrower than 32 bits share registers."""
    pack, outs = op.attrs["pack"], [[] for _ in op.types]
    wanted = [kind for t in op.types for kind in _registers(T.element(t), pack)]
    outputs, inputs = _constraints(op.attrs["constraints"])
    if outputs != len(wanted):
        _refuse(f"it has {outputs} outputs, and its results fill {len(wanted)} registers for pack={pack}",
                "write one =v for each register")
    lines = [line for line in re.split(r"[;\n]", op.attrs["asm"]) if line.strip()]
    for start in range(0, len(xs[0]) if xs else 1, pack):
        words = [_word(g, word) for x in xs for word in pack_words(g, _plain(g, x[start : start + pack]))]
        if len(words) != len(inputs):
            _refuse(f"it has {len(inputs)} inputs, and its arguments fill {len(words)} registers for pack={pack}",
                    "write one v for each register")
        registers: list[Val | None] = [None if tied is None else words[tied] for tied in _tied(inputs, outputs)] + words
        for line in lines:
            _execute(g, op, line, registers, wanted)
        for k, register in enumerate(registers[:outputs]):
            if register is None:
                _refuse(f"nothing is written to ${k}", "every output is the first operand of an instruction")
        made = [x for x in registers[:outputs] if x is not None]
        for out, t in zip(outs, op.types):
            out += _elements(g, made, T.element(t), pack)
    return tuple(outs)


def _refuse(what: str, hint: str) -> NoReturn:
    raise CompilationError(None, None, f"inline assembly for an AMD GPU: {what}\nhint: {hint}")


# --- registers --------------------------------------------------------------------------------------------------------
def _registers(t: T.Scalar | T.Ptr, pack: int) -> list[str]:
    """The registers of a result: words of 32 bits, or of 64."""
    if type(t) is T.Ptr or t is T.i1:
        _refuse(f"a result is of type {t}", "make it an integer, and convert that")
    return [f"i{t.bits}"] * pack if t.bits >= 32 else ["i32"] * -(-pack * t.bits // 32)


def _constraints(text: str) -> tuple[int, list[int | None]]:
    """(number of outputs, for each input the output that it shares a register with)."""
    outputs, inputs = 0, []
    for item in text.replace(" ", "").split(","):
        if item.startswith("~"):
            continue
        letter = item.lstrip("=&")
        if letter.isdigit() and int(letter) < outputs:
            inputs.append(int(letter))
        elif letter not in ("v", "s", "r"):
            _refuse(f"the constraint {item!r} is unknown", "write =v for an output, v, s or r for an input")
        elif item.startswith("="):
            outputs += 1
        else:
            inputs.append(None)
    return outputs, inputs


def _tied(inputs: Sequence[int | None], outputs: int) -> list[int | None]:
    """For each output the input that is in its register at first."""
    return [inputs.index(k) if k in inputs else None for k in range(outputs)]


def _plain(g: AmdLowering, items: Sequence[Val]) -> list[Val]:
    """Elements as registers take them: bools and pointers are integers."""
    if items[0].type == "i1":
        return [g.w.cast("zext", x, "i32") for x in items]
    return [g.w.cast("ptrtoint", x, "i64") if x.type.startswith("ptr") else x for x in items]


def _word(g: AmdLowering, x: Val) -> Val:
    return g.w.cast("zext", x, "i32") if bytes_of(x.type) < 4 else x


def _elements(g: AmdLowering, registers: list[Val], t: T.Scalar | T.Ptr, pack: int) -> list[Val]:
    """Take the next result's elements from the front of the output registers."""
    out: list[Val] = []
    while len(out) < pack:
        word, left = registers.pop(0), (pack - len(out)) * t.bits
        out += unpack_word(g, g.w.cast("trunc", word, f"i{left}") if left < 32 else word, llvm_type(t))
    return out


# --- instructions -----------------------------------------------------------------------------------------------------
def _execute(g: AmdLowering, op: Op, line: str, registers: list[Val | None], outputs: Sequence[str]) -> None:
    """One instruction: read its operands, write its result."""
    name, _, rest = line.strip().partition(" ")
    found = INSTRUCTIONS.get(re.sub(r"_e(32|64)$", "", name))
    if found is None:
        near = difflib.get_close_matches(name, INSTRUCTIONS, 3)
        unknown = f"; as PTX it has {ptx.refusal(op)}" if "." in name else ""
        _refuse(f"{name!r} is no instruction that tritium knows{unknown}",
                f"it knows {', '.join(near)}" if near else f"it knows {len(INSTRUCTIONS)}, such as v_add_f32")
    target, *operands = (x.strip() for x in rest.split(","))
    if len(operands) != len(found.operands):
        _refuse(f"{name!r} takes {len(found.operands)} operands behind its result, not {len(operands)}",
                "write one instruction in a line, without modifiers")
    number = re.fullmatch(r"\$(?:(\d+)|\{(\d+)\})", target)
    at = int(number[1] or number[2]) if number else len(outputs)
    if at >= len(outputs):
        _refuse(f"{name!r} writes {target!r}", f"results go to $0 to ${len(outputs) - 1}")
    values = [_operand(g, text, kind, registers, name) for text, kind in zip(operands, found.operands)]
    if found.accumulates:
        values.append(_operand(g, target, found.result, registers, name))
    registers[at] = _written(g, found, found.emit(g.w, *values), outputs[at], name)


def _written(g: AmdLowering, instruction: Instruction, x: Val, kind: str, name: str) -> Val:
    """A result as the register of its output holds it."""
    if instruction.result == "half":
        x = g.w.cast("zext", g.w.cast("bitcast", x, "i16"), "i32")
    word = "i64" if instruction.result == "double" else "i32"
    if word != kind:
        _refuse(f"{name!r} writes {word[1:]} bits to an output of {kind[1:]}", "dtype says what the results are")
    return g.w.cast("bitcast", x, word)


def _operand(g: AmdLowering, text: str, kind: str, registers: Sequence[Val | None], name: str) -> Val:
    """A register, perhaps -$1 or |$1|, or a number, as a value of an LLVM type."""
    w, floats = g.w, not kind.startswith("i")
    if found := _OPERAND.match(text):
        number = int(found[3] or found[4])
        x = registers[number] if number < len(registers) else None
        if x is None:
            _refuse(f"{name!r} reads {text!r}, which has no value", f"there are $0 to ${len(registers) - 1}")
        if bytes_of(x.type) != (8 if kind == "double" else 4):
            _refuse(f"{name!r} reads {text!r}, a register of {x.type[1:]} bits", "convert the argument first")
        value = w.cast("bitcast", w.cast("trunc", x, "i16") if kind == "half" else x, kind)
        if (found["minus"] or found["bar"]) and not floats:
            _refuse(f"{name!r} has the operand {text!r}", "only floats are negated by an operand")
        value = w.intrinsic("fabs", kind, value) if found["bar"] else value
        return w.unary("fneg", value) if found["minus"] else value
    if not _NUMBER.match(text) or "." in text and not floats or kind[0] == "<":
        _refuse(f"{name!r} has the operand {text!r}", "operands are $0, $1, ... and numbers")
    if "." in text:
        return w.const(kind, float(text))
    size = {"half": 16, "double": 64}.get(kind, 32)
    bits = int(text, 0)
    return w.cast("bitcast", w.const(f"i{size}", bits - (1 << size) if bits >> size - 1 == 1 else bits), kind)


LOWER = {ops.inline_asm: inline_asm}
