"""Random Python kernels: eager, through the frontend on the machine, compiled for the CPU. All must agree."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.kernels import kernels
from tritium.frontend import lower
from tritium.interp.eager import launch
from tritium.interp.machine import interpret
from tritium.ir.verify import verify

N = 16
SIGNATURE = {"x_ptr": "*i32", "f_ptr": "*fp32", "out_ptr": "*i32", "fout_ptr": "*fp32", "n": "i32", "k": "i32"}
GRID = (2,)


def arguments(seed, n, k):
    rng = np.random.default_rng(seed)
    x = rng.choice([0, 1, -1, 5, 100, -77, 2**31 - 1, -2**31, 12345], N).astype(np.int32)
    f = rng.choice([0.0, -0.0, 1.5, -2.25, 1e10, -1e-10, 3.0, 1000.0], N).astype(np.float32)
    return [x, f, np.zeros(16 * N, np.int32), np.zeros(16 * N, np.float32), n, k]


def run_eagerly(kernel, args):
    launch(kernel, GRID, args, {"N": N})


def run_on_machine(kernel, args):
    interpret(verify(lower(kernel, SIGNATURE, {"N": N})), args, GRID)


def run_compiled(kernel, args):
    kernel[GRID](*args, N, enable_fp_fusion=False)


def outputs(run, kernel, seed, n, k):
    args = arguments(seed, n, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(kernel, args)
    floats = np.where(np.isnan(args[3]), np.float32(np.nan), args[3]).view(np.int32)
    return args[2], floats


@pytest.mark.parametrize("way", [run_on_machine, run_compiled])
@given(text=kernels(), seed=st.integers(0, 100), n=st.sampled_from([0, 5, -3, 1000]), k=st.sampled_from([2, 9, 16]))
def test_eager_and_compiled_agree(load, way, text, seed, n, k):
    kernel = load(text)
    for found, expected in zip(outputs(way, kernel, seed, n, k), outputs(run_eagerly, kernel, seed, n, k)):
        assert np.array_equal(found, expected), text
