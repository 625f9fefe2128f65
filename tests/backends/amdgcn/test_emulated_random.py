"""Random kernels on emulated AMD GPUs: the bits are those of the interpreter.

A few run by default. `make fuzz` runs 1,000 in tile IR and 300 in Python for each architecture.
"""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties import test_kernels, test_modules
from tests.properties.conftest import load  # noqa: F401  (a fixture)
from tests.properties.kernels import kernels
from tests.properties.modules import modules
from tritium.frontend import lower
from tritium.insight import emulator
from tritium.interp.machine import interpret
from tritium.ir.verify import verify

FUZZ = settings.default.max_examples >= 1000
WARPS = st.sampled_from([1, 2, 4])


def examples(most):
    """As many random kernels, or a few."""
    return settings(max_examples=most if FUZZ else 3, suppress_health_check=[*HealthCheck], deadline=None)


@examples(1000)
@given(made=modules(), seed=st.integers(0, 1000), n=st.sampled_from([0, 1, 3, 16, 100]), warps=WARPS)
def test_tile_ir(amd, made, seed, n, warps):
    expected = test_modules.run(interpret, made, seed, n)
    run = lambda module, args, grid: emulator.run(module, args, grid, amd, warps, enable_fp_fusion=False)
    for k, (x, y) in enumerate(zip(test_modules.run(run, made, seed, n), expected)):
        same = np.array_equal(test_modules.bits(x), test_modules.bits(y))
        assert same, f"{amd}, {warps} warps, out{k}: {x} against {y} of\n{made[0]}"


@examples(300)
@given(text=kernels(), seed=st.integers(0, 100), n=st.sampled_from([0, 5, -3, 1000]), k=st.sampled_from([2, 9, 16]),
       warps=WARPS)
def test_python(load, amd, text, seed, n, k, warps):  # noqa: F811
    kernel = load(text)

    def run(kernel, args):
        module = verify(lower(kernel, test_kernels.SIGNATURE, {"N": test_kernels.N}))
        emulator.run(module, args, test_kernels.GRID, amd, warps, enable_fp_fusion=False)

    wanted = test_kernels.outputs(test_kernels.run_eagerly, kernel, seed, n, k)
    for found, expected in zip(test_kernels.outputs(run, kernel, seed, n, k), wanted):
        assert np.array_equal(found, expected), f"{amd}, {warps} warps, {seed=}, {n=}, {k=}\n{text}"
