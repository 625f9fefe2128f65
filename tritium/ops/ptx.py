"""Straight-line PTX over tiles: inline assembly for NVIDIA GPUs, written in ops that every target has.

A register is an unsigned integer of its width, a predicate an i1. `ptx_arithmetic` and `ptx_conversions` hold the
instructions; control flow, memory and special registers have none.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

from ..ir import types as T
from ..ir.builder import Builder
from ..ir.core import Op
from .casts import cast
from .control import constant, yield_
from .expression import UNSIGNED, Expr, where
from .ptx_arithmetic import ARITHMETIC
from .ptx_conversions import CONVERSIONS
from .ptx_text import Modifiers, Unknown, join, parse, split
from .reduce import inline_asm, map_
from .shape import splat

INSTRUCTIONS = {**ARITHMETIC, **CONVERSIONS}
_OPCODES = frozenset(INSTRUCTIONS)
REGISTERS = {"r": 32, "f": 32, "l": 64, "d": 64, "h": 16, "b": 1, "c": 8, "n": 0, "i": 0}  # 0: as wide as its argument


# --- execution --------------------------------------------------------------------------------------------------------
class Code:
    """The state of a text that runs: the bits of each register, and its value."""

    def __init__(self, b, dims, inputs):
        self.b, self.dims = b, dims
        self.bits = {name: bits for name, bits, _ in inputs}
        self.values = {name: x for name, _, x in inputs if x is not None}
        self.numbers = {}  # registers that hold numbers known here
        self.guard: Any = None

    def number(self, value, t):
        """A constant in the shape of everything else; integers wrap."""
        if t.is_int and t is not T.i1:
            value = int(value) & (1 << t.bits) - 1
            value -= t.signed * (value >> t.bits - 1 << t.bits)
        made = constant(self.b, value=value, type=t)
        return Expr(self.b, splat(self.b, made, shape=self.dims) if self.dims else made)

    def known(self, x):
        """The integer that an operand is for every element, else None."""
        return x if type(x) is int else self.numbers.get(x)

    def raw(self, name):
        """The bits in a register."""
        if name not in self.values:
            raise Unknown(f"{name!r}, which has no value")
        return self.values[name]

    def read(self, x, t, wider=False):
        """An operand as a type of its width, or of less with `wider`."""
        if type(x) is tuple:
            raise Unknown(f"a vector as an operand of {t.bits} bits")
        if type(x) is float and not t.signed:
            return self.number(x, t) if t.is_float else \
                self.number(int.from_bytes(struct.pack({32: "<f", 64: "<d"}[t.bits], x), "little"), t)
        if type(x) is not str:
            if t.is_float or type(x) is float:
                raise Unknown(f"the operand {x}, not {'a float' if t.is_float else 'an integer'}")
            return self.number(bool(x) if t is T.i1 else x, t)
        if x[0] == "!":
            return ~self.read(x[1:], t)
        found = self.raw(x)
        if found.element.bits > t.bits > 1 and wider:
            found = found.cast(UNSIGNED[t.bits])
        if found.element.bits != t.bits:
            raise Unknown(f"{x!r}, which has {found.element.bits} bits, as an operand of {t.bits}")
        return found.bitcast(t)

    def write(self, name, x, extends=False):
        """Put a value into a register of its width, or of more with `extends`."""
        if name == "_":
            return
        bits = self.bits.get(name)
        if bits is None:
            raise Unknown(f"the register {name!r}")
        if extends and x.element.is_int and x.element.bits < bits:
            x = x.cast(UNSIGNED[bits])
        if x.element.bits != bits:
            raise Unknown(f"{name!r}, which has {bits} bits, as the result of {x.element.bits}")
        x = x if bits == 1 else x.bitcast(UNSIGNED[bits])
        self.numbers.pop(name, None)
        old = self.values.get(name)
        self.values[name] = x if self.guard is None or old is None else where(self.guard, x, old)

    def unpack(self, x, t, count):
        """The parts of an operand, the lowest first."""
        return [p.bitcast(t) for p in split(self.read(x, UNSIGNED[t.bits * count]), t.bits)] if count > 1 else \
            [self.read(x, t)]

    def pack(self, name, parts):
        """Write parts to a register, the first to the lowest bits."""
        self.write(name, join(parts) if len(parts) > 1 else parts[0])

    def run(self, statements):
        """Execute statements in turn."""
        for guard, name, operands in statements:
            if name == ".reg":
                self.bits.update(operands)
                for declared, _ in operands:
                    self.values.pop(declared, None)
                continue
            counts, execute = INSTRUCTIONS[name.partition(".")[0]]
            modifiers = Modifiers(name)
            if len(operands) not in counts:
                modifiers.refuse()
            self.guard = self.read(guard, T.i1) if guard else None
            try:
                execute(self, modifiers, *operands)
            except Unknown as wrong:
                if repr(name) in str(wrong):
                    raise
                raise Unknown(f"{wrong}, in {name!r}") from None


# --- the op -----------------------------------------------------------------------------------------------------------
def expand(b, op):
    """The results of an inline assembly op in PTX, computed by other ops; raises `Unknown`.

    >>> b = Builder()
    >>> attrs = {"asm": "add.s32 $0, $1, $1;", "constraints": "=r,r", "types": (T.i32,), "pure": True, "pack": 1}
    >>> op = inline_asm(b, b.argument(T.i32, "x"), **attrs)
    >>> expand(b, op)
    (Op(bitcast: i32),)
    """
    statements = parse(op.attrs["asm"], _OPCODES)
    pack, dims = op.attrs["pack"], T.shape(op.types[0]) if op.types else ()
    xs = [Expr(b, x) for x in op.operands]
    if pack == 1 or not xs or T.numel(op.types[0]) % pack:  # each element in a pack of its own
        made = _packed(b, dims, op, statements, [[x] * pack for x in xs])
        return tuple(out[0].v for out in made)
    with b.region([x.element for x in xs for _ in range(pack)]) as region:
        args = iter([Expr(b, a) for a in region.args])
        # numbers stay known
        inside = [[Expr(b, constant(b, **x.attrs)) if (x := _constant(v)) else a
                   for a in [next(args) for _ in range(pack)]] for v in op.operands]
        yield_(b, *[x.v for out in _packed(b, (), op, statements, inside) for x in out])
    made = map_(b, *op.operands, pack=pack, regions=(region.block,))
    return made if type(made) is tuple else (made,)


def _constant(x):
    """The op `constant` behind a value or a tile of equal elements, else None."""
    if type(x) is Op and x.kind is splat:
        x = x.operands[0]
    return x if type(x) is Op and x.kind is constant else None


def _packed(b, dims, op, statements, groups):
    """For each result its elements of one pack; `groups` are those of the operands."""
    outputs, inputs = _constraints(op.attrs["constraints"])
    words, numbers = [], []
    for group, x in zip(groups, op.operands):
        filled = _words(group)
        known = _constant(x) if len(filled) == len(group) else None
        words += filled
        numbers += [known.attrs["value"] if known is not None and type(known.attrs["value"]) is int else None] \
            * len(filled)
    if len(words) != len(inputs):
        raise Unknown(f"{len(inputs)} inputs, for arguments that fill {len(words)} registers with pack={len(groups[0])}"
                      if groups else f"{len(inputs)} inputs, and no arguments")
    code = Code(b, dims, [(f"${k}", bits, None) for k, bits in enumerate(outputs)])
    aliases = {}
    for k, (word, (bits, tied), number) in enumerate(zip(words, inputs, numbers), len(outputs)):
        name = f"${k}"
        if tied is not None:
            aliases[name] = name = f"${tied}"
        code.bits[name] = bits = bits or word.element.bits
        code.values[name] = _sized(word, bits)
        if number is not None:
            code.numbers[name] = number
    code.run([s._replace(operands=tuple(aliases.get(x, x) if type(x) is str else x for x in s.operands))
              for s in statements] if aliases else statements)
    made = [code.raw(f"${k}") for k in range(len(outputs))]
    pack = op.attrs["pack"]
    return [_elements(made, t, pack) for t in op.attrs["types"]]


def _constraints(text):
    """(bits of each output, (bits, output that it shares a register with) of each input)."""
    outputs, inputs = [], []
    for item in text.replace(" ", "").split(","):
        letter = item.lstrip("=&+*")
        if item.startswith("~") or not item:
            continue
        if letter.isdigit() and int(letter) < len(outputs):
            inputs.append((outputs[int(letter)], int(letter)))
        elif letter not in REGISTERS:
            raise Unknown(f"the constraint {item!r}")
        elif item[0] == "=":
            outputs.append(REGISTERS[letter])
        else:
            inputs.append((REGISTERS[letter], None))
    return outputs, inputs


def _words(elements):
    """The elements of a pack as unsigned integers: those below 32 bits share words."""
    t = elements[0].element
    if type(t) is T.Ptr:
        return [Expr(x.b, cast(x.b, x.v, to=T.u64)) for x in elements]
    if t is T.i1 or t.bits >= 32:
        return [x if t is T.i1 else x.ubits for x in elements]
    out = []
    for k in range(0, len(elements), 32 // t.bits):
        word = [x.ubits for x in elements[k:k + 32 // t.bits]]
        if len(word) == 3:
            word.append(word[0].const(0))
        out.append(join(word) if len(word) > 1 else word[0])
    return out


def _sized(word, bits):
    """A word in a register of so many bits."""
    have = word.element.bits
    if have == bits:
        return word
    if bits == 1:
        return (word & 1) != 0
    return word.cast(UNSIGNED[bits])


def _elements(registers, t, pack):
    """Take the elements of the next result from the front of the registers."""
    out = []
    while len(out) < pack:
        if not registers:
            raise Unknown("outputs that are fewer than the results")
        word = registers.pop(0)
        if type(t) is T.Ptr:
            out.append(Expr(word.b, cast(word.b, _sized(word, 64).v, to=t)))
        elif t is T.i1 or t.bits >= 32 or word.element.bits < 2 * t.bits:
            made = _sized(word, t.bits)
            out.append(made if t is T.i1 else made.bitcast(t))
        else:
            out += [x.bitcast(t) for x in split(word, t.bits)]
    return out[:pack]


def refusal(op):
    """Why an inline assembly op is not the PTX known here; "" if it is.

    >>> from types import SimpleNamespace
    >>> attrs = {"asm": "bar.sync 0;", "constraints": "=r", "types": (T.i32,), "pure": False, "pack": 1}
    >>> refusal(SimpleNamespace(attrs=attrs, operands=(), types=(T.i32,)))
    "the instruction 'bar.sync'"
    """
    try:
        block(op)
    except Unknown as wrong:
        return str(wrong)
    return ""


def block(op):
    """A block that computes the results of an inline assembly op from its operands; raises `Unknown`.

    >>> b = Builder()
    >>> attrs = {"asm": "not.b32 $0, $1;", "constraints": "=r,r", "types": (T.u32,), "pure": True, "pack": 1}
    >>> [op.kind.name for op in block(inline_asm(b, b.argument(T.u32), **attrs)).ops]
    ['constant', 'xor', 'yield']
    """
    found = _block(tuple(op.attrs.items()), tuple(x.type for x in op.operands), tuple(op.types))
    if type(found) is str:
        raise Unknown(found)
    return found


@functools.lru_cache(maxsize=256)
def _block(attrs, operands, types):
    """The block, or why there is none."""
    b = Builder()
    args = [b.argument(t) for t in operands]
    try:
        yield_(b, *expand(b, Op(inline_asm, tuple(args), dict(attrs), types)))
    except Unknown as wrong:
        return str(wrong)
    return b.finish()
