"""Every op of the tile IR. Names that are Python keywords or builtins end in an underscore (`ops.and_`, `ops.max_`)."""

# ruff: noqa: I001
from ..ir.opdef import KINDS
from .casts import addptr, bitcast, cast, select
from .control import (assert_, assume, barrier, call, clock, constant, for_, hint, if_, num_programs, print_,
                      program_id, while_, yield_)
from .dot import dot
from .elementwise import (ROWS, abs_, add, and_, brev, ceil, clz, copysign, cos, div, eq, erf, exp, exp2, floor, fma,
                          ge, gt, le, log, log2, lt, max_, max_nan, min_, min_nan, mul, mulhi, ne, or_, popc, rem,
                          rint, round_, rsqrt, shl, shr, sin, sqrt, sub, tanh, trunc, xor)
from .memory import ATOMICS, atomic, atomic_cas, load, store
from .rare import rare
from .reduce import inline_asm, map_, reduce, scan
from .shape import (arange, broadcast, cat, expand_dims, extract, gather, histogram, insert, join, reshape, sort,
                    splat, split, trans)
from .special import SPECIAL

__all__ = [name for name, value in list(globals().items()) if type(value).__name__ == "OpKind"] \
    + ["KINDS", "ROWS", "SPECIAL", "ATOMICS"]
