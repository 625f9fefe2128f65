"""The cost model and the multiprocessor of a target: passes ask them, and they are the target's own."""

import ast
import dataclasses
import functools
from pathlib import Path

import pytest

from tests.backends.gpu.toy.target import TOY
from tritium.backends.gpu import cost_model
from tritium.backends.gpu.cost_model import CostModel
from tritium.backends.gpu.multiprocessor import Multiprocessor
from tritium.backends.gpu.passes import pipeline
from tritium.backends.gpu.rewrite.unroll_loops import unroll_loops
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.text import parse_module, print_module
from tritium.passes import run

FIELDS = [(file, field.name) for file, kind in (("cost_model", CostModel), ("multiprocessor", Multiprocessor))
          for field in dataclasses.fields(kind)]  # fmt: skip
FOLDER = Path(cost_model.__file__).parent
LOWER = Path(__file__).parents[1] / "lower"


def test_a_target_has_its_own():
    assert TOY.cost != NvTarget.of(90).cost
    with pytest.raises(TypeError, match="CostModel needs held_bytes, "):
        CostModel()
    with pytest.raises(dataclasses.FrozenInstanceError):
        TOY.cost.held_bytes = 0


@functools.cache
def attributes():
    """The names of all attributes that the passes use."""
    return {node.attr for path in FOLDER.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute)}  # fmt: skip


@pytest.mark.parametrize("file, name", FIELDS)
def test_every_field_is_read_and_explained(file, name):
    assert name in attributes(), f"no pass reads {name}"
    lines = (FOLDER / f"{file}.py").read_text().splitlines()
    (at,) = (k for k, line in enumerate(lines) if line.startswith(f"    {name}:"))
    shared = ("    unrolled_trips:", "    loop_instructions:")  # the reason of the next field, too
    above = next(line for line in reversed(lines[:at]) if not line.startswith(shared))
    assert above.startswith("    # ") and "---" not in above, f"{name} has no reason"


LOOP = """kernel @f(%p: ptr<i32>) {num_warps=4} {
  %0 = constant {value=0, type=i32} : i32
  %1 = constant {value=6, type=i32} : i32
  %2 = constant {value=1, type=i32} : i32
  for %0, %1, %2 {
  ^(%i: i32):
    %3 = addptr %p, %i : ptr<i32>
    store %3, %i
    yield
  }
}
"""


@pytest.mark.parametrize("trips, unrolled", [(5, False), (6, True)])
def test_short_loops_are_those_the_target_finds_short(trips, unrolled):
    made = print_module(unroll_loops(32, dataclasses.replace(TOY.cost, unrolled_trips=trips))(parse_module(LOOP)))
    assert ("for" not in made) is unrolled


def product(**rates):
    """The text of a product on a multiprocessor, after the passes for a Hopper GPU."""
    text = (LOWER / "gpu" / "specialize_warps.tir").read_text().partition("# ----\n")[0]
    module = parse_module("".join(line for line in text.splitlines(True) if not line.startswith("#")))
    module = module.replace(attrs={**module.attrs, "num_warps": 4, "num_stages": 3, "launch_checks": True})
    target = dataclasses.replace(NvTarget.of(90), multiprocessor=Multiprocessor(**rates))
    return print_module(run(module, pipeline(target)))


def test_the_target_says_how_many_registers_dots_leave():
    """A dot does not stay in flight where its results would not fit beside the rest."""
    wait = lambda text: text.count("dot_wait")
    assert wait(product()) == 1
    assert wait(product(beside_tiles=250)) == 0
