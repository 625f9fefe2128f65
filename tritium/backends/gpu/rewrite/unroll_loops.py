"""Unroll short loops: a small constant trip count, and a small total body.

    for i in 0, 6144, 2048:          acc = acc + load p + (0 + arange), 0 + arange < 5000
      x = load p + (i + arange), i + arange < 5000            ->        ... twice more, for 2048 and 4096
      acc = acc + x

The loads of all iterations are then in flight at once. The index is a constant, so branches of the first iteration
fold, and `apply_ranges` finds the masks of iterations within bounds to hold.

Loops with dots are left to the software pipeline, and those that ask for stages to `prefetch_loads`. Loops with a
`loop_unroll_factor` are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Value, walk
from ....ir.rewrite import substitute, sweep
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.regions import trip_count
from ....passes.simplify import apply_rules

if TYPE_CHECKING:
    from ....ir.builder import Builder
    from ..cost_model import CostModel


def unroll_loops(lanes: int, cost: CostModel) -> Callable[[Module], Module]:
    """The pass that unrolls short loops of known length, for warps of `lanes` lanes; `cost` has the limits.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> from tritium.ir.text import parse_module
    >>> print(unroll_loops(32, NvTarget.of(90).cost)(parse_module('''kernel @f(%p: ptr<i32>) {
    ...   %0 = constant {value=0, type=i32} : i32
    ...   %1 = constant {value=2, type=i32} : i32
    ...   %2 = constant {value=1, type=i32} : i32
    ...   for %0, %1, %2 {
    ...   ^(%i: i32):
    ...     %3 = addptr %p, %i : ptr<i32>
    ...     store %3, %i
    ...     yield
    ...   }
    ... }''')), end="")
    kernel @f(%p: ptr<i32>) {
      %1 = constant {value=0, type=i32} : i32
      %2 = constant {value=1, type=i32} : i32
      store %p, %1
      %3 = addptr %p, %2 : ptr<i32>
      store %3, %2
    }
    """

    @each_function
    def unroll_loops(module: Module) -> Module:
        """Write out short loops of known length."""
        if ops.for_ not in module.kinds:
            return module
        threads = lanes * module.attrs.get("num_warps", 4)
        if not any(_is_short(op, threads, cost) for op in walk(module.body)):
            return module
        rule = lambda b, op: _unrolled(b, op) if _is_short(op, threads, cost) else apply_rules(b, op)
        return dce(sweep(module, rule))

    return unroll_loops


def _is_short(op: Op, threads: int, cost: CostModel) -> bool:
    trips = trip_count(op)
    if not trips or trips > cost.unrolled_trips:
        return False
    if op.attrs["num_stages"] is not None or op.attrs["unroll"] is not None:
        return False
    body = op.regions[0]
    return not any(map(_has_loops, walk(body))) and trips * _work(body, threads, cost) <= cost.unrolled_work


def _has_loops(op: Op) -> bool:
    return op.kind.loop or op.kind.mma or op.kind is ops.call


def _work(block: Block, threads: int, cost: CostModel) -> int:
    """The approximate number of element operations per thread in a block."""
    return sum(_weight(op, cost) * max([1, *(T.numel(t) // threads for t in op.types)]) for op in walk(block))


def _weight(op: Op, cost: CostModel) -> int:
    if op.kind.cost == "free" or op.kind.terminator:
        return 0
    return cost.slow_operations if op.kind.elementwise and op.kind.cost == "slow" else 1


def _unrolled(b: Builder, op: Op) -> tuple[Value, ...]:
    """The results of the loop."""
    index, values = op.operands[0].type, op.operands[3:]
    first, _, step = (x.attrs["value"] for x in op.operands[:3])
    for k in range(trip_count(op) or 0):
        values = substitute(b, op.regions[0], (ops.constant(b, value=first + k * step, type=index), *values))
    return tuple(values)

