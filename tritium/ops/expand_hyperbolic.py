"""Hyperbolic functions over simple rows."""

from __future__ import annotations

from ..ir import types as T
from .expand_exp import EXP, FORMATS, exp_normal, reduce_exp
from .expression import expands, fma, poly, sign_of, where

# tanh x = x + x^3 P(x^2) on |x| <= 0.6, to 2^-28.4
TANH_F32 = (-0.33333298563957214, 0.13331936299800873, -0.05378471687436104, 0.02079862542450428,
            -0.005897966679185629)


def expm1_normal(x):
    """e^x - 1 where e^x is a normal number, exact to its last bits near 0: (e^r - 1) 2^n + (2^n - 1)."""
    f = FORMATS[x.element]
    i, r = reduce_exp(x, f)
    q = fma(r * r, poly(r, EXP[x.element][2:]), r)
    power = ((i << f.mantissa) + f.one).bitcast(x.element)
    return fma(power, q, power - 1.0)


@expands("tanh")
def tanh(x):
    """Hyperbolic tangent: a polynomial near 0, 1 - 2 / (e^2x + 1) beyond."""
    a = abs(x)
    if x.element is T.f64:
        e = expm1_normal(where(a > 22.0, 44.0, a * 2.0))
        return sign_of(e / (e + 2.0), x)
    z = x * x
    small = fma(poly(z, TANH_F32), z * x, x)
    large = 1.0 - 2.0 / (exp_normal(where(a > 10.0, 20.0, a * 2.0)) + 1.0)
    return sign_of(where(a < 0.6, small, large), x)
