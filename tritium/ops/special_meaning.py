"""NumPy side of the special rows: float64 references by other roads than the expansions take.

Directed rounding is exact rational arithmetic. Bessel functions are power series in big integers for small arguments
and Hankel's expansions beyond; inverses are Newton's iteration on `math.erf` and `math.erfc`.
"""

from __future__ import annotations

import math

from ..later import fractions, np
from .meaning import np_dtype

INF, NAN = math.inf, math.nan
LIMITS = {"float32": (23, -126, 127), "float64": (52, -1022, 1023)}  # mantissa, exponents


def Fraction(*parts):
    """`fractions.Fraction`, imported when it is first called."""
    return fractions.Fraction(*parts)


# --- directed rounding --------------------------------------------------------------------------------------------
def round_fraction(x, mode, dtype):
    """The float of `dtype` next to the rational `x` in direction "rn", "rz", "rd" or "ru".

    >>> round_fraction(Fraction(1, 3), "rd", np.float32) < round_fraction(Fraction(1, 3), "ru", np.float32)
    True
    """
    mantissa, smallest, largest = LIMITS[np.dtype(dtype).name]
    if x == 0:
        return 0.0
    negative, size = x < 0, abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, smallest) - mantissa)
    count, rest = divmod(size, step)
    if mode == "rn":
        count += rest * 2 > step or (rest * 2 == step and count % 2)
    elif rest and mode == ("rd" if negative else "ru"):
        count += 1
    size = count * step
    top = Fraction(2) ** largest * (2 - Fraction(1, 1 << mantissa))
    if size > top:
        size = INF if mode == "rn" or mode == ("rd" if negative else "ru") else top
    return -float(size) if negative else float(size)


def directed(exact, mode, plain, type_=None):
    """An op whose exact result is `exact(*fractions)`, rounded in a direction; `plain` decides what is not finite.

    `type_` is the result's where it is not that of the first operand.
    """
    def one(out, *xs):
        if not all(map(math.isfinite, xs)):
            return plain(*[out(x) for x in xs])
        try:
            value = exact(*map(Fraction, xs))
        except (ZeroDivisionError, ValueError):
            return plain(*[out(x) for x in xs])
        if value == 0:
            zero = plain(*[out(x) for x in xs])
            if mode == "rd" and exact in TERMS:  # what cancels is -0 then; only 0 + 0 is 0
                return zero if all(math.copysign(1, x) > 0 for x in TERMS[exact](*xs)) else -0.0
            return zero
        if value is ROOT:
            return _root(Fraction(xs[0]), mode, out)
        rounded = round_fraction(value, mode, out)
        return rounded if rounded else math.copysign(0.0, value)

    def run(*arrays):
        out = arrays[0].dtype if type_ is None else np_dtype(type_)
        flat = [a.ravel().tolist() for a in np.broadcast_arrays(*arrays)]
        return np.array([one(out.type, *xs) for xs in zip(*flat)], dtype=out).reshape(np.broadcast(*arrays).shape)
    return run


def _root(x, mode, out):
    """Square root of a rational, rounded in a direction: by comparing squares."""
    near = out(math.sqrt(float(x)))
    while Fraction(float(near)) ** 2 > x:
        near = np.nextafter(near, out(0))
    while Fraction(float(np.nextafter(near, out(INF)))) ** 2 <= x:
        near = np.nextafter(near, out(INF))
    above = np.nextafter(near, out(INF))
    if Fraction(float(near)) ** 2 == x or mode in ("rz", "rd"):
        return float(near)
    if mode == "ru":
        return float(above)
    middle = (Fraction(float(near)) + Fraction(float(above))) / 2
    return float(near if x < middle**2 else above)


ROOT = object()


def exact_add(x, y):
    return x + y


def exact_sub(x, y):
    return x - y


def exact_fma(x, y, z):
    return x * y + z


def exact_root(x):
    """A mark for the exact root, which need not be a fraction; zero is its own root."""
    if x < 0:
        raise ValueError(x)
    return ROOT if x else x


TERMS = {exact_add: lambda x, y: (x, y), exact_sub: lambda x, y: (x, -y),
         exact_fma: lambda x, y, z: (math.copysign(1, x) * math.copysign(1, y), z)}


def sqrt_of(x):
    """Square root of one float; NaN below 0."""
    with np.errstate(all="ignore"):
        return np.sqrt(x)


def fma_of(x, y, z):
    """x * y + z of floats that are not all finite, or cancel."""
    return z if math.isfinite(x) and math.isfinite(y) and not math.isfinite(z) else x * y + z


def reciprocal_root(x):
    """1 / sqrt(x) rounded once to f32."""
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def cbrt(x):
    """Cube root: what libraries give, and one exact step of Newton's."""
    y = math.cbrt(x)
    if not math.isfinite(x) or y == 0:
        return y
    return float(Fraction(y) - (Fraction(y) ** 3 - Fraction(x)) / (3 * Fraction(y) ** 2))


def reciprocal_cbrt(x):
    """1 / cbrt(x)."""
    return math.copysign(INF, x) if x == 0 else 1 / cbrt(x)


# --- parts of floats ------------------------------------------------------------------------------------------------
def logb(x):
    """The exponent of x as a float; -inf for 0."""
    _, exponent = np.frexp(x)
    return np.where(x == 0, -INF, np.where(np.isfinite(x), exponent - 1, np.abs(x))).astype(x.dtype)


def ieee_remainder(x, y):
    """x - y * n for the integer n nearest to x / y."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return NAN
    return math.remainder(x, y)


def norm(*xs):
    """Square root of the sum of squares; infinite if any is."""
    return INF if any(map(math.isinf, xs)) else math.hypot(*xs)


def reciprocal_norm(*xs):
    """1 / norm."""
    size = norm(*xs)
    return INF if size == 0 else 1 / size


# --- turns ----------------------------------------------------------------------------------------------------------
def sinpi(x):
    """sin(pi x), exact at multiples of 1/2."""
    if not math.isfinite(x):
        return NAN
    if x == math.trunc(x):
        return math.copysign(0.0, x)
    return _half_turns(math.fmod(x, 2.0))


def cospi(x):
    """cos(pi x), exact at multiples of 1/2."""
    if not math.isfinite(x):
        return NAN
    x = abs(math.fmod(x, 2.0))
    if x in (0.5, 1.5):
        return 0.0
    if x <= 0.25 or x >= 1.75:
        return math.cos(math.pi * min(x, 2.0 - x))
    return _half_turns(0.5 - x) if x < 1 else _half_turns(x - 1.5)


def _half_turns(x):
    """sin(pi x) for |x| < 2, by the nearest quarter."""
    n = round(2 * x)
    r = math.pi * (x - n / 2)
    return (math.sin(r), math.cos(r), -math.sin(r), -math.cos(r))[n % 4]


# --- error functions --------------------------------------------------------------------------------------------------
def erfcx(x):
    """exp(x^2) erfc(x), without overflow for large x: by a continued fraction."""
    if x < 2:
        try:
            high = x * x
            return math.exp(high) * (1 + float(Fraction(x) ** 2 - Fraction(high))) * math.erfc(x)
        except OverflowError:
            return INF
    if x != x or x > 1e300:
        return NAN if x != x else 1 / (x * math.sqrt(math.pi)) if x < INF else 0.0
    tail = x
    for k in range(120, 0, -1):
        tail = x + k / 2 / tail
    return 1 / (tail * math.sqrt(math.pi))


def normcdf(x):
    """Probability that a normal variable is below x: erfc(-x / sqrt 2) / 2."""
    if not math.isfinite(x):
        return NAN if x != x else float(x > 0)
    y = -x * math.sqrt(0.5)
    rest = float(-Fraction(x) * Fraction(math.isqrt(1 << 399), 1 << 200) - Fraction(y))
    return 0.5 * math.erfc(y) - rest * math.exp(-min(y * y, 750.0)) / math.sqrt(math.pi)


def erfcinv(q):
    """The y with erfc(y) = q: Newton's iteration on the logarithm, which has no flat parts."""
    if not 0 < q < 2:
        return INF if q == 0 else -INF if q == 2 else NAN
    if q > 1:
        return -erfcinv(2 - q)
    if q > 0.25:
        return erfinv(1 - q) if 1 - (1 - q) == q else _newton_small(q)
    y = math.sqrt(-math.log(q))
    for _ in range(40):
        ratio = math.erfc(y) / q if y < 26 else 0.0
        distance = math.log(ratio) if ratio > 1e-290 else math.log(erfcx(y)) - y * y - math.log(q)
        step = distance * erfcx(y) * math.sqrt(math.pi) / 2
        y += step
        if abs(step) <= 1e-17 * y:
            break
    return y


def _newton_small(q):
    """erfcinv near 1, where 1 - q is not exact."""
    y = erfinv(1 - q)
    return y + (math.erfc(y) - q) * math.exp(y * y) * math.sqrt(math.pi) / 2


def erfinv(x):
    """The y with erf(y) = x."""
    if not abs(x) < 1:
        return math.copysign(INF, x) if abs(x) == 1 else NAN
    if abs(x) > 0.75:
        return math.copysign(erfcinv(1 - abs(x)), x)
    y = x * math.sqrt(math.pi) / 2
    if abs(x) < 1e-8:
        return y
    for _ in range(40):
        step = (x - math.erf(y)) * math.exp(y * y) * math.sqrt(math.pi) / 2
        y += step
        if abs(step) <= 1e-17 * abs(y):
            break
    return y


def normcdfinv(p):
    """The x with normcdf(x) = p."""
    return -math.sqrt(2) * erfcinv(2 * p)


# --- gamma ------------------------------------------------------------------------------------------------------------
def lgamma(x):
    """log |gamma(x)|; infinite at 0, -1, -2 ..."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return INF


def tgamma(x):
    """gamma(x); NaN at -1, -2 ..., infinite at 0 with its sign."""
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(INF, x)
    except ValueError:
        return math.copysign(INF, x) if x == 0 else NAN


# --- Bessel functions -------------------------------------------------------------------------------------------------
SCALE = 256         # bits after the point of the integers below
NEAR = 25.0         # where series give way to Hankel's expansions


def _ratio(n):
    """The float nearest to the fixed-point number n."""
    try:
        return n / (1 << SCALE)
    except OverflowError:
        return math.copysign(INF, n)


def _series(order, x, sign):
    """sum of (sign x^2/4)^k / (k! (k + order)!), in integers."""
    square = int(Fraction(x) ** 2 / 4 * (1 << SCALE))
    term = total = (1 << SCALE) // math.factorial(order)
    k = 0
    while term:
        k += 1
        term = (term * square >> SCALE) // (k * (k + order))
        total += term * sign**k
    return total


def jn(n, x):
    """Bessel function of the first kind of integer order."""
    n = int(n)
    if x != x or math.isinf(x):
        return NAN if x != x else 0.0
    sign = 1.0
    if n < 0:
        n, sign = -n, sign * (-1) ** n
    if x < 0:
        x, sign = -x, sign * (-1) ** n
    if x <= NEAR:
        return sign * _times_power(_ratio(_series(n, x, -1)), x, n)
    if n < 2:
        return sign * _hankel(n, x)[0]
    if n < x:
        before, value = _hankel(0, x)[0], _hankel(1, x)[0]
        for k in range(1, n):
            before, value = value, 2 * k / x * value - before
        return sign * value
    return sign * _miller(n, x)


def _times_power(y, x, n):
    """y (x/2)^n, underflowing only at the end."""
    try:
        return y * (x / 2) ** n
    except OverflowError:
        return y * math.exp(n * math.log(x / 2))


def _miller(n, x):
    """Orders above x by downward recurrence, scaled by J0 + 2 J2 + 2 J4 ... = 1."""
    start = 2 * ((n + int(math.sqrt(60 * n)) + int(x)) // 2 + 10)
    above, value, total, wanted = 0.0, 1e-300, 0.0, 0.0
    for k in range(start, 0, -1):
        above, value = value, 2 * k / x * value - above
        if k - 1 == n:
            wanted = value
        if k % 2 == 1:
            total += value if k == 1 else 2 * value
        if abs(value) > 1e250:
            above, value, total, wanted = above * 1e-250, value * 1e-250, total * 1e-250, wanted * 1e-250
    return wanted / total


def yn(n, x):
    """Bessel function of the second kind of integer order."""
    n = int(n)
    sign = 1.0
    if n < 0:
        n, sign = -n, sign * (-1) ** n
    if x != x or x < 0:
        return NAN
    if x == 0:
        return -INF * sign if n else -INF
    if math.isinf(x):
        return 0.0
    before, value = _y(0, x), _y(1, x)
    for k in range(1, n):
        before, value = value, 2 * k / x * value - before
        if math.isinf(value):
            return sign * value
    return sign * (before if n == 0 else value)


def _y(order, x):
    """Orders 0 and 1 by their series with harmonic numbers."""
    if x > NEAR:
        return _hankel(order, x)[1]
    square = int(Fraction(x) ** 2 / 4 * (1 << SCALE))
    one = term = 1 << SCALE
    k = harmonic = total = 0
    while term:
        weight = harmonic if order == 0 else 2 * harmonic + one // (k + 1)
        total += (weight * term >> SCALE) * (-1) ** k
        k += 1
        term = (term * square >> SCALE) // (k * (k + order))
        harmonic += one // k
    log_part = 2 / math.pi * (math.log(x) - math.log(2) + EULER)
    if order == 0:
        return log_part * _ratio(_series(0, x, -1)) - 2 / math.pi * _ratio(total)
    return log_part * x / 2 * _ratio(_series(1, x, -1)) - 2 / (math.pi * x) - x / (2 * math.pi) * _ratio(total)


EULER = 0.5772156649015329


def _hankel(order, x):
    """(J, Y) for large x by Hankel's expansion: sums of ((4n^2 - 1)(4n^2 - 9) ...) / (k! (8x)^k)."""
    p = q = 0.0
    term, k = 1.0, 0
    while True:
        if k % 2 == 0:
            p += term * (-1) ** (k // 2)
        else:
            q += term * (-1) ** (k // 2)
        k += 1
        following = term * (4 * order * order - (2 * k - 1) ** 2) / (k * 8) / x
        if abs(following) < 1e-18 or abs(following) > abs(term):
            break
        term = following
    s, c = math.sin(x), math.cos(x)
    size = math.sqrt(1 / math.pi / x)
    cos, sin = (c + s, s - c) if order == 0 else (s - c, -(s + c))  # of x - pi/4 and x - 3 pi/4, times sqrt 2
    return size * (p * cos - q * sin), size * (p * sin + q * cos)


def cyl_bessel_i(order):
    """Modified Bessel function of the first kind of order 0 or 1."""
    def run(x):
        if x != x or abs(x) > 720:
            return NAN if x != x else math.copysign(INF, x) if order else INF
        total = _series(order, x, 1)
        if order and abs(x) > 1:
            return _ratio(int(total * Fraction(x) / 2))
        return _ratio(total) * x / 2 if order else _ratio(total)
    return run
