"""S20: programs that meet in memory: sum, stream compaction, histogram."""

import numpy as np
import pytest

from tritium.kernels import compaction, histogram, summation

SIZES = [1, 7, 1000, 4096, 100_000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("programs", [1, 3, None])
def test_sum(arrays, rng, n, programs):
    x = rng.standard_normal(n, dtype=np.float32)
    got = arrays.back(summation.sum_of(arrays.of(x), programs=programs))
    np.testing.assert_allclose(got, summation.reference(x.astype(np.float64)), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("n", SIZES)
def test_compact(arrays, rng, n):
    x = rng.standard_normal(n, dtype=np.float32)
    values, indices = map(arrays.back, compaction.compact(arrays.of(x), 0.25))
    expected_values, expected_indices = compaction.reference(x, 0.25)
    order = np.argsort(indices)
    assert np.array_equal(indices[order], expected_indices)
    assert np.array_equal(values[order], expected_values.astype(np.float64))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("shift, bits", [(0, 8), (4, 4), (16, 6)])
def test_histogram(arrays, rng, n, dtype, shift, bits):
    keys = rng.integers(0, 2**24, n).astype(dtype)
    got = arrays.back(histogram.digit_histogram(arrays.of(keys), shift, bits))
    assert np.array_equal(got, histogram.reference(keys, shift, bits)) and got.sum() == n
