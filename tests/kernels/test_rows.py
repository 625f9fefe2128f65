"""S21, S22: softmax three ways, RMSNorm, layer norm with backward; cross-entropy, rotary embedding, top-k."""

import numpy as np
import pytest

from tritium.kernels import cross_entropy, layer_norm, rms_norm, rotary, softmax, topk

SHAPES = [(1, 1), (3, 7), (64, 128), (17, 781), (5, 1024), (2, 3000)]


def spread_rows(arrays, x):
    """The same matrix with a gap after every row."""
    rows, cols = x.shape
    wide = np.full((rows, cols + 5), np.nan, x.dtype)
    wide[:, :cols] = x
    return arrays.of(wide)[:, :cols]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["softmax", "persistent", "naive"])
def test_softmax(arrays, rng, shape, how):
    x = rng.standard_normal(shape, dtype=np.float32) * 10
    expected = softmax.reference(x.astype(np.float64))
    fn = getattr(softmax, how)
    np.testing.assert_allclose(arrays.back(fn(arrays.of(x))), expected, rtol=2e-6, atol=1e-9)
    np.testing.assert_allclose(arrays.back(fn(spread_rows(arrays, x))), expected, rtol=2e-6, atol=1e-9)


def test_softmax_survives_large_values(arrays):
    x = arrays.of(np.float32([[1e30, 1e30, -1e30]]))
    assert arrays.back(softmax.softmax(x)).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-3), ("bfloat16", 8e-3)])
def test_softmax_types(arrays, rng, dtype, tolerance):
    x = arrays.of(rng.standard_normal((9, 100), dtype=np.float32), dtype)
    np.testing.assert_allclose(arrays.back(softmax.softmax(x)), softmax.reference(arrays.back(x)), rtol=tolerance)


@pytest.mark.parametrize("n", [1, 100, 1024, 5000])
def test_rms_norm_vector(arrays, rng, n):
    x, weight = rng.standard_normal((2, n), dtype=np.float32)
    got = arrays.back(rms_norm.rms_norm_vector(arrays.of(x), arrays.of(weight)))
    np.testing.assert_allclose(got, rms_norm.reference(x.astype(np.float64), weight), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("bfloat16", 8e-3)])
def test_rms_norm(arrays, rng, shape, dtype, tolerance):
    x, weight = arrays.of(rng.standard_normal(shape, dtype=np.float32), dtype), rng.standard_normal(shape[1])
    weight = arrays.of(weight.astype(np.float32), dtype)
    expected = rms_norm.reference(arrays.back(x), arrays.back(weight))
    np.testing.assert_allclose(arrays.back(rms_norm.rms_norm(x, weight)), expected, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_layer_norm(arrays, rng, shape):
    x = rng.standard_normal(shape, dtype=np.float32) + 5
    weight, bias = rng.standard_normal((2, shape[1]), dtype=np.float32)
    out, mean, rstd = layer_norm.layer_norm(*map(arrays.of, (x, weight, bias)))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(arrays.back(out), layer_norm.reference(wide, weight, bias), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(arrays.back(mean), wide.mean(1), rtol=1e-6)
    np.testing.assert_allclose(arrays.back(rstd), (wide.var(1) + 1e-5) ** -0.5, rtol=1e-5)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_persistent_softmax_in_both_ways(arrays, rng, shape, shares):
    x = rng.standard_normal(shape, dtype=np.float32)
    got = arrays.back(softmax.persistent(arrays.of(x), shares=shares))
    np.testing.assert_allclose(got, softmax.reference(x.astype(np.float64)), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_of_rows_in_parts(arrays, rng, shape, lanes):
    """Maxima that grow late, parts without a number, and a row of infinities."""
    x = rng.standard_normal(shape, dtype=np.float32) * 10
    x[:, : shape[1] // 2] -= 50
    x[0, : shape[1] // 3] = -np.inf
    got = arrays.back(softmax.online(arrays.of(x), block=64, lanes=lanes))
    np.testing.assert_allclose(got, softmax.reference(x.astype(np.float64)), rtol=4e-6, atol=1e-9)
    assert np.isnan(arrays.back(softmax.online(arrays.of(np.full((1, 5), -np.inf, "f4")), lanes=lanes))).all()


def test_persistent_softmax_on_any_number_of_threads(threads, rng):
    """More programs than rows, and rows that the programs do not divide."""
    x = rng.standard_normal((13, 50), dtype=np.float32)
    for n in (1, 2, 5, 40):
        threads(n)
        np.testing.assert_allclose(softmax.persistent(x), softmax.reference(x.astype(np.float64)), rtol=2e-6)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("shape, groups", [((3, 7), 4), ((64, 128), 4), ((300, 100), 32), ((50, 1000), 1),
                                           ((1, 5), None), ((33, 40), None), ((5, 3), 9), ((15, 24), 5)])
def test_layer_norm_backward(arrays, rng, shape, groups, shares):
    """Locks: many rows add to few partial sums. Shares: each program has one of its own."""
    x, dout = rng.standard_normal((2, *shape), dtype=np.float32)
    weight, bias = rng.standard_normal((2, shape[1]), dtype=np.float32)
    xs, douts, weights = map(arrays.of, (x, dout, weight))
    _, mean, rstd = layer_norm.layer_norm(xs, weights, arrays.of(bias))
    got = layer_norm.layer_norm_backward(douts, xs, weights, mean, rstd, groups=groups, shares=shares)
    expected = layer_norm.reference_backward(*(a.astype(np.float64) for a in (dout, x, weight)))
    for g, e in zip(got, expected):
        np.testing.assert_allclose(arrays.back(g), e, rtol=1e-4, atol=2e-4)


def gradients_of(rng, rows, cols):
    x, dout = rng.standard_normal((2, rows, cols), dtype=np.float32)
    weight = rng.standard_normal(cols, dtype=np.float32)
    _, mean, rstd = layer_norm.layer_norm(x, weight, weight)
    expected = layer_norm.reference_backward(*(a.astype(np.float64) for a in (dout, x, weight)))
    return (dout, x, weight, mean, rstd), expected


@pytest.mark.parametrize("groups", [1, 3, None])
def test_layer_norm_backward_ends_with_the_last_row(rng, groups):
    """Programs take two rows at a time; what follows an odd one is no part of the arrays."""
    arguments, expected = gradients_of(rng, 9, 20)
    behind = [np.concatenate([a, np.full_like(a[:3], np.nan)])[:len(a)] for a in arguments]
    for g, e in zip(layer_norm.layer_norm_backward(*behind, groups=groups), expected):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=2e-4)


def test_layer_norm_backward_is_the_same_for_any_number_of_threads(threads, rng):
    arguments, _ = gradients_of(rng, 200, 60)
    found = set()
    for n in (1, 2, 3, 40):
        threads(n)
        found.add(b"".join(a.tobytes() for a in layer_norm.layer_norm_backward(*arguments)))
    assert len(found) == 1


def test_shares_of_layer_norm_grow_with_the_rows(monkeypatch, rng):
    """Their number does not."""
    monkeypatch.setattr(layer_norm, "SHARE", 2)
    monkeypatch.setattr(layer_norm, "SHARES", 4)
    for rows in (1, 8, 9, 31, 32, 33):
        arguments, expected = gradients_of(rng, rows, 20)
        for g, e in zip(layer_norm.layer_norm_backward(*arguments), expected):
            np.testing.assert_allclose(g, e, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("shares", [False, True])
def test_layer_norm_backward_of_no_rows(shares):
    none, one = np.zeros((0, 5), np.float32), np.ones(5, np.float32)
    dx, dw, db = layer_norm.layer_norm_backward(none, none, one, none[:, 0], none[:, 0], shares=shares)
    assert dx.shape == (0, 5) and dw.tolist() == db.tolist() == [0.0] * 5


def test_layer_norm_backward_takes_any_strides(rng):
    (dout, x, weight, mean, rstd), expected = gradients_of(rng, 40, 30)
    spread = np.zeros((40, 2), np.float32)
    spread[:, 0] = mean
    got = layer_norm.layer_norm_backward(np.asfortranarray(dout), np.asfortranarray(x), weight, spread[:, 0], rstd)
    for g, e in zip(got, expected):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("shape", [(1, 2), (9, 50), (33, 3000)])
@pytest.mark.parametrize("with_gradient", [False, True])
def test_cross_entropy(arrays, rng, shape, with_gradient):
    logits = rng.standard_normal(shape, dtype=np.float32) * 5
    target = rng.integers(0, shape[1], shape[0])
    target[::4] = -100
    loss, grad = cross_entropy.cross_entropy(arrays.of(logits), arrays.of(target), with_gradient)
    expected_loss, expected_grad = cross_entropy.reference(logits.astype(np.float64), target)
    np.testing.assert_allclose(arrays.back(loss), expected_loss, rtol=1e-5, atol=1e-5)
    if with_gradient:
        np.testing.assert_allclose(arrays.back(grad), expected_grad, rtol=1e-4, atol=1e-6)
    else:
        assert grad is None


@pytest.mark.parametrize("shape", [(1, 1, 1, 2), (2, 5, 3, 12), (1, 17, 9, 64)])
def test_rotary(arrays, rng, shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    cos, sin = rotary.angles(shape[1], shape[3])
    got = arrays.back(rotary.rotary(*map(arrays.of, (x, cos, sin))))
    np.testing.assert_allclose(got, rotary.reference(x.astype(np.float64), cos, sin), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((got**2).sum(-1), (x.astype(np.float64) ** 2).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("shape, k", [((1, 1), 1), ((4, 10), 3), ((3, 100), 8), ((2, 1000), 33), ((5, 16), 16)])
def test_topk(arrays, rng, shape, k):
    x = rng.standard_normal(shape, dtype=np.float32)
    x.flat[::3] = 0.5  # ties
    x.flat[1:3] = -0.0 if x.size > 2 else x.flat[1:3]
    values, indices = map(arrays.back, topk.topk(arrays.of(x), k))
    expected_values, expected_indices = topk.reference(x, k)
    assert np.array_equal(values, expected_values.astype(np.float64))
    assert np.array_equal(indices, expected_indices)


def test_topk_wants_a_k_that_exists():
    with pytest.raises(ValueError, match="between 1 and the 3 columns"):
        topk.topk(np.zeros((1, 3), np.float32), 4)
