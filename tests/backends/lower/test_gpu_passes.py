"""The GPU's own passes on small modules: the file names the pass, a case is input and output (see tests/cases.py).

`# target: sm_90 warps=4 stages=3` among the comments of a case says for which machine.
"""

import re
from pathlib import Path

import pytest

from tests import cases
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.gpu import ops  # noqa: F401  (that the texts have)
from tritium.backends.gpu.rewrite.nest_loops import nest_loops
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify
from tritium.passes import PASSES, dce, name_of
from tritium.tools.pass_registry import steps

FOLDER = Path(__file__).parent / "gpu"

# What a module must say for a pass to have something to do.
ATTRS = {
    "split_clusters": {"num_ctas": 2},
    "assume_sizes": {"launch_checks": True},
    "eliminate_redundant_loads": {"launch_checks": True},
    "hoist_scales": {"launch_checks": True},
    "prefetch_loads": {"maxnreg": 63},  # a quarter of the registers is the budget
    "specialize_warps": {"launch_checks": True},
    "tma_stores": {"launch_checks": True, "producer_warps": 4},
}


def passes_of(arch, warps=4, stages=3):
    """The GPU's own passes by name."""
    target = GPUTarget("cuda", arch, 32)
    options = BaseBackend(target).parse_options({"num_warps": warps, "num_stages": stages})
    shared = {*map(name_of, PASSES), "legalize", "first_that"}
    found = {name: step for name, step in steps(target, options).items() if name not in shared}
    found["nest_loops"] = found["nest_loops"]._replace(run=lambda module, watch: nest_loops(module))  # gain or not
    return found


@pytest.mark.parametrize("case", cases.parameters(FOLDER))
def test_case(case, request):
    arch, warps, stages = re.search(r"# target: sm_(\d+) warps=(\d+) stages=(\d+)", case.given).groups()
    module = verify(parse_module(case.kernel))
    name, said = case.path.stem, {"num_warps": int(warps), "num_stages": int(stages)}
    module = module.replace(attrs={**module.attrs, **said, **ATTRS.get(name, {})})
    before = print_module(module)
    after = dce(verify(passes_of(int(arch), int(warps), int(stages))[name].run(module, None)))
    assert print_module(module) == before, "a pass changed its input"
    assert print_module(parse_module(print_module(after))) == print_module(after)
    cases.check(case, print_module(after), request.config.getoption("--update"))


@pytest.mark.parametrize("case", [case for name in ("allocate_shared", "allocate_tensor_memory", "insert_barriers")
                                  for case in cases.parameters(FOLDER, f"{name}.tir")])  # fmt: skip
def test_what_is_decided_stays_as_it_is(case):
    arch, warps = re.search(r"# target: sm_(\d+) warps=(\d+)", case.given).groups()
    decided = parse_module(case.expected)
    assert passes_of(int(arch), int(warps))[case.path.stem].run(decided, None) is decided


def test_every_pass_has_a_file():
    without = {"inline_for_gpu"}  # tested with functions
    assert {p.stem for p in FOLDER.glob("*.tir")} == set(passes_of(90)) - without
