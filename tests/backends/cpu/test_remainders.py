"""Remainders of vectors of floats: exact for all quotients, and without a call for each lane."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.llvm.target import cpu_target

BLOCK = 256


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) % tl.load(y_ptr + i, i < n), i < n)


def special(dtype):
    limits = np.finfo(dtype)
    numbers = [0, 0.5, 1, 3, limits.tiny, limits.smallest_subnormal, limits.max, np.inf, np.nan]
    return np.array([*numbers, *(-x for x in numbers)], dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_remainders_are_exact(dtype):
    rng, bits = np.random.default_rng(0), np.dtype(dtype).itemsize * 8
    random = rng.integers(0, 2**bits, 8000, dtype=f"u{bits // 8}").view(dtype)  # of all exponents
    near = rng.uniform(0.5, 1, 2000).astype(dtype)
    with np.errstate(all="ignore"):
        multiples = near * rng.integers(1, 200, 2000).astype(dtype)  # quotients that round to an integer
        x = np.concatenate([np.repeat(special(dtype), 18), random[:4000], multiples, -multiples])
        y = np.concatenate([np.tile(special(dtype), 18), random[4000:], near, near])
        expected = np.fmod(x, y)
    out = np.empty_like(x)
    compiled = kernel[(triton.cdiv(len(x), BLOCK),)](x, y, out, len(x), BLOCK)
    np.testing.assert_array_equal(out, expected)
    assert (np.signbit(out) == np.signbit(x))[~np.isnan(out)].all()
    if cpu_target().has_fma:
        assert "fma.v" in compiled.asm["llir"] and "frem <" not in compiled.asm["llir"]
