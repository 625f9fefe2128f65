import numpy as np
import pytest

from tests.backends.gpu.modules import module_of, run_cuda
from tests.backends.gpu.samples import agree
from tritium.backends.gpu.lower import scan
from tritium.insight import emulator
from tritium.interp.machine import interpret


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def check(request):
    """A function that runs a kernel and compares every array with what the interpreter makes of it; returns what the
    kernel was given and has made."""

    def run(kernel, *args, grid=(1,), arch=90, warps=4, stages=3, tolerance=0.0):
        if request.param == "cuda" and arch != 90:
            pytest.skip("a real GPU has one architecture")
        module, values = module_of(kernel, args)
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        if request.param == "emulated":
            emulator.run(module, mine, grid, arch, warps, stages)
        else:
            run_cuda(module, mine, grid, num_warps=warps, num_stages=stages)
        interpret(module, theirs, grid)
        agree(theirs, mine, tolerance)
        return mine

    return run


@pytest.fixture
def in_segments(monkeypatch):
    """Scans go through shared memory; a list of the tiles that did."""
    used, whole = [], scan._SegmentScan.scan
    monkeypatch.setattr(scan, "WRITTEN_OUT", 0)
    monkeypatch.setattr(scan._SegmentScan, "scan", lambda self, *args: used.append(self) or whole(self, *args))
    return used
