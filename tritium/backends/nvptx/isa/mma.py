"""Tensor cores: which MMA instruction computes a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ...gpu import ops as gpu_ops
from ...gpu.lower.dot import dot as dot_by_threads
from ...gpu.lower.dot import operands_need
from ...gpu.shared_memory.needs import BUFFER_ALIGNMENT, SCRATCH_ALIGNMENT, takes_shared
from ...gpu.target import Mma
from . import fragments, mma_sync, tma, wgmma

if TYPE_CHECKING:
    from ....ir import types as T
    from ....ir.core import Op
    from ...gpu.layout.linear import Layout
    from ...gpu.shared_memory.needs import Need, Room
    from ...llvm.writer import Val
    from .lowering import NvLowering
    from .target import NvTarget


def instructions(sm: int) -> Mma:
    """The MMA instructions of an architecture, for the passes."""

    def accumulator(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int) -> Layout | None:
        if wgmma.fits(a, b, out, precision, warps, sm):
            return fragments.accumulator(out.shape, *wgmma.warp_split(out.shape[0], warps), rows=64)
        if mma_sync.fits(a, b, out, precision, sm):
            return mma_sync.accumulator(out, warps)
        return None

    def operands(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int) -> tuple[Layout, ...] | None:
        if wgmma.fits(a, b, out, precision, warps, sm) or not mma_sync.fits(a, b, out, precision, sm):
            return None
        return mma_sync.operands(a, b, out, warps)

    def in_shared(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int) -> bool:
        return wgmma.fits(a, b, out, precision, warps, sm)

    return Mma(accumulator, operands, in_shared, wgmma.layouts, wgmma.takes, wgmma.lhs_once, wgmma.Held)


def _unit(op: Op, warps: int, target: NvTarget) -> Any:
    """Who computes a dot: an MMA (a module) where one fits, threads (None) elsewhere."""
    left, right, precision = op.operands[0].type, op.operands[1].type, op.attrs["precision"]
    if wgmma.fits(left, right, op.type, precision, warps, target.sm):
        return wgmma
    return mma_sync if mma_sync.fits(left, right, op.type, precision, target.sm) else None


def _dot_need(op: Op, room: Room) -> Need | None:
    """The shared memory of the operands, where they are read from there."""
    unit = _unit(op, room.warps, room.target)
    if unit is mma_sync:
        return None
    return operands_need(op, BUFFER_ALIGNMENT if unit is wgmma else SCRATCH_ALIGNMENT)


@takes_shared(_dot_need)
def dot(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val]) -> Any:
    """An MMA where one fits, FMAs by threads elsewhere."""
    unit = _unit(op, g.warps, g.target)
    return unit.dot(g, op, a, b, acc) if unit else dot_by_threads(g, op, a, b, acc)


LOWER = {
    ops.dot: dot,
    gpu_ops.dot_shared: wgmma.dot_shared,
    gpu_ops.dot_wait: wgmma.dot_wait,
    gpu_ops.tma_load: tma.tma_load,
    gpu_ops.tma_store: tma.tma_store,
}
