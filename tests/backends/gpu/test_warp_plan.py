"""Plans of warp specialization: what they decide, read off the plan before anything is emitted."""

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.backends.gpu.modules import module_of
from tests.backends.gpu.test_program_order import triangle
from tests.backends.gpu.test_small_products import arrays, product, tiles_with_bias
from tritium import passes
from tritium.backends.gpu.pipeline import warp_plan
from tritium.backends.gpu.pipeline.specialize_warps import specialize_warps
from tritium.backends.gpu.pipeline.warp_plan import Lengths, plans_of, refusal
from tritium.backends.nvptx.isa.target import NvTarget

HOPPER = NvTarget.of(90)


def prepared(kernel, args, warps=4, stages=3, **attrs):
    module = passes.run(module_of(kernel, args)[0], passes.CLEANUP)
    asked = {"num_warps": warps, "num_stages": stages, "launch_checks": True}
    return module.replace(attrs={**module.attrs, **asked, **attrs})


def tiles(columns, k):
    x, y, _ = arrays(128, 256, k)
    return [x, y, np.arange(256, dtype=np.float32), np.zeros((128, 256), np.float16), 256, k, 64, columns, 64]


@pytest.mark.parametrize(("block", "stages", "slots"), [(16, 2, 6), (64, 2, 6), (64, 3, 6), (16, 20, 24)])
def test_slots(block, stages, slots):
    """At least four, and as many as leave room for as many blocks; more if they are asked for."""
    module = prepared(product, [*arrays(64, 64, 4 * block), 64, 64, 4 * block, block], 4, stages)
    (plan,) = plans_of(module, HOPPER).plans
    assert plan.slots == slots


def test_results_in_pieces_leave_room_for_two_blocks():
    """Four slots beside a whole result of 64 kB would leave a multiprocessor to one block."""
    module = prepared(product, [*arrays(128, 128, 128), 128, 128, 128, 32])
    (plan,) = plans_of(module, HOPPER).plans
    assert plan.roles.extra == 4 and plan.slots == 5


def test_two_stages_do_not_speak_for_copies():
    """A plan is compared with copies by the slots it has, not by the stages that were asked for."""
    (plan,) = plans_of(prepared(product, [*arrays(128, 128, 128), 128, 128, 128, 32], 8, 2), HOPPER).plans
    assert plan.slots > 4


@pytest.mark.parametrize(("kernel", "extra"), [(product, 1), (tiles_with_bias, 4)])
def test_loads_beside_sums_take_registers(kernel, extra):
    """Two blocks of five warps have 168 registers a thread: 128 sums leave 40, too few for a bias."""
    args = tiles(256, 512) if kernel is tiles_with_bias else [*arrays(64, 256, 512), 64, 256, 512, 32]
    plan, *_ = plans_of(prepared(kernel, args), HOPPER).plans
    assert plan.roles.extra == extra


@pytest.mark.parametrize(("columns", "k", "persistent", "extra"), [(128, 512, False, 1), (128, 448, True, 4),
                                                                   (64, 512, True, 1)])
def test_persistence_and_registers(columns, k, persistent, extra):
    (plan,) = plans_of(prepared(tiles_with_bias, tiles(columns, k)), HOPPER).plans
    assert plan.persistent == persistent and plan.ends_with_last_loop != persistent
    assert plan.reads_one_axis == persistent and plan.roles.extra == extra
    assert plan.roles.first == (plan.roles.consumers if extra == 1 else plan.roles.launched)


def test_warps_find_registers_in_their_quarter_of_the_multiprocessor():
    """Two blocks of five warps would have 200 registers a thread by a sum, and find room with 168: a single extra warp
    is no gain then."""
    (plan,) = plans_of(prepared(tiles_with_bias, tiles(256, 512), stages=2), HOPPER).plans
    assert plan.roles.extra == 4


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("from_index", [False, True])
def test_the_axis_that_decides_lengths(axis, from_index):
    a, b = (np.zeros((256, 256), np.float16) for _ in range(2))
    c = np.zeros((256, 256), np.float32)
    found = plans_of(prepared(triangle, [a, b, c, axis, from_index, 64]), HOPPER)
    (plan, *_) = found.plans
    assert plan.lengths == Lengths(axis, not from_index) and not plan.reads_one_axis


@pytest.mark.parametrize(("attrs", "why"), [({"num_warps": 2}, "it has 2 warps"), ({"maxnreg": 64}, "`maxnreg`"),
                                            ({"num_stages": 1}, "1 stage")])
def test_refusals(attrs, why):
    module = prepared(product, [*arrays(64, 64, 256), 64, 64, 256, 64], **attrs)
    assert why in refusal(module, HOPPER).why and not plans_of(module, HOPPER).plans
    assert specialize_warps(module, HOPPER) is module


def test_a_module_is_planned_once():
    module = prepared(product, [*arrays(64, 64, 256), 64, 64, 256, 64])
    plans = plans_of(module, HOPPER)
    specialize_warps(module, HOPPER)
    assert plans_of(module, HOPPER) is plans


@pytest.mark.parametrize("name", ["lifted_kernel", "producer_loop", "producer_work", "warp_plan"])
def test_decisions_emit_nothing(name):
    """A decision is no part of the code that is emitted: it imports neither the builder nor the emitters."""
    tree = ast.parse((Path(warp_plan.__file__).with_name(f"{name}.py")).read_text())
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert imported.isdisjoint({"ir.builder", "slots", "producer", "consumer", "programs", "specialize_warps"})
