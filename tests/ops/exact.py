"""Numbers without NumPy, the reference of the meanings: every scalar type's bits as exact values and back.

A value is a Python int for integer types; for floats a Fraction, or a Python float where that says more: nan, the
infinities and the two zeros.
"""

import functools
import math
from fractions import Fraction

from tritium.ir import types as T


def decode(t, code):
    """The value that the bits `code` of type `t` stand for."""
    if t.is_int:
        return code - (1 << t.bits) if t.signed and code >> (t.bits - 1) else code
    sign = -1 if code >> (t.bits - 1) else 1
    exponent = code >> t.mantissa & (1 << t.exponent) - 1
    fraction = code & (1 << t.mantissa) - 1
    top = (1 << t.exponent) - 1
    if t.special == "ieee" and exponent == top:
        return math.copysign(math.nan, sign) if fraction else sign * math.inf
    if t.special == "fn" and exponent == top and fraction == (1 << t.mantissa) - 1:
        return math.copysign(math.nan, sign)
    if t.special == "fnuz" and code == 1 << (t.bits - 1):
        return -math.nan
    if exponent == 0:
        value = Fraction(fraction, 1 << t.mantissa) * Fraction(2) ** (1 - t.bias)
    else:
        value = (1 + Fraction(fraction, 1 << t.mantissa)) * Fraction(2) ** (exponent - t.bias)
    return sign * value if value else math.copysign(0.0, sign)


@functools.cache
def largest(t):
    """The largest finite value."""
    if t is T.f8e4b15:
        return Fraction(7, 4)  # code 0x7F is kept out: the format saturates at 1.75
    top = (1 << t.bits - 1) - 1
    code = {"ieee": ((1 << t.exponent) - 1 << t.mantissa) - 1, "fn": top - 1, "fnuz": top}[t.special]
    return decode(t, code)


def is_special(x):
    """True for nan and the infinities."""
    return isinstance(x, float) and not math.isfinite(x)


def rounded(t, x, towards_zero=False, saturate=False):
    """The value of float type `t` nearest to `x` (ties to even), as `decode` would give it."""
    if is_special(x):
        if math.isnan(x):
            return math.copysign(1.75, x) if t.special == "none" else x
        return (Fraction(math.copysign(1, x)) * largest(t)) if saturate or t.special == "none" else x
    if x == 0:
        return 0.0 if t.special == "fnuz" else float(x)
    sign, size = (-1, -x) if x < 0 else (1, x)
    exponent = max(log2_floor(size), 1 - t.bias)
    step = Fraction(2) ** (exponent - t.mantissa)
    count = size / step
    whole = math.floor(count)
    rest = count - whole
    if not towards_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    size = whole * step
    if size > largest(t):
        if saturate or t.special == "none" or towards_zero:
            size = largest(t)
        else:
            return sign * math.inf if t.special == "ieee" else math.nan
    if size == 0:
        return 0.0 if t.special == "fnuz" else math.copysign(0.0, sign)
    return sign * size


def log2_floor(x):
    """The largest e with 2**e <= x."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def wrap(t, x):
    """An integer brought into the range of `t`."""
    x &= (1 << t.bits) - 1
    return x - (1 << t.bits) if t.signed and x >> (t.bits - 1) else x


def same(x, y):
    """Equal as values, the sign of zero and being nan included."""
    if isinstance(x, float) and isinstance(y, float) and (math.isnan(x) or math.isnan(y)):
        return math.isnan(x) and math.isnan(y)
    if x == 0 and y == 0:
        return math.copysign(1, x) == math.copysign(1, y)
    return x == y


def allowed(t, got, exact, expected):
    """Whether `got` may be what the value `exact` becomes in type `t`, `expected` but for what is open.

    A NaN has no sign to rely on, so where it becomes the largest value of a type without NaN, that has either sign.
    """
    if t.special == "none" and isinstance(exact, float) and math.isnan(exact):
        return abs(got) == largest(t)
    return same(got, expected)


def codes(array):
    """The bits of a NumPy array's elements, in order."""
    size = array.dtype.itemsize
    return array.reshape(-1).view(f"u{size}").tolist()


def values(t, array):
    """The exact values of a NumPy array's elements, in order."""
    return [decode(t, code) for code in codes(array)]
