"""Split f32 dots into dots of shorter types that tensor cores multiply.

    x = x1 + x2 (+ x3)        x1 is x rounded to the shorter type, x2 the rounded remainder, ...
    a @ b = (a2 @ b1 + a1 @ b2) + a1 @ b1

The omitted terms are below the requested precision (`WAYS`). The corrections, all terms but the last, are summed
separately, and dropped where they are not finite: the remainder of an infinite operand is NaN, and a correction may be
zero times infinity. The last term alone then gives the IEEE result. Tensor cores truncate when they add; so the
accumulator is added separately, in f32.
"""

from __future__ import annotations

import math

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import sweep
from ....named_tuples import NamedTuple
from ....passes.simplify import full
from ..target import Target


class Way(NamedTuple):
    """How a precision is reached: the type of the parts, the precision of their dots, the number of parts, and the
    products (part of the lhs, part of the rhs), smallest first."""

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


def split_dots(module: Module, target: Target) -> Module:
    """Split f32 dots into dots of shorter numbers that tensor cores multiply, where the precision asks for it."""
    warps = module.attrs["num_warps"]

    def rule(b: Builder, op: Op) -> Value | None:
        way = WAYS.get(op.attrs["precision"]) if op.kind is ops.dot else None
        if way is None:
            return None
        left, right, acc = op.operands
        types = [T.with_element(x.type, way.element) for x in (left, right)]
        if left.type.element is not T.f32 or target.mma.accumulator(*types, op.type, way.precision, warps) is None:
            return None
        return _sum(b, way, _parts(b, left, way), _parts(b, right, way), acc)

    if ops.dot not in module.kinds:
        return module
    wanted = any(op.kind is ops.dot and op.attrs["precision"] in WAYS for op in walk(module.body))
    return sweep(module, rule) if wanted else module


def _sum(b: Builder, way: Way, left: list[Value], right: list[Value], acc: Value) -> Value:
    dot = lambda pair, total: ops.dot(b, left[pair[0]], right[pair[1]], total, precision=way.precision)
    *small, last = way.products
    zero, infinity = (full(b, x, acc.type) for x in (0.0, math.inf))
    corrections = zero
    for pair in small:
        corrections = dot(pair, corrections)
    finite = ops.lt(b, ops.abs_(b, corrections), infinity)
    return ops.add(b, acc, dot(last, ops.select(b, finite, corrections, zero)))


def _parts(b: Builder, x: Value, way: Way) -> list[Value]:
    """The parts of a tile, the largest first."""
    out = []
    for k in range(way.parts - 1):
        part = _short(b, x) if way.element is T.f32 else ops.cast(b, x if k else _below_overflow(b, x), to=T.bf16)
        out.append(part)
        x = ops.sub(b, x, part if way.element is T.f32 else ops.cast(b, part, to=T.f32))
    return [*out, x if way.element is T.f32 else ops.cast(b, x, to=T.bf16)]


def _short(b: Builder, x: Value) -> Value:
    """f32 rounded to the bits that tensor cores read; truncated where rounding would overflow."""
    bits = ops.bitcast(b, x, to=T.i32)
    up = ops.add(b, bits, full(b, 1 << TF32_DROPS - 1, bits.type))
    small = ops.lt(b, ops.abs_(b, x), full(b, _limit(TF32_DROPS), x.type))
    return ops.bitcast(b, _cut(b, ops.select(b, small, up, bits), TF32_DROPS), to=T.f32)


def _below_overflow(b: Builder, x: Value) -> Value:
    """x, truncated to a bf16 where rounding it to one would overflow."""
    large = ops.ge(b, ops.abs_(b, x), full(b, _limit(BF16_DROPS), x.type))
    cut = _cut(b, ops.bitcast(b, x, to=T.i32), BF16_DROPS)
    return ops.select(b, large, ops.bitcast(b, cut, to=T.f32), x)


def _cut(b: Builder, bits: Value, count: int) -> Value:
    return ops.and_(b, bits, full(b, -1 << count, bits.type))


def _limit(drops: int) -> float:
    """The least f32 that rounds up to infinity if its last `drops` bits are dropped."""
    return (2.0 - 2.0 ** (drops - 24)) * 2.0**127
