"""A CUDA driver that only takes notes: functions with the driver's signatures, written in Python.

Device memory is host memory, so copies are real; kernels are not run, their launches are noted.
"""

import ctypes
import functools
import itertools
import struct
import sys

from tritium.backends.driver import driver
from tritium.backends.gpu_runtime import launch as shared
from tritium.backends.nvptx.assemble import warm_up
from tritium.backends.nvptx.driver import Driver
from tritium.backends.nvptx.runtime import cuda, launch

P, I, U, S, Q = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint64
NAMES = {0: b"no error", 1: b"invalid argument", 700: b"an illegal memory access was encountered"}
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = P, (S,)
libc.free.argtypes = (P,)
ATTRIBUTES = {1: 1024, 97: 232448, 10: 32, 12: 65536, 13: 1980000, 16: 132, 36: 3201000, 37: 6144, 39: 2048, 75: 9,
              76: 0, 81: 233472, 38: 52428800}  # fmt: skip


MODULES = itertools.count(4000)  # no fake gives a handle that another gave


def word(address, kind=ctypes.c_void_p):
    return kind.from_address(address)


class FakeCuda:
    """libcuda's functions as attributes."""

    def __init__(self, devices=1):
        self.devices, self.current = devices, 0
        self.launches, self.calls, self.memory = [], [], {}
        self.fail = {}  # function -> code it returns
        self.parameters = 4  # slots noted of a launch
        for name, (result, *types) in self.SIGNATURES.items():
            setattr(self, name, ctypes.CFUNCTYPE(result, *types)(functools.partial(self._call, name)))

    def _call(self, name, *args):
        self.calls.append(name)
        if name in self.fail:
            return self.fail[name]
        return getattr(self, f"_{name}", lambda *args: 0)(*args) or 0

    SIGNATURES = {  # noqa: RUF012
        "cuInit": (I, U), "cuDeviceGetCount": (I, P), "cuDeviceGet": (I, P, I), "cuGetErrorString": (I, I, P),
        "cuDevicePrimaryCtxRetain": (I, P, I), "cuCtxGetCurrent": (I, P), "cuCtxSetCurrent": (I, P),
        "cuGetErrorName": (I, I, P), "cuCtxGetDevice": (I, P), "cuDeviceGetAttribute": (I, P, I, I),
        "cuModuleLoadDataEx": (I, P, P, U, P, P), "cuModuleGetFunction": (I, P, P, ctypes.c_char_p),
        "cuModuleUnload": (I, P), "cuFuncSetAttribute": (I, P, I, I), "cuFuncGetAttribute": (I, P, I, P),
        "cuPointerGetAttribute": (I, P, I, P), "cuCtxSynchronize": (I,), "cuCtxSetLimit": (I, I, S),
        "cuCtxGetLimit": (I, P, I),
        "cuLaunchKernel": (I, P, U, U, U, U, U, U, U, P, P, P), "cuLaunchKernelEx": (I, P, P, P, P),
        "cuMemAlloc_v2": (I, P, S), "cuMemFree_v2": (I, P), "cuMemHostAlloc": (I, P, S, U), "cuMemFreeHost": (I, P),
        "cuMemcpyHtoDAsync_v2": (I, Q, Q, S, P), "cuMemcpyDtoHAsync_v2": (I, Q, Q, S, P),
        "cuMemcpyAsync": (I, Q, Q, S, P), "cuMemsetD8Async": (I, Q, ctypes.c_ubyte, S, P),
        "cuMemGetInfo_v2": (I, P, P), "cuStreamCreateWithPriority": (I, P, U, I), "cuStreamDestroy_v2": (I, P),
        "cuStreamIsCapturing": (I, P, P), "cuThreadExchangeStreamCaptureMode": (I, P),
        "cuStreamSynchronize": (I, P), "cuStreamQuery": (I, P), "cuStreamWaitEvent": (I, P, P, U),
        "cuEventCreate": (I, P, U), "cuEventDestroy_v2": (I, P), "cuEventRecord": (I, P, P),
        "cuEventSynchronize": (I, P), "cuEventQuery": (I, P), "cuEventElapsedTime": (I, P, P, P),
        "cuOccupancyMaxActiveClusters": (I, P, P, P), "cuOccupancyMaxActiveBlocksPerMultiprocessor": (I, P, P, I, S),
        "cuTensorMapEncodeTiled": (I, P, I, U, P, P, P, P, P, I, I, I, I), "cuTensorMapReplaceAddress": (I, P, P),
    }  # fmt: skip

    # -- devices and contexts: the context of device d is 1000 + d --------------------------------------------------
    def _cuDeviceGetCount(self, out):
        word(out, I).value = self.devices

    def _cuDeviceGet(self, out, device):
        word(out, I).value = device

    def _cuDevicePrimaryCtxRetain(self, out, device):
        word(out).value = 1000 + device

    def _cuCtxGetCurrent(self, out):
        word(out).value = self.current

    def _cuCtxSetCurrent(self, context):
        self.current = context or 0

    def _cuCtxGetDevice(self, out):
        word(out, I).value = self.current - 1000

    def _cuDeviceGetAttribute(self, out, attribute, device):
        word(out, I).value = ATTRIBUTES[attribute]

    def _cuCtxGetLimit(self, out, number):
        word(out, S).value = 1 << 20

    def _cuGetErrorString(self, code, out):
        word(out, ctypes.c_char_p).value = NAMES.get(code, b"some error")

    def _cuGetErrorName(self, code, out):
        word(out, ctypes.c_char_p).value = b"CUDA_ERROR_%d" % code

    # -- kernels: the function of module m is m + 1000000 -----------------------------------------------------------
    def _cuModuleLoadDataEx(self, out, data, count, options, values):
        word(out).value = next(MODULES)

    def _cuModuleGetFunction(self, out, module, name):
        word(out).value = module + 1000000

    def _cuFuncGetAttribute(self, out, attribute, function):
        word(out, I).value = {0: 256, 4: 40, 3: 16}.get(attribute, 0)

    def _cuPointerGetAttribute(self, out, attribute, pointer):
        owner = next((d for start, (size, d) in self.memory.items() if start <= (pointer or 0) < start + size), None)
        if owner is None:
            return 1
        if attribute == 9:
            word(out, I).value = owner
        else:
            word(out).value = pointer

    def _cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        self._note("plain", function, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, [])

    def _cuLaunchKernelEx(self, config, function, parameters, extra):
        c = launch.CONFIG.from_address(config)
        rows = (launch.ATTRIBUTE * c.count).from_address(c.attributes)
        self._note("ex", function, tuple(c.grid), tuple(c.block), c.shared, c.stream, parameters,
                   [(row.id, tuple(row.value)[:3]) for row in rows])  # fmt: skip

    def _note(self, how, function, grid, block, shared, stream, parameters, attributes):
        slots = [word(word(parameters + 8 * k).value, Q).value for k in range(self.parameters)]
        self.launches.append({"how": how, "function": function, "grid": grid, "block": block, "shared": shared,
                              "stream": stream or 0, "slots": slots, "attributes": attributes,
                              "context": self.current})  # fmt: skip

    # -- memory -----------------------------------------------------------------------------------------------------
    def _cuMemAlloc_v2(self, out, size):
        address = libc.malloc(size + 256)
        self.memory[address] = (size, self.current - 1000)
        word(out, Q).value = address

    def _cuMemHostAlloc(self, out, size, flags):
        self._cuMemAlloc_v2(out, size)

    def _cuMemFree_v2(self, pointer):
        del self.memory[pointer]
        libc.free(pointer)

    _cuMemFreeHost = _cuMemFree_v2

    def _cuMemcpyAsync(self, target, source, size, stream):
        self.copies = [*getattr(self, "copies", []), stream or 0]
        ctypes.memmove(target, source, size)

    _cuMemcpyHtoDAsync_v2 = _cuMemcpyDtoHAsync_v2 = _cuMemcpyAsync

    def _cuMemsetD8Async(self, target, value, size, stream):
        ctypes.memset(target, value, size)

    def _cuMemGetInfo_v2(self, free, total):
        word(free, S).value, word(total, S).value = 100, 200

    # -- streams and events: handles count up -----------------------------------------------------------------------
    def _cuStreamCreateWithPriority(self, out, flags, priority):
        self.handles = getattr(self, "handles", 7000) + 1
        word(out).value = self.handles

    def _cuEventCreate(self, out, flags):
        self._cuStreamCreateWithPriority(out, flags, 0)

    def _cuEventRecord(self, event, stream):
        self.records = [*getattr(self, "records", []), stream or 0]

    def _cuStreamWaitEvent(self, stream, event, flags):
        self.waits = [*getattr(self, "waits", []), stream or 0]

    def _cuStreamIsCapturing(self, stream, out):
        word(out, I).value = int(stream == getattr(self, "captured", -1))

    def _cuEventElapsedTime(self, out, start, end):
        word(out, ctypes.c_float).value = end - start

    def _cuOccupancyMaxActiveClusters(self, out, function, config):
        word(out, I).value = 132 // launch.CONFIG.from_address(config).grid[0]

    def _cuTensorMapEncodeTiled(self, out, type_, rank, address, dims, strides, box, steps, *rest):
        values = [(Q * rank).from_address(dims)[:], (Q * (rank - 1)).from_address(strides)[:],
                  (U * rank).from_address(box)[:], (U * rank).from_address(steps)[:]]  # fmt: skip
        self.maps = [(type_, address, *values, *rest, out % 64)]
        ctypes.memmove(out, struct.pack("Q", address), 8)


START_AHEAD = warm_up._start
CACHED = START_AHEAD, cuda.CUDA.library, cuda.CUDA._first_start, cuda.count, cuda.context, cuda.properties


def clear():
    """Forget everything known of a driver."""
    for function in CACHED:
        function.cache_clear()
    launch.Runtime.get.__func__.cache_clear()
    cuda.suspects.clear()
    cuda.CUDA.homes.clear()  # kernels that are still there unload nothing


def install(monkeypatch, devices=1):
    """A fake driver in place of libcuda, and the active driver of tritium."""
    fake = FakeCuda(devices)
    clear()
    monkeypatch.setattr(cuda.CUDA, "library", functools.cache(lambda: fake))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(warm_up, "_start", lambda device: None)  # tests count calls, and know no other threads
    monkeypatch.setattr(shared, "_own_streams", False)
    monkeypatch.setattr(shared, "current", shared._Current())
    if "torch" in sys.modules:  # on a machine with a GPU, torch would ask the real driver
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    made = Driver()
    driver.set_active(made)
    return fake, made
