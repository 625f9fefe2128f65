"""Programs as users of Triton write them: torch tensors, compiled for the CPU or for a GPU, or run as Python."""

import pytest
import torch

from tests import on_gpu
from tests.language.coverage.engines import ENGINES, cuda
from tritium import knobs


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Compile fast rather than for speed: these tests ask whether programs run and are right."""
    monkeypatch.setattr(knobs, "cpu_opt", 0)


CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["cpu", "eager", CUDA])
def run(request):
    """`run(kernel, grid, *args, **options)`: a launch compiled for the CPU, one as plain Python, one on the GPU."""
    if request.param == "cuda":
        return lambda kernel, grid, *args, **options: on_gpu.launch(kernel, grid, args, options)
    if request.param == "cpu":
        return lambda kernel, grid, *args, **options: kernel[grid](*args, **options)
    from tritium.interp.eager import launch

    return lambda kernel, grid, *args, **options: launch(kernel, grid, args, options)


HOST_ONLY = pytest.mark.parametrize("run", ["cpu", "eager"], indirect=True)  # for tables of the host's addresses


@pytest.fixture(params=[*ENGINES, CUDA])
def engine(request):
    """`engine(kernel, args, grid)`: as plain Python, as interpreted IR, as machine code; `args` are positional."""
    return cuda if request.param == "cuda" else ENGINES[request.param]


def emulated(kernel, args, grid=(1,)):
    """The compiler's GPU code without a GPU."""
    from tests.backends.gpu.modules import module_of
    from tritium.insight import emulator

    module, values = module_of(kernel, args)
    emulator.run(module, values, grid)


@pytest.fixture(params=[*ENGINES, "emulated", CUDA])
def anywhere(request):
    """As `engine`, also on the emulated GPU."""
    return {**ENGINES, "emulated": emulated, "cuda": cuda}[request.param]


def close(x, y, tol=2e-5):
    torch.testing.assert_close(x.float(), y.float(), rtol=tol, atol=tol)
