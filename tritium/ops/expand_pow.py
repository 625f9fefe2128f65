"""Powers over simple rows: a logarithm in two words times the exponent, and the exponential of that."""

from __future__ import annotations

from ..ir import types as T
from .double_word import fast_two_sum, product, two_product
from .expand_exp import EXP, FORMATS, INF, NAN, log_parts, reduce_exp, scale
from .expression import expands, fma, poly, trunc, where

# ln 2 with a first part so short that k times it is exact
LN2 = {T.f32: (0.69317626953125, -2.9088929295539856e-05), T.f64: (0.6931471805601177, -1.7239444525610826e-13)}
# 2 atanh(s) = s (2 + z (2/3 + z P(z))), z = s^2 <= 0.04: f32 to 2^-34.5, f64 to 2^-69
TWO_THIRDS = {T.f32: (0.6666666865348816, -1.9868215517249155e-08), T.f64: (0.6666666666666666, 3.700743415417188e-17)}
ATANH = {
    T.f32: (0.40000393986701965, 0.2852541208267212, 0.2387639582157135),
    T.f64: (0.3999999999999972, 0.28571428571579927, 0.22222222190784124, 0.1818182156774622, 0.15384404557307965,
            0.13341203787307548, 0.11591470368389334, 0.1257688999005947),
}


def log_pair(x):
    """ln x in two words, for finite x > 0."""
    k, m = log_parts(x)
    f = m - 1.0
    # s = f / (f + 2)
    dh = f + 2.0
    dl = f - (dh - 2.0)
    sh = f / dh
    sl = fma(-sh, dl, fma(-sh, dh, f)) / dh
    zh, zl = two_product(sh, sh)
    zl = fma(sh + sh, sl, zl)
    # log m = s (2 + z t), t = 2/3 + z P(z)
    high, low = TWO_THIRDS[x.element]
    p = product(zh, poly(zh, ATANH[x.element]))
    th = p + high
    tl = (p - (th - high)) + low
    qh, ql = two_product(zh, th)
    ql = fma(zh, tl, fma(zl, th, ql))
    uh = qh + 2.0
    ul = (qh - (uh - 2.0)) + ql
    wh, wl = two_product(sh, uh)
    wl = fma(sh, ul, fma(sl, uh, wl))
    ln2_high, ln2_low = LN2[x.element]
    h, rest = fast_two_sum(product(k, x.const(ln2_high)), wh)
    return fast_two_sum(h, rest + fma(k, ln2_low, wl))


def exp_pair(high, low):
    """e^(high + low)."""
    f = FORMATS[high.element]
    outside = (high < f.low) | (high > f.high)
    high = where(high < f.low, f.low, where(high > f.high, f.high, high))
    i, r = reduce_exp(high, f)
    return scale(poly(r + where(outside, 0.0, low), EXP[high.element]), i, f)


@expands("pow")
def pow_(x, y):
    """x to the power y, with the special cases of C."""
    a = abs(x)
    high, low = log_pair(a)
    high = where(a == 0.0, -INF, where(a < INF, high, a))
    ph, pl = two_product(y, high)
    size = exp_pair(ph, fma(y, low, pl))
    half = y * 0.5
    whole = trunc(y) == y
    odd = whole & (trunc(half) != half)
    negative = x.bits < 0
    signed = where(odd & negative, -size, size)
    signed = where((x < 0.0) & (a < INF) & ~whole, NAN, signed)
    one = (x == 1.0) | (y == 0.0) | ((a == 1.0) & (abs(y) == INF))
    return where(one, 1.0, signed)
