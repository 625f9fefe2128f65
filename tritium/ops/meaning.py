"""NumPy side of the ops: how types are held in arrays, and the exact meaning of what NumPy spells differently.

Scalars are 0-d arrays, tiles arrays of their shape, pointers uint64 addresses. `f8e4b15` has no NumPy type: it is held
as its uint8 code and only casts look inside.
"""

from __future__ import annotations

import functools
import math

from ..ir import types as T
from ..later import fractions, ml_dtypes, np

# By name: in NumPy, or in ml_dtypes.
_NUMPY = {
    T.i1: "bool_", T.i8: "int8", T.i16: "int16", T.i32: "int32", T.i64: "int64",
    T.u8: "uint8", T.u16: "uint16", T.u32: "uint32", T.u64: "uint64",
    T.f8e4b15: "uint8", T.f16: "float16", T.f32: "float32", T.f64: "float64",
}
_ML_DTYPES = {
    T.f8e5: "float8_e5m2", T.f8e5b16: "float8_e5m2fnuz", T.f8e4nv: "float8_e4m3fn", T.f8e4b8: "float8_e4m3fnuz",
    T.bf16: "bfloat16",
}


@functools.cache
def np_dtype(t):
    """NumPy dtype that holds the elements of type `t`.

    >>> np_dtype(T.f32)
    dtype('float32')
    """
    t = T.element(t)
    if type(t) is T.Ptr:
        return np.dtype(np.uint64)
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[t]) if t in _ML_DTYPES else getattr(np, _NUMPY[t]))


def _unsigned(bits):
    """NumPy's unsigned integers of so many bits."""
    return np.dtype(f"u{bits // 8}")


def of_floats(fn):
    """A function of Python floats, for arrays of float64."""
    def run(*xs):
        return np.vectorize(fn, otypes=[np.float64])(*xs)
    return run


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


def add(x, y):
    """Sum; a bool wraps like any other integer, so that true + true is false."""
    return x ^ y if x.dtype == bool else np.add(x, y)


def subtract(x, y):
    """Difference; of bools the same as their sum."""
    return x ^ y if x.dtype == bool else np.subtract(x, y)


def fma(x, y, z):
    """x * y + z with one rounding."""
    if x.dtype != np.float64:
        return narrow(_fma_odd(*(v.astype(np.float64) for v in (x, y, z))), x.dtype)
    out = np.asarray(_fma_f64(x, y, z))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
    exponents = [np.frexp(v)[1] for v in (x, y, z)]
    product = exponents[0] + exponents[1]
    # the error terms of the fast way stay exact only in this range
    plain = (product > -900) & (product < 990) & (np.abs(exponents[0]) < 990) & (np.abs(exponents[1]) < 990) \
        & ((z == 0) | (exponents[2] > -900)) & (exponents[2] < 990)
    out = np.where(finite, out, np.where(np.isfinite(x) & np.isfinite(y) & ~np.isfinite(z), z, x * y + z))
    for at in np.argwhere(finite & ~plain):
        at = tuple(at)
        out[at] = _fma_exact(float(x[at]), float(y[at]), float(z[at]))
    return out


def _fma_odd(x, y, z):
    """In float64 with an exact product: the sum rounded to odd, so that a later rounding to less is the only one."""
    product = x * y
    total, rest = _two_sum(product, z)
    return _to_odd(total, rest)


def _fma_f64(x, y, z):
    """Boldo and Melquiond's way: everything the product and the sums round away, gathered with one rounding to odd."""
    product = x * y
    product_rest = _two_product_error(x, y, product)
    low, low_rest = _two_sum(z, product_rest)
    high, high_rest = _two_sum(product, low)
    return high + _to_odd(*_two_sum(low_rest, high_rest))


def _fma_exact(x, y, z):
    """One fma of finite floats in rational arithmetic."""
    exact = fractions.Fraction(x) * fractions.Fraction(y) + fractions.Fraction(z)
    if exact == 0:
        return x * y + z
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _two_sum(x, y):
    """x + y rounded, and what the rounding lost."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _to_odd(total, rest):
    """Of the two floats around total + rest, the one whose last bit is set (total itself when rest is 0)."""
    bits = np.asarray(total).view(np.int64)
    nudge = np.where((rest > 0) == (total > 0), 1, -1)
    odd = np.where((bits & 1) == 0, bits + nudge, bits).view(np.float64)
    return np.where((rest != 0) & np.isfinite(total), odd, total)


def _two_product_error(x, y, product):
    """The part of x * y that `product` rounded away (Dekker's split)."""
    def split(v):
        c = v * 134217729.0
        high = c - (c - v)
        return high, v - high
    (xh, xl), (yh, yl) = split(x), split(y)
    return xl * yl - (((product - xh * yh) - xl * yh) - xh * yl)


def narrow(x, dtype):
    """float64 to a narrower dtype with one rounding (ml_dtypes alone would round to float32 on the way)."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":  # NumPy's own types
        return x.astype(dtype)
    near = np.asarray(x.astype(np.float32))
    even = (near.view(np.uint32) & 1) == 0
    inexact = np.isfinite(x) & (near.astype(np.float64) != x)
    odd = np.nextafter(near, np.where(x > near, np.float32(np.inf), np.float32(-np.inf)))
    return np.where(even & inexact, odd, near).astype(dtype)


def in_f32(fn, t, result, exact=False):
    """An elementwise function of 8-bit floats: computed in f32, the result converted back as a cast does.

    With `exact` the result is a value of `t` already, an infinity perhaps, which no cast would give.
    """
    def run(*xs):
        out = np.asarray(fn(*[np.asarray(convert(x, t, T.f32)) for x in xs]))
        if result is not t:
            return out
        return _code_of(out, t) if exact else convert(out, T.f32, t)
    return run


def _code_of(x, t):
    """f32 that holds values of the 8-bit type `t`, as that type."""
    if t is not T.f8e4b15:
        return x.astype(np_dtype(t))
    code = np.searchsorted(fp8_values(t)[:0x80], np.nan_to_num(np.abs(x), nan=1.75)).astype(np.uint8)
    return code | np.where(np.signbit(x), np.uint8(0x80), np.uint8(0))


def fmin(x, y):
    """The smaller; if one is NaN, the other."""
    return np.minimum(x, y) if is_int(x) else _keep_number(x, y, np.minimum(x, y))


def fmax(x, y):
    """The larger; if one is NaN, the other."""
    return np.maximum(x, y) if is_int(x) else _keep_number(x, y, np.maximum(x, y))


def _keep_number(x, y, otherwise):
    """The operand that is not NaN (np.fmin lets a signalling NaN win)."""
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, otherwise))


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
    return np.bitwise_count(x.view(_unsigned(x.dtype.itemsize * 8))).astype(x.dtype)


def leading_zeros(x):
    """Zero bits above the highest set bit; the width for 0."""
    bits = x.dtype.itemsize * 8
    rest = np.asarray(x).view(_unsigned(bits)).copy()
    count = np.full(x.shape, bits, dtype=x.dtype)
    for _ in range(bits):
        count = np.where(rest != 0, count - 1, count).astype(x.dtype)
        rest = rest >> 1
    return count


def reverse_bits(x):
    """Bits in the opposite order."""
    bits = x.dtype.itemsize * 8
    rest = np.asarray(x).view(_unsigned(bits))
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
    return np.clip(x, -_largest(t), _largest(t)).astype(np_dtype(t))


def truncating(x, t):
    """float64 to a narrower float, towards zero; 8-bit floats saturate."""
    if t.bits == 8:
        x = np.clip(x, -_largest(t), _largest(t))
    near = to_e4b15(x) if t is T.f8e4b15 else np.asarray(x.astype(np_dtype(t)))
    back = fp8_values(t)[near] if t is T.f8e4b15 else near.astype(np.float64)
    code = near.view(_unsigned(t.bits))
    code = np.where(np.abs(back) > np.abs(x), code - np.ones_like(code), code)
    if t.special == "fnuz":  # below the smallest negative value lies no -0
        code = np.where((code == 0x80) & ~np.isnan(x), np.zeros_like(code), code)
    return code.view(np_dtype(t))


def float_to_int(x, t):
    """Towards zero; out of range saturates, NaN gives 0 (as NVIDIA's 32- and 64-bit conversions do)."""
    info = np.iinfo(np_dtype(t))
    wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.where((wide >= float(info.min)) & (wide < float(info.max) + 1.0), wide, 0.0)
    exact = inside.astype(np.uint64 if t is T.u64 else np.int64).astype(np_dtype(t))
    return np.where(wide >= float(info.max) + 1.0, info.max, np.where(wide < float(info.min), info.min, exact)) \
        .astype(np_dtype(t))


def convert(x, source, target, rounding=None):
    """Value conversion between any two scalar or pointer types.

    Floats narrow to nearest even in one rounding, except that everything reaches 8-bit floats through f32, and they
    saturate. 64-bit integers go to f32 in one rounding; integers reach narrower floats through f32, as hardware does.
    """
    if source is target:
        return x
    if type(source) is T.Ptr or type(target) is T.Ptr:
        return (x != 0) if target is T.i1 else x.astype(np.uint64).astype(np_dtype(target))
    if source is T.f8e4b15:
        return convert(fp8_values(source)[x], T.f64, target, rounding)
    if target is T.i1:
        return x != 0
    if target.is_int:
        return x.astype(np_dtype(target)) if source.is_int else float_to_int(x, target)
    if source.is_int:
        return x.astype(np.float64) if target is T.f64 else convert(x.astype(np.float32), T.f32, target, rounding)
    if target.bits > source.bits:
        return x.astype(np_dtype(target))
    wide = x.astype(np.float64)
    if rounding == "rtz":
        return truncating(wide, target)
    if target is T.f8e4b15:
        return to_e4b15(wide.astype(np.float32).astype(np.float64))
    if target.bits == 8:
        return saturating_to_fp8(x.astype(np.float32), target)
    return narrow(wide, np_dtype(target))


def scalar_of(value, t):
    """A Python number as a 0-d array of scalar or pointer type `t`: integers wrap, floats round as a cast does.

    >>> scalar_of(300, T.i8)
    array(44, dtype=int8)
    """
    if type(t) is T.Ptr:
        return np.array(int(value or 0) & 0xFFFFFFFFFFFFFFFF, np.uint64)
    if t is T.i1:
        return np.array(value, np.bool_)
    if t.is_int:
        return np.array(int(value) & ((1 << t.bits) - 1), dtype=f"u{t.bytes}").view(np_dtype(t))
    with np.errstate(all="ignore"):
        return np.asarray(convert(np.array(value, np.float64), T.f64, t))


def _largest(t):
    return 1.75 if t is T.f8e4b15 else float(ml_dtypes.finfo(np_dtype(t)).max)
