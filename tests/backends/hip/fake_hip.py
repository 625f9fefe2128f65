"""A HIP runtime that only takes notes, made of the fake CUDA driver: most functions differ in their names alone.

Kernels are compiled by a backend of two stages whose machine code is a placeholder: what is tested is the runtime.
"""

import ctypes
import functools
import sys

import tritium.backends.amdgcn
from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.fake_driver import FakeCuda, I, P, Q, S, U, word
from tritium.backends import Backend
from tritium.backends.amdgcn.driver import Driver
from tritium.backends.amdgcn.runtime import launch, messages
from tritium.backends.amdgcn.runtime.hip import HIP
from tritium.backends.driver import driver
from tritium.backends.gpu_runtime import launch as shared
from tritium.backends.nvptx.runtime.cuda import CUDA

C = ctypes.c_char_p
# hipDeviceAttribute_t of an MI300X
ATTRIBUTES = {56: 1024, 74: 65536, 87: 64, 71: 65536, 5: 2100000, 63: 304, 60: 1300000, 59: 8192, 57: 2048, 23: 9,
              61: 4, 10002: 65536, 19: 4194304, 10: 1}  # fmt: skip
NAMES = {1: b"hipErrorInvalidValue", 2: b"hipErrorOutOfMemory", 209: b"hipErrorNoBinaryForGpu",
         700: b"hipErrorIllegalAddress", 720: b"hipErrorCooperativeLaunchTooLarge"}  # fmt: skip
SAME = {HIP.entries[name]: CUDA.entries[name] for name in HIP.entries} | {
    "hipModuleLaunchKernel": "cuLaunchKernel"}  # HIP's name -> that of the function of CUDA's with the same shape


class FakeHip(FakeCuda):
    """libamdhip64's functions as attributes."""

    ATTRIBUTES = ATTRIBUTES
    SIGNATURES = {  # noqa: RUF012
        **{name: FakeCuda.SIGNATURES[other] for name, other in SAME.items()},
        "hipGetDevice": (I, P), "hipSetDevice": (I, I), "hipGetErrorName": (P, I), "hipGetErrorString": (P, I),
        "hipModuleLoadData": (I, P, P), "hipGetDevicePropertiesR0600": (I, P, I), "hipModuleGetGlobal": (I, P, P, P, C),
        "hipModuleLaunchCooperativeKernel": (I, P, U, U, U, U, U, U, U, P, P), "hipMemcpyHtoD": (I, P, P, S),
    }  # fmt: skip

    def __init__(self, devices=1, arch=b"gfx942:sramecc+:xnack-"):
        super().__init__(devices)
        self.current, self.arch, self.variables, self.texts = 1000, arch, {}, {}

    def _call(self, name, *args):
        self.calls.append(name)
        if name in self.fail:
            return self.fail[name]
        handler = getattr(self, f"_{name}", None) or getattr(self, f"_{SAME.get(name)}", lambda *args: 0)
        return handler(*args) or 0

    def _hipGetDevice(self, out):
        word(out, I).value = self.current - 1000

    def _hipSetDevice(self, device):
        self.current = 1000 + device

    def _hipDeviceGetAttribute(self, out, attribute, device):
        word(out, I).value = self.ATTRIBUTES[attribute]

    def _hipGetErrorName(self, code):
        return self._kept(NAMES.get(code, b"hipErrorUnknown"))

    def _hipGetErrorString(self, code):
        return self._kept(fake_driver.NAMES.get(code, b"some error"))

    def _kept(self, text):
        return ctypes.cast(self.texts.setdefault(text, ctypes.create_string_buffer(text)), P).value

    def _hipGetDevicePropertiesR0600(self, out, device):
        ctypes.memmove(out, b"AMD Instinct MI300X", 19)
        ctypes.memmove(out + 1160, self.arch, len(self.arch))

    def _hipModuleLoadData(self, out, data):
        word(out).value = next(fake_driver.MODULES)

    def _hipModuleGetGlobal(self, address, size, module, name):
        if name.decode() not in self.variables:
            return 500
        word(address).value = ctypes.addressof(self.variables[name.decode()])

    def _hipModuleLaunchCooperativeKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters):
        self._note("cooperative", function, (gx, gy, gz), (bx, by, bz), shared, stream, parameters, [])

    def _hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(self, out, function, threads, shared):
        word(out, I).value = 2048 // threads

    def _hipMemcpyHtoD(self, target, source, size):
        ctypes.memmove(target, source, size)


HSACO = b"\x7fELF\x02\x01\x01\x40 a placeholder for a code object"


def hsaco(module, target, options, metadata):
    """The machine code of every kernel."""
    metadata |= {"shared": options.min_shared_mem, "dynamic_shared": 0, "preconditions": {}}
    return HSACO


BACKEND = Backend("hip", lambda target: (), (("hsaco", hsaco),), takes_host_memory=True)


def clear():
    """Forget everything known of a runtime."""
    cached = HIP.library, HIP._first_start, HIP.count, HIP.properties, HIP.arch, messages._register
    for function in cached:
        function.cache_clear()
    launch.Runtime.get.__func__.cache_clear()
    for kept in (HIP.suspects, HIP.watchers, HIP.homes):
        kept.clear()


def install(monkeypatch, devices=1, **how):
    """A fake runtime in place of libamdhip64, and the active driver of tritium."""
    fake = FakeHip(devices, **how)
    clear()
    monkeypatch.setattr(HIP, "library", functools.cache(lambda: fake))
    monkeypatch.setattr(tritium.backends.amdgcn, "BACKEND", BACKEND, raising=False)
    monkeypatch.setattr(shared, "_own_streams", False)
    monkeypatch.setattr(shared, "current", shared._Current())
    if "torch" in sys.modules:  # on a machine with a GPU, torch would ask the real driver
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    made = Driver()
    driver.set_active(made)
    return fake, made


__all__ = ["FakeHip", "Q", "clear", "install"]
