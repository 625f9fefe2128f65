"""Copies of a launch's tensors: the interpreter runs on them, and the user's own stay as they are. Tensors that were
made for the launch are used themselves: a large one takes no memory where no program touches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tritium.insight.facts.launch import Launch, tensors_of
from tritium.interp.memory import locate
from tritium.protocols import element_type
from tritium.tensors import reader_of

ALIGNMENT = 256  # bytes: what the allocators of GPUs guarantee for a storage


@dataclass(frozen=True)
class Storage:
    """A copy of one storage, which several tensors may share."""

    bytes: np.ndarray

    def data_ptr(self) -> int:
        """Where it begins."""
        return self.bytes.ctypes.data

    def nbytes(self) -> int:
        """How long it is."""
        return self.bytes.size


@dataclass(frozen=True)
class Replica:
    """A tensor in the copy of its storage; the interpreter's memory reads it as it does a tensor of torch."""

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    storage: Storage
    offset: int  # bytes from the start of the storage

    def untyped_storage(self) -> Storage:
        """The copy."""
        return self.storage

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.storage.data_ptr() + self.offset

    def stride(self) -> tuple[int, ...]:
        """Steps along each axis, in elements."""
        return self.strides

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.itemsize

    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape)) if self.shape else 1

    @property
    def extent(self) -> int:
        """Elements from the first to the last in memory, gaps included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))


def replicas(launch: Launch) -> dict[int, Replica]:
    """{number of a parameter: a copy of its tensor}; tensors that share memory share the copy, too.

    >>> import numpy as np
    >>> from tritium.backends.compiler import GPUTarget
    >>> from tritium.insight.facts.launch import prepared
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros((2, 8), np.float32)
    >>> launch = prepared(add_kernel, (1,), (x[1], x[1], x, 8), {"BLOCK": 8}, GPUTarget("cpu", "host", 1))
    >>> made = replicas(launch)
    >>> made[0].offset, made[0].storage is made[2].storage, made[2].strides
    (32, True, (8, 1))
    """
    storages: dict[tuple[int, int], Storage] = {}
    made = {}
    for k, name, x in tensors_of(launch):
        reader: Any = reader_of(x)
        low, high, address, content = _memory(x, reader)
        if (low, high) not in storages:
            storages[low, high] = Storage(_in_place(low, high) if launch.owned else _aligned(content, high - low))
        shape, strides = _form(x)
        dtype = element_type(x.dtype) if hasattr(x, "dtype") else reader.element(x)
        size = _size(x, reader)
        made[k] = Replica(name, dtype, size, shape, strides, storages[low, high], address - low)
    return made


def _memory(x: Any, reader: Any) -> tuple[int, int, int, Any]:
    """Start and end of the storage, the address of the first element, and a function that copies the storage."""
    if reader.device(x) in (None, "cpu"):
        found = locate(x)
        return found.storage_low, found.storage_high, found.address, lambda out: _copy(found.storage_low, out)
    owner = x.base if hasattr(x, "base") and hasattr(x.base, "untyped_storage") else x
    if not hasattr(owner, "untyped_storage"):
        raise TypeError(f"cannot copy a {type(x).__name__} from {reader.device(x)} to the host: pass a torch tensor")
    storage = owner.untyped_storage()
    low = storage.data_ptr()

    def fetch(out: np.ndarray) -> None:
        host = storage.cpu()
        _copy(host.data_ptr(), out)

    return low, low + storage.nbytes(), owner.data_ptr(), fetch


def _copy(address: int, out: np.ndarray) -> None:
    import ctypes

    ctypes.memmove(out.ctypes.data, address, out.size)


def _in_place(low: int, high: int) -> np.ndarray:
    import ctypes

    memory: Any = (ctypes.c_ubyte * (high - low)).from_address(low)
    return np.frombuffer(memory, np.uint8)


def _aligned(fill: Any, size: int) -> np.ndarray:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    out = raw[start : start + size]
    if size:
        fill(out)
    return out


def _form(x: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape, and strides in elements. What tells neither is taken for one long row."""
    sizes: Any = getattr(x, "shape", ()) or ()
    shape = tuple(int(n) for n in sizes)
    if callable(getattr(x, "stride", None)):
        return shape, tuple(int(s) for s in x.stride())
    strides: Any = getattr(x, "strides", None)
    if strides is not None and hasattr(x, "itemsize"):
        return shape, tuple(int(s) // x.itemsize for s in strides)
    dense = [1]
    for n in reversed(shape[1:]):
        dense.append(dense[-1] * n)
    return shape, tuple(reversed(dense)) if shape else ()


def _size(x: Any, reader: Any) -> int:
    if hasattr(x, "element_size"):
        return int(x.element_size())
    return int(getattr(x, "itemsize", 0) or locate(x).itemsize)
