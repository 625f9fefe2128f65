"""Branches as selects."""

from __future__ import annotations

from .. import ops
from ..ir import types as T
from ..ir.builder import Builder
from ..ir.core import Op, Value
from ..ir.rewrite import substitute

__all__ = ["flat"]


def flat(b: Builder, branch: Op) -> tuple[Value, ...]:
    """The results of a branch, both sides computed.

    >>> from tritium.ir.rewrite import sweep
    >>> from tritium.ir.text import parse_module
    >>> module = parse_module('''kernel @f(%x: i32, %y: i32, %p: i1) {
    ...   %0 = if %p : i32 { yield %x } { yield %y }
    ...   print %0 {prefix=""}
    ... }''')
    >>> print(sweep(module, lambda b, op: flat(b, op) if op.kind is ops.if_ else None), end="")
    kernel @f(%x: i32, %y: i32, %p: i1) {
      %3 = select %p, %x, %y : i32
      print %3 {prefix=""}
    }
    """
    sides = [substitute(b, region, ()) for region in branch.regions]
    return tuple(_chosen(b, branch.operands[0], *pair) for pair in zip(*sides))


def _chosen(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    shape = T.shape(x.type)
    return ops.select(b, ops.splat(b, condition, shape=shape) if shape else condition, x, y)
