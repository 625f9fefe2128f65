"""The CUDA driver API, called through ctypes: nothing to install, nothing touched before the first call."""

from __future__ import annotations

import ctypes
import functools

from ...errors import TritonError

_ATTRIBUTES = {  # CUdevice_attribute
    "max_threads_per_block": 1, "max_shared_mem": 97, "warpSize": 10, "max_num_regs": 12, "sm_clock_rate": 13,
    "multiprocessor_count": 16, "mem_clock_rate": 36, "mem_bus_width": 37, "max_threads_per_sm": 39, "major": 75, "minor": 76,
    "shared_mem_per_sm": 81, "l2_bytes": 38,
}
_FUNCTION = {"n_max_threads": 0, "shared": 1, "local": 3, "n_regs": 4, "max_dynamic_shared": 8}


class CudaError(TritonError, RuntimeError):
    """A CUDA call that failed: its name, and what the driver says."""


@functools.cache
def library():
    """libcuda, or None where there is no NVIDIA driver."""
    from ... import knobs
    for name in filter(None, (knobs.nvidia.libcuda_path, "libcuda.so.1", "libcuda.so", "nvcuda.dll")):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def call(name, *args):
    """Call a driver function; a failure is a CudaError that names it."""
    lib = library()
    if lib is None:
        raise CudaError("there is no NVIDIA driver on this machine; compile for it with an explicit target instead")
    code = getattr(lib, name)(*args)
    if code:
        text = ctypes.c_char_p()
        lib.cuGetErrorString(code, ctypes.byref(text))
        raise CudaError(f"{name} failed: {(text.value or b'unknown error').decode()} (code {code})")


@functools.cache
def available():
    """True if there is a device to run on."""
    lib = library()
    if lib is None or lib.cuInit(0):
        return False
    return count() > 0


def count():
    """Number of devices."""
    n = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(n))
    return n.value


@functools.cache
def context(device):
    """The primary context of a device, the one every framework shares."""
    call("cuInit", 0)
    handle, ctx = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(handle), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), handle)
    return ctx


def current():
    """Index of the device whose context is current; device 0 is made current when there is none."""
    call("cuInit", 0)
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


@functools.cache
def properties(device):
    """What LANGUAGE calls device properties, from the driver; sizes in bytes, clocks in kHz."""
    call("cuInit", 0)
    out, value = {}, ctypes.c_int()
    for name, code in _ATTRIBUTES.items():
        call("cuDeviceGetAttribute", ctypes.byref(value), code, device)
        out[name] = value.value
    return out


def load(name, binary, shared, device):
    """(module, function, registers, spilled words, threads at most) of a kernel in a cubin or PTX text."""
    use(device)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    data = binary.encode() + b"\0" if isinstance(binary, str) else binary
    call("cuModuleLoadData", ctypes.byref(module), data)
    call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    if shared > 48 * 1024:
        call("cuFuncSetAttribute", function, _FUNCTION["max_dynamic_shared"], shared)
    figures = [_figure(function, code) for code in ("n_regs", "local", "n_max_threads")]
    return module.value, function.value, figures[0], figures[1] // 4, figures[2]


def _figure(function, name):
    value = ctypes.c_int()
    call("cuFuncGetAttribute", ctypes.byref(value), _FUNCTION[name], function)
    return value.value


def synchronize():
    """Wait for everything on the current device."""
    call("cuCtxSynchronize")
