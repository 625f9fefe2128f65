"""Float conversions in integer arithmetic, for targets that carry narrow floats as their bits.

`narrow` and `widen` go between f32 and any narrower float; the formats differ only in their numbers (exponent and
mantissa bits, bias) and in what stands beyond the finite (`special` of the type).
"""

from __future__ import annotations

from ..ir import types as T
from .double_word import product, two_sum
from .expression import UNSIGNED, minimum, where

INF, NAN = float("inf"), float("nan")


def widen(x):
    """Narrow float to f32, exactly.

    A normal number moves its exponent; a denormal one is read with a leading one, which is then subtracted.
    """
    t = x.element
    code = x.bitcast(UNSIGNED[t.bits]).cast(T.i32)
    if t is T.bf16:
        return (code << 16).bitcast(T.f32)
    shift, top = 23 - t.mantissa, 1 << (t.bits - 1)
    magnitude = code & (top - 1)
    moved = (magnitude << shift) + ((127 - t.bias) << 23)
    normal = moved.bitcast(T.f32)
    denormal = (moved + (1 << 23)).bitcast(T.f32) - 2.0 ** (1 - t.bias)
    y = where(magnitude < (1 << t.mantissa), denormal, normal)
    all_ones = ((1 << t.exponent) - 1) << t.mantissa
    if t.special == "ieee":     # the largest exponent holds inf and NaN
        y = where(magnitude >= all_ones, (moved + ((129 + t.bias - (1 << t.exponent)) << 23)).bitcast(T.f32), y)
    elif t.special == "fn":     # one code, with either sign, is NaN
        y = where(magnitude == top - 1, NAN, y)
    signed = (y.bits | ((code & top) << (32 - t.bits))).bitcast(T.f32)
    return where(code == top, NAN, signed) if t.special == "fnuz" else signed


def largest(t):
    """The largest finite number of a narrow float type.

    >>> largest(T.f8e4nv), largest(T.f16)
    (448.0, 65504.0)
    """
    exponent, fraction = (1 << t.exponent) - 1 - t.bias, 2.0 - 2.0 ** -t.mantissa
    if t.special == "ieee":
        exponent -= 1
    elif t.special in ("fn", "none"):   # the last code is NaN, or kept free
        fraction -= 2.0 ** -t.mantissa
    return fraction * 2.0 ** exponent


def narrow(x, t, rounding=None):
    """f32 to a narrower float: to the nearest (ties to even), or towards zero for "rtz". 8-bit types saturate.

    "exact" promises that x is a value of `t`.
    """
    if t is T.bf16:
        return _narrow_bf16(x, rounding)
    shift, top = 23 - t.mantissa, 1 << (t.bits - 1)
    a = abs(x)
    if t.bits == 8 and rounding != "exact":
        a = minimum(a, largest(t))      # NaN is dealt with below
    magnitude = a.bits
    tiny = a < 2.0 ** (1 - t.bias)
    rebias = (127 - t.bias) << t.mantissa
    if rounding:
        normal = (magnitude >> shift) - rebias
        denormal = (a * 2.0 ** (t.bias - 1 + t.mantissa)).cast(T.i32)
        overflow = largest_code(t)
    else:
        normal = ((magnitude + ((1 << (shift - 1)) - 1) + ((magnitude >> shift) & 1)) >> shift) - rebias
        magic = 2.0 ** (24 - t.bias - t.mantissa)   # its last bit is the narrow type's, so the sum rounds there
        denormal = (a + magic).bits - x.const(magic).bits
        overflow = largest_code(t) + 1
    code = where(tiny, denormal, normal)
    if t.bits > 8 or (rounding == "exact" and t.special == "ieee"):
        code = where(magnitude == 0x7F800000, largest_code(t) + 1, minimum(code, overflow))
    sign = (x.bits >> (32 - t.bits)) & top
    if t.special == "none":             # neither inf nor NaN: NaN saturates; minimum may keep a signalling one
        return _pack(where(x != x, largest_code(t), code) | sign, t)
    if t.special == "fnuz":             # no -0: its code is NaN
        sign = where(code == 0, 0, sign)
        return _pack(where(x != x, top, code | sign), t)
    nan = top - 1 if t.special == "fn" else (((1 << t.exponent) - 1) << t.mantissa) | (1 << (t.mantissa - 1))
    return _pack(where(x != x, nan, code) | sign, t)


def largest_code(t):
    """The code of the largest finite number."""
    top = 1 << (t.bits - 1)
    last = {"ieee": (((1 << t.exponent) - 1) << t.mantissa) - 1, "fn": top - 2, "none": top - 2, "fnuz": top - 1}
    return last[t.special]


def _pack(code, t):
    return code.cast(UNSIGNED[t.bits]).bitcast(t)


def _narrow_bf16(x, rounding):
    """The upper half of an f32, rounded; NaN keeps a bit that says so."""
    u = x.ubits
    if rounding == "exact":
        return (u >> 16).cast(T.u16).bitcast(T.bf16)
    rounded = u if rounding == "rtz" else u + ((u >> 16 & 1) + 0x7FFF)
    return (where(x != x, u | 0x400000, rounded) >> 16).cast(T.u16).bitcast(T.bf16)


def to_odd_f32(x):
    """f64 to f32 towards zero, the last bit set if anything was lost: narrowing it further rounds only once."""
    near = x.cast(T.f32)
    back = near.cast(T.f64)
    bits = near.bits
    down = where(abs(back) > abs(x), bits - 1, bits)    # towards zero
    odd = where((back == x) | (x != x), bits, down | 1)
    return odd.bitcast(T.f32)


def toward_zero_f32(x):
    """f64 to f32 towards zero."""
    near = x.cast(T.f32)
    return where(abs(near.cast(T.f64)) > abs(x), near.bits - 1, near.bits).bitcast(T.f32)


def fma_narrow(x, y, z):
    """x * y + z such that narrowing it rounds the exact sum once; operands are so wide that their product is exact.

    The sum is made odd where it was rounded, so that narrowing it rounds only once.
    """
    total, rest = two_sum(product(x, y), z)
    bits = total.bits
    nudge = where((rest > 0.0) == (total > 0.0), bits.const(1), -1)
    odd = where((bits & 1) == 0, bits + nudge, bits).bitcast(x.element)
    lost = (rest != 0.0) & (abs(total) < INF) & (total != 0.0)
    return where(lost, odd, total)

