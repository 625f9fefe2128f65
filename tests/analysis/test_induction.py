"""Inductions: what a loop adds to a value that it carries."""

import pytest

from tritium.analysis.induction import steps
from tritium.analysis.ranges import Derivations
from tritium.ir.text import parse_module


def loop_of(*lines, start="%n", t="i32"):
    """The module of a loop that carries one value, %x, from `start` on; the lines compute its next one, %next."""
    return parse_module(f"""kernel @f(%n: i32, %s: i32, %p: ptr<f32>) {{
      %0 = constant {{value=0, type=i32}} : i32
      %1 = constant {{value=1, type=i32}} : i32
      %2 = for %0, %n, %1, {start} : {t} {{
      ^(%i: i32, %x: {t}):
        {'''
        '''.join(lines)}
        yield %next
      }}
    }}""")


def found_in(module):
    body = module.body.ops[-1].regions[0]
    found = steps(body.args[1], body.yields[0])
    return None if found is None else [(getattr(step.value, "name", ""), step.sign) for step in found]


@pytest.mark.parametrize("lines, wanted", [
    (["%next = add %x, %s : i32"], [("s", 1)]),
    (["%next = add %s, %x : i32"], [("s", 1)]),
    (["%next = sub %x, %s : i32"], [("s", -1)]),
    (["%next = sub %s, %x : i32"], None),
    (["%a = sub %x, %n : i32", "%next = add %s, %a : i32"], [("s", 1), ("n", -1)]),
    (["%next = mul %x, %s : i32"], None),
    (["%a = add %s, %s : i32", "%b = add %a, %a : i32", "%next = add %b, %b : i32"], None),
])  # fmt: skip
def test_steps(lines, wanted):
    assert found_in(loop_of(*lines)) == wanted


def test_pointers_that_a_loop_advances():
    module = loop_of("%a = addptr %x, %s : ptr<f32>", "%next = addptr %a, %i : ptr<f32>", start="%p", t="ptr<f32>")
    loop = module.body.ops[-1]
    carried = module.found_by(Derivations).carried(loop.regions[0].args[1])
    assert carried.start is module.args[2] and [step.operands[1].name for step in carried.steps] == ["i", "s"]
    assert module.found_by(Derivations).carried(loop) is carried


def test_floats_are_no_inductions():
    module = parse_module("kernel @f(%x: f32) {\n %0 = add %x, %x : f32\n}")
    assert steps(module.args[0], module.body.ops[0]) is None
