"""Launching on GPUs: the native launcher, and the way for arguments it cannot judge."""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any

from ...ir.preconditions import preconditions_of
from ...language.types.signature import flatten
from ...locks import busy, lock, once
from ...tensors import is_descriptor, reader_of, slots
from ..launcher import image, record
from ..launcher.calls import form_of, lookup_guard, pack
from ..launcher.entry_points import Demands, Roads
from ..launcher.parts import NATIVE, Part, Symbols, builtin
from ..launcher.preconditions import Guard
from ..launcher.writers import PARTS
from . import launcher
from .library import MEMORY, DriverLibrary

INFO = launcher.INFO.ctype


def _other_host() -> Any:
    from ..llvm.target import cpu_target

    return cpu_target()


class Runtime(ABC):
    """The native launcher of this process, linked to a vendor's driver; use `Runtime.get()`."""

    gpu: DriverLibrary
    prefix: str  # of the native symbols
    part: Part

    @classmethod
    @once
    def get(cls) -> Any:
        """The runtime, made on first use."""
        if not NATIVE:
            raise cls.gpu.error("launching on a GPU needs CPython with its global lock; this is "
                                f"{sys.implementation.name} {sys.version}")
        return cls()

    @classmethod
    @abstractmethod
    def linked(cls) -> dict[str, int]:
        """The driver's functions that native code calls, and where they lie."""

    def __init__(self) -> None:
        self.symbols = Symbols(image.host() or _other_host(), lambda: (self.part, *PARTS), self.linked())
        word = ctypes.c_void_p
        self._stream, failed, judge = (word.from_address(self.symbols[f"{self.prefix}.{x}"])
                                       for x in ("stream", "failed", "judge"))
        self._ring = (ctypes.c_int64 * launcher.RING).from_address(self.symbols[f"{self.prefix}.ring"])
        self._count = ctypes.c_int64.from_address(self.symbols[f"{self.prefix}.count"])
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._kept: dict[str, Any] = {"failed": _raise_failure, "judge": _judge}  # what native code refers to
        failed.value, judge.value = id(_raise_failure), id(_judge)
        pointer, obj = ctypes.c_void_p, ctypes.py_object
        # run on a given stream: (record, slots, grid, result, stream)
        self.launch = ctypes.PYFUNCTYPE(obj, ctypes.c_char_p, ctypes.c_char_p, pointer, obj, pointer)(
            self.symbols[f"{self.prefix}.launch"])
        self.gpu.suspects.append(self.launched)

    def record(self, entry: int, info: Any, guards: Any, owner: Any = None, **form: Any) -> Any:
        """The record of a kernel; see `launcher.record.record`."""
        return record.record(self.symbols[f"{self.prefix}.run"], entry, ctypes.addressof(info), guards, owner,
                             on_stream=self.symbols[f"{self.prefix}.launch"], **form)

    def binder(self, records: Any) -> Any:
        """As the CPU's: `binder(records)(grid)(*args, **kwargs)`."""
        return builtin(self.symbols["tt.def.bind"], records)

    @property
    def forward(self) -> int:
        """The address of what runs records of wrappers."""
        return self.symbols["tt.forward"]

    def finder(self, records: Any) -> Any:
        """As the CPU's: `finder(records)(*args, **kwargs)`."""
        return builtin(self.symbols["tt.def.lookup"], records)

    # -- streams --------------------------------------------------------------------------------------------------

    def refresh_streams(self) -> None:
        """Find out what has the current stream (torch, our own streams, nothing); launches ask it from now on."""
        found = _stream_function()
        self._kept["stream"] = found
        self._stream.value = None if found is None else id(found)

    # -- names, for errors that come late ---------------------------------------------------------------------------

    def number_of(self, name: str) -> int:
        """A number that stands for a kernel's name."""
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def launched(self, forget: bool = False) -> list[str]:
        """Names of the kernels launched last, the latest first; with `forget`, as if there were none."""
        count = self._count.value
        recent = [self._ring[k % launcher.RING] for k in range(count - 1, max(count - launcher.RING, 0) - 1, -1)]
        if forget:
            self._count.value = 0
        return [self._names[number] for number in dict.fromkeys(recent)]


# -- the current stream ------------------------------------------------------------------------------------------------


class _Current(threading.local):
    """Streams of ours that are current in this thread, by device; the last is the one in use."""

    def __init__(self) -> None:
        self.streams: dict[int, list] = {}


current = _Current()
_own_streams = False  # whether any stream of ours was ever made current


def push_stream(stream: Any) -> None:
    """Make a stream of ours current on its device, in this thread."""
    global _own_streams
    _own_streams = True
    current.streams.setdefault(stream.device_index, []).append(stream)
    stream.gpu.runtime().refresh_streams()


def pop_stream(stream: Any) -> None:
    """Undo `push_stream`."""
    current.streams[stream.device_index].pop()


def _torch_stream_function() -> Any:
    """torch's function, which has the same name for every vendor."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return torch._C._cuda_getCurrentRawStream


def _stream_function() -> Any:
    return current_stream if _own_streams else _torch_stream_function()


def current_stream(device: int) -> int:
    """Handle of the stream launches on a device go to: ours if one is current, else torch's, else the default."""
    mine = current.streams.get(device)
    if mine:
        return mine[-1].handle
    theirs = _torch_stream_function()
    return theirs(device) if theirs else 0


# -- kernels -----------------------------------------------------------------------------------------------------------


loaded: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # function -> its compiled kernel
_judging = lock()  # of the kernels that take another's place, one is kept


class Launcher:
    """Launches one compiled kernel on any arguments; called with the grid, the stream and all parameters in order.

    It belongs to the device that is current when it is made.
    """

    runtime: type[Runtime]
    hints: dict[int, str]  # error of a launch -> what to do about it

    def __init__(self, src: Any, metadata: Any):
        self.name, self._types, self._names = metadata.name, tuple(src.signature.values()), tuple(src.signature)
        self._runtime, self.gpu = self.runtime.get(), self.runtime.gpu
        self.device = self.gpu.current()
        threads = (metadata.num_warps + getattr(metadata, "producer_warps", 0)) * metadata.warp_size
        self.info: Any = INFO(context=self.gpu.context(self.device).value, device=id(self.device), threads=threads,
                              shared=metadata.shared, number=self._runtime.number_of(metadata.name))
        assumed = preconditions_of(metadata)
        self._preconditions: Any = None
        if assumed.nonnegative or assumed.disjoint:
            self._preconditions = Guard(assumed)
            self.info.preconditions = self._preconditions.address
        self.fallback: Any = None  # returns the variant for launches that break a precondition
        self._other: Any = None
        self._record: Any = None
        self._equip(metadata)

    def _equip(self, metadata: Any) -> None:
        """Add what only this vendor's launches need."""

    def _settle(self, function: int) -> None:
        """Do what must be done once the function is loaded, before it is launched."""

    def _fit(self, sizes: tuple[int, ...]) -> bool:
        """Whether the vendor's part of the launch can be made."""
        return True

    def __call__(self, gx: int, gy: int, gz: int, stream: Any, function: int, packed_metadata: Any,
                 launch_metadata: Any, enter: Any, leave: Any, *args: Any) -> None:
        values, stream = [], handle_of(stream)
        for number, (type_, x) in enumerate(zip(self._types, args, strict=True)):
            self._prepare(number, type_, x, stream)
            values += slots(type_, x)
        packed = b"".join(pack(type_, value) for type_, value in values)
        if enter is not None:
            enter(launch_metadata)
        self._send(function, packed, (gx, gy, gz), stream)
        if leave is not None:
            leave(launch_metadata)

    def _send(self, function: int, packed: bytes, sizes: tuple[int, ...], stream: int) -> None:
        """Launch on packed slots."""
        self._settle(function)
        if self._record is None or self._record.entry != function:  # all slots fixed: they are packed already
            fixed = [(place, bytes(8)) for place in range(len(packed) // 8)]
            self._record = self._runtime.record(function, self.info, (), fixed=fixed)
        grid = (ctypes.c_int64 * 3)(*sizes)
        self._runtime.launch(self._record, packed, ctypes.addressof(grid), self, stream)

    def judge(self, sizes: tuple[int, ...], address: int, stream: int) -> bool:
        """True if a launch with the slots at an address satisfies the preconditions; else the fallback is launched."""
        if self._fit(sizes) and (self._preconditions is None or self._preconditions.hold(sizes, address)):
            return True
        if self._other is None:
            with _judging, busy():
                self._other = self._other or self.fallback()
        run = self._other.launcher
        run._send(self._other.function, ctypes.string_at(address, 8 * self.slot_count), sizes, stream)
        return False

    def _prepare(self, number: int, type_: Any, x: Any, stream: int) -> None:
        """See that the GPU reaches an argument's memory, and that the stream waits for what is still done with it."""
        if type_.__class__ is not str:
            for part, item in zip(type_, x):
                self._prepare(number, part, item, stream)
        elif type_.startswith(("*", "tensordesc")):
            x = x.base if is_descriptor(x) else x
            if (reader := reader_of(x)) is not None:
                self._check_memory(number, reader, x)
                if reader.awaited is not None and reader.device(x) == MEMORY:
                    self.gpu.wait(stream, reader.awaited(x, stream))

    def _check_memory(self, number: int, reader: Any, x: Any) -> None:
        """Memory of the host is refused unless the GPU can reach it."""
        if reader.device(x) != MEMORY:
            pointer = reader.address(x)
            if pointer and not self.gpu.accessible(pointer):
                raise ValueError(f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?)\n"
                                 f"hint: move {self._names[number]} to the GPU first, or pin its memory")

    def guarded(self, kernel: Any, call: Any) -> tuple[Any, Any] | None:
        """(binder, record) of launches like a call; None where the native launcher cannot tell."""
        form = form_of(call, functools.partial(_tensor_guard, self.device))
        if form is None:
            return None
        self._runtime.refresh_streams()
        self._settle(kernel.function)
        made = self._runtime.record(kernel.function, self.info, owner=kernel, result=kernel, **form)
        return self._runtime.binder, made

    def roads(self, kernel: Any) -> Roads:
        """The native ways to launch the kernel, which is loaded."""
        demands = Demands(self.name, kernel.src, aligned=True)
        guard = functools.partial(_tensor_guard, self.device)

        def make(form: dict[str, Any]) -> Any:
            self._runtime.refresh_streams()
            self._settle(kernel.function)
            return self._runtime.record(kernel.function, self.info, owner=kernel, result=kernel, quiet=True, **form)

        return Roads(kernel, demands, lambda args: demands.form(args, guard), make, self._runtime.symbols,
                     kernel._launch_over)

    def describe(self, packed: bytes) -> str:
        """The runtime arguments of a launch, out of its slots.

        Several slots of one parameter, as tuples and descriptors have, stand one after the other.
        """
        out, place = [], 0
        for name, type_ in zip(self._names, self._types):
            values = [show(part, packed[8 * k: 8 * k + 8]) for k, part in enumerate(flatten(type_), place)]
            place += len(values)
            if values:
                out.append(f"{name}={values[0] if len(values) == 1 else '(' + ', '.join(values) + ')'}")
        return ", ".join(out)

    @property
    def slot_count(self) -> int:
        """Number of 8-byte slots."""
        return sum(len(flatten(type_)) for type_ in self._types)


def handle_of(stream: Any) -> int:
    """The number the driver knows a stream by.

    >>> handle_of(None), handle_of(7)
    (0, 7)
    """
    if stream is None or stream.__class__ is int:
        return stream or 0
    try:
        return operator.index(getattr(stream, "cuda_stream", stream))
    except TypeError:
        raise TypeError("a stream is a torch.cuda.Stream or the number of one, its cuda_stream, not "
                        f"{stream!r}") from None


_FORMATS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}


def show(type_: str, slot: bytes) -> str:
    """The value in a slot, as an error message shows it.

    >>> show("i32", pack("i32", -3)), show("*fp32", pack("*fp32", 4096)), show("bf16", pack("bf16", 1.5))
    ('-3', '0x1000', '1.5')
    """
    bits = int.from_bytes(slot, "little")
    if type_.startswith("*"):
        return hex(bits)
    if type_ in _FORMATS:
        return str(struct.unpack_from(_FORMATS[type_], slot)[0])
    if type_ == "bf16":
        return str(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return str(int.from_bytes(slot, "little", signed=type_.startswith("i")))


def _tensor_guard(device: int, x: Any, multiple: Any, _stored: Any) -> Any:
    """What a pointer argument must be: a tensor like `x`, or another object with an address, on the kernel's device."""
    if not (hasattr(x, "dtype") and hasattr(x, "data_ptr")):
        return None
    if hasattr(x, "get_device"):
        return record.gpu_tensor(x, device, multiple) if x.get_device() == device else None
    where = getattr(x, "device", None)
    return record.pointer(x, multiple) if where is None or getattr(where, "index", None) == device else None


def lookup(runtime: type[Runtime], kernel: Any, call: Any, device: int) -> tuple[Any, Any] | None:
    """(finder, record) of calls like one that only compiles; None where the native code cannot tell."""
    form = form_of(call, lookup_guard(functools.partial(_tensor_guard, device)))
    several = runtime.gpu.count() > 1
    if form is None or not NATIVE or (several and not any(x.flags & record.ON_GPU for x in form["guards"])):
        return None  # without a tensor, what is compiled depends on the device that is current
    return runtime.get().finder, record.record(0, 0, 0, owner=kernel, result=kernel, **form)


def _judge(kernel: Any, gx: int, gy: int, gz: int, address: int, stream: int) -> bool:
    """Called by the native launcher when a launch is not among those known to satisfy the preconditions."""
    run = kernel if isinstance(kernel, Launcher) else kernel.launcher
    return run.judge((gx, gy, gz), address, stream)


def _raise_failure(code: int, kernel: Any, gx: int, gy: int, gz: int, address: int) -> None:
    """Called by the native launcher when the driver refuses a launch."""
    run = kernel if isinstance(kernel, Launcher) else kernel.launcher
    what = f"launching {run.name} on a grid of {(gx, gy, gz)} failed: {run.gpu.explain(code)}"
    if run.gpu.left_behind(code):  # not this launch's doing
        raise run.gpu.error(what)
    hint = f"\nhint: {run.hints[code]}" if code in run.hints else ""
    raise run.gpu.error(f"{what}\narguments: {run.describe(ctypes.string_at(address, 8 * run.slot_count))}{hint}")
