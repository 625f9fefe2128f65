"""Launching on AMD GPUs."""

from __future__ import annotations

from ...errors import fail
from ..compiler import GPUTarget
from ..gpu_runtime import driver as shared
from .runtime import launch
from .runtime.hip import HIP
from .runtime.services import Utils


class Driver(shared.Driver):
    """The HIP runtime of this process."""

    gpu, launcher_cls, pointer = HIP, launch.Launcher, "hipDeviceptr_t"

    def __init__(self):
        self.utils = Utils()

    def get_current_target(self) -> GPUTarget:
        """("hip", "gfx942", 64) on an MI300X."""
        device = self.get_current_device()
        return GPUTarget("hip", HIP.arch(device).partition(":")[0], HIP.properties(device)["warpSize"])

    def check_target(self, target: GPUTarget) -> None:
        """Refuse what was compiled for another architecture: it would not load."""
        here = self.get_current_target()
        if target.arch != here.arch:
            raise fail(RuntimeError, f"a kernel compiled for {target} cannot run here: the GPU is {here}",
                       hint=f"compile it for {here.arch}")
