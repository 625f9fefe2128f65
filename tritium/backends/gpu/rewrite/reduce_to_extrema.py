"""Reductions to the largest or the smallest element, or NaN if there is one, by the instruction for it.

    reduce x { (a > b or a is NaN) ? a : b }        ->      reduce x { max_nan a, b }

Inductor writes them with comparisons. The order of a reduction is open, and so is which of two zeros is left.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value
from ....ir.rewrite import Rewriter, sweep
from ....passes.functions import each_function

_EXTREMA = {ops.gt: ops.max_nan, ops.lt: ops.min_nan}
_WITH_INSTRUCTION = (T.f16, T.bf16, T.f32)


@each_function
def reduce_to_extrema(module: Module) -> Module:
    """Reduce to the largest or smallest element, or NaN, by one instruction for two elements.

    >>> from tritium.ir.text import parse_module
    >>> print(reduce_to_extrema(parse_module('''kernel @f(%x: tile<8xf32>) {
    ...   %0 = reduce %x {axis=0} : f32 {
    ...   ^(%a: f32, %b: f32):
    ...     %1 = gt %a, %b : i1
    ...     %2 = ne %a, %a : i1
    ...     %3 = or %1, %2 : i1
    ...     %4 = select %3, %a, %b : f32
    ...     yield %4
    ...   }
    ... }''')), end="")
    kernel @f(%x: tile<8xf32>) {
      %1 = reduce %x {axis=0} : f32 {
      ^(%a: f32, %b: f32):
        %4 = max_nan %a, %b : f32
        yield %4
      }
    }
    """
    return sweep(module, _by_instruction) if ops.reduce in module.kinds else module


def _by_instruction(b: Rewriter, op: Op) -> Value | None:
    if op.kind is not ops.reduce or len(op.operands) > 1 or T.element(op.operands[0].type) not in _WITH_INSTRUCTION:
        return None
    x, y = op.regions[0].args
    match op.regions[0].yields[0]:
        case Op(ops.select, (Op(ops.or_, (Op(kind, (a, c)), Op(ops.ne, (d, e)))), f, g)) if kind in _EXTREMA:
            if (a, c, d, e, f, g) == (x, y, x, x, x, y):
                with b.region([x.type, y.type], [x.name, y.name]) as inner:
                    ops.yield_(b, _EXTREMA[kind](b, *inner.args))
                return b.emit_as_is(ops.reduce, op.operands, op.attrs, [inner.block])
    return None
