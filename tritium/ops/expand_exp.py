"""Exponentials and logarithms over simple rows.

Every polynomial is a minimax fit whose relative error stands beside it. `fma` is written out wherever a product meets a
sum, so that results do not depend on what a backend contracts.
"""

from __future__ import annotations

from ..ir import types as T
from ..named_tuples import NamedTuple
from .expression import expands, fma, minimum, poly, where

INF, NAN = float("inf"), float("nan")


class Format(NamedTuple):
    """What the bit tricks need to know of a float type."""

    mantissa: int       # stored bits
    magic: float        # 1.5 * 2^mantissa: adding it rounds to an integer, found in the low bits of the sum
    bias: int           # of exponents
    one: int            # bits of 1.0
    third: int          # bits of 2/3, where the mantissa of a logarithm's argument is cut
    smallest: float     # smallest normal number
    low: float          # exp is 0 below
    high: float         # exp is infinite above
    log2e: float
    ln2: tuple          # ln 2 in two parts


F32 = Format(23, 1.5 * 2.0**23, 127, 0x3F800000, 0x3F2AAAAB, 2.0**-126, -104.0, 89.0, 1.4426950216293335,
             (0.6931471824645996, -1.9046542121259336e-09))
F64 = Format(52, 1.5 * 2.0**52, 1023, 0x3FF0000000000000, 0x3FE5555555555555, 2.0**-1022, -746.0, 710.0,
             1.4426950408889634, (0.6931471805599453, 2.3190468138462996e-17))
FORMATS = {T.f32: F32, T.f64: F64}

# e^r = 1 + r + r^2 (...) on |r| <= ln 2 / 2: f32 to 2^-28.2, f64 to 2^-60.6
EXP = {
    T.f32: (1.0, 1.0, 0.4999999403953552, 0.16666516661643982, 0.041668105870485306, 0.008369131945073605,
            0.0013836463913321495),
    T.f64: (1.0, 1.0, 0.5, 0.16666666666666688, 0.041666666666666824, 0.008333333333313892, 0.0013888888888777785,
            0.0001984126990338276, 2.4801587561175205e-05, 2.755722840970432e-06, 2.755702680659809e-07,
            2.5114160036995064e-08, 2.1011515977845105e-09),
}
# 2^r = 1 + r (...) on |r| <= 1/2: f32 to 2^-27.5, f64 to 2^-55.6
EXP2 = {
    T.f32: (1.0, 0.6931472420692444, 0.24022655189037323, 0.05550272390246391, 0.009617061354219913,
            0.0013418275630101562, 0.00015819825057405978),
    T.f64: (1.0, 0.6931471805599453, 0.2402265069591007, 0.05550410866482338, 0.00961812910763023, 0.001333355814602985,
            0.0001540353038891326, 1.525273418164769e-05, 1.3215488765753897e-06, 1.0177920705275384e-07,
            7.0554377955121745e-09, 4.475679976382107e-10, 2.277957933450485e-11),
}
# log(1 + f) = f - f^2/2 + f^3 P(f) on |f| <= 1/3, to 2^-27.6
LOG_F32 = (0.3333321511745453, -0.24999797344207764, 0.20010414719581604, -0.16680489480495453, 0.14005881547927856,
           -0.12184271216392517, 0.13984401524066925, -0.12891681492328644)
# 2 atanh(s) = 2 s + s^3 R(s^2) on s^2 <= 0.04, to 2^-62.6
LOG_F64 = (0.666666666666666, 0.4000000000005668, 0.28571428555825573, 0.2222222429706656, 0.18181665822644644,
           0.15391114209669307, 0.131735531024215, 0.1384340240612612)
LOG2E = {T.f32: (1.4426950216293335, 1.925963033500011e-08), T.f64: (1.4426950408889634, 2.0355273740931033e-17)}


def scale(y, i, f):
    """y * 2^n for the n + 2 bias in the low bits of `i`, in two steps: denormal and infinite results come out by
    themselves. Each half has one bias, so shifting it up makes it a power of two."""
    half = i >> 1
    first = (half << f.mantissa).bitcast(y.element)
    second = ((i - half) << f.mantissa).bitcast(y.element)
    return (y * first) * second


def scale_once(y, i, f):
    """y * 2^n where the result is a normal number."""
    return y * ((i - f.bias) << f.mantissa).bitcast(y.element)


def whole(f):
    """What to add to a number to find the nearest integer and 2 bias in the low bits of the sum."""
    return f.magic + 2 * f.bias


def reduce_exp(x, f):
    """(i, r): x = n ln 2 + r with n + 2 bias in the low bits of i and |r| <= ln 2 / 2."""
    t = fma(x, f.log2e, whole(f))
    n = t - whole(f)
    r = fma(n, -f.ln2[0], x)
    return t.bits, fma(n, -f.ln2[1], r)


def clamp(x, low, high):
    """x between two numbers; NaN passes (a comparison and a select are one instruction where min and max drop NaN)."""
    x = where(x < low, low, x)
    return where(x > high, high, x)


@expands("exp")
def exp(x):
    """e^x: 2^n times a polynomial in what is left."""
    f = FORMATS[x.element]
    i, r = reduce_exp(clamp(x, f.low, f.high), f)
    return scale(poly(r, EXP[x.element]), i, f)


def exp_normal(x):
    """e^x where it is a normal number; NaN stays NaN."""
    f = FORMATS[x.element]
    i, r = reduce_exp(x, f)
    return scale_once(poly(r, EXP[x.element]), i, f)


@expands("exp2")
def exp2(x):
    """2^x: the same with an exact reduction."""
    f = FORMATS[x.element]
    x = clamp(x, -151.0 if x.element is T.f32 else -1076.0, 128.0 if x.element is T.f32 else 1024.0)
    t = x + whole(f)
    return scale(poly(x - (t - whole(f)), EXP2[x.element]), t.bits, f)


def log_parts(x):
    """(k, m): x = m 2^k, 2/3 <= m < 4/3, for finite x > 0 (denormals too); k is a float."""
    f = FORMATS[x.element]
    tiny = x < f.smallest
    bits = where(tiny, x * 2.0**f.mantissa, x).bits
    k = (bits - f.third) >> f.mantissa
    m = (bits - (k << f.mantissa)).bitcast(x.element)
    return k.cast(x.element) - where(tiny, x.const(float(f.mantissa)), 0.0), m


def log_edges(x, y):
    """y, but -inf at 0, NaN below, and x itself at inf and NaN."""
    y = where(x < INF, y, x)
    return where(x > 0.0, y, where(x == 0.0, x.const(-INF), x + NAN))


def log_mantissa(f):
    """log(1 + f) as a sum (high, low) of a leading part and a small correction, for |f| <= 1/3."""
    if f.element is T.f32:
        square = f * f
        return f, square * fma(poly(f, LOG_F32), f, -0.5)
    s = f / (f + 2.0)
    z, half = s * s, f * f * 0.5
    return f, fma(s, fma(z, poly(z, LOG_F64), half), -half)


@expands("log")
def log(x):
    """Natural logarithm: k ln 2 + log(1 + f)."""
    ln2 = FORMATS[x.element].ln2
    k, m = log_parts(x)
    high, low = log_mantissa(m - 1.0)
    y = fma(k, ln2[0], fma(k, ln2[1], low) + high)
    return log_edges(x, y)


@expands("log2")
def log2(x):
    """Logarithm to base 2, exact at powers of two."""
    big, small = LOG2E[x.element]
    k, m = log_parts(x)
    high, low = log_mantissa(m - 1.0)
    total = high + low
    rest = low - (total - high)
    return log_edges(x, k + fma(total, big, fma(total, small, rest * big)))


# --- other bases ----------------------------------------------------------------------------------------------------
LN10 = {T.f32: (2.3025851249694824, -3.1975435632602967e-08), T.f64: (2.302585092994046, -2.1707562233822494e-16)}
LOG10_2 = {T.f32: (0.3010300099849701, -1.432098883924482e-08), T.f64: (0.3010299956639812, -2.8037281277851704e-18)}
LOG10_E = {T.f32: (0.4342944920063019, -1.0103049952192578e-08), T.f64: (0.4342944819032518, 1.098319650216765e-17)}
LOG2_10 = 3.321928094887362


@expands("exp10")
def exp10(x):
    """10^x: x = n log10 2 + r, and r ln 10 is the argument of the polynomial."""
    f, t = FORMATS[x.element], x.element
    x = clamp(x, f.low * 0.4343, f.high * 0.4343)
    sum_ = fma(x, LOG2_10, whole(f))
    n = sum_ - whole(f)
    r = fma(n, -LOG10_2[t][1], fma(n, -LOG10_2[t][0], x))
    r = fma(r, LN10[t][0], r * LN10[t][1])
    return scale(poly(r, EXP[t]), sum_.bits, f)


@expands("expm1")
def expm1(x):
    """e^x - 1 = 2 ((e^r - 1) 2^(n-1) + (2^(n-1) - 1/2)): halved inside, so that it is finite as long as it can be."""
    f = FORMATS[x.element]
    i, r = reduce_exp(clamp(x, -40.0, f.high), f)
    q = fma(r * r, poly(r, EXP[x.element][2:]), r)
    power = ((i - (f.bias + 1)) << f.mantissa).bitcast(x.element)
    y = fma(power, q, power - 0.5) * 2.0
    return where(abs(x) < 2.0**-f.mantissa / 4, x, y)


@expands("log10")
def log10(x):
    """Logarithm to base 10."""
    t = x.element
    k, m = log_parts(x)
    high, low = log_mantissa(m - 1.0)
    total = high + low
    rest = low - (total - high)
    y = fma(total, LOG10_E[t][0], fma(total, LOG10_E[t][1], rest * LOG10_E[t][0]))
    return log_edges(x, fma(k, LOG10_2[t][0], fma(k, LOG10_2[t][1], y)))


@expands("log1p")
def log1p(x):
    """log(1 + x): what 1 + x rounded away comes back in the mantissa."""
    f = FORMATS[x.element]
    u = x + 1.0
    lost = x - (u - 1.0)
    k = (u.bits - f.third) >> f.mantissa
    m = (u.bits - (k << f.mantissa)).bitcast(x.element)
    back = (x.const(f.one, k.element) - (minimum(k, 100) << f.mantissa)).bitcast(x.element)   # 2^-k while it matters
    high, low = log_mantissa(fma(lost, back, m - 1.0))
    k = k.cast(x.element)
    y = fma(k, f.ln2[0], fma(k, f.ln2[1], low) + high)
    return where(abs(x) < 2.0**-f.mantissa / 4, x, log_edges(u, y))
