"""Tests on the emulated AMD GPUs: each is there for every architecture, and by default a sample of them runs.

A test runs on one architecture, which its name chooses; of a module with `SAMPLE = n`, one test of n does.
TRITIUM_TEST_EMULATED=all runs every test on every architecture.
"""

import os
import zlib

import numpy as np
import pytest

from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import agree
from tritium.insight import emulator
from tritium.interp.machine import interpret

ARCHITECTURES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
ALL = os.environ.get("TRITIUM_TEST_EMULATED") == "all"


@pytest.fixture(params=ARCHITECTURES)
def amd(request):
    """The name of an architecture."""
    return request.param


@pytest.fixture
def run_amd(amd):
    """run(module, args, grid, num_warps=..., ...) on the emulated GPU; changes the arrays in place."""
    most = 1024 // emulator.target_of(amd).warp_size

    def run(module, args, grid=(1,), num_warps=4, num_stages=3, **options):
        return emulator.run(module, args, grid, amd, min(num_warps, most), num_stages, **options)

    return run


@pytest.fixture
def check(run_amd):
    """A function that runs a kernel and compares every array with what the interpreter makes of it; returns what the
    kernel was given and has made. Other vendors' architectures are of no interest."""

    def check(kernel, *args, grid=(1,), arch=None, warps=4, stages=3, tolerance=0.0):
        module, values = module_of(kernel, args)
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        run_amd(module, mine, grid, num_warps=warps, num_stages=stages)
        interpret(module, theirs, grid)
        agree(theirs, mine, tolerance)
        return mine

    return check


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are not in the sample."""
    left_out = [] if ALL else [item for item in items if _is_left_out(item)]
    if left_out:
        gone = set(map(id, left_out))
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if id(item) not in gone]


def _is_left_out(item):
    architecture = getattr(item, "callspec", None) and item.callspec.params.get("amd")
    if not architecture:
        return False
    number = zlib.crc32(item.name.replace(architecture, "").encode())
    sample = getattr(item.module, "SAMPLE", 1)
    return ARCHITECTURES[number % 5] != architecture or number // 5 % sample != 0
