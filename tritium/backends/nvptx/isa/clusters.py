"""The blocks of a cluster: who they are, where they meet, and what they read from each other's shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ....ir import types as T
from ...gpu import ops as gpu_ops
from ...gpu.layout.values import layout_of
from ...gpu.lower.function import llvm_type
from ...gpu.lower.shared_memory import Passage
from ...gpu.lower.words import to_memory
from ...gpu.shared_memory.needs import SCRATCH_ALIGNMENT, Need, Room, takes_shared
from . import shared_memory

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.numbering import NumberingWriter
    from ...llvm.writer import Val
    from .target import NvLowering


def _gather_need(op: Op, room: Room) -> Need:
    """The registers of all threads, as many at a time as there is room for: `together` is their bytes in a thread."""
    registers = [layout.registers if (layout := layout_of(x)) else 1 for x in op.operands]
    waiting, together = _waiting(op, registers), (room.bytes - SCRATCH_ALIGNMENT) // room.threads
    trips = []
    while waiting:
        here, waiting = _that_fit(waiting, together)
        trips.append(room.threads * sum(size for *_, size in here))
    return Need([max(trips)], attrs={"together": together} if len(trips) > 1 else {})


@takes_shared(_gather_need, leaves="")
def cluster_all_gather(g: NvLowering, op: Op, *values: Sequence[Val]) -> tuple[list[Val], ...]:
    """Every thread leaves its registers in its own block's memory, then reads those of its like in the other blocks."""
    w, threads, blocks = g.w, g.threads, op.attrs["blocks"]
    types = [T.element(x.type) for x in op.operands]
    outs: list[list[Any]] = [[None] * (len(x) * len(blocks)) for x in values]
    waiting, passage = _waiting(op, map(len, values)), Passage(g, op)
    while waiting:
        here, waiting = _that_fit(waiting, op.attrs["together"]) if "together" in op.attrs else (waiting, [])
        (base,) = passage.bases
        passage.before_write()
        places = []
        for k, r, size in here:
            offset = w.binary("mul", g.place("thread"), g.int(size))
            places.append((k, r, offset, base))
            pointer, x = g.shared.pointer(g, offset, base), to_memory(w, types[k], values[k][r])
            w.effect(f"store {x.typed}, {pointer.typed}, align {size}")
            base += threads * size
        shared_memory.cluster_barrier(g)
        for n, block in enumerate(blocks):
            for k, r, offset, start in places:
                there = shared_memory.address_in_block(g, g.shared.pointer(g, offset), g.int(block))
                found = shared_memory.load_from_block(g, there, start, 8 * types[k].bytes)
                outs[k][n * len(values[k]) + r] = _as_value(w, found, types[k])
        shared_memory.cluster_barrier(g)  # nobody writes or goes while it is read
    return tuple(outs)


def _waiting(op: Op, registers: Iterable[int]) -> list[tuple[int, int, int]]:
    """(operand, register, bytes) of every register of a thread; `registers` counts them by operand."""
    sizes = [T.element(x.type).bytes for x in op.operands]
    return [(k, r, size) for k, (count, size) in enumerate(zip(registers, sizes)) for r in range(count)]


def _that_fit(waiting: list[tuple[int, int, int]],
              room: int) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """(the first registers that fit in `room` bytes, one at least; the rest)."""
    count, used = 0, 0
    while count < len(waiting) and (not count or used + waiting[count][2] <= room):
        used += waiting[count][2]
        count += 1
    return waiting[:count], waiting[count:]


def _as_value(w: NumberingWriter, x: Val, t: T.Scalar | T.Ptr) -> Val:
    """A value from the bits that memory holds."""
    kind = llvm_type(t)
    if type(t) is T.Ptr or t is T.i1:
        return w.cast("inttoptr" if type(t) is T.Ptr else "trunc", x, kind)
    return x if x.type == kind else w.cast("bitcast", x, kind)


LOWER = {
    gpu_ops.block_rank: lambda g, op: [shared_memory.block_rank(g)],
    gpu_ops.cluster_barrier: lambda g, op: shared_memory.cluster_barrier(g),
    gpu_ops.cluster_all_gather: cluster_all_gather,
}
