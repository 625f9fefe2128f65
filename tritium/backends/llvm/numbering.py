"""A writer with value numbering, constant folding of integers, and merging of branches on the same condition.

Unrolled tiles repeat computations: the same row, column or mask for every register. LLVM would eliminate them, but its
passes over addresses take time that grows faster than the number of lines.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...named_tuples import NamedTuple
from .writer import Level, Val, Writer

_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "shl": operator.lshift,
}  # fmt: skip
_SHIFTS = frozenset(("shl", "lshr", "ashr"))
_RIGHT_ZERO = frozenset(("add", "sub", "or", "xor")) | _SHIFTS  # x + 0 is x
_LEFT_ZERO = frozenset(("add", "or", "xor"))
_ABSORBING = frozenset(("mul", "and"))  # x * 0 is 0


def number_of(x: Val) -> float | int | None:
    """The number that a constant of an integer, float or double type spells; None of other values.

    >>> from tritium.backends.llvm.writer import value
    >>> number_of(value("i32", "-7")), number_of(value("float", "0x3FB99999A0000000")), number_of(value("i1", "true"))
    (-7, 0.10000000149011612, True)
    >>> number_of(value("i32", "%x"))
    """
    if x[0] == "%":
        return None
    if x.type in ("float", "double"):
        return struct.unpack(">d", bytes.fromhex(x[2:]))[0] if x.startswith("0x") else float(x)
    if x.type == "i1":
        return x == "true"
    return int(x) if x.type[0] == "i" else None


class Branch(NamedTuple):
    """A closed branch: its condition, and the level of its block; the number of lines around it when it was closed, and
    of those without effects."""

    condition: Val
    likely: bool | None
    part: Level
    lines: int
    pure: int

    def may_go_on(self, level: Level) -> bool:
        """Whether no line with an effect has been emitted since."""
        return len(level.lines) - self.lines == level.pure - self.pure


class NumberingWriter(Writer):
    """As `Writer`; a line without effects that is available at its level is reused.

    >>> w = NumberingWriter()
    >>> with w.function("i32", "f", ["i32 x"]) as (x,):
    ...     y, z = w.binary("mul", x, w.const("i32", 3)), w.binary("mul", x, w.const("i32", 3))
    ...     w.ret(w.binary("add", w.binary("xor", y, z), w.binary("mul", x, w.const("i32", 0))))
    >>> print(w.text())
    define i32 @f(i32 %x) nounwind {
    entry:
      %x.1 = mul i32 %x, 3
      %x.2 = xor i32 %x.1, %x.1
      ret i32 %x.2
    }
    """

    def emit(self, type: str, text: str, *operands: Val) -> Val:
        """As `Writer.emit`; a line of the level of a loop goes to that of a branch in it (`kept`)."""
        place, levels = 0, self.levels
        for x in operands:
            if x.level > place:
                place = x.level
        at = levels[place]
        found = at.made.get(text)
        loop, branch = self.kept
        if (place < self.floor or loop <= place < branch) and (found is None or found.type != type):
            place = max(self.floor, branch if loop <= place < branch else 0)
            at = levels[place]
            found = at.made.get(text)
        if found is None or found.type != type:
            at.made[text] = found = self._line(type, text, place)
            at.pure += 1
        return found

    def effect(self, text: str, type: str = "", at: int = -1) -> Val:
        if at >= 0:  # its place does not matter, or it would be written where it is asked for
            self.levels[at].pure += 1
        return super().effect(text, type, at)

    @contextmanager
    def when(self, condition: Val | None, likely: bool | None = None) -> Iterator[Level]:
        """As `Writer.when`; without a condition, the code as it is. Two consecutive blocks on one condition are merged.

        >>> w = NumberingWriter()
        >>> with w.function("void", "f", ["i1 c", "ptr p", "i64 n"]) as (c, p, n):
        ...     with w.when(c): w.store(w.const("i32", 1), p)
        ...     q = w.emit("ptr", f"getelementptr i32, ptr {p}, i64 {n}", p, n)
        ...     with w.when(c): w.store(w.const("i32", 2), q)
        ...     w.ret()
        >>> print(w.text())
        define void @f(i1 %c, ptr %p, i64 %n) nounwind {
        entry:
          %x.2 = getelementptr i32, ptr %p, i64 %n
          br i1 %c, label %then.1, label %done.1
        then.1:
          store i32 1, ptr %p
          store i32 2, ptr %x.2
          br label %done.1
        done.1:
          ret void
        }
        """
        outer = self.levels[-1]
        if condition is None:
            yield outer
            return
        last: Branch | None = outer.last
        if last is None or (last.condition, last.likely) != (condition, likely) or not last.may_go_on(outer):
            with super().when(condition, likely) as part:
                yield part
        else:
            part = Level(last.part.label)
            part.made = last.part.made
            self.levels.append(part)
            yield part
            self.levels.pop()
            start, stop = last.part.span
            behind = outer.lines[last.lines:]
            outer.lines[start:] = [*behind, *outer.lines[start:stop], *part.lines, *outer.lines[stop:last.lines]]
            part.span = start + len(behind), stop + len(behind) + len(part.lines)
        outer.last = Branch(condition, likely, part, len(outer.lines), outer.pure)

    def binary(self, opcode: str, x: Val, y: Val) -> Val:
        type = x.type
        if type[0] == "i" and not x[0] == y[0] == "%":
            found = _folded(self, opcode.partition(" ")[0], x, y)
            if found is not None:
                return found
        return self.emit(type, f"{opcode} {type} {x}, {y}", x, y)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        if condition[0] != "%" and condition.type == "i1":
            return x if condition == "true" else y
        return super().select(condition, x, y)

    def cast(self, opcode: str, x: Val, type: str) -> Val:
        if x.type == type:
            return x
        if x == "0" and type[0] == "i" and opcode in ("sext", "zext", "trunc"):
            return self.const(type, 0)
        return self.emit(type, f"{opcode} {x.type} {x} to {type}", x)


def _folded(w: Writer, opcode: str, x: Val, y: Val) -> Val | None:
    """The folded result of an operation on integers; None if it does not fold."""
    if x.type == "i1":
        return _folded_bits(w, opcode, x, y)
    if y == "0" and opcode in _RIGHT_ZERO:
        return x
    if x == "0" and opcode in _LEFT_ZERO:
        return y
    if opcode in _ABSORBING and "0" in (x, y):
        return w.const(x.type, 0)
    if opcode == "mul" and "1" in (x, y):
        return x if y == "1" else y
    if opcode in _FOLD and _is_number(x) and _is_number(y):
        bits = int(x.type[1:])
        if opcode in _SHIFTS and not 0 <= int(y) < bits:
            return None
        total = _FOLD[opcode](int(x), int(y)) & ((1 << bits) - 1)
        return w.const(x.type, total - (1 << bits) if total >> (bits - 1) and bits > 1 else total)
    return None


def _folded_bits(w: Writer, opcode: str, x: Val, y: Val) -> Val | None:
    """As `_folded`, of truth values, one of which is known at least."""
    known, other = (x == "true", y) if x[0] != "%" else (y == "true", x)
    if opcode == "and":
        return other if known else w.const("i1", False)
    if opcode == "or":
        return w.const("i1", True) if known else other
    if opcode == "xor" and (not known or other[0] != "%"):
        return w.const("i1", other != "true") if known else other
    return None


def _is_number(x: Val) -> bool:
    return x[0] in "-0123456789"
