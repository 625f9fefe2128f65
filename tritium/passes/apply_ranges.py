"""Use what ranges say of integers, and of the floats that indices are computed with.

    for i in 0, 8192, 2048:                         for i in 0, 8192, 2048:
      mask = i + arange < 8192              ->        mask = true

    i: i64 = cast (k: i32) + 1              ->      i: i64 = cast (k + 1)       where k is below 32

Comparisons that always or never hold become constants: the masks of loops whose step divides the length, and the tests
for NaN of floats that are made of indices. What is computed of widened integers and fits the narrow type is computed in
that type: a GPU takes one instruction for it, not two. Kernels with dots stay as they are: tiles of a descriptor are
known by their masks.
"""

from __future__ import annotations

from math import inf

from .. import ops
from ..analysis.ranges import Derivations
from ..ir import types as T
from ..ir.core import Op, walk
from ..ir.rewrite import sweep
from .dce import dce
from .functions import each_function
from .simplify import apply_rules, full, number, truth

_HOLDS = {  # whether a comparison holds always, or never, between numbers from (a, b) and (c, d)
    ops.lt: lambda a, b, c, d: (b < c, a >= d),
    ops.le: lambda a, b, c, d: (b <= c, a > d),
    ops.gt: lambda a, b, c, d: (a > d, b <= c),
    ops.ge: lambda a, b, c, d: (a >= d, b < c),
    ops.eq: lambda a, b, c, d: (a == b == c == d, b < c or d < a),
    ops.ne: lambda a, b, c, d: (b < c or d < a, a == b == c == d),
}
_STRICT = {ops.le: ops.gt, ops.ge: ops.lt}
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


@each_function
def apply_ranges(module):
    """Settle comparisons, and narrow integers, by their ranges.

    >>> from tritium.ir.text import parse_module
    >>> print(apply_ranges(parse_module('''kernel @f(%p: ptr<i1>) {
    ...   %0 = arange {start=0, end=8} : tile<8xi32>
    ...   %1 = constant {value=8, type=i32} : i32
    ...   %2 = splat %1 {shape=(8,)} : tile<8xi32>
    ...   %3 = lt %0, %2 : tile<8xi1>
    ...   %4 = splat %p {shape=(8,)} : tile<8xptr<i1>>
    ...   store %4, %3
    ... }''')), end="")
    kernel @f(%p: ptr<i1>) {
      %1 = constant {value=True, type=i1} : i1
      %2 = splat %1 {shape=(8,)} : tile<8xi1>
      %3 = splat %p {shape=(8,)} : tile<8xptr<i1>>
      store %3, %2
    }
    """
    if any(kind.mma for kind in module.kinds):
        return module
    found = dict(_found(module))
    if not found:
        return module

    def rule(b, op):
        how = found.get(b.original) if op.kind is b.original.kind and op.types == b.original.types else None
        made = None if how is None else how(b, op)
        return apply_rules(b, op) if made is None else made

    swept = sweep(module, rule)
    return module if swept is module else dce(swept)


def _found(module):
    """(op, what makes its replacement)"""
    asked = [op for op in walk(module.body) if _asks(op)]
    if not asked:
        return
    operands = [x for op in asked for x in op.operands if op.kind in _HOLDS or op.kind is ops.select]
    ranges = module.found_by(Derivations).bounds([*operands, *asked])
    for op in asked:
        if op.kind in _HOLDS:
            value = _outcome(op, ranges)
            if value is not None:
                yield op, lambda b, op, value=value: truth(b, value, op.type)
            elif T.element(op.operands[0].type) is T.i64:
                yield op, _compared
        elif op.kind is ops.select and _is_extremum(op):
            if ranges[op.operands[2]][0] != -inf:  # with bounds, so no NaN
                yield op, _without_nan
        elif _fits(ranges[op]):
            yield op, _narrowed  # what has bounds is a function of integers, whatever their width


def _asks(op):
    """Whether a range may change an op."""
    if op.kind in _HOLDS:
        t = T.element(op.operands[0].type)
        return type(t) is T.Scalar and (t.is_int or op.kind is ops.ne and op.operands[0] is op.operands[1])
    return op.kind.elementwise and T.element(op.type) is T.i64 or op.kind is ops.select and _is_extremum(op)


def _outcome(op, ranges):
    """Whether a comparison holds always (True) or never (False); None if that does not follow from ranges."""
    x, y = op.operands
    if T.element(x.type).is_float:
        return None if ranges[x][0] == -inf else False
    always, never = _HOLDS[op.kind](*ranges[x], *ranges[y])
    return always if always or never else None


def _is_extremum(op):
    """Whether a select is x <= y ? y : x, or the same of >=, of floats."""
    cond, x, y = op.operands
    return (T.element(x.type) in T.FLOATS and type(cond) is Op and cond.kind in _STRICT and cond.operands == (y, x)
            and number(x) is not None)  # fmt: skip


def _without_nan(b, op):
    """x <= y ? y : x -> x > y ? x : y, which is one instruction"""
    cond, x, y = op.operands
    return ops.select(b, _STRICT[cond.kind](b, y, x), y, x) if type(cond) is Op and cond.kind in _STRICT else None


def _fits(range_):
    return _LEAST <= range_[0] and range_[1] <= _MOST


def _narrowed(b, op):
    """An op on widened integers in their own type; None if an operand is neither widened nor a constant."""
    kept = op.operands[:1] if op.kind is ops.select else ()
    made = _in_narrow(b, op, kept)
    return None if made is None else ops.cast(b, made, to=T.i64)


def _compared(b, op):
    """A comparison of widened integers in their own type."""
    return _in_narrow(b, op, ())


def _in_narrow(b, op, kept):
    if op.kind in (ops.shl, ops.shr) and not _shifts_within_32(op):
        return None
    operands = [_narrow(b, x) for x in op.operands[len(kept):]]
    folds = op.kind is not ops.select and all(number(x) is not None for x in operands)
    if None in operands or folds:
        return None
    return b.emit(op.kind, (*kept, *operands), op.attrs)


def _shifts_within_32(op):
    """Whether a shift means the same in 32 bits."""
    amount = number(op.operands[1])
    return amount is not None and 0 <= amount < 32


def _narrow(b, x):
    """An integer of 64 bits in 32 bits; None if it takes more than leaving out a cast."""
    value = number(x)
    if value is not None:
        return full(b, value, T.with_element(x.type, T.i32)) if _fits((value, value)) else None
    if type(x) is not Op or T.element(x.type) is not T.i64:  # a cast to i64 has operands of other types
        return None
    if x.kind is ops.cast and T.element(x.operands[0].type) is T.i32:
        return x.operands[0]
    if x.kind.view:
        inner = _narrow(b, x.operands[0])
        return None if inner is None else b.emit(x.kind, (inner,), x.attrs)
    return None
