"""S23, S27: matrix products of every kind, and the fused MLP."""

import numpy as np
import pytest

import tritium as triton
from tritium.kernels import fused_mlp, grouped_matmul, matmul, persistent_matmul

SHAPES = [(1, 1, 1), (64, 64, 64), (33, 65, 17), (100, 40, 200), (128, 128, 256)]
WAYS = {
    "plain": lambda a, b, **kw: matmul.matmul_plain(a, b, precision="ieee", blocks=(32, 32, 32), **kw),
    "grouped": lambda a, b, **kw: matmul.matmul(a, b, precision="ieee", blocks=(32, 64, 32), group=2, **kw),
    "persistent": lambda a, b: persistent_matmul.persistent_matmul(a, b, blocks=(32, 32, 32)),
}


def inputs(arrays, rng, shape, dtype="float32"):
    M, N, K = shape
    return (arrays.of(rng.standard_normal((M, K), dtype=np.float32), dtype),
            arrays.of(rng.standard_normal((K, N), dtype=np.float32), dtype))


def check(arrays, got, a, b, tolerance):
    expected = arrays.back(a) @ arrays.back(b)
    limit = np.sqrt(a.shape[1]) * tolerance
    np.testing.assert_allclose(arrays.back(got), expected, rtol=tolerance, atol=limit)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_float32(arrays, rng, shape, way):
    a, b = inputs(arrays, rng, shape)
    check(arrays, WAYS[way](a, b), a, b, 1e-5)


@pytest.mark.parametrize("dtype, tolerance", [("float16", 2e-3), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 65, 17)])
@pytest.mark.parametrize("way", WAYS)
def test_half_precision(arrays, rng, shape, dtype, tolerance, way):
    a, b = inputs(arrays, rng, shape, dtype)
    check(arrays, WAYS[way](a, b), a, b, tolerance)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8(arrays, rng, dtype):
    a, b = inputs(arrays, rng, (64, 96, 128), dtype)
    check(arrays, matmul.matmul(a, b, out_dtype="float32"), a, b, 1e-2)
    assert "float16" in str(matmul.matmul(a, b).dtype)


def test_tf32_is_close(arrays, rng):
    a, b = inputs(arrays, rng, (64, 64, 128))
    check(arrays, matmul.matmul(a, b, precision="tf32"), a, b, 5e-3)


@pytest.mark.parametrize("way", WAYS)
def test_any_strides(arrays, rng, way):
    a, b = inputs(arrays, rng, (50, 70, 30))
    x = arrays.of(np.ascontiguousarray(arrays.back(a).T.astype(np.float32))).T
    y = arrays.of(np.ascontiguousarray(arrays.back(b).T.astype(np.float32))).T
    check(arrays, WAYS[way](x, y), a, b, 1e-5)
    check(arrays, WAYS[way](a[:, ::2], b[::2]), a[:, ::2], b[::2], 1e-5)


def test_activation(arrays, rng):
    a, b = inputs(arrays, rng, (40, 40, 40))
    got = arrays.back(matmul.matmul(a, b, activation="leaky_relu", precision="ieee"))
    expected = arrays.back(a) @ arrays.back(b)
    np.testing.assert_allclose(got, np.where(expected >= 0, expected, 0.01 * expected), rtol=1e-4, atol=1e-5)


def test_mismatch():
    with pytest.raises(ValueError, match=r"b has the shape \(4, 5\).*K = 4.*K = 3"):
        matmul.matmul(np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32))


def test_tuned(arrays, rng, monkeypatch):
    """S16: real configurations, really timed; two of them, briefly."""
    tuner = triton.autotune(matmul.CONFIGS[3:5], key=["M", "N", "K"],
                            do_bench=lambda fn, quantiles: triton.testing.do_bench(fn, 1, 1, quantiles=quantiles))
    monkeypatch.setattr(matmul, "tuned_kernel", tuner(matmul.grouped_kernel))
    a, b = inputs(arrays, rng, (100, 60, 80))
    for _ in range(2):
        check(arrays, matmul.matmul_tuned(a, b, precision="ieee"), a, b, 1e-5)
    assert len(matmul.tuned_kernel.cache) == 1 and matmul.tuned_kernel.best_config in matmul.CONFIGS[3:5]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float16", 2e-3)])
@pytest.mark.parametrize("programs", [1, 3, None])
def test_grouped_matmul(arrays, rng, dtype, tolerance, programs):
    pairs = [inputs(arrays, rng, shape, dtype) for shape in [(64, 32, 64), (5, 100, 7), (33, 33, 70)]]
    for got, (a, b) in zip(grouped_matmul.grouped_matmul(pairs, programs), pairs):
        check(arrays, got, a, b, tolerance)


@pytest.mark.parametrize("shape", [(1, 1, 1), (50, 70, 90), (33, 64, 128)])
def test_fused_mlp(arrays, rng, shape):
    M, N, K = shape
    x, weight = rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((N, K), dtype=np.float32)
    gain, bias = rng.standard_normal(K, dtype=np.float32), rng.standard_normal(N, dtype=np.float32)
    got = arrays.back(fused_mlp.fused_mlp(*map(arrays.of, (x, gain, weight, bias))))
    expected = fused_mlp.reference(*(a.astype(np.float64) for a in (x, gain, weight, bias)))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
