"""Ping-pong scheduling: two warpgroups alternate on the tensor cores.

Attention multiplies, computes exponentials, and multiplies again. If all warps do so at once, the tensor cores idle
during the exponentials; if two warpgroups alternate, one multiplies while the other computes:

    group 0   QK            softmax         PV QK           softmax         PV QK
    group 1            QK            softmax         PV QK           softmax

A group holds the tensor cores from the dot that stays in flight until the first dots of the next iteration are issued.
It must not wait for the other group meanwhile, and a barrier of all warps between would cost the gain. Operands are
scaled and rounded before a group waits, since the tensor cores would idle otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, walk
from .. import ops as gpu_ops
from ..layout.linear import axis_bits
from ..layout.values import layout_of
from .producer_loop import ProducerLoop
from .schedule import schedule_ping_pong
from .search import TOLERANCE


def alternating(loops: list[ProducerLoop]) -> list[ProducerLoop] | None:
    """The loops with schedules under which two warpgroups alternate; None if that is illegal or takes more cycles. If
    it takes as many, they alternate: how they would drift apart otherwise is not known."""
    found = []
    for loop in loops:
        schedule = schedule_ping_pong(loop.schedule, loop.stages)
        if schedule is None:
            return None
        found.append(loop.scheduled(schedule))
        if sum(group.first is schedule.dots[-1] for group in found[-1].groups) > 1:
            return None
    taken, otherwise = (sum(x.schedule.cycles for x in each) for each in (found, loops))
    return found if taken <= (1 + TOLERANCE) * otherwise else None


def keeps_ping_pong(module: Module) -> bool:
    """True if no warp waits for the other group while its group holds the tensor cores, in a module with layouts."""
    marked = gpu_ops.dot_shared in module.kinds or not module.kinds.isdisjoint(_MARKS)
    return not marked or all(_block_is_quiet(block) for block in _blocks(module.body))


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in walk(block):
        yield from op.regions


def _block_is_quiet(block: Block) -> bool:
    """Checks the ops between `ping_pong_wait` and `ping_pong_signal`; in a loop that alternates, all ops."""
    marks = [op for op in block.ops if _is_mark(op)]
    held = inside = any(op.kind is gpu_ops.dot_shared for op in marks)
    for op in block.ops:
        if _is_mark(op):
            held = inside or op.kind is gpu_ops.ping_pong_wait
        elif held and not _has_marks(op) and not _quiet(op):
            return False
    return True


def _is_mark(op: Op) -> bool:
    """True if an op waits for, or signals, the other group; a dot with a phase waits."""
    return op.kind in _MARKS or op.kind is gpu_ops.dot_shared and len(op.operands) > 3


def _has_marks(op: Op) -> bool:
    """True for a loop in which the groups alternate: it is checked by itself."""
    return any(_is_mark(inner) for region in op.regions for inner in region.ops)


_MARKS = (gpu_ops.ping_pong_wait, gpu_ops.ping_pong_signal)
_ALONE = (gpu_ops.mbarrier_wait, gpu_ops.mbarrier_arrive, gpu_ops.dot_shared, gpu_ops.dot_wait, gpu_ops.buffer_load,
          ops.load)  # fmt: skip


def _quiet(op: Op) -> bool:
    """True if an op does not synchronize warps."""
    if op.kind is gpu_ops.convert:
        return not op.attrs.get("shared")
    if op.kind is ops.reduce:
        low, width = axis_bits(op.operands[0].type.shape, op.attrs["axis"])
        return not any(x >> low & ((1 << width) - 1) for x in layout_of(op.operands[0]).warp)
    if op.kind is ops.if_:
        return all(map(_quiet, (inner for region in op.regions for inner in region.ops)))
    if op.kind in _ALONE or op.kind.terminator:
        return True
    scalar = not any(type(t) is T.Tile for t in (*op.types, *(x.type for x in op.operands)))
    return not op.kind.effects and not op.regions and (scalar or op.kind.elementwise or op.kind.cost == "free")
