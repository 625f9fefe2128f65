"""The GPU's own passes on small modules: the file names the pass, a case is input and output (see tests/cases.py).

`# target: sm_90 warps=4 stages=3` among the comments of a case says for which machine.
"""

import re
from pathlib import Path

import pytest

from tests import cases
from tritium.backends.gpu.cluster.split import split_blocks
from tritium.backends.gpu.layout.assign import assign_layouts
from tritium.backends.gpu.pipeline.prefetch import load_ahead
from tritium.backends.gpu.pipeline.software_pipeline import pipeline_loops
from tritium.backends.gpu.pipeline.specialize_warps import specialize_warps
from tritium.backends.gpu.pipeline.tma_stores import store_boxes
from tritium.backends.gpu.rewrite.hoist_scales import unscale_extremes
from tritium.backends.gpu.rewrite.redundant_loads import load_once
from tritium.backends.gpu.rewrite.simplify_induction import scalar_steps
from tritium.backends.gpu.rewrite.split_dots import split_dots
from tritium.backends.gpu.rewrite.swap_operands import turn_dots
from tritium.backends.gpu.rewrite.unroll_loops import unroll_loops
from tritium.backends.nvptx.isa import mma, tma, wgmma
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.text import parse_module, print_module
from tritium.ir.verify import verify
from tritium.passes import dce
from tritium.passes.apart import packed
from tritium.passes.axis_info import analyze

FOLDER = Path(__file__).parent / "gpu"


def _overtaking(step, module):
    """What `step(module, apart)` makes, with a note of what it takes to be apart."""
    pairs = [] if module.attrs.get("launch_checks") else None
    made = step(module, pairs)
    return made.replace(attrs={**made.attrs, "overtaken": packed(pairs)}) if pairs else made


def _pipeline(module, nv):
    can = mma.abilities(nv, analyze(module), module.attrs["num_warps"])
    return _overtaking(lambda module, apart: pipeline_loops(module, can, apart=apart), module)


def _load_ahead(module, nv):
    return _overtaking(lambda module, apart: load_ahead(module, 16, apart), module)


def _specialize(module, nv):
    abilities = lambda module: mma.abilities(nv, analyze(module, []), module.attrs["num_warps"])
    return specialize_warps(module, abilities, tma.engine(nv))


def _assign(module, nv):
    return assign_layouts(module, mma.dot_layout(nv), wgmma.layouts, fragments=mma.fragments(nv))


def _split(module, nv):
    return split_dots(module, mma.multiplies(nv, module.attrs["num_warps"]))


def _turn(module, nv):
    return turn_dots(module, lambda module: mma.abilities(nv, analyze(module), module.attrs["num_warps"]))


def _load_once(module, nv):
    return load_once(module, lambda module: mma.abilities(nv, analyze(module), module.attrs["num_warps"]), [])


PASSES = {
    "load_ahead": _load_ahead,
    "load_once": _load_once,
    "turn_dots": _turn,
    "split_blocks": lambda module, nv: split_blocks(module, 2),
    "split_dots": _split,
    "unscale_extremes": lambda module, nv: unscale_extremes(module, []),
    "unroll_loops": lambda module, nv: unroll_loops(module),
    "scalar_steps": lambda module, nv: scalar_steps(module),
    "pipeline_loops": _pipeline,
    "specialize_warps": _specialize,
    "store_boxes": lambda module, nv: store_boxes(module, tma.engine(nv), len(module.args)),
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
