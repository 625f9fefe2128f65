"""Arithmetic and conversions rounded in a direction, over rows that round to nearest.

The nearest result and the sign of what it missed decide whether to step to its neighbour. In f32 the exact result is at
hand in f64; in f64 the error comes from two-word arithmetic, on scaled operands where it would underflow.
"""

from __future__ import annotations

from ..ir import types as T
from .double_word import product, two_product, two_sum
from .expand_exp import INF
from .expand_parts import next_down, next_up
from .expression import expands, fma, sqrt, where


# --- stepping ---------------------------------------------------------------------------------------------------------
def step(y, error, mode, finite):
    """y, or its neighbour in the direction of rounding.

    `error` has the sign of (exact - y); `finite` tells whether the exact result is.
    """
    error = where(finite, where(y == INF, -1.0, where(y == -INF, 1.0, error)), 0.0)
    if mode == "ru":
        return where(error > 0.0, next_up(y), y)
    if mode == "rd":
        return where(error < 0.0, next_down(y), y)
    inward = ((y > 0.0) & (error < 0.0)) | ((y < 0.0) & (error > 0.0))
    return where(inward, (y.bits - 1).bitcast(y.element), y)


def all_finite(*xs):
    """True where every operand is finite."""
    ok = abs(xs[0]) < INF
    for x in xs[1:]:
        ok = ok & (abs(x) < INF)
    return ok


def from_f64(high, low, mode, finite):
    """f64 pair to f32, rounded in a direction."""
    y = high.cast(T.f32)
    missed = high - y.cast(T.f64)
    # a tiny `low` must keep its sign on the way to f32
    error = where(missed != 0.0, missed, low)
    error = where(error > 0.0, y.const(1.0), where(error < 0.0, y.const(-1.0), 0.0))
    return step(y, error, mode, finite)


# --- arithmetic: (nearest, error) in f64 ------------------------------------------------------------------------------
def add_error(x, y):
    return two_sum(x, y)


def mul_error(x, y):
    """Where the product is tiny, the error of the product scaled up."""
    near = product(x, y)
    tiny = abs(near) < 2.0**-800
    up = where(tiny, x.const(2.0**540), 1.0)
    high, low = two_product(x * up, y * up)
    return near, where(tiny, (high - near * up * up) + low, fma(x, y, -near))


def div_error(x, y):
    """The remainder, on operands scaled up if the dividend is tiny."""
    near = x / y
    up = where((abs(x) < 2.0**-900) & (abs(y) < 2.0**800), x.const(2.0**200), 1.0)
    rest = fma(-near, y * up, x * up)
    return near, where(y < 0.0, -rest, rest)


def fma_error(x, y, z):
    """The exact error of an fma in two words, of which the first decides (Boldo and Muller).

    A tiny product is scaled up, and z with it; if z is too large for that, the product's sign is the error's.
    """
    near = fma(x, y, z)
    tiny = (abs(x * y) < 2.0**-900) & (x != 0.0) & (y != 0.0)
    up = where(tiny, x.const(2.0**540), 1.0)
    u1, u2 = two_product(x * up, y * up)
    alone = tiny & (abs(z) > 2.0**-600)
    scaled_z, scaled_near = (where(alone, 0.0, v * up * up) for v in (z, near))
    a1, a2 = two_sum(scaled_z, u2)
    b1, b2 = two_sum(u1, a1)
    return near, ((b1 - scaled_near) + b2) + a2


def sqrt_error(x):
    """An approximate root and what its square lacks, scaled up where it would be lost among subnormals."""
    near = sqrt(x)
    tiny = x < 2.0**-900
    up, half_up = where(tiny, x.const(2.0**200), 1.0), where(tiny, x.const(2.0**100), 1.0)
    return near, fma(-(near * half_up), near * half_up, x * up)


def exact_product(x, y):
    """The product of two f32 in f64."""
    return x * y, x.const(0.0)


ERRORS = {"add": add_error, "sub": lambda x, y: two_sum(x, -y), "mul": mul_error, "div": div_error, "fma": fma_error,
          "sqrt": sqrt_error}
IN_F64 = {**ERRORS, "mul": exact_product, "fma": lambda x, y, z: two_sum(product(x, y), z)}


def _directed(name, mode):
    @expands(f"{name}_{mode}")
    def run(*xs):
        finite = all_finite(*xs)
        if name == "div":
            finite = finite & (xs[1] != 0.0)
        if xs[0].element is T.f32:
            near, error = IN_F64[name](*[x.cast(T.f64) for x in xs])
            y = from_f64(near, error, mode, finite)
        else:
            near, error = ERRORS[name](*xs)
            y = step(near, error, mode, finite)
        cancels = mode == "rd" and name in ("add", "sub", "fma")
        return cancelled(name, xs, y, (near == 0.0) & (error == 0.0)) if cancels else y
    return run


def cancelled(name, xs, y, zero):
    """Rounding down, what cancels is -0; only sums of positive zeros are 0."""
    if name == "fma":
        first, second = (xs[0].bits ^ xs[1].bits), xs[2].bits
    else:
        first, second = xs[0].bits, xs[1].bits
        second = ~second if name == "sub" else second
    positive = (first >= 0) & (second >= 0)
    return where(zero & ~positive, -0.0, y)


for _name in ERRORS:
    for _mode in ("rz", "rd", "ru"):
        _directed(_name, _mode)


# --- rounded to nearest, and kept apart from their neighbours: an fma is not contracted -------------------------------
@expands("add_rn")
def add_rn(x, y):
    return fma(x, 1.0, y)


@expands("sub_rn")
def sub_rn(x, y):
    return fma(y, -1.0, x)


@expands("mul_rn")
def mul_rn(x, y):
    return product(x, y)


# --- conversions ------------------------------------------------------------------------------------------------------
def _from_int(name, to, mode):
    @expands(f"{name}_{mode}")
    def run(x):
        y = x.cast(to)
        if x.element.bits == 32:
            missed = x.cast(T.f64) - y.cast(T.f64)
            above, below = missed < 0.0, missed > 0.0
        else:
            back = y.cast(x.element)    # saturates where y is the power of two above all integers
            above = (back > x) | (y >= 2.0 ** (63 if x.element.signed else 64))
            below = back < x
        error = where(above, y.const(-1.0), where(below, y.const(1.0), 0.0))
        return step(y, error, mode, y == y)
    return run


for _name, _to in (("int2float", T.f32), ("uint2float", T.f32), ("ll2float", T.f32), ("ull2float", T.f32),
                   ("ll2double", T.f64), ("ull2double", T.f64)):
    for _mode in ("rz", "rd", "ru"):
        _from_int(_name, _to, _mode)


def _from_double(mode):
    @expands(f"double2float_{mode}")
    def run(x):
        return from_f64(x, x.const(0.0), mode, abs(x) < INF)
    return run


for _mode in ("rz", "rd", "ru"):
    _from_double(_mode)
