"""The values that the rows of the coverage table are computed on, by name: arrays, and two scalars.

A row's kernel gets those whose names its text mentions. `x` is the tile, `x_ptr` a pointer to a fresh copy of it.
"""

import ml_dtypes
import numpy as np

_rng = np.random.default_rng(11)


def _floats(dtype, low, high, *shape):
    return _rng.uniform(low, high, shape or (16,)).astype(dtype)


def _ints(dtype, low, high, *shape):
    return _rng.integers(low, high, shape or (16,)).astype(dtype)


POOL = {
    # float32: any sign, positive, within (-1, 1), above 1
    "x": _floats("f4", -4, 4), "y": _floats("f4", -4, 4), "z": _floats("f4", -4, 4),
    "p": _floats("f4", 0.1, 6), "q": _floats("f4", -0.95, 0.95), "r": _floats("f4", 1.05, 6),
    "w": np.where(np.arange(16) % 5 == 0, np.nan, _floats("f4", -4, 4)).astype("f4"),  # with nans
    # float64, float16, bfloat16
    "dx": _floats("f8", -4, 4), "dy": _floats("f8", -4, 4), "dz": _floats("f8", -4, 4),
    "dp": _floats("f8", 0.1, 6), "dq": _floats("f8", -0.95, 0.95), "dr": _floats("f8", 1.05, 6),
    "hx": _floats("f2", -4, 4), "hy": _floats("f2", -4, 4),
    "bx": _floats(ml_dtypes.bfloat16, -4, 4), "by": _floats(ml_dtypes.bfloat16, -4, 4),
    # integers; n* are not negative, o* between 0 and 15
    "i": _ints("i4", -1000, 1000), "j": _ints("i4", 1, 9), "ni": _ints("i4", 0, 1 << 20), "oi": _ints("i4", 0, 16),
    "u": _ints("u4", 0, 1 << 32), "v": _ints("u4", 0, 1 << 32),
    "l": _ints("i8", -(1 << 62), 1 << 62), "k": _ints("i8", -(1 << 62), 1 << 62),
    "lu": _ints("u8", 0, 1 << 62) * 4 + 1, "ku": _ints("u8", 0, 1 << 62) * 4 + 3,
    "i8": _ints("i1", -128, 128), "u8": _ints("u1", 0, 256), "i16": _ints("i2", -999, 999), "u16": _ints("u2", 0, 9999),
    "c": _ints("i4", 0, 2).astype(bool), "e": _ints("i4", 0, 2).astype(bool),
    # matrices
    "m": _floats("f4", -4, 4, 4, 8), "n": _floats("f4", -4, 4, 4, 8), "mi": _ints("i4", -50, 50, 4, 8),
    "mu": _ints("u1", 0, 256, 4, 8), "mc": _ints("i4", 0, 2, 4, 8).astype(bool), "mo": _ints("i4", 0, 8, 4, 8),
    "mh": _floats("f2", -4, 4, 4, 8), "mb": _floats(ml_dtypes.bfloat16, -4, 4, 4, 8),
    "t3": _floats("f4", -4, 4, 2, 4, 2),
    # factors of products
    "A": _floats("f2", -1, 1, 16, 32), "B": _floats("f2", -1, 1, 32, 16), "C": _floats("f4", -1, 1, 16, 16),
    "AF": _floats("f4", -1, 1, 16, 32), "BF": _floats("f4", -1, 1, 32, 16),
    "AI": _ints("i1", -128, 128, 16, 32), "BI": _ints("i1", -128, 128, 32, 16),
    "A3": _floats("f2", -1, 1, 2, 16, 16), "B3": _floats("f2", -1, 1, 2, 16, 16),
    "AS": _ints("u1", 0, 256, 16, 32), "BS": _ints("u1", 0, 256, 32, 16),
    "SA": _ints("u1", 120, 134, 16, 2), "SB": _ints("u1", 120, 134, 16, 2),
    # scalars
    "s": 2.5, "t": 3,
}
