"""A vendor's driver library, called through ctypes: nothing to install, nothing touched before the first call.

Vendors have the same functions under names of their own. Shared code calls them by what they do ("alloc", "copy_in");
`entries` says what the vendor calls that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import TritonError
from ...locks import once

FIGURES = {"n_max_threads": 0, "shared": 1, "local": 3, "n_regs": 4, "max_dynamic_shared": 8}  # of a function
_DEVICE_POINTER, _DEVICE_ORDINAL = 3, 9  # attributes of a pointer
_NO_DEVICE = 100
_FORKED = 3  # in a process forked from one that uses the driver: it is not initialised, and never will be
_RELAXED = 2  # a thread's mode of capturing
MEMORY = "cuda"  # torch's name of a GPU and its memory, for every vendor
NOT_YET = 600  # what a query of a stream or event says, that is no error


class DriverLibrary(ABC):
    """The driver of one vendor. Numbers of errors and attributes are the same for all, where none says otherwise."""

    vendor: str  # for messages
    events: str  # whose events, in reports
    error: type[TritonError]
    entries: Mapping[str, str]  # what shared code calls a function -> its name in the library
    attributes: Mapping[str, int]  # of a device: name -> number
    blocking: str  # a variable of the environment under which launches wait for their kernels
    advice: str  # what shows at which line a kernel fails
    remedies: Mapping[int, str] = {}  # error -> what to do about it
    # Errors a kernel leaves behind: the next call of the driver reports them, and the context is lost.
    sticky: frozenset[int] = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))

    def __init__(self) -> None:
        # What gives the names of the kernels launched since the last synchronisation, once something was launched.
        self.suspects: list[Callable] = []
        self.watchers: list[Callable[[], None]] = []  # called when the host has waited for the device
        self.homes: dict[int | None, int] = {}  # module -> the device it was loaded on

    # -- functions --------------------------------------------------------------------------------------------------

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Where the library may be, the likeliest first."""

    @abstractmethod
    def runtime(self) -> Any:
        """The native launcher that is linked to the library."""

    @once
    def library(self) -> Any:
        """The library, or None where the vendor's driver is not installed."""
        for name in self.names():
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        return None

    def function(self, name: str) -> Any:
        """A function of the driver; an error where there is no driver."""
        lib = self.library()
        if lib is None:
            raise self.error(f"there is no {self.vendor} driver on this machine\nhint: compile for a GPU with an "
                             "explicit target, or run on the CPU with TRITIUM_BACKEND=cpu")
        return getattr(lib, self.named(name))

    def named(self, name: str) -> str:
        """The vendor's name of a function."""
        return self.entries.get(name, name)

    def address(self, name: str) -> Any:
        """Where a function of the driver lies."""
        return ctypes.cast(self.function(name), ctypes.c_void_p).value

    def call(self, name: str, *args: Any) -> None:
        """Call a driver function; a failure is an error that names it."""
        code = self.function(name)(*args)
        if code:
            raise self.error(f"{self.named(name)} failed: {self.explain(code)}")

    def release(self, name: str, handle: Any) -> None:
        """Give something back by a driver function; with a context that is lost, it is gone already."""
        code = self.function(name)(ctypes.c_void_p(handle))
        if code and code not in self.sticky:
            raise self.error(f"{self.named(name)} failed: {self.explain(code)}")

    # -- errors -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def told(self, code: int) -> str:
        """An error's name and text, by the driver."""

    def explain(self, code: int) -> str:
        """What the driver says of an error, and for one a kernel left behind, which kernels it may be."""
        text = self.told(code)
        if code not in self.sticky:
            return f"{text}\nhint: {self.remedies[code]}" if code in self.remedies else text
        names = [name for launched in self.suspects for name in launched()] if self.left_behind(code) else []
        which = ""
        if names:
            text += f"\nlaunched last, the latest first: {', '.join(names)}"
            which = f"set {self.blocking}=1 to see which of them fails and where; "
        return f"{text}\nhint: {which}{self.advice}"

    def left_behind(self, code: int) -> bool:
        """Whether an error is that of a kernel launched earlier; where launches wait, it is that of the call itself."""
        return code in self.sticky and os.environ.get(self.blocking, "0") in ("", "0")

    # -- devices ----------------------------------------------------------------------------------------------------

    def hidden(self) -> bool:
        """Whether the environment hides every device from this process."""
        return False

    @once
    def _first_start(self) -> tuple[int, int]:
        """(process, error) of the driver's initialisation. One that fails is not tried again, not even in a child:
        libcuda crashes there."""
        if self.library() is None or self.hidden():
            return os.getpid(), _NO_DEVICE
        return os.getpid(), self.function("init")(0)

    @property
    def forked(self) -> bool:
        """Whether this process is forked from one that uses the driver: it sees the devices, and can use none."""
        process, code = self._first_start()
        return code == _FORKED or not code and process != os.getpid()

    def available(self) -> bool:
        """True if there is a device that this process can use."""
        return not self.forked and not self._first_start()[1] and self.count() > 0

    def present(self) -> bool:
        """True if there is a device, though this process may not use it: torch's compile workers are forked, and look.
        """
        return self.forked or self.available()

    def start(self) -> None:
        """Initialise the driver, once."""
        code = self._first_start()[1]
        if code:
            self.function("init")  # an error of its own where there is no driver
            raise self.error(f"{self.named('init')} failed: {self.explain(code)}")

    @once
    def count(self) -> int:
        """Number of devices."""
        self.start()
        n = ctypes.c_int()
        self.call("device_count", ctypes.byref(n))
        return n.value

    def check_device(self, device: int) -> None:
        """Refuse a device that is not there."""
        self.start()
        if not 0 <= device < self.count():
            raise ValueError(f"there is no GPU {device}: this machine has {self.count()}")

    @abstractmethod
    def context(self, device: int) -> ctypes.c_void_p:
        """What the native launcher knows a device by."""

    @abstractmethod
    def current(self) -> int:
        """Index of the current device."""

    @abstractmethod
    def use(self, device: int) -> None:
        """Make a device current."""

    @abstractmethod
    def on(self, device: int) -> contextlib.AbstractContextManager:
        """Within it, a device is current."""

    @once
    def properties(self, device: int) -> dict[str, Any]:
        """What LANGUAGE calls device properties, from the driver; sizes in bytes, clocks in kHz."""
        self.context(device)
        out: dict[str, Any] = {}
        value = ctypes.c_int()
        for name, code in self.attributes.items():
            self.call("device_attribute", ctypes.byref(value), code, device)
            out[name] = value.value
        return out

    # -- kernels ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def load_module(self, name: str, binary: bytes | str) -> ctypes.c_void_p:
        """A module made of machine code, on the current device."""

    def allow(self, kernel: ctypes.c_void_p, shared: int) -> None:  # noqa: B027 (most need not ask)
        """Allow launches of a kernel with `shared` bytes of shared memory."""

    def load(self, name: str, binary: bytes | str, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """(module, function, registers, spilled words, threads at most) of a kernel in a binary."""
        with self.on(device):
            module, kernel = self.load_module(name, binary), ctypes.c_void_p()
            self.call("module_function", ctypes.byref(kernel), module, name.encode())
            self.allow(kernel, shared)
            figures = [self.figure(kernel, code) for code in ("n_regs", "local", "n_max_threads")]
        self.homes[module.value] = device
        return module.value, kernel.value, figures[0], figures[1] // 4, figures[2]

    def unload(self, module: int) -> None:
        """Give the memory of a module back; its functions are gone then. One that is gone already is left alone.

        A collected kernel unloads its module at any time, in any thread: also while a graph is captured, which the call
        would break off if this thread did not allow it.
        """
        device = self.homes.pop(module, None)
        if device is None:
            return
        mode = ctypes.c_int(_RELAXED)
        with self.on(device):
            self.call("capture_mode", ctypes.byref(mode))
            try:
                self.release("module_unload", module)
            finally:
                self.call("capture_mode", ctypes.byref(mode))

    def figure(self, kernel: ctypes.c_void_p, name: str) -> int:
        """A figure of a function: one of FIGURES."""
        value = ctypes.c_int()
        self.call("function_attribute", ctypes.byref(value), FIGURES[name], kernel)
        return value.value

    def active_blocks(self, function: int, shared: int, threads: int, device: int) -> int:
        """How many blocks of `threads` threads are resident on a device at once."""
        found = ctypes.c_int()
        self.call("active_blocks", ctypes.byref(found), ctypes.c_void_p(function), threads, ctypes.c_size_t(shared))
        return max(1, found.value) * self.properties(device)["multiprocessor_count"]

    # -- memory -----------------------------------------------------------------------------------------------------

    def accessible(self, pointer: int) -> bool:
        """Whether a kernel may use an address: device memory, or host memory that is pinned or managed."""
        found = ctypes.c_void_p()
        code = self.function("pointer_attribute")(ctypes.byref(found), _DEVICE_POINTER, ctypes.c_void_p(pointer))
        return code == 0

    def device_of(self, pointer: int) -> int | None:
        """Index of the device that owns an address; None if none does."""
        found = ctypes.c_int()
        code = self.function("pointer_attribute")(ctypes.byref(found), _DEVICE_ORDINAL, ctypes.c_void_p(pointer))
        return None if code else found.value

    def synchronize(self) -> None:
        """Wait for everything on the current device."""
        self.call("synchronize")
        for launched in self.suspects:
            launched(forget=True)
        for look in self.watchers:
            look()

    # -- streams ----------------------------------------------------------------------------------------------------

    def wait(self, stream: int | None, other: int | None) -> None:
        """Have what is queued in a stream from now on wait for what is in another now; None stands for nothing.

        The default stream is 0, or 1 in the protocols for exchanging arrays. A stream that is being captured waits for
        nothing outside of the capture.
        """
        if other is None or (stream or 1) == (other or 1) or self.capturing(stream):
            return
        event = ctypes.c_void_p()
        self.call("event_create", ctypes.byref(event), 2)  # without a time
        try:
            self.call("event_record", event, ctypes.c_void_p(other))
            self.call("stream_wait", ctypes.c_void_p(stream), event, 0)
        finally:
            self.call("event_destroy", event)  # the driver keeps it until the stream has come to it

    def capturing(self, stream: int | None) -> bool:
        """Whether launches in a stream are recorded instead of done; none may be asked of one beside such a stream."""
        status = ctypes.c_int()
        return bool(self.function("stream_capturing")(ctypes.c_void_p(stream), ctypes.byref(status)) or status.value)
