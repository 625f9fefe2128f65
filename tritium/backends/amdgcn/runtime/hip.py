"""The HIP runtime of ROCm, called through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from typing import Any

from ....errors import TritonError
from ....locks import once
from ...gpu_runtime.library import DriverLibrary


class HipError(TritonError, RuntimeError):
    """A HIP call that failed: its name, and what the runtime says."""


_NAME = "libamdhip64.so"
# (function, where the name of the architecture begins): hipDeviceProp_t has grown with ROCm 6.
_PROPERTIES = (("hipGetDevicePropertiesR0600", 1160), ("hipGetDeviceProperties", 396))
_ROOM = 8192  # bytes, more than either has


class Hip(DriverLibrary):
    """libamdhip64. A device is current in a thread, and stands for what CUDA calls its context."""

    vendor, events, error = "AMD", "HIP", HipError
    blocking = "HIP_LAUNCH_BLOCKING"
    advice = "run the program under rocgdb, or with AMD_LOG_LEVEL=3, to see which access it is"
    entries = {  # noqa: RUF012
        "init": "hipInit", "device_count": "hipGetDeviceCount", "device_attribute": "hipDeviceGetAttribute",
        "module_function": "hipModuleGetFunction", "module_unload": "hipModuleUnload",
        "function_attribute": "hipFuncGetAttribute",
        "active_blocks": "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
        "pointer_attribute": "hipPointerGetAttribute", "synchronize": "hipDeviceSynchronize",
        "alloc": "hipMalloc", "free": "hipFree", "alloc_host": "hipHostMalloc", "free_host": "hipHostFree",
        "copy_in": "hipMemcpyHtoDAsync", "copy_out": "hipMemcpyDtoHAsync", "copy": "hipMemcpyDtoDAsync",
        "fill": "hipMemsetD8Async", "memory_info": "hipMemGetInfo",
        "stream_create": "hipStreamCreateWithPriority", "stream_destroy": "hipStreamDestroy",
        "stream_synchronize": "hipStreamSynchronize", "stream_query": "hipStreamQuery",
        "stream_wait": "hipStreamWaitEvent", "stream_capturing": "hipStreamIsCapturing",
        "capture_mode": "hipThreadExchangeStreamCaptureMode",
        "event_create": "hipEventCreateWithFlags", "event_destroy": "hipEventDestroy", "event_record": "hipEventRecord",
        "event_synchronize": "hipEventSynchronize", "event_query": "hipEventQuery",
        "event_elapsed": "hipEventElapsedTime",
    }  # fmt: skip
    attributes = {  # noqa: RUF012  (hipDeviceAttribute_t)
        "max_threads_per_block": 56, "max_shared_mem": 74, "warpSize": 87, "max_num_regs": 71, "sm_clock_rate": 5,
        "multiprocessor_count": 63, "mem_clock_rate": 60, "mem_bus_width": 59, "max_threads_per_sm": 57, "major": 23,
        "minor": 61, "shared_mem_per_sm": 10002, "l2_bytes": 19, "cooperative": 10,
    }  # fmt: skip
    remedies = {  # noqa: RUF012
        2: "free tensors, or use smaller ones; memory.memory_info() says how much there is",
        98: "the kernel is not in the binary, or the binary is damaged: clear the cache with `python -m tritium cache`",
        100: "is /dev/kfd there, and may this user open it? Users of the GPU are in the groups render and video; "
             "HIP_VISIBLE_DEVICES hides devices",
        200: "the binary is no code object that this ROCm loads: ROCm 5.7 and newer do",
        209: "the kernel was compiled for another GPU: driver.active.get_current_target() names the one here",
        801: "this ROCm does not have the function: a newer one may",
    }  # fmt: skip

    def names(self) -> Iterator[str]:
        """Where libamdhip64 may be: first the one that this process has, so that it never has two."""
        from .... import knobs

        if knobs.amd.libhip_path:
            yield knobs.amd.libhip_path
        yield from _in_this_process()
        torch = importlib.util.find_spec("torch")  # its wheels for ROCm bring the library
        if torch is not None and torch.origin is not None:
            yield os.path.join(os.path.dirname(torch.origin), "lib", _NAME)
        yield from (_NAME, f"{_NAME}.7", f"{_NAME}.6", f"{_NAME}.5")
        yield os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib", _NAME)

    def runtime(self) -> Any:
        """The native launcher."""
        from .launch import Runtime

        return Runtime.get()

    def function(self, name: str) -> Any:
        """A function of the runtime; an error where there is none, and in a forked child, where calls would hang."""
        if name != "init" and self.forked:
            raise HipError("a process that was forked from one that uses the GPU cannot use it\nhint: start processes "
                           "by spawn: multiprocessing.set_start_method('spawn')")
        return super().function(name)

    def told(self, code: int) -> str:
        """An error's name and text, by the runtime."""
        name, text = (self._text(function, code) for function in ("hipGetErrorName", "hipGetErrorString"))
        return f"{text} ({name}, code {code})"

    def _text(self, name: str, code: int) -> str:
        function = self.function(name)
        function.restype = ctypes.c_char_p
        return (function(code) or b"unknown error").decode()

    def context(self, device: int) -> ctypes.c_void_p:
        """The native launcher knows a device by its number."""
        self.check_device(device)
        return ctypes.c_void_p(device)

    def current(self) -> int:
        """Index of the device that is current in this thread."""
        self.start()
        device = ctypes.c_int()
        self.call("hipGetDevice", ctypes.byref(device))
        return device.value

    def use(self, device: int) -> None:
        """Make a device current in this thread."""
        self.check_device(device)
        self.call("hipSetDevice", device)

    @contextlib.contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Within it, a device is current."""
        before = self.current()
        if before == device:
            yield
            return
        self.use(device)
        try:
            yield
        finally:
            self.call("hipSetDevice", before)

    @once
    def arch(self, device: int) -> str:
        """The name of a device's architecture, with the features that are on or off: "gfx942:sramecc+:xnack-"."""
        self.check_device(device)
        for name, start in _PROPERTIES:
            if not hasattr(self.library(), name):
                continue
            found = ctypes.create_string_buffer(_ROOM)
            self.call(name, ctypes.byref(found), device)
            at_place = re.match(rb"gfx[0-9a-f]+[\w:+-]*", found.raw[start:start + 256])
            if at_place is not None:
                return at_place[0].decode()
        raise HipError(f"the HIP runtime does not tell the architecture of GPU {device}\nhint: name the target: "
                       "`knobs.runtime.override_arch`, or TRITON_OVERRIDE_ARCH=gfx942")

    def load_module(self, name: str, binary: bytes | str) -> ctypes.c_void_p:
        """A module of a code object."""
        data = binary.encode() if isinstance(binary, str) else binary
        if not data.startswith(b"\x7fELF"):
            raise HipError(f"loading {name} failed: its binary is no code object\nhint: clear the cache with `python "
                           "-m tritium cache`, and compile again")
        module = ctypes.c_void_p()
        code = self.function("hipModuleLoadData")(ctypes.byref(module), data)
        if code:
            raise HipError(f"loading {name} failed: {self.explain(code)}")
        return module

    def variable(self, module: int, name: str) -> int | None:
        """The address of a global variable of a module; None if it has none of this name."""
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        code = self.function("hipModuleGetGlobal")(ctypes.byref(address), ctypes.byref(size), ctypes.c_void_p(module),
                                                   name.encode())
        return None if code else address.value


def _in_this_process() -> Iterator[str]:
    """The libraries of this name that are mapped already: torch's, mostly."""
    try:
        with open("/proc/self/maps") as maps:
            found = dict.fromkeys(line.split(None, 5)[5].strip() for line in maps if _NAME in line)
    except OSError:
        return
    yield from (path for path in found if os.path.basename(path).startswith(_NAME))


HIP = Hip()
