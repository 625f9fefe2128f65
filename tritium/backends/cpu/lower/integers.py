"""Vectors of integers on x86, which has no vector instruction for division or saturating conversion.

LLVM expands both lane by lane. The quotient of integers of up to 32 bits is that of floats with more bits, truncated:
the float is off by less than 1 / |y|, the least distance of a fraction x / y from an integer. Integers of 64 bits are
mostly small, as indices are: a chunk that 32 bits hold is divided as such.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....passes.simplify import number
from ...llvm.rows import convert, elementwise
from ...llvm.writer import Val, lanes, vector

if TYPE_CHECKING:
    from ....ir.core import Op
    from ....ir.opdef import OpKind
    from ...llvm.numbering import NumberingWriter
    from .function import Lowering


def divides_vectors(lo: Lowering, op: Op) -> bool:
    """Whether an integer quotient or remainder is computed on vectors. Constants divide by multiplication."""
    t = T.element(op.type)
    return lo.target.simd != "neon" and t.is_int and t.bits > 1 and number(op.operands[1]) is None \
        and (t.signed or t.bits != 32 or lo.target.simd == "avx512")


def _divide(lo: Lowering, op: Op, x: Val, y: Val) -> Val | None:
    """x / y or x % y towards zero; x / 0 is 0 and x % 0 is x. The smallest integer by -1 wraps: it stays as it is."""
    w, t = lo.w, T.element(op.type)
    if not divides_vectors(lo, op) or lanes(x.type) == 1 or y[0] not in "%@":
        return elementwise(w, op.kind, t, [x, y], lo.contract)
    if t.bits < 64:
        return _divided(w, op.kind, t, x, y)
    key = "divided", t, x, y
    both = lo.memo.get(key)
    if both is None:
        both = _divided_as_short(lo, t, x, y)
        lo.remember(key, both, both[0].level)
    return both[op.kind is ops.rem]


def _divided_as_short(lo: Lowering, t: T.Scalar, x: Val, y: Val) -> list[Val]:
    """x / y and x % y of 64 bits."""
    w, both, few, sign = lo.w, (ops.div, ops.rem), vector(lanes(x.type), "i32"), "s" if t.signed else "z"
    short = [w.cast("trunc", z, few) for z in (x, y)]
    long = [w.compare("icmp ne", z, w.cast(f"{sign}ext", part, z.type)) for z, part in zip((x, y), short)]
    if t.signed:  # the quotient of the smallest by -1 is longer
        long.append(w.compare("icmp eq", short[0], w.const(few, -1 << 31)))
    else:
        long += [w.compare("icmp slt", part, w.const(few, 0)) for part in short]
    some = lo.any_lane(functools.reduce(functools.partial(w.binary, "or"), long))
    made = [w.cast(f"{sign}ext", _divided(w, kind, T.i32, *short), x.type) for kind in both]

    def each() -> list[Val]:
        pinned = [w.effect(f"freeze {z.typed}", z.type) for z in (x, y)]  # not hoisted
        return [elementwise(w, kind, t, pinned, lo.contract) for kind in both]
    with lo.at(max(z.level for z in (some, *made, x, y))):
        return lo.either(some, each, lambda: made, likely=False)


def _divided(w: NumberingWriter, kind: OpKind, t: T.Scalar, x: Val, y: Val) -> Val:
    """`_divide` for vectors of at most 32 bits."""
    zero, one = w.const(x.type, 0), w.const(x.type, 1)
    by_zero = w.compare("icmp eq", y, zero)
    unsafe = by_zero
    if t.signed:
        smallest = w.compare("icmp eq", x, w.const(x.type, -(1 << t.bits - 1)))
        unsafe = w.binary("or", by_zero, w.binary("and", smallest, w.compare("icmp eq", y, w.const(y.type, -1))))
    divisor = w.select(unsafe, one, y)
    quotient = _quotient(w, t, x, divisor)
    if kind is ops.div:
        return w.select(by_zero, zero, quotient)
    return w.select(by_zero, x, w.binary("sub", x, w.binary("mul", quotient, divisor)))


def _quotient(w: NumberingWriter, t: T.Scalar, x: Val, y: Val) -> Val:
    """x / y where it is in the range of its type `t`."""
    n, sign = lanes(x.type), "s" if t.signed or t.bits < 32 else "u"
    wide = vector(n, "i32")
    if t.bits < 32:
        x, y = (w.cast("sext" if t.signed else "zext", z, wide) for z in (x, y))
    real = vector(n, "double" if t.bits == 32 else "float")
    found = w.binary("fdiv", *[w.cast(f"{sign}itofp", z, real) for z in (x, y)])
    found = w.cast(f"fpto{sign}i", found, wide)
    return found if t.bits == 32 else w.cast("trunc", found, vector(n, f"i{t.bits}"))


def _cast(lo: Lowering, op: Op, x: Val) -> Val:
    source, target = T.element(op.operands[0].type), op.attrs["to"]
    saturates = source in (T.f16, T.f32, T.f64) and type(target) is T.Scalar and target.is_int and target is not T.i1
    if saturates and source is T.f16:  # LLVM gives NaN as the smallest i16 where there are vectors of f16
        x, source = lo.w.cast("fpext", x, vector(lanes(x.type), "float")), T.f32
    if not saturates or lanes(x.type) == 1 or lo.target.simd == "neon":
        return convert(lo.w, x, source, target)
    return _saturated(lo.w, x, target)


def _saturated(w: NumberingWriter, x: Val, t: T.Scalar) -> Val:
    """Floats as integers of type `t`, saturated; 0 for NaN."""
    least, end = (-(1 << t.bits - 1), 1 << t.bits - 1) if t.signed else (0, 1 << t.bits)
    low, high = (w.const(x.type, float(limit)) for limit in (least, end))
    out = vector(lanes(x.type), f"i{t.bits}")
    above = w.compare("fcmp oge", x, high)
    fits = w.binary("and", w.compare("fcmp oge", x, low), w.compare("fcmp olt", x, high))
    found = w.cast("fptosi" if t.signed else "fptoui", w.select(fits, x, w.const(x.type, 0.0)), out)
    found = w.select(above, w.const(out, end - 1), found)
    return w.select(w.compare("fcmp olt", x, low), w.const(out, least), found) if least else found


APPLY = {ops.cast: _cast, ops.div: _divide, ops.rem: _divide}
