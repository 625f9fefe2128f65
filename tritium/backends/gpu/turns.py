"""Two groups of warps take turns at the tensor cores.

Attention multiplies, computes exponentials, and multiplies again. If all warps do so at once, the tensor cores wait for
the exponentials; if two groups take turns, one multiplies while the other computes:

    group 0   QK            softmax         PV QK           softmax         PV QK
    group 1            QK            softmax         PV QK           softmax

A turn begins before the product that runs on into the next round and ends when the next round's first one is under way.
Who holds a turn must not wait for the other group, so nothing in between may need all warps to meet.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import walk
from . import ops as gpu_ops
from .layout import conversion
from .lower import layout_of

GROUPS = 2
WARPS = 8  # of both
ROWS = 64  # of a result, that one group multiplies by itself


def take_turns(jobs, warps):
    """True if loops gain by it: each has a dot whose result is computed with before the next, which runs on."""
    return warps == WARPS and all(map(_two_dots, jobs))


def _two_dots(job):
    plan = job.plan
    if plan.late is None or len(plan.dots) != 2 or len(job.groups) != 2:
        return False
    first, second = plan.dots
    if any(dot.type.shape[0] < GROUPS * ROWS for dot in plan.dots):
        return False
    runs_on = plan.body.yields[plan.late] is second and plan.follows_other_dot(second, second)
    return runs_on and plan.reads_in_place(first, "b")


def turns_are_kept(module):
    """True if no warp that holds a turn in a module with layouts waits for those of the other group."""
    return all(_block_is_quiet(block) for block in _blocks(module.body))


def _blocks(block):
    yield block
    for op in walk(block):
        yield from op.regions


def _block_is_quiet(block):
    """Between `take_turn` and `pass_turn`, on from the end of a loop's body to its start too."""
    marks = [op for op in block.ops if op.kind in _MARKS]
    if not marks:
        return True
    held = marks[0].kind is gpu_ops.pass_turn
    for op in block.ops:
        if op.kind in _MARKS:
            held = op.kind is gpu_ops.take_turn
        elif held and not _has_marks(op) and not _quiet(op):
            return False
    return True


def _has_marks(op):
    """True for a loop in which turns are passed on and taken: it is looked at by itself."""
    return any(inner.kind in _MARKS for region in op.regions for inner in region.ops)


_MARKS = (gpu_ops.take_turn, gpu_ops.pass_turn)
_ALONE = (gpu_ops.await_phase, gpu_ops.arrive, gpu_ops.dot_shared, gpu_ops.dot_wait, ops.load, *_MARKS)


def _quiet(op):
    """True if every warp does this for itself."""
    if op.kind is gpu_ops.convert:
        return conversion(layout_of(op.operands[0]), layout_of(op)) in ("same", "registers")
    if op.kind is ops.if_:
        return all(map(_quiet, (inner for region in op.regions for inner in region.ops)))
    if op.kind in _ALONE or op.kind.terminator:
        return True
    scalar = not any(type(t) is T.Tile for t in (*op.types, *(x.type for x in op.operands)))
    return not op.kind.effects and not op.regions and (scalar or op.kind.elementwise or op.kind in _MOVED)


_MOVED = (ops.splat, ops.arange, ops.expand_dims, ops.broadcast, ops.trans, ops.reshape)


__all__ = ["GROUPS", "WARPS", "take_turns", "turns_are_kept"]
