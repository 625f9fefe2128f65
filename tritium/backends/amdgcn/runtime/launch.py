"""Launching on AMD GPUs: cooperative launches, shared memory and messages, on top of what all GPUs share."""

from __future__ import annotations

from typing import Any

from ...compiler import GPUTarget
from ...gpu_runtime import launch as shared
from ...gpu_runtime import launcher as shared_launcher
from ...launcher import image
from ...launcher.image import Host
from ...launcher.parts import Part
from ...launcher.writers import PARTS, WRITERS
from . import launcher
from .hip import HIP, HipError
from .messages import Messages

PART = Part("hip", launcher.SYMBOLS, (*WRITERS, shared_launcher, launcher), lambda target: launcher.launcher(),
            effort="plain")
_COOPERATIVE = 1  # what INFO.config is then: native code compares it with null


def parts(target: GPUTarget, binary: bytes) -> list[tuple[Part, Host]]:
    """What goes with a kernel in a bundle: the native launcher, for every host that can do without LLVM."""
    return [(part, host) for host in image.HOSTS.values() for part in (PART, *PARTS)]


class Runtime(shared.Runtime):
    """The native launcher of this process, linked to the HIP runtime."""

    gpu, prefix, part = HIP, launcher.PREFIX, PART

    @classmethod
    def linked(cls) -> dict[str, int]:
        """The functions of the HIP runtime."""
        return {name: HIP.address(name) for name in launcher.DRIVER}


class Launcher(shared.Launcher):
    """Launches one compiled kernel; see `gpu_runtime.launch.Launcher`."""

    runtime = Runtime
    hints = {  # noqa: RUF012
        1: "the threads along an axis of the grid, programs times warps times the threads of a warp, must stay below "
           "2**32, and programs along the others below 65536",
        9: "the threads along an axis of the grid, programs times warps times the threads of a warp, must stay below "
           "2**32",
        701: "use fewer warps or smaller tiles: a program needs more registers or shared memory than there are",
        720: "the programs of a cooperative launch must all fit on the GPU at once: use fewer",
    }  # fmt: skip

    def _equip(self, metadata: Any) -> None:
        # The code object says how much shared memory there is; only what it does not know is given with the launch.
        self.info.shared = getattr(metadata, "dynamic_shared", metadata.shared)
        if metadata.launch_cooperative_grid:
            if not HIP.properties(self.device)["cooperative"]:
                raise HipError(f"GPU {self.device} has no cooperative launches, which {self.name} asks for by "
                               "launch_cooperative_grid=True")
            self.info.config = _COOPERATIVE
        sites = getattr(metadata, "messages", None)
        self._messages = Messages(self.name, sites, self.device) if sites else None

    def _settle(self, function: int) -> None:
        if self._messages is not None:
            self._messages.connect(function)
