"""Gradients: along random directions, a backward pass agrees with differences of the forward pass in float64."""

import numpy as np
import pytest

from tritium.kernels import attention, dropout, layer_norm
from tritium.kernels.registry import as_float64

pytestmark = pytest.mark.sampled

STEP = 1e-5


def check(forward, inputs, gradients, dout, rng, tolerance):
    """d/dt of sum(forward(inputs + t * directions) * dout) at 0, against the sum of gradients * directions."""
    wide = [as_float64(x) for x in inputs]
    for i, gradient in enumerate(map(as_float64, gradients)):
        assert gradient.shape == wide[i].shape
        for _ in range(3):
            direction = rng.standard_normal(wide[i].shape)
            ahead, behind = (forward(*wide[:i], wide[i] + t * direction, *wide[i + 1:]) for t in (STEP, -STEP))
            expected = ((ahead - behind) * as_float64(dout)).sum() / (2 * STEP)
            size = np.sqrt((gradient**2).sum() * (direction**2).sum()) + 1e-12
            assert abs((gradient * direction).sum() - expected) <= tolerance * size, i


DTYPES = [("float32", 1e-4), ("float16", 1e-2), ("bfloat16", 5e-2)]


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("shape", [(2, 5), (5, 33), (40, 128)])
def test_layer_norm(arrays, rng, shape, dtype, tolerance):
    x, dout = (arrays.of(rng.standard_normal(shape).astype(np.float32), dtype) for _ in range(2))
    weight, bias = (arrays.of(rng.standard_normal(shape[1]).astype(np.float32), dtype) for _ in range(2))
    _, mean, rstd = layer_norm.layer_norm(x, weight, bias)
    gradients = layer_norm.layer_norm_backward(dout, x, weight, mean, rstd, groups=4)
    check(layer_norm.reference, (x, weight, bias), gradients, dout, rng, tolerance)


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (1000,), (7, 9)])
def test_dropout(arrays, rng, shape, dtype, tolerance):
    x, dout = (arrays.of(rng.standard_normal(shape).astype(np.float32), dtype) for _ in range(2))
    gradient = dropout.dropout_backward(dout, 0.4, 17)
    check(lambda x: dropout.reference(x, 0.4, 17), (x,), (gradient,), dout, rng, tolerance)


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 16), (2, 37, 16), (1, 2, 64, 32)])
def test_attention(arrays, rng, shape, causal, dtype, tolerance):
    q, k, v, dout = (arrays.of(rng.standard_normal(shape).astype(np.float32), dtype) for _ in range(4))
    out, lse = attention.attention(q, k, v, causal)
    gradients = attention.attention_backward(dout, q, k, v, out, lse, causal)
    if shape[-2] == 1:
        gradients, inputs = gradients[2:], (v,)  # softmax of one score is 1: the others' gradients are zero
        check(lambda v: attention.reference(as_float64(q), as_float64(k), v, causal), inputs, gradients, dout, rng,
              tolerance)
    else:
        check(lambda *qkv: attention.reference(*qkv, causal), (q, k, v), gradients, dout, rng, tolerance)
