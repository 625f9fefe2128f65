"""Trigonometric functions and their inverses over simple rows."""

from __future__ import annotations

from ..ir import types as T
from ..named_tuples import NamedTuple
from .double_word import two_product
from .expand_angle import reduce_huge
from .expand_exp import FORMATS, INF, NAN
from .expression import expands, fma, maximum, minimum, poly, rarely, rint, sign_of, sqrt, trunc, where

TWO_OVER_PI = 0.6366197723675814
REACH = {T.f32: 1e5, T.f64: 2.0**40}    # of the quick reduction


class Trig(NamedTuple):
    """pi/2 in parts, and polynomials: sin and cos on |r| <= pi/4, atan on |t| <= tan(pi/8), asin on |x| <= 1/2."""

    half_pi: tuple
    sin: tuple      # sin r = r + r^3 S(r^2)
    cos: tuple      # cos r = 1 - r^2/2 + r^4 C(r^2)
    atan: tuple     # atan t = t + t^3 A(t^2)
    asin: tuple     # asin x = x + x^3 A(x^2)


TRIG = {
    T.f32: Trig(  # sin 2^-27.8, cos 2^-32.7, atan 2^-30.4, asin 2^-27.6
        (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        (-0.16666653752326965, 0.008332106284797192, -0.0001950788137037307),
        (0.04166664555668831, -0.0013887297827750444, 2.4430086341453716e-05),
        (-0.33333316445350647, 0.19998528063297272, -0.14244391024112701, 0.10599168390035629, -0.060900524258613586),
        (0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184782058000565, 0.04215829074382782)),
    T.f64: Trig(  # sin 2^-57.7, cos 2^-63.7, atan 2^-59.4, asin 2^-59.9
        (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        (-0.16666666666666627, 0.008333333333321067, -0.00019841269828696172, 2.7557313297731198e-06,
         -2.505069532578921e-08, 1.5893103791663349e-10),
        (0.04166666666666658, -0.001388888888887097, 2.4801587287527964e-05, -2.755731379157233e-07,
         2.087564749235148e-09, -1.1355744220026425e-11),
        (-0.333333333333332, 0.19999999999953677, -0.14285714280200323, 0.11111110783555206, -0.09090897760071097,
         0.07692060267655526, -0.06663104855547586, 0.05847896840398123, -0.050393461520830025, 0.038065796929873254,
         -0.01790875296860728),
        (0.1666666666666676, 0.07499999999970865, 0.044642857174563164, 0.030381942709729364, 0.02237221494042433,
         0.017351612760435366, 0.013980812543681501, 0.011398971464528824, 0.010779949495568793, 0.003707464312953944,
         0.021705061385660435, -0.020995902643637973, 0.03262676127364648)),
}


# --- sine and cosine --------------------------------------------------------------------------------------------------
def reduce_angle(x):
    """(quadrant, r, tail): x = n pi/2 + r + tail; the low bits of `quadrant` are those of n (Cody and Waite).

    f32 goes without a tail, for speed.
    """
    p1, p2, p3 = TRIG[x.element].half_pi
    magic = FORMATS[x.element].magic
    t = fma(x, TWO_OVER_PI, magic)
    n = t - magic
    first = fma(n, -p1, x)          # exact
    if x.element is T.f32:
        return t.bits, fma(n, -p3, fma(n, -p2, first)), None
    second, rest = two_product(n, x.const(p2))
    r = first - second
    return t.bits, r, fma(n, -p3, ((first - r) - second) - rest)


def sin_kernel(r, tail):
    """sin(r + tail), |r| <= pi/4."""
    z = r * r
    s = poly(z, TRIG[r.element].sin)
    return fma(r * z, s, r) if tail is None else r + fma(r * z, s, tail)


def cos_kernel(r, tail):
    """cos(r + tail), |r| <= pi/4."""
    z = r * r
    c = poly(z, TRIG[r.element].cos)
    if tail is None:
        return fma(z, fma(z, c, -0.5), 1.0)
    half = z * 0.5
    whole = 1.0 - half
    rest = (1.0 - whole) - half     # what 1 - r^2/2 rounded away
    return whole + (rest + fma(z * z, c, -(r * tail)))


def in_quadrant(quadrant, s, c):
    """sin(x) from its quadrant and the kernels' values there."""
    y = where((quadrant & 1) == 0, s, c)
    flip = (quadrant << (y.element.bits - 2)) & -(1 << (y.element.bits - 1))
    return (y.bits ^ flip).bitcast(y.element)


def sine(quadrant, r, tail):
    return in_quadrant(quadrant, sin_kernel(r, tail), cos_kernel(r, tail))


def cosine(quadrant, r, tail):
    """The sine one quadrant on."""
    return in_quadrant(quadrant + 1, sin_kernel(r, tail), cos_kernel(r, tail))


def tangent(quadrant, r, tail):
    """Sine by cosine, in odd quadrants minus the inverse."""
    s, c = sin_kernel(r, tail), cos_kernel(r, tail)
    even = (quadrant & 1) == 0
    return where(even, s, -c) / where(even, c, s)


def of_angle(fn, x):
    """fn of x radians; beyond the reach of the quick reduction, by way of the long one."""
    return rarely(abs(x) > REACH[x.element], fn(*reduce_angle(x)), lambda x: fn(*reduce_huge(x)) + (x - x), x)


@expands("sin")
def sin(x):
    """Sine of x radians."""
    return where(x == 0.0, x, of_angle(sine, x))


@expands("cos")
def cos(x):
    """Cosine of x radians."""
    return of_angle(cosine, x)


@expands("tan")
def tan(x):
    """Tangent of x radians."""
    return where(x == 0.0, x, of_angle(tangent, x))


def reduce_half_turns(x):
    """(quadrant, r, tail): pi x = n pi/2 + r + tail, with an exact reduction."""
    pi = [2 * p for p in TRIG[x.element].half_pi[:2]]
    x = x - rint(x * 0.5) * 2.0     # whole turns
    n = rint(x + x)
    rest = x - n * 0.5
    high, low = two_product(rest, x.const(pi[0]))
    return n.cast(T.i32).cast(x.bits.element), high, fma(rest, pi[1], low)


@expands("sinpi")
def sinpi(x):
    """Sine of x half turns; 0 with the sign of x at whole ones."""
    quadrant, r, tail = reduce_half_turns(x)
    y = in_quadrant(quadrant, sin_kernel(r, tail), cos_kernel(r, tail))
    return where(trunc(x) == x, where(abs(x) < INF, sign_of(x.const(0.0), x), NAN), y)


@expands("cospi")
def cospi(x):
    """Cosine of x half turns."""
    quadrant, r, tail = reduce_half_turns(x)
    y = in_quadrant(quadrant + 1, sin_kernel(r, tail), cos_kernel(r, tail))
    return where(abs(x) < INF, where(y == 0.0, 0.0, y), NAN)


# --- inverses ---------------------------------------------------------------------------------------------------------
def atan_kernel(t, tail=None):
    """atan(t + tail) - t, |t| <= tan(pi/8)."""
    z = t * t
    cube = z * t
    return cube * poly(z, TRIG[t.element].atan) if tail is None else fma(cube, poly(z, TRIG[t.element].atan), tail)


def angle(small, large):
    """atan(small / large) in two words, for 0 <= small <= large: beyond tan(pi/8), from pi/4."""
    quarter = [p / 2 for p in TRIG[small.element].half_pi[:2]]
    far = small > large * 0.41421356
    num = where(far, small - large, small)
    den = where(far, small + large, large)
    t = num / den
    tail = fma(-t, den, num) / den
    base = where(far, t.const(quarter[0]), 0.0)
    high = base + t
    low = (t - (high - base)) + atan_kernel(t, tail)
    return high, low + where(far, t.const(quarter[1]), 0.0)


@expands("atan")
def atan(x):
    """Inverse tangent."""
    a = abs(x)
    big = a > 1.0
    one = x.const(1.0)
    high, low = angle(where(big, 1.0, a), where(big, where(a < INF, a, 1.0), one))
    half_pi = TRIG[x.element].half_pi
    turned = (half_pi[0] - high) + (half_pi[1] - low)
    y = where(big, turned, high + low)
    y = where(a == INF, half_pi[0], y)
    return where(a < 2.0**-30, x, where(a <= INF, sign_of(y, x), x))


@expands("atan2")
def atan2(y, x):
    """Angle of the point (x, y), by the octant it lies in."""
    p1, p2, _ = TRIG[x.element].half_pi
    ax, ay = abs(x), abs(y)
    steep = ay > ax
    large, small = maximum(ax, ay), minimum(ax, ay)
    both = (ax == INF) & (ay == INF)
    scale = where(large > 2.0**100, x.const(2.0**-30), 1.0)
    small, large = where(both, 1.0, small * scale), where(both, 1.0, large * scale)
    edge = (large == 0.0) | (large == INF)
    high, low = angle(where(edge, 0.0, small), where(edge, 1.0, large))
    # steep: pi/2 - angle; left: pi - angle
    high, low = where(steep, p1 - high, high), where(steep, ((p1 - (p1 - high)) - high) + (p2 - low), low)
    left = x.bits < 0
    high, low = where(left, 2 * p1 - high, high), where(left, ((2 * p1 - (2 * p1 - high)) - high) + (2 * p2 - low), low)
    return where((x != x) | (y != y), NAN, sign_of(high + low, y))


def root_error(root, z):
    """What the square root of z rounded away."""
    return where(root > 0.0, fma(-root, root, z) / (root + root), 0.0)


def arc(a):
    """Of 0 <= a <= 1: whether it is beyond 1/2, r = a or else sqrt((1 - a) / 2), asin(r) - r, and r's own error."""
    big = a > 0.5
    z = where(big, fma(a, -0.5, 0.5), a * a)
    root = where(big, sqrt(z), a)
    return big, root, root * z * poly(z, TRIG[a.element].asin), root_error(root, z)


@expands("asin")
def asin(x):
    """Inverse sine: a polynomial up to 1/2, pi/2 - 2 asin(sqrt((1 - |x|) / 2)) beyond."""
    p1, p2, _ = TRIG[x.element].half_pi
    a = abs(x)
    big, root, correction, lost = arc(a)
    beyond = p1 - (root + root - (p2 - 2.0 * (correction + lost)))
    return sign_of(where(big, beyond, where(a < 2.0**-30, a, root + correction)), x)


@expands("acos")
def acos(x):
    """Inverse cosine, from the same polynomial."""
    p1, p2, _ = TRIG[x.element].half_pi
    big, root, correction, lost = arc(abs(x))
    middle = p1 - (x - (p2 - sign_of(correction, x)))
    twice = 2.0 * (root + (correction + lost))
    left = 2 * p1 - (twice - 2 * p2)
    return where(big, where(x < 0.0, left, twice), middle)
