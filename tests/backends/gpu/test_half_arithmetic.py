"""Arithmetic of 16-bit floats, two neighbours by one instruction: the bits that float32 gives, rounded once more."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@triton.jit
def arithmetic(x, y, scalar, o, N: tl.constexpr):
    n = tl.arange(0, N)
    a, b, s = tl.load(x + n), tl.load(y + n), tl.load(scalar)
    tl.store(o + n, a * b)
    tl.store(o + N + n, a + b)
    tl.store(o + 2 * N + n, a - b)
    tl.store(o + 3 * N + n, a * s + b)
    tl.store(o + 4 * N + n, tl.where(n % 2 == 0, s - a, s * s))
    tl.store(o + 5 * N + n, a * tl.load(y + n // 4))
    tl.store(o + 6 * N + n, tl.fma(a, s, -(b * s)))
    tl.store(o + 7 * N, s * s - s)


def numbers(kind, count):
    """Numbers of all sizes, subnormal ones but for products in bf16, infinities and NaN."""
    rng = np.random.default_rng(0)
    least = -14 if kind == "f16" else -60
    x = rng.standard_normal(count) * 2.0 ** rng.integers(least, 8, count)
    x[: min(count, 8)] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 65504.0, 2.0**least][: min(count, 8)]
    return x.astype(np.float32).astype(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [32, 64, 256, 2048])
def test_arithmetic(check, kind, count):
    x, y = numbers(kind, count), numbers(kind, count)[::-1].copy()
    check(arithmetic, x, y, numbers(kind, 7)[5:6], np.zeros(7 * count + 1, KINDS[kind]), count, warps=1)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_with_products_are_rounded_once(check, kind):
    """(1 + e)^2 - (1 + 2e) is e^2, and zero if the product is rounded."""
    e = 2.0**-6
    x = np.full(64, 1 + e, np.float32).astype(KINDS[kind])
    z = np.full(64, -1 - 2 * e, np.float32).astype(KINDS[kind])
    check(fused, x, x, z, np.zeros(64, KINDS[kind]), 64, warps=1)


@triton.jit
def fused(x, y, z, o, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(o + n, tl.fma(tl.load(x + n), tl.load(y + n), tl.load(z + n)))


@triton.jit
def accumulate(x, o, N: tl.constexpr, STEPS: tl.constexpr):
    """A sum that a loop carries, and a scan, in the type itself."""
    n = tl.arange(0, N)
    total = tl.zeros((N,), x.dtype.element_ty)
    for step in range(STEPS):
        total = total * tl.load(x + step * N + n) + total
        total += tl.load(x + step * N + n)
    tl.store(o + n, total)
    tl.store(o + N + n, tl.associative_scan(total, 0, _add))


@triton.jit
def _add(a, b):
    return a + b


@pytest.mark.parametrize("kind", KINDS)
def test_sums(check, kind):
    x = np.random.default_rng(1).integers(-2, 3, 5 * 64).astype(np.float32).astype(KINDS[kind])
    check(accumulate, x, np.zeros(128, KINDS[kind]), 64, 5, warps=1)


@triton.jit
def go_on_behind_a_loop(x, o, N: tl.constexpr):
    """A sum that goes on where a loop that has an iteration ends."""
    n = tl.arange(0, N)
    total = tl.load(x + n)
    for step in range(1, 25):
        total += tl.load(x + step * N + n)
    tl.store(o + n, total + tl.load(x + 25 * N + n))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_that_go_on_behind_a_loop(check, kind):
    x = np.random.default_rng(2).standard_normal(26 * 64).astype(np.float32).astype(KINDS[kind])
    check(go_on_behind_a_loop, x, np.zeros(64, KINDS[kind]), 64, warps=1)
