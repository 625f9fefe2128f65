"""The sweep rebuilds only what differs; copies of regions are new throughout."""

import pytest

from tritium import ops
from tritium.ir.builder import Builder
from tritium.ir.core import Module, walk
from tritium.ir.rewrite import ERASE, effects, substitute, sweep, uses
from tritium.ir.text import parse_module
from tritium.ir.verify import verify

TEXT = """kernel @f(%x: i32, %n: i32, %p: ptr<i32>) {
  %0 = add %x, %x : i32
  %1 = mul %x, %n : i32
  %2:2 = for %x, %n, %x, %0, %1 : i32, i32 {
  ^(%i: i32, %a: i32, %b: i32):
    %3 = add %a, %i : i32
    %4 = add %b, %1 : i32
    yield %3, %4
  }
  %5 = sub %2#0, %2#1 : i32
  store %p, %5
}
"""


def test_nothing_changed_is_the_same_object():
    module = parse_module(TEXT)
    assert sweep(module, lambda b, op: None) is module


def test_a_change_rebuilds_its_users_and_shares_the_rest():
    module = parse_module(TEXT)
    after = verify(sweep(module, lambda b, op: ops.xor(b, *op.operands) if op.kind is ops.mul else None))
    assert after.body.ops[0] is module.body.ops[0]
    assert [op.kind for op in after.body.ops] == [ops.add, ops.xor, ops.for_, ops.sub, ops.store]
    assert after.body.ops[2].regions[0].ops[0] is module.body.ops[2].regions[0].ops[0]
    assert "xor" not in str(module)


def test_what_a_rule_emits_is_given_to_the_rule():
    """add -> sub -> mul in one sweep."""
    steps = {ops.add: ops.sub, ops.sub: ops.mul}
    module = parse_module("kernel @f(%x: i32) {\n  %0 = add %x, %x : i32\n  print %0 {prefix=\"\"}\n}\n")
    after = sweep(module, lambda b, op: steps[op.kind](b, *op.operands) if op.kind in steps else None)
    assert [op.kind for op in after.body.ops] == [ops.mul, ops.print_]


def test_several_results_are_replaced_one_by_one():
    module = parse_module(TEXT)
    after = verify(sweep(module, lambda b, op: op.operands[3:] if op.kind is ops.for_ else None))
    assert str(after.body.ops[-2]) == str(module.body.ops[-2]) and after.body.ops[-2].operands[0].kind is ops.add


def test_an_op_can_be_erased():
    module = parse_module(TEXT)
    after = sweep(module, lambda b, op: ERASE if op.kind is ops.store else None)
    assert [op.kind for op in after.body.ops] == [ops.add, ops.mul, ops.for_, ops.sub]


def test_equal_ops_are_merged_inside_regions_too():
    module = parse_module("""kernel @f(%x: i32, %c: i1) {
      %0 = add %x, %x : i32
      if %c {
        %1 = add %x, %x : i32
        print %1 {prefix=""}
        yield
      } {
        yield
      }
      print %0 {prefix=""}
    }""")
    after = verify(sweep(module, lambda b, op: None))
    assert [op.kind for op in after.body.ops[1].regions[0].ops] == [ops.print_, ops.yield_]


def test_substitute_copies_with_new_parameters_and_ops():
    module = parse_module("""kernel @f(%x: i32, %n: i32) {
      for %x, %n, %x {
      ^(%i: i32):
        %0 = for %x, %n, %x, %i : i32 {
        ^(%j: i32, %a: i32):
          %1 = mul %x, %x : i32
          %2 = add %a, %1 : i32
          yield %2
        }
        print %0 {prefix=""}
        yield
      }
    }""")
    body = module.body.ops[0].regions[0]
    b = Builder()
    x, n = b.arguments = list(module.args)
    substitute(b, body, [x])
    substitute(b, body, [n])
    twice = verify(Module("twice", b.finish()))     # the verifier refuses an op that stands in two places
    old = {*walk(body)}
    assert [op.kind.name for op in twice.body.ops] == ["for", "print", "for", "print"]
    assert not old & {*walk(twice.body)}
    assert twice.body.ops[0].operands[3] is x and twice.body.ops[2].operands[3] is n


def test_uses_count_operands_everywhere():
    module = parse_module(TEXT)
    counts = uses(module.body)
    x = module.args[0]
    assert counts[x] == 2 + 1 + 2 and counts[module.body.ops[1]] == 2 and counts[module.body.ops[2]] == 2


@pytest.mark.parametrize("inner, wanted", [("", ""), ("%9 = load %p : i32", "read"), ("store %p, %i", "write"),
                                           ("%9 = load %p {volatile=True} : i32", "write")])
def test_effects_of_a_loop_are_those_of_its_body(inner, wanted):
    module = parse_module(f"""kernel @f(%p: ptr<i32>, %n: i32) {{
      for %n, %n, %n {{
      ^(%i: i32):
        {inner}
        yield
      }}
    }}""")
    assert effects(module.body.ops[0]) == wanted


def test_kinds_are_those_of_regions_too_and_of_one_module():
    module = parse_module("kernel @f(%c: i1, %x: i32) { if %c { print %x {prefix=\"\"} yield } { yield } }")
    assert {kind.name for kind in module.kinds} == {"if", "print", "yield"}
    assert module.kinds is module.kinds
    swept = sweep(module, lambda b, op: ERASE if op.kind is ops.if_ else None)
    assert swept.kinds == frozenset()
