"""Rounding of f32, and its conversion to bytes, two neighbours at once: halves, what saturates, infinities and NaN."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice

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
