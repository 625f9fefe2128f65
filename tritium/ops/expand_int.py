"""Integer rows over simpler ones."""

from __future__ import annotations

from ..ir import types as T
from .expression import expands, where

DOUBLE = {T.i32: T.i64, T.u32: T.u64}


@expands("abs")
def abs_int(x):
    """What has no sign is itself."""
    return x


@expands("mulhi")
def mulhi(x, y):
    """High half of the product: through twice the width, or by 32-bit halves."""
    if x.element.bits == 32:
        wide = DOUBLE[x.element]
        return ((x.cast(wide) * y.cast(wide)) >> 32).cast(x.element)
    a, b = x.cast(T.u64), y.cast(T.u64)
    a0, a1, b0, b1 = a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32
    cross = a1 * b0 + (a0 * b0 >> 32)
    high = a1 * b1 + (cross >> 32) + (a0 * b1 + (cross & 0xFFFFFFFF) >> 32)
    if x.element.signed:  # the unsigned product minus what the sign bits added
        high = high - where(x < 0, b, 0) - where(y < 0, a, 0)
    return high.cast(x.element)
