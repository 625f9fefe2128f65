"""Loops over blocks count elements instead.

    for i in 0, (n + 1023) / 1024, 1:               for s in 0, n, 1024:
      c = i * 1024 + arange                 ->        c = s + arange
      x = load p + c, c < n                           x = load p + c, c < n

The bound of the loop is then the bound of its masks, so `unroll_loops` knows which iterations need none. Loops that use
their index for anything else stay as they are, and so do those with dots, which `simplify_induction` serves.
"""

from __future__ import annotations

from .... import ops
from ....analysis.arithmetic import constant_of
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from ....passes.functions import each_function


@each_function
def scale_induction(module: Module) -> Module:
    """Count elements in loops over blocks of them.

    >>> from tritium.ir.text import parse_module
    >>> print(scale_induction(parse_module('''kernel @f(%p: ptr<i32>, %n: i32) {
    ...   %0 = constant {value=0, type=i32} : i32
    ...   %1 = constant {value=1, type=i32} : i32
    ...   %2 = constant {value=63, type=i32} : i32
    ...   %3 = constant {value=64, type=i32} : i32
    ...   %4 = add %n, %2 : i32
    ...   %5 = div %4, %3 : i32
    ...   for %0, %5, %1 {
    ...   ^(%i: i32):
    ...     %6 = mul %i, %3 : i32
    ...     %7 = addptr %p, %6 : ptr<i32>
    ...     store %7, %6
    ...     yield
    ...   }
    ... }''')), end="")
    kernel @f(%p: ptr<i32>, %n: i32) {
      %2 = constant {value=0, type=i32} : i32
      %3 = constant {value=63, type=i32} : i32
      %4 = constant {value=64, type=i32} : i32
      %5 = add %n, %3 : i32
      %6 = ge %5, %n : i1
      %7 = select %6, %n, %2 : i32
      for %2, %7, %4 {
      ^(%i: i32):
        %9 = addptr %p, %i : ptr<i32>
        store %9, %i
        yield
      }
    }
    """
    if ops.for_ not in module.kinds or ops.div not in module.kinds:
        return module
    found = {op: count for op in walk(module.body) if op.kind is ops.for_ and (count := _elements(op)) is not None}
    if not found:
        return module
    indices = {op.regions[0].args[0] for op in found}

    def rule(b: Rewriter, op: Op) -> Value | tuple[Value, ...] | None:
        if op.kind is ops.mul and any(x in indices for x in op.operands):
            return next(x for x in op.operands if x in indices)
        if b.original not in found or op.kind is not ops.for_:
            return None
        elements, padded = (b.value(x) for x in found[b.original])
        lo, hi, _, *values = op.operands
        # If the sum overflowed, there were no blocks.
        bound = ops.select(b, ops.ge(b, padded, elements), elements, lo)
        made = b.place(Op(ops.for_, (lo, bound, hi.operands[1], *values), op.attrs, op.types, op.regions, op.loc))
        return made.results

    return dce(sweep(module, rule))


def _elements(loop: Op) -> tuple[Value, Value] | None:
    """(n, n + b - 1) of a loop over the blocks of b elements in n, whose index is only multiplied by b; else None."""
    lo, hi, step = loop.operands[:3]
    if constant_of(lo) != 0 or constant_of(step) != 1 or not lo.type.signed:
        return None
    if type(hi) is not Op or hi.kind is not ops.div or loop.attrs["num_stages"] or loop.attrs["unroll"]:
        return None
    padded, size = hi.operands[0], constant_of(hi.operands[1])
    elements = None if size is None or size < 2 else _without(padded, size - 1)
    body = loop.regions[0]
    inside = [*walk(body)]
    if elements is None or any(op.kind.mma for op in inside):
        return None
    index = body.args[0]
    scaled = lambda op: op.kind is ops.mul and {constant_of(x) for x in op.operands if x is not index} == {size}
    return (elements, padded) if all(scaled(op) for op in inside if index in op.operands) else None


def _without(x: Value, number: int) -> Value | None:
    """y, if `x` is y plus a number; it may be added in two steps, as size and -1."""
    while type(x) is Op and x.kind in (ops.add, ops.sub):
        left, right = x.operands
        added = constant_of(right)
        if added is None:
            return None
        number -= added if x.kind is ops.add else -added
        x = left
        if number == 0:
            return x
    return None
