"""Matrices that are broadcast to a third axis stay where they were loaded."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of, words

pytestmark = pytest.mark.sampled


@triton.jit
def packed_rows(x_ptr, w_ptr, y_ptr, trips, N: tl.constexpr, K: tl.constexpr, EACH: tl.constexpr):
    """A matrix of small weights, several in a word, times a vector."""
    n, k, j = tl.arange(0, N), tl.arange(0, K), tl.arange(0, EACH)
    total = tl.zeros((N,), tl.float32)
    for trip in range(trips):
        at = trip * K + k
        x = tl.load(x_ptr + at[:, None] * EACH + j[None, :]).to(tl.float32)
        word = tl.load(w_ptr + n[:, None] * (trips * K) + at[None, :])
        w = ((word[:, :, None] >> (j * (32 // EACH))[None, None, :]) & ((1 << 32 // EACH) - 1)).to(tl.float32) - 8
        total += tl.sum(tl.sum(w * x[None, :, :], axis=2), axis=1)
    tl.store(y_ptr + n, total)


def args_of(trips, n, k, each):
    return data("f2", trips * k, each), words(n, trips * k), np.zeros(n, "f4"), trips, n, k, each


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("n, k, each", [(8, 64, 8), (16, 32, 4), (2, 16, 8), (32, 64, 16)])
def test_they_agree(check, n, k, each, warps):
    for trips in (0, 1, 5):
        check(packed_rows, *args_of(trips, n, k, each), warps=warps, tolerance=1e-2)


@pytest.mark.parametrize("n, k, each", [(8, 64, 8), (16, 32, 4)])
def test_words_are_unpacked_where_they_were_loaded(n, k, each):
    text = ttgir_of(packed_rows, args_of(4, n, k, each), warps=4)
    assert f"tile<{n}x{k}xi32>" in text and not [x for x in text.splitlines() if "= convert" in x and "xi32>" in x]
