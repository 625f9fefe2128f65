"""The shared-memory budget: whether the buffers of a module with layouts, and the scratch of its conversions, fit."""

from __future__ import annotations

from ....ir.core import walk
from .. import ops as gpu_ops
from ..layout.swizzle import cuts
from ..layout.values import scratch_of

ALIGNMENT = 1024  # of buffers, at most


def fits_shared_memory(module, target):
    """True if the scratch of every conversion fits beside the live buffers, or nothing is buffered: fewer stages would
    not help.

    Reductions and the like are not counted: they need little.
    """
    buffered = any(op.kind is gpu_ops.multibuffer for op in walk(module.body))
    return not buffered or _fits(module.body, [], target.shared_bytes)


def _fits(block, alive, shared_bytes):
    """Buffers are allocated in stack order; `alive` are (address, bytes) of those in use."""
    for op in block.ops:
        alive += [(x, -(-size // ALIGNMENT) * ALIGNMENT) for x, size in zip(op.results, _buffers(op))]
        if op.kind is gpu_ops.release:
            first = [k for k, (address, _) in enumerate(alive) if address == op.operands[0]]
            del alive[first[0] if first else len(alive) :]
        room = shared_bytes - sum(size for _, size in alive)
        if room < 0 or _scratch(op, room) > room:
            return False
        if not all(_fits(region, alive, shared_bytes) for region in op.regions):
            return False
    return True


def _scratch(op, room):
    """Bytes of scratch of an op, if `room` bytes are free."""
    if op.kind is gpu_ops.convert:
        return scratch_of(op, room)
    if op.kind is gpu_ops.tma_store:
        tile = op.operands[0].type
        return _bytes(tile) >> len(cuts(tile, op.attrs["axis"], room)[0])
    return 0


def _buffers(op):
    """Bytes of the buffers an op allocates, one for each result."""
    if op.kind is gpu_ops.multibuffer:
        return [op.attrs["slots"] * _bytes(op.attrs["tile"])]
    if op.kind is gpu_ops.share:
        return [_bytes(x.type) for x in op.operands]
    return [8 * op.attrs["count"]] if op.kind is gpu_ops.mbarrier_init else []


def _bytes(tile):
    return tile.numel * tile.element.bytes
