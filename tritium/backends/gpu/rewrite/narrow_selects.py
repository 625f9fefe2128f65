"""Choices among integers of 64 bits that fit in 32: GPUs have registers of 32 bits, and take two for each.

    %2 = select %c, %x, %y : i64        %x and %y are constants, widened integers, or such choices

    %2 = select %c, %a, %b : i32
    %3 = cast %2 {to=i64} : i64

Inductor counts in 64 bits, also positions in a window. What compares such integers, or casts them to fewer bits, takes
the narrow ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.simplify import full, number

if TYPE_CHECKING:
    from ....ir.core import Module, Value


@each_function
def narrow_selects(module: Module) -> Module:
    """Choose among integers of 32 bits where they are known to be.

    >>> from tritium.ir.text import parse_module
    >>> print(narrow_selects(parse_module('''kernel @f(%c: i1, %d: i1) {
    ...   %0 = constant {value=1, type=i64} : i64
    ...   %1 = constant {value=2, type=i64} : i64
    ...   %2 = select %c, %0, %1 : i64
    ...   %3 = select %d, %2, %0 : i64
    ...   %4 = cast %3 {to=i8} : i8
    ...   print %4 {prefix=""}
    ... }''')), end="")
    kernel @f(%c: i1, %d: i1) {
      %2 = constant {value=1, type=i32} : i32
      %3 = constant {value=2, type=i32} : i32
      %4 = select %c, %2, %3 : i32
      %5 = select %d, %4, %2 : i32
      %6 = cast %5 {to=i8} : i8
      print %6 {prefix=""}
    }
    """
    if ops.select not in module.kinds:
        return module
    made = sweep(module, _narrowed)
    return module if made is module else dce(made)


def _narrowed(b: Rewriter, op: Op) -> Value | None:
    if op.kind is ops.select:
        condition, *choices = op.operands
        if T.element(op.type) is not T.i64:
            return None
        narrow = [_narrow(x) for x in choices]
        if None in narrow:
            return None
        chosen = b.emit_as_is(ops.select, (condition, *(make(b) for make in narrow if make)))
        return ops.cast(b, chosen, to=T.i64)
    compares = op.kind.elementwise and len(op.operands) == 2 and T.element(op.type) is T.i1
    if compares and T.element(op.operands[0].type) is T.i64:
        narrow = [_narrow(x) for x in op.operands]
        if None in narrow or not any(_is_widened_choice(x) for x in op.operands):
            return None
        return b.emit_as_is(op.kind, [make(b) for make in narrow if make], op.attrs)
    if op.kind is ops.cast and _is_widened_choice(op.operands[0]):
        to = op.attrs["to"]
        narrow = op.operands[0].operands[0]
        if type(to) is T.Scalar and to.is_int and to is not T.i1 and to.bits <= 32:
            return narrow if to is T.i32 else b.emit_as_is(ops.cast, (narrow,), op.attrs)
    return None


def _narrow(x: Value) -> Callable[[Rewriter], Value] | None:
    """What makes the integer of 32 bits that one of 64 bits was widened from, or could be; None if there is none."""
    value = number(x)
    if value is not None:
        return (lambda b: full(b, value, T.with_element(x.type, T.i32))) if -(1 << 31) <= value < 1 << 31 else None
    if type(x) is not Op or x.kind is not ops.cast or T.element(x.operands[0].type) is not T.i32:
        return None
    return lambda b: x.operands[0]


def _is_widened_choice(x: Value) -> bool:
    """True for what a narrowed choice became."""
    match x:
        case Op(ops.cast, (Op(ops.select, _),)):
            return T.element(x.type) is T.i64 and T.element(x.operands[0].type) is T.i32
    return False


__all__ = ["narrow_selects"]
