"""The CUDA driver API, called through ctypes: nothing to install, nothing touched before the first call."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from typing import Any

from ....errors import TritonError
from ....locks import once

_ATTRIBUTES = {  # CUdevice_attribute
    "max_threads_per_block": 1, "max_shared_mem": 97, "warpSize": 10, "max_num_regs": 12, "sm_clock_rate": 13,
    "multiprocessor_count": 16, "mem_clock_rate": 36, "mem_bus_width": 37, "max_threads_per_sm": 39, "major": 75,
    "minor": 76, "shared_mem_per_sm": 81, "l2_bytes": 38,
}  # fmt: skip
_FUNCTION = {"n_max_threads": 0, "shared": 1, "local": 3, "n_regs": 4, "max_dynamic_shared": 8}
_DEVICE_POINTER, _DEVICE_ORDINAL = 3, 9  # CUpointer_attribute

# Errors a kernel leaves behind: the next call of the driver reports them, and the context is lost.
_STICKY = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))


class CudaError(TritonError, RuntimeError):
    """A CUDA call that failed: its name, and what the driver says."""


@once
def library():
    """libcuda, or None where there is no NVIDIA driver."""
    from .... import knobs
    for name in filter(None, (knobs.nvidia.libcuda_path, "libcuda.so.1", "libcuda.so", "nvcuda.dll")):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def function(name):
    """A function of the driver; a CudaError where there is no driver."""
    lib = library()
    if lib is None:
        raise CudaError("there is no NVIDIA driver on this machine\n"
                        "hint: compile for a GPU with an explicit target, or run on the CPU with TRITIUM_BACKEND=cpu")
    return getattr(lib, name)


def address(name) -> Any:
    """Where a function of the driver lies."""
    return ctypes.cast(function(name), ctypes.c_void_p).value


def call(name, *args):
    """Call a driver function; a failure is a CudaError that names it."""
    code = function(name)(*args)
    if code:
        raise CudaError(f"{name} failed: {explain(code)}")


def release(name, handle):
    """Give something back by a driver function; with a context that is lost, it is gone already."""
    code = function(name)(ctypes.c_void_p(handle))
    if code and code not in _STICKY:
        raise CudaError(f"{name} failed: {explain(code)}")


# What gives the names of the kernels launched since the last synchronisation, once something was launched.
suspects: list[Callable] = []


def explain(code):
    """What the driver says of an error, and for one a kernel left behind, which kernels it may be."""
    text = f"{_text('cuGetErrorString', code)} ({_text('cuGetErrorName', code)}, code {code})"
    if code not in _STICKY:
        return text
    names = [name for launched in suspects for name in launched()] if left_behind(code) else []
    which = ""
    if names:
        text += f"\nlaunched last, the latest first: {', '.join(names)}"
        which = "set CUDA_LAUNCH_BLOCKING=1 to see which of them fails and where; "
    return f"{text}\nhint: {which}run the program under compute-sanitizer to see at which line of the kernel"


def left_behind(code):
    """Whether an error is that of a kernel launched earlier; where launches wait, it is that of the call itself."""
    return code in _STICKY and os.environ.get("CUDA_LAUNCH_BLOCKING", "0") in ("", "0")


def _text(name, code):
    text = ctypes.c_char_p()
    function(name)(code, ctypes.byref(text))
    return (text.value or b"unknown error").decode()


@once
def available():
    """True if there is a device to run on."""
    lib = library()
    if lib is None or lib.cuInit(0):
        return False
    return count() > 0


_FORKED = 3  # what the driver says, in a process forked from one that uses it: it is not initialised, and never will be


def present():
    """True if there is a device, though this process may not use it: torch's compile workers are forked, and look."""
    lib = library()
    return lib is not None and (lib.cuInit(0) == _FORKED or available())


@once
def start():
    """Initialise the driver, once."""
    call("cuInit", 0)


@once
def count():
    """Number of devices."""
    start()
    n = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(n))
    return n.value


@once
def context(device):
    """The primary context of a device, the one every framework shares."""
    start()
    if not 0 <= device < count():
        raise ValueError(f"there is no GPU {device}: this machine has {count()}")
    handle, ctx = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(handle), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), handle)
    return ctx


def current():
    """Index of the device whose context is current; device 0 is made current when there is none."""
    start()
    ctx, device = ctypes.c_void_p(), ctypes.c_int()
    call("cuCtxGetCurrent", ctypes.byref(ctx))
    if not ctx.value:
        use(0)
        return 0
    call("cuCtxGetDevice", ctypes.byref(device))
    return device.value


def use(device):
    """Make a device's primary context current."""
    call("cuCtxSetCurrent", context(device))


def set_limit(number, value, hint):
    """Set a limit of the current context; one that has the value is left alone, for some can be set no more."""
    found = ctypes.c_size_t()
    call("cuCtxGetLimit", ctypes.byref(found), number)
    if found.value == value:
        return
    code = function("cuCtxSetLimit")(number, ctypes.c_size_t(value))
    if code:
        raise CudaError(f"cuCtxSetLimit failed: {explain(code)}\nhint: {hint}")


@contextlib.contextmanager
def on(device):
    """Within it, a device's primary context is current."""
    before = ctypes.c_void_p()
    use_it = context(device)
    call("cuCtxGetCurrent", ctypes.byref(before))
    call("cuCtxSetCurrent", use_it)
    try:
        yield
    finally:
        if before.value:
            call("cuCtxSetCurrent", before)


@once
def properties(device):
    """What LANGUAGE calls device properties, from the driver; sizes in bytes, clocks in kHz."""
    context(device)
    out, value = {}, ctypes.c_int()
    for name, code in _ATTRIBUTES.items():
        call("cuDeviceGetAttribute", ctypes.byref(value), code, device)
        out[name] = value.value
    return out


# -- kernels -----------------------------------------------------------------------------------------------------------


_homes: dict[int | None, int] = {}  # module -> the device it was loaded on
_RELAXED = 2  # CUstreamCaptureMode


def load(name, binary, shared, device):
    """(module, function, registers, spilled words, threads at most) of a kernel in a cubin or PTX text."""
    with on(device):
        module, kernel = _load_module(name, binary), ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
        if shared > 48 * 1024:
            call("cuFuncSetAttribute", kernel, _FUNCTION["max_dynamic_shared"], shared)
        figures = [_figure(kernel, code) for code in ("n_regs", "local", "n_max_threads")]
    _homes[module.value] = device
    return module.value, kernel.value, figures[0], figures[1] // 4, figures[2]


def unload(module):
    """Give the memory of a module back; its functions are gone then. One that is gone already is left alone.

    A collected kernel unloads its module at any time, in any thread: also while a graph is captured, which the call
    would break off if this thread did not allow it.
    """
    device = _homes.pop(module, None)
    if device is None:
        return
    mode = ctypes.c_int(_RELAXED)
    with on(device):
        call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            release("cuModuleUnload", module)
        finally:
            call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


def _load_module(name, binary):
    """A module; where the driver compiles PTX and fails, what its compiler said."""
    data = binary.encode() if isinstance(binary, str) else binary
    if not data.startswith(b"\x7fELF"):
        data += b"\0"
    module, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
    options = (ctypes.c_int * 2)(5, 6)  # error log, its size
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
    code = function("cuModuleLoadDataEx")(ctypes.byref(module), data, 2, options, values)
    if code:
        said = f"\n{log.value.decode(errors='replace').strip()}" if log.value else ""
        raise CudaError(f"loading {name} failed: {explain(code)}{said}")
    return module


def _figure(kernel, name):
    value = ctypes.c_int()
    call("cuFuncGetAttribute", ctypes.byref(value), _FUNCTION[name], kernel)
    return value.value


# -- memory ------------------------------------------------------------------------------------------------------------


def accessible(pointer):
    """Whether a kernel may use an address: device memory, or host memory that is pinned or managed."""
    found = ctypes.c_void_p()
    return function("cuPointerGetAttribute")(ctypes.byref(found), _DEVICE_POINTER, ctypes.c_void_p(pointer)) == 0


def device_of(pointer):
    """Index of the device that owns an address; None if none does."""
    found = ctypes.c_int()
    code = function("cuPointerGetAttribute")(ctypes.byref(found), _DEVICE_ORDINAL, ctypes.c_void_p(pointer))
    return None if code else found.value


def synchronize():
    """Wait for everything on the current device."""
    call("cuCtxSynchronize")
    for launched in suspects:
        launched(forget=True)


# -- streams -----------------------------------------------------------------------------------------------------------


def wait(stream, other):
    """Have what is queued in a stream from now on wait for what is in another now; None stands for nothing.

    The default stream is 0, or 1 in the protocols for exchanging arrays. A stream that is being captured waits for
    nothing outside of the capture.
    """
    if other is None or (stream or 1) == (other or 1) or capturing(stream):
        return
    event = ctypes.c_void_p()
    call("cuEventCreate", ctypes.byref(event), 2)  # without a time
    try:
        call("cuEventRecord", event, ctypes.c_void_p(other))
        call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
    finally:
        call("cuEventDestroy_v2", event)  # the driver keeps it until the stream has come to it


def capturing(stream):
    """Whether launches in a stream are recorded instead of done; none may be asked of a stream beside such a one."""
    status = ctypes.c_int()
    return bool(function("cuStreamIsCapturing")(ctypes.c_void_p(stream), ctypes.byref(status)) or status.value)
