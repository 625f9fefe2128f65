"""TargetInfo of AMD GPUs: the operations they have instructions for."""

from __future__ import annotations

import functools

from .... import knobs, passes
from ....ir import types as T
from ....passes import TargetInfo
from ....passes.legalize import BETWEEN_WIDE
from ...compiler import GPUTarget
from ...gpu.passes import early_passes
from . import mma
from .native import NATIVE, casts_of
from .target import AmdTarget

# LLVM writes conversions of bf16 in integers where the architecture has none.
CASTS = BETWEEN_WIDE | {(T.f16, T.f32), (T.f32, T.f16), (T.bf16, T.f32), (T.f32, T.bf16)}
CASTS |= {(t, T.f16) for t in T.FLOATS if t.bits == 8}  # a shift, and mostly a product


def target_info(target: AmdTarget) -> TargetInfo:
    """The TargetInfo of one architecture."""
    casts, rows = CASTS | frozenset(casts_of(target.family)), frozenset(NATIVE)
    return passes.TargetInfo(rare=True, casts=casts, rows=rows, dot_as=mma.dot_as(target.cpu))


def pipeline(target: GPUTarget) -> tuple:
    """The passes to the stage `ttir`."""
    return _pipeline(target, knobs.runtime.override_arch or target.arch)


@functools.cache
def _pipeline(target: GPUTarget, arch: str | int) -> tuple:
    """Made once: what a type is legalized to stays known."""
    amd = AmdTarget.of(arch)
    return passes.expand_ptx, *early_passes(target, amd, amd.cpu, target_info(amd))
