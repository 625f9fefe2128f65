"""A `topk` whose network would be too long becomes a `sort`, which can be a loop, and a `gather`.

    %1 = topk %0 {descending=True, k=512}             %0 has 32 elements of 64 bits in each thread
    %1 = gather (sort %0 {descending=True}), arange(0, 512)
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value
from ....ir.rewrite import Rewriter, sweep
from ..layout.linear import log2
from ..target import Target

# Comparisons of words in a thread. The assembler takes four seconds for as many, up to twenty for half as many again.
WRITTEN_OUT = 2560


def sort_topk(module: Module, target: Target) -> Module:
    """Sort all elements where the network that finds the first of them would be too long."""
    if ops.topk not in module.kinds:
        return module
    threads = module.attrs["num_warps"] * target.warp_size

    def rule(b: Rewriter, op: Op) -> Value | None:
        if op.kind is not ops.topk or comparisons(op, threads) <= WRITTEN_OUT:
            return None
        (x,) = op.operands
        shape, last = op.type.shape, len(op.type.shape) - 1
        first = ops.arange(b, start=0, end=op.attrs["k"])
        first = ops.reshape(b, first, shape=(*[1] * last, op.attrs["k"]))
        in_order = ops.sort(b, x, descending=op.attrs["descending"])
        return ops.gather(b, in_order, ops.broadcast(b, first, shape=shape), axis=last)

    return sweep(module, rule)


def comparisons(op: Op, threads: int) -> int:
    """About how many words a thread compares in a `topk`: all of its elements to sort runs, twice half of what is left
    in each step of the merges.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: tile<4096xf32>) {\\n %0 = topk %x {k=8} : tile<8xf32>\\n}")
    >>> comparisons(m.body.ops[0], 128)
    320
    """
    (x,) = op.operands
    steps = log2(op.attrs["k"])
    registers = max(1, T.numel(x.type) // threads)
    return registers * (steps * (steps + 1) // 2 + steps + 1) * -(-T.element(x.type).bits // 32)
