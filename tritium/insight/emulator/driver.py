"""A GPU that is not there: launches compile for it and run on the emulator, on memory of the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import DriverBase, driver
from tritium.backends.gpu.target import Target
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.errors import fail
from tritium.insight.emulator.launch import EmulatedLauncher
from tritium.insight.emulator.programs import PROGRAMS
from tritium.insight.emulator.targets import gpu_of, target_of

__all__ = ["EmulatedDriver", "emulated"]


class EmulatedDriver(DriverBase):
    """The driver of an emulated GPU. Of each launch, `programs` programs run."""

    emulates, launcher_cls = True, EmulatedLauncher

    def __init__(self, target: GPUTarget | str, programs: int = PROGRAMS):
        target = GPUTarget.of(target)
        if target.backend not in ("cuda", "hip"):
            raise fail(ValueError, f"the sanitizer emulates GPUs, and {target} is none: leave the target out to check "
                       "kernels on the CPU")
        if programs < 1:
            raise fail(ValueError, f"at least one program of a launch must run, not {programs}")
        self._gpu, self.programs = gpu_of(target), programs
        self._target = target_of(self._gpu.cpu if target.backend == "hip" else NvTarget.of(target.arch).sm)
        self.utils = _Utils(self._gpu, *self.get_device_capability())

    @classmethod
    def is_active(cls) -> bool:
        """Everywhere."""
        return True

    def get_current_target(self) -> GPUTarget:
        """What kernels are compiled for."""
        return self._target

    def get_active_torch_device(self):
        """Memory is the host's."""
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Callable:
        """One that takes no time: each trial runs one program, and the first wins."""
        return self._trial

    def _trial(self, fn: Callable[[], Any], *args, quantiles: Any = None, return_mode: str = "mean", **options):
        before, self.programs = self.programs, 1
        try:
            fn()
        finally:
            self.programs = before
        return [1.0] * len(quantiles) if quantiles is not None else [1.0] if return_mode == "all" else 1.0

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of a signature string."""
        return driver.named("cpu").map_python_to_cpp_type(ty)

    def get_current_device(self) -> int:
        """The number of its architecture: kernels for other devices are others."""
        arch = self._target.arch
        return int(arch[3:], 16) if isinstance(arch, str) else arch

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int) -> int:
        """Launches are over when they return."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(9, 0) for cuda:90a, (9, 4) for hip:gfx942."""
        arch = self._target.arch
        return (int(arch[3:-2]), int(arch[-2], 16)) if isinstance(arch, str) else divmod(arch, 10)

    def get_device_interface(self):
        """As on the CPU: there is nothing to wait for."""
        return driver.named("cpu").get_device_interface()

    def get_empty_cache_for_benchmark(self):
        """There is no cache."""
        import numpy as np

        return np.empty(1, np.int8)

    def clear_cache(self, cache) -> None:
        """There is no cache."""


class _Utils:
    """Properties of the device, and loading of binaries."""

    def __init__(self, gpu: Target, major: int, minor: int):
        self._gpu, self._capability = gpu, {"major": major, "minor": minor}

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Those of the architecture; there are few multiprocessors, so that programs that share them out have many."""
        return {"max_shared_mem": self._gpu.shared_bytes, "max_num_regs": 65536, "multiprocessor_count": 4,
                "warpSize": self._gpu.warp_size, "max_threads_per_sm": self._gpu.machine.threads,
                "max_threads_per_block": 1024, "sm_clock_rate": 1_000_000, "mem_clock_rate": 1_000_000,
                "mem_bus_width": 1024,
                **self._capability}

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple:
        """(module, function, registers, spills, threads): the function is the LLVM text."""
        return None, binary.decode(), 0, 0, 1024


@contextlib.contextmanager
def emulated(target: GPUTarget | str, programs: int = PROGRAMS) -> Iterator[EmulatedDriver]:
    """Within it, every launch goes to an emulated GPU.

    >>> with emulated("cuda:90a") as device:
    ...     print(device.get_current_target(), driver.active is device)
    cuda:90:32 True
    """
    device, before = EmulatedDriver(target, programs), driver.chosen
    driver.set_active(device)
    try:
        yield device
    finally:
        driver.reset_active()
        if before is not None:
            driver.set_active(before)
