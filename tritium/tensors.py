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

import copy
import ctypes
import operator
import sys
from collections.abc import Callable
from types import BuiltinMethodType, MethodType
from typing import Any

from tritium.language.types.signature import canonical, flatten
from tritium.named_tuples import NamedTuple
from tritium.protocols import DEFAULT_STREAM, Held, address, element_type, export, from_dlpack, from_interface, short
from tritium.refusals import refusal


class Reader(NamedTuple):
    """How to look at one kind of tensor; `device` may not know.

    `awaited(x, stream)`: before a stream of the GPU uses the memory, another must have come so far, whose handle it
    gives; or None, if the tensor's library has seen to that itself. Tensors of most kinds leave that to the user.
    `writable` says whether a kernel may store to it. `hold` asks once for all that its protocol shows, see `Held`.
    """

    element: Callable[[Any], str]
    address: Callable[[Any], int]
    device: Callable[[Any], str | None]
    awaited: Callable[[Any, int], int | None] | None = None
    writable: Callable[[Any], bool] = lambda x: True
    hold: Callable[[Any], Held] | None = None


# -- kinds of tensors --------------------------------------------------------------------------------------------------


def _data_ptr(x: Any) -> int:
    try:
        found = x.data_ptr()
    except RuntimeError:
        if "sparse" not in str(getattr(x, "layout", "")):
            raise
        raise refusal(TypeError, "a sparse tensor has no address: its numbers lie in several tensors",
                      "pass those, such as x.values() and x.indices(), or x.to_dense()") from None
    return found if found.__class__ is int and 0 < found < 1 << 64 else address(found, "its data_ptr()")


def _device_name(x: Any) -> str | None:
    """The device of an object with `data_ptr`, where it says: a `torch.device`, or text such as "cuda:0"."""
    device = getattr(x, "device", None)
    return None if device is None else str(device).partition(":")[0]


def _by(hold: Callable[[Any], Held], awaited: Callable[[Any, int], int | None] | None = None) -> Reader:
    """The reader of what a protocol shows."""
    return Reader(lambda x: hold(x).element, lambda x: hold(x).address, lambda x: hold(x).device, awaited,
                  lambda x: hold(x).writable, hold)  # fmt: skip


def _dlpack_awaited(x: Any, stream: int) -> None:
    """The tensor's library has the stream wait."""
    export(x, stream or DEFAULT_STREAM)


def _held_awaited(x: Held, stream: int) -> int | None:
    reader: Any = reader_of(x.tensor)
    return reader.awaited(x.tensor, stream) if reader.awaited is not None else None


_TORCH = Reader(lambda x: element_type(x.dtype), _data_ptr, lambda x: x.device.type)
_POINTER = Reader(lambda x: element_type(x.dtype), _data_ptr, _device_name)
_NUMPY = Reader(lambda x: element_type(x.dtype), lambda x: x.__array_interface__["data"][0], lambda x: "cpu",
                writable=lambda x: x.flags.writeable)  # fmt: skip
_INTERFACE = _by(from_interface)
_CUDA_INTERFACE = _by(lambda x: from_interface(x, "__cuda_array_interface__", "cuda"),
                      lambda x, stream: x.__cuda_array_interface__.get("stream"))  # fmt: skip
_DLPACK = _by(from_dlpack, _dlpack_awaited)
_HELD = Reader(lambda x: x.element, lambda x: x.address, lambda x: x.device, _held_awaited, lambda x: x.writable)

# -- dispatch ----------------------------------------------------------------------------------------------------------

_READERS: dict[type, Reader | None] = {Held: _HELD}


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


def hold(x: Any) -> Any:
    """The argument, with what protocols show of its memory asked for and kept: such tensors are `Held` in its stead.

    >>> import numpy as np
    >>> x = np.zeros(4)
    >>> hold(x) is x, hold(3)
    (True, 3)
    """
    reader = reader_of(x)
    if reader is not None:
        return x if reader.hold is None else reader.hold(x)
    if isinstance(x, tuple):
        parts = [hold(part) for part in x]
        return x if all(map(operator.is_, parts, x)) else getattr(x, "_make", tuple)(parts)
    if x.__class__ not in _NUMBERS and is_descriptor(x) and (base := hold(x.base)) is not x.base:
        x = copy.copy(x)
        x.base = base
    return x


def read_only(x: Any) -> bool:
    """Whether an argument is memory that must not be written. A tuple is if all tensors in it are.

    >>> import numpy as np
    >>> read_only(np.zeros(4)), read_only(np.frombuffer(b"abcd", np.uint8))
    (False, True)
    """
    reader = reader_of(x)
    if reader is not None:
        return not reader.writable(x)
    if isinstance(x, tuple):
        return bool(found := [read_only(part) for part in x if device_of(part)]) and all(found)
    return x.__class__ not in _NUMBERS and is_descriptor(x) and read_only(x.base)


def scalar(x: Any) -> Any:
    """A NumPy scalar as a number of Python's; None for anything else.

    >>> import numpy as np
    >>> scalar(np.int8(3)), scalar(np.bool_(True)), scalar(np.float16(0.5)), scalar(3), scalar(np.complex64(1))
    (3, True, 0.5, None, None)
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(x, numpy.generic):
        return None
    convert = _SCALARS.get(x.dtype.kind)
    if convert is None and (canonical(str(x.dtype)) or "").startswith(("fp", "bf")):  # of a library beside NumPy
        convert = float
    return None if convert is None else convert(x)


_SCALARS = {"b": bool, "i": int, "u": int, "f": float}


def constant_value(x: Any) -> Any:
    """A constant without NumPy: its scalars, and arrays without axes, are numbers.

    >>> import numpy as np
    >>> constant_value(np.int64(3)), constant_value(np.array(2.5)), constant_value("text")
    (3, 2.5, 'text')
    """
    number = scalar(x)
    if number is None and type(x).__module__ == "numpy" and getattr(x, "ndim", None) == 0:
        return x.item()
    return x if number is None else number


def unfit(x: Any) -> TypeError:
    """The error for what no kernel takes at run time.

    >>> print(unfit([1, 2]))
    failed to specialize argument of type: list
    hint: pass an array or a tensor of the numbers, or a tuple of the arguments
    """
    kind = type(x)
    hint = "annotate the parameter with tl.constexpr if it is a compile-time constant"
    if kind in (bytes, bytearray, memoryview) or kind.__module__ in ("array", "_ctypes", "mmap") or \
            isinstance(x, ctypes.Array):
        hint = "pass np.frombuffer(x, dtype), an array over the same memory"
    elif isinstance(x, list):
        hint = "pass an array or a tensor of the numbers, or a tuple of the arguments"
    elif isinstance(x, set | frozenset | dict):
        hint = "pass its numbers one by one, or as an array"
    elif isinstance(x, MethodType | BuiltinMethodType):
        hint = f"call it: {x.__name__}()"
    elif isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", None) == "c":
        hint = "pass x.real and x.imag: kernels have no complex numbers"
    elif hasattr(x, "to_numpy"):
        hint = "pass x.to_numpy()"
    elif hasattr(x, "__array__") and not hasattr(x, "dtype"):
        hint = "pass np.asarray(x)"
    return refusal(TypeError, f"failed to specialize argument of type: {kind.__name__}", hint)


def misfit(x: Any, annotation: str) -> TypeError:
    """The error for what is no number, given to a parameter that is annotated as one.

    >>> print(misfit("4", "i32"))
    the parameter is annotated as i32 and was given a str
    hint: pass a number
    """
    return refusal(TypeError, f"the parameter is annotated as {annotation} and was given a {type(x).__name__}",
                   "pass a number" + (", x.item()" if reader_of(x) is not None else ""))


def check_constant(x: Any) -> None:
    """Refuse what cannot be a compile-time constant: tensors, and what may change under the kernel.

    >>> check_constant(3)
    """
    if isinstance(x, int):
        if x.bit_length() > _MOST_BITS:
            raise refusal(OverflowError, f"{short(x)} is too large for a compile-time constant")
        return
    listed = isinstance(x, list | dict | set | bytearray)
    if listed or reader_of(x) is not None:
        one = getattr(x, "shape", None) == () and hasattr(x, "item")
        hint = "pass a tuple" if listed else "pass the number in it, x.item()" if one else \
            "take tl.constexpr off its parameter: tensors are run-time values"
        raise refusal(TypeError, f"unhashable type: '{type(x).__name__}' cannot be a compile-time constant", hint)


_MOST_BITS = 8192  # Python refuses to print much larger numbers


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

    A tensor that has elements and no memory is refused: it is a fake one, or its storage is gone.

    >>> address_of(None), address_of(4096)
    (0, 4096)
    """
    reader = reader_of(x)
    if reader is not None:
        return reader.address(x) or _nowhere(x)
    if x is None:
        return 0
    if not isinstance(x, int):
        raise refusal(TypeError, f"Pointer argument must be a tensor, an int or None, not {type(x).__name__}")
    return address(x, "the argument")


def _nowhere(x: Any) -> int:
    """The address 0, which only what has no elements may have; or does not tell how many."""
    count = getattr(x, "numel", None) or getattr(x, "size", 0)
    count = count() if callable(count) else count
    if isinstance(count, int) and count > 0:
        raise refusal(ValueError, f"it has {count} elements and no memory: its data_ptr() is 0",
                      "its storage was freed or resized, or it is a fake tensor that only stands for its shape")
    return 0


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


def is_torch_dtype(x: Any) -> bool:
    """Whether `x` is a `torch.dtype`.

    >>> is_torch_dtype("float32")
    False
    """
    kind = type(x)
    return kind.__name__ == "dtype" and kind.__module__ == "torch"


class MockTensor:
    """Stands for a tensor in `warmup`, where only its dtype counts.

    >>> MockTensor("fp32", [4, 8]).stride()
    [8, 1]
    """

    @staticmethod
    def wrap_dtype(arg):
        """A mock for a `torch.dtype`; anything else as it is."""
        return MockTensor(arg) if is_torch_dtype(arg) else arg

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
