"""S20: programs that meet in memory: sum, stream compaction, histogram."""

import threading

import numpy as np
import pytest

from tritium.kernels import compaction, histogram, summation

SIZES = [1, 7, 1000, 4096, 100_000]
SHARE = summation.SHARE


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("programs", [1, 3, None])
def test_sum(arrays, rng, n, programs):
    x = rng.standard_normal(n, dtype=np.float32)
    got = arrays.back(summation.sum_of(arrays.of(x), programs=programs))
    np.testing.assert_allclose(got, summation.reference(x.astype(np.float64)), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("n", [0, 1, 4095, SHARE - 1, SHARE, SHARE + 1, 3 * SHARE + 7])
@pytest.mark.parametrize("shares", [False, True])
def test_sum_in_both_ways(arrays, rng, n, shares):
    x = rng.random(n, dtype=np.float32)
    got = arrays.back(summation.sum_of(arrays.of(x), shares=shares))
    np.testing.assert_allclose(got, [x.astype(np.float64).sum()], rtol=1e-6)


@pytest.mark.parametrize("programs", [5, 2 * summation.SHARES + 1])
def test_sum_by_more_programs_than_elements(arrays, programs):
    x = np.arange(1, 5, dtype=np.float32)
    for shares in (False, True):
        assert arrays.back(summation.sum_of(arrays.of(x), block=1, programs=programs, shares=shares)).tolist() == [10.0]


def test_sum_by_many_shares(arrays, rng):
    x = rng.random(3000, dtype=np.float32)
    got = arrays.back(summation.sum_of(arrays.of(x), block=2, programs=2 * summation.SHARES + 100))
    np.testing.assert_allclose(got, [x.astype(np.float64).sum()], rtol=1e-6)


def test_shares_of_a_sum_grow_with_the_array(monkeypatch, arrays, rng):
    """Their number does not."""
    monkeypatch.setattr(summation, "SHARE", 16)
    monkeypatch.setattr(summation, "SHARES", 8)
    for n in (127, 128, 129, 1000, 1024, 1025):
        x = rng.random(n, dtype=np.float32)
        got = arrays.back(summation.sum_of(arrays.of(x), block=16))
        np.testing.assert_allclose(got, [x.astype(np.float64).sum()], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sum_of_short_floats_is_a_float32(arrays, dtype):
    x = arrays.of(np.ones((300, 200), np.float32), dtype)
    got = summation.sum_of(x[:, ::2])
    assert str(got.dtype).endswith("float32") and arrays.back(got).tolist() == [30000.0]


def test_sum_is_the_same_for_any_number_of_threads(threads, rng):
    """Bit by bit: the shares depend on the size alone."""
    x = rng.standard_normal(5 * SHARE + 77, dtype=np.float32)
    found = set()
    for n in (1, 2, 3, 40):
        threads(n)
        found |= {summation.sum_of(x).tobytes() for _ in range(5)}
    assert len(found) == 1


def test_sums_of_several_threads_do_not_meet(rng):
    """Arrays for partial sums are kept from call to call; each call has one to itself."""
    inputs = [np.full(3 * SHARE, float(i), np.float32) for i in range(4)]
    wrong = []

    def work(i):
        wrong.extend(i for _ in range(50) if summation.sum_of(inputs[i])[0] != i * 3 * SHARE)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


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
