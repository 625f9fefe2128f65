"""The low-level services that frameworks ask the driver for, by the names they have in Triton's releases."""

from __future__ import annotations

import ctypes

from ....tensors import address_of, reader_of
from ...launcher.calls import pack
from . import cuda, launch, tensor_map

__all__ = ["Utils"]


class Utils:
    """`driver.active.utils` on NVIDIA GPUs."""

    def get_device_properties(self, device):
        """Shared memory, registers, SM count, warp size and clocks."""
        return dict(cuda.properties(device))

    def get_current_device(self):
        """Index of the device whose context is current."""
        return cuda.current()

    def set_current_device(self, device):
        """Make a device's primary context current."""
        cuda.use(device)

    def get_device_capability(self, device):
        """(9, 0) on an H200."""
        found = cuda.properties(device)
        return found["major"], found["minor"]

    def get_default_stream(self, device=0):
        """Handle of the stream that launches go to where nobody names another."""
        return 0

    def is_stream_capturing(self, stream):
        """Whether launches in a stream are recorded into a graph instead of done."""
        return cuda.capturing(stream)

    def load_binary(self, name, binary, shared, device):
        """(module, function, n_regs, n_spills, n_max_threads)."""
        return cuda.load(name, binary, shared, device)

    def unload_module(self, module):
        """Give a module's memory back; its functions are gone then."""
        cuda.unload(module)

    def launch(self, grid_0, grid_1, grid_2, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook,
               *args, signature=None):
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
        _send(function, (grid_0, grid_1, grid_2), launch.handle_of(stream), packed_metadata, zip(types, args))
        if leave is not None:
            leave(told)

    def set_printf_fifo_size(self, size):
        """Bytes the device may print between two synchronisations."""
        cuda.use(cuda.current())
        cuda.set_limit(1, size, "how much kernels may print is set before the first launch of one that does")

    def cuOccupancyMaxActiveClusters(self, function, shared, num_ctas, threads=128):
        """How many clusters of `num_ctas` programs of a kernel fit on the current device at once."""
        return launch.active_clusters(function, shared, num_ctas, threads)

    def fill_tma_descriptor_tiled(self, global_address, swizzle, elem_size, elem_type, block_size, shape, strides,
                                  padding=0):
        """The 128 bytes of a tensor map; keep the result while a kernel may read it.

        `swizzle` and `elem_type` are CUDA's numbers (CUtensorMapSwizzle, CUtensorMapDataType); `elem_type` may be a
        signature string. `strides` are in elements; `padding` is 1 for NaNs outside of the tensor.
        """
        return tensor_map.encode(global_address, elem_type, elem_size, shape, strides, block_size,
                                 tensor_map.SPANS[swizzle], bool(padding))

    fill_tma_descriptor = fill_tma_descriptor_tiled  # its name in 3.6


def _type_of(x):
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


def _send(function, grid, stream, packed_metadata, typed):
    """Launch a function that has no launcher of its own."""
    num_warps, num_ctas, shared = packed_metadata[:3]
    slots = [ctypes.create_string_buffer(pack(type_, address_of(x) if type_[0] == "*" else x), 8) for type_, x in typed]
    parameters = (ctypes.c_void_p * max(len(slots), 1))(*map(ctypes.addressof, slots))
    config, _rows = launch.config_of(grid, num_warps * 32, shared, stream, num_ctas)
    cuda.call("cuLaunchKernelEx", ctypes.byref(config), ctypes.c_void_p(function), parameters, None)
