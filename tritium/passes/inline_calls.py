"""Put the bodies of functions in place of their calls: for targets that cannot call, or had better not."""

from __future__ import annotations

from .. import ops
from ..ir import types as T
from ..ir.core import callees_first
from ..ir.rewrite import ERASE, substitute, sweep


def inline_calls(module, wanted=lambda function: True):
    """The module without calls of `wanted` functions, and with only those functions that are still called.

    >>> from tritium.ir.text import parse_module
    >>> print(inline_calls(parse_module('''kernel @f(%x: i32) {
    ...   %0 = call %x {callee="twice", returns=(i32,)} : i32
    ...   print %0 {prefix=""}
    ... }
    ... function @twice(%x: i32) {
    ...   %0 = add %x, %x : i32
    ...   yield %0
    ... }''')), end="")
    kernel @f(%x: i32) {
      %1 = add %x, %x : i32
      print %1 {prefix=""}
    }
    """
    if not module.functions:
        return module
    chosen = {}

    def rule(b, op):
        body = chosen.get(op.attrs["callee"]) if op.kind is ops.call else None
        return None if body is None else substitute(b, body, op.operands) or ERASE

    kept = []
    for function in callees_first(module):
        function = sweep(function, rule)
        if wanted(function):
            chosen[function.name] = function.body
        else:
            kept.append(function)
    return sweep(module, rule).replace(functions=kept)


def has_tiles(function):
    """Whether tiles go into a function or come out of it: most targets pass scalars only."""
    return any(T.shape(x.type) for x in (*function.args, *function.body.yields))
