"""Leave a program at once that has nothing to store.

    mask = splat (program_id < n)                   if program_id < n:
    x = load p, mask, 0                     ->        x = load p
    s = reduce x {add}                                s = reduce x {add}
    store q, s, mask                                  store q, s

Where a program has a row to itself, its mask is one condition for all elements. Programs beyond the last row, for which
it is off, are rare or there are none. The others then compute without masks: what is reduced needs no selects, and
weights of rows are constants.
"""

from __future__ import annotations

from collections.abc import Iterator

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Value, walk
from ....ir.rewrite import Rewriter, substitute
from ....passes.dce import dce
from ....passes.simplify import apply_rules


def leave_early(module: Module) -> Module:
    """Exit early from programs whose stores are all masked off by one scalar condition.

    >>> from tritium.ir.text import parse_module
    >>> print(leave_early(parse_module('''kernel @f(%p: ptr<f32>, %x: tile<8xf32>, %n: i32) {
    ...   %0 = program_id {axis=0} : i32
    ...   %1 = lt %0, %n : i1
    ...   %2 = reduce %x {axis=0} : f32 {
    ...   ^(%a: f32, %b: f32):
    ...     %3 = add %a, %b : f32
    ...     yield %3
    ...   }
    ...   store %p, %2, %1
    ... }''')), end="")
    kernel @f(%p: ptr<f32>, %x: tile<8xf32>, %n: i32) {
      %3 = program_id {axis=0} : i32
      %4 = lt %3, %n : i1
      if %4 {
        %5 = reduce %x {axis=0} : f32 {
        ^(%a: f32, %b: f32):
          %8 = add %a, %b : f32
          yield %8
        }
        store %p, %5
        yield
      } {
        yield
      }
    }
    """
    if not any(kind.combines for kind in module.kinds) or any(kind.mma for kind in module.kinds):
        return module
    made = list(walk(module.body))
    condition = _deciding(module, [op for op in made if not op.regions and op.kind.effects_of(op) == "write"])
    if condition is None:
        return module
    at = module.body.ops.index(condition) + 1
    b = Rewriter(apply_rules)
    b.arguments = list(module.args)
    for op in module.body.ops[:at]:
        b.place(op)
    with b.region() as inside:
        substitute(b, Block((), module.body.ops[at:]), (), {condition: ops.constant(b, value=True, type=T.i1)})
        ops.yield_(b)
    with b.region() as outside:
        ops.yield_(b)
    b.emit_as_is(ops.if_, (condition,), {}, (inside.block, outside.block))
    return dce(module.replace(body=b.finish()))


def _deciding(module: Module, writes: list[Op]) -> Op | None:
    """The first scalar condition of the kernel's body without which nothing is written; None if there is none."""
    masks = [op.mask for op in writes if op.kind is ops.store and op.mask is not None]
    if not writes or len(masks) < len(writes):
        return None
    common = set.intersection(*(set(_conditions(mask)) for mask in masks))
    return next((op for op in module.body.ops if op in common), None)


def _conditions(mask: Value) -> Iterator[Value]:
    """The scalars that a mask is the conjunction of, as far as they are known."""
    if type(mask.type) is not T.Tile:
        yield mask
    if type(mask) is Op and (mask.kind.view or mask.kind is ops.and_):
        for x in mask.operands:
            yield from _conditions(x)
