"""The CPU as a device: its properties, and loading and launching of kernels."""

from __future__ import annotations

import ctypes
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import Call, DriverBase, driver
from tritium.backends.launcher import record
from tritium.backends.launcher.calls import form_of, lookup_guard, pack
from tritium.backends.launcher.entry_points import Demands, Roads
from tritium.backends.launcher.parts import NATIVE
from tritium.language.types.signature import flatten
from tritium.locks import busy, lock, once
from tritium.refusals import of_argument, refusal
from tritium.tensors import device_of, hold, read_only, slots

_TARGET = GPUTarget("cpu", "host", 1)


@once
def _runtime():
    from tritium.backends.cpu.runtime.image import Runtime

    runtime = Runtime.get()
    runtime.ask(_judge)
    return runtime


def _judge(kernel: Any, gx: int, gy: int, gz: int, address: int) -> bool:
    """Called by the native launcher if it cannot decide whether a launch meets the preconditions of a kernel."""
    return kernel.launcher.judge((gx, gy, gz), address)


class Driver(DriverBase):
    """Launches kernels on the cores of this machine. Launches are synchronous; there is one device and no stream.

    >>> Driver().get_current_target()
    GPUTarget(backend='cpu', arch='host', warp_size=1)
    """

    def __init__(self):
        self.utils = Utils()
        self.launcher_cls = launcher_of

    @classmethod
    def is_active(cls) -> bool:
        """There is always a CPU."""
        return True

    def get_current_target(self) -> GPUTarget:
        """This machine."""
        return _TARGET

    def check_target(self, target: GPUTarget) -> None:
        """Refuse kernels compiled for a CPU whose features this one lacks."""
        if target.arch != "host":
            from tritium.backends.llvm.target import check_runs_here

            check_runs_here(str(target.arch))

    def load_kernel(self, metadata: Any, binary: Any, device: int) -> tuple:
        """As `utils.load_binary`; a kernel for a level is linked with the parts of that level."""
        if metadata.target.arch == "host":
            return self.utils.load_binary(metadata.name, binary, metadata.shared, device)
        from tritium.backends.llvm.target import cpu_target

        arch = str(metadata.target.arch)
        library = _runtime().load_for(arch, binary, metadata.name)
        return library, library.address(metadata.name), _registers(cpu_target(arch)), 0, 1024

    def get_active_torch_device(self):
        """`torch.device("cpu")`."""
        import torch

        # Programs call this on the module of whatever device is active, as `torch.cuda.set_stream`: here is one stream.
        module: Any = torch.cpu
        if not hasattr(module, "set_stream"):
            module.set_stream = lambda stream: None
        return torch.device("cpu")

    def get_current_device(self) -> int:
        """Always 0."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Device 0 is the only one."""
        if device != 0:
            raise ValueError(f"the CPU is device 0; there is no device {device}")

    def get_current_stream(self, device: int = 0) -> int:
        """No stream: a launch returns when the kernel has run."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """CPUs have no such version."""
        return 0, 0

    def get_device_interface(self):
        """A substitute for `torch.cuda`."""
        return Interface

    def get_benchmarker(self) -> Callable:
        """`testing.do_bench`."""
        from tritium.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self):
        """A buffer larger than the caches of most machines."""
        import numpy as np

        return np.empty(64 << 20, np.int8)

    def clear_cache(self, cache: Any) -> None:
        """Write all of it."""
        cache.fill(0)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of a signature string."""
        return "void*" if ty.startswith("*") else _C_TYPES[ty]

    def set_num_threads(self, n: int) -> None:
        """Let up to `n` threads work on one launch."""
        if _runtime.cache_info().currsize:  # otherwise it reads the setting when it starts
            _runtime().set_num_threads(n)

    @property
    def launches(self) -> int:
        """A number that each launch on the CPU changes."""
        return _runtime().launches if _runtime.cache_info().currsize else 0

    def guarded_launch(self, kernel: Any, call: Call) -> tuple[Callable, Any] | None:
        """The native launcher, with a record of guards on these arguments."""
        if kernel.metadata.sanitized:
            return None
        form = form_of(call, _tensor_guard, kernel.metadata.stores)
        if form is None:
            return None
        made = _runtime().record(kernel.function, _room(kernel.metadata), owner=kernel, result=kernel,
                                 checks=kernel.launcher.checks, **form)
        return _runtime().binder, made

    def guarded_lookup(self, kernel: Any, call: Call) -> tuple[Callable, Any] | None:
        """The native lookup, with a record of guards on these arguments."""
        form = form_of(call, lookup_guard(_tensor_guard))
        if form is None or not NATIVE:
            return None
        return _runtime().finder, record.record(0, 0, 0, owner=kernel, result=kernel, **form)

    def roads(self, kernel: Any) -> Roads | None:
        """The native ways to launch a compiled kernel."""
        if kernel.metadata.sanitized:
            return None
        runtime, metadata, launcher = _runtime(), kernel.metadata, kernel._launcher
        launcher.sanitized = _Sanitized(kernel)
        demands = Demands(metadata.name, kernel.src)
        stores = frozenset(getattr(metadata, "stores", ()))

        def make(form: dict[str, Any]) -> record.Record:
            return runtime.record(kernel.function, _room(metadata), owner=kernel, result=kernel,
                                  checks=launcher.checks, quiet=True, **form)

        return Roads(kernel, demands, lambda args: demands.form(args, _tensor_guard, stores), make,
                     runtime.core if NATIVE else None, kernel._launch_over)


_C_TYPES = {
    "u1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "fp16": "double", "bf16": "double", "fp32": "double",
    "fp64": "double",
}  # fmt: skip


class Utils:
    """Properties of the machine, and loading of binaries."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Figures under the names GPUs use: cores are multiprocessors, a kernel's scratch memory is shared memory.

        Registers and scratch memory do not limit how many programs are resident, so their figures are generous:
        occupancy computed from them comes out positive.
        """
        return {
            "max_shared_mem": 1 << 30, "max_num_regs": 1 << 16, "multiprocessor_count": _threads(),
            "warpSize": 1, "max_threads_per_sm": 1024, "sm_clock_rate": _clock_khz(), "mem_clock_rate": 0,
            "mem_bus_width": 64,
        }  # fmt: skip

    def load_binary(self, name: str, binary: bytes, shared: int, device: int):
        """(module, function, registers, spills, threads) of an object file."""
        library = _runtime().load(binary, name)
        return library, library.address(name), _registers(_runtime().target), 0, 1024

    def unload_module(self, module: Any) -> None:
        """Unmap the code of a kernel that was loaded."""
        module.unload()

    def get_current_device(self) -> int:
        """Always 0."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Device 0 is the only one."""

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """CPUs have no such version."""
        return 0, 0

    def get_default_stream(self, device: int = 0) -> int:
        """No stream."""
        return 0

    def is_stream_capturing(self, stream: int = 0) -> bool:
        """Launches are always done at once."""
        return False


def _registers(cpu: Any) -> int:
    return 32 if cpu.simd in ("neon", "avx512") else 16


def _threads() -> int:
    """The threads that work on a launch: the runtime's, once it has read the setting, which asks the system."""
    return _runtime().num_threads if _runtime.cache_info().currsize else knobs.num_threads


@once
def _clock_khz() -> int:
    path = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
    return int(open(path).read()) if os.path.exists(path) else 0


class Interface:
    """`torch.cuda` for the CPU: work is done when a launch returns, so there is nothing to wait for.

    >>> start, end = Interface.Event(enable_timing=True), Interface.Event(enable_timing=True)
    >>> start.record(); end.record()
    >>> start.elapsed_time(end) >= 0
    True
    """

    class Event:
        """A moment."""

        def __init__(self, enable_timing: bool = False, **_kwargs: Any):
            self._time = 0

        def record(self, stream: Any = None) -> None:
            """Note the time."""
            self._time = time.perf_counter_ns()

        def elapsed_time(self, end: Any) -> float:
            """Milliseconds from this event to `end`."""
            return (end._time - self._time) / 1e6

        def synchronize(self) -> None:
            """Nothing to wait for."""

        wait = query = synchronize

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Nothing to wait for."""

    @staticmethod
    def current_device() -> int:
        """Always 0."""
        return 0

    @staticmethod
    def device_count() -> int:
        """One."""
        return 1

    @staticmethod
    def is_available() -> bool:
        """Always."""
        return True


# -- launching ---------------------------------------------------------------------------------------------------------


_judging = lock()  # one variant of a kernel is kept


def _room(metadata: Any) -> int:
    """The pool's word on a kernel: the bytes of scratch memory of a program, and a bit if all programs run at once."""
    from tritium.backends.cpu.runtime.job import BIT

    return metadata.arena_bytes | (BIT if metadata.launch_cooperative_grid else 0)


class Launcher:
    """Launches one kernel on any arguments: packs a slot of 8 bytes for each run-time value.

    `CompiledKernel.run` delegates launches that it cannot do alone. A launch that breaks a precondition of the kernel
    runs the variant that `fallback()` returns.
    """

    def __init__(self, src: Any, metadata: Any):
        self._name, self._names, self._types = metadata.name, tuple(src.signature), tuple(src.signature.values())
        self._stores = frozenset(getattr(metadata, "stores", ()))
        self._room = _room(metadata)
        self._launch = _runtime().launch_raw
        self._preconditions: Any = None
        self._checks: Any = None
        self.fallback: Any = None
        self.sanitized: _Sanitized | None = None  # where it can be compiled with checks
        if getattr(metadata, "preconditions", None):
            from tritium.backends.cpu.runtime.job import CHECKS
            from tritium.backends.launcher.preconditions import Guard
            from tritium.ir.preconditions import preconditions_of

            self._preconditions = Guard(preconditions_of(metadata))
            self._checks = CHECKS.ctype(preconditions=self._preconditions.address)

    @property
    def checks(self) -> int:
        """The address of the preconditions that the native launcher checks before each launch; 0 if there are none."""
        return 0 if self._checks is None else ctypes.addressof(self._checks)

    def __call__(self, gx: int, gy: int, gz: int, stream: Any, function: int, packed_metadata: Any, told: Any,
                 enter: Any, leave: Any, *args: Any) -> None:
        if knobs.sanitize and self.sanitized is not None and (checked := self.sanitized.variant()) is not None:
            launch, function = checked
            launch(gx, gy, gz, stream, function, packed_metadata, told, enter, leave, *args)
            return
        _held, packed = self._pack(args)  # the arguments' memory must outlive the launch
        room = self._room
        if self._preconditions is not None:
            at = ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value or 0
            if not self._preconditions.hold((gx, gy, gz), at):
                function, room = self._fallback()
        if enter is not None:  # last: between the hooks is the kernel alone, for those who take its time
            enter(told)
        self._launch(function, room, gx, gy, gz, packed)
        if leave is not None:
            leave(told)

    def _pack(self, args: tuple) -> tuple[list, bytes]:
        """The arguments with their memory held, and their slots."""
        held: list[Any] = []
        packed: list[bytes] = []
        try:
            for k, (type_, x) in enumerate(zip(self._types, args, strict=True)):
                x = x if type_ == "constexpr" else hold(x)
                if k in self._stores and read_only(x):
                    raise refusal(ValueError, "the kernel stores to it, and its memory is read-only",
                                  "pass a copy that may be written, x.copy()")
                packed += [pack(part, value) for part, value in slots(type_, x)]
                held.append(x)
        except Exception as error:
            if len(args) != len(self._types):
                raise
            named = of_argument(error, self._name, self._names[len(held)])
            raise named from named.__cause__
        return held, b"".join(packed)

    def judge(self, sizes: tuple[int, int, int], address: int) -> bool:
        """True if a launch with the slots at an address satisfies the preconditions; else the fallback is launched."""
        if self._preconditions.hold(sizes, address):
            return True
        count = sum(len(flatten(type_)) for type_ in self._types)
        self._launch(*self._fallback(), *sizes, ctypes.string_at(address, 8 * count))
        return False

    def _fallback(self) -> tuple[int, int]:
        """The entry of the variant without preconditions, and its word on scratch memory."""
        if not self._checks.other:
            with _judging, busy():
                if not self._checks.other:
                    kernel = self.fallback()
                    kernel._init_handles()
                    self._other = kernel  # its code must stay
                    self._checks.other_arena = _room(kernel.metadata)
                    self._checks.other = kernel.function
        return self._checks.other, self._checks.other_arena


class _Sanitized:
    """The variants of a kernel that are checked: on the CPU, and on each GPU that is emulated. Each is compiled when it
    is first launched so."""

    def __init__(self, kernel: Any):
        self._kernel, self._made = weakref.ref(kernel), {}

    def variant(self) -> tuple[Callable, Any] | None:
        """What launches the variant for now on the kernel's arguments, and its function; None if there is none."""
        target = driver.active.get_current_target() if driver.active.emulates else None
        with _judging, busy():
            if target not in self._made:
                self._made[target] = self._compiled(target)
            return self._made[target][0]

    def _compiled(self, target: Any) -> tuple[tuple[Callable, Any] | None, Any]:
        """As `variant`, and the compiled kernel, whose code must stay."""
        kernel = self._kernel()
        made = kernel and kernel.sanitized_variant(target)
        if kernel is None or made is None:
            return None, None
        made._init_handles()
        make = launcher_of if target is None else driver.active.launcher_cls
        return (make(kernel.src, made.metadata), made.function), made  # whatever stage it was compiled from


def launcher_of(src: Any, metadata: Any) -> Any:
    """What launches a kernel on any arguments."""
    if not getattr(metadata, "sanitized", False):
        return Launcher(src, metadata)
    from tritium.backends.cpu.checked import CheckedLauncher

    return CheckedLauncher(src, metadata, _runtime().launch_raw, _room(metadata))


def _tensor_guard(x: Any, multiple: bool | None, stored: bool) -> record.Guard | None:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(x) is numpy.ndarray:
        return record.ndarray(x, multiple, writeable=stored)
    if torch is not None and isinstance(x, torch.Tensor):
        return record.tensor(x, multiple)
    return record.pointer(x, multiple) if hasattr(x, "data_ptr") and device_of(x) in (None, "cpu") else None
