"""Data whose products are exact."""

import numpy as np

rng = np.random.default_rng(11)


def data(dtype, *shape):
    """Small whole numbers: their products and sums are exact."""
    return np.round(2 * rng.standard_normal(shape)).astype(dtype)
