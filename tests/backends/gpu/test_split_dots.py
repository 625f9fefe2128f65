"""Products of f32 as several products of shorter numbers: how exact they are, and what infinities become.

Emulated, and on a real GPU where there is one; see `gpu/rewrite/split_dots.py`.
"""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of, run_cuda
from tritium.insight import emulator

pytestmark = pytest.mark.sampled

# The largest error relative to |a| @ |b|: what is left out, and three roundings of f32 for each of the sum's terms.
BOUND = {"tf32x3": 2.0**-20, "bf16x3": 2.0**-14, "bf16x6": 2.0**-21, "ieee": 2.0**-21}
TARGETS = [(90, 4), (90, 2), (80, 4), (89, 8), (75, 4)]  # architecture, warps


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K, STEP: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, STEP):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def multiply(request):
    """a @ b on a GPU."""

    def run(a, b, precision, arch=90, warps=4, stages=3):
        if request.param == "cuda" and arch != 90:
            pytest.skip("a real GPU has one architecture")
        (m, k), n = a.shape, b.shape[1]
        module, args = module_of(product, (a, b, np.zeros((m, n), np.float32), m, n, k, 32, precision))
        with np.errstate(all="ignore"):
            if request.param == "emulated":
                emulator.run(module, args, arch=arch, num_warps=warps, num_stages=stages)
            else:
                run_cuda(module, args, num_warps=warps, num_stages=stages)
        return args[2]

    return run


def matrices(rng, m=64, n=32, k=96):
    """Numbers of all signs and of sizes far apart."""
    make = lambda *shape: (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
    return make(m, k), make(k, n)


@pytest.mark.parametrize(("arch", "warps"), TARGETS)
@pytest.mark.parametrize("precision", BOUND)
def test_error(multiply, precision, arch, warps):
    a, b = matrices(np.random.default_rng(3))
    exact, scale = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    error = np.abs(multiply(a, b, precision, arch, warps) - exact) / scale
    assert error.max() < BOUND[precision]


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_the_parts_are_needed(multiply, precision):
    """One product of rounded operands is much worse, so the bounds above say something."""
    a, b = matrices(np.random.default_rng(3))
    exact, scale = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    assert (np.abs(multiply(a, b, "tf32") - exact) / scale).max() > 2 * BOUND[precision]


@pytest.mark.parametrize(("arch", "warps"), TARGETS[:3])
@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_special_values(multiply, precision, arch, warps):
    """What IEEE arithmetic makes infinite or not a number is so here, and the largest numbers are not infinite."""
    a, b = (np.ones(shape, np.float32) for shape in ((64, 32), (32, 32)))
    largest = np.uint32(0x7F7FF7FF).view(np.float32)  # rounds up to infinity in every short type
    a[0, 3], a[1, 4], a[2, 5], a[3, 6], a[4] = np.inf, -np.inf, np.nan, 0.0, 1 + 2.0**-12
    b[6, 0], b[7, 1], b[8, 2], b[9, 3] = np.inf, -np.inf, np.nan, 0.0
    a[5], a[6], a[7] = 0, 0, 0
    a[5, 10], a[6, 11], a[7, 12] = largest, -largest, np.float32(2.0**-120)
    b[10, 4:], b[11, 4:] = 0.5, 2.0
    with np.errstate(all="ignore"):
        exact = np.zeros((64, 32), np.float32)
        for k in range(32):
            exact += a[:, k : k + 1] * b[k]
    out = multiply(a, b, precision, arch, warps)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(exact))
    infinite = np.isinf(exact)
    assert infinite[0, 5] and infinite[8, 0] and infinite[6, 5] and np.isnan(exact[3, 0]) and np.isfinite(exact[5, 5])
    np.testing.assert_array_equal(out[infinite], exact[infinite])
    np.testing.assert_allclose(out[np.isfinite(exact)], exact[np.isfinite(exact)], rtol=2 * BOUND[precision])


@pytest.mark.parametrize(
    ("precision", "kind", "count"), [("tf32x3", "tf32", 3), ("bf16x3", "bf16", 3), ("bf16x6", "bf16", 6)]
)
def test_tensor_cores_do_it_where_they_know_the_type(precision, kind, count):
    arguments = np.ones((64, 32), "f4"), np.ones((32, 32), "f4"), np.zeros((64, 32), "f4"), 64, 32, 32, 32, precision
    text = {arch: emulator.llvm_of(module_of(product, arguments)[0], arch)[0] for arch in (75, 80, 90)}
    steps = 32 * (4 if kind == "tf32" else 2) // 32
    assert text[90].count(f"f32.{kind}.{kind} ") == count * steps
    assert f"f32.{kind}.{kind}.f32" in text[80]
    assert "mma" not in text[75]
