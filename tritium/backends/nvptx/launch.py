"""Turn a call's arguments into a cuLaunchKernel."""

from __future__ import annotations

import ctypes
import struct

from . import cuda

_PACK = {"i1": "b", "u1": "b", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
         "fp16": "e", "fp32": "f", "f32": "f", "fp64": "d", "f64": "d"}


class Launcher:
    """Launches one compiled kernel; called with the grid, the stream and all parameters in order."""

    def __init__(self, src, metadata):
        self.threads, self.shared, self.name = metadata.num_warps * 32, metadata.shared, metadata.name
        self.cooperative = metadata.launch_cooperative_grid
        self.codes = [_code(ty) for ty in _flatten(src.signature.values())]
        self.launch = cuda.library().cuLaunchKernel

    def __call__(self, gx, gy, gz, stream, function, packed_metadata, launch_metadata, enter, leave, *args):
        if enter is not None:
            enter(launch_metadata)
        slots = [_slot(code, x) for code, x in zip(self.codes, _flatten(args)) if code is not None]
        pointers = (ctypes.c_void_p * len(slots))(*(ctypes.addressof(s) for s in slots))
        code = self.launch(ctypes.c_void_p(function), gx, gy, gz, self.threads, 1, 1, self.shared,
                           ctypes.c_void_p(stream), pointers, None)
        if code:
            raise cuda.CudaError(f"launching {self.name} on a grid of {(gx, gy, gz)} failed with code {code}")
        if leave is not None:
            leave(launch_metadata)


def _flatten(items):
    for x in items:
        if isinstance(x, tuple):
            yield from _flatten(x)
        else:
            yield x


def _code(ty):
    """How a parameter of this signature type is passed: None (not at all), "P" for addresses, else struct's letter."""
    if ty == "constexpr":
        return None
    return "P" if ty.startswith("*") else _PACK[ty]


def _slot(code, x):
    if code == "P":
        return ctypes.c_uint64(x.data_ptr() if hasattr(x, "data_ptr") else int(x or 0))
    return ctypes.create_string_buffer(struct.pack("=" + code, x))
