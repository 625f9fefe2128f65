"""Hyperbolic functions and their inverses over simple rows."""

from __future__ import annotations

from ..ir import types as T
from .expand_exp import EXP, FORMATS, INF, NAN, clamp, exp_normal, log1p, reduce_exp, scale
from .expression import expands, fma, poly, sign_of, sqrt, where

# tanh x = x + x^3 P(x^2) on |x| <= 0.6: f32 to 2^-28.4, f64 to 2^-57.7
TANH = {
    T.f32: (-0.33333298563957214, 0.13331936299800873, -0.05378471687436104, 0.02079862542450428,
            -0.005897966679185629),
    T.f64: (-0.33333333333333126, 0.13333333333299766, -0.053968253949334175, 0.02186948800332022,
            -0.00886322678634508, 0.003592037445340997, -0.001455215680922697, 0.0005871893931979731,
            -0.00023039872000328666, 7.931603714026299e-05, -1.7179709628388223e-05),
}
# sinh x = x + x^3 P(x^2) on |x| <= 1: f32 to 2^-31.6, f64 to 2^-61.8
SINH = {
    T.f32: (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06),
    T.f64: (0.16666666666666669, 0.008333333333332912, 0.0001984126984159341, 2.755731910675681e-06,
            2.5052130998615763e-08, 1.6056659187919435e-10, 7.776599029652751e-13),
}
TANH_IS_ONE = {T.f32: 10.0, T.f64: 22.0}


@expands("tanh")
def tanh(x):
    """Hyperbolic tangent: a polynomial near 0, 1 - 2 / (e^2x + 1) beyond."""
    a, end = abs(x), TANH_IS_ONE[x.element]
    z = x * x
    small = fma(poly(z, TANH[x.element]), z * x, x)
    large = 1.0 - 2.0 / (exp_normal(where(a > end, 2 * end, a * 2.0)) + 1.0)
    return sign_of(where(a < 0.6, small, large), x)


def half_exp(x):
    """e^x / 2, finite a little longer than e^x."""
    f = FORMATS[x.element]
    i, r = reduce_exp(clamp(x, f.low, f.high + 1.0), f)
    return scale(poly(r, EXP[x.element]), i - 1, f)


@expands("sinh")
def sinh(x):
    """Hyperbolic sine: a polynomial near 0, (e^x - e^-x) / 2 beyond."""
    z = x * x
    small = fma(poly(z, SINH[x.element]), z * x, x)
    half = half_exp(abs(x))
    return sign_of(where(abs(x) < 1.0, small, half - 0.25 / half), x)


@expands("cosh")
def cosh(x):
    """Hyperbolic cosine."""
    half = half_exp(abs(x))
    return half + 0.25 / half


# --- inverses ---------------------------------------------------------------------------------------------------------
LN2 = 0.6931471805599453
LARGE = {T.f32: 2.0**14, T.f64: 2.0**30}    # 1 is lost beside its square


@expands("asinh")
def asinh(x):
    """Inverse hyperbolic sine: log1p(x + (sqrt(x^2 + 1) - 1)), the difference without cancellation."""
    a = abs(x)
    large = a > LARGE[x.element]
    square = a * a
    t = a + square / (sqrt(fma(a, a, 1.0)) + 1.0)
    y = log1p(where(large, a - 1.0, t))
    return sign_of(where(large, y + LN2, y), x)


@expands("acosh")
def acosh(x):
    """Inverse hyperbolic cosine: log1p((x - 1) + sqrt((x - 1) (x + 1)))."""
    large = x > LARGE[x.element]
    t = x - 1.0
    y = log1p(where(large, t, t + sqrt(fma(t, t, t + t))))
    return where(x < 1.0, NAN, where(large, y + LN2, y))


@expands("atanh")
def atanh(x):
    """Inverse hyperbolic tangent: log1p(2x / (1 - x)) / 2."""
    a = abs(x)
    y = log1p((a + a) / (1.0 - a)) * 0.5
    return sign_of(where(a < 2.0**-30, a, where(a == 1.0, INF, y)), x)
