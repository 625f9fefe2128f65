"""Runs: elements side by side of a tile that are side by side in memory, as long as no quotient steps.

A convolution finds the line and the column of a position by division: `m // W` is the same for positions side by side,
and `m % W` counts, but for the ends of lines. So do sums of such terms, and addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.core import Op, Value
from ..named_tuples import NamedTuple
from .affine import Form, is_uniform
from .views import axes_behind

__all__ = ["Growth", "Test", "axis_behind"]


class Test(NamedTuple):
    """A quotient or remainder that may step along an axis, and the views between it and the tile, outermost first."""

    value: Op
    path: tuple


class Growth:
    """How forms grow along an axis where the divisions behind them do not step.

    `form_of` gives the form of a value, `number` the number that a coefficient is, or None. `facts` has what holds
    within a run: a quotient or remainder -> "constancy" or "contiguity", and its axis. `tests` has one of them for each
    division, by numerator and divisor; `prefer(value)` says which is cheap to look at. Divisions by known numbers below
    `least` have no runs: `short` has those whose numerators count, with their axes, as tests.

    >>> from tritium.analysis.polynomial import Scalars
    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%w: i32, %s: i32) {
    ...   %0 = arange {start=0, end=64} : tile<64xi32>
    ...   %1 = splat %w {shape=(64,)} : tile<64xi32>
    ...   %2 = splat %s {shape=(64,)} : tile<64xi32>
    ...   %3 = div %0, %1 : tile<64xi32>
    ...   %4 = mul %3, %2 : tile<64xi32>
    ...   %5 = rem %0, %1 : tile<64xi32>
    ...   %6 = add %4, %5 : tile<64xi32>
    ... }''')
    >>> scalars = Scalars()
    >>> growth = Growth(scalars.of, scalars.number_of)
    >>> growth.along(scalars.of(m.body.ops[-1]), 0), len(growth.tests), growth.short
    (1, 1, {})
    """

    def __init__(self, form_of: Callable[[Value], Form], number: Callable[[Any], int | None],
                 prefer: Callable[[Value], bool] = lambda x: False, least: int = 1):
        self.form_of, self.number, self.prefer, self.least = form_of, number, prefer, least
        self.facts: dict[Value, tuple[str, int]] = {}
        self.short: dict[Op, tuple[int, tuple]] = {}
        self.tests: dict[tuple[Value, Value], Test] = {}

    def along(self, form: Form, axis: int, path: tuple = ()) -> int | None:
        """What a form grows by from one element to the next; None if that is not known. `path` leads to its tile."""
        total = self.number(form.strides[axis])
        if total is None:
            return None
        for loose in form.loose:
            inner = axis_behind(loose.path, axis, len(form.strides))
            by = None if inner is None else self.quotient(loose.value, inner, path + loose.path)
            scale = self.number(loose.scale) if by else 0
            if by is None or scale is None:
                return None
            total += by * scale
        return total

    def quotient(self, x: Value, axis: int, path: tuple) -> int | None:
        """What a quotient (by 0) or remainder (by 1) grows by, for numerators side by side; None for others."""
        if axis < 0:
            return 0
        if type(x) is not Op or x.kind not in (ops.div, ops.rem) or not T.element(x.type).is_int:
            return None
        top, by = x.operands
        divisor = self.form_of(by)
        if not is_uniform(divisor):
            return None
        grows, size = self.along(self.form_of(top), axis, path), self.number(divisor.base)
        if grows == 1 and size is not None and abs(size) < self.least:
            self.short[x] = axis, path
            return None
        if grows not in (0, 1):
            return None
        counts = grows == 1 and x.kind is ops.rem
        self.facts[x] = "contiguity" if counts else "constancy", axis
        if grows and (self.prefer(x) or (top, by) not in self.tests):
            self.tests[top, by] = Test(x, path)
        return int(counts)


def axis_behind(path: tuple, axis: int, rank: int) -> int | None:
    """The axis behind some views that is an axis in front of them; -1 if there is none, None if it is not known."""
    axes: Any = tuple([a == axis for a in range(rank)])
    for op in path:
        if op.kind is ops.reshape:
            return None
        axes = axes_behind(op, axes, False)
    return axes.index(True) if True in axes else -1
