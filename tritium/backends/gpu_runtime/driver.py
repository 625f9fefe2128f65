"""Launching on a vendor's GPUs: on torch's current stream where torch is in use, else on the default stream."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ...tensors import is_descriptor, reader_of
from ..driver import Call, DriverBase
from . import launch
from .library import MEMORY, DriverLibrary


class Driver(DriverBase):
    """The driver of this process for one vendor's GPUs."""

    gpu: DriverLibrary
    pointer: str  # the C type of an address on the device
    launcher_cls: type[launch.Launcher]

    @classmethod
    def is_active(cls) -> bool:
        """Whether a device is there."""
        return cls.gpu.present()

    @classmethod
    def is_usable(cls) -> bool:
        """Whether this process can use it."""
        return cls.gpu.available()

    def get_active_torch_device(self) -> Any:
        """torch's name of the current device."""
        import torch
        return torch.device(MEMORY, self.get_current_device())

    def get_current_device(self) -> int:
        """torch's current device if torch is in use, else the driver's."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            device = torch.cuda.current_device()
            if self.gpu.current() != device:
                self.gpu.use(device)  # in a thread where torch has done nothing yet
            return device
        return self.gpu.current()

    def set_current_device(self, device: int) -> None:
        """Make a device current."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.set_device(device)
        self.gpu.use(device)

    def get_current_stream(self, device: int) -> int:
        """Handle of the stream launches go to."""
        return launch.current_stream(device)

    def guarded_launch(self, kernel: Any, call: Call) -> tuple[Callable, Any] | None:
        """The native launcher, with a record of what these arguments look like."""
        return kernel.launcher.guarded(kernel, call)

    def guarded_lookup(self, kernel: Any, call: Call) -> tuple[Callable, Any] | None:
        """The native lookup, with a record of what these arguments look like."""
        return launch.lookup(self.launcher_cls.runtime, kernel, call, self.get_current_device())

    def roads(self, kernel: Any) -> Any:
        """The native ways to launch a compiled kernel."""
        launch.loaded[kernel.function] = kernel
        return kernel._launcher.roads(kernel)

    @contextlib.contextmanager
    def on_device_of(self, values: tuple) -> Iterator[None]:
        """Within it, the current device is the one the tensors among `values` are on."""
        before = self.get_current_device()
        wanted = before
        if self.gpu.count() > 1:
            wanted = next((d for d in map(self._device_index, values) if d is not None), before)
        if wanted == before:
            yield
            return
        self.set_current_device(wanted)
        try:
            yield
        finally:
            self.set_current_device(before)

    def _device_index(self, x: Any) -> int | None:
        """The number of the GPU an argument's memory is on; None for what has none."""
        if isinstance(x, tuple):
            return next((d for d in map(self._device_index, x) if d is not None), None)
        x = x.base if is_descriptor(x) else x
        reader = reader_of(x)
        if reader is None or reader.device(x) == "cpu":
            return None
        return x.get_device() if hasattr(x, "get_device") else self.gpu.device_of(reader.address(x))

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(9, 0) on an H200, (9, 4) on an MI300X."""
        found = self.gpu.properties(device)
        return found["major"], found["minor"]

    def get_device_interface(self) -> Any:
        """`torch.cuda`, which is torch's name for GPUs of every vendor; without torch, what of it `memory` has."""
        torch = _torch()
        if torch is not None:
            return torch.cuda
        from . import memory
        return memory

    def get_benchmarker(self) -> Callable:
        """`testing.do_bench`."""
        from ...testing import do_bench
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """256 MiB, more than the L2 cache."""
        torch = _torch()
        if torch is not None:
            return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device=MEMORY)
        from . import memory
        return memory.empty(256 * 1024 * 1024 // 4, "i32")

    def clear_cache(self, cache: Any) -> None:
        """Write it all."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """C type of a signature string, for ahead-of-time headers."""
        if ty.startswith("*"):
            return self.pointer
        return {"u1": "int8_t", "i1": "int8_t", "fp16": "double", "bf16": "double", "fp32": "double", "f32": "double",
                "fp64": "double"}.get(ty) or ("u" if ty.startswith("u") else "") + f"int{ty[1:]}_t"


def _torch() -> Any:
    """torch, if it is there and can use a GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None
