"""Data whose products are exact, and how results are compared."""

import ml_dtypes
import numpy as np

rng = np.random.default_rng(11)
WARPS = [1, 4, 32]  # numbers of warps that every movement between threads is tried with


def data(dtype, *shape):
    """Small whole numbers: their products and sums are exact."""
    return np.round(2 * rng.standard_normal(shape)).astype(dtype)


def numbers(dtype, *shape):
    """As `data` for floats, so that sums are exact in any order; integers of all sizes, and bits."""
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    if np.dtype(dtype) == bool:
        return rng.integers(0, 2, shape).astype(bool)
    return data(dtype, *shape)


def agree(theirs, mine, tolerance=0.0):
    """Equal integers; floats as close as fast division, exponentials and atomics in any order allow."""
    for k, (x, y) in enumerate(zip(theirs, mine, strict=True)):
        if isinstance(x, np.ndarray):
            if x.dtype.kind in "iub":
                np.testing.assert_array_equal(y, x, err_msg=f"argument {k}")
            else:
                loose = max(tolerance, 16 * float(ml_dtypes.finfo(x.dtype).eps))
                np.testing.assert_allclose(
                    y.astype(np.float64), x.astype(np.float64), rtol=loose, atol=loose, err_msg=f"argument {k}"
                )
