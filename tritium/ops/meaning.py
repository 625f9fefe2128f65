"""NumPy side of the ops: how types are held in arrays, and the exact meaning of what NumPy spells differently.

Scalars are 0-d arrays, tiles arrays of their shape, pointers uint64 addresses. `f8e4b15` has no NumPy type: it is held
as its uint8 code and only casts look inside.
"""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np

from ..ir import types as T

_NUMPY = {
    T.i1: np.bool_, T.i8: np.int8, T.i16: np.int16, T.i32: np.int32, T.i64: np.int64,
    T.u8: np.uint8, T.u16: np.uint16, T.u32: np.uint32, T.u64: np.uint64,
    T.f8e5: ml_dtypes.float8_e5m2, T.f8e5b16: ml_dtypes.float8_e5m2fnuz, T.f8e4nv: ml_dtypes.float8_e4m3fn,
    T.f8e4b8: ml_dtypes.float8_e4m3fnuz, T.f8e4b15: np.uint8,
    T.f16: np.float16, T.bf16: ml_dtypes.bfloat16, T.f32: np.float32, T.f64: np.float64,
}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@functools.cache
def np_dtype(t):
    """NumPy dtype that holds the elements of type `t`.

    >>> np_dtype(T.f32)
    dtype('float32')
    """
    t = T.element(t)
    return np.dtype(np.uint64) if type(t) is T.Ptr else np.dtype(_NUMPY[t])


def quiet(fn):
    """`fn` without NumPy's warnings: overflow, division by zero and NaN are values here, not events."""
    @functools.wraps(fn)
    def run(*args):
        with np.errstate(all="ignore"):
            return fn(*args)
    return run


def is_int(x):
    return x.dtype.kind in "iub"


def divide(x, y):
    """`/` for floats; C division for integers (towards zero; by zero gives 0)."""
    if not is_int(x):
        return np.divide(x, y)
    safe = np.where(y == 0, np.ones_like(y), y)
    quotient = x // safe
    inexact = (quotient * safe != x) & ((x < 0) != (safe < 0))
    return np.where(y == 0, np.zeros_like(x), quotient + inexact.astype(x.dtype)).astype(x.dtype)


def remainder(x, y):
    """C remainder: the sign is that of the dividend."""
    if not is_int(x):
        return np.fmod(x, y)
    return (x - divide(x, y) * y).astype(x.dtype)


def shift_left(x, n):
    """Bits shifted out are lost; a count of the width or more gives 0."""
    bits = x.dtype.itemsize * 8
    inside = (n >= 0) & (n < bits)
    return np.where(inside, x << np.where(inside, n, 0), np.zeros_like(x)).astype(x.dtype)


def shift_right(x, n):
    """Arithmetic for signed, logical for unsigned types; a count of the width or more leaves only the sign."""
    bits = x.dtype.itemsize * 8
    inside = (n >= 0) & (n < bits)
    return (x >> np.where(inside, n, bits - 1).astype(x.dtype)
            if x.dtype.kind == "i" else np.where(inside, x >> np.where(inside, n, 0), 0)).astype(x.dtype)


def mulhi(x, y):
    """High half of the product, signed or unsigned by type."""
    bits = x.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        return (x.astype(wide) * y.astype(wide) >> wide(bits)).astype(x.dtype)
    a, b = x.astype(np.uint64), y.astype(np.uint64)
    low32, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low32, a >> half, b & low32, b >> half
    cross = a1 * b0 + (a0 * b0 >> half)
    high = a1 * b1 + (cross >> half) + (a0 * b1 + (cross & low32) >> half)
    if x.dtype.kind == "i":  # unsigned product minus what the sign bits added
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return high.astype(x.dtype)


def fma(x, y, z):
    """x * y + z with one rounding."""
    if x.dtype.itemsize < 4 or x.dtype == np.float32:
        return _fma_narrow(x, y, z)
    product = x * y
    error = _two_product_error(x, y, product)
    total = product + z
    back = total - product
    rest = (product - (total - back)) + (z - back)
    return np.where(np.isfinite(total), total + (rest + error), total)


def _fma_narrow(x, y, z):
    """Exact product in float64; the sum rounded to odd there, so that the last rounding is the only one."""
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    back = total - product
    rest = (product - (total - back)) + (addend - back)
    bits = np.asarray(total).view(np.int64)
    nudge = np.where((rest > 0) == (total > 0), 1, -1)
    odd = np.where((bits & 1) == 0, bits + nudge, bits).view(np.float64)
    return np.where((rest != 0) & np.isfinite(total), odd, total).astype(x.dtype)


def _two_product_error(x, y, product):
    """The part of x * y that `product` rounded away (Dekker's split)."""
    def split(v):
        c = v * 134217729.0
        high = c - (c - v)
        return high, v - high
    (xh, xl), (yh, yl) = split(x), split(y)
    return xl * yl - (((product - xh * yh) - xl * yh) - xh * yl)


def fmin(x, y):
    """The smaller; if one is NaN, the other."""
    return np.minimum(x, y) if is_int(x) else np.fmin(x, y)


def fmax(x, y):
    """The larger; if one is NaN, the other."""
    return np.maximum(x, y) if is_int(x) else np.fmax(x, y)


def through_f64(fn):
    """Evaluate in float64 and round once: the reference for transcendental functions of narrower floats."""
    def run(x, *rest):
        if x.dtype == np.float64:
            return fn(x, *rest)
        return fn(x.astype(np.float64), *[r.astype(np.float64) for r in rest]).astype(x.dtype)
    return run


def round_away(x):
    """Nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole).astype(x.dtype)


def popcount(x):
    """Number of set bits."""
    return np.bitwise_count(x.view(_UNSIGNED[x.dtype.itemsize * 8])).astype(x.dtype)


def leading_zeros(x):
    """Zero bits above the highest set bit; the width for 0."""
    bits = x.dtype.itemsize * 8
    rest = np.asarray(x).view(_UNSIGNED[bits]).copy()
    count = np.full(x.shape, bits, dtype=x.dtype)
    for _ in range(bits):
        count = np.where(rest != 0, count - 1, count).astype(x.dtype)
        rest = rest >> 1
    return count


def reverse_bits(x):
    """Bits in the opposite order."""
    bits = x.dtype.itemsize * 8
    rest = np.asarray(x).view(_UNSIGNED[bits])
    out = np.zeros_like(rest)
    one = rest.dtype.type(1)
    for _ in range(bits):
        out = (out << one) | (rest & one)
        rest = rest >> one
    return out.view(x.dtype)


@functools.cache
def fp8_values(t):
    """All 256 values of an 8-bit float type, as float64.

    >>> float(fp8_values(T.f8e4b15)[0x7F])
    1.875
    """
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent = (code >> t.mantissa) & ((1 << t.exponent) - 1)
    fraction = (code & ((1 << t.mantissa) - 1)) / (1 << t.mantissa)
    return sign * np.where(exponent == 0, fraction * 2.0 ** (1 - t.bias), (1 + fraction) * 2.0 ** (exponent - t.bias))


def to_e4b15(x):
    """float64 -> code of f8e4b15: nearest even, saturating at 1.75 (the format has neither inf nor NaN)."""
    magnitude = np.minimum(np.nan_to_num(np.abs(x), nan=1.75), 1.75)
    finite = fp8_values(T.f8e4b15)[:0x7F]
    above = np.searchsorted(finite, magnitude).clip(1, len(finite) - 1)
    low, high = finite[above - 1], finite[above]
    up = (magnitude - low > high - magnitude) | ((magnitude - low == high - magnitude) & (above % 2 == 0))
    code = np.where(up, above, above - 1).astype(np.uint8)
    return code | np.where(np.signbit(x), np.uint8(0x80), np.uint8(0))


def saturating_to_fp8(x, t):
    """Nearest even with overflow (inf too) to the largest finite; NaN stays."""
    largest = float(ml_dtypes.finfo(np_dtype(t)).max)
    return np.clip(x, -largest, largest).astype(np_dtype(t))


def truncating(x, t):
    """Float to a narrower float, rounded towards zero."""
    near = x.astype(np_dtype(t))
    back = near.astype(np.float64)
    too_far = np.abs(back) > np.abs(x)
    step = np.asarray(near).view(_UNSIGNED[t.bits])
    return np.where(too_far, step - np.ones_like(step), step).view(np_dtype(t))


def float_to_int(x, t):
    """Towards zero; out of range saturates, NaN gives 0 (as NVIDIA's 32- and 64-bit conversions do)."""
    info = np.iinfo(np_dtype(t))
    wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.where((wide >= float(info.min)) & (wide < float(info.max) + 1.0), wide, 0.0)
    exact = inside.astype(np.uint64 if t is T.u64 else np.int64).astype(np_dtype(t))
    return np.where(wide >= float(info.max) + 1.0, info.max, np.where(wide < float(info.min), info.min, exact)) \
        .astype(np_dtype(t))


def convert(x, source, target, rounding=None):
    """Value conversion between any two scalar or pointer types, as LANGUAGE's cast table says."""
    if source is target:
        return x
    if type(source) is T.Ptr or type(target) is T.Ptr:
        return (x != 0) if target is T.i1 else x.astype(np.uint64).astype(np_dtype(target))
    if source is T.f8e4b15:
        return convert(fp8_values(source)[x], T.f64, target, rounding)
    if target is T.i1:
        return x != 0
    if not target.is_float:
        return x.astype(np_dtype(target)) if source.is_int else float_to_int(x, target)
    if source.is_int:
        if target.bits == 64:
            return x.astype(np.float64)
        # 64-bit integers go to f32 in one rounding; narrower floats go through f32 as the hardware does
        return convert(x.astype(np.float32), T.f32, target, rounding)
    if target.bits >= source.bits and target.exponent >= source.exponent:
        return x.astype(np_dtype(target))
    if target is T.f8e4b15:
        return to_e4b15(x.astype(np.float64))
    wide = x.astype(np.float64)
    if rounding == "rtz":
        return truncating(wide if target.bits > 8 else np.clip(wide, -_largest(target), _largest(target)), target)
    if target.bits == 8:
        return saturating_to_fp8(x.astype(np.float32), target)
    return x.astype(np.float32).astype(np_dtype(target)) if source.bits < 64 else wide.astype(np_dtype(target))


def _largest(t):
    return float(ml_dtypes.finfo(np_dtype(t)).max)
