"""The largest of a window and where it is, as Inductor writes it: strided loads, conditions of NaNs, positions."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl


@triton.jit
def larger(a, i, b, j):
    """The larger of two, or the first NaN; of equals the one with the lower position."""
    nan_a, nan_b = a != a, b != b
    more = (a > b) | (nan_a > nan_b)
    equal = (a == b) | (nan_a & nan_b)
    first = more | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def largest(x, o, at, mean, N: tl.constexpr):
    n = tl.arange(0, N)
    zero, one, two = tl.full([1], 0, tl.int64), tl.full([1], 1, tl.int64), tl.full([1], 2, tl.int64)
    left = tl.load(x + 2 * n - 1, mask=n > 0, other=float("-inf"))
    middle = tl.load(x + 2 * n)
    right = tl.load(x + 2 * n + 1)
    v, i = larger(left, zero, middle, one)
    v, i = larger(v, i, right, two)
    tl.store(o + n, v)
    tl.store(at + n, i.to(tl.int8))
    tl.store(mean + n, (middle + right) * 0.5)


@pytest.mark.parametrize(("count", "warps"), [(64, 1), (256, 1), (1024, 4), (2048, 4)])
def test_largest_of_windows(check, count, warps):
    rng = np.random.default_rng(count)
    x = rng.integers(-2, 3, 2 * count).astype("f4")
    x[rng.random(2 * count) < 0.1] = np.nan
    x[rng.random(2 * count) < 0.1] = -0.0
    got = check(largest, x, np.zeros(count, "f4"), np.zeros(count, "i1"), np.zeros(count, "f4"), count, warps=warps)
    windows = np.stack([np.concatenate([[-np.inf], x[1:-1:2]]), x[::2], x[1::2]])
    np.testing.assert_array_equal(got[2], windows.argmax(0))  # NumPy's, too, finds the first NaN
