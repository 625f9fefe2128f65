"""Flatten branches in loops around dots: both sides are computed, and a select takes the results of one.

    for i:                                    for i:
      s = dot(q, load k(i))                     s = dot(q, load k(i))
      if i + 64 > n:                    ->      t = where(i + arange < n, s, -inf)
        s = where(i + arange < n, s, -inf)      s = select(i + 64 > n, t, s)

A select is cloned by its operands, as addresses of later iterations need, and the threads of a warp do not wait at it.
Branches are flattened if they are without effects, loops, dots, calls and divisions, and small. `guard_masks` later
puts masks that few iterations need behind branches again. Outside of loops, branches that choose among a few scalars
are flattened, such as `if program < rest: tiles += 1`: bounds of loops then depend on no branch.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, walk
from ....ir.rewrite import effects, sweep
from ....passes.branches import flat
from ....passes.dce import dce
from ....passes.simplify import apply_rules
from ..pipeline.loop_info import stages_of

MOST = 64  # ops of both sides: what is computed in vain should be little beside a dot
MOST_SCALARS = 4  # the same for scalars outside of loops: they cost as much as the branch


def flatten_branches(module: Module) -> Module:
    """Replace branches in pipelined loops around dots by selects, where both sides can be computed.

    >>> from tritium.ir.text import parse_module
    >>> module = parse_module('''kernel @f(%x: tile<16x16xf16>, %s: tile<16x16xf32>, %n: i32) {num_stages=3} {
    ...   %0 = constant {value=1, type=i32} : i32
    ...   %1 = for %0, %n, %0, %s : tile<16x16xf32> {
    ...   ^(%i: i32, %sum: tile<16x16xf32>):
    ...     %2 = dot %x, %x, %sum {precision="ieee"} : tile<16x16xf32>
    ...     %3 = eq %i, %n : i1
    ...     %4 = if %3 : tile<16x16xf32> {
    ...       %5 = exp %2 : tile<16x16xf32>
    ...       yield %5
    ...     } {
    ...       yield %2
    ...     }
    ...     yield %4
    ...   }
    ...   print %1 {prefix=""}
    ... }''')
    >>> [op.kind.name for op in walk(flatten_branches(module).body)]
    ['constant', 'for', 'dot', 'eq', 'exp', 'splat', 'select', 'yield', 'print']
    """
    if ops.if_ not in module.kinds or not any(kind.mma for kind in module.kinds):
        return module
    found = {branch for loop in walk(module.body) if loop.kind is ops.for_ and stages_of(loop, module) > 1
             for branch in _branches(loop.regions[0])}  # fmt: skip
    found |= {op for op in module.body.ops if op.kind is ops.if_ and _chooses_scalars(op)}
    if not found:
        return module
    rule = lambda b, op: flat(b, op) if op.kind is ops.if_ and b.original in found else apply_rules(b, op)
    return dce(sweep(module, rule))


def _branches(body: Block) -> list[Op]:
    """The branches of a loop around dots that can be flattened."""
    return [op for op in body.ops if op.kind is ops.if_ and _is_pure(op)] if any(op.kind.mma for op in body.ops) else []


def _chooses_scalars(branch: Op) -> bool:
    """True for a branch that gives nothing but scalars, in a few ops."""
    return bool(branch.types) and not any(map(T.shape, branch.types)) and _is_pure(branch, MOST_SCALARS)


def _is_pure(branch: Op, most: int = MOST) -> bool:
    inner = [op for region in branch.regions for op in walk(region) if not op.kind.terminator]
    able = not any(op.kind.control_flow or op.kind.mma or op.kind is ops.call or effects(op) for op in inner)
    return able and len(inner) <= most and not any(op.kind in (ops.div, ops.rem) for op in inner)
