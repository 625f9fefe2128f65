"""The CUDA driver API, called through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Any

from ....errors import TritonError
from ....locks import once
from ...gpu_runtime.library import FIGURES, DriverLibrary


class CudaError(TritonError, RuntimeError):
    """A CUDA call that failed: its name, and what the driver says."""


class Cuda(DriverLibrary):
    """libcuda."""

    vendor, events, error = "NVIDIA", "CUDA", CudaError
    blocking = "CUDA_LAUNCH_BLOCKING"
    advice = "run the program under compute-sanitizer to see at which line of the kernel"
    entries = {  # noqa: RUF012
        "init": "cuInit", "device_count": "cuDeviceGetCount", "device_attribute": "cuDeviceGetAttribute",
        "module_function": "cuModuleGetFunction", "module_unload": "cuModuleUnload",
        "function_attribute": "cuFuncGetAttribute", "active_blocks": "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "pointer_attribute": "cuPointerGetAttribute", "synchronize": "cuCtxSynchronize",
        "alloc": "cuMemAlloc_v2", "free": "cuMemFree_v2", "alloc_host": "cuMemHostAlloc", "free_host": "cuMemFreeHost",
        "copy_in": "cuMemcpyHtoDAsync_v2", "copy_out": "cuMemcpyDtoHAsync_v2", "copy": "cuMemcpyAsync",
        "fill": "cuMemsetD8Async", "memory_info": "cuMemGetInfo_v2",
        "stream_create": "cuStreamCreateWithPriority", "stream_destroy": "cuStreamDestroy_v2",
        "stream_synchronize": "cuStreamSynchronize", "stream_query": "cuStreamQuery",
        "stream_wait": "cuStreamWaitEvent", "stream_capturing": "cuStreamIsCapturing",
        "capture_mode": "cuThreadExchangeStreamCaptureMode",
        "event_create": "cuEventCreate", "event_destroy": "cuEventDestroy_v2", "event_record": "cuEventRecord",
        "event_synchronize": "cuEventSynchronize", "event_query": "cuEventQuery", "event_elapsed": "cuEventElapsedTime",
    }  # fmt: skip
    attributes = {  # noqa: RUF012  (CUdevice_attribute)
        "max_threads_per_block": 1, "max_shared_mem": 97, "warpSize": 10, "max_num_regs": 12, "sm_clock_rate": 13,
        "multiprocessor_count": 16, "mem_clock_rate": 36, "mem_bus_width": 37, "max_threads_per_sm": 39, "major": 75,
        "minor": 76, "shared_mem_per_sm": 81, "l2_bytes": 38,
    }  # fmt: skip

    remedies = {  # noqa: RUF012
        3: "a process that was forked from one that uses the GPU cannot use it: start processes by spawn, "
           "multiprocessing.set_start_method('spawn')",
        100: "nvidia-smi lists the GPUs of this machine; CUDA_VISIBLE_DEVICES hides some",
    }  # fmt: skip

    def hidden(self) -> bool:
        """Whether CUDA_VISIBLE_DEVICES names no device."""
        return os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")

    def names(self) -> Iterator[str]:
        """Where libcuda may be."""
        from .... import knobs

        yield from filter(None, (knobs.nvidia.libcuda_path, "libcuda.so.1", "libcuda.so", "nvcuda.dll"))

    def runtime(self) -> Any:
        """The native launcher."""
        from .launch import Runtime

        return Runtime.get()

    def told(self, code: int) -> str:
        """An error's name and text, by the driver."""
        return f"{self._text('cuGetErrorString', code)} ({self._text('cuGetErrorName', code)}, code {code})"

    def _text(self, name: str, code: int) -> str:
        text = ctypes.c_char_p()
        self.function(name)(code, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

    @once
    def context(self, device: int) -> ctypes.c_void_p:
        """The primary context of a device, the one every framework shares."""
        self.check_device(device)
        handle, ctx = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(handle), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), handle)
        return ctx

    def current(self) -> int:
        """Index of the device whose context is current; device 0 is made current when there is none."""
        self.start()
        ctx, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuCtxGetCurrent", ctypes.byref(ctx))
        if not ctx.value:
            self.use(0)
            return 0
        self.call("cuCtxGetDevice", ctypes.byref(device))
        return device.value

    def use(self, device: int) -> None:
        """Make a device's primary context current."""
        self.call("cuCtxSetCurrent", self.context(device))

    def set_limit(self, number: int, value: int, hint: str) -> None:
        """Set a limit of the current context; one that has the value is left alone, for some can be set no more."""
        found = ctypes.c_size_t()
        self.call("cuCtxGetLimit", ctypes.byref(found), number)
        if found.value == value:
            return
        code = self.function("cuCtxSetLimit")(number, ctypes.c_size_t(value))
        if code:
            raise CudaError(f"cuCtxSetLimit failed: {self.explain(code)}\nhint: {hint}")

    @contextlib.contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Within it, a device's primary context is current."""
        before = ctypes.c_void_p()
        use_it = self.context(device)
        self.call("cuCtxGetCurrent", ctypes.byref(before))
        self.call("cuCtxSetCurrent", use_it)
        try:
            yield
        finally:
            if before.value:
                self.call("cuCtxSetCurrent", before)

    def load_module(self, name: str, binary: bytes | str) -> ctypes.c_void_p:
        """A module of a cubin or PTX text; where the driver compiles PTX and fails, what its compiler said."""
        data = binary.encode() if isinstance(binary, str) else binary
        if not data.startswith(b"\x7fELF"):
            data += b"\0"
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # error log, its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        code = self.function("cuModuleLoadDataEx")(ctypes.byref(module), data, 2, options, values)
        if code:
            said = f"\n{log.value.decode(errors='replace').strip()}" if log.value else ""
            raise CudaError(f"loading {name} failed: {self.explain(code)}{said}")
        return module

    def allow(self, kernel: ctypes.c_void_p, shared: int) -> None:
        """More than 48 KiB must be asked for."""
        if shared > 48 * 1024:
            self.call("cuFuncSetAttribute", kernel, FIGURES["max_dynamic_shared"], shared)


CUDA = Cuda()

# What the rest of the backend calls.
function, address, call, explain, suspects = CUDA.function, CUDA.address, CUDA.call, CUDA.explain, CUDA.suspects
available, start, count, context = CUDA.available, CUDA.start, CUDA.count, CUDA.context
current, use, set_limit, on = CUDA.current, CUDA.use, CUDA.set_limit, CUDA.on
properties, load = CUDA.properties, CUDA.load
