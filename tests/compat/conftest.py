"""Programs as users of Triton write them: torch tensors, `import tritium as triton`, compiled for the CPU or eager."""

import pytest

from tests.language.coverage.engines import ENGINES
from tritium import knobs


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Compile fast rather than for speed: these tests ask whether programs run and are right."""
    monkeypatch.setattr(knobs, "cpu_opt", 0)


@pytest.fixture(params=["cpu", "eager"])
def run(request):
    """`run(kernel, grid, *args, **options)`: a launch compiled for the CPU, and one as plain Python."""
    if request.param == "cpu":
        return lambda kernel, grid, *args, **options: kernel[grid](*args, **options)
    from tritium.interp.eager import launch

    return lambda kernel, grid, *args, **options: launch(kernel, grid, args, options)


@pytest.fixture(params=ENGINES)
def engine(request):
    """`engine(kernel, args, grid)`: as plain Python, as interpreted IR, as machine code; `args` are positional."""
    return ENGINES[request.param]
