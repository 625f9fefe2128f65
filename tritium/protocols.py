"""Memory that is shown by a protocol: `__array_interface__`, `__cuda_array_interface__`, DLPack.

A protocol is asked once for a launch: an object may well show other memory each time, and keep it only as long as
what it gave is kept.

    >>> import numpy as np
    >>> x = np.zeros(8, np.float32)
    >>> held = from_dlpack(x)
    >>> held.element, held.address == x.ctypes.data, held.device, held.writable
    ('fp32', True, 'cpu', True)
"""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tritium.language.types.signature import canonical
from tritium.refusals import refusal

__all__ = ["Held", "address", "element_type", "from_dlpack", "from_interface", "short", "typestr_element"]


class Held:
    """What an object showed of its memory, which stays as long as this does; all else is asked of the object.

    `low` and `high` are where its elements begin and end.

    >>> import numpy as np
    >>> from_dlpack(np.zeros((2, 3), np.int8)).shape
    (2, 3)
    """

    __slots__ = ("_keep", "address", "device", "element", "high", "itemsize", "low", "tensor", "writable")

    def __init__(self, tensor: Any, element: str, address: int, extent: tuple[int, int], itemsize: int, device: str,
                 writable: bool, keep: Any):
        self.tensor, self.element, self.address, self.device = tensor, element, address, device
        self.low, self.high = address + extent[0], address + extent[1]
        self.itemsize, self.writable, self._keep = itemsize, writable, keep
        if not address and self.high > self.low:
            raise refusal(ValueError, f"it shows no memory: the address of its {self.high - self.low} bytes is 0")

    def __getattr__(self, name: str) -> Any:
        if name in Held.__slots__:  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self.tensor, name)


# -- element types -----------------------------------------------------------------------------------------------------

_ELEMENTS: dict[Any, str] = {}


def element_type(dtype: Any) -> str:
    """The signature string of a dtype of any library.

    >>> import numpy as np
    >>> element_type(np.dtype("int16")), element_type("float8_e5m2")
    ('i16', 'fp8e5')
    """
    try:
        return _ELEMENTS[dtype]
    except (KeyError, TypeError):
        found = canonical(str(dtype))
    if found is None:
        raise _no_dtype(dtype)
    _ELEMENTS[dtype] = found
    return found


_REMEDIES = {
    "O": "kernels do not see Python objects: copy the numbers into an array with a numeric dtype, x.astype(...)",
    "c": "pass the real and the imaginary part, x.real.copy() and x.imag.copy(), or x.view(...) with a real dtype",
    "M": "pass x.view('int64')", "m": "pass x.view('int64')",
    "S": "pass x.view('uint8')", "U": "pass x.view('uint32')",
    "V": "pass one field of it, x['name'].copy(), or its bytes, x.view('uint8')",
}  # fmt: skip
_FOREIGN = ">" if sys.byteorder == "little" else "<"


def _no_dtype(dtype: Any) -> TypeError:
    """The error for elements no kernel knows."""
    kind, order = getattr(dtype, "kind", None), getattr(dtype, "byteorder", None)
    problem = f"failed to specialize argument of type tensor: kernels have no dtype {dtype}"
    if order == _FOREIGN and kind in ("i", "u", "f"):
        return refusal(TypeError, f"{problem}: its byte order is not the machine's",
                       "pass x.astype(x.dtype.newbyteorder('='))")
    if kind is None and str(dtype).startswith("torch."):
        hint = "pass x.dequantize()" if "q" in str(dtype) else "pass x.to(...) or x.view(...) with another dtype"
        return refusal(TypeError, problem, hint)
    remedy = _REMEDIES.get(kind or "", "pass a tensor of integers or of floating-point numbers")
    return refusal(TypeError, problem, remedy)


_KINDS = {"f": "fp{}", "i": "i{}", "u": "u{}", "b": "u1"}


@functools.cache
def typestr_element(text: Any) -> str:
    """The signature string of `<f4` in the array protocols.

    >>> typestr_element("<f4"), typestr_element("|b1")
    ('fp32', 'u1')
    """
    if not isinstance(text, str) or len(text) < 3 or text[0] not in "<>|=" or not text[2:].isdecimal():
        raise refusal(TypeError, f"the typestr {text!r} of its array interface is not like '<f4'")
    order, kind, size = text[0], text[1], int(text[2:])
    found = canonical(_KINDS.get(kind, "?").format(8 * size))
    if found is None:
        raise refusal(TypeError, f"failed to specialize argument of type array: kernels have no dtype {text}",
                      _REMEDIES.get(kind))
    if order == _FOREIGN and size > 1:
        raise refusal(TypeError, f"failed to specialize argument of type array: the byte order of {text} is not the "
                      "machine's", "pass np.asarray(x).astype(...) with the machine's byte order")
    return found


# -- addresses ---------------------------------------------------------------------------------------------------------


def address(value: Any, where: str) -> int:
    """An address somebody gave, if it is one.

    >>> address(4096, "data_ptr()")
    4096
    """
    if value.__class__ is not int:
        try:
            value = operator.index(value)
        except TypeError:
            raise refusal(TypeError, f"{where} gives {value!r}, which is no address") from None
    if not 0 <= value < 1 << 64:
        raise refusal(ValueError, f"{where} gives {short(value)}, which is no address")
    return value


def short(number: int) -> str:
    """A number in words that fit on a line.

    >>> short(-4), short(2**200)
    ('-4', 'an int of 201 bits')
    """
    return str(number) if number.bit_length() < 128 else f"an int of {number.bit_length()} bits"


def _extent(shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> tuple[int, int]:
    """Where elements begin and end from the first one's address, with strides in bytes; negative ones lead back."""
    if 0 in shape:
        return 0, 0
    if strides is None:
        size = itemsize
        for n in shape:
            size *= n
        return 0, size
    reach = [(n - 1) * stride for n, stride in zip(shape, strides)]
    return sum(x for x in reach if x < 0), sum(x for x in reach if x > 0) + itemsize


# -- buffers -----------------------------------------------------------------------------------------------------------


@functools.cache
def _python(name: str, result: Any, *parameters: Any) -> Callable[..., Any]:
    """A function of the interpreter, of our own: those of `ctypes.pythonapi` belong to all who set their types."""
    return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))


class _View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = (
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    )  # fmt: skip


class _Buffer:
    """The bytes of an object that has the buffer protocol; they stay where they are while this lives."""

    def __init__(self, owner: Any):
        self._view = _View()
        get = _python("PyObject_GetBuffer", ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
        get(owner, ctypes.addressof(self._view), 0)  # raises where there is no buffer, or it is not contiguous
        self.address, self.size = self._view.buf or 0, self._view.len
        self.writable = not self._view.readonly

    def __del__(self):
        release = _python("PyBuffer_Release", None, ctypes.c_void_p)
        release(ctypes.addressof(self._view))  # does nothing to a view without an object


# -- the array interfaces ----------------------------------------------------------------------------------------------


def from_interface(x: Any, attribute: str = "__array_interface__", device: str = "cpu") -> Held:
    """The memory an array interface shows: an address, or a buffer.

    >>> class Bytes:
    ...     __array_interface__ = {"data": b"abcd", "typestr": "|u1", "shape": (4,), "version": 3}
    >>> held = from_interface(Bytes())
    >>> held.element, held.high - held.low, held.writable
    ('u8', 4, False)
    """
    shown = getattr(x, attribute)
    if not isinstance(shown, dict):
        raise refusal(TypeError, f"its {attribute} is a {type(shown).__name__}, not a dict")
    element = typestr_element(shown.get("typestr"))
    itemsize = int(shown["typestr"][2:])
    shape, strides = _sizes(shown, "shape", attribute, ()), _sizes(shown, "strides", attribute, None)
    extent, data = _extent(shape, strides, itemsize), shown.get("data")
    if isinstance(data, tuple) and len(data) == 2:
        at = address(data[0], f"its {attribute}['data']")
        return Held(x, element, at, extent, itemsize, device, not data[1], shown)
    try:
        buffer = _Buffer(x if data is None else data)
    except TypeError:
        raise refusal(TypeError, f"its {attribute}['data'] is {data!r}: an address with a flag, or a buffer, was "
                      "expected") from None
    start = address(shown.get("offset", 0), f"its {attribute}['offset']")
    if start + extent[0] < 0 or start + extent[1] > buffer.size:
        raise refusal(ValueError, f"its buffer has {buffer.size} bytes, its elements lie in {start + extent[0]} to "
                      f"{start + extent[1]}")
    return Held(x, element, buffer.address + start, extent, itemsize, device, buffer.writable, buffer)


def _sizes(shown: dict, key: str, attribute: str, default: Any) -> Any:
    found = shown.get(key)
    if found is None:
        return default
    try:
        return tuple(map(operator.index, found))
    except TypeError:
        raise refusal(TypeError, f"its {attribute}[{key!r}] is {found!r}, not a tuple of ints") from None


# -- DLPack ------------------------------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    """The C structure DLPack defines; both versions of the protocol contain it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    )  # fmt: skip


_VERSION, _READ_ONLY = (1, 0), 1
_DTYPES = {0: "i{}", 1: "u{}", 2: "fp{}", 4: "bf{}", 6: "u1", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
           12: "float8_e5m2", 13: "float8_e5m2fnuz"}  # fmt: skip
_CODES = {3: "opaque handles", 5: "complex numbers"}
_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda", 10: "cuda", 13: "cuda"}
_FAR = {4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 12: "an extension device", 14: "oneAPI", 15: "WebGPU",
        16: "Hexagon", 17: "MAIA"}  # fmt: skip
_STREAMS_OF = (2, 13)  # devices whose memory is used in the order of streams
DEFAULT_STREAM, NO_ORDER = 1, -1  # streams, to DLPack

# Nobody may change their arrays, whether or not the version of DLPack they speak can say so.
_IMMUTABLE = frozenset(("jax", "jaxlib"))


def export(x: Any, stream: int = NO_ORDER) -> tuple[Any, int]:
    """A tensor's capsule, for use in a stream of its GPU, and the type of its device.

    >>> import numpy as np
    >>> export(np.zeros(4))[1]
    1
    """
    device = x.__dlpack_device__()
    try:
        kind = int(device[0])
    except (TypeError, ValueError, IndexError):
        raise refusal(TypeError, f"its __dlpack_device__() is {device!r}, not a device type and a number") from None
    wanted = {"stream": stream} if kind in _STREAMS_OF else {}
    try:
        return x.__dlpack__(**wanted, max_version=_VERSION), kind
    except TypeError:  # it speaks the first version only
        return x.__dlpack__(**wanted), kind


def from_dlpack(x: Any) -> Held:
    """The memory that DLPack shows, in either version of its capsule.

    >>> import numpy as np
    >>> x = np.zeros(4, np.int16)
    >>> x.flags.writeable = False
    >>> from_dlpack(x).writable
    False
    """
    capsule, kind = export(x)
    tensor, flags = _opened(capsule)
    device = _DEVICES.get(kind)
    if device is None:
        raise refusal(ValueError, f"its memory is on {_FAR.get(kind, 'a device of an unknown type')} (DLPack device "
                      f"{kind}), which no kernel reaches", "copy it to the CPU or to the GPU")
    name = canonical(_DTYPES.get(tensor.code, "?").format(tensor.bits))
    if name is None or tensor.lanes != 1 or (tensor.code >= 6 and tensor.bits != 8):
        what = _CODES.get(tensor.code, f"elements of code {tensor.code}")
        raise refusal(TypeError, f"failed to specialize argument of type tensor: kernels have no dtype like DLPack's "
                      f"{what} with {tensor.bits} bits and {tensor.lanes} lanes")
    itemsize = tensor.bits // 8 or 1
    shape = tensor.shape[:tensor.ndim] if tensor.ndim else []
    strides = [itemsize * n for n in tensor.strides[:tensor.ndim]] if tensor.ndim and tensor.strides else None
    writable = not flags & _READ_ONLY and type(x).__module__.partition(".")[0] not in _IMMUTABLE
    at = (tensor.data or 0) + tensor.byte_offset
    return Held(x, name, at, _extent(shape, strides, itemsize), itemsize, device, writable, capsule)


def _opened(capsule: Any) -> tuple[_DLTensor, int]:
    """The description in a capsule, and its flags."""
    valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    get = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    if valid(capsule, b"dltensor"):
        return _DLTensor.from_address(get(capsule, b"dltensor")), 0
    if valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(get(capsule, b"dltensor_versioned"))
        if managed.major != _VERSION[0]:
            raise refusal(TypeError, f"it speaks version {managed.major}.{managed.minor} of DLPack, not 1.x")
        return managed.tensor, managed.flags
    if valid(capsule, b"used_dltensor") or valid(capsule, b"used_dltensor_versioned"):
        raise refusal(ValueError, "the capsule of its __dlpack__() was used before",
                      "make a new capsule each time __dlpack__() is called")
    raise refusal(TypeError, f"its __dlpack__() gives {capsule!r}, which is no DLPack capsule")
