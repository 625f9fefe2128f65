"""Kernels that move elements between threads, for the toy GPU with warps of 64 lanes."""

import numpy as np
import pytest

from tests.backends.gpu import test_language, test_scans_and_sorts
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import agree
from tests.backends.gpu.test_topk import test_topk, test_topk_of_a_cube  # noqa: F401
from tests.backends.gpu.toy import machine
from tritium import backends
from tritium.interp.machine import interpret

pytestmark = pytest.mark.sampled


@pytest.fixture
def check(monkeypatch):
    """A function that runs a kernel and compares every array with what the interpreter makes of it."""
    monkeypatch.setitem(backends.FOLDERS, "toy", "tests.backends.gpu.toy")

    def run(kernel, *args, arch=90, warps=4, stages=3, tolerance=0.0):
        module, values = module_of(kernel, args)
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        machine.run(module, mine, num_warps=warps, num_stages=stages)
        interpret(module, theirs, (1,))
        agree(theirs, mine, tolerance)

    return run


# Those that depend on how many lanes a warp has.
globals().update({name: getattr(test_language, name) for name in (
    "test_reduction_of_a_spread_and_a_loaded_tile", "test_scalars_side_by_side", "test_gather", "test_histogram",
    "test_map_of_pairs", "test_atomic_extremes", "test_pipelined_products",
)})  # fmt: skip
globals().update({name: getattr(test_scans_and_sorts, name) for name in (
    "test_sort", "test_sort_in_loops_over_threads", "test_scan", "test_scan_in_segments",
    "test_scan_of_what_does_not_fit_into_shared_memory", "test_values_with_indices",
)})  # fmt: skip
