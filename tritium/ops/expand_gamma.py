"""The gamma function and its logarithm over simple rows; f32 by way of f64."""

from __future__ import annotations

from .double_word import fast_two_sum, product, two_product, two_sum
from .expand_exp import INF, NAN, log
from .expand_pow import exp_pair, log_pair
from .expand_trig import sinpi
from .expression import expands, fma, in_f64, poly, trunc, where

# gamma(2 + u) on |u| <= 1/2, to 2^-56
GAMMA = (
    1.0, 0.42278433509846713, 0.4118403304264406, 0.08157691924708074, 0.07424901075339417, -0.0002669820683244473,
    0.011154045724303245, -0.00285264583586688, 0.002103933179646901, -0.0009195735555699098, 0.0004903908557855546,
    -0.00024094471321143228, 0.00012165204288580002, -6.0769183251009474e-05, 3.057461816306567e-05,
    -1.5342559311848867e-05, 7.219928128049857e-06, -3.51666800409176e-06, 2.622791677032497e-06,
    -1.391387161259604e-06)
# log gamma(2 + u) = u (1 + u) P(u) on |u| <= 1/2, to 2^-55.9
LOG_GAMMA = (
    0.42278433509846713, -0.10031730167435392, 0.032965000621155864, -0.012384192193371356, 0.004998641164691883,
    -0.002108130833949096, 0.0009153769225281646, -0.00040570739777218926, 0.00018255263193227688,
    -8.309512059561478e-05, 3.8168995064454857e-05, -1.766175039769201e-05, 8.221239770087382e-06,
    -3.846725045887889e-06, 1.8133558894981945e-06, -8.560002477180976e-07, 3.863524586716699e-07,
    -1.8228407413067587e-07, 1.2214820818769708e-07, -5.921614860014665e-08)
# log gamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + S(1/x^2) / x for x >= 8, to 2^-57.6 of the whole
STIRLING = (0.08333333333333333, -0.0027777777777740994, 0.000793650789835145, -0.0005952366070500578,
            0.0008414728630710517, -0.0018905408001614582, 0.005069268010623295)
HALF_LOG_2PI = (0.9189385332046728, -3.8782941580672414e-17)
PI = 3.141592653589793
LARGE = 12.0    # where Stirling's series takes over


def shifted(x):
    """(u, p, inverse): gamma(x) = gamma(2 + u) p, or gamma(2 + u) / p where `inverse`, with |u| <= 1/2; p in two words.

    For 0 < x < 12: (x - 1) (x - 2) ... down to [1.5, 2.5), or x (x + 1) from below.
    """
    low, least = x < 1.5, x < 0.5
    up, rest = two_product(x, x + 1.0)
    high = where(low, where(least, up, x), 1.0)
    tail = where(least, fma(x, x - ((x + 1.0) - 1.0), rest), 0.0)
    v = x
    for _ in range(10):
        more = v >= 2.5
        v = where(more, v - 1.0, v)
        wide, lost = two_product(high, v)
        high, tail = where(more, wide, high), where(more, fma(tail, v, lost), tail)
    u = where(least, x, where(low, x - 1.0, v - 2.0))
    return u, (high, tail), low


def stirling(x):
    """log gamma(x) in two words, for x >= 8."""
    lh, ll = log_pair(x)
    half = x - 0.5
    high, low = two_product(half, lh)
    low = fma(half, ll, low)
    high, rest = two_sum(high, -x)
    inverse = 1.0 / x
    series = product(inverse, poly(inverse * inverse, STIRLING))
    high, more = two_sum(high, x.const(HALF_LOG_2PI[0]))
    return fast_two_sum(high, ((rest + low) + more) + (series + HALF_LOG_2PI[1]))


@expands("tgamma")
@in_f64
def tgamma(x):
    """Gamma function; below 0 by reflection: gamma(-z) = -pi / (z sin(pi z) gamma(z))."""
    z = abs(x)
    negative = x < 0.0
    near = where(z < LARGE, z, 2.0)
    u, (ph, pl), inverse = shifted(near)
    g = poly(u, GAMMA)
    ratio = g / ph
    product_ = fma(g, ph, g * pl)
    small = where(inverse, fma(-ratio, pl / ph, ratio), product_)
    high, low = stirling(where(z < LARGE, LARGE, where(z > 190.0, 190.0, z)))
    large = exp_pair(where(negative, -high, high), where(negative, -low, low))
    direct = where(z < LARGE, small, large)
    inverse_gamma = where(z < LARGE, 1.0 / small, large)
    reflected = (-PI / (z * sinpi(z))) * inverse_gamma
    y = where(negative, reflected, direct)
    y = where(z < 2.0**-60, 1.0 / x, y)
    pole = negative & (trunc(x) == x)
    return where(pole, NAN, where(x != x, x, where(x == INF, INF, y)))


@expands("lgamma")
@in_f64
def lgamma(x):
    """log |gamma(x)|; below 0 by reflection."""
    z = abs(x)
    big = z >= LARGE
    u, (p, _), inverse = shifted(where(big, 2.0, z))
    logarithm = log(where(big, z, where(p > 0.0, p, 1.0)))
    core = product(u * (u + 1.0), poly(u, LOG_GAMMA))
    small = core + where(inverse, -logarithm, logarithm)
    reciprocal = 1.0 / where(big, z, LARGE)
    series = reciprocal * poly(reciprocal * reciprocal, STIRLING)
    large = fma(z - 0.5, logarithm - 1.0, series + (HALF_LOG_2PI[0] - 0.5))
    y = where(big, large, small)
    y = where(z == 0.0, INF, where(z < 2.0**-60, -logarithm, y))
    whole = trunc(x) == x
    reflected = log(PI / abs(z * sinpi(where(whole, 0.5, z)))) - y
    y = where(x < 0.0, where(whole, INF, where(z < 2.0**-60, y, reflected)), y)
    return where(x != x, x, where(z == INF, INF, y))
