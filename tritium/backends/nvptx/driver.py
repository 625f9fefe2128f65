"""Launching on NVIDIA GPUs: on torch's current stream where torch is in use, else on the default stream."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ...tensors import is_descriptor, reader_of
from ..compiler import GPUTarget
from ..driver import DriverBase
from .runtime import cuda, launch
from .runtime.services import Utils


class Driver(DriverBase):
    """The CUDA driver of this process."""

    launcher_cls = launch.Launcher

    def __init__(self):
        self.utils = Utils()

    @classmethod
    def is_active(cls) -> bool:
        """Whether a device is there."""
        return cuda.present()

    @classmethod
    def is_usable(cls) -> bool:
        """Whether this process can use it."""
        return cuda.available()

    def get_current_target(self) -> GPUTarget:
        """("cuda", 90, 32) on an H200."""
        major, minor = self.get_device_capability(self.get_current_device())
        return GPUTarget("cuda", major * 10 + minor, 32)

    def get_active_torch_device(self) -> Any:
        """torch's name of the current device."""
        import torch
        return torch.device("cuda", self.get_current_device())

    def get_current_device(self) -> int:
        """torch's current device if torch is in use, else the driver's."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            device = torch.cuda.current_device()
            if cuda.current() != device:
                cuda.use(device)  # in a thread where torch has done nothing yet
            return device
        return cuda.current()

    def set_current_device(self, device: int) -> None:
        """Make a device current."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.set_device(device)
        cuda.use(device)

    def get_current_stream(self, device: int) -> int:
        """Handle of the stream launches go to."""
        return launch.current_stream(device)

    def guarded_launch(self, kernel: Any, call: Any) -> Any:
        """The native launcher, with a record of what these arguments look like."""
        return kernel.launcher.guarded(kernel, call)

    def guarded_lookup(self, kernel: Any, call: Any) -> Any:
        """The native lookup, with a record of what these arguments look like."""
        return launch.lookup(kernel, call, self.get_current_device())

    def roads(self, kernel: Any) -> Any:
        """The native ways to launch a compiled kernel."""
        launch.loaded[kernel.function] = kernel
        return kernel._launcher.roads(kernel)

    @contextlib.contextmanager
    def on_device_of(self, values: Iterable[Any]) -> Iterator[None]:
        """Within it, the current device is the one the tensors among `values` are on."""
        before = self.get_current_device()
        wanted = next((d for d in map(_device_index, values) if d is not None), before) if cuda.count() > 1 else before
        if wanted == before:
            yield
            return
        self.set_current_device(wanted)
        try:
            yield
        finally:
            self.set_current_device(before)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(9, 0) on an H200."""
        found = cuda.properties(device)
        return found["major"], found["minor"]

    def get_device_interface(self) -> Any:
        """`torch.cuda`; without torch, what of it `memory` has."""
        torch = _torch()
        if torch is not None:
            return torch.cuda
        from .runtime import memory
        return memory

    def get_benchmarker(self) -> Any:
        """`testing.do_bench`."""
        from ...testing import do_bench
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """256 MiB, more than the L2 cache."""
        torch = _torch()
        if torch is not None:
            return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device="cuda")
        from .runtime import memory
        return memory.empty(256 * 1024 * 1024 // 4, "i32")

    def clear_cache(self, cache: Any) -> None:
        """Write it all."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """C type of a signature string, for ahead-of-time headers."""
        if ty.startswith("*"):
            return "CUdeviceptr"
        return {"u1": "int8_t", "i1": "int8_t", "fp16": "double", "bf16": "double", "fp32": "double", "f32": "double",
                "fp64": "double"}.get(ty) or ("u" if ty.startswith("u") else "") + f"int{ty[1:]}_t"


def _torch() -> Any:
    """torch, if it is there and can use a GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _device_index(x: Any) -> int | None:
    """The number of the GPU an argument's memory is on; None for what has none."""
    if isinstance(x, tuple):
        return next((d for d in map(_device_index, x) if d is not None), None)
    x = x.base if is_descriptor(x) else x
    reader = reader_of(x)
    if reader is None or reader.device(x) == "cpu":
        return None
    return x.get_device() if hasattr(x, "get_device") else cuda.device_of(reader.address(x))
