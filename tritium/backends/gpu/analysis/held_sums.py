"""Loop-carried sums that only gather the products of one dot: they need not move while the loop runs."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.core import Block, Op, Value, walk
from ....ir.rewrite import uses
from .. import ops as gpu_ops


def carried_sums(dot: Op) -> Value:
    """The sums that a dot adds to, whether they are cleared first or not."""
    acc = dot.operands[2]
    return acc.operands[0] if type(acc) is Op and acc.kind is gpu_ops.cleared else acc


def held_sums(body: Block) -> Iterator[tuple[int, Op]]:
    """(position among the carried values, dot) of those that only gather the products of one dot. Branches may wait for
    it and read them."""
    found = [(k, y) for k, y in enumerate(body.yields) if type(y) is Op and y.kind.mma and len(y.operands) > 2]
    if not found:
        return
    count = uses(body)
    for k, dot in found:
        arg, acc = body.args[1 + k], dot.operands[2]
        alone = carried_sums(dot) is arg and count[arg] == count.get(acc, 1) == 1
        if alone and count[dot] == 1 + sum(op.operands[0] is dot for op in _waits(body)):
            yield k, dot


def _waits(body: Block) -> list[Op]:
    """The waits for dots in branches of a loop."""
    return [op for branch in body.ops for region in branch.regions for op in walk(region)
            if op.kind is gpu_ops.dot_wait]  # fmt: skip
