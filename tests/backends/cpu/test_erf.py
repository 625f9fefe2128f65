"""The error function on this machine's CPU, in units in the last place."""

import math

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl


@triton.jit
def erf(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.erf(tl.load(x_ptr + i, i < N)), i < N)


def erf_of(x, block):
    out = np.zeros_like(x)
    erf[(-(-len(x) // block),)](x, out, len(x), BLOCK=block)
    return out


@pytest.mark.parametrize("block", [1, 4, 16, 1024])
def test_all_magnitudes(block):
    """Near zero, and around the middles between the numbers that are looked up."""
    codes = np.concatenate([np.arange(0, 0x7F800000, 1000003), np.arange(0x3E000000, 0x40800000, 1009),
                            *[np.float32(k / 16).view(np.int32) + np.arange(-40, 40) for k in range(1, 66)]])
    x = codes.astype(np.int32).view(np.float32)
    x = np.concatenate([x, -x])[::37 if block < 16 else 1].copy()
    exact = np.array([math.erf(float(v)) for v in x])
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(erf_of(x, block) - exact) / ulp) < 1.0


def test_ends():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.95, -4.0, 1e-45], np.float32)
    out = erf_of(x, 8)
    np.testing.assert_array_equal(out, np.array([0.0, -0.0, 1, -1, np.nan, 1, -1, 1e-45], np.float32))
    assert list(np.signbit(out[:2])) == [False, True]
