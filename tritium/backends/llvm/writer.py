"""LLVM as text, written one line at a time.

Text is 25 times cheaper than building LLVM objects from Python. A value is its spelling (`%x.12`, `splat (float 1.0)`)
and carries its type, so a line is an f-string away:

    >>> w = Writer()
    >>> with w.function("void", "double", ("ptr x", "i64 n")) as (x, n):
    ...     with w.loop(0, n, 4) as loop:
    ...         p = w.gep("float", x, loop.index)
    ...         v = w.load("<4 x float>", p, align=4)
    ...         w.store(w.binary("fmul", v, w.const("<4 x float>", 2.0)), p, align=4)
    ...     w.ret()
    >>> print(w.text())
    define void @double(ptr %x, i64 %n) nounwind {
    entry:
      %x.1 = icmp slt i64 0, %n
      br i1 %x.1, label %body.2, label %done.2
    body.2:
      %i.2 = phi i64 [0, %entry], [%n.2, %body.2]
      %x.3 = getelementptr float, ptr %x, i64 %i.2
      %x.4 = load <4 x float>, ptr %x.3, align 4
      %x.5 = fmul <4 x float> %x.4, splat (float 2.0)
      store <4 x float> %x.5, ptr %x.3, align 4
      %n.2 = add nsw i64 %i.2, 4
      %x.6 = icmp slt i64 %n.2, %n
      br i1 %x.6, label %body.2, label %done.2
    done.2:
      ret void
    }

Every open loop or branch is a *level* with its own line buffer. A line without effects is emitted at the level of its
deepest operand: loop-invariant code is hoisted as it is written, and no LLVM loop pass is needed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SHORT = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0", "bfloat": "bf16"}
NO_BRANCH: tuple[int, int] = (0, 0)  # the levels of a loop and of a branch in it
_FLOATS = frozenset(("half", "float", "double"))


class Val(str):
    """A value as LLVM spells it, with its LLVM type and the level at which it is defined (constants: 0)."""

    __slots__ = ("level", "type")
    type: str
    level: int

    @property
    def typed(self) -> str:
        """The value as an argument: type and spelling.

        >>> value("i32", "%x1").typed
        'i32 %x1'
        """
        return f"{self.type} {self}"


def value(type: str, spelling: str, level: int = 0) -> Val:
    """The value of `type` spelled `spelling`.

    >>> value("i32", "7").type
    'i32'
    """
    v = Val(spelling)
    v.type, v.level = type, level
    return v


def vector(n: int, type: str) -> str:
    """The type of `n` lanes of `type`.

    >>> vector(16, "float"), vector(1, "float")
    ('<16 x float>', 'float')
    """
    return type if n == 1 else f"<{n} x {type}>"


def lanes(type: str) -> int:
    """How many lanes `type` has.

    >>> lanes("<16 x float>"), lanes("ptr")
    (16, 1)
    """
    return int(type[1 : type.index(" ")]) if type[0] == "<" else 1


def element(type: str) -> str:
    """The type of one lane.

    >>> element("<16 x float>"), element("ptr")
    ('float', 'ptr')
    """
    return type[type.index(" x ") + 3 : -1] if type[0] == "<" else type


def mangle(type: str) -> str:
    """How the name of an overloaded intrinsic spells `type`.

    >>> mangle("<16 x float>"), mangle("i32")
    ('v16f32', 'i32')
    """
    e = element(type)
    e = _SHORT.get(e, e)
    return e if type[0] != "<" else f"v{lanes(type)}{e}"


def float_text(type: str, x: float) -> str:
    """An LLVM float constant equal to `x` rounded to `type`: short where decimal is exact, else the bits.

    >>> float_text("float", 0.1), float_text("half", 1.5), float_text("double", float("-inf"))
    ('0x3FB99999A0000000', '1.5', '0xFFF0000000000000')
    """
    x = float(x)
    if type != "double":
        code = "e" if type == "half" else "f"
        (x,) = struct.unpack(code, _pack(code, x))
    # Small multiples of a quarter are exact in decimal and in every float type.
    if -1e4 < x < 1e4 and x * 4 == int(x * 4) and (x or str(x) == "0.0"):
        return str(x)
    if type == "half":
        return f"0xH{int.from_bytes(struct.pack('>e', x)):04X}"
    return f"0x{int.from_bytes(struct.pack('>d', x)):016X}"  # LLVM spells float constants with double's bits


def results_type(types: Sequence[str]) -> str:
    """The type of what a function with these results returns.

    >>> results_type([]), results_type(["i32"]), results_type(["i32", "ptr"])
    ('void', 'i32', '{ i32, ptr }')
    """
    return types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}" if types else "void"


def symbol(name: str) -> str:
    """A name with letters that symbols may have.

    >>> symbol("f<int>")
    'f_int_'
    """
    return re.sub(r"[^\w$]", "_", name, flags=re.ASCII)


def escaped(data: bytes) -> str:
    """Bytes as they stand between quotes.

    >>> escaped(b'say "a"')
    'say \\\\22a\\\\22'
    """
    return data.decode("latin-1").translate(_ESCAPES)


_ESCAPES = {c: f"\\{c:02X}" for c in range(256) if not 32 <= c < 127 or c in b'"\\'}


def _pack(code: str, x: float) -> bytes:
    try:
        return struct.pack(code, x)
    except OverflowError:  # struct refuses what rounds to infinity
        return struct.pack(code, float("inf") if x > 0 else float("-inf"))


def _literal(type: str, x: Any) -> str:
    if type in _FLOATS:
        return float_text(type, x)
    if type == "ptr":
        return f"inttoptr (i64 {int(x)} to ptr)" if x else "null"
    if type == "i1":
        return "true" if x else "false"
    return str(int(x))


class Level:
    """One open loop, branch or function: its lines so far, and the block the next line falls into."""

    __slots__ = ("label", "last", "lines", "made", "pure", "slots", "span")

    def __init__(self, label: str):
        self.label = label
        self.lines: list[str] = []
        self.slots: list[str] = []  # of a function: its stack slots, which come first
        # Where lines are numbered: a line without effects -> its value, how many there are, and the last branch.
        self.made: dict[str, Val] = {}
        self.pure = 0
        self.last: Any = None
        # Of a closed branch, places in the lines around it: of its condition, and behind its own lines.
        self.span: tuple[int, int] = (0, 0)


class Loop:
    """An open loop; set `next` to the carried values of the next iteration before it closes.

    `step` may be set as well, to what this iteration advances by: a positive value.
    """

    __slots__ = ("carried", "index", "next", "results", "step")

    def __init__(self, index: Val, carried: tuple[Val, ...], step: Val):
        self.index, self.carried, self.step = index, carried, step
        self.next: Sequence[Val] = carried
        self.results: tuple[Val, ...] = ()


class Writer:
    """A module being written."""

    def __init__(self):
        self._count = 0
        self._head: list[str] = []  # globals and finished functions
        self._declared: dict[str, str] = {}
        self._defined: set[str] = set()
        self._intrinsics: dict[tuple, str] = {}
        self._strings: dict[bytes, Val] = {}
        self._structs: dict[str, str] = {}
        self._constants: dict[tuple, Val] = {}
        self._lanes: dict[str, tuple[Val, int]] = {}  # an extracted value -> (its vector, its lane)
        self._weighted = False
        self.levels: list[Level] = []
        self.floor, self.kept = 0, NO_BRANCH  # where lines without effects go at least; see `NumberingWriter.emit`
        self.here = ""  # the debug location that every line ends in

    # -- the module ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The module written so far."""
        tail = ['!0 = !{!"branch_weights", i32 2000, i32 1}', '!1 = !{!"branch_weights", i32 1, i32 2000}']
        declared = [line for name, line in self._declared.items() if name not in self._defined]
        return "\n".join([*declared, *self._head, *(tail if self._weighted else ())])

    def raw(self, text: str) -> None:
        """Add module-level text as it is: a global, or a whole function."""
        self._head.append(text)

    def struct(self, types: Sequence[str]) -> str:
        """The name of a structure of these types, defined once: of many fields it is shorter than what it stands for.

        >>> w = Writer()
        >>> w.struct(["float", "float"]), w.text()
        ('%struct.0', '%struct.0 = type { float, float }')
        """
        spelled = ", ".join(types)
        if spelled not in self._structs:
            self._structs[spelled] = f"%struct.{len(self._structs)}"
            self.raw(f"{self._structs[spelled]} = type {{ {spelled} }}")
        return self._structs[spelled]

    def declare(self, name: str, result: str, parameters: Iterable[str], attributes: str = "") -> None:
        """Declare an external function, once.

        >>> w = Writer()
        >>> w.declare("expf", "float", ["float"]); w.declare("expf", "float", ["float"]); w.text()
        'declare float @expf(float)'
        """
        if name not in self._declared:
            self._declared[name] = f"declare {result} @{name}({', '.join(parameters)}) {attributes}".rstrip()

    def string(self, text: str | bytes) -> Val:
        """The address of a zero-terminated constant; equal strings are one.

        >>> w = Writer()
        >>> w.string("a\\n"), w.text()
        ('@str0', '@str0 = private unnamed_addr constant [3 x i8] c"a\\\\0A\\\\00"')
        """
        data = (text.encode() if isinstance(text, str) else text) + b"\0"
        if data not in self._strings:
            name = f"@str{len(self._strings)}"
            self.raw(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{escaped(data)}"')
            self._strings[data] = value("ptr", name)
        return self._strings[data]

    @contextmanager
    def function(self, result: str, name: str, parameters: Sequence[str], attributes: str = "nounwind",
                 linkage: str = "") -> Iterator[list[Val]]:
        """Write the function `name`; each parameter is spelled as type (with attributes) and name: "ptr x"."""
        outer, self.levels = (self.levels, self.floor, self.kept), [Level("entry")]
        self.floor, self.kept = 0, NO_BRANCH
        self._defined.add(name)
        named = [p.rsplit(" ", 1) for p in parameters]
        yield [value(type.split(" ")[0] if type[0] != "<" else type, f"%{n}") for type, n in named]
        head = f"define {linkage} " if linkage else "define "
        arguments = ", ".join(f"{type} %{n}" for type, n in named)
        head += f"{result} @{name}({arguments}) {attributes} {{"
        self.raw("\n".join([head, "entry:", *self.levels[0].slots, *self.levels[0].lines, "}"]))
        self.levels, self.floor, self.kept = outer

    # -- lines -----------------------------------------------------------------------------------------------------

    def fresh(self, type: str, level: int) -> Val:
        """A new name for a value of `type` defined at `level`."""
        self._count = n = self._count + 1
        v = Val(f"%x.{n}")
        v.type, v.level = type, level
        return v

    def emit(self, type: str, text: str, *operands: Val) -> Val:
        """A line without effects, at the level of the deepest operand, but not above `floor`.

        >>> w = Writer()
        >>> with w.function("i32", "f", ["i32 x"]) as (x,):
        ...     w.ret(w.emit("i32", f"add nsw i32 {x}, {x}", x))
        >>> print(w.text())
        define i32 @f(i32 %x) nounwind {
        entry:
          %x.1 = add nsw i32 %x, %x
          ret i32 %x.1
        }
        """
        level = self.floor
        for x in operands:
            if x.level > level:
                level = x.level
        return self._line(type, text, level)

    def _line(self, type: str, text: str, level: int) -> Val:
        """A line that gives a value of `type`, at `level`."""
        self._count = n = self._count + 1
        v = Val(f"%x.{n}")
        v.type, v.level = type, level
        self.levels[level].lines.append(f"  %x.{n} = {text}{self.here}")
        return v

    def effect(self, text: str, type: str = "", at: int = -1) -> Val:
        """A line that must stay where it is: at the innermost level, or at level `at`."""
        level = at if at >= 0 else len(self.levels) - 1
        if not type or type == "void":
            self.levels[level].lines.append(f"  {text}{self.here}")
            return _NOTHING
        return self._line(type, text, level)

    def const(self, type: str, x: Any) -> Val:
        """The constant `x` of `type`, the same in all lanes of a vector.

        >>> w = Writer()
        >>> w.const("i32", -1), w.const("<4 x float>", 0.1), w.const("<8 x i16>", 0)
        ('-1', 'splat (float 0x3FB99999A0000000)', 'zeroinitializer')
        """
        key = (type, x, str(x)) if x == 0 else (type, x)  # 0.0 is not -0.0
        found = self._constants.get(key)
        if found is None:
            if type[0] != "<":
                text = _literal(type, x)
            elif x == 0 and str(x)[0] != "-":
                text = "zeroinitializer"
            else:
                text = f"splat ({element(type)} {_literal(element(type), x)})"
            found = self._constants[key] = value(type, text)
        return found

    def lanes_of(self, type: str, xs: Sequence) -> Val:
        """The vector constant with lanes `xs`; `type` is the type of one lane.

        >>> Writer().lanes_of("i32", range(4))
        '<i32 0, i32 1, i32 2, i32 3>'
        """
        return value(vector(len(xs), type), "<" + ", ".join(f"{type} {_literal(type, x)}" for x in xs) + ">")

    def binary(self, opcode: str, x: Val, y: Val) -> Val:
        """`opcode` (with its flags: "fadd contract") on two values of one type."""
        return self.emit(x.type, f"{opcode} {x.type} {x}, {y}", x, y)

    def unary(self, opcode: str, x: Val) -> Val:
        """`opcode` on one value: "fneg", "freeze"."""
        return self.emit(x.type, f"{opcode} {x.type} {x}", x)

    def cast(self, opcode: str, x: Val, type: str) -> Val:
        """`x` converted to `type` by "zext", "fptrunc", "bitcast", ...; itself if it has the type already."""
        return x if x.type == type else self.emit(type, f"{opcode} {x.type} {x} to {type}", x)

    def compare(self, predicate: str, x: Val, y: Val) -> Val:
        """A comparison: "icmp slt", "fcmp olt", ..."""
        n = lanes(x.type)
        return self.emit(vector(n, "i1"), f"{predicate} {x.type} {x}, {y}", x, y)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        """`x` where `condition`, else `y`."""
        return self.emit(x.type, f"select {condition.type} {condition}, {x.type} {x}, {y.type} {y}", condition, x, y)

    def all_of(self, *conditions: Val | None) -> Any:
        """Whether all conditions hold; None stands for one that always does, and for all of none."""
        total = None
        for x in conditions:
            total = x if total is None else total if x is None else self.binary("and", total, x)
        return total

    def gep(self, type: str, base: Val, index: Val) -> Val:
        """The address of the `index`th `type` after `base`."""
        return self.emit("ptr", f"getelementptr {type}, ptr {base}, {index.type} {index}", base, index)

    def splat(self, x: Val, n: int) -> Val:
        """`x` in each of `n` lanes."""
        if n == 1:
            return x
        type = vector(n, x.type)
        first = self.emit(type, f"insertelement {type} poison, {x.type} {x}, i64 0", x)
        return self.emit(type, f"shufflevector {type} {first}, {type} poison, <{n} x i32> zeroinitializer", first)

    def shuffle(self, x: Val, y: Val | None, picks: Sequence[int]) -> Val:
        """Lanes `picks` of `x` followed by `y`."""
        mask = ", ".join(f"i32 {p}" for p in picks)
        type = vector(len(picks), element(x.type))
        other = "poison" if y is None else y
        text = f"shufflevector {x.type} {x}, {x.type} {other}, <{len(picks)} x i32> <{mask}>"
        return self.emit(type, text, x, x if y is None else y)

    def extract(self, x: Val, i: int | Val) -> Val:
        """Lane `i` of `x`."""
        if isinstance(i, Val):
            return self.emit(element(x.type), f"extractelement {x.type} {x}, {i.type} {i}", x, i)
        lane = self.emit(element(x.type), f"extractelement {x.type} {x}, i64 {i}", x)
        self._lanes[lane] = x, i
        return lane

    def neighbours(self, items: Sequence[Val]) -> tuple[Val, int] | None:
        """The vector that `items` were taken from, lane by lane in order, and which the first is; None if from none.

        >>> w, x = Writer(), value("<4 x half>", "%x")
        >>> with w.function("void", "f", ["<4 x half> x"]):
        ...     w.neighbours([w.extract(x, k) for k in (2, 3)]), w.neighbours([w.extract(x, k) for k in (1, 0)])
        (('%x', 2), None)
        """
        vector, first = self._lanes.get(items[0], (None, 0))
        if vector is None or any(self._lanes.get(x) != (vector, first + k) for k, x in enumerate(items)):
            return None
        level = max(x.level for x in items)
        if level < vector.level:  # a loop that has an iteration has been left, which its results stay known after
            vector = value(vector.type, str(vector), level)
        return vector, first

    def insert(self, x: Val, item: Val, i: int | Val) -> Val:
        """`x` with lane `i` replaced by `item`."""
        if not isinstance(i, Val):
            i = self.const("i64", i)
        return self.emit(x.type, f"insertelement {x.type} {x}, {item.typed}, {i.type} {i}", x, item, i)

    def intrinsic(self, name: str, result: str, *arguments: Val, overload: tuple[str, ...] | None = None,
                  flags: str = "", attributes: str = "") -> Val:
        """Call an LLVM intrinsic without effects; `overload` are the types its name carries (default: the result's).

        >>> w = Writer()
        >>> with w.function("float", "f", ["float x"]) as (x,): w.ret(w.intrinsic("sqrt", "float", x))
        >>> print(w.text().splitlines()[0])
        declare float @llvm.sqrt.f32(float)
        """
        key = (name, result, overload)
        full = self._intrinsics.get(key)
        if full is None:
            parts = ("llvm", name, *map(mangle, (result,) if overload is None else overload))
            full = self._intrinsics[key] = ".".join(parts)
            self.declare(full, result, [x.type for x in arguments], attributes)
        listed = ", ".join([f"{x.type} {x}" for x in arguments])
        return self.emit(result, f"call {flags}{' ' if flags else ''}{result} @{full}({listed})", *arguments)

    # -- effects ---------------------------------------------------------------------------------------------------

    def load(self, type: str, pointer: Val, align: int = 0, at: int = -1) -> Val:
        """The `type` at `pointer`; `align` in bytes, or the type's own."""
        suffix = f", align {align}" if align else ""
        return self.effect(f"load {type}, ptr {pointer}{suffix}", type, at)

    def store(self, x: Val, pointer: Val, align: int = 0) -> None:
        """Write `x` at `pointer`."""
        suffix = f", align {align}" if align else ""
        self.levels[-1].lines.append(f"  store {x.type} {x}, ptr {pointer}{suffix}{self.here}")

    def call(self, result: str, name: str, *arguments: Val, attributes: str = "", at: int = -1) -> Val:
        """Call a function that has effects; it is declared unless this module defines it."""
        if name not in self._declared:
            self.declare(name, result, [x.type for x in arguments], attributes)
        return self.effect(f"call {result} @{name}({', '.join([x.typed for x in arguments])})", result, at)

    def alloca(self, type: str, align: int = 0) -> Val:
        """A stack slot, made once per call of the function wherever this is written."""
        suffix = f", align {align}" if align else ""
        v = self.fresh("ptr", 0)
        self.levels[0].slots.insert(0, f"  {v} = alloca {type}{suffix}")
        return v

    # -- control ---------------------------------------------------------------------------------------------------

    def label(self, name: str = "b") -> str:
        """A new block name."""
        self._count += 1
        return f"{name}.{self._count}"

    def block(self, label: str) -> None:
        """Begin the block `label` at the innermost level."""
        level = self.levels[-1]
        level.lines.append(f"{label}:")
        level.label = label

    def jump(self, label: str) -> None:
        """End the block by going to `label`."""
        self.levels[-1].lines.append(f"  br label %{label}{self.here}")

    def branch(self, condition: Val, yes: str, no: str, likely: bool | None = None) -> None:
        """End the block by going to `yes` or `no`; `likely` says what to expect of `condition`."""
        weights = ""
        if likely is not None:
            self._weighted, weights = True, ", !prof !0" if likely else ", !prof !1"
        self.levels[-1].lines.append(f"  br i1 {condition}, label %{yes}, label %{no}{weights}{self.here}")

    def ret(self, *results: Val) -> None:
        """End the function; several results are a structure.

        >>> w = Writer()
        >>> with w.function("{ i32, i64 }", "f", ["i32 x", "i64 y"]) as (x, y): w.ret(x, y)
        >>> w.text().splitlines()[-2]
        '  ret { i32, i64 } %x.2'
        """
        whole = value(results_type([x.type for x in results]), "poison")
        for k, x in enumerate(results if len(results) > 1 else ()):
            whole = self.effect(f"insertvalue {whole.typed}, {x.typed}, {k}", whole.type)
        returned = "void" if not results else results[0].typed if len(results) == 1 else whole.typed
        self.levels[-1].lines.append(f"  ret {returned}{self.here}")

    def results(self, made: Val, types: Sequence[str]) -> list[Val]:
        """The results of a call of a function that has results of these types."""
        if len(types) < 2:
            return [made]
        return [self.emit(t, f"extractvalue {made.typed}, {k}", made) for k, t in enumerate(types)]

    def phi(self, type: str, *incoming: tuple[Val, str]) -> Val:
        """The value that came with the block taken; the first line of a block, at the innermost level."""
        return self.effect(f"phi {type} " + ", ".join(f"[{x}, %{label}]" for x, label in incoming), type)

    @contextmanager
    def level(self) -> Iterator[Level]:
        """Open a level: lines that depend on its values stay in it. Its lines join the outer level when it closes."""
        inner = Level(self.levels[-1].label)
        self.levels.append(inner)
        yield inner
        self.levels.pop()
        outer = self.levels[-1]
        outer.lines += inner.lines
        outer.label = inner.label

    @contextmanager
    def when(self, condition: Val, likely: bool | None = None) -> Iterator[Level]:
        """Emit the code inside under `condition`, as a level.

        >>> w = Writer()
        >>> with w.function("void", "f", ["i1 c", "ptr p"]) as (c, p):
        ...     with w.when(c): w.store(w.const("i32", 1), p)
        ...     w.ret()
        >>> print(w.text())
        define void @f(i1 %c, ptr %p) nounwind {
        entry:
          br i1 %c, label %then.1, label %done.1
        then.1:
          store i32 1, ptr %p
          br label %done.1
        done.1:
          ret void
        }
        """
        self._count = n = self._count + 1
        inner = Level(f"then.{n}")
        self.levels.append(inner)
        yield inner
        count = len(inner.lines)
        self.jump(f"done.{n}")
        self.levels.pop()
        lines = self.levels[-1].lines
        start = len(lines)
        self.branch(condition, f"then.{n}", f"done.{n}", likely)
        lines.append(f"then.{n}:")
        inner.span = start, len(lines) + count
        lines += inner.lines
        self.block(f"done.{n}")

    @contextmanager
    def loop(self, start: int | Val, stop: int | Val, step: int | Val = 1, carry: Sequence[Val] = (),
             nonempty: bool = False, type: str = "i64", until: str = "slt") -> Iterator[Loop]:
        """Count from `start` to below `stop`, with loop-carried values; `nonempty` asserts at least one iteration.

        `type` is the index's, `until` the comparison with `stop` that keeps it going ("sgt" counts down).

        >>> w = Writer()
        >>> with w.function("i64", "triangle", ["i64 n"]) as (n,):
        ...     with w.loop(0, n, carry=[w.const("i64", 0)]) as loop:
        ...         loop.next = [w.binary("add", loop.carried[0], loop.index)]
        ...     w.ret(loop.results[0])
        >>> w.text().count("phi")
        3
        """
        lo, hi, by = (x if isinstance(x, Val) else self.const(type, x) for x in (start, stop, step))
        if not isinstance(start, Val) and not isinstance(stop, Val):
            nonempty = nonempty or start < stop
        depth = len(self.levels)
        guard = None if nonempty else self.effect(f"icmp {until} {type} {lo}, {hi}", "i1")
        self._count = n = self._count + 1
        index = value(type, f"%i.{n}", depth)
        loop = Loop(index, tuple(value(x.type, f"%c.{n}.{k}", depth) for k, x in enumerate(carry)), by)
        self.levels.append(Level(f"body.{n}"))
        yield loop
        self._close_loop(n, loop, lo, hi, loop.step, carry, guard, until)

    def _close_loop(self, n: int, loop: Loop, lo: Val, hi: Val, by: Val, carry: Sequence[Val], guard: Val | None,
                    until: str):
        """Emit header, body and latch after the lines that the body hoisted to the outer level."""
        body = self.levels[-1]
        following = self.advance(n, loop.index, by)
        backs, extra = self.latch(n, loop.index, lo, following, hi, by, until)
        self.levels.pop()
        outer, last = self.levels[-1], body.label
        before = outer.label
        if guard is None:
            self.jump(f"body.{n}")
        else:
            self.branch(guard, f"body.{n}", f"done.{n}")
        outer.lines.append(f"body.{n}:")
        for x, c, y in zip((lo, *carry), (loop.index, *loop.carried), (following, *loop.next), strict=True):
            again = ", ".join([f"[{y}, %{back}]" for back in backs])
            outer.lines.append(f"  {c} = phi {c.type} [{x}, %{before}], {again}")
        outer.lines += [f"  {line}".replace("BEFORE", before) for line in extra]
        outer.lines += body.lines
        self.block(f"done.{n}")
        if guard is None:  # reached only through the loop
            loop.results = tuple(value(y.type, str(y), min(y.level, len(self.levels) - 1)) for y in loop.next)
        else:
            loop.results = tuple(self.phi(x.type, (x, before), (y, last)) for x, y in zip(carry, loop.next))

    def latch(self, n: int, index: Val, lo: Val, following: str, hi: Val, by: Val,
              until: str) -> tuple[list[str], list[str]]:
        """End the body of loop `n`: the blocks that go back to its beginning, and further phis there.

        The innermost level is left in the block that goes to the loop's end.
        """
        back = self.levels[-1].label
        more = self.effect(f"icmp {until} {index.type} {following}, {hi}", "i1")
        self.branch(more, f"body.{n}", f"done.{n}")
        return [back], []

    def advance(self, n: int, index: Val, by: Val) -> str:
        """Compute the next index of loop `n`."""
        self.levels[-1].lines.append(f"  %n.{n} = add nsw {index.type} {index}, {by}{self.here}")
        return f"%n.{n}"


_NOTHING = value("void", "")
