"""Loop-carried sums that only gather the products of one dot: they need not move while the loop runs."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.core import Block, Op
from ....ir.rewrite import uses


def held_sums(body: Block) -> Iterator[tuple[int, Op]]:
    """(position among the carried values, dot) of those that only gather the products of one dot."""
    found = [(k, y) for k, y in enumerate(body.yields) if type(y) is Op and y.kind.mma and len(y.operands) > 2]
    if not found:
        return
    count = uses(body)
    for k, dot in found:
        arg = body.args[1 + k]
        if dot.operands[2] is arg and count[arg] == count[dot] == 1:
            yield k, dot
