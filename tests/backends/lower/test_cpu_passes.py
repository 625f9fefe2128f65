"""The CPU's own passes on small modules: the file names the pass, a case is input and output (see tests/cases.py)."""

from pathlib import Path

import pytest

from tests import cases
from tritium.backends.compiler import GPUTarget
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify
from tritium.passes import PASSES, name_of
from tritium.tools.pass_registry import steps

FOLDER = Path(__file__).parent / "cpu_passes"


def passes_of():
    """The CPU's own passes by name. Those of the step `cpu` are common ones, which have tests of their own."""
    shared = {*map(name_of, PASSES), "legalize", "cpu"}
    return {name: step for name, step in steps(GPUTarget("cpu", "graniterapids", 1)).items() if name not in shared}


@pytest.mark.parametrize("case", cases.parameters(FOLDER))
def test_case(case, request):
    module = verify(parse_module(case.kernel))
    before = print_module(module)
    after = verify(passes_of()[case.path.stem].run(module, None))
    assert print_module(module) == before, "a pass changed its input"
    assert print_module(parse_module(print_module(after))) == print_module(after)
    cases.check(case, print_module(after), request.config.getoption("--update"))


def test_every_pass_has_a_file():
    assert {p.stem for p in FOLDER.glob("*.tir")} == set(passes_of())
