"""S24, S25: convolution, max pooling, transposition by tiles."""

import numpy as np
import pytest

from tritium.kernels import conv2d, max_pool, transpose


@pytest.mark.parametrize("shape", [(3, 3), (40, 133), (2, 3, 17, 300)])
@pytest.mark.parametrize("taps", [(3, 3), (1, 2)])
def test_filter2d(arrays, rng, shape, taps):
    x, weight = rng.standard_normal(shape, dtype=np.float32), rng.standard_normal(taps, dtype=np.float32)
    got = arrays.back(conv2d.filter2d(arrays.of(x), arrays.of(weight)))
    np.testing.assert_allclose(got, conv2d.reference_filter(x.astype(np.float64), weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("images, channels, size, filters, taps", [
    (1, 1, (3, 3), 1, (3, 3)), (2, 3, (13, 17), 5, (3, 3)), (1, 8, (20, 9), 33, (1, 1)), (2, 4, (8, 8), 2, (5, 2))])
@pytest.mark.parametrize("step, pad", [(1, 0), (2, 1)])
def test_conv2d(arrays, rng, images, channels, size, filters, taps, step, pad):
    x = rng.standard_normal((images, channels, *size), dtype=np.float32)
    weight = rng.standard_normal((filters, channels, *taps), dtype=np.float32)
    got = arrays.back(conv2d.conv2d(arrays.of(x), arrays.of(weight), step, pad))
    expected = conv2d.reference(x.astype(np.float64), weight, step, pad)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_conv2d_channels():
    with pytest.raises(ValueError, match=r"weight has the shape \(1, 2, 3, 3\), that is C = 2"):
        conv2d.conv2d(np.zeros((1, 3, 4, 4), np.float32), np.zeros((1, 2, 3, 3), np.float32))


@pytest.mark.parametrize("shape", [(4, 4), (33, 70), (2, 3, 20, 130)])
@pytest.mark.parametrize("window, step, pad", [(3, 2, 0), (2, 2, 0), (3, 1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_max_pool(arrays, rng, shape, window, step, pad, dtype):
    x = arrays.of(rng.standard_normal(shape, dtype=np.float32) - 5, dtype)
    got = arrays.back(max_pool.max_pool(x, window, step, pad))
    assert np.array_equal(got, max_pool.reference(arrays.back(x), window, step, pad))


@pytest.mark.parametrize("shape", [(1, 1), (64, 64), (5, 200), (130, 67)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_transpose(arrays, rng, shape, dtype):
    x = arrays.of(rng.integers(-100, 100, shape), dtype)
    assert np.array_equal(arrays.back(transpose.transpose(x)), arrays.back(x).T)
    assert np.array_equal(arrays.back(transpose.transpose(x.T)), arrays.back(x))
