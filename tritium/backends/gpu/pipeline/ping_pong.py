"""Two groups of warps take turns at the tensor cores.

Attention multiplies, computes exponentials, and multiplies again. If all warps do so at once, the tensor cores wait for
the exponentials; if two groups take turns, one multiplies while the other computes:

    group 0   QK            softmax         PV QK           softmax         PV QK
    group 1            QK            softmax         PV QK           softmax

A turn begins before the product that runs on into the next round and ends when those that the next round begins with
are under way. Who holds a turn must not wait for the other group, and there is nothing to be gained if all warps have
to meet between turns. What can be done before a turn is done by then: scaling and rounding would keep the tensor cores
waiting.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import walk
from .. import ops as gpu_ops
from ..layout.linear import axis_bits, conversion
from ..layout.values import layout_of

GROUPS = 2
WARPS = 8  # of both
ROWS = 64  # of a result, that one group multiplies by itself


def take_turns(jobs, warps):
    """True if loops gain by it: each begins with dots whose results are computed with before the last, which runs
    on."""
    return warps == WARPS and all(map(_has_turns, jobs))


def _has_turns(job):
    plan, (*openers, last) = job.plan, job.plan.dots
    if len(plan.late) != 1 or not plan.is_late(last) or not plan.follows_other_dot(last, last):
        return False
    if len(openers) != max(1, len(plan.early)) or not all(map(plan.can_begin, openers)):
        return False
    wide = all(dot.type.shape[0] >= GROUPS * ROWS for dot in plan.dots)
    return wide and sum(group.first is last for group in job.groups) <= 1


def keeps_ping_pong(module):
    """True if no warp waits for those of the other group from its first turn of a loop to its last, in a module with
    layouts."""
    return all(_block_is_quiet(block) for block in _blocks(module.body))


def _blocks(block):
    yield block
    for op in walk(block):
        yield from op.regions


def _block_is_quiet(block):
    """Around a loop from `ping_pong_wait` to `ping_pong_signal`; within it, all of it."""
    marks = [op for op in block.ops if _is_mark(op)]
    held = inside = any(op.kind is gpu_ops.dot_shared for op in marks)
    for op in block.ops:
        if _is_mark(op):
            held = inside or op.kind is gpu_ops.ping_pong_wait
        elif held and not _has_marks(op) and not _quiet(op):
            return False
    return True


def _is_mark(op):
    """True if a turn is taken or passed on; a dot that waits for a phase takes one."""
    return op.kind in _MARKS or op.kind is gpu_ops.dot_shared and len(op.operands) > 3


def _has_marks(op):
    """True for a loop in which turns are passed on and taken: it is looked at by itself."""
    return any(_is_mark(inner) for region in op.regions for inner in region.ops)


_MARKS = (gpu_ops.ping_pong_wait, gpu_ops.ping_pong_signal)
_ALONE = (gpu_ops.mbarrier_wait, gpu_ops.mbarrier_arrive, gpu_ops.dot_shared, gpu_ops.dot_wait, ops.load)


def _quiet(op):
    """True if every warp does this for itself."""
    if op.kind is gpu_ops.convert:
        return conversion(layout_of(op.operands[0]), layout_of(op)) in ("same", "registers")
    if op.kind is ops.reduce:
        low, width = axis_bits(op.operands[0].type.shape, op.attrs["axis"])
        return not any(x >> low & ((1 << width) - 1) for x in layout_of(op.operands[0]).warp)
    if op.kind is ops.if_:
        return all(map(_quiet, (inner for region in op.regions for inner in region.ops)))
    if op.kind in _ALONE or op.kind.terminator:
        return True
    scalar = not any(type(t) is T.Tile for t in (*op.types, *(x.type for x in op.operands)))
    return not op.kind.effects and not op.regions and (scalar or op.kind.elementwise or op.kind in _MOVED)


_MOVED = (ops.splat, ops.arange, ops.expand_dims, ops.broadcast, ops.trans, ops.reshape)


__all__ = ["keeps_ping_pong", "take_turns"]
