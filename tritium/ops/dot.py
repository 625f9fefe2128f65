"""Matrix multiplication."""

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import op
from ..later import np
from .meaning import convert

__all__ = ["dot"]


@op("dot", traits=("mma",), precision="ieee", imprecise=0, formats=None)
class dot:
    """a @ b + acc: operands (a [.., M, K], b [.., K, N], acc [.., M, N]); the accumulator's type is the result's.

    `precision` names how f32 operands may be multiplied ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"); `imprecise` is
    how many products of 8-bit floats may be summed in reduced precision.

    Further operands are what block-scaled operands were made from: (a [M, K], b [K, N], scales of a [M, G], scales of b
    [N, G]), in `formats` (of a, of b). They say the same again, for targets that multiply them as they are.
    """

    def infer(a, b, acc, *scaled, precision, imprecise, formats):
        (*batch, m, k), (*batch2, k2, n) = T.shape(a), T.shape(b)
        if batch != batch2 or k != k2 or T.shape(acc) != (*batch, m, n):
            raise TypeError(f"dot: {a} @ {b} + {acc}")
        return acc

    def eval(m, op, a, b, acc, *scaled):
        wide = T.i64 if op.type.element.is_int else T.f64
        with np.errstate(all="ignore"):
            a, b, acc = (np.asarray(convert(x, T.element(v.type), wide)) for x, v in zip((a, b, acc), op.operands))
            return np.asarray(convert(np.matmul(a, b) + acc, wide, op.type.element))
