"""The verifier names the op and what is wrong with it. (Errors that text can spell are in tests/text.)"""

import pytest

from tritium import ops
from tritium.errors import InternalError
from tritium.ir import types as T
from tritium.ir.core import Arg, Block, Module, Op
from tritium.ir.text import parse_module
from tritium.ir.verify import verify


def module_of(*body, args=()):
    return Module("f", Block(args, body))


def op(kind, operands=(), types=(), regions=(), **attrs):
    return Op(kind, tuple(operands), attrs, tuple(types), tuple(regions))


X = Arg(T.i32, "x")


def test_a_module_that_holds_is_returned():
    module = parse_module("kernel @f(%x: i32) {\n  %0 = add %x, %x : i32\n}")
    assert verify(module) is module


def test_an_op_that_stands_twice():
    add = op(ops.add, (X, X), (T.i32,))
    with pytest.raises(InternalError, match="add: stands in two places"):
        verify(module_of(add, add, args=[X]))


def test_a_parameter_of_two_regions():
    i = Arg(T.i32)
    loops = [op(ops.for_, (X, X, X), (), (Block([i], [op(ops.yield_)]),), **ops.for_.defaults) for _ in range(2)]
    with pytest.raises(InternalError, match="belongs to two blocks"):
        verify(module_of(*loops, args=[X]))


def test_an_operand_with_several_values():
    tile = Arg(T.Tile((4, 2), T.i32))
    halves = op(ops.split, (tile,), (T.Tile((4,), T.i32),) * 2)
    with pytest.raises(InternalError, match="has several values: name one"):
        verify(module_of(halves, op(ops.print_, (halves,), prefix="", hex=False), args=[tile]))


def test_an_operand_without_value():
    store = op(ops.barrier)
    with pytest.raises(InternalError, match="has no value"):
        verify(module_of(store, op(ops.print_, (store,), prefix="", hex=False)))


def test_a_missing_attribute():
    with pytest.raises(InternalError, match="program_id: attribute 'axis' is missing"):
        verify(module_of(op(ops.program_id, (), (T.i32,))))


def test_a_region_that_is_not_closed():
    branch = op(ops.if_, (X,), (), (Block([], []), Block([], [op(ops.yield_)])))
    cond = Arg(T.i1)
    branch = branch.replace(operands=(cond,))
    with pytest.raises(InternalError, match="no closing yield"):
        verify(module_of(branch, args=[cond]))


def test_the_stage_allows_only_its_ops():
    module = parse_module("kernel @f(%x: i32) {\n  %0 = add %x, %x : i32\n  %1 = mul %0, %x : i32\n}")
    with pytest.raises(InternalError, match="mul: not allowed at this stage"):
        verify(module, allow={ops.add})


def test_the_pass_is_named():
    module = module_of(op(ops.add, (X, X), (T.f32,)), args=[X])

    def step(module): ...
    step.__module__ = "tritium.passes.simplify"
    with pytest.raises(InternalError, match=r"add: has types \(f32,\), its rule says \(i32,\) \(after pass simplify\)"):
        verify(module, made_by=step)
