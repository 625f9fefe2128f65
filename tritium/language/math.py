"""`tl.math`: the mathematical functions that are builtins. Many more are in `tl.extra.libdevice`."""

from .builtins.elementwise import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)

__all__ = ["abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt", "sin",
           "sqrt", "sqrt_rn", "umulhi"]  # fmt: skip
