"""What the traits of an op promise, held against what the interpreter says it means."""

from pathlib import Path

import numpy as np
import pytest

from tritium.backends.gpu import ops as gpu_ops  # noqa: F401  (declares the ops of the GPU stage)
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.core import walk
from tritium.ir.opdef import KINDS, TRAITS, OpKind
from tritium.ir.text import parse_module
from tritium.tools.opt import modules

ROUNDTRIP = Path(__file__).resolve().parents[1] / "text" / "roundtrip.tir"
OPS = [op for m in modules(ROUNDTRIP.read_text(), str(ROUNDTRIP)) for f in (m, *m.functions) for op in walk(f.body)]


def of_trait(holds):
    return [pytest.param(op, id=op.kind.name) for op in {op.kind: op for op in OPS if holds(op.kind)}.values()]


def result_of(line, x):
    """The result of one op on the value `x`; pointers lead to it and to what it becomes."""
    dims = "x".join(map(str, x.shape))
    into = "x".join(map(str, line[1]))
    text = f"kernel @k(%p: ptr<i32>, %q: ptr<i32>) {{\n{addresses('p', dims)}  %x = load %pp : tile<{dims}xi32>\n" \
           f"  %y = {line[0]} : tile<{into}xi32>\n{addresses('q', into)}  store %qq, %y\n}}"
    out = np.zeros(line[1], np.int32)
    interpret(parse_module(text), [x, out])
    return out


def addresses(name, dims):
    size = np.prod([int(n) for n in dims.split("x")])
    return f"  %{name}0 = splat %{name} {{shape=({size},)}} : tile<{size}xptr<i32>>\n" \
           f"  %{name}1 = arange {{start=0, end={size}}} : tile<{size}xi32>\n" \
           f"  %{name}2 = addptr %{name}0, %{name}1 : tile<{size}xptr<i32>>\n" \
           f"  %{name}{name} = reshape %{name}2 {{shape=({dims.replace('x', ', ')},)}} : tile<{dims}xptr<i32>>\n"


VIEWS = {
    "expand_dims": ("expand_dims %x {axis=1}", (4, 1, 2)),
    "broadcast": ("broadcast %x {shape=(4, 2)}", (4, 2)),
    "reshape": ("reshape %x {shape=(2, 4)}", (2, 4)),
    "trans": ("trans %x {order=(1, 0)}", (2, 4)),
    "hint": ("hint %x {divisible=(1, 1)}", (4, 2)),
}


@pytest.mark.parametrize("name", [kind.name for kind in KINDS.values() if kind.view and kind.name != "splat"])
def test_a_view_has_the_elements_of_its_operand(name):
    x = np.arange(8, dtype=np.int32).reshape(4, 2) + 100
    assert set(result_of(VIEWS[name], x).ravel()) == set(x.ravel())


@pytest.mark.parametrize("op", of_trait(lambda kind: kind.view))
def test_a_view_has_one_operand_and_no_effect(op):
    assert len(op.operands) == len(op.types) == 1 and op.kind.effects == "" and op.kind.cost == "free"
    assert T.element(op.type) is T.element(op.operands[0].type)


@pytest.mark.parametrize("op", of_trait(lambda kind: kind.positionwise))
def test_a_positionwise_op_has_one_shape(op):
    """Its tiles, at least: a buffer's address is a scalar."""
    shapes = {T.shape(t) for t in (*op.types, *(x.type for x in op.operands)) if type(t) is T.Tile}
    assert len(shapes) <= 1


@pytest.mark.parametrize("op", of_trait(lambda kind: kind.rematerializable))
def test_what_is_rematerializable_reads_nothing_but_its_operands(op):
    assert op.kind.effects == "" and not op.kind.cross_lane


@pytest.mark.parametrize("op", [op for op in OPS if op.kind.access], ids=lambda op: op.kind.name)
def test_an_access_names_its_pointer_and_its_mask(op):
    assert T.is_ptr(op.pointer.type) and op.kind.global_memory and op.kind.effects
    masks = [x for x in op.operands if T.element(x.type) is T.i1]
    assert op.mask is None or op.mask in masks


def test_loads_and_stores_have_masks():
    masked = {op.kind.name for op in OPS if op.kind.access and op.mask is not None}
    assert masked >= {"load", "store"}


@pytest.mark.parametrize("op", of_trait(lambda kind: kind.loop))
def test_a_loop_says_where_its_carried_values_begin(op):
    carry = op.kind.loop
    assert [x.type for x in op.operands[carry.operands:]] == list(op.types)
    for region in op.regions:
        assert [x.type for x in region.args[carry.parameters:]] == list(op.types)


def test_atomics_write_memory():
    assert {kind.name for kind in KINDS.values() if kind.atomic} == {"atomic", "atomic_cas"}
    assert all(kind.writes for kind in KINDS.values() if kind.atomic)


def test_every_trait_is_held_by_some_ops_and_not_by_all():
    for trait in TRAITS:
        held = [kind for kind in KINDS.values() if getattr(kind, trait)]
        assert 0 < len(held) < len(KINDS), trait


def test_a_trait_must_exist():
    with pytest.raises(ValueError, match="op 'nothing': no trait is called sideways"):
        OpKind("nothing", infer=None, traits=("sideways",))
    assert "nothing" not in KINDS
