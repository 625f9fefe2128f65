"""The collection of kernels on emulated AMD GPUs, on little data: every kernel gives what its reference does."""

import inspect

import numpy as np
import pytest

from tests.backends.gpu.test_language import module_of
from tests.backends.gpu.toy import collection
from tritium.insight import emulator
from tritium.runtime.jit import JITFunction

SAMPLE = 4
OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")
NOT_RUN = ("grouped_matmul_kernel",)  # its matrices are reached by addresses in memory, which the emulator moves


@pytest.fixture
def launched(monkeypatch, amd, run_amd):
    """Launches of kernels go to the emulated GPU; the list has the names of those that went there."""
    names = []

    def launch(kernel, grid, args, kwargs):
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs and name not in kernel.arg_names}
        bound = inspect.signature(kernel.fn).bind(*args, **kwargs)
        bound.apply_defaults()
        module, values = module_of(kernel, list(bound.arguments.values()))
        names.append(kernel.fn.__name__)
        if kernel.fn.__name__ in NOT_RUN:
            emulator.llvm_of(module, amd, **options)
        else:
            run_amd(module, values, grid(bound.arguments) if callable(grid) else grid, **options)

    monkeypatch.setattr(JITFunction, "__getitem__", lambda self, grid: lambda *x, **more: launch(self, grid, x, more))
    monkeypatch.setattr(JITFunction, "warmup", lambda self, *args, **kwargs: None)
    return names


@pytest.mark.parametrize("name", collection.CASES)
def test_collection(launched, name):
    made, wanted = collection.CASES[name]()
    assert launched
    pairs = zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]
    for x, y in pairs:
        tolerance = 1e-2 if x.dtype.itemsize < 4 else 2e-3
        np.testing.assert_allclose(x.astype(np.float64), y, rtol=tolerance, atol=2e-4)
