"""Launching on NVIDIA GPUs: the native launcher, and the way for arguments it cannot judge."""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
import sys
import threading
import weakref
from typing import Any

from ....ir.preconditions import preconditions_of
from ....language.types.signature import flatten
from ....locks import busy, lock, once
from ....tensors import is_descriptor, reader_of, slots
from ...launcher import fast_paths, guards, image, preconditions, record
from ...launcher import launcher as native_launcher
from ...launcher.calls import form_of, lookup_guard, pack
from ...launcher.entry_points import Demands, Roads
from ...launcher.parts import NATIVE, Part, Symbols, builtin
from ...launcher.preconditions import Guard
from ...llvm import structs
from ...llvm.structs import Struct
from . import cuda, implicit_args, launcher

_PART = Part("cuda", launcher.SYMBOLS, (structs, guards, native_launcher, fast_paths, preconditions, launcher,
                                        implicit_args), lambda target: launcher.launcher(), plain=True)


@ctypes.CFUNCTYPE(ctypes.c_int)
def _refuse():
    """Stands for functions that an old driver lacks: tensor maps came with CUDA 12. 801 is "not supported"."""
    return 801


def _address(name):
    lib = cuda.library()
    lacking = lib is not None and not hasattr(lib, name)
    return (ctypes.cast(_refuse, ctypes.c_void_p).value if lacking else cuda.address(name)) or 0


def _other_host():
    from ...llvm.target import cpu_target

    return cpu_target()


class Runtime:
    """The native launcher of this process, linked to the driver; use `Runtime.get()`."""

    @classmethod
    def get(cls):
        """The runtime, made on first use."""
        return cls._get()

    @classmethod
    @once
    def _get(cls):
        if not NATIVE:
            raise cuda.CudaError("launching on a GPU needs CPython with its global lock; this is "
                                 f"{sys.implementation.name} {sys.version}")
        return cls()

    def __init__(self):
        self.symbols = Symbols(image.host() or _other_host(), (_PART,),
                               {name: _address(name) for name in launcher.DRIVER})
        word = ctypes.c_void_p
        self._stream, failed, judge = (word.from_address(self.symbols[f"tt.cuda.{x}"])
                                       for x in ("stream", "failed", "judge"))
        self._ring = (ctypes.c_int64 * launcher.RING).from_address(self.symbols["tt.cuda.ring"])
        self._count = ctypes.c_int64.from_address(self.symbols["tt.cuda.count"])
        self._names, self._numbers = [], {}
        self._kept = {"failed": _raise_failure, "judge": _judge}  # what native code refers to
        failed.value, judge.value = id(_raise_failure), id(_judge)
        pointer, obj = ctypes.c_void_p, ctypes.py_object
        # run on a given stream: (record, slots, grid, result, stream)
        self.launch = ctypes.PYFUNCTYPE(obj, ctypes.c_char_p, ctypes.c_char_p, pointer, obj, pointer)(
            self.symbols["tt.cuda.launch"])
        cuda.suspects.append(self.launched)

    def record(self, entry, info, guards, owner=None, **form):
        """The record of a kernel; see `native.record.record`."""
        return record.record(self.symbols["tt.cuda.run"], entry, ctypes.addressof(info), guards, owner,
                             on_stream=self.symbols["tt.cuda.launch"], **form)

    def binder(self, records):
        """As the CPU's: `binder(records)(grid)(*args, **kwargs)`."""
        return builtin(self.symbols["tt.def.bind"], records)

    def finder(self, records):
        """As the CPU's: `finder(records)(*args, **kwargs)`."""
        return builtin(self.symbols["tt.def.lookup"], records)

    # -- streams --------------------------------------------------------------------------------------------------

    def refresh_streams(self):
        """Find out what has the current stream (torch, our own streams, nothing); launches ask it from now on."""
        found = _stream_function()
        self._kept["stream"] = found
        self._stream.value = None if found is None else id(found)

    # -- names, for errors that come late ---------------------------------------------------------------------------

    def number_of(self, name):
        """A number that stands for a kernel's name."""
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def launched(self, forget=False):
        """Names of the kernels launched last, the latest first; with `forget`, as if there were none."""
        count = self._count.value
        recent = [self._ring[k % launcher.RING] for k in range(count - 1, max(count - launcher.RING, 0) - 1, -1)]
        if forget:
            self._count.value = 0
        return [self._names[number] for number in dict.fromkeys(recent)]


# -- the current stream ------------------------------------------------------------------------------------------------


class _Current(threading.local):
    """Streams of ours that are current in this thread, by device; the last is the one in use."""

    def __init__(self):
        self.streams: dict[int, list] = {}


current = _Current()
_own_streams = False  # whether any stream of ours was ever made current


def push_stream(stream):
    """Make a stream of ours current on its device, in this thread."""
    global _own_streams
    _own_streams = True
    current.streams.setdefault(stream.device_index, []).append(stream)
    Runtime.get().refresh_streams()


def pop_stream(stream):
    """Undo `push_stream`."""
    current.streams[stream.device_index].pop()


def _torch_stream_function():
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return torch._C._cuda_getCurrentRawStream


def _stream_function():
    return current_stream if _own_streams else _torch_stream_function()


def current_stream(device):
    """Handle of the stream launches on a device go to: ours if one is current, else torch's, else the default."""
    mine = current.streams.get(device)
    if mine:
        return mine[-1].handle
    theirs = _torch_stream_function()
    return theirs(device) if theirs else 0


# -- kernels -----------------------------------------------------------------------------------------------------------


ATTRIBUTE = Struct("attribute", id="i32", padding="i32", value="[16 x i32]").ctype  # CUlaunchAttribute: a union
CONFIG, INFO = launcher.CONFIG.ctype, launcher.INFO.ctype
_CLUSTER, _COOPERATIVE, _OVERLAP = 4, 2, 6  # CUlaunchAttributeID
PORTABLE = 8  # blocks that a cluster may have on every GPU with clusters


def attributes_of(metadata):
    """[(number, values)] of the launch attributes a kernel's options ask for."""
    found = []
    if metadata.num_ctas > 1:
        found.append((_CLUSTER, (metadata.num_ctas, 1, 1)))
    if metadata.launch_cooperative_grid:
        found.append((_COOPERATIVE, (1,)))
    if metadata.launch_pdl:
        found.append((_OVERLAP, (1,)))
    return found


def active_blocks(function, shared, threads, device):
    """How many blocks of `threads` threads are resident on a device at once."""
    found = ctypes.c_int()
    cuda.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(found), ctypes.c_void_p(function), threads,
              ctypes.c_size_t(shared))
    return max(1, found.value) * cuda.properties(device)["multiprocessor_count"]


def config_of(grid, threads, shared, stream, num_ctas):
    """(config, attributes) of a launch of programs that are clusters of `num_ctas` blocks; keep both until it is done.

    >>> config, _ = config_of((3, 1, 1), 128, 0, None, 2)
    >>> tuple(config.grid), config.count
    ((6, 1, 1), 1)
    """
    rows = (ATTRIBUTE * 1)(ATTRIBUTE(_CLUSTER, 0, (num_ctas, 1, 1)))
    sizes = (grid[0] * num_ctas, *grid[1:])
    config = CONFIG(sizes, (threads, 1, 1), shared, stream, ctypes.addressof(rows), int(num_ctas > 1))
    return config, rows


def active_clusters(function, shared, num_ctas, threads):
    """How many clusters of `num_ctas` blocks fit on the current device at once."""
    config, _rows = config_of((1, 1, 1), threads, shared, None, num_ctas)
    config.count = 1
    found, kernel = ctypes.c_int(), ctypes.c_void_p(function)
    allow_large_clusters(function)
    cuda.call("cuOccupancyMaxActiveClusters", ctypes.byref(found), kernel, ctypes.byref(config))
    return found.value


def allow_large_clusters(function):
    """Let a kernel be launched in clusters of more than 8 blocks, which not every GPU of an architecture has."""
    cuda.call("cuFuncSetAttribute", ctypes.c_void_p(function), 14, 1)


loaded: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # function -> its compiled kernel
_judging = lock()  # of the kernels that take another's place, one is kept


class Launcher:
    """Launches one compiled kernel on any arguments; called with the grid, the stream and all parameters in order.

    It belongs to the device that is current when it is made.
    """

    def __init__(self, src, metadata):
        self.name, self._types, self._names = metadata.name, tuple(src.signature.values()), tuple(src.signature)
        self._runtime, self.device = Runtime.get(), cuda.current()
        threads = (metadata.num_warps + getattr(metadata, "producer_warps", 0)) * metadata.warp_size
        self.info = INFO(context=cuda.context(self.device).value, device=id(self.device), threads=threads,
                         shared=metadata.shared, number=self._runtime.number_of(metadata.name))
        assumed = preconditions_of(metadata)
        self._preconditions: Any = None
        if assumed.nonnegative or assumed.disjoint:
            self._preconditions = Guard(assumed)
            self.info.preconditions = self._preconditions.address
        self._implicit = None
        if getattr(metadata, "tensor_maps", ()):
            self._implicit = implicit_args.ImplicitArguments(metadata.tensor_maps, metadata.persistent,
                                                             self.slot_count, assumed.stores)
            self.info.implicit = self._implicit.address
        self.fallback: Any = None  # returns the variant for launches that break a precondition
        self._other = None
        self._blocks, attributes = metadata.num_ctas, attributes_of(metadata)
        if attributes:
            self.info.config = self._config(threads, metadata.shared, attributes)
        self._record = None

    def _config(self, threads, shared, attributes):
        rows = (ATTRIBUTE * len(attributes))(*(ATTRIBUTE(number, 0, values) for number, values in attributes))
        blocks = (self._blocks, 1, 1)  # of a program: the launcher multiplies them by the grid
        config = CONFIG(blocks, (threads, 1, 1), shared, None, ctypes.addressof(rows), len(rows))
        self._kept = rows, config
        return ctypes.addressof(config)

    def __call__(self, gx, gy, gz, stream, function, packed_metadata, launch_metadata, enter, leave, *args):
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

    def _send(self, function, packed, sizes, stream):
        """Launch on packed slots."""
        self._settle(function)
        if self._record is None or self._record.entry != function:  # all slots fixed: they are packed already
            fixed = [(place, bytes(8)) for place in range(len(packed) // 8)]
            self._record = self._runtime.record(function, self.info, (), fixed=fixed)
        grid = (ctypes.c_int64 * 3)(*sizes)
        self._runtime.launch(self._record, packed, ctypes.addressof(grid), self, stream)

    def _settle(self, function):
        if self._blocks > PORTABLE:
            allow_large_clusters(function)
        if self._implicit is not None:
            self._implicit.settle(lambda: self._places(function))

    def _places(self, function):
        """How many programs fit on the device at once."""
        with cuda.on(self.device):
            if self._blocks > 1:
                return active_clusters(function, self.info.shared, self._blocks, self.info.threads)
            return active_blocks(function, self.info.shared, self.info.threads, self.device)

    def judge(self, sizes, address, stream):
        """True if a launch with the slots at an address satisfies the preconditions; else the fallback is launched."""
        fit = self._implicit is None or self._implicit.fit(sizes)
        if fit and (self._preconditions is None or self._preconditions.hold(sizes, address)):
            return True
        if self._other is None:
            with _judging, busy():
                self._other = self._other or self.fallback()
        run = self._other.launcher
        run._send(self._other.function, ctypes.string_at(address, 8 * self.slot_count), sizes, stream)
        return False

    def _prepare(self, number, type_, x, stream):
        """See that the GPU reaches an argument's memory, and that the stream waits for what is still done with it."""
        if type_.__class__ is not str:
            for part, item in zip(type_, x):
                self._prepare(number, part, item, stream)
        elif type_.startswith(("*", "tensordesc")):
            x = x.base if is_descriptor(x) else x
            if (reader := reader_of(x)) is not None:
                self._check_memory(number, reader, x)
                if reader.awaited is not None and reader.device(x) == "cuda":
                    cuda.wait(stream, reader.awaited(x, stream))

    def _check_memory(self, number, reader, x):
        """Memory of the host is refused unless the GPU can reach it."""
        if reader.device(x) != "cuda":
            pointer = reader.address(x)
            if pointer and not cuda.accessible(pointer):
                raise ValueError(f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?)\n"
                                 f"hint: move {self._names[number]} to the GPU first, or pin its memory")

    def guarded(self, kernel, call):
        """(binder, record) of launches like a call; None where the native launcher cannot tell."""
        form = form_of(call, functools.partial(_tensor_guard, self.device))
        if form is None:
            return None
        self._runtime.refresh_streams()
        self._settle(kernel.function)
        made = self._runtime.record(kernel.function, self.info, owner=kernel, result=kernel, **form)
        return self._runtime.binder, made

    def roads(self, kernel):
        """The native ways to launch the kernel, which is loaded."""
        demands = Demands(self.name, kernel.src, aligned=True)
        guard = functools.partial(_tensor_guard, self.device)

        def make(form):
            self._runtime.refresh_streams()
            self._settle(kernel.function)
            return self._runtime.record(kernel.function, self.info, owner=kernel, result=kernel, quiet=True, **form)

        return Roads(kernel, demands, lambda args: demands.form(args, guard), make, self._runtime.symbols,
                     kernel._launch_over)

    def describe(self, packed):
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
    def slot_count(self):
        """Number of 8-byte slots."""
        return sum(len(flatten(type_)) for type_ in self._types)


def handle_of(stream):
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


def show(type_, slot):
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


def _tensor_guard(device, x, multiple, _stored):
    """What a pointer argument must be: a tensor like `x` on the kernel's device."""
    if not (hasattr(x, "get_device") and hasattr(x, "dtype") and hasattr(x, "data_ptr")) or x.get_device() != device:
        return None
    return record.gpu_tensor(x, device, multiple)


def lookup(kernel, call, device):
    """(finder, record) of calls like one that only compiles; None where the native code cannot tell."""
    form = form_of(call, lookup_guard(functools.partial(_tensor_guard, device)))
    if form is None or not NATIVE or (cuda.count() > 1 and not any(x.flags & record.ON_GPU for x in form["guards"])):
        return None  # without a tensor, what is compiled depends on the device that is current
    return Runtime.get().finder, record.record(0, 0, 0, owner=kernel, result=kernel, **form)


_HINTS = {
    1: "a grid has at most 2147483647 programs along axis 0 and 65535 along the others",
    720: "the programs of a cooperative launch must all fit on the GPU at once: use fewer",
}


def _judge(kernel, gx, gy, gz, address, stream):
    """Called by the native launcher when a launch is not among those known to satisfy the preconditions."""
    run = kernel if isinstance(kernel, Launcher) else kernel.launcher
    return run.judge((gx, gy, gz), address, stream)


def _raise_failure(code, kernel, gx, gy, gz, address):
    """Called by the native launcher when the driver refuses a launch."""
    run = kernel if isinstance(kernel, Launcher) else kernel.launcher
    what = f"launching {run.name} on a grid of {(gx, gy, gz)} failed: {cuda.explain(code)}"
    if cuda.left_behind(code):  # not this launch's doing
        raise cuda.CudaError(what)
    hint = f"\nhint: {_HINTS[code]}" if code in _HINTS else ""
    raise cuda.CudaError(f"{what}\narguments: {run.describe(ctypes.string_at(address, 8 * run.slot_count))}{hint}")
