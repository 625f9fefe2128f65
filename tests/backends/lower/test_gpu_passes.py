"""The GPU's own passes on small modules: the file names the pass, a case is input and output (see tests/cases.py).

`# target: sm_90 warps=4 stages=3` among the comments of a case says for which machine.
"""

import re
from pathlib import Path

import pytest

from tests import cases
from tritium.backends.gpu.cluster.split import split_clusters
from tritium.backends.gpu.layout.assign import assign_layouts
from tritium.backends.gpu.pipeline.prefetch import prefetch_loads
from tritium.backends.gpu.pipeline.software_pipeline import software_pipeline
from tritium.backends.gpu.pipeline.specialize_warps import specialize_warps
from tritium.backends.gpu.pipeline.tma_stores import tma_stores
from tritium.backends.gpu.rewrite.hoist_scales import hoist_scales
from tritium.backends.gpu.rewrite.redundant_loads import eliminate_redundant_loads
from tritium.backends.gpu.rewrite.simplify_induction import simplify_induction
from tritium.backends.gpu.rewrite.split_dots import split_dots
from tritium.backends.gpu.rewrite.swap_operands import swap_operands
from tritium.backends.gpu.rewrite.unroll_loops import unroll_loops
from tritium.backends.nvptx.isa import mma, tma, wgmma
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify
from tritium.passes import dce
from tritium.passes.alias import packed
from tritium.passes.axis_info import analyze

FOLDER = Path(__file__).parent / "gpu"


def _reordering(step, module):
    """The result of `step(module, pairs)`, with its preconditions as an attribute."""
    pairs = [] if module.attrs.get("launch_checks") else None
    made = step(module, pairs)
    return made.replace(attrs={**made.attrs, "reordered": packed(pairs)}) if pairs else made


def _pipeline(module, nv):
    can = mma.capabilities(nv, analyze(module), module.attrs["num_warps"])
    return _reordering(lambda module, pairs: software_pipeline(module, can, pairs=pairs), module)


def _prefetch(module, nv):
    return _reordering(lambda module, pairs: prefetch_loads(module, 16, pairs), module)


def _specialize(module, nv):
    capabilities = lambda module: mma.capabilities(nv, analyze(module, []), module.attrs["num_warps"])
    return specialize_warps(module, capabilities, tma.support(nv))


def _assign(module, nv):
    return assign_layouts(module, mma.dot_layout(nv), wgmma.layouts, fragments=mma.fragments(nv))


def _split(module, nv):
    return split_dots(module, mma.multiplies(nv, module.attrs["num_warps"]))


def _swap(module, nv):
    return swap_operands(module, lambda module: mma.capabilities(nv, analyze(module), module.attrs["num_warps"]))


def _redundant_loads(module, nv):
    capabilities = lambda module: mma.capabilities(nv, analyze(module), module.attrs["num_warps"])
    return eliminate_redundant_loads(module, capabilities, [])


PASSES = {
    "prefetch_loads": _prefetch,
    "eliminate_redundant_loads": _redundant_loads,
    "swap_operands": _swap,
    "split_clusters": lambda module, nv: split_clusters(module, 2),
    "split_dots": _split,
    "hoist_scales": lambda module, nv: hoist_scales(module, []),
    "unroll_loops": lambda module, nv: unroll_loops(module),
    "simplify_induction": lambda module, nv: simplify_induction(module),
    "software_pipeline": _pipeline,
    "specialize_warps": _specialize,
    "tma_stores": lambda module, nv: tma_stores(module, tma.support(nv), len(module.args)),
    "assign_layouts": _assign,
}


@pytest.mark.parametrize("case", cases.parameters(FOLDER))
def test_case(case, request):
    arch, warps, stages = re.search(r"# target: sm_(\d+) warps=(\d+) stages=(\d+)", case.given).groups()
    module = verify(parse_module(case.kernel))
    module = module.replace(attrs={**module.attrs, "num_warps": int(warps), "num_stages": int(stages)})
    before = print_module(module)
    after = dce(verify(PASSES[case.path.stem](module, NvTarget.of(arch))))
    assert print_module(module) == before, "a pass changed its input"
    assert print_module(parse_module(print_module(after))) == print_module(after)
    cases.check(case, print_module(after), request.config.getoption("--update"))


def test_every_pass_has_a_file():
    assert {p.stem for p in FOLDER.glob("*.tir")} == set(PASSES)
