"""The text of PTX: statements, operands, modifiers, and what a table of instructions is."""

from __future__ import annotations

import functools
import re
import struct
from typing import Any

from ..ir import types as T
from ..named_tuples import NamedTuple
from .expression import UNSIGNED

SCALARS = {"pred": T.i1, "f16": T.f16, "bf16": T.bf16, "f32": T.f32, "f64": T.f64,
           **{f"{letter}{t.bits}": t for t in UNSIGNED.values() for letter in "bu"},
           **{f"s{t.bits}": t for t in (T.i8, T.i16, T.i32, T.i64)}}  # fmt: skip
PACKED = {"f16x2": T.f16, "bf16x2": T.bf16, "f32x2": T.f32, "u16x2": T.u16, "s16x2": T.i16}

_NAME = r"[A-Za-z_$%][\w$]*"
_OPERAND = re.compile(rf"\$\{{?(?P<number>\d+)\}}?$|(?P<name>!?{_NAME})$|\{{(?P<vector>.*)\}}$|(?P<sign>[-+]?)(?:"
                      r"0[fF](?P<f32>[0-9a-fA-F]{8})|0[dD](?P<f64>[0-9a-fA-F]{16})|(?P<int>0[xX][0-9a-fA-F]+|0[bB][01]+"
                      r"|\d+)[uU]?|(?P<float>\d*\.\d*(?:[eE][-+]?\d+)?))$", re.DOTALL)  # fmt: skip


class Unknown(Exception):
    """Raised for text that is not the PTX known here; says what it met first."""


class Statement(NamedTuple):
    """An instruction: the predicate it depends on ("!p" for its opposite), its name, its operands as `operand` gives
    them. A declaration of registers has the name ".reg" and operands (name, bits)."""

    guard: str
    name: str
    operands: tuple


class Instructions(dict):
    """A table: opcode -> (numbers of operands, the function that executes it).

    >>> table = Instructions()
    >>> @table(2, "swap")
    ... def swap(code, modifiers, d, a): ...
    >>> table == {"swap": ((2,), swap)}
    True
    """

    def __call__(self, counts, *names):
        """Decorator: `fn(code, modifiers, *operands)` executes the instructions called `names`."""
        def register(fn):
            for name in names:
                self[name] = counts if type(counts) is tuple else (counts,), fn
            return fn
        return register


# --- text -------------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=256)
def parse(text, opcodes):
    """The statements of a text, each a declaration or an instruction with one of the opcodes (a frozenset).

    >>> parse("{ .reg .b32 t; add.s32 t, $1, 5; }  // more", frozenset(["add"]))[1]
    Statement(guard='', name='add.s32', operands=('t', '$1', 5))
    >>> parse("bar.sync 0;", frozenset(["add"]))
    Traceback (most recent call last):
    tritium.ops.ptx_text.Unknown: the instruction 'bar.sync'
    """
    text, at, found = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL), 0, []
    while text[at:].strip():
        if text[at] in "{}; \t\r\n":
            at += 1
            continue
        end = text.find(";", at)
        if end < 0:
            raise Unknown(f"{text[at:].split()[0]!r}, a statement without a semicolon")
        found.append(_statement(text[at:end].strip(), opcodes))
        at = end + 1
    if all(x.name == ".reg" for x in found):
        raise Unknown("no instruction")
    return tuple(found)


def _statement(text, opcodes):
    if declared := re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.DOTALL):
        return Statement("", ".reg", tuple(_declared(declared[1], declared[2])))
    if label := re.match(rf"({_NAME})\s*:(?!:)", text):
        raise Unknown(f"the label {label[1]!r}")
    parts = re.match(rf"(?:@(!?{_NAME})\s+)?([a-z][\w]*(?:\.[\w:]+)*)(?:\s+(.*))?$", text, re.DOTALL)
    if parts is None:
        raise Unknown(f"{text.split()[0]!r}")
    if parts[2].partition(".")[0] not in opcodes:
        raise Unknown(f"the instruction {parts[2]!r}")
    return Statement(parts[1] or "", parts[2], tuple(map(operand, _split(parts[3] or ""))))


def _declared(kind, names):
    """(name, bits) of declared registers."""
    if kind not in SCALARS and kind not in PACKED:
        raise Unknown(f"registers of type {kind!r}")
    bits = SCALARS[kind].bits if kind in SCALARS else 2 * PACKED[kind].bits
    for name in names.split(","):
        parts = re.fullmatch(rf"({_NAME})(?:<(\d+)>)?", name.strip())
        if parts is None:
            raise Unknown(f"the declaration of {name.strip()!r}")
        yield from [(f"{parts[1]}{k}", bits) for k in range(int(parts[2]))] if parts[2] else [(parts[1], bits)]


def _split(text):
    """The operands of an instruction: commas inside of braces separate none."""
    return [x.strip() for x in re.split(r",(?![^{]*\})", text)] if text.strip() else []


def operand(text):
    """A register's name, a number, or a tuple of operands.

    >>> operand("$1"), operand("{a, 0}"), operand("0x10"), operand("0f3FC00000"), operand("-2")
    ('$1', ('a', 0), 16, 1.5, -2)
    """
    parts = _OPERAND.match(text)
    if parts is None:
        raise Unknown(f"the operand {text!r}")
    if parts["number"]:
        return f"${parts['number']}"
    if parts["name"]:
        return parts["name"]
    if parts["vector"] is not None:
        return tuple(map(operand, _split(parts["vector"])))
    sign = -1 if parts["sign"] == "-" else 1
    for name, form in (("f32", ">f"), ("f64", ">d")):
        if parts[name]:
            return sign * struct.unpack(form, bytes.fromhex(parts[name]))[0]
    if parts["float"]:
        return sign * float(parts["float"])
    octal = re.fullmatch(r"0[0-7]+", parts["int"])
    return sign * int(parts["int"], 8 if octal else 0)


class Modifiers:
    """What follows an opcode: taken one by one, and all must be.

    >>> modifiers = Modifiers("add.rn.ftz.f32")
    >>> modifiers.last("f32", "f64"), modifiers.take("rn", "rz"), modifiers.take("sat"), modifiers.left
    ('f32', 'rn', '', ['ftz'])
    """

    def __init__(self, name):
        self.name, self.left = name, name.split(".")[1:]

    def take(self, *names):
        """The first of `names` that is there, else ""."""
        found = next((x for x in names if x in self.left), "")
        if found:
            self.left.remove(found)
        return found

    def need(self, *names):
        """As `take`, of modifiers one of which must be there."""
        return self.take(*names) or self.refuse()

    def last(self, *allowed):
        """The last modifier, which is a type."""
        found = self.left.pop() if self.left else ""
        return found if found in allowed else self.refuse()

    def refuse(self) -> Any:
        """Refuse the instruction."""
        raise Unknown(f"the instruction {self.name!r}")


# --- parts of registers ---------------------------------------------------------------------------------------------
def split(x, bits):
    """The parts of an unsigned integer, the lowest first.

    >>> from tritium.ir.builder import Builder
    >>> from tritium.ops.expression import Expr
    >>> b = Builder()
    >>> [x.v for x in split(Expr(b, b.argument(T.u32)), 16)]
    [Op(cast: u16), Op(cast: u16)]
    """
    small = UNSIGNED[bits]
    return [(x >> k if k else x).cast(small) for k in range(0, x.element.bits, bits)]


def join(parts):
    """An unsigned integer of parts, the lowest first.

    >>> from tritium.ir.builder import Builder
    >>> from tritium.ops.expression import Expr
    >>> b = Builder()
    >>> join([Expr(b, b.argument(T.i16)), Expr(b, b.argument(T.f16))]).element
    u32
    """
    bits = parts[0].element.bits
    t = UNSIGNED.get(bits * len(parts))
    if t is None:
        raise Unknown(f"a vector of {len(parts)} times {bits} bits")
    total = parts[0].ubits.cast(t)
    for k, part in enumerate(parts[1:], 1):
        total = total | part.ubits.cast(t) << k * bits
    return total
