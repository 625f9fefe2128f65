"""Run a kernel on the GPU with arguments that live on the host: their memory is copied there, and back afterwards."""

import ctypes
import dataclasses
import os

import numpy as np

from tritium.runtime import memory
from tritium.tensors import is_descriptor, reader_of

CLUSTER = int(os.environ.get("TEST_NUM_CTAS", "1"))  # blocks that share each program, where a test does not say


class Array:
    """A typed address in a copy of host memory, with as much of a tensor's looks as a launch asks for."""

    device = "cuda:0"

    def __init__(self, address, like):
        self.address, self.dtype, self.shape = address, like.dtype, tuple(like.shape)
        self.strides = like.stride() if callable(getattr(like, "stride", None)) else [
            step // like.itemsize for step in like.strides]  # fmt: skip

    def data_ptr(self):
        return self.address

    def stride(self, axis=None):
        return tuple(self.strides) if axis is None else self.strides[axis]


class Copies:
    """Copies of host memory. What shares memory on the host shares it on the GPU: whole storages are copied."""

    def __init__(self):
        self.storages = {}

    def of(self, x):
        """The argument that stands for `x` on the GPU."""
        if isinstance(x, tuple):
            parts = map(self.of, x)
            return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
        if is_descriptor(x):
            return dataclasses.replace(x, base=self.of(x.base))
        reader = reader_of(x)
        if reader is None:
            return x
        start, size = storage_of(x)
        if start not in self.storages:
            host = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start)) if size else np.zeros(1, np.uint8)
            self.storages[start] = host, memory.to_device(host)
        return Array(self.storages[start][1].data_ptr() + reader.address(x) - start, x)

    def back(self):
        """Write what is on the GPU to where it came from."""
        for host, copy in self.storages.values():
            host[:] = copy.numpy()


def storage_of(x):
    """(address, bytes) of the memory a tensor is a view of."""
    if hasattr(x, "untyped_storage"):
        return x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()
    while isinstance(getattr(x, "base", None), np.ndarray):
        x = x.base
    return x.ctypes.data, x.nbytes


def launch(kernel, grid, args, options):
    """`kernel[grid](*args, **options)` on the GPU; arrays of the host are changed in place."""
    copies = Copies()
    if CLUSTER > 1:
        options = {"num_ctas": CLUSTER, **options}
    compiled = kernel[grid](*map(copies.of, args), **{name: copies.of(x) for name, x in options.items()})
    copies.back()
    return compiled
