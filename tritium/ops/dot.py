"""Matrix multiplication."""

from __future__ import annotations

import numpy as np

from ..ir import types as T
from ..ir.opdef import op
from .meaning import convert, np_dtype


@op("dot", precision="ieee", imprecise=0)
class dot:
    """a @ b + acc: operands (a [.., M, K], b [.., K, N], acc [.., M, N]); the accumulator's type is the result's.

    `precision` names how f32 operands may be multiplied ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"); `imprecise` is
    how many products of 8-bit floats may be summed in reduced precision.
    """

    def infer(a, b, acc, *, precision, imprecise):
        (*batch, m, k), (*batch2, k2, n) = T.shape(a), T.shape(b)
        if batch != batch2 or k != k2 or T.shape(acc) != (*batch, m, n):
            raise TypeError(f"dot: {a} @ {b} + {acc}")
        return acc

    def eval(m, op, a, b, acc):
        wide = np.int64 if op.type.element.is_int else np.float64
        ta, tb = (T.element(x.type) for x in op.operands[:2])
        source = [convert(x, t, T.i64 if t.is_int else T.f64) for x, t in ((a, ta), (b, tb))]
        with np.errstate(all="ignore"):
            return (np.matmul(source[0].astype(wide), source[1].astype(wide)) + acc.astype(wide)) \
                .astype(np_dtype(op.type))
