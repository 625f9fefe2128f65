"""S20, S22: vector add, fused add-ReLU-multiply, SiLU, first column, dropout, Mandelbrot set."""

import numpy as np
import pytest

from tritium.kernels import add_relu_mul, dropout, first_column, mandelbrot, silu, vector_add

SIZES = [1, 7, 128, 1000, 4096, 98432]


@pytest.mark.parametrize("n", SIZES)
def test_vector_add(arrays, rng, n):
    """S01: 98,432 elements are 97 programs of 1024, the last one half masked."""
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    got = arrays.back(vector_add.vector_add(arrays.of(x), arrays.of(y)))
    assert np.array_equal(got, (x + y).astype(np.float64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int64", "int8"])
def test_vector_add_types(arrays, rng, dtype):
    x, y = arrays.of(rng.integers(-8, 8, 515), dtype), arrays.of(rng.integers(-8, 8, 515), dtype)
    assert np.array_equal(arrays.back(vector_add.vector_add(x, y)), arrays.back(x) + arrays.back(y))


def test_nothing_is_written_past_the_end(rng):
    z = np.full(1024, -1.0, np.float32)
    x = rng.standard_normal(1024, dtype=np.float32)
    vector_add.add_kernel[(1,)](x, x, z, 1000, BLOCK=1024)
    assert np.array_equal(z[:1000], x[:1000] * 2) and (z[1000:] == -1).all()


@pytest.mark.parametrize("n", SIZES)
def test_add_relu_mul(arrays, rng, n):
    x, bias = rng.standard_normal((2, n), dtype=np.float32)
    got = arrays.back(add_relu_mul.add_relu_mul(arrays.of(x), arrays.of(bias), 0.75))
    assert np.array_equal(got, add_relu_mul.reference(x, bias, np.float32(0.75)).astype(np.float64))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float16", 1e-3), ("bfloat16", 8e-3)])
def test_silu(arrays, rng, n, dtype, tolerance):
    x = arrays.of(rng.standard_normal(n, dtype=np.float32) * 5, dtype)
    expected = silu.reference(arrays.back(x))
    np.testing.assert_allclose(arrays.back(silu.silu(x)), expected, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (300, 5), (1000, 33)])
def test_first_column(arrays, rng, shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    assert np.array_equal(arrays.back(first_column.first_column(arrays.of(x))), x[:, 0].astype(np.float64))
    view = arrays.of(x.repeat(2, 0))[::2]
    assert np.array_equal(arrays.back(first_column.first_column(view)), x[:, 0].astype(np.float64))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("seed", [0, 123, 2**40 + 5])
def test_dropout(arrays, rng, p, seed):
    x = rng.standard_normal(5000, dtype=np.float32)
    got = arrays.back(dropout.dropout(arrays.of(x), p, seed))
    expected = dropout.reference(x.astype(np.float64), p, seed)
    assert np.array_equal(got == 0, expected == 0)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert abs((got == 0).mean() - p) < 0.03


def test_dropout_seeds_differ():
    x = np.ones(1000, np.float32)
    assert (dropout.dropout(x, 0.5, 1) != dropout.dropout(x, 0.5, 2)).any()


@pytest.mark.parametrize("size", [(3, 3), (100, 37), (64, 20)])
def test_mandelbrot(arrays, size):
    got = arrays.back(mandelbrot.mandelbrot(*size, like=arrays.of(np.zeros(1, np.float32)), limit=50))
    assert np.array_equal(got, mandelbrot.reference(*size, limit=50))
    assert got.max() == 50 and got.min() < 5
