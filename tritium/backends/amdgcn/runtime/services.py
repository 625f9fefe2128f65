"""The low-level services that frameworks ask the HIP runtime for, by the names they have in Triton's releases."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ...gpu_runtime import services as shared
from .hip import HIP
from .messages import set_room


class Utils(shared.Utils):
    """`driver.active.utils` on AMD GPUs."""

    gpu = HIP

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """Shared memory, registers, compute units, warp size, clocks, and the name of the architecture.

        `max_num_regs` is what the HIP runtime says. Of CDNA it is half of the registers: accumulation registers are as
        many again.
        """
        return {**HIP.properties(device), "arch": HIP.arch(device)}

    def set_printf_fifo_size(self, size: int) -> None:
        """Bytes a kernel may print between two synchronisations; set it before the kernel is loaded."""
        set_room(size)

    def active_blocks(self, function: int, shared: int, threads: int, device: int = 0) -> int:
        """How many programs of a loaded kernel a device holds at once, as the HIP runtime counts."""
        return HIP.active_blocks(function, shared, threads, device)

    def _send(self, function: int, grid: tuple[int, int, int], stream: int, packed_metadata: Sequence[int],
              parameters: Any) -> None:
        num_warps, _, shared = packed_metadata[:3]
        threads = num_warps * HIP.properties(HIP.current())["warpSize"]
        HIP.call("hipModuleLaunchKernel", ctypes.c_void_p(function), *grid, threads, 1, 1, shared,
                 ctypes.c_void_p(stream), parameters, None)
