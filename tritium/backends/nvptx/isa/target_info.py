"""TargetInfo of NVIDIA GPUs: the operations they have instructions for."""

from __future__ import annotations

import functools

from .... import knobs, passes
from ....ir import types as T
from ....passes import TargetInfo
from ....passes.legalize import BETWEEN_WIDE
from ...compiler import GPUTarget
from ...gpu.passes import early_passes
from .native import NATIVE, PAIR_CASTS, PAIR_CASTS_SINCE
from .target import NvTarget

# LLVM writes conversions of bf16 in integers where the architecture has none.
CASTS = BETWEEN_WIDE | {(T.f16, T.f32), (T.f32, T.f16), (T.bf16, T.f32), (T.f32, T.bf16)}


def target_info(target: NvTarget) -> TargetInfo:
    """The TargetInfo of one architecture."""
    eight_bits = frozenset(PAIR_CASTS) if target.sm >= PAIR_CASTS_SINCE else frozenset()
    return passes.TargetInfo(rare=True, casts=CASTS | eight_bits, rows=target.pair_rows.union(NATIVE))


def pipeline(target: GPUTarget) -> tuple:
    """The passes to the stage `ttir`."""
    return _pipeline(target, knobs.runtime.override_arch or target.arch)


@functools.cache
def _pipeline(target: GPUTarget, arch: str | int) -> tuple:
    """Made once: what a type is legalized to stays known."""
    nv = NvTarget.of(arch)
    return early_passes(target, nv, "NVIDIA GPUs", target_info(nv))
