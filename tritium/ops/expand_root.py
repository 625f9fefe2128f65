"""Roots and lengths over simple rows."""

from __future__ import annotations

from ..ir import types as T
from .double_word import two_product
from .expand_exp import FORMATS, INF
from .expression import expands, fma, maximum, minimum, sign_of, sqrt, where


@expands("rsqrt")
def rsqrt(x):
    """Reciprocal square root: y + y (1 - x y^2) / 2, unless y is 0 or not finite."""
    y = 1.0 / sqrt(x)
    high, low = two_product(x, y)
    error = fma(-low, y, fma(-high, y, 1.0))
    return where(abs(error) < 0.5, fma(error * 0.5, y, y), y)


@expands("rsqrt_rn")
def rsqrt_rn(x):
    """Rounded once: from f64."""
    return (1.0 / sqrt(x.cast(T.f64))).cast(T.f32)


@expands("cbrt")
def cbrt(x):
    """Cube root: a third of the exponent, then Halley's and Newton's steps. Very small and large x are scaled."""
    f, whole = FORMATS[x.element], x.bits.element
    step = 18 if x.element is T.f64 else 8
    tiny, huge = abs(x) < f.smallest, abs(x) > 2.0**100
    a = abs(x) * where(tiny, x.const(2.0 ** (3 * step)), where(huge, x.const(2.0 ** (-3 * step)), 1.0))
    third = (a.bits >> (f.mantissa - 20)).cast(T.f32) * (1.0 / 3.0)
    y = ((third.cast(whole) << (f.mantissa - 20)) + CBRT_START[x.element]).bitcast(x.element)
    for _ in range(1 if x.element is T.f32 else 2):     # y (y^3 + 2a) / (2 y^3 + a)
        cube = y * y * y
        y = y * (fma(a, 2.0, cube) / fma(cube, 2.0, a))
    square, low = two_product(y, y)
    error = fma(low, y, fma(square, y, -a))             # y^3 - a
    y = fma(-error, 1.0 / (square * 3.0), y)
    y = y * where(tiny, x.const(2.0**-step), where(huge, x.const(2.0**step), 1.0))
    return where((x == 0.0) | ~(abs(x) < INF), x, sign_of(y, x))


# bits of 2/3 of the bias, and a little less: the guess is within 4 %
CBRT_START = {T.f32: 0x2A501000, T.f64: 0x2A9F7893 << 32}


@expands("rcbrt")
def rcbrt(x):
    """Reciprocal cube root."""
    return 1.0 / cbrt(x)


# --- lengths --------------------------------------------------------------------------------------------------------
def _length(xs, reciprocal):
    """Square root of the sum of squares, or 1 by it: in f64 for f32, for f64 scaled by the largest's exponent."""
    if xs[0].element is T.f32:
        total = xs[0].cast(T.f64) * xs[0].cast(T.f64)
        for x in xs[1:]:
            wide = x.cast(T.f64)
            total = fma(wide, wide, total)
        root = sqrt(total)
        return (1.0 / root if reciprocal else root).cast(T.f32)
    xs = [abs(x) for x in xs]
    largest = xs[0]
    for x in xs[1:]:
        largest = maximum(largest, x)
    # 2^-e for the largest's exponent e, kept where it and its inverse are normal
    exponent = minimum(maximum(largest.bits & (0x7FF << 52), 1 << 53), 2045 << 52)
    down = (largest.const(2046 << 52, T.i64) - exponent).bitcast(T.f64)
    high = low = None
    for x in xs:
        x = x * down
        square, rest = two_product(x, x)
        if high is None:
            high, low = square, rest
        else:
            total = high + square
            back = total - high
            low = low + ((high - (total - back)) + (square - back) + rest)
            high = total
    root = sqrt(high)
    error = fma(-root, root, high) + low
    root = where(root > 0.0, root + error / (root + root), root)
    up = exponent.bitcast(T.f64)
    return 1.0 / root * down if reciprocal else root * up


def _with_edges(xs, y, reciprocal):
    """Infinite if any operand is, even beside a NaN."""
    infinite = abs(xs[0]) == INF
    for x in xs[1:]:
        infinite = infinite | (abs(x) == INF)
    return where(infinite, 0.0 if reciprocal else INF, y)


@expands("hypot", "norm3d", "norm4d")
def norm(*xs):
    """Length of a vector."""
    return _with_edges(xs, _length(xs, False), False)


@expands("rhypot", "rnorm3d", "rnorm4d")
def reciprocal_norm(*xs):
    """1 / length of a vector."""
    return _with_edges(xs, _length(xs, True), True)
