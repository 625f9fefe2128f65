"""Values that few elements take: one branch skips them for several registers, a loop computes those that are wanted."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl


@triton.jit
def angles(x, o, p, N: tl.constexpr):
    n = tl.arange(0, N)
    v = tl.load(x + n)
    tl.store(o + n, tl.sin(v))
    tl.store(p + n, tl.cos(v))


@pytest.mark.parametrize("registers", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_large_angles_among_others(check, registers, share):
    count = 1 << (32 * registers - 1).bit_length()  # of one warp; three registers are four
    rng = np.random.default_rng(registers)
    x = (rng.standard_normal(count) * 10).astype("f4")
    large = rng.random(count) < share
    x[large] *= np.exp2(rng.uniform(20, 100, large.sum())).astype("f4")
    x[:4] = [-0.0, np.inf, np.nan, 1e5]
    got = check(angles, x, np.zeros(count, "f4"), np.zeros(count, "f4"), count, warps=1, tolerance=2e-6)
    finite = np.isfinite(x)
    np.testing.assert_allclose(got[1][finite], np.sin(x[finite].astype("f8")), rtol=3e-7, atol=1e-7)
    np.testing.assert_allclose(got[2][finite], np.cos(x[finite].astype("f8")), rtol=3e-7, atol=1e-7)
    assert np.signbit(got[1][0]) and np.isnan(got[1][1:3]).all()


@triton.jit
def angles_in_a_loop(x, o, count, N: tl.constexpr):
    n = tl.arange(0, N)
    total = tl.zeros([N], tl.float32)
    for k in range(count):
        total += tl.sin(tl.load(x + k * N + n))
    tl.store(o + n, total)


def test_large_angles_in_a_loop(check):
    x = np.random.default_rng(0).standard_normal(4 * 256).astype("f4") * np.resize([1, 2, 1e7, 3, 1e20], 1024)
    check(angles_in_a_loop, x.astype("f4"), np.zeros(256, "f4"), 4, 256, warps=1, tolerance=2e-6)
