"""Products of f32 as sums of products of shorter numbers, which tensor cores multiply.

    x = x1 + x2 (+ x3)        x1 is x rounded to the shorter type, x2 what is left, rounded, ...
    a @ b = (a2 @ b1 + a1 @ b2) + a1 @ b1

What the left-out terms are worth is below the precision asked for (`WAYS`). The corrections, which is all but the last
term, are summed by themselves, and dropped where they are not finite: if an operand is infinite, what is left of it is
not a number, and a correction may be zero times infinity. Then the last term alone is what IEEE arithmetic says.
Tensor cores cut off what does not fit when they add; the accumulator takes no part in that, and is added to in f32.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .... import ops
from ....ir import types as T
from ....ir.core import walk
from ....ir.rewrite import sweep


class Way(NamedTuple):
    """How a precision is reached: the parts' type, the precision of their dots, how many parts, and which of them are
    multiplied (left, right), the smallest products first."""

    element: T.Scalar
    precision: str
    parts: int
    products: tuple


WAYS = {
    "tf32x3": Way(T.f32, "tf32", 2, ((1, 0), (0, 1), (0, 0))),
    "bf16x3": Way(T.bf16, "ieee", 2, ((1, 0), (0, 1), (0, 0))),
    "bf16x6": Way(T.bf16, "ieee", 3, ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))),
}
TF32_DROPS = 13  # bits of an f32 that tensor cores do not look at
BF16_DROPS = 16


def split_dots(module, multiplies):
    """The module with dots of f32 taken apart whose parts tensor cores multiply.

    `multiplies(a, b, out, precision)` says so of tile types; other dots stay as they are, exact.
    """

    def rule(b, op):
        way = WAYS.get(op.attrs["precision"]) if op.kind is ops.dot else None
        if way is None:
            return None
        left, right, acc = op.operands
        sides = [T.with_element(x.type, way.element) for x in (left, right)]
        if left.type.element is not T.f32 or not multiplies(*sides, op.type, way.precision):
            return None
        return _sum(b, way, _parts(b, left, way), _parts(b, right, way), acc)

    wanted = any(op.kind is ops.dot and op.attrs["precision"] in WAYS for op in walk(module.body))
    return sweep(module, rule) if wanted else module


def _sum(b, way, left, right, acc):
    dot = lambda pair, total: ops.dot(b, left[pair[0]], right[pair[1]], total, precision=way.precision)
    *small, last = way.products
    zero, infinity = (_tile(b, x, acc.type) for x in (0.0, math.inf))
    corrections = zero
    for pair in small:
        corrections = dot(pair, corrections)
    finite = ops.lt(b, ops.abs_(b, corrections), infinity)
    return ops.add(b, acc, dot(last, ops.select(b, finite, corrections, zero)))


def _parts(b, x, way):
    """The parts of a tile, the largest first."""
    out = []
    for k in range(way.parts - 1):
        part = _short(b, x) if way.element is T.f32 else ops.cast(b, x if k else _below_overflow(b, x), to=T.bf16)
        out.append(part)
        x = ops.sub(b, x, part if way.element is T.f32 else ops.cast(b, part, to=T.f32))
    return [*out, x if way.element is T.f32 else ops.cast(b, x, to=T.bf16)]


def _short(b, x):
    """f32 rounded to what tensor cores look at of it; cut off where that would overflow."""
    bits = ops.bitcast(b, x, to=T.i32)
    up = ops.add(b, bits, _tile(b, 1 << TF32_DROPS - 1, bits.type))
    small = ops.lt(b, ops.abs_(b, x), _tile(b, _limit(TF32_DROPS), x.type))
    return ops.bitcast(b, _cut(b, ops.select(b, small, up, bits), TF32_DROPS), to=T.f32)


def _below_overflow(b, x):
    """x, cut off to a bf16 where rounding it to one would overflow."""
    large = ops.ge(b, ops.abs_(b, x), _tile(b, _limit(BF16_DROPS), x.type))
    cut = _cut(b, ops.bitcast(b, x, to=T.i32), BF16_DROPS)
    return ops.select(b, large, ops.bitcast(b, cut, to=T.f32), x)


def _cut(b, bits, count):
    return ops.and_(b, bits, _tile(b, -1 << count, bits.type))


def _limit(drops):
    """The least f32 that rounds up to infinity if its last `drops` bits go."""
    return (2.0 - 2.0 ** (drops - 24)) * 2.0**127


def _tile(b, value, like):
    return ops.splat(b, ops.constant(b, value=value, type=like.element), shape=like.shape)
