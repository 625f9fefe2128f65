"""What counts as a tensor argument: element type, address and device of anything that owns memory.

PyTorch and NumPy arrays, objects with `data_ptr()` and `dtype`, and whatever offers `__array_interface__`,
`__cuda_array_interface__` or DLPack. No framework is imported: an object that exists has brought its own.

    >>> import numpy as np
    >>> x = np.zeros(8, np.float32)
    >>> reader = reader_of(x)
    >>> reader.element(x), reader.address(x) == x.ctypes.data, reader.device(x)
    ('fp32', True, 'cpu')
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tritium.language.signature import canonical, flatten


class Reader(NamedTuple):
    """How to look at one kind of tensor; `device` may not know.

    `awaited(x, stream)`: before a stream of the GPU uses the memory, another must have come so far, whose handle it
    gives; or None, if the tensor's library has seen to that itself. Tensors of most kinds leave that to the user.
    """

    element: Callable[[Any], str]
    address: Callable[[Any], int]
    device: Callable[[Any], str | None]
    awaited: Callable[[Any, int], int | None] | None = None


_ELEMENTS: dict[Any, str] = {}


def element_type(dtype: Any) -> str:
    """The signature string of a dtype of any library.

    >>> import numpy as np
    >>> element_type(np.dtype("int16")), element_type("float8_e5m2")
    ('i16', 'fp8e5')
    """
    found = _ELEMENTS.get(dtype)
    if found is None:
        found = canonical(str(dtype))
        if found is None:
            raise TypeError(f"failed to specialize argument of type tensor: kernels have no dtype {dtype}")
        _ELEMENTS[dtype] = found
    return found


# -- kinds of tensors --------------------------------------------------------------------------------------------------

_TORCH = Reader(lambda x: element_type(x.dtype), lambda x: x.data_ptr(), lambda x: x.device.type)
_NUMPY = Reader(lambda x: element_type(x.dtype), lambda x: x.__array_interface__["data"][0], lambda x: "cpu")
_INTERFACE = Reader(
    lambda x: _of_typestr(x.__array_interface__["typestr"]),
    lambda x: x.__array_interface__["data"][0],
    lambda x: "cpu")  # fmt: skip
_CUDA_INTERFACE = Reader(
    lambda x: _of_typestr(x.__cuda_array_interface__["typestr"]),
    lambda x: x.__cuda_array_interface__["data"][0],
    lambda x: "cuda",
    lambda x, stream: x.__cuda_array_interface__.get("stream"))  # fmt: skip


def _device_name(x: Any) -> str | None:
    """The device of an object with `data_ptr`, where it says: a `torch.device`, or text such as "cuda:0"."""
    device = getattr(x, "device", None)
    return None if device is None else str(device).partition(":")[0]


_POINTER = Reader(lambda x: element_type(x.dtype), lambda x: x.data_ptr(), _device_name)


@functools.cache
def _of_typestr(text: str) -> str:
    """`<f4` in the array protocols."""
    order, kind, size = text[0], text[1], int(text[2:])
    name = {"f": f"fp{8 * size}", "i": f"i{8 * size}", "u": f"u{8 * size}", "b": "u1"}.get(kind, text)
    if order == (">" if sys.byteorder == "little" else "<") and size > 1:
        raise TypeError(f"failed to specialize argument of type array: the byte order of {text} is not the machine's")
    return element_type(name)


# -- DLPack ------------------------------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    """The C structure DLPack defines; both versions of the protocol contain it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_DLPACK_KINDS = {0: "i{}", 1: "u{}", 2: "fp{}", 4: "bf{}", 6: "u1", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
                 12: "float8_e5m2", 13: "float8_e5m2fnuz"}  # fmt: skip
_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda", 10: "cuda", 13: "cuda"}
_STREAMS_OF = (2, 13)  # devices whose memory is used in the order of streams
_DEFAULT, _NO_ORDER = 1, -1  # streams, to DLPack


def _export(x: Any, stream: int) -> Any:
    """A tensor's capsule, for use in a stream of its GPU."""
    return x.__dlpack__(stream=stream) if x.__dlpack_device__()[0] in _STREAMS_OF else x.__dlpack__()


def _dlpack_awaited(x: Any, stream: int) -> None:
    """The tensor's library has the stream wait."""
    _export(x, stream or _DEFAULT)


def _dlpack(x: Any) -> tuple[_DLTensor, Any]:
    """The description of a tensor, and the capsule that must outlive it."""
    capsule = _export(x, _NO_ORDER)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _DLTensor.from_address(get(capsule, b"dltensor")), capsule


def _dlpack_element(x: Any) -> str:
    tensor, _capsule = _dlpack(x)
    return element_type(_DLPACK_KINDS.get(tensor.code, f"dlpack code {tensor.code}").format(tensor.bits))


def _dlpack_address(x: Any) -> int:
    tensor, _capsule = _dlpack(x)
    return (tensor.data or 0) + tensor.byte_offset


_DLPACK = Reader(_dlpack_element, _dlpack_address, lambda x: _DLPACK_DEVICES.get(int(x.__dlpack_device__()[0])),
                 _dlpack_awaited)  # fmt: skip

# -- dispatch ----------------------------------------------------------------------------------------------------------

_READERS: dict[type, Reader | None] = {}


def reader_of(x: Any) -> Reader | None:
    """How to look at `x`, None when it is no tensor.

    >>> reader_of(3) is None
    True
    """
    kind = type(x)
    try:
        return _READERS[kind]
    except KeyError:
        found = _READERS[kind] = _find(x)
        return found


def _find(x: Any) -> Reader | None:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(x, torch.Tensor):
        return _TORCH
    if numpy is not None and isinstance(x, numpy.ndarray):
        return _NUMPY
    if isinstance(x, type) or (numpy is not None and isinstance(x, numpy.generic)):
        return None
    offers = (("data_ptr", _POINTER), ("__cuda_array_interface__", _CUDA_INTERFACE),
              ("__array_interface__", _INTERFACE), ("__dlpack__", _DLPACK))  # fmt: skip
    return next((reader for name, reader in offers if hasattr(x, name)), None)


def is_descriptor(x: Any) -> bool:
    """Whether `x` is a host tensor descriptor: a base tensor with shape, strides and block shape.

    >>> is_descriptor(3)
    False
    """
    return hasattr(x, "block_shape") and hasattr(x, "base")


def slots(type_: Any, x: Any) -> list[tuple[str, Any]]:
    """The run-time values of an argument, each with its type: addresses for pointers, numbers for scalars.

    A tuple has those of its elements; a descriptor has its base, its shape as i32 and its strides as i64; a constant
    has none. `signature.flatten` gives the types alone.

    >>> slots(("i32", "constexpr"), (5, 1)), slots("*fp32", None)
    ([('i32', 5)], [('*fp32', 0)])
    """
    if type_.__class__ is not str:
        return [slot for part, item in zip(type_, x) for slot in slots(part, item)]
    if type_ == "constexpr":
        return []
    if type_[0] == "*":
        return [(type_, address_of(x))]
    if type_.startswith("tensordesc"):
        return list(zip(flatten(type_), (address_of(x.base), *x.shape, *x.strides)))
    return [(type_, x)]


def address_of(x: Any) -> int:
    """The address an argument stands for: a tensor's, or an int, or nowhere for None.

    >>> address_of(None), address_of(4096)
    (0, 4096)
    """
    reader = reader_of(x)
    if reader is not None:
        return reader.address(x)
    if x is not None and not isinstance(x, int):
        raise TypeError(f"Pointer argument must be a tensor, an int or None, not {type(x).__name__}")
    return x or 0


_NUMBERS = frozenset((int, float, bool))


def device_of(x: Any) -> str | None:
    """The kind of device an argument's memory is on; None for what has none, or does not say.

    >>> import numpy as np
    >>> device_of((3, np.zeros(2))), device_of(3)
    ('cpu', None)
    """
    reader = reader_of(x)
    if reader is not None:
        return reader.device(x)
    if x.__class__ in _NUMBERS:
        return None
    if isinstance(x, tuple):
        return next(filter(None, map(device_of, x)), None)
    return device_of(x.base) if is_descriptor(x) else None


# -- helpers for host code ---------------------------------------------------------------------------------------------


class MockTensor:
    """Stands for a tensor in `warmup`, where only its dtype counts.

    >>> MockTensor("fp32", [4, 8]).stride()
    [8, 1]
    """

    @staticmethod
    def wrap_dtype(arg):
        """A mock for a `torch.dtype`; anything else as it is."""
        kind = type(arg)
        return MockTensor(arg) if kind.__name__ == "dtype" and kind.__module__ == "torch" else arg

    def __init__(self, dtype, shape=None):
        self.dtype, self.shape = dtype, [1] if shape is None else shape

    def stride(self) -> list[int]:
        """Strides of a contiguous tensor of the shape."""
        strides = [1]
        for size in self.shape[:0:-1]:
            strides.insert(0, strides[0] * size)
        return strides

    @staticmethod
    def data_ptr() -> int:
        """Nowhere, well aligned."""
        return 0

    @staticmethod
    def ptr_range() -> int:
        """No memory."""
        return 0


class TensorWrapper:
    """A tensor seen with another dtype, such as int8 memory that holds fp8 numbers.

    >>> import numpy as np
    >>> TensorWrapper(MockTensor("i8"), "fp8e5").data_ptr()
    0
    """

    def __init__(self, base, dtype):
        self.base, self.dtype = base, dtype
        self.data = getattr(base, "data", base)
        self.device = getattr(base, "device", None)
        self.shape = base.shape

    def data_ptr(self) -> int:
        """The base's address."""
        return self.base.data_ptr()

    def stride(self, *args):
        """The base's strides."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.base.element_size()

    def cpu(self) -> TensorWrapper:
        """A copy on the host."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other) -> None:
        """Copy another wrapper's elements."""
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device) -> TensorWrapper:
        """A copy on a device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes) -> TensorWrapper:
        """A tensor of the same kind."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor, dtype):
    """`tensor` with another dtype of the same size; the base itself when that is its own dtype.

    >>> reinterpret(MockTensor("i8"), "fp8e5").dtype
    'fp8e5'
    """
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr"):
        raise TypeError(f"Cannot reinterpret a {type(tensor)}.")
    return base if dtype == base.dtype else TensorWrapper(base, dtype)
