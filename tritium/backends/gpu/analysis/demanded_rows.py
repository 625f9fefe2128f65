"""Demanded rows: whether elements that a load reads out of bounds reach a store.

Kernels wrap their row indices, `m % M`, or take another row, `where(m < M, m, 0)`, so that the last tile reads valid
memory, and mask the rows behind the end when they store. The contents of such a row are dead: a row of a product
depends on that row of its lhs alone, a column on that column of its rhs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....analysis.polynomial import Poly, Scalars
from ....ir.core import Block, Op, Result, walk
from .affine import Access, bounds

if TYPE_CHECKING:
    from ..pipeline.schedule import Schedule


def unobserved(block: Block, loop: Op, schedule: Schedule, load: Op, axis: int, access: Access) -> bool:
    """True if elements of `load` from the `end` of an axis on reach no store. The loop around the load is an op of the
    block."""
    end = access.form.axes[axis].end
    if len(schedule.dots) != 1 or schedule.info.sum_of(schedule.dots[0]) is None:
        return False
    (dot,) = schedule.dots
    operands = [k for k, x in enumerate(dot.operands[:2]) if schedule.info.source(x)[0] is load]
    if len(operands) != 1:
        return False
    kept = 0 if operands[0] == 0 else 1  # the axis of the operand that is not summed over, and of the result
    own = 1 - kept if schedule.info.source(dot.operands[operands[0]])[1] else kept
    return axis == own and _hidden(block, Result(loop, schedule.info.sum_of(dot)), kept, end)


def _hidden(block: Block, first: Result, axis: int, end: Poly) -> bool:
    """True if every store of a value computed from `first` masks off the indices from `end` on along `axis`."""
    if len(first.op.types) == 1:
        first = first.op
    tainted, scalars = {first: axis}, Scalars()  # along which axis
    for op in block.ops:
        touched = [k for k, x in enumerate(op.operands) if x in tainted]
        if any(x in tainted for region in op.regions for inner in walk(region) for x in inner.operands):
            return False
        if not touched:
            continue
        if op.kind is ops.store:
            found = bounds(op.operands[2], scalars) if touched == [1] and len(op.operands) > 2 else None
            if found is None or not any(k == tainted[op.operands[1]] and high == end for k, _, high in found):
                return False
            continue
        axes = {tainted[op.operands[k]] for k in touched}
        if op.kind is ops.trans:
            tainted[op] = op.attrs["order"].index(*axes)
        elif op.kind.elementwise and not op.kind.effects and len(axes) == 1:
            tainted[op] = axes.pop()
        else:
            return False
    return True
