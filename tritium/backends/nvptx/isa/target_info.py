"""TargetInfo of NVIDIA GPUs: the operations they have instructions for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import knobs, passes
from ....ir import types as T
from ....passes.legalize import BETWEEN_WIDE
from ...gpu.rewrite.inline_for_gpu import inline_for_gpu
from ...gpu.rewrite.leave_early import leave_early
from ...gpu.rewrite.merge_repeated import merge_repeated
from ...gpu.rewrite.reduce_to_extrema import reduce_to_extrema
from ...gpu.rewrite.unroll_loops import unroll_loops
from .native import NATIVE, PAIR_CASTS, PAIR_CASTS_SINCE
from .target import NvTarget, UnknownArchitecture

if TYPE_CHECKING:
    from ....passes import TargetInfo
    from ...compiler import GPUTarget

# LLVM writes conversions of bf16 in integers where the architecture has none.
CASTS = BETWEEN_WIDE | {(T.f16, T.f32), (T.f32, T.f16), (T.bf16, T.f32), (T.f32, T.bf16)}


def target_info(target: NvTarget) -> TargetInfo:
    """The TargetInfo of one architecture."""
    eight_bits = frozenset(PAIR_CASTS) if target.sm >= PAIR_CASTS_SINCE else frozenset()
    return passes.TargetInfo(rare=True, casts=CASTS | eight_bits, rows=frozenset(NATIVE))


def pipeline(target: GPUTarget) -> tuple:
    """The passes to the stage `ttir`."""
    nv = NvTarget.of(knobs.runtime.override_arch or target.arch)
    if target.warp_size != nv.warp_size:
        raise UnknownArchitecture(f"warps of NVIDIA GPUs have {nv.warp_size} threads, not {target.warp_size}: {target}")
    unroll, merge = (make(nv.warp_size, nv.cost) for make in (unroll_loops, merge_repeated))
    legalize = passes.legalize(target_info(nv))
    return (inline_for_gpu, *passes.CLEANUP, unroll, passes.apply_ranges, leave_early, merge, reduce_to_extrema,
            legalize, passes.dce)  # fmt: skip
