"""Memory of GPUs without a framework: buffers, pinned host memory, copies, streams and events.

Use it as `tritium.runtime.memory`. Buffers are arguments of kernels like any tensor:

    x = memory.to_device(np.arange(1000, dtype=np.float32))
    y = memory.empty(1000, np.float32)
    kernel[(4,)](x, y, 1000, BLOCK=256)
    y.numpy()

Work goes to the current stream: the default one, torch's where torch is in use, or that of a `with stream:` block.
The GPU is the active driver's, of any vendor. Without a GPU, everything raises an error of the vendor's driver.
"""

from __future__ import annotations

import ctypes
import math
import operator
import weakref
from typing import Any

import numpy as np

from ...tensors import element_type
from .. import FOLDERS, driver_class, may_have_device
from ..driver import driver
from . import launch
from .library import MEMORY, NOT_YET, DriverLibrary

__all__ = ["DeviceBuffer", "Event", "Stream", "copy", "current_device", "current_stream", "device_count", "empty",
           "is_available", "memory_info", "pinned", "synchronize", "to_device", "zeros"]  # fmt: skip

_NUMPY = {
    "u1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "fp16": "float16", "fp32": "float32", "fp64": "float64",
}  # fmt: skip
_FIRST = next(name for name in FOLDERS if name != "cpu")  # whose error a machine without GPUs shows
_ML_DTYPES = {"bf16": "bfloat16", "fp8e5": "float8_e5m2", "fp8e4nv": "float8_e4m3fn", "fp8e4b8": "float8_e4m3fnuz",
              "fp8e5b16": "float8_e5m2fnuz"}  # fmt: skip


def _dtype(dtype: Any) -> np.dtype:
    """NumPy's dtype for a dtype of NumPy, torch or the language, or a signature string.

    >>> _dtype("fp32"), _dtype(np.int8)
    (dtype('float32'), dtype('int8'))
    """
    name = element_type(np.dtype(dtype) if isinstance(dtype, type) else dtype)
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name not in _ML_DTYPES:
        raise TypeError(f"NumPy has no dtype for {name}: allocate u8 and use tritium.reinterpret")
    import ml_dtypes
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))


def gpu() -> Any:
    """The driver library of the GPUs of this machine: the active driver's, else the first that can be used."""
    chosen = getattr(driver.chosen, "gpu", None)
    if chosen is not None:
        return chosen
    names = [name for name in FOLDERS if may_have_device(name)] + [_FIRST]
    found = [cls.gpu for cls in map(driver_class, names) if hasattr(cls, "gpu")]
    return next((library for library in found if library.available()), found[0])


def is_available() -> bool:
    """Whether there is a GPU to run on.

    >>> is_available() in (True, False)
    True
    """
    return gpu().available()


def device_count() -> int:
    """Number of GPUs; 0 without a driver."""
    return gpu().count() if is_available() else 0


def current_device() -> int:
    """Number of the current GPU."""
    return gpu().current()


def current_stream(device: int | None = None) -> int:
    """Handle of the stream work on a GPU goes to."""
    return launch.current_stream(gpu().current() if device is None else device)


def synchronize(device: int | None = None) -> None:
    """Wait until a GPU has done everything; errors kernels left behind are raised here, with the kernels' names."""
    library = gpu()
    with library.on(library.current() if device is None else device):
        library.synchronize()


def memory_info(device: int | None = None) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    free, total, library = ctypes.c_size_t(), ctypes.c_size_t(), gpu()
    with library.on(library.current() if device is None else device):
        library.call("memory_info", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


# -- buffers -----------------------------------------------------------------------------------------------------------


def _release(library: DriverLibrary, device: int, name: str, handle: int | None) -> None:
    with library.on(device):
        library.release(name, handle)


def _shape(shape: Any) -> tuple[int, ...]:
    """The sizes of a shape that may be one number; numbers of NumPy count.

    >>> _shape(np.int64(3)), _shape([2, 4])
    ((3,), (2, 4))
    """
    sizes = tuple(map(operator.index, shape)) if isinstance(shape, tuple | list) else (operator.index(shape),)
    if any(size < 0 for size in sizes):
        raise ValueError(f"sizes cannot be negative: {sizes}")
    return sizes


def _index(device: Any) -> int:
    """The number of a GPU given as such, as "cuda:1", or by torch; None stands for the current one.

    >>> _index(2), _index("cuda:1")
    (2, 1)
    """
    if isinstance(device, int):
        return device
    kind, _, number = str(MEMORY if device is None else device).partition(":")
    if kind != MEMORY or not (number or "0").isdigit():
        raise ValueError(f"{device!r} is no GPU: give its number, or a name such as '{MEMORY}:0'")
    return int(number) if number else gpu().current()


class DeviceBuffer:
    """An array in a GPU's memory, in C order; freed by `free()`, or when nothing refers to it."""

    def __init__(self, shape: Any, dtype: Any, device: Any = None):
        self.gpu, self.shape, self.dtype, self._index = gpu(), _shape(shape), _dtype(dtype), _index(device)
        self._address, pointer = 0, ctypes.c_uint64()
        with self.gpu.on(self._index):
            if self.nbytes:
                self.gpu.call("alloc", ctypes.byref(pointer), ctypes.c_size_t(self.nbytes))
                self._address = pointer.value
        self._finalizer = weakref.finalize(self, _release, self.gpu, self._index, "free", self._address)
        if not self._address:
            self._finalizer.detach()

    # What kernels ask of a tensor.
    def data_ptr(self):
        """The address."""
        if self._address and not self._finalizer.alive:
            raise ValueError("the buffer has been freed")
        return self._address

    def get_device(self):
        """Number of the GPU."""
        return self._index

    @property
    def device(self):
        """"cuda:0"."""
        return f"{MEMORY}:{self._index}"

    @property
    def nbytes(self):
        """Size in bytes."""
        return self.numel() * self.dtype.itemsize

    def numel(self):
        """Number of elements."""
        return math.prod(self.shape)

    def element_size(self):
        """Bytes of an element."""
        return self.dtype.itemsize

    def stride(self, axis: int | None = None) -> Any:
        """Distance of neighbours along each axis, or one, in elements."""
        strides = tuple(math.prod(self.shape[k + 1:]) for k in range(len(self.shape)))
        return strides if axis is None else strides[axis]

    @property
    def __cuda_array_interface__(self):
        """The protocol other libraries read: `torch.as_tensor(buffer, device="cuda")` shares the memory."""
        if self.dtype.kind == "V":
            raise AttributeError(f"the array interface has no word for {self.dtype}")
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data_ptr(), False), "version": 3,
                "strides": None, "stream": self.get_stream() or 1}  # fmt: skip

    def get_stream(self):
        """Handle of the stream a consumer must wait for."""
        return launch.current_stream(self._index)

    def copy_(self, source: Any, stream: Any = None, blocking: bool = True) -> DeviceBuffer:
        """Copy from an array of the host, or a buffer; see `copy`."""
        copy(self, source, stream, blocking)
        return self

    def zero_(self, stream: Any = None) -> DeviceBuffer:
        """Set every byte to 0, in the stream's order."""
        if self.nbytes:
            with self.gpu.on(self._index):
                self.gpu.call("fill", ctypes.c_uint64(self.data_ptr()), 0, ctypes.c_size_t(self.nbytes),
                          ctypes.c_void_p(_handle(stream, self._index)))
        return self

    def numpy(self, stream: Any = None) -> np.ndarray:
        """A copy in an array of the host."""
        out = np.empty(self.shape, self.dtype)
        copy(out, self, stream)
        return out

    def clone(self, stream: Any = None) -> DeviceBuffer:
        """A copy on the same GPU."""
        return DeviceBuffer(self.shape, self.dtype, self._index).copy_(self, stream, blocking=False)

    def free(self):
        """Give the memory back now."""
        self._finalizer()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """What `np.asarray` gives: a copy on the host."""
        if copy is False:
            raise ValueError("memory of a GPU cannot be seen by NumPy without a copy")
        return self.numpy().astype(dtype or self.dtype, copy=False)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a buffer without axes")
        return self.shape[0]

    def __repr__(self):
        return f"DeviceBuffer(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"


def empty(shape: Any, dtype: Any = np.float32, device: Any = None) -> DeviceBuffer:
    """A buffer with undefined content."""
    return DeviceBuffer(shape, dtype, device)


def zeros(shape: Any, dtype: Any = np.float32, device: Any = None) -> DeviceBuffer:
    """A buffer of zeros."""
    return DeviceBuffer(shape, dtype, device).zero_()


def to_device(array: Any, device: Any = None, stream: Any = None, blocking: bool = True) -> DeviceBuffer:
    """A buffer with the elements of an array of the host."""
    array = np.asarray(array)
    return DeviceBuffer(array.shape, array.dtype, device).copy_(array, stream, blocking)


class _Pinned:
    """Host memory the GPU reaches; NumPy keeps this object as long as an array on it lives."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        size, pointer, library = max(math.prod(shape) * dtype.itemsize, 1), ctypes.c_void_p(), gpu()
        device = library.current()
        library.call("alloc_host", ctypes.byref(pointer), ctypes.c_size_t(size), 1)  # for every context
        weakref.finalize(self, _release, library, device, "free_host", pointer.value)
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer.value, False), "version": 3}


def pinned(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    """A NumPy array in page-locked memory: copies to and from it run beside everything else, and kernels may use it."""
    shape, dtype = _shape(shape), _dtype(dtype)
    memory = np.asarray(_Pinned(shape, dtype))
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def copy(target: Any, source: Any, stream: Any = None, blocking: bool = True) -> None:
    """Copy between the host and a GPU, or two buffers, in a stream's order.

    With `blocking`, waits until it is done. Otherwise the host's array must be pinned to be copied beside other work,
    and must stay as it is until the stream gets there.
    """
    if not isinstance(target, DeviceBuffer) and not isinstance(source, DeviceBuffer):
        raise TypeError("one side of a copy must be a DeviceBuffer; use NumPy for copies on the host")
    if not isinstance(source, DeviceBuffer):
        source = np.asarray(source, order="C")
    if not isinstance(target, DeviceBuffer):
        target = _host(target)
    library, device = next((x.gpu, x.get_device()) for x in (target, source) if isinstance(x, DeviceBuffer))
    if tuple(target.shape) != tuple(source.shape) or target.dtype != source.dtype:
        raise ValueError(f"cannot copy {source.dtype} {tuple(source.shape)} to {target.dtype} {tuple(target.shape)}")
    if not isinstance(target, DeviceBuffer) and not target.flags.c_contiguous:
        raise ValueError("copy to a contiguous array, or to a temporary one first")
    handle = ctypes.c_void_p(_handle(stream, device))
    with library.on(device):
        if target.nbytes:
            name = _COPIES[isinstance(target, DeviceBuffer), isinstance(source, DeviceBuffer)]
            library.call(name, ctypes.c_uint64(_address(target)), ctypes.c_uint64(_address(source)),
                         ctypes.c_size_t(target.nbytes), handle)
        if blocking:
            library.call("stream_synchronize", handle)


def _host(x: Any) -> np.ndarray:
    """The NumPy array that a tensor of the host is."""
    if isinstance(x, np.ndarray):
        return x
    if not hasattr(x, "numpy"):
        raise TypeError(f"copy to a NumPy array or a tensor, not to {type(x).__name__}")
    return x.numpy()


# (target on the GPU, source on the GPU); the last also copies between two GPUs
_COPIES = {(True, False): "copy_in", (False, True): "copy_out", (True, True): "copy"}


def _address(x: Any) -> int:
    return x.data_ptr() if isinstance(x, DeviceBuffer) else x.ctypes.data


def _handle(stream: Any, device: int) -> int:
    """Handle of a stream: ours, torch's, a number, or None for the current one."""
    return launch.current_stream(device) if stream is None else launch.handle_of(stream)


# -- streams and events ------------------------------------------------------------------------------------------------


class _Handle:
    """What the driver knows a stream or an event by; given back when nothing refers to it."""

    kind: str

    def __init__(self, device: Any, *options: int):
        self.gpu, self.device_index = gpu(), _index(device)
        found = ctypes.c_void_p()
        self._call(f"{self.kind}_create", ctypes.byref(found), *options)
        self.handle = found.value
        weakref.finalize(self, _release, self.gpu, self.device_index, f"{self.kind}_destroy", self.handle)

    def _call(self, name: str, *args: Any) -> None:
        with self.gpu.on(self.device_index):
            self.gpu.call(name, *args)

    def synchronize(self):
        """Wait until everything in the stream is done, or until a stream has come to the event."""
        self._call(f"{self.kind}_synchronize", ctypes.c_void_p(self.handle))

    def query(self):
        """Whether everything in the stream is done, or a stream has come to the event."""
        with self.gpu.on(self.device_index):
            code = self.gpu.function(f"{self.kind}_query")(ctypes.c_void_p(self.handle))
        if code not in (0, NOT_YET):
            raise self.gpu.error(f"{self.gpu.named(f'{self.kind}_query')} failed: {self.gpu.explain(code)}")
        return code == 0


class Stream(_Handle):
    """A queue of work on a GPU, independent of the default stream. Within `with stream:`, launches go to it."""

    kind = "stream"

    def __init__(self, device: Any = None, priority: int = 0):
        super().__init__(device, 1, priority)
        self.cuda_stream = self.handle

    def wait_event(self, event: Event) -> None:
        """What is queued from now on waits for an event."""
        self._call("stream_wait", ctypes.c_void_p(self.handle), ctypes.c_void_p(event.handle), 0)

    def wait_stream(self, stream: Stream) -> None:
        """What is queued from now on waits for what is in another stream now."""
        event = Event(device=stream.device_index)
        event.record(stream)
        self.wait_event(event)

    def __enter__(self):
        launch.push_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        launch.pop_stream(self)

    def __repr__(self):
        return f"Stream({self.handle:#x} on {MEMORY}:{self.device_index})"


class Event(_Handle):
    """A mark in a stream, to wait for or to take the time between two of them."""

    kind = "event"

    def __init__(self, enable_timing: bool = False, device: Any = None):
        super().__init__(device, 0 if enable_timing else 2)

    def record(self, stream: Any = None) -> None:
        """Put the mark at the end of a stream, the current one by default."""
        self._call("event_record", ctypes.c_void_p(self.handle), ctypes.c_void_p(_handle(stream, self.device_index)))

    def wait(self, stream: Any = None) -> None:
        """Have a stream, the current one by default, wait for the mark."""
        self._call("stream_wait", ctypes.c_void_p(_handle(stream, self.device_index)), ctypes.c_void_p(self.handle), 0)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to another one; both made with `enable_timing` and reached."""
        found = ctypes.c_float()
        with self.gpu.on(self.device_index):
            code = self.gpu.function("event_elapsed")(ctypes.byref(found), ctypes.c_void_p(self.handle),
                                                      ctypes.c_void_p(end.handle))
        if code:
            raise self.gpu.error(f"{self.gpu.named('event_elapsed')} failed: {self.gpu.explain(code)}\nhint: make both "
                                 "events with enable_timing=True, record them and wait for the second")
        return found.value
