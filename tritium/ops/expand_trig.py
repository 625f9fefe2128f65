"""Trigonometric functions over simple rows."""

from __future__ import annotations

from typing import NamedTuple

from ..ir import types as T
from .expand_exp import FORMATS
from .expression import expands, fma, poly, where

TWO_OVER_PI = 0.6366197723675814


class Trig(NamedTuple):
    """pi/2 in parts, and the minimax polynomials on |r| <= pi/4."""

    half_pi: tuple
    sin: tuple      # sin r = r + r^3 S(r^2)
    cos: tuple      # cos r = 1 - r^2/2 + r^4 C(r^2)


TRIG = {
    T.f32: Trig((1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),       # sin 2^-27.8, cos 2^-32.7
                (-0.16666653752326965, 0.008332106284797192, -0.0001950788137037307),
                (0.04166664555668831, -0.0013887297827750444, 2.4430086341453716e-05)),
    T.f64: Trig((1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),        # sin 2^-57.7, cos 2^-63.7
                (-0.16666666666666627, 0.008333333333321067, -0.00019841269828696172, 2.7557313297731198e-06,
                 -2.505069532578921e-08, 1.5893103791663349e-10),
                (0.04166666666666658, -0.001388888888887097, 2.4801587287527964e-05, -2.755731379157233e-07,
                 2.087564749235148e-09, -1.1355744220026425e-11)),
}


def reduce_angle(x):
    """(quadrant, r, tail): x = n pi/2 + r + tail; the low bits of `quadrant` are those of n (Cody and Waite)."""
    p1, p2, p3 = TRIG[x.element].half_pi
    magic = FORMATS[x.element].magic
    t = fma(x, TWO_OVER_PI, magic)
    n = t - magic
    first = fma(n, -p1, x)          # exact
    r = fma(n, -p2, first)
    tail = fma(n, -p3, fma(n, -p2, first - r))
    return t.bits, r, tail


def sin_kernel(r, tail):
    """sin(r + tail), |r| <= pi/4."""
    z = r * r
    return r + fma(r * z, poly(z, TRIG[r.element].sin), tail)


def cos_kernel(r, tail):
    """cos(r + tail), |r| <= pi/4."""
    z = r * r
    half = z * 0.5
    whole = 1.0 - half
    rest = (1.0 - whole) - half     # what 1 - r^2/2 rounded away
    return whole + (rest + fma(z * z, poly(z, TRIG[r.element].cos), -(r * tail)))


def in_quadrant(quadrant, s, c):
    """sin(x) from its quadrant and the kernels' values there."""
    y = where((quadrant & 1) == 0, s, c)
    flip = (quadrant & 2) << (y.element.bits - 2)
    return (y.bits ^ flip).bitcast(y.element)


@expands("sin")
def sin(x):
    """Sine of x radians."""
    quadrant, r, tail = reduce_angle(x)
    return where(x == 0.0, x, in_quadrant(quadrant, sin_kernel(r, tail), cos_kernel(r, tail)))


@expands("cos")
def cos(x):
    """Cosine of x radians: the sine one quadrant on."""
    quadrant, r, tail = reduce_angle(x)
    return in_quadrant(quadrant + 1, sin_kernel(r, tail), cos_kernel(r, tail))
