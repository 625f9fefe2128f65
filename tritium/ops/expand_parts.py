"""Exponents, neighbours and remainders of floats over simple rows."""

from __future__ import annotations

from ..ir import types as T
from .expand_exp import FORMATS, INF, NAN
from .expression import Expr, expands, maximum, minimum, row, where


def normalized(x):
    """(bits, exponent): the bits of |x| scaled up if denormal, and the biased exponent of x itself."""
    f = FORMATS[x.element]
    shift = f.mantissa + 2
    tiny = abs(x) < f.smallest
    bits = where(tiny, abs(x) * 2.0**shift, abs(x)).bits
    return bits, (bits >> f.mantissa) - where(tiny, bits.const(shift), 0)


@expands("ldexp", "scalbn")
def ldexp(x, n):
    """x times 2^n with one rounding: the exponent is exchanged, and a denormal result made from a larger one."""
    f, t = FORMATS[x.element], x.element
    top = (1 << (t.bits - 1 - f.mantissa)) - 1
    bits, exponent = normalized(x)
    target = exponent + maximum(minimum(n, 5000), -5000).cast(bits.element)
    low = target < 1
    room = f.mantissa + 12
    placed = where(low, maximum(target + room, 1), minimum(target, top - 1))
    y = ((bits & ((1 << f.mantissa) - 1)) | (placed << f.mantissa)).bitcast(t)
    y = y * where(low, y.const(2.0**-room), 1.0)
    y = where(target >= top, INF, y)
    signed = (y.bits | (x.bits & (-1 << (t.bits - 1)))).bitcast(t)
    return where((x == 0.0) | ~(abs(x) < INF), x, signed)


@expands("logb")
def logb(x):
    """The exponent of x as a float."""
    _, exponent = normalized(x)
    y = (exponent - (FORMATS[x.element].one >> FORMATS[x.element].mantissa)).cast(x.element)
    return where(x == 0.0, -INF, where(abs(x) < INF, y, abs(x)))


def next_up(x):
    """The next float above, for x not NaN."""
    bits = (x + 0.0).bits       # -0.0 becomes 0.0
    return where(x >= 0.0, bits + 1, bits - 1).bitcast(x.element)


def next_down(x):
    """The next float below, for x not NaN."""
    return -next_up(-x)


@expands("nextafter")
def nextafter(x, y):
    """The float next to x in the direction of y."""
    moved = where(y > x, next_up(x), next_down(x))
    return where((x != x) | (y != y), x + y, where(x == y, y, moved))


@expands("remainder")
def remainder(x, y):
    """x - n y for the n nearest to x / y, ties to even: from the remainder of 2y, less y once or twice."""
    a, b = abs(x), abs(y)
    large = b > (2.0**126 if x.element is T.f32 else 2.0**1022)
    r = where(large, a, Expr(x.b, row("rem", a, where(large, b, b + b)).v))
    small = b < 2.0 * FORMATS[x.element].smallest
    # 2r > b without overflow, r > b/2 without underflow
    once = where(small, r + r > b, r > b * 0.5)
    r = where(once, r - b, r)
    twice = once & where(small, r + r >= b, r >= b * 0.5)
    r = where(twice, r - b, r)
    flipped = (r.bits ^ (x.bits & (-1 << (x.element.bits - 1)))).bitcast(x.element)
    wrong = (x != x) | (y != y) | (a == INF) | (b == 0.0)
    return where(wrong, NAN, where(b == INF, x, flipped))
