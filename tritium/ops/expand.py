"""EXPAND: every row that targets may lack, written once over simple rows.

Simple rows are add, sub, mul, div, fma, sqrt, rounding, comparison, select, bits, casts: what every target has. The
functions stand by theme in expand_*.py; `EXPAND[kind](b, op, *values)` emits one and returns its value.
"""

from . import (  # noqa: F401
    expand_bessel,
    expand_erf,
    expand_exp,
    expand_gamma,
    expand_hyperbolic,
    expand_int,
    expand_inverse,
    expand_parts,
    expand_pow,
    expand_root,
    expand_rounding,
    expand_trig,
)
from .expression import EXPAND

__all__ = ["EXPAND"]
