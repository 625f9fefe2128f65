"""Launching on NVIDIA GPUs."""

from __future__ import annotations

from ..compiler import GPUTarget
from ..gpu_runtime import driver as shared
from .runtime import cuda, launch
from .runtime.services import Utils


class Driver(shared.Driver):
    """The CUDA driver of this process."""

    gpu, launcher_cls, pointer = cuda.CUDA, launch.Launcher, "CUdeviceptr"

    def __init__(self):
        self.utils = Utils()

    def get_current_target(self) -> GPUTarget:
        """("cuda", 90, 32) on an H200."""
        major, minor = self.get_device_capability(self.get_current_device())
        return GPUTarget("cuda", major * 10 + minor, 32)
