"""Dots with few results and many products of each: threads share the products, not the results."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of

pytestmark = pytest.mark.sampled


@triton.jit
def mixed(x_ptr, y_ptr, o_ptr, trips, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """How streams of N numbers mix in M others, summed over positions."""
    b, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((B, M, N), tl.float32)
    for trip in range(trips):
        at = b[:, None, None] * (trips * K) + (trip * K + k)[None, :, None]
        x = tl.load(x_ptr + at * M + m[None, None, :])
        y = tl.load(y_ptr + at * N + n[None, None, :])
        total = tl.dot(tl.trans(x, (0, 2, 1)), y, total, input_precision="ieee")
    tl.store(o_ptr + (b[:, None, None] * M + m[None, :, None]) * N + n[None, None, :], total)


@triton.jit
def flat(x_ptr, y_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :])
    y = tl.load(y_ptr + k[:, None] * N + n[None, :])
    tl.store(o_ptr + m[:, None] * N + n[None, :], tl.dot(x, y, input_precision="ieee"))


def args_of(dtype, b, m, n, k, trips):
    return (data(dtype, b, trips * k, m), data(dtype, b, trips * k, n), np.zeros((b, m, n), "f4"), trips, b, m, n, k)


@pytest.mark.parametrize("arch", [75, 90])
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize("b, m, n, k", [(4, 1, 4, 64), (4, 4, 4, 64), (2, 2, 2, 128), (1, 4, 8, 32)])
def test_streams_are_mixed(check, b, m, n, k, dtype, warps, arch):
    for trips in (1, 3):
        check(mixed, *args_of(dtype, b, m, n, k, trips), arch=arch, warps=warps, tolerance=1e-3)


@pytest.mark.parametrize("m, n, k", [(2, 4, 64), (1, 8, 128), (4, 2, 32)])
def test_without_a_batch(check, m, n, k):
    check(flat, data("f2", m, k), data("f2", k, n), np.zeros((m, n), "f4"), m, n, k, tolerance=1e-3)


def has_dot(b, m, n, k, warps, dtype="f2"):
    return " = dot " in ttgir_of(mixed, args_of(dtype, b, m, n, k, 2), warps=warps)


def test_only_those_with_few_results_and_long_sums():
    assert not has_dot(4, 4, 4, 64, 1) and not has_dot(4, 1, 4, 64, 1) and not has_dot(2, 4, 4, 32, 4)
    assert has_dot(4, 4, 4, 16, 1) and has_dot(8, 4, 4, 64, 1) and has_dot(1, 8, 16, 64, 4)
