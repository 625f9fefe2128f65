"""Launching on NVIDIA GPUs: clusters, launch attributes and implicit arguments, on top of what all GPUs share."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ....ir.preconditions import preconditions_of
from ...gpu_runtime import launch as shared
from ...gpu_runtime import launcher as shared_launcher
from ...gpu_runtime.launch import current_stream, handle_of, loaded
from ...launcher.parts import Part
from ...launcher.writers import WRITERS
from ...llvm.structs import Struct
from . import cuda, implicit_args, launcher

__all__ = ["Launcher", "Runtime", "active_blocks", "active_clusters", "config_of", "current_stream", "handle_of",
           "loaded"]  # fmt: skip

PART = Part("cuda", launcher.SYMBOLS, (*WRITERS, shared_launcher, launcher, implicit_args),
            lambda target: launcher.launcher(), effort="plain")


@ctypes.CFUNCTYPE(ctypes.c_int)
def _refuse() -> int:
    """Stands for functions that an old driver lacks: tensor maps came with CUDA 12. 801 is "not supported"."""
    return 801


def _address(name: str) -> int:
    lib = cuda.CUDA.library()
    lacking = lib is not None and not hasattr(lib, name)
    return (ctypes.cast(_refuse, ctypes.c_void_p).value if lacking else cuda.address(name)) or 0


class Runtime(shared.Runtime):
    """The native launcher of this process, linked to the CUDA driver."""

    gpu, prefix, part = cuda.CUDA, launcher.PREFIX, PART

    @classmethod
    def linked(cls) -> dict[str, int]:
        """The functions of the CUDA driver."""
        return {name: _address(name) for name in launcher.DRIVER}


ATTRIBUTE = Struct("attribute", id="i32", padding="i32", value="[16 x i32]").ctype  # CUlaunchAttribute: a union
CONFIG = launcher.CONFIG.ctype
_CLUSTER, _COOPERATIVE, _OVERLAP = 4, 2, 6  # CUlaunchAttributeID
PORTABLE = 8  # blocks that a cluster may have on every GPU with clusters
active_blocks = cuda.CUDA.active_blocks


def attributes_of(metadata: Any) -> list[tuple[int, tuple[int, ...]]]:
    """[(number, values)] of the launch attributes a kernel's options ask for."""
    found = []
    if metadata.num_ctas > 1:
        found.append((_CLUSTER, (metadata.num_ctas, 1, 1)))
    if metadata.launch_cooperative_grid:
        found.append((_COOPERATIVE, (1,)))
    if metadata.launch_pdl:
        found.append((_OVERLAP, (1,)))
    return found


def config_of(grid: tuple[int, int, int], threads: int, shared: int, stream: int | None,
              num_ctas: int) -> tuple[Any, Any]:
    """(config, attributes) of a launch of programs that are clusters of `num_ctas` blocks; keep both until it is done.

    >>> config, _ = config_of((3, 1, 1), 128, 0, None, 2)
    >>> tuple(config.grid), config.count
    ((6, 1, 1), 1)
    """
    rows = (ATTRIBUTE * 1)(ATTRIBUTE(_CLUSTER, 0, (num_ctas, 1, 1)))
    sizes = (grid[0] * num_ctas, *grid[1:])
    config = CONFIG(sizes, (threads, 1, 1), shared, stream, ctypes.addressof(rows), int(num_ctas > 1))
    return config, rows


def active_clusters(function: int, shared: int, num_ctas: int, threads: int) -> int:
    """How many clusters of `num_ctas` blocks fit on the current device at once."""
    config, _rows = config_of((1, 1, 1), threads, shared, None, num_ctas)
    config.count = 1
    found, kernel = ctypes.c_int(), ctypes.c_void_p(function)
    allow_large_clusters(function)
    cuda.call("cuOccupancyMaxActiveClusters", ctypes.byref(found), kernel, ctypes.byref(config))
    return found.value


def allow_large_clusters(function: int) -> None:
    """Let a kernel be launched in clusters of more than 8 blocks, which not every GPU of an architecture has."""
    cuda.call("cuFuncSetAttribute", ctypes.c_void_p(function), 14, 1)


class Launcher(shared.Launcher):
    """Launches one compiled kernel; see `gpu_runtime.launch.Launcher`."""

    runtime = Runtime
    hints = {  # noqa: RUF012
        1: "a grid has at most 2147483647 programs along axis 0 and 65535 along the others",
        720: "the programs of a cooperative launch must all fit on the GPU at once: use fewer",
    }

    def _equip(self, metadata: Any) -> None:
        self._implicit = None
        if getattr(metadata, "tensor_maps", ()):
            assumed = preconditions_of(metadata)
            self._implicit = implicit_args.ImplicitArguments(metadata.tensor_maps, metadata.persistent,
                                                             self.slot_count, assumed.stores)
            self.info.implicit = self._implicit.address
        self._blocks, attributes = metadata.num_ctas, attributes_of(metadata)
        if attributes:
            self.info.config = self._config(self.info.threads, metadata.shared, attributes)

    def _config(self, threads: int, shared: int, attributes: Sequence[tuple[int, tuple[int, ...]]]) -> int:
        rows = (ATTRIBUTE * len(attributes))(*(ATTRIBUTE(number, 0, values) for number, values in attributes))
        blocks = (self._blocks, 1, 1)  # of a program: the launcher multiplies them by the grid
        config = CONFIG(blocks, (threads, 1, 1), shared, None, ctypes.addressof(rows), len(rows))
        self._kept = rows, config
        return ctypes.addressof(config)

    def _settle(self, function: int) -> None:
        if self._blocks > PORTABLE:
            allow_large_clusters(function)
        if self._implicit is not None:
            self._implicit.settle(lambda: self._places(function))

    def _places(self, function: int) -> int:
        """How many programs fit on the device at once."""
        with cuda.on(self.device):
            if self._blocks > 1:
                return active_clusters(function, self.info.shared, self._blocks, self.info.threads)
            return active_blocks(function, self.info.shared, self.info.threads, self.device)

    def _fit(self, sizes: tuple[int, ...]) -> bool:
        return self._implicit is None or self._implicit.fit(sizes)
