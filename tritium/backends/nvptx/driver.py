"""Launching on NVIDIA GPUs: on torch's current stream where torch is in use, else on the default stream."""

from __future__ import annotations

import ctypes
import sys

from ..compiler import GPUTarget
from ..driver import DriverBase
from . import cuda
from .launch import Launcher


class Driver(DriverBase):
    """The CUDA driver of this process."""

    launcher_cls = Launcher

    def __init__(self):
        self.utils = Utils()

    @classmethod
    def is_active(cls):
        """Whether a device is there."""
        return cuda.available()

    def get_current_target(self):
        """("cuda", 90, 32) on an H200."""
        major, minor = self.get_device_capability(self.get_current_device())
        return GPUTarget("cuda", major * 10 + minor, 32)

    def get_active_torch_device(self):
        """torch's name of the current device."""
        import torch
        return torch.device("cuda", self.get_current_device())

    def get_current_device(self):
        """torch's current device if torch is in use, else the driver's."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return torch.cuda.current_device()
        return cuda.current()

    def set_current_device(self, device):
        """Make a device current."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.set_device(device)
        cuda.use(device)

    def get_current_stream(self, device):
        """Handle of the stream launches go to."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return torch._C._cuda_getCurrentRawStream(device)
        return 0

    def get_device_capability(self, device=0):
        """(9, 0) on an H200."""
        found = cuda.properties(device)
        return found["major"], found["minor"]

    def get_device_interface(self):
        """`torch.cuda`."""
        import torch
        return torch.cuda

    def get_benchmarker(self):
        """`testing.do_bench`."""
        from ...testing import do_bench
        return do_bench

    def get_empty_cache_for_benchmark(self):
        """256 MiB, more than the L2 cache."""
        import torch
        return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device="cuda")

    def clear_cache(self, cache):
        """Write it all."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty):
        """C type of a signature string, for ahead-of-time headers."""
        if ty.startswith("*"):
            return "CUdeviceptr"
        return {"u1": "int8_t", "i1": "int8_t", "fp16": "double", "bf16": "double", "fp32": "double", "f32": "double",
                "fp64": "double"}.get(ty) or ("u" if ty.startswith("u") else "") + f"int{ty[1:]}_t"


class Utils:
    """The low-level services frameworks ask the driver for."""

    def get_device_properties(self, device):
        """Shared memory, registers, SM count, warp size and clocks."""
        return dict(cuda.properties(device))

    def load_binary(self, name, binary, shared, device):
        """(module, function, n_regs, n_spills, n_max_threads)."""
        return cuda.load(name, binary, shared, device)

    def set_printf_fifo_size(self, size):
        """Bytes the device may print between two synchronisations."""
        cuda.use(cuda.current())
        cuda.call("cuCtxSetLimit", 1, ctypes.c_size_t(size))
