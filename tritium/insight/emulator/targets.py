"""The GPUs that are emulated: their targets, sizes and machines."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritium.backends.amdgcn.isa.target import AmdTarget
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu.target import Target
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.insight.emulator.amd.machine import AmdMachine
from tritium.insight.emulator.machine import Machine

__all__ = ["gpu_of", "machine_of", "target_of"]


def target_of(arch: int | str) -> GPUTarget:
    """The target of an architecture: a number of NVIDIA's, or a name of AMD's.

    >>> print(target_of(90), target_of("gfx942"))
    cuda:90:32 hip:gfx942:64
    """
    if isinstance(arch, str):
        return GPUTarget("hip", arch, AmdTarget.of(arch).warp_size)
    return GPUTarget("cuda", arch, 32)


def gpu_of(target: GPUTarget) -> Target:
    """What the compiler knows of a target's GPU.

    >>> gpu_of(target_of("gfx950")).shared_bytes
    163840
    """
    return AmdTarget.of(target.arch) if target.backend == "hip" else NvTarget.of(target.arch)


def machine_of(target: GPUTarget) -> Callable[..., Any]:
    """What makes a machine of LLVM text for a target."""
    return functools.partial(AmdMachine, arch=str(target.arch)) if target.backend == "hip" else Machine
