"""Tensor cores: which MMA instruction computes a dot, and the target's answers to the passes."""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ...gpu import ops as gpu_ops
from ...gpu.lower.dot import dot as dot_by_threads
from ...gpu.pipeline.schedule import Capabilities
from . import fragments as layouts
from . import mma_sync, tma, wgmma

_MOST, _OTHERS = 255, 63  # registers of a thread; those for operands and addresses, beside the results of dots


def dot_layout(target):
    """The accumulator layouts of `target`, for layout assignment; None means no MMA."""

    def choose(a, b, out, precision, warps):
        if wgmma.fits(a, b, out, precision, warps, target):
            return layouts.accumulator(out.shape, *wgmma.warp_split(out.shape[0], warps), rows=64)
        if mma_sync.fits(a, b, out, precision, target):
            return mma_sync.accumulator(out, warps)
        return None

    return choose


def multiplies(target):
    """The predicate of `split_dots`: whether tensor cores multiply tiles of these types."""
    choose = dot_layout(target)
    return lambda *types_precision_and_warps: choose(*types_precision_and_warps) is not None


def fragments(target):
    """The layouts of the operands of a dot that `target` reads from registers; None if it reads shared memory."""

    def choose(a, b, out, precision, warps):
        if wgmma.fits(a, b, out, precision, warps, target) or not mma_sync.fits(a, b, out, precision, target):
            return None
        return mma_sync.operands(a, b, out, warps)

    return choose


def capabilities(target, info, warps):
    """The `Capabilities` of the target: which dots can read buffers, contiguous axes of loads, widths of copies."""

    def fits(op):
        a, b = (x.type for x in op.operands[:2])
        return wgmma.fits(a, b, op.type, op.attrs["precision"], warps, target)

    def multiplies(op):
        a, b = (x.type for x in op.operands[:2])
        copies = target.sm >= mma_sync.COPIES_SINCE and len(op.type.shape) == 2
        return copies and mma_sync.fits(a, b, op.type, op.attrs["precision"], target)

    def copies(op):
        a, b = (x.type for x in op.operands[:2])
        alone = dot_layout(target)(a, b, op.type, op.attrs["precision"], warps) is None
        return alone and target.sm >= mma_sync.COPIES_SINCE and len(op.type.shape) == 2

    def axis(load):
        known = info(load.operands[0])
        return max(range(len(known.contiguity)), key=lambda k: (known.contiguity[k], k))

    def takes(dot, operand, axis):
        split = wgmma.warp_split(dot.type.shape[0], warps)
        return wgmma.may_lie(dot.operands["ab".index(operand)].type, operand, axis, split)

    def vector(load):
        known, size = info(load.operands[0]), load.type.element.bytes
        along = axis(load)
        width = min(known.contiguity[along], known.divisibility[along] // size, load.type.shape[along], 16 // size)
        if len(load.operands) > 1:
            width = min(width, info(load.operands[1]).constancy[along])
        return width * size

    def lhs_once(dot):
        return wgmma.warp_split(dot.type.shape[0], warps)[1] == 1

    def holds(tiles, registers=_MOST):
        words = sum(tile.numel * _bytes(tile.element) // 4 for tile in tiles)
        return words <= (registers - _OTHERS) * 32 * warps

    return Capabilities(fits, multiplies, copies, axis, takes, vector, lhs_once, holds)


def _bytes(element):
    return 8 if type(element) is T.Ptr else element.bytes


def dot(g, op, a, b, acc):
    """An MMA where one fits, FMAs by threads elsewhere."""
    left, right, precision = op.operands[0].type, op.operands[1].type, op.attrs["precision"]
    if wgmma.fits(left, right, op.type, precision, g.warps, g.target):
        return wgmma.dot(g, op, a, b, acc)
    if mma_sync.fits(left, right, op.type, precision, g.target):
        return mma_sync.dot(g, op, a, b, acc)
    return dot_by_threads(g, op, a, b, acc)


LOWER = {
    ops.dot: dot,
    gpu_ops.dot_shared: wgmma.dot_shared,
    gpu_ops.dot_wait: wgmma.dot_wait,
    gpu_ops.tma_load: tma.tma_load,
    gpu_ops.tma_store: tma.tma_store,
}
