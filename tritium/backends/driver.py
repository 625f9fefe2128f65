"""Drivers: how the host finds its devices and launches kernels on them.

`driver.active` is the driver of the present machine: the GPU's if there is one, else the CPU's. Nothing is looked for
before it is asked for. A launch goes to the device its tensors are on, so CPU tensors run on the CPU even beside a GPU;
`TRITIUM_BACKEND=cpu` (or `driver.set_active`) sends everything to one driver, and `TRITON_DEFAULT_BACKEND=cpu` what has
no tensors.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from tritium import backends, knobs
from tritium.backends.compiler import GPUTarget
from tritium.language import target_info
from tritium.named_tuples import NamedTuple


class Call(NamedTuple):
    """One launch as it was written: what decides whether another launch is like it."""

    arguments: list[tuple]  # (parameter, (type, key), value) for each parameter
    positional: int  # how many of them were given by position
    keywords: tuple[str, ...]  # names of what was given by keyword: parameters and options
    options: dict[str, Any]
    captured: Sequence[tuple] | None = ()  # (scope, (name, value)) of variables it captured; None: they may change


class DriverBase(ABC):
    """What every driver answers. A framework may subclass it for a device of its own and call `driver.set_active`.

    `utils` has `get_device_properties(device) -> dict` and `load_binary(name, binary, shared, device) -> (module,
    function, n_regs, n_spills, n_max_threads)`; where it has `unload_module(module)`, collected kernels call it.
    `launcher_cls(src, metadata)` makes what `CompiledKernel.run` is, or goes to where the driver has `roads`: it is
    called as `launch(grid_0, grid_1, grid_2, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook,
    *args)`.
    """

    utils: Any
    launcher_cls: Callable
    emulates: bool = False  # whether it runs what was compiled for another machine, and checks it

    @classmethod
    @abstractmethod
    def is_active(cls) -> bool:
        """Whether this machine has a device of this kind."""

    @classmethod
    def is_usable(cls) -> bool:
        """Whether this process can use it."""
        return cls.is_active()

    def check_target(self, target: GPUTarget) -> None:  # noqa: B027  (most devices run whatever names them)
        """Raise where kernels compiled for `target` would not run on this device; called before one is loaded."""

    def load_kernel(self, metadata: Any, binary: Any, device: int) -> tuple:
        """Load the binary of a kernel with this metadata: what `utils.load_binary` gives."""
        return self.utils.load_binary(metadata.name, binary, metadata.shared, device)

    @abstractmethod
    def get_current_target(self) -> GPUTarget:
        """The target of the current device."""

    @abstractmethod
    def get_active_torch_device(self):
        """The `torch.device` kernels run on."""

    @abstractmethod
    def get_benchmarker(self) -> Callable:
        """A function like `testing.do_bench`."""

    @abstractmethod
    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of a signature string."""

    @abstractmethod
    def get_current_device(self) -> int:
        """The index of the current device."""

    @abstractmethod
    def set_current_device(self, device: int) -> None:
        """Make a device the current one."""

    @abstractmethod
    def get_current_stream(self, device: int) -> int:
        """The handle of the stream launches go to."""

    @abstractmethod
    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(major, minor) version of the device."""

    @abstractmethod
    def get_device_interface(self):
        """Something like `torch.cuda`: `synchronize`, `Event`, `current_device`."""

    @abstractmethod
    def get_empty_cache_for_benchmark(self):
        """A buffer larger than the last cache."""

    @abstractmethod
    def clear_cache(self, cache: Any) -> None:
        """Write all of that buffer, so that nothing else is left in the cache."""

    def guarded_launch(self, kernel: Any, call: Call) -> tuple[Callable, Any] | None:
        """A fast way to launch `kernel` again with calls that look like this one, None where there is none.

        The result is (binder, record). `binder(records)(grid)(*args, **kwargs)` launches through the first of
        `records[1:]` that applies and gives its kernel; when none applies it returns
        `records[0](grid, *args, **kwargs)`.
        """
        return None

    def guarded_lookup(self, kernel: Any, call: Call) -> tuple[Callable, Any] | None:
        """A fast way to find `kernel` again for calls that look like this one, which only compiles.

        The result is (binder, record). `binder(records)(*args, **kwargs)` gives the kernel of the first of
        `records[1:]` that applies; when none does, what `records[0](*args, **kwargs)` returns.
        """
        return None

    def roads(self, kernel: Any) -> Any:
        """The fast ways to launch a compiled kernel that is loaded (see `native.roads.Roads`), None for none."""
        return None

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int) -> Any:
        """Memory that a profiler's code may write to, where nobody set an allocator: an object with `data_ptr()`."""
        import torch

        memory = torch.empty(size + alignment, dtype=torch.int8, device=self.get_active_torch_device())
        return memory[-memory.data_ptr() % alignment:][:size]

    def on_device_of(self, values: tuple) -> AbstractContextManager:
        """Within it, the current device is the one the tensors among `values` are on."""
        return nullcontext()


class GPUDriver(DriverBase):
    """A driver whose devices and streams are PyTorch's."""

    def __init__(self):
        import torch

        self._cuda = torch.cuda

    def get_current_device(self) -> int:
        """PyTorch's current device."""
        return self._cuda.current_device()

    def set_current_device(self, device: int) -> None:
        """Change PyTorch's current device."""
        self._cuda.set_device(device)

    def get_current_stream(self, device: int) -> int:
        """PyTorch's current stream."""
        return self._cuda.current_stream(device).cuda_stream

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """The capability PyTorch reports."""
        return self._cuda.get_device_capability(device)

    def get_device_interface(self):
        """`torch.cuda`."""
        return self._cuda


class Drivers:
    """The drivers of this process, made when first needed."""

    def __init__(self):
        self._made: dict[str, DriverBase] = {}
        self._chosen: DriverBase | None = None
        self._default: DriverBase | None = None
        self._acting: ContextVar[DriverBase | None] = ContextVar("acting driver", default=None)

    def named(self, backend: str) -> DriverBase:
        """The driver of a backend ("cpu", "cuda", "hip"), made on first use."""
        found = self._made.get(backend)
        return found or self._made.setdefault(backend, backends.driver_class(backend)())  # one for all threads

    @property
    def default(self) -> DriverBase:
        """The driver used when none was set: what TRITIUM_BACKEND says, or TRITON_DEFAULT_BACKEND, else a GPU's, else
        the CPU's."""
        if knobs.backend:
            return self.named(knobs.backend)
        if knobs.runtime.default_backend:
            return self._wanted(knobs.runtime.default_backend)
        if self._default is None:
            order = sorted(filter(backends.may_have_device, backends.FOLDERS), key=lambda name: name == "cpu")
            name = next((name for name in order if backends.driver_class(name).is_usable()), None)
            if name is None:
                raise RuntimeError("0 active drivers ([]). There should only be one.")
            self._default = self.named(name)
        return self._default

    def _wanted(self, name: str) -> DriverBase:
        """The driver of the backend that TRITON_DEFAULT_BACKEND names."""
        if name not in backends.backends:
            raise RuntimeError(f"Unknown backend device {name!r}: TRITON_DEFAULT_BACKEND may be "
                               f"{', '.join(backends.backends)}")
        if not backends.backends[name].driver.is_usable():
            raise RuntimeError(f"Backend device {name!r} is not active.")
        return self.named(backends.target_name(name))

    @property
    def chosen(self) -> DriverBase | None:
        """The driver set with `set_active`, if there is one."""
        return self._chosen

    @property
    def usual(self) -> DriverBase:
        """The driver set with `set_active`, else the default."""
        return self._chosen or self.default

    def is_usual(self, drv: DriverBase) -> bool:
        """Whether a driver is the usual one. The CPU's is not where there may be a GPU: nobody has to know for certain,
        and a GPU's driver takes a fifth of a second to start.

        >>> driver.is_usual(driver.usual)
        True
        """
        undecided = not (self._chosen or self._default or knobs.backend or knobs.runtime.default_backend)
        if undecided and drv is self._made.get("cpu"):
            return not any(name != "cpu" and backends.may_have_device(name) for name in backends.FOLDERS)
        return drv is self.usual

    @property
    def active(self) -> DriverBase:
        """The driver set with `set_active`, else the one that acts for some arguments, else the default."""
        return self._chosen or self._acting.get() or self.default

    @contextmanager
    def acting(self, drv: DriverBase) -> Iterator[None]:
        """Within it, `active` is a driver other than the default, for this thread: that of arguments under test.

        >>> with driver.acting(driver.named("cpu")):
        ...     driver.active.get_current_target().backend
        'cpu'
        """
        before = self._acting.set(drv)
        try:
            yield
        finally:
            self._acting.reset(before)

    def set_active(self, driver: DriverBase) -> None:
        """Send every launch to `driver`. An emulated GPU stays active until `reset_active`: Inductor asks for the
        driver of its tensors, which are the CPU's there."""
        if self._chosen is not None and self._chosen.emulates and not driver.emulates:
            return
        self._chosen = driver
        knobs.changed()

    def reset_active(self) -> None:
        """Go back to the default."""
        self._chosen = None
        knobs.changed()

    def of_device(self, device: str | None) -> DriverBase:
        """The driver for tensors on a device ("cpu", "cuda"); None when no argument is a tensor."""
        if self._chosen is not None:
            return self._chosen
        if knobs.backend == "cpu" and device == "cuda":
            raise ValueError("tensors on cuda cannot be accessed by the CPU, which TRITIUM_BACKEND=cpu has chosen\n"
                             "hint: move them to the CPU, or unset TRITIUM_BACKEND")
        if device is None or knobs.backend:
            return self.default
        if device == "cuda" and self._is_amd():
            device = "hip"
        if not backends.present(device):
            raise ValueError(f"tensors on {device} cannot be accessed from Triton: there is no backend for them")
        return self.named(device)

    @staticmethod
    def _is_amd() -> bool:
        """Whether what frameworks call "cuda" is a GPU of AMD's: by torch, or if there is no other."""
        torch = sys.modules.get("torch")
        if torch is not None and (torch.version.hip or torch.version.cuda):
            return torch.version.hip is not None
        return (backends.may_have_device("hip") and not backends.driver_class("cuda").is_usable()
                and backends.driver_class("hip").is_usable())

    def of_target(self, target: GPUTarget) -> DriverBase:
        """The driver that can launch what was compiled for `target`."""
        if self._chosen is not None and self._chosen.get_current_target().backend == target.backend:
            return self._chosen
        return self.named(target.backend)


driver = Drivers()
target_info.host_target = lambda: driver.active.get_current_target()  # what tl.target_info says on the host
