"""Bounds of integers that are computed through floats: every value lies within, and not far within."""

import ml_dtypes
import numpy as np
import pytest

from tritium.ir.bounds import bounds

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale, shift", [(0.5, -0.25), (1 / 3, 0.1), (-1.7, 2.0), (0.1, 1e-8)])
@pytest.mark.parametrize("low, high", [(0, 63), (-100, 7), (5, 5)])
def test_truncated_floats(dtype, scale, shift, low, high):
    rows = [("between", "i32", low, high), ("cast", dtype, 0), ("constant", dtype, scale), ("mul", dtype, 1, 2),
            ("constant", dtype, shift), ("add", dtype, 3, 4), ("constant", dtype, 0.0), ("max", dtype, 5, 6),
            ("select", dtype, 5, 7), ("sub", dtype, 8, 6), ("truncated", "i32", 9)]  # fmt: skip
    t = DTYPES[dtype]
    x = np.arange(low, high + 1).astype(t) * t(scale) + t(shift)
    x = np.concatenate([x, np.maximum(x, t(0))]).astype(np.float64)
    least, most = bounds(rows)
    assert least <= np.trunc(x).min() and np.trunc(x).max() <= most
    assert most - least <= (x.max() - x.min()) * 1.1 + 2


@pytest.mark.parametrize("rows", [
    [("any", "f32")], [("constant", "f32", 3e38)], [("constant", "f32", 1e30), ("mul", "f32", 0, 0)],
    [("any", "f32"), ("constant", "f32", 0.0), ("mul", "f32", 0, 1)], [("any", "i64"), ("cast", "f16", 0)],
    [("any", "f32"), ("constant", "f32", 1.0), ("max", "f32", 0, 1)], [("constant", "f32", 1e10)],
])  # fmt: skip
def test_what_may_be_anything(rows):
    """A float that may be NaN, or leaves its type or the integer's, is any integer."""
    assert bounds([*rows, ("truncated", "i32", len(rows) - 1)]) == (-(2**31), 2**31 - 1)
