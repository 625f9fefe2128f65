"""Dots with few results, which no MMA computes, become sums of products.

    c = dot a, b, c        ->        c = c + sum(a[:, :, None] * b[None, :, :], axis=1)

Threads compute a dot by its results: with fewer of these than threads, most threads compute what others do, and each
reads whole rows and columns from shared memory. As a sum the products are dealt to all threads, where the operands are.
It comes after `reduce_late`: sums of products that a loop carries would take more registers than their reductions cost.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value
from ....ir.rewrite import Rewriter, sweep
from ..target import Target


def sum_small_dots(target: Target) -> Callable[[Module], Module]:
    """The pass that writes dots with few results as sums."""

    def sum_small_dots(module: Module) -> Module:
        """Write dots that threads compute as sums of products, if they have few results."""
        if ops.dot not in module.kinds:
            return module
        warps = module.attrs.get("num_warps", 4)
        threads = warps * target.warp_size

        def rule(b: Rewriter, op: Op) -> Value | None:
            if op.kind is not ops.dot or op.type.element is not T.f32:
                return None
            a, c = (x.type for x in op.operands[:2])
            results, deep = op.type.numel, a.shape[-1]
            few = results <= _RESULTS * threads and results * deep <= _PRODUCTS * threads
            if not few or max(op.type.shape[-2:]) > _SIDE or deep < target.warp_size:
                return None
            if not (a.element.is_float and c.element.is_float):
                return None
            has_mma = target.mma.accumulator(a, c, op.type, op.attrs["precision"], warps) is not None
            return None if has_mma else _sum(b, op)

        return sweep(module, rule)

    return sum_small_dots


_RESULTS, _PRODUCTS = 2, 256  # the most for each thread
_SIDE = 8  # rows and columns of a matrix at most: an element of a larger one is read for more of them


def _sum(b: Rewriter, dot: Op) -> Value:
    left, right, total = dot.operands
    *batch, rows, deep = left.type.shape
    shape = (*batch, rows, deep, dot.type.shape[-1])
    wide = lambda x: ops.cast(b, x, to=T.f32)
    spread = lambda x, axis: ops.broadcast(b, ops.expand_dims(b, wide(x), axis=axis), shape=shape)
    products = ops.mul(b, spread(left, len(shape) - 1), spread(right, len(batch)))
    with b.region([T.f32, T.f32]) as region:
        ops.yield_(b, ops.add(b, *region.args))
    return ops.add(b, total, ops.reduce(b, products, axis=len(shape) - 2, regions=(region.block,)))
