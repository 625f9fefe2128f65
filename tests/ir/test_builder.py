"""The builder emits ops with inferred types, and never the same value twice."""

import pytest

from tritium import ops
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.text import parse_module
from tritium.ir.verify import verify


def constant(b, value, t=T.i32):
    return ops.constant(b, value=value, type=t)


def test_equal_pure_ops_are_one():
    b = Builder()
    x = b.argument(T.i32, "x")
    assert ops.add(b, x, constant(b, 2)) is ops.add(b, x, constant(b, 2))
    assert len(b.finish().ops) == 2


def test_operands_that_commute_may_be_swapped():
    b = Builder()
    x, y = b.argument(T.i32), b.argument(T.i32)
    assert ops.add(b, x, y) is ops.add(b, y, x)
    assert ops.sub(b, x, y) is not ops.sub(b, y, x)


@pytest.mark.parametrize("one, other", [(0.0, -0.0), (1, True), (1, 1.0), (float("inf"), float("-inf"))])
def test_constants_are_told_apart_by_their_bits(one, other):
    b = Builder()
    assert b.emit(ops.constant, (), {"value": one, "type": T.f32}) is not \
        b.emit(ops.constant, (), {"value": other, "type": T.f32})


def test_constants_are_told_apart_by_type_but_not_by_object():
    b = Builder()
    assert constant(b, 1, T.i32) is not constant(b, 1, T.i64)
    assert constant(b, float("nan"), T.f32) is constant(b, float("nan"), T.f32)


def test_attributes_belong_to_the_value():
    b = Builder()
    x = b.argument(T.i32)
    assert ops.splat(b, x, shape=(4,)) is ops.splat(b, x, shape=(4,))
    assert ops.splat(b, x, shape=(4,)) is not ops.splat(b, x, shape=(8,))
    assert ops.hint(b, x, divisible=(4,)) is not ops.hint(b, x, contiguous=(4,))


def test_results_of_one_op_are_told_apart():
    b = Builder()
    x = b.argument(T.Tile((4, 2), T.i32))
    first, second = ops.split(b, x)
    assert ops.add(b, first, first) is not ops.add(b, second, second)
    assert ops.sub(b, first, second) is ops.sub(b, *ops.split(b, x))


def test_effects_are_never_merged():
    b = Builder()
    p = b.argument(T.Ptr(T.i32))
    assert ops.load(b, p) is not ops.load(b, p)
    asm = {"asm": "", "constraints": "=r", "types": (T.i32,), "pack": 1}
    assert b.emit(ops.inline_asm, (), {**asm, "pure": True}) is b.emit(ops.inline_asm, (), {**asm, "pure": True})
    assert b.emit(ops.inline_asm, (), {**asm, "pure": False}) is not b.emit(ops.inline_asm, (), {**asm, "pure": False})


def test_a_region_sees_outer_values_and_keeps_its_own():
    b = Builder()
    x = b.argument(T.i32, "x")
    outer = ops.add(b, x, x)
    with b.region([T.i32]) as first:
        assert ops.add(b, x, x) is outer
        inner = ops.mul(b, x, x)
        ops.yield_(b, inner)
    with b.region([T.i32]) as second:
        assert ops.mul(b, x, x) is not inner
        ops.yield_(b, second.args[0])
    assert [len(r.block.ops) for r in (first, second)] == [2, 2]
    assert ops.mul(b, x, x) is not inner


def test_a_block_outside_of_the_open_region_grows():
    b = Builder()
    x = b.argument(T.i32, "x")
    with b.region() as region:
        inner = ops.add(b, x, x)
        with b.outside(1):
            outer = ops.mul(b, x, x)
            assert ops.add(b, x, x) is not inner
        assert ops.mul(b, x, x) is outer and ops.add(b, x, x) is inner
        ops.yield_(b)
    assert [op.kind for op in region.block.ops] == [ops.add, ops.yield_]
    assert [op.kind for op in b.finish().ops] == [ops.mul, ops.add]


def test_a_region_left_open_is_an_error():
    b = Builder()
    with b.region():
        with pytest.raises(RuntimeError, match="still open"):
            b.finish()


def test_wrong_operands_and_attributes_are_refused():
    b = Builder()
    x = b.argument(T.i32)
    with pytest.raises(TypeError, match="operands differ"):
        ops.add(b, x, constant(b, 1.0, T.f32))
    with pytest.raises(TypeError, match="no attribute 'axes'"):
        ops.program_id(b, axes=0)


def test_what_is_built_prints_and_parses():
    b = Builder()
    x = b.argument(T.Ptr(T.f32), "x", divisible=16)
    one, n = constant(b, 1), constant(b, 8)
    with b.region([T.i32, T.f32], ["i", "acc"]) as body:
        ops.yield_(b, ops.add(b, body.args[1], ops.load(b, ops.addptr(b, x, body.args[0]))))
    total = ops.for_(b, constant(b, 0), n, one, constant(b, 0.0, T.f32), regions=(body.block,))
    ops.store(b, x, total)
    module = verify(Module("sum", b.finish(), {"num_warps": 4}))
    assert str(parse_module(str(module))) == str(module)
