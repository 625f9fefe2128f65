"""The emitter of a function: open loops, values available in them (CSE), and arithmetic on i64 scalars.

An i64 scalar is an int, or a value if it is known only at run time; arithmetic on ints generates no code. A computed
value is available until the loop or branch that it was emitted in is closed, so nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import Any

from ....ir import types as T
from ....ir.core import Value
from ...llvm.numbering import NumberingWriter
from ...llvm.writer import Level, Loop, Val, lanes, value, vector


class _Numbered(NumberingWriter):
    """A writer with value numbering; `rare` counts the open cold branches.

    LLVM spends a millisecond on loop strength reduction. Loops that are cold, or have long iterations, hide their
    induction variables from it.
    """

    def __init__(self):
        super().__init__()
        self.rare = 0
        self._hidden = set()
        self._polled = {}

    def hide(self, index: Val) -> None:
        """Hide the induction variable of an open loop from LLVM."""
        self._hidden.add(index)

    def hidden(self, x: Val) -> Val:
        """The same value, opaque to LLVM."""
        return self.effect(f"freeze {x.typed}", x.type)

    def poll(self, index: Val, arena: Val, iterations: int) -> None:
        """Make an open loop poll for an interrupt every `iterations` iterations (see polls.py)."""
        self._polled[index] = arena, iterations

    def fits(self, index: Val, narrow: Val, signed: bool) -> None:
        """Record that widening `narrow`, a truncated loop index, gives `index` again."""
        word = "sext" if signed else "zext"
        self.levels[-1].made[f"{word} {narrow.typed} to {index.type}"] = index

    def latch(self, n: int, index: Val, lo: Val, following: str, hi: Val, by: Val, until: str) -> Any:
        """The latch of a polling loop: at a limit before the end it polls and sets the next limit."""
        if index not in self._polled:
            return super().latch(n, index, lo, following, hi, by, until)
        arena, iterations = self._polled[index]
        back, outer = self.levels[-1].label, len(self.levels) - 2
        limit = value("i64", f"%limit.{n}")
        first = self._limit(lo, hi, by, iterations, until, outer)
        self.branch(self.effect(f"icmp {until} i64 {following}, {limit}", "i1"), f"body.{n}", f"reached.{n}")
        self.block(f"ask.{n}")
        self.call("void", "tt.poll", arena)
        # Without the barrier LLVM keeps a second induction variable: the iterations left before the limit.
        here = self.effect(f'call i64 asm "", "=r,0"(i64 {following})', "i64")
        further = self._limit(here, hi, by, iterations, until, outer + 1)
        self.jump(f"body.{n}")
        self.block(f"reached.{n}")
        self.branch(self.effect(f"icmp {until} i64 {following}, {hi}", "i1"), f"ask.{n}", f"done.{n}")
        return [back, f"ask.{n}"], [f"{limit} = phi i64 [{first}, %BEFORE], [{limit}, %{back}], [{further}, %ask.{n}]"]

    def _limit(self, at: Val, hi: Val, by: Val, iterations: int, until: str, level: int) -> Val:
        """The index about `iterations` iterations after `at`, or the end if that is nearer, without overflow."""
        def line(text: str, type: str = "i64") -> Val:
            return self.effect(text, type, level)
        up = until != "sgt"
        left = line(f"sub i64 {hi}, {at}" if up else f"sub i64 {at}, {hi}")
        if by[0] != "%":  # a loop that counts down has a constant step
            far = str(min(abs(int(by)), 1 << 46) * iterations)
        else:
            self.declare("llvm.umin.i64", "i64", ["i64", "i64"])
            far = line(f"mul i64 {line(f'call i64 @llvm.umin.i64(i64 {by}, i64 {1 << 46})')}, {iterations}")
        there = line(f"{'add' if up else 'sub'} i64 {at}, {far}")
        inside = line(f"icmp ugt i64 {left}, {far}", "i1")
        return line(f"select i1 {inside}, i64 {there}, i64 {hi}")

    def advance(self, n: int, index: Val, by: Val) -> str:
        if not self.rare and index not in self._hidden:
            found = self.levels[-1].made.get(f"add nsw {index.type} {index}, {by}")
            return super().advance(n, index, by) if found is None else found
        return self.hidden(self.effect(f"add {index.type} {index}, {by}", index.type))


class Emitter:
    """A writer with CSE. `region` is the level of the innermost block of the kernel: loads are not hoisted above it."""

    def __init__(self):
        self.w = _Numbered()
        self.memo, self.remembered = {}, [[]]
        self.divisors = {}  # index of a loop, or a quotient of it -> a known divisor
        self.region = 0

    # --- lanes ----------------------------------------------------------------------------------------------------
    def spread(self, xs: Sequence[Val]) -> list[Val]:
        """The values with the lanes of the widest."""
        n = max([lanes(x.type) for x in xs], default=1)
        return [self.widen(x, n) for x in xs] if n > 1 else list(xs)

    def widen(self, x: Any, n: int) -> Any:
        """`x` in each of `n` lanes."""
        if n == 1 or x.type[0] == "<":
            return x
        if x[0] not in "%@":
            zero = str(x) in ("0", "0.0", "null", "false")
            return value(vector(n, x.type), "zeroinitializer" if zero else f"splat ({x.type} {x})")
        return self.cse(("wide", x, n), lambda: self.w.splat(x, n))

    def any_lane(self, condition: Val) -> Val:
        """An i1: a condition holds in some lane."""
        if condition.type == "i1":
            return condition
        return self.w.intrinsic("vector.reduce.or", "i1", condition, overload=(condition.type,))

    # --- i64 scalars: ints, or values -----------------------------------------------------------------------------
    def const(self, x: int | Val) -> Any:
        """An i64 as a value."""
        return self.w.const("i64", x) if type(x) is int else x

    def pinned(self, x: int | Val) -> Val:
        """The same i64, pinned: code that uses it stays in the innermost level."""
        return self.w.effect(f"add i64 {self.const(x)}, 0", "i64")

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        if type(x) is int and type(y) is int:
            return x + y
        if type(x) is int:
            return self.add(y, x)
        if type(y) is int and y == 0:
            return x
        return self.cse(("+", x, y), lambda: self.w.binary("add nsw", self.const(x), self.const(y)))

    def sub(self, x: Any, y: Any) -> Any:
        """x - y."""
        if type(y) is int:
            return self.add(x, -y)
        return self.cse(("-", x, y), lambda: self.w.binary("sub nsw", self.const(x), y))

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        if type(x) is int and type(y) is int:
            return x * y
        if type(x) is int:
            return self.mul(y, x)
        if type(y) is int and y in (0, 1):
            return x if y else 0
        return self.cse(("*", x, y), lambda: self.w.binary("mul nsw", self.const(x), self.const(y)))

    def divide(self, x: Any, n: int) -> Any:
        """x / n of nonnegative integers."""
        if type(x) is int or n == 1:
            return x // n if type(x) is int else x
        shift = n & (n - 1) == 0
        by = self.const(n.bit_length() - 1 if shift else n)
        out = self.cse(("/", x, n), lambda: self.w.binary("lshr" if shift else "udiv", x, by))
        if self.divisor(x) % n == 0:
            self.divisors[out] = self.divisor(x) // n
        return out

    def modulo(self, x: Any, n: int) -> Any:
        """x % n of nonnegative integers."""
        if type(x) is int:
            return x % n
        if self.divisor(x) % n == 0:
            return 0
        mask = n & (n - 1) == 0
        by = self.const(n - 1 if mask else n)
        return self.cse(("%", x, n), lambda: self.w.binary("and" if mask else "urem", x, by))

    def divisor(self, x: int | Val) -> int:
        """A known divisor of x: 0 if x is 0, 1 if nothing is known."""
        return abs(x) if type(x) is int else self.divisors.get(x, 1)

    def offset(self, type: str, pointer: Val, index: int | Val) -> Val:
        """The address of an element after `pointer`."""
        if isinstance(index, int) and index == 0:
            return pointer
        return self.cse(("gep", type, pointer, index), lambda: self.w.gep(type, pointer, self.const(index)))

    def index_of(self, x: Val, t: T.Scalar) -> Any:
        """An integer of element type `t` as i64 (a vector for a vector)."""
        if x[0] not in "%@<sz":
            number = int(x == "true" if x.type == "i1" else x) & (1 << t.bits) - 1
            return number - (1 << t.bits) if t.signed and number >> t.bits - 1 else number
        return self.w.cast("sext" if t.signed else "zext", x, vector(lanes(x.type), "i64"))

    # --- levels ---------------------------------------------------------------------------------------------------
    def remember(self, key: Any, x: Any, level: int | None = None) -> Any:
        """Make `x` available under `key` while its level is open."""
        self.memo[key] = x
        self.remembered[x.level if level is None else level].append(key)
        return x

    def cse(self, key: Any, make: Callable[[], Any]) -> Any:
        """The available value of `key`, else `make()`."""
        found = self.memo.get(key)
        return found if found is not None else self.remember(key, make())

    def open(self) -> None:
        """A level was opened."""
        self.remembered.append([])

    def close(self) -> None:
        """The innermost level was closed: its values are no longer available."""
        for key in self.remembered.pop():
            self.memo.pop(key, None)

    @contextmanager
    def loop(self, start: int | Val, stop: int | Val, step: int | Val = 1, carry: Sequence[Val] = (),
             until: str = "slt", nonempty: bool = False) -> Iterator[Loop]:
        """A counting loop, as the writer's."""
        with self.w.loop(start, stop, step, carry=carry, until=until, nonempty=nonempty) as loop:
            if type(start) is int and type(step) is int:
                self.divisors[loop.index] = gcd(start, step)
                if type(stop) is int and stop - start <= 2 * step:  # strength reduction gains nothing
                    self.w.hide(loop.index)
            self.open()
            yield loop
            self.close()

    @contextmanager
    def loops(self, sizes: Sequence[int]) -> Iterator[list[Any]]:
        """Nested loops from 0 to each size; gives their indices."""
        if not sizes:
            yield []
            return
        with self.counted(sizes[0]) as i, self.loops(sizes[1:]) as rest:
            yield [i, *rest]

    @contextmanager
    def counted(self, size: int, step: int = 1) -> Iterator[Any]:
        """A loop from 0 to `size`; no loop if one iteration is enough."""
        if size <= step:
            yield 0
        else:
            with self.loop(0, size, step) as loop:
                yield loop.index

    @contextmanager
    def when(self, condition: Val, likely: bool | None = None) -> Iterator[None]:
        """Emit the code inside under `condition`."""
        with self.w.when(condition, likely):
            self.open()
            yield
            self.close()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Begin a block of the kernel at the innermost level: no load inside is hoisted above it."""
        outer, self.region = self.region, len(self.w.levels) - 1
        yield
        self.region = outer

    @contextmanager
    def assuming(self, masks: Iterable[Value]) -> Iterator[None]:
        """Inside, these masks are true everywhere."""
        outer, self.assumed = self.assumed, self.assumed | set(masks)
        yield
        self.assumed = outer

    @contextmanager
    def denying(self, masks: Iterable[Value]) -> Iterator[None]:
        """Inside, these masks are false in every chunk."""
        outer, self.denied = self.denied, self.denied | set(masks)
        yield
        self.denied = outer

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        """Emit at an outer level."""
        level = max(level, self.region)
        inner, self.w.levels[level + 1:] = self.w.levels[level + 1:], []
        known, self.remembered[level + 1:] = self.remembered[level + 1:], []
        yield
        self.w.levels += inner
        self.remembered += known

    def either(self, condition: Val, yes: Callable[[], Sequence[Val] | None], no: Callable[[], Sequence[Val] | None],
               likely: bool | None = None) -> list[Val]:
        """Lists of values: those of `yes()` if `condition`, else those of `no()`."""
        w = self.w
        name = w.label("or")
        ends, made = [], []
        for k, make in enumerate((yes, no)):
            w.levels.append(Level(f"{name}.{k}"))
            self.open()
            w.rare += likely is (k == 1)
            made.append(make() or [])
            w.rare -= likely is (k == 1)
            self.close()
            w.jump(f"{name}.end")
            ends.append(w.levels.pop())
        w.branch(condition, f"{name}.0", f"{name}.1", likely)
        for k, end in enumerate(ends):
            w.levels[-1].lines.append(f"{name}.{k}:")
            w.levels[-1].lines += end.lines
        w.block(f"{name}.end")
        return [w.phi(x.type, (x, ends[0].label), (y, ends[1].label)) for x, y in zip(*made, strict=True)]
