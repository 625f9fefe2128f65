"""Reductions that a loop accumulates are done once, behind the loop.

    for i in 0, n, 2048:                          for i in 0, n, 2048:
      x = load p + (i + arange)                     x = load p + (i + arange)
      total = total + sum(x)                ->      parts = parts + x
                                                  total = sum(parts)

A reduction takes shuffles, shared memory and a barrier in each iteration, and as many additions. Threads add up their
own elements of a row first, as many as one access loads. A tile with other axes is carried whole, if a thread may hold
it (`CostModel.held_bytes`). Loops with dots have their sums joined by `join_sums`, in the layout of the dots.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, walk
from ....passes.functions import each_function
from ..cost_model import CostModel
from .carried_reductions import Carried, Parts, carried_reductions, keep_apart


def reduce_late(lanes: int, cost: CostModel) -> Callable[[Module], Module]:
    """The pass that takes reductions out of loops, for warps of `lanes` lanes.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%x: tile<256xi32>, %p: ptr<i32>, %n: i32) {
    ...   %0 = constant {value=0, type=i32} : i32
    ...   %1 = constant {value=1, type=i32} : i32
    ...   %2 = for %0, %n, %1, %0 : i32 {
    ...   ^(%i: i32, %total: i32):
    ...     %3 = reduce %x {axis=0} : i32 {
    ...     ^(%a: i32, %b: i32):
    ...       %4 = add %a, %b : i32
    ...       yield %4
    ...     }
    ...     %5 = add %total, %3 : i32
    ...     yield %5
    ...   }
    ...   store %p, %2
    ... }''')
    >>> [(op.kind.name, str(op.type)) for op in reduce_late(32, NvTarget.of(90).cost)(m).body.ops[-3:-1]]
    [('for', 'tile<128xi32>'), ('reduce', 'i32')]
    """

    @each_function
    def reduce_late(module: Module) -> Module:
        """Accumulate tiles in loops, and reduce them behind the loops."""
        if ops.for_ not in module.kinds or ops.reduce not in module.kinds:
            return module
        threads = lanes * module.attrs.get("num_warps", 4)
        loops = [op for op in walk(module.body) if op.kind is ops.for_]
        return keep_apart(module, {op: _found(op, threads, cost) for op in loops})

    return reduce_late


def _found(loop: Op, threads: int, cost: CostModel) -> list[Carried]:
    """The reductions of a loop whose parts a thread may hold, all together."""
    inside = [*walk(loop.regions[0])]
    if any(op.kind.mma or op.kind is ops.call for op in inside):
        return []
    loaded = [T.element(op.type).bytes for op in inside if op.kind is ops.load]
    of_access = ACCESS // min(loaded, default=ACCESS)
    left = cost.held_bytes

    def parts_of(reduction: Op) -> Parts | None:
        nonlocal left
        x, axis = reduction.operands[0].type, reduction.attrs["axis"]
        held, groups = max(1, T.numel(x) // threads), 1
        while len(x.shape) == 1 and held > of_access:
            held, groups = held // 2, groups * 2
        if held * x.element.bytes > left:
            return None
        left -= held * x.element.bytes
        return groups, x.shape[axis] // groups, 1

    return carried_reductions(loop, parts_of)


ACCESS = 16  # bytes of the widest access of a thread
