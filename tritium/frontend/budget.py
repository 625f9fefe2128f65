"""How large a kernel may grow while it is lowered: unrolled loops and inlined calls have an end.

The error names the loop, or the function that is inlined most.

Every expression and statement that is visited counts. `knobs.compilation.budget` says how many there may be.
"""

from __future__ import annotations

import ast
from collections import Counter
from contextlib import contextmanager
from typing import Any

from .. import knobs
from ..errors import CompilationError
from ..language.types.limits import PARTS
from . import diagnose

_CALL = 20  # what a call counts
DEEPEST = 200  # branches within branches; the stages after this one do not get much further
_MANY = 16  # turns that make a loop worth naming


class Exhausted(RecursionError):
    """The budget is used up. Like a RecursionError, it unwinds to the caller that started the lowering."""

    def __init__(self, place: Any):
        super().__init__("the kernel grows too large")
        self.place = place


class Unrolling:
    """A loop being unrolled: the turns it has, how many there were, what was left of the budget before them."""

    def __init__(self, budget: Budget, turns: int):
        self._budget, self._all, self._start = budget, turns, budget.left
        self.turns = 0

    def turn(self) -> None:
        """One turn more. After two it is clear what a loop comes to, if it comes to far too much."""
        self.turns += 1
        if self.turns == 3 and (self._start - self._budget.left) // 2 * self._all > 4 * self._budget.limit:
            raise Exhausted(self)


class Budget:
    """What is left, the loops being unrolled, outermost first, and how often each function was inlined."""

    def __init__(self) -> None:
        self.limit = self.left = knobs.compilation.budget
        self.depth = 0
        self.loops: list[Unrolling] = []
        self.inlined: Counter[Any] = Counter()

    def call(self, function: Any) -> None:
        """A function is inlined, which takes as long as several expressions."""
        self.inlined[function] += 1
        self.left -= _CALL

    def exhausted(self) -> Exhausted:
        """The exception to raise: caught where the loop is that was unrolled most."""
        most = max(self.loops, key=lambda loop: loop.turns, default=None)
        calls = max(self.inlined.values(), default=0)
        return Exhausted(most if most is not None and most.turns >= min(_MANY, calls) else None)

    @contextmanager
    def deeper(self, b: Any, steps: list):
        """A branch within the branches at hand."""
        self.depth += 1
        if self.depth > DEEPEST and steps:
            raise diagnose.error(
                b, getattr(steps[0], "node", steps[0]), f"branches nest more than {DEEPEST} deep here",
                hint="each early exit, `elif` and turn of an unrolled loop that may be left opens a branch: use fewer "
                "of them")
        yield
        self.depth -= 1

    def hint(self, what: str) -> str:
        """What to do about it."""
        return f"{what}; TRITIUM_COMPILE_BUDGET={2 * self.limit} doubles the limit"


def size(items: Any) -> int:
    """How many items there are, also where a range has more than Python counts.

    >>> size(range(10**30)), size((1, 2))
    (1000000000000000000000000000000, 2)
    """
    if type(items) is not range:
        return len(items)
    return (items[-1] - items.start) // items.step + 1 if items else 0


@contextmanager
def unrolling(b: Any, node: ast.AST, turns: int, what: str):
    """Count the turns of a loop that is unrolled at `node`; an error where there are too many for the budget."""
    budget, loop = b.budget, Unrolling(b.budget, turns)
    instead = "use `range` or `tl.range`: such a loop runs at run time"
    if 2 * turns > budget.left:
        raise diagnose.error(b, node, f"{what} would be unrolled {turns} times, which makes the kernel too large to be "
                             "compiled", hint=budget.hint(instead))
    budget.loops.append(loop)
    try:
        yield loop
    except Exhausted as raised:
        if raised.place is not loop:
            raise
        raise diagnose.error(
            b, node, f"{what} makes the kernel too large to be compiled: unrolled {turns} times, it has more than "
            f"{budget.limit} expressions", hint=budget.hint(instead)) from None
    finally:
        budget.loops.pop()


def check_parts(b: Any, node: ast.AST, parts: list) -> None:
    """Refuse a tuple of tuples that has too many values: each of them is handled on its own."""
    waiting, seen = [part for part in parts if isinstance(part, tuple)], 0
    while waiting:
        part = waiting.pop()
        seen += len(part)
        waiting += [inner for inner in part if isinstance(inner, tuple)]
        if seen > PARTS:
            raise diagnose.error(b, node, f"this tuple holds more than {PARTS} values, those of its parts included",
                                 hint="keep numbers in a tile or in memory")


def too_large(b: Any, source: Any) -> CompilationError:
    """The error about a kernel that no loop makes too large: it names the function that was inlined most."""
    budget = b.budget
    (function, count), = budget.inlined.most_common(1) or [(b.frame.function, 1)]
    return CompilationError(
        function.source.src, function.node, f"{function.name} is inlined {count} times, which makes {source.__name__} "
        f"too large to be compiled: it has more than {budget.limit} expressions", span=function.heading(),
        hint=budget.hint(f"call {function.name} less often, or decorate it with @triton.jit(noinline=True)"))
