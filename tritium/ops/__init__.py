"""Every op of the tile IR. Names that are Python keywords or builtins end in an underscore (`ops.and_`, `ops.max_`)."""

# ruff: noqa: I001, F403, F405
from ..ir.opdef import KINDS
from .casts import *
from .checks import *
from .control import *
from .dot import *
from .elementwise import (ROWS, abs_, add, and_, brev, ceil, clz, copysign, cos, div, eq, erf, exp, exp2, floor, fma,
                          ge, gt, le, log, log2, lt, max_, max_nan, min_, min_nan, mul, mulhi, ne, or_, popc, rem,
                          rint, round_, rsqrt, shl, shr, sin, sqrt, sub, tanh, trunc, xor)
from .memory import *
from .rare import *
from .reduce import *
from .shape import *
from .special import SPECIAL

__all__ = [name for name, value in list(globals().items()) if type(value).__name__ == "OpKind"] \
    + ["KINDS", "ROWS", "SPECIAL", "ATOMICS"]
