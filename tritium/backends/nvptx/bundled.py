"""Kernels for NVIDIA GPUs in a bundle: which machine code a device runs, and the launcher that goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..occupancy import sm_number

if TYPE_CHECKING:
    from ..compiler import GPUTarget
    from ..launcher.image import Host
    from ..launcher.parts import Part


def fits(targets: Sequence[GPUTarget], here: GPUTarget) -> list[GPUTarget]:
    """Code for this very architecture first, then that for earlier ones of the same generation, the latest first.

    >>> from tritium.backends.compiler import GPUTarget
    >>> built = [GPUTarget("cuda", arch, 32) for arch in (80, 86, "90a")]
    >>> [str(target) for target in fits(built, GPUTarget("cuda", 89, 32))]
    ['cuda:86:32', 'cuda:80:32']
    >>> [str(target) for target in fits(built, GPUTarget("cuda", 90, 32))]
    ['cuda:90a:32']
    """
    exact = [target for target in targets if target == here]
    ours = sm_number(here.arch) or 0
    rows = [(sm_number(target.arch) or 0, target) for target in targets if target not in exact]
    # From sm_90 on, code is made for one architecture alone.
    rows = [(sm, target) for sm, target in rows if sm == ours or sm // 10 == ours // 10 and sm < ours < 90]
    return exact + [target for _, target in sorted(rows, key=lambda row: -row[0])]


def parts(target: GPUTarget, binary: bytes) -> list[tuple[Part, Host]]:
    """The native launcher, for every host that can do without LLVM."""
    from ..launcher import image
    from ..launcher.writers import PARTS
    from .runtime.launch import PART

    return [(part, host) for host in image.HOSTS.values() for part in (PART, *PARTS)]
