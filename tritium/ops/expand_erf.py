"""The error function and its relatives over simple rows."""

from __future__ import annotations

from ..ir import types as T
from .double_word import two_product
from .expand_exp import INF, exp_normal
from .expand_pow import exp_pair
from .expression import expands, fma, in_f64, poly, sign_of, where

# erf(x) = x + x P(x^2) on |x| <= 1: f32 to 2^-29.4, f64 to 2^-56.3
ERF_SMALL = {
    T.f32: (0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026, 0.005187162198126316,
            -0.0007997853099368513, 7.806903158780187e-05),
    T.f64: (0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072893, 0.005223977624780862,
            -0.0008548326978742012, 0.00012055331036893647, -1.4925593506752539e-05, 1.6460972814736562e-06,
            -1.6350025196622206e-07, 1.4657879652488937e-08, -1.1365665168851802e-09, 5.945260308854001e-11),
}
# erf(x) = 1 - exp(-Q(x)) from 1 to where it is 1: f32 to 2^-34.2, f64 to 2^-60.4
ERF_LARGE = {
    T.f32: (-0.00017468418809585273, 1.1295149326324463, 0.6333469152450562, 0.10828004032373428,
            -0.025119353085756302, 0.004171011969447136, -0.0004344460612628609, 2.1093006580485962e-05),
    T.f64: (1.5638014140587566e-08, 1.1283790371586542, 0.6366201694649466, 0.10277244050382194, -0.01913128465923042,
            -0.0001975515067103424, 0.001669650115906016, -0.0005477301954235739, -2.5192988155767565e-05,
            0.00011252516375271157, -6.551943174009735e-05, 2.4542381154664942e-05, -6.855466825425185e-06,
            1.4847473537300512e-06, -2.505371997896039e-07, 3.2471955570509867e-08, -3.129747111179124e-09,
            2.1148454634583703e-10, -8.941241880048032e-12, 1.7793032048977208e-13),
}
ERF_IS_ONE = {T.f32: 3.95, T.f64: 5.95}


@expands("erf")
def erf(x):
    """Error function."""
    end = ERF_IS_ONE[x.element]
    a = abs(x)
    small = fma(poly(x * x, ERF_SMALL[x.element]), x, x)
    a = where(a > end, end, a)
    large = 1.0 - exp_normal(-poly(a, ERF_LARGE[x.element]))
    return sign_of(where(a < 1.0, small, large), x)


# --- complement, scaled complement, normal distribution: f32 by way of f64 -------------------------------------------
# exp(a^2) erfc(a) (1 + 2a) = P(t), t = (a - 3) / (a + 3), for a >= 0.45, to 2^-54.4
ERFCX = (
    1.2530080582697296, -0.13562110612458123, -0.047562294353451634, 0.12964515870276672, -0.11927366341524352,
    0.06830802734374372, -0.02377051492046324, 0.0025293918204219554, 0.0018886903842552235, -0.0007798323189770849,
    -0.00010515999495214703, 0.00012509967254456284, 4.950406615690736e-06, -2.0102016761686804e-05,
    -7.342297277546984e-07, 3.4768107983491287e-06, 3.6175861192219417e-07, -6.254839674184798e-07,
    -1.46524467372104e-07, 1.1313160950051081e-07, 4.343340757432221e-08, -2.1561418754368682e-08,
    -7.18783287203e-09, 3.6166874918361586e-09, -1.2383506736748454e-10)
SQRT_HALF = (0.7071067811865476, -4.833646656726457e-17)


def scaled_complement(a):
    """exp(a^2) erfc(a) for a >= 0.45."""
    t = 1.0 - 6.0 / (a + 3.0)
    return poly(t, ERFCX) / fma(a, 2.0, 1.0)


def complement(x, tail=None):
    """erfc(x + tail) with a tail far below x's last bit."""
    a = abs(x)
    a = where(a > 28.0, 28.0, a)
    high, low = two_product(a, a)
    if tail is not None:
        low = fma(a + a, where(x < 0.0, -tail, tail), low)
    large = exp_pair(-high, -low) * scaled_complement(a)
    p = poly(x * x, ERF_SMALL[T.f64])
    small = fma(-x, p, 0.5 - x) + 0.5
    if tail is not None:
        small = fma(tail, -1.128379167095513, small)
    return where(a < 0.5, small, where(x < 0.0, 2.0 - large, large))


@expands("erfc")
@in_f64
def erfc(x):
    """1 - erf(x)."""
    return complement(x)


@expands("erfcx")
@in_f64
def erfcx(x):
    """exp(x^2) erfc(x)."""
    a = abs(x)
    high, low = two_product(x, x)
    grown = exp_pair(high, where(high < INF, low, 0.0))
    scaled = scaled_complement(where(a < 0.45, 0.45, a))
    near = grown * complement(where(a < 1.0, x, 0.0))
    return where(a < 0.5, near, where(x < 0.0, fma(grown, 2.0, -scaled), scaled))


@expands("normcdf")
@in_f64
def normcdf(x):
    """erfc(-x / sqrt 2) / 2."""
    x = where(abs(x) > 40.0, sign_of(x.const(40.0), x), x)
    high, low = two_product(-x, x.const(SQRT_HALF[0]))
    return complement(high, fma(-x, SQRT_HALF[1], low)) * 0.5
