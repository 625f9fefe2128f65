"""Kernels that move elements between threads, on emulated AMD GPUs: the tests of the NVIDIA backend."""

import pytest

from tests.backends.gpu import test_language, test_scans_and_sorts, test_topk
from tritium.backends.gpu.lower import scan

SAMPLE = 15
TURING = {"test_scan_of_what_does_not_fit_into_shared_memory"}  # into as much as Turing has
globals().update({name: test for module in (test_language, test_scans_and_sorts, test_topk)
                  for name, test in vars(module).items() if name.startswith("test_") and name not in TURING})


@pytest.fixture
def in_segments(monkeypatch):
    """Scans go through shared memory where they may; which do depends on the lanes of a warp."""
    monkeypatch.setattr(scan, "WRITTEN_OUT", 0)
    return ["some"]
