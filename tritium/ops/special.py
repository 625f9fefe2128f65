"""The rows of the device library: functions beyond the common ones, for f32 and f64.

They stand in a table of their own, SPECIAL. No target has an instruction for them all; `expand_*.py` writes each over
simple rows. The NumPy meanings are references by other roads (special_meaning.py).
"""

from __future__ import annotations

import math

from ..ir import types as T
from ..later import functions as N
from ..later import np
from . import meaning as M
from . import special_meaning as S
from .elementwise import WIDE, row

SPECIAL: dict = {}


def _row(name, arity, fn, doc, accepts=WIDE, llvm=None, **rest):
    return row(name, arity, accepts, fn, llvm or {}, doc, table=SPECIAL, cost="slow", **rest)


def _vector(name, fn, doc, arity=1):
    """A row whose meaning NumPy has, in float64."""
    return _row(name, arity, M.through_f64(fn), doc)


def _scalar(name, fn, doc, arity=1, **rest):
    """A row whose meaning is a function of Python floats."""
    return _row(name, arity, M.through_f64(M.of_floats(fn)), doc, **rest)


# --- exponentials, logarithms, powers, roots --------------------------------------------------------------------------
exp10 = _vector("exp10", lambda x: np.power(10.0, x), "10 to the power x.")
expm1 = _vector("expm1", N.expm1, "e to the power x, minus 1.")
log10 = _vector("log10", N.log10, "Logarithm to base 10.")
log1p = _vector("log1p", N.log1p, "Natural logarithm of 1 + x.")
pow_ = _vector("pow", N.float_power, "x to the power y.", 2)  # N.power takes a root for 0.5: sqrt(-0.0) is -0.0
cbrt = _scalar("cbrt", S.cbrt, "Cube root.")
rcbrt = _scalar("rcbrt", S.reciprocal_cbrt, "Reciprocal cube root.")
rsqrt_rn = _row("rsqrt_rn", 1, S.reciprocal_root, "Reciprocal square root, rounded once.", accepts=(T.f32,))
hypot = _scalar("hypot", S.norm, "Square root of x*x + y*y, without overflow between.", 2)
rhypot = _scalar("rhypot", S.reciprocal_norm, "1 / hypot.", 2)
norm3d = _scalar("norm3d", S.norm, "Length of a vector of three.", 3)
rnorm3d = _scalar("rnorm3d", S.reciprocal_norm, "1 / norm3d.", 3)
norm4d = _scalar("norm4d", S.norm, "Length of a vector of four.", 4)
rnorm4d = _scalar("rnorm4d", S.reciprocal_norm, "1 / norm4d.", 4)

# --- angles -----------------------------------------------------------------------------------------------------------
tan = _vector("tan", N.tan, "Tangent of x radians.")
sinpi = _scalar("sinpi", S.sinpi, "Sine of x half turns.")
cospi = _scalar("cospi", S.cospi, "Cosine of x half turns.")
asin = _vector("asin", N.arcsin, "Inverse sine.")
acos = _vector("acos", N.arccos, "Inverse cosine.")
atan = _vector("atan", N.arctan, "Inverse tangent.")
atan2 = _vector("atan2", N.arctan2, "Angle of the point (y, x): operands y, x.", 2)
sinh = _vector("sinh", N.sinh, "Hyperbolic sine.")
cosh = _vector("cosh", N.cosh, "Hyperbolic cosine.")
asinh = _vector("asinh", N.arcsinh, "Inverse hyperbolic sine.")
acosh = _vector("acosh", N.arccosh, "Inverse hyperbolic cosine.")
atanh = _vector("atanh", N.arctanh, "Inverse hyperbolic tangent.")

# --- error functions, gamma, Bessel -----------------------------------------------------------------------------------
erfc = _scalar("erfc", math.erfc, "1 - erf(x).")
erfcx = _scalar("erfcx", S.erfcx, "exp(x*x) * erfc(x).")
erfinv = _scalar("erfinv", S.erfinv, "Inverse of erf.")
erfcinv = _scalar("erfcinv", S.erfcinv, "Inverse of erfc.")
normcdf = _scalar("normcdf", S.normcdf, "Distribution function of the normal distribution.")
normcdfinv = _scalar("normcdfinv", S.normcdfinv, "Inverse of normcdf.")
lgamma = _scalar("lgamma", S.lgamma, "Logarithm of |gamma(x)|.")
tgamma = _scalar("tgamma", S.tgamma, "Gamma function.")
j0 = _scalar("j0", lambda x: S.jn(0, x), "Bessel function of the first kind, order 0.")
j1 = _scalar("j1", lambda x: S.jn(1, x), "Bessel function of the first kind, order 1.")
y0 = _scalar("y0", lambda x: S.yn(0, x), "Bessel function of the second kind, order 0.")
y1 = _scalar("y1", lambda x: S.yn(1, x), "Bessel function of the second kind, order 1.")
cyl_bessel_i0 = _scalar("cyl_bessel_i0", S.cyl_bessel_i(0), "Modified Bessel function of the first kind, order 0.")
cyl_bessel_i1 = _scalar("cyl_bessel_i1", S.cyl_bessel_i(1), "Modified Bessel function of the first kind, order 1.")


def _of_order(fn):
    """An order and a float: the result has the float's type."""
    wide = M.of_floats(fn)
    return lambda n, x: wide(n, x.astype(np.float64)).astype(x.dtype)


ORDER = ((T.i32, T.f32, T.f32), (T.i32, T.f64, T.f64))
jn = _row("jn", 2, _of_order(S.jn), "Bessel function of the first kind: order, x.", accepts=(), signature=ORDER)
yn = _row("yn", 2, _of_order(S.yn), "Bessel function of the second kind: order, x.", accepts=(), signature=ORDER)

# --- parts of floats --------------------------------------------------------------------------------------------------
EXPONENT = ((T.f32, T.i32, T.f32), (T.f64, T.i32, T.f64))
ldexp = _row("ldexp", 2, N.ldexp, "x times 2 to the power n.", accepts=(), signature=EXPONENT)
scalbn = _row("scalbn", 2, N.ldexp, "x times 2 to the power n.", accepts=(), signature=EXPONENT)
logb = _row("logb", 1, S.logb, "Exponent of x as a float; -inf for 0.")
nextafter = _row("nextafter", 2, N.nextafter, "The float next to x in the direction of y.")
remainder = _scalar("remainder", S.ieee_remainder, "x - y * n for the integer n nearest to x / y.", 2)

# --- arithmetic rounded in a direction --------------------------------------------------------------------------------
ARITHMETIC = {
    "add": (2, S.exact_add, N.add, "x + y"),
    "sub": (2, S.exact_sub, N.subtract, "x - y"),
    "mul": (2, lambda x, y: x * y, N.multiply, "x * y"),
    "div": (2, lambda x, y: x / y, N.divide, "x / y"),
    "fma": (3, S.exact_fma, S.fma_of, "x * y + z"),
    "sqrt": (1, S.exact_root, S.sqrt_of, "Square root of x"),
}
SPELLED = {"div_rn": {"float": "fdiv"}, "sqrt_rn": {"float": "@llvm.sqrt"}}   # also where plain div is approximate
MODES = {"rn": "to nearest", "rz": "towards zero", "rd": "down", "ru": "up"}
for _name, (_arity, _exact, _plain, _doc) in ARITHMETIC.items():
    for _mode, _how in MODES.items():
        if (_name, _mode) == ("fma", "rn"):
            continue    # that is the row fma
        _meaning = M.quiet(_plain) if _mode == "rn" else S.directed(_exact, _mode, M.quiet(_plain))
        globals()[f"{_name}_{_mode}"] = _row(f"{_name}_{_mode}", _arity, _meaning, f"{_doc}, rounded {_how}.",
                                             llvm=SPELLED.get(f"{_name}_{_mode}"))

# --- conversions rounded in a direction -------------------------------------------------------------------------------
CONVERSIONS = {
    "int2float": (T.i32, T.f32), "uint2float": (T.u32, T.f32), "ll2float": (T.i64, T.f32), "ull2float": (T.u64, T.f32),
    "ll2double": (T.i64, T.f64), "ull2double": (T.u64, T.f64), "double2float": (T.f64, T.f32),
}
for _name, (_from, _to) in CONVERSIONS.items():
    for _mode in ("rz", "rd", "ru"):
        _meaning = S.directed(lambda x: x, _mode, lambda x: x, type_=_to)
        globals()[f"{_name}_{_mode}"] = _row(f"{_name}_{_mode}", 1, _meaning, f"{_from} to {_to}, {MODES[_mode]}.",
                                             accepts=(), signature=((_from, _to),))
