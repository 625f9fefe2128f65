"""S27: fused attention, forward and backward."""

import numpy as np
import pytest

from tritium.kernels import attention

CASES = [((2, 64, 16), (32, 32)), ((1, 2, 100, 32), (64, 32)), ((3, 37, 64), (32, 64)), ((1, 1, 1, 16), (16, 16))]


def inputs(arrays, rng, shape, n, dtype="float32"):
    return [arrays.of(rng.standard_normal(shape, dtype=np.float32), dtype) for _ in range(n)]


@pytest.mark.parametrize("shape, blocks", CASES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float16", 3e-3), ("bfloat16", 2e-2)])
def test_forward(arrays, rng, shape, blocks, causal, dtype, tolerance):
    q, k, v = inputs(arrays, rng, shape, 3, dtype)
    out, lse = attention.attention(q, k, v, causal, blocks=blocks)
    expected = attention.reference(*map(arrays.back, (q, k, v)), causal)
    np.testing.assert_allclose(arrays.back(out), expected, rtol=tolerance, atol=tolerance)
    assert np.isfinite(arrays.back(lse)).all()


@pytest.mark.parametrize("shape, blocks", CASES)
@pytest.mark.parametrize("causal", [False, True])
def test_backward(arrays, rng, shape, blocks, causal):
    q, k, v, dout = inputs(arrays, rng, shape, 4)
    out, lse = attention.attention(q, k, v, causal)
    got = attention.attention_backward(dout, q, k, v, out, lse, causal, blocks=blocks)
    expected = attention.reference_backward(*map(arrays.back, (dout, q, k, v)), causal)
    for g, e in zip(got, expected):
        np.testing.assert_allclose(arrays.back(g), e, rtol=1e-4, atol=1e-4)


def test_backward_against_autograd(rng):
    """The reference itself, against torch."""
    torch = pytest.importorskip("torch")
    q, k, v, dout = (torch.from_numpy(rng.standard_normal((1, 2, 20, 16))) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dout)
    expected = attention.reference_backward(*(x.detach().numpy() for x in (dout, q, k, v)), causal=True)
    for x, e in zip((q, k, v), expected):
        np.testing.assert_allclose(x.grad.numpy(), e, rtol=1e-9, atol=1e-12)
