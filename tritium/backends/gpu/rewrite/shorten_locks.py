"""Conversions before locks: what a program brings into a locked section in another layout is brought before it waits.

    while atomic_cas p, 0, 1: nothing        y = convert exp x
    y = convert exp x                        while atomic_cas p, 0, 1: nothing
    store q, load q + y                ->    store q, load q + y
    atomic p, 0 {how="xchg"}                 atomic p, 0 {how="xchg"}

A conversion stands where its result is used, and what is converted is computed there: registers are written when they
are asked for. Behind a lock all others wait meanwhile, also for the barriers of the conversion.
"""

from __future__ import annotations

from .... import ops
from ....ir.core import Block, Module, Op, closure, op_of, walk
from ....ir.rewrite import Rewriter
from .. import ops as gpu_ops


def shorten_locks(module: Module) -> Module:
    """Move conversions in front of the loop that waits for a lock, if they need nothing of what it protects."""
    if ops.while_ not in module.kinds or gpu_ops.convert not in module.kinds:
        return module
    return _Rewriter(lambda b, op: None).module(module)


class _Rewriter(Rewriter):
    """Reorders the ops of every block."""

    def rewrite(self, block: Block) -> None:
        found = block.ops
        for lock in filter(_waits, block.ops):
            k = found.index(lock)
            moved = _movable(found[k + 1 :])
            found = (*found[:k], *moved, *(op for op in found[k:] if op not in moved))
        super().rewrite(Block(block.args, found))


def _waits(op: Op) -> bool:
    """True for a loop that goes on until another program has written something."""
    return op.kind is ops.while_ and any(inner.kind.atomic for region in op.regions for inner in walk(region))


def _movable(behind: tuple[Op, ...]) -> tuple[Op, ...]:
    """Of the ops between a lock and the atomic op that opens it, those that convert what is known before."""
    ends = [k for k, op in enumerate(behind) if op.kind.atomic]
    inside = set(behind[: ends[0]]) if ends else set()
    found: set[Op] = set()
    for op in inside:
        needed = {*closure([op], lambda x: inside.intersection(map(op_of, x.operands)))}
        if op.kind is gpu_ops.convert and all(x.kind.rematerializable or x.kind is op.kind for x in needed):
            found |= needed
    return tuple(op for op in behind if op in found)
