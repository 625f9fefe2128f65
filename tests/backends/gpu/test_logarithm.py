"""The logarithm of f32 on NVIDIA GPUs: within two units in the last place, subnormal numbers and edges included."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of, run_cuda
from tests.ops.test_expand import error_in_ulps
from tritium.insight import emulator

COUNT = 4096
rng = np.random.default_rng(3)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, -1.0, -1e-45, -3e38, 1.0, 2.0, 1e-45, 2.0**-126, 3.4e38],
                 np.float32)  # fmt: skip
RANGES = {
    "normal": np.exp2(rng.uniform(-126, 128, COUNT)), "near one": rng.uniform(0.5, 2, COUNT),
    "subnormal": rng.uniform(0, 2.0**-126, COUNT), "edges": np.resize(EDGES, COUNT),
    "halfway": np.exp2(rng.integers(-126, 127, COUNT) + 0.5) * rng.uniform(1 - 2e-6, 1 + 2e-6, COUNT),
}  # fmt: skip


@triton.jit
def logarithm(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.log(tl.load(x + i)))


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def engine(request):
    return emulator.run if request.param == "emulated" else run_cuda


@pytest.mark.parametrize("where", RANGES)
def test_logarithm(engine, where):
    x, y = RANGES[where].astype(np.float32), np.zeros(COUNT, np.float32)
    module, arguments = module_of(logarithm, [x, y, COUNT])
    engine(module, arguments, num_warps=4)
    with np.errstate(all="ignore"):
        assert error_in_ulps(y, np.log(x.astype(np.float64)), np.float32).max() < 1.2
