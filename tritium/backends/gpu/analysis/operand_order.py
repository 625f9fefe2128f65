"""Whether a combine function gives the same with its two sets of operands exchanged.

Lanes that exchange partial results have their own on the left, so that they agree only if the order does not matter. It
does for Welford's means, which round apart, for the index of one of two equal elements, and for comparisons with NaN.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Value

_COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    ops.eq: operator.eq, ops.ne: operator.ne, ops.lt: operator.lt, ops.le: operator.le, ops.gt: operator.gt,
    ops.ge: operator.ge,
}  # fmt: skip
_LOGIC: dict[Any, Callable[[Any, Any], bool]] = {ops.and_: operator.and_, ops.or_: operator.or_, ops.xor: operator.xor}
_MOST = 1000  # cases that are tried


def order_matters(region: Block) -> bool:
    """False if a combine function provably gives the same with its operands exchanged, but for the sign of a zero.

    A function that takes the operands alike does, as x + y. So does one that chooses operands by comparisons and that
    has the same result in all cases: operands of a pair are less, equal or greater, or one or both are NaN.

    >>> from tritium.ir.text import parse_module
    >>> def region(text):
    ...     return parse_module('kernel @f(%x: tile<8xi32>) { %0 = reduce %x {axis=0} : i32 { ^(%a: i32, %b: i32): '
    ...                         + text + ' } }').body.ops[0].regions[0]
    >>> order_matters(region('%1 = add %a, %b : i32 yield %1'))
    False
    >>> order_matters(region('%1 = gt %a, %b : i1 %2 = select %1, %a, %b : i32 yield %2'))
    False
    >>> order_matters(region('yield %a'))
    True
    """
    half = len(region.args) // 2
    left, right = region.args[:half], region.args[half:]
    numbers: dict[tuple, int] = {}
    straight = _Numbering(numbers, {arg: k for k, arg in enumerate(region.args)})
    crossed = _Numbering(numbers, {arg: k for k, arg in enumerate((*right, *left))})
    uneven = [y for y in region.yields if straight.of(y) != crossed.of(y)]
    return bool(uneven) and not _chooses_alike(uneven, left, right)


class _Numbering:
    """Numbers expressions, equal ones alike; operands of an op that commutes may be exchanged."""

    def __init__(self, numbers: dict[tuple, int], args: Mapping[Value, int]):
        self._numbers, self._args = numbers, args
        self._known: dict[Value, int] = {}

    def of(self, x: Value) -> int:
        """The number of an expression."""
        if x not in self._known:
            key = self._key(x)
            self._known[x] = self._numbers.setdefault(key, len(self._numbers))
        return self._known[x]

    def _key(self, x: Value) -> tuple:
        if x in self._args:
            return ("argument", self._args[x])
        if type(x) is not Op or x.regions or x.kind is ops.call:
            return ("unknown", self, x)  # like nothing else
        operands = [self.of(y) for y in x.operands]
        row = x.kind.row
        return (x.kind, repr(x.types), repr(x.attrs), *(sorted(operands) if row and row.commutes else operands))


class _Unproven(Exception):
    """An expression that is more than choices by comparisons of the operands."""


def _chooses_alike(results: list[Value], left: tuple[Arg, ...], right: tuple[Arg, ...]) -> bool:
    """True if results are choices by comparisons of operand k on the left with operand k on the right, or of one with
    itself, and are the same with both sides exchanged in all cases."""
    cases = [list(_cases(T.element(x.type), k)) for k, x in enumerate(left)]
    if math.prod(map(len, cases)) > _MOST:
        return False
    place: dict[Value, int] = {x: k for side in (left, right) for k, x in enumerate(side)}
    try:
        for case in itertools.product(*cases):
            first, second = zip(*case)
            one: dict[Value, Any] = dict(zip((*left, *right), (*first, *second)))
            other: dict[Value, Any] = dict(zip((*left, *right), (*second, *first)))
            if any(repr(_evaluated(x, one, place)) != repr(_evaluated(x, other, place)) for x in results):
                return False
    except _Unproven:
        return False
    return True


def _cases(t: T.Type, k: int) -> Iterator[tuple[Any, Any]]:
    """Pairs of values for operand k: all ways in which two may compare. Other operands have other numbers."""
    if t is T.i1:
        yield from ((x, y) for x in (False, True) for y in (False, True))
        return
    number = float if type(t) is T.Scalar and t.is_float else int
    low, high = number(10 * k + 1), number(10 * k + 2)
    yield from ((low, low), (low, high), (high, low))
    if number is float:
        nan = math.nan
        yield from ((nan, low), (low, nan), (nan, nan))


def _narrow(x: Value) -> Value:
    """The float that a value was widened from: it compares alike."""
    match x:
        case Op(ops.cast, (y,)):
            source, to = T.element(y.type), T.element(x.type)
            if type(source) is T.Scalar and source.is_float and to.is_float and source.bits < to.bits:
                return y
    return x


def _evaluated(x: Value, values: dict[Value, Any], place: Mapping[Value, int]) -> Any:
    """The value of an expression; `values` has those of the operands, and those found so far."""
    if x in values:
        return values[x]
    match x:
        case Op(ops.constant, (), {"value": value}) if x.type is T.i1:
            found = bool(value)
        case Op(ops.select, (condition, y, z)):
            found = _evaluated(y if _evaluated(condition, values, place) else z, values, place)
        case Op(kind, (y, z)) if kind in _COMPARISONS and place.get(_narrow(y), -1) == place.get(_narrow(z), -2):
            found = _COMPARISONS[kind](values[_narrow(y)], values[_narrow(z)])
        case Op(kind, (y, z)) if (kind in _COMPARISONS or kind in _LOGIC) and T.element(y.type) is T.i1:
            found = (_COMPARISONS.get(kind) or _LOGIC[kind])(*(_evaluated(v, values, place) for v in (y, z)))
        case _:
            raise _Unproven
    values[x] = found
    return found
