"""Kernels for AMD GPUs in a bundle: the launcher that goes with them. Code runs on its own architecture alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..compiler import GPUTarget
    from ..launcher.image import Host
    from ..launcher.parts import Part

__all__ = ["parts"]


def parts(target: GPUTarget, binary: bytes) -> list[tuple[Part, Host]]:
    """The native launcher, for every host that can do without LLVM."""
    from ..launcher import image
    from .runtime.launch import PART

    return [(PART, host) for host in image.HOSTS.values()]
