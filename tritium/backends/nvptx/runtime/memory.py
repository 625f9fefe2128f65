"""Memory of NVIDIA GPUs without a framework: buffers, pinned host memory, copies, streams and events.

Use it as `tritium.runtime.memory`. Buffers are arguments of kernels like any tensor:

    x = memory.to_device(np.arange(1000, dtype=np.float32))
    y = memory.empty(1000, np.float32)
    kernel[(4,)](x, y, 1000, BLOCK=256)
    y.numpy()

Work goes to the current stream: the default one, torch's where torch is in use, or that of a `with stream:` block.
Everything raises CudaError on a machine without a driver.
"""

from __future__ import annotations

import ctypes
import math
import operator
import weakref
from typing import Any

import numpy as np

from ....tensors import element_type
from . import cuda, launch

__all__ = ["DeviceBuffer", "Event", "Stream", "copy", "current_device", "current_stream", "device_count", "empty",
           "is_available", "memory_info", "pinned", "synchronize", "to_device", "zeros"]  # fmt: skip

_NUMPY = {
    "u1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "fp16": "float16", "fp32": "float32", "fp64": "float64",
}  # fmt: skip
_ML_DTYPES = {"bf16": "bfloat16", "fp8e5": "float8_e5m2", "fp8e4nv": "float8_e4m3fn", "fp8e4b8": "float8_e4m3fnuz",
              "fp8e5b16": "float8_e5m2fnuz"}  # fmt: skip


def _dtype(dtype):
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


def is_available():
    """Whether there is a GPU to run on.

    >>> is_available() in (True, False)
    True
    """
    return cuda.available()


def device_count():
    """Number of GPUs; 0 without a driver."""
    return cuda.count() if cuda.available() else 0


def current_device():
    """Number of the current GPU."""
    return cuda.current()


def current_stream(device=None):
    """Handle of the stream work on a GPU goes to."""
    return launch.current_stream(cuda.current() if device is None else device)


def synchronize(device=None):
    """Wait until a GPU has done everything; errors kernels left behind are raised here, with the kernels' names."""
    with cuda.on(cuda.current() if device is None else device):
        cuda.synchronize()


def memory_info(device=None):
    """(free, total) bytes of a GPU."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with cuda.on(cuda.current() if device is None else device):
        cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


# -- buffers -----------------------------------------------------------------------------------------------------------


def _release(device, name, handle):
    with cuda.on(device):
        cuda.release(name, handle)


def _shape(shape):
    """The sizes of a shape that may be one number; numbers of NumPy count.

    >>> _shape(np.int64(3)), _shape([2, 4])
    ((3,), (2, 4))
    """
    sizes = tuple(map(operator.index, shape)) if isinstance(shape, tuple | list) else (operator.index(shape),)
    if any(size < 0 for size in sizes):
        raise ValueError(f"sizes cannot be negative: {sizes}")
    return sizes


def _index(device):
    """The number of a GPU given as such, as "cuda:1", or by torch; None stands for the current one.

    >>> _index(2), _index("cuda:1")
    (2, 1)
    """
    if isinstance(device, int):
        return device
    kind, _, number = str("cuda" if device is None else device).partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise ValueError(f"{device!r} is no GPU: give its number, or a name such as 'cuda:0'")
    return int(number) if number else cuda.current()


class DeviceBuffer:
    """An array in a GPU's memory, in C order; freed by `free()`, or when nothing refers to it."""

    def __init__(self, shape, dtype, device=None):
        self.shape, self.dtype, self._index = _shape(shape), _dtype(dtype), _index(device)
        self._address, pointer = 0, ctypes.c_uint64()
        with cuda.on(self._index):
            if self.nbytes:
                cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(self.nbytes))
                self._address = pointer.value
        self._finalizer = weakref.finalize(self, _release, self._index, "cuMemFree_v2", self._address)
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
        return f"cuda:{self._index}"

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

    def stride(self, axis=None):
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

    def copy_(self, source, stream=None, blocking=True):
        """Copy from an array of the host, or a buffer; see `copy`."""
        copy(self, source, stream, blocking)
        return self

    def zero_(self, stream=None):
        """Set every byte to 0, in the stream's order."""
        if self.nbytes:
            with cuda.on(self._index):
                cuda.call("cuMemsetD8Async", ctypes.c_uint64(self.data_ptr()), 0, ctypes.c_size_t(self.nbytes),
                          ctypes.c_void_p(_handle(stream, self._index)))
        return self

    def numpy(self, stream=None):
        """A copy in an array of the host."""
        out = np.empty(self.shape, self.dtype)
        copy(out, self, stream)
        return out

    def clone(self, stream=None):
        """A copy on the same GPU."""
        return DeviceBuffer(self.shape, self.dtype, self._index).copy_(self, stream, blocking=False)

    def free(self):
        """Give the memory back now."""
        self._finalizer()

    def __array__(self, dtype=None, copy=None):
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


def empty(shape, dtype: Any = np.float32, device=None):
    """A buffer with undefined content."""
    return DeviceBuffer(shape, dtype, device)


def zeros(shape, dtype=np.float32, device=None):
    """A buffer of zeros."""
    return DeviceBuffer(shape, dtype, device).zero_()


def to_device(array, device=None, stream=None, blocking=True):
    """A buffer with the elements of an array of the host."""
    array = np.asarray(array)
    return DeviceBuffer(array.shape, array.dtype, device).copy_(array, stream, blocking)


class _Pinned:
    """Host memory the GPU reaches; NumPy keeps this object as long as an array on it lives."""

    def __init__(self, shape, dtype):
        size, pointer = max(math.prod(shape) * dtype.itemsize, 1), ctypes.c_void_p()
        device = cuda.current()
        cuda.call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(size), 1)  # for every context
        weakref.finalize(self, _release, device, "cuMemFreeHost", pointer.value)
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer.value, False), "version": 3}


def pinned(shape, dtype=np.float32):
    """A NumPy array in page-locked memory: copies to and from it run beside everything else, and kernels may use it."""
    shape, dtype = _shape(shape), _dtype(dtype)
    memory = np.asarray(_Pinned(shape, dtype))
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def copy(target, source, stream=None, blocking=True):
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
    device = next(x.get_device() for x in (target, source) if isinstance(x, DeviceBuffer))
    if tuple(target.shape) != tuple(source.shape) or target.dtype != source.dtype:
        raise ValueError(f"cannot copy {source.dtype} {tuple(source.shape)} to {target.dtype} {tuple(target.shape)}")
    if not isinstance(target, DeviceBuffer) and not target.flags.c_contiguous:
        raise ValueError("copy to a contiguous array, or to a temporary one first")
    handle = ctypes.c_void_p(_handle(stream, device))
    with cuda.on(device):
        if target.nbytes:
            name = _COPIES[isinstance(target, DeviceBuffer), isinstance(source, DeviceBuffer)]
            cuda.call(name, ctypes.c_uint64(_address(target)), ctypes.c_uint64(_address(source)),
                      ctypes.c_size_t(target.nbytes), handle)
        if blocking:
            cuda.call("cuStreamSynchronize", handle)


def _host(x):
    """The NumPy array that a tensor of the host is."""
    if isinstance(x, np.ndarray):
        return x
    if not hasattr(x, "numpy"):
        raise TypeError(f"copy to a NumPy array or a tensor, not to {type(x).__name__}")
    return x.numpy()


# (target on the GPU, source on the GPU); the last also copies between two GPUs
_COPIES = {(True, False): "cuMemcpyHtoDAsync_v2", (False, True): "cuMemcpyDtoHAsync_v2", (True, True): "cuMemcpyAsync"}


def _address(x):
    return x.data_ptr() if isinstance(x, DeviceBuffer) else x.ctypes.data


def _handle(stream, device):
    """Handle of a stream: ours, torch's, a number, or None for the current one."""
    if stream is None:
        return launch.current_stream(device)
    return stream if isinstance(stream, int) else stream.cuda_stream


# -- streams and events ------------------------------------------------------------------------------------------------


class Stream:
    """A queue of work on a GPU, independent of the default stream. Within `with stream:`, launches go to it."""

    def __init__(self, device=None, priority=0):
        self.device_index = _index(device)
        found = ctypes.c_void_p()
        with cuda.on(self.device_index):
            cuda.call("cuStreamCreateWithPriority", ctypes.byref(found), 1, priority)
        self.handle = self.cuda_stream = found.value
        weakref.finalize(self, _release, self.device_index, "cuStreamDestroy_v2", self.handle)

    def synchronize(self):
        """Wait until everything in the stream is done."""
        with cuda.on(self.device_index):
            cuda.call("cuStreamSynchronize", ctypes.c_void_p(self.handle))

    def query(self):
        """Whether everything in the stream is done."""
        return _done("cuStreamQuery", self.device_index, self.handle)

    def wait_event(self, event):
        """What is queued from now on waits for an event."""
        with cuda.on(self.device_index):
            cuda.call("cuStreamWaitEvent", ctypes.c_void_p(self.handle), ctypes.c_void_p(event.handle), 0)

    def wait_stream(self, stream):
        """What is queued from now on waits for what is in another stream now."""
        event = Event(device=stream.device_index)
        event.record(stream)
        self.wait_event(event)

    def __enter__(self):
        launch.push_stream(self)
        return self

    def __exit__(self, *_):
        launch.pop_stream(self)

    def __repr__(self):
        return f"Stream({self.handle:#x} on cuda:{self.device_index})"


class Event:
    """A mark in a stream, to wait for or to take the time between two of them."""

    def __init__(self, enable_timing=False, device=None):
        self.device_index = _index(device)
        found = ctypes.c_void_p()
        with cuda.on(self.device_index):
            cuda.call("cuEventCreate", ctypes.byref(found), 0 if enable_timing else 2)
        self.handle = found.value
        weakref.finalize(self, _release, self.device_index, "cuEventDestroy_v2", self.handle)

    def record(self, stream=None):
        """Put the mark at the end of a stream, the current one by default."""
        with cuda.on(self.device_index):
            cuda.call("cuEventRecord", ctypes.c_void_p(self.handle),
                      ctypes.c_void_p(_handle(stream, self.device_index)))

    def synchronize(self):
        """Wait until the stream has come to the mark."""
        with cuda.on(self.device_index):
            cuda.call("cuEventSynchronize", ctypes.c_void_p(self.handle))

    def query(self):
        """Whether the stream has come to the mark."""
        return _done("cuEventQuery", self.device_index, self.handle)

    def wait(self, stream=None):
        """Have a stream, the current one by default, wait for the mark."""
        with cuda.on(self.device_index):
            cuda.call("cuStreamWaitEvent", ctypes.c_void_p(_handle(stream, self.device_index)),
                      ctypes.c_void_p(self.handle), 0)

    def elapsed_time(self, end):
        """Milliseconds from this mark to another one; both made with `enable_timing` and reached."""
        found = ctypes.c_float()
        with cuda.on(self.device_index):
            code = cuda.function("cuEventElapsedTime")(ctypes.byref(found), ctypes.c_void_p(self.handle),
                                                       ctypes.c_void_p(end.handle))
        if code:
            raise cuda.CudaError(f"cuEventElapsedTime failed: {cuda.explain(code)}\nhint: make both events with "
                                 "enable_timing=True, record them and wait for the second")
        return found.value


def _done(name, device, handle):
    with cuda.on(device):
        code = cuda.function(name)(ctypes.c_void_p(handle))
    if code not in (0, 600):  # 600: not yet
        raise cuda.CudaError(f"{name} failed: {cuda.explain(code)}")
    return code == 0
