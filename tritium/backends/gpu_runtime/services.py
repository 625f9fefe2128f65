"""The low-level services that frameworks ask a GPU's driver for, by the names they have in Triton's releases."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ...tensors import address_of, reader_of
from ..launcher.calls import pack
from . import launch
from .library import DriverLibrary


class Utils(ABC):
    """`driver.active.utils` on GPUs."""

    gpu: DriverLibrary

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """Shared memory, registers, processor count, warp size and clocks."""
        return dict(self.gpu.properties(device))

    def get_current_device(self) -> int:
        """Index of the current device."""
        return self.gpu.current()

    def set_current_device(self, device: int) -> None:
        """Make a device current."""
        self.gpu.use(device)

    def get_device_capability(self, device: int) -> tuple[int, int]:
        """(9, 0) on an H200, (9, 4) on an MI300X."""
        found = self.gpu.properties(device)
        return found["major"], found["minor"]

    def get_default_stream(self, device: int = 0) -> int:
        """Handle of the stream that launches go to where nobody names another."""
        return 0

    def is_stream_capturing(self, stream: int) -> bool:
        """Whether launches in a stream are recorded into a graph instead of done."""
        return self.gpu.capturing(stream)

    def load_binary(self, name: str, binary: bytes | str, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """(module, function, n_regs, n_spills, n_max_threads)."""
        return self.gpu.load(name, binary, shared, device)

    def unload_module(self, module: int) -> None:
        """Give the memory of a loaded binary back."""
        self.gpu.unload(module)

    def launch(self, grid_0: int, grid_1: int, grid_2: int, stream: Any, function: int, packed_metadata: Sequence[int],
               launch_metadata: Any, enter_hook: Any, exit_hook: Any, *args: Any,
               signature: Iterable[str] | None = None) -> None:
        """Launch a function of a module, with the arguments of `CompiledKernel.run`.

        One that belongs to a compiled kernel takes all its parameters, constants included. Any other takes what is
        there at run time: `signature` lists the types, which are otherwise those of a jitted function's arguments.
        `packed_metadata` is (num_warps, num_ctas, shared).
        """
        hooks = (launch_metadata, enter_hook or None, exit_hook or None)
        if 0 in (grid_0, grid_1, grid_2):
            return
        kernel = launch.loaded.get(function)
        if kernel is not None:
            kernel.launcher(grid_0, grid_1, grid_2, stream, function, packed_metadata, *hooks, *args)
            return
        types = list(map(_type_of, args)) if signature is None else list(signature)
        if len(types) != len(args):
            raise TypeError(f"the signature has {len(types)} types for {len(args)} arguments")
        told, enter, leave = hooks
        if enter is not None:
            enter(told)
        slots = [ctypes.create_string_buffer(pack(type_, address_of(x) if type_[0] == "*" else x), 8)
                 for type_, x in zip(types, args)]
        parameters = (ctypes.c_void_p * max(len(slots), 1))(*map(ctypes.addressof, slots))
        self._send(function, (grid_0, grid_1, grid_2), launch.handle_of(stream), packed_metadata, parameters)
        if leave is not None:
            leave(told)

    @abstractmethod
    def _send(self, function: int, grid: tuple[int, int, int], stream: int, packed_metadata: Sequence[int],
              parameters: Any) -> None:
        """Launch a function that has no launcher of its own."""


def _type_of(x: Any) -> str:
    """The type of an argument nobody names: what a jitted function would take it for."""
    if x is None or reader_of(x) is not None:
        return "*i8"
    if isinstance(x, bool):
        return "u1"
    if isinstance(x, float):
        return "fp32"
    if isinstance(x, int):
        return "i32" if -(1 << 31) <= x < 1 << 31 else "i64" if x < 1 << 63 else "u64"
    raise TypeError(f"a {type(x).__name__} is no argument of a function on the GPU: pass a tensor, a number or None")
