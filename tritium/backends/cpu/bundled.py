"""Kernels for CPUs in a bundle: which levels this machine runs, and which parts of the runtime go with a kernel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ... import knobs
from ..compiler import GPUTarget
from ..llvm import host, levels
from ..llvm.target import host_level


def fits(targets: Sequence[GPUTarget], here: GPUTarget) -> list[GPUTarget]:
    """The levels that this machine runs, or the part of it that TRITIUM_CPU leaves: those with most features first.

    >>> names = [GPUTarget("cpu", name, 1) for name in ("x86-64", "x86-64-v2", "aarch64")]
    >>> fits(names, names[1])
    [GPUTarget(backend='cpu', arch='x86-64-v2', warp_size=1)]
    """
    if here.arch != "host":
        return [target for target in targets if target == here]
    if sys.platform != "linux":
        return []  # objects are ELF
    ours = host.level() or host_level()
    if knobs.cpu not in (None, "", "host"):
        ours = levels.parse(knobs.cpu, lambda: ours)
    known = [(levels.parse(str(target.arch), lambda: ours), target) for target in targets]
    known = [(level, target) for level, target in known if not levels.lacking(level, ours)]
    return [target for _, target in sorted(known, key=lambda pair: -len(pair[0].has))]


def parts(target: GPUTarget, binary: bytes) -> list[tuple[Any, Any]]:
    """The parts that run kernels, and those that an object file calls, for the CPU it was compiled for."""
    from ..launcher import image
    from ..llvm.target import cpu_target
    from .runtime import called, core

    cpu = cpu_target(str(target.arch))
    wanted = image.undefined(binary, cpu.triple.partition("-")[0])
    return [(part, cpu) for part in (*core.PARTS, *(part for part in called.PARTS if wanted & set(part.symbols)))]
