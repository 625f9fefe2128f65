"""Rounding of f32, and its conversion to bytes, two neighbours at once: halves, what saturates, infinities and NaN."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice

FLOATS = {"e4m3": (tl.float8e4nv, 448.0), "e5m2": (tl.float8e5, 57344.0)}
KINDS = {"i1": tl.int8, "u1": tl.uint8}
EDGES = [0.0, -0.0, 0.25, 0.49999997, 0.5, 0.50000006, 1.5, 2.5, 126.5, 127.49999, 127.5, 128.0, 254.5, 255.5, 300.0,
         8388607.5, 8388608.0, 8388609.0, 16777217.0, 2.0**31, 2.0**40, 3e38, 1e-45, np.inf]  # fmt: skip


def numbers(count):
    found = np.random.default_rng(0).standard_normal(count) * 100
    edges = np.array([*EDGES, *(-x for x in EDGES), np.nan])[:count]
    found[: len(edges)] = edges
    return found.astype(np.float32)


@triton.jit
def rounding(x, o, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(o + n, libdevice.round(tl.load(x + n)))


@triton.jit
def to_bytes(x, o, N: tl.constexpr, KIND: tl.constexpr, ROUND: tl.constexpr):
    n = tl.arange(0, N)
    a = tl.load(x + n)
    tl.store(o + n, (libdevice.round(a) if ROUND else a).to(KIND))


@pytest.mark.parametrize("count", [1, 32, 64, 1024])
def test_rounding(check, count):
    x = numbers(count)
    check(rounding, x, np.zeros(count, np.float32), count, warps=1)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 32, 64, 1024])
def test_bytes(check, count, kind, rounded):
    check(to_bytes, numbers(count), np.zeros(count, kind), count, KINDS[kind], rounded, warps=1)


@triton.jit
def clamped(x, o, N: tl.constexpr, KIND: tl.constexpr, LEAST: tl.constexpr, MOST: tl.constexpr):
    n = tl.arange(0, N)
    a = tl.load(x + n)
    low, high = tl.maximum(a, LEAST), tl.minimum(a, MOST)
    tl.store(o + n, tl.minimum(low, MOST).to(KIND).to(tl.uint8, bitcast=True))
    tl.store(o + N + n, tl.maximum(high, LEAST).to(KIND).to(tl.uint8, bitcast=True))
    tl.store(o + 2 * N + n, high.to(KIND).to(tl.uint8, bitcast=True))


@pytest.mark.parametrize("kind", [*FLOATS, "i1", "u1"])
def test_bounds_that_the_type_has_itself(check, kind):
    """A nan is at a bound behind it; so it is where the bound is left out."""
    if kind in FLOATS:
        to, most = FLOATS[kind]
        least = -most
    else:
        to, least, most = KINDS[kind], *((-128.0, 127.0) if kind == "i1" else (0.0, 255.0))
    check(clamped, numbers(128), np.zeros(3 * 128, "u1"), 128, to, least, most, warps=1)


@triton.jit
def magnitudes(x, o, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(o + n, tl.abs(tl.load(x + n)).to(tl.float32))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
def test_magnitudes_of_wider_floats(check, dtype):
    with np.errstate(all="ignore"):
        check(magnitudes, numbers(128).astype(dtype), np.zeros(128, np.float32), 128, warps=1)
