"""Tensor cores: which MMA instruction computes a dot."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ...gpu import ops as gpu_ops
from ...gpu.lower.dot import dot as dot_by_threads
from ...gpu.lower.dot import operands_need
from ...gpu.lower.words import constant
from ...gpu.shared_memory.needs import BUFFER_ALIGNMENT, SCRATCH_ALIGNMENT, Need, Room, takes_shared
from ...gpu.target import Mma
from . import block_scaled, fragments, mma_sync, tcgen05, tensor_memory, tma, wgmma

if TYPE_CHECKING:
    from ....ir import types as T
    from ....ir.core import Op
    from ...gpu.layout.linear import Layout
    from ...llvm.writer import Val
    from .target import NvLowering, NvTarget


def instructions(sm: int) -> Mma:
    """The MMA instructions of an architecture, for the passes."""

    def accumulator(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int,
                    by_rows: bool = False) -> Layout | None:
        if tcgen05.fits(a, b, out, precision, warps, sm):
            return tensor_memory.layout(out.shape, warps)
        if wgmma.fits(a, b, out, precision, warps, sm):
            return fragments.accumulator(out.shape, *wgmma.warp_split(out.shape[0], warps), rows=64)
        if mma_sync.fits(a, b, out, precision, sm):
            return mma_sync.accumulator(out, warps, by_rows)
        return None

    def in_shared(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int) -> bool:
        return any(unit.fits(a, b, out, precision, warps, sm) for unit in (tcgen05, wgmma))

    def operands(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int,
                 by_rows: bool = False) -> tuple[Layout, ...] | None:
        if in_shared(a, b, out, precision, warps) or not mma_sync.fits(a, b, out, precision, sm):
            return None
        return mma_sync.operands(a, b, out, warps, by_rows)

    def columns(op: Op, warps: int) -> int | None:
        if op.kind is gpu_ops.dot_scaled:
            count = block_scaled.columns(op.type.shape, [x.type for x in op.operands[3:]])
            return tensor_memory.allocated(count) if sm in tcgen05.ARCHITECTURES else None
        types = _TYPES.get(op.kind)
        if types is None:
            return None
        a, b = types(op)
        fits = tcgen05.fits(a, b, op.type, op.attrs["precision"], warps, sm)
        return tensor_memory.allocated(tensor_memory.columns(op.type.shape)) if fits else None

    scaled = functools.partial(block_scaled.layouts, sm)
    if sm in tcgen05.ARCHITECTURES:
        return Mma(accumulator, operands, in_shared, tcgen05.layouts, tcgen05.takes, hold=tcgen05.hold, columns=columns,
                   scaled=scaled)  # fmt: skip
    return Mma(accumulator, operands, in_shared, wgmma.layouts, wgmma.takes, wgmma.lhs_once, _hold, scaled=scaled)


def _hold(g: NvLowering, dot: Op, init: Sequence[Val], nonempty: bool) -> Any:
    """Registers for the sums of a started dot in a loop."""
    return wgmma.Held(g, dot, init, nonempty) if dot.kind is gpu_ops.dot_shared else None


# The types of the operands of dots, which may be in buffers.
_TYPES: dict[object, Callable[[Op], Sequence[T.Tile]]] = {
    ops.dot: lambda op: [x.type for x in op.operands[:2]],
    gpu_ops.dot_shared: lambda op: [op.attrs["lhs"], op.attrs["rhs"]],
}


def _unit(op: Op, warps: int, target: NvTarget) -> Any:
    """Who computes a dot: an MMA (a module) where one fits, threads (None) elsewhere."""
    left, right, precision = op.operands[0].type, op.operands[1].type, op.attrs["precision"]
    for unit in (tcgen05, wgmma):
        if unit.fits(left, right, op.type, precision, warps, target.sm):
            return unit
    return mma_sync if mma_sync.fits(left, right, op.type, precision, target.sm) else None


def _dot_need(op: Op, room: Room) -> Need | None:
    """The shared memory of the operands, where they are read from there."""
    unit = _unit(op, room.warps, room.target)
    if unit is mma_sync:
        return None
    if unit is wgmma:
        return wgmma.operands_need(op, room.warps)
    need = operands_need(op, SCRATCH_ALIGNMENT if unit is None else BUFFER_ALIGNMENT)
    return need if unit is None else need._replace(contents=())


@takes_shared(_dot_need, meets=True, keeps=True)
def dot(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val]) -> Any:
    """An MMA where one fits, FMAs by threads elsewhere."""
    unit = _unit(op, g.warps, g.target)
    return unit.dot(g, op, a, b, acc) if unit else dot_by_threads(g, op, a, b, acc)


@takes_shared(tcgen05.lhs_need)
def dot_shared(g: NvLowering, op: Op, *operands: Any) -> Any:
    """A dot on buffers: its sums are in tensor memory, or in registers."""
    unit = wgmma if op.attrs.get("column") is None else tcgen05
    return unit.dot_shared(g, op, *operands)


def dot_wait(g: NvLowering, op: Op, acc: Any) -> Sequence[Val]:
    """The sums of a dot that was issued, once it is finished."""
    unit = tcgen05 if g.target.sm in tcgen05.ARCHITECTURES else wgmma
    return unit.dot_wait(g, op, acc)


def cleared(g: NvLowering, op: Op, acc: Any, fresh: Sequence[Val]) -> Any:
    """Sums that a loop holds are overwritten by the next dot; others are selected."""
    if isinstance(acc, wgmma.HeldSums):
        return acc.cleared(fresh[0])
    zero = constant(g.w, op.type.element, 0)
    return [g.w.select(fresh[0], zero, x) for x in acc]


LOWER = {
    ops.dot: dot,
    gpu_ops.cleared: cleared,
    gpu_ops.dot_shared: dot_shared,
    gpu_ops.dot_wait: dot_wait,
    gpu_ops.dot_scaled: block_scaled.dot_scaled,
    gpu_ops.tensor_memory_alloc: tensor_memory.tensor_memory_alloc,
    gpu_ops.tensor_memory_free: tensor_memory.tensor_memory_free,
    gpu_ops.tma_load: tma.tma_load,
    gpu_ops.row_load: tma.row_load,
    gpu_ops.tma_store: tma.tma_store,
}
