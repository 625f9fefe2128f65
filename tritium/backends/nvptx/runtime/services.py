"""The low-level services that frameworks ask the CUDA driver for, by the names they have in Triton's releases."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ...gpu_runtime import services as shared
from . import cuda, launch, tensor_map


class Utils(shared.Utils):
    """`driver.active.utils` on NVIDIA GPUs."""

    gpu = cuda.CUDA

    def set_printf_fifo_size(self, size: int) -> None:
        """Bytes the device may print between two synchronisations."""
        cuda.use(cuda.current())
        cuda.set_limit(1, size, "how much kernels may print is set before the first launch of one that does")

    def cuOccupancyMaxActiveClusters(self, function: int, shared: int, num_ctas: int, threads: int = 128) -> int:
        """How many clusters of `num_ctas` programs of a kernel fit on the current device at once."""
        return launch.active_clusters(function, shared, num_ctas, threads)

    def fill_tma_descriptor_tiled(self, global_address: int, swizzle: int, elem_size: int, elem_type: int | str,
                                  block_size: Sequence[int], shape: Sequence[int], strides: Sequence[int],
                                  padding: int = 0) -> ctypes.Array:
        """The 128 bytes of a tensor map; keep the result while a kernel may read it.

        `swizzle` and `elem_type` are CUDA's numbers (CUtensorMapSwizzle, CUtensorMapDataType); `elem_type` may be a
        signature string. `strides` are in elements; `padding` is 1 for NaNs outside of the tensor.
        """
        return tensor_map.encode(global_address, elem_type, elem_size, shape, strides, block_size,
                                 tensor_map.SPANS[swizzle], bool(padding))

    fill_tma_descriptor = fill_tma_descriptor_tiled  # its name in 3.6

    def _send(self, function: int, grid: tuple[int, int, int], stream: int, packed_metadata: Sequence[int],
              parameters: Any) -> None:
        num_warps, num_ctas, shared = packed_metadata[:3]
        config, _rows = launch.config_of(grid, num_warps * 32, shared, stream, num_ctas)
        cuda.call("cuLaunchKernelEx", ctypes.byref(config), ctypes.c_void_p(function), parameters, None)
