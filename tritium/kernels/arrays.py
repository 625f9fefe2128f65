"""The little that torch tensors and NumPy arrays do not spell alike.

Functions of the collection call these each time, and a launch takes microseconds. So they ask a tensor for what is
cheap to ask, and sizes are given to torch one by one, which it reads faster than a tuple of them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritium import knobs


def empty(like: Any, shape: tuple | None = None, dtype: str | None = None) -> Any:
    """An uninitialised array of the kind and on the device of `like`; shape and dtype are its own unless given.

    >>> empty(np.zeros(3), dtype="float32").dtype
    dtype('float32')
    """
    if isinstance(like, np.ndarray):
        return np.empty(like.shape if shape is None else shape, like.dtype if dtype is None else numpy_dtype(dtype))
    if shape is None:
        if dtype is None and like.is_contiguous():
            return _torch().empty_like(like)
        shape = like.shape
    if dtype is None:
        return like.new_empty(*shape or ((),))
    return like.new_empty(*shape or ((),), dtype=torch_dtype(dtype))


def zeros(like: Any, shape: tuple | None = None, dtype: str | None = None) -> Any:
    """Like `empty`, filled with zeros.

    >>> zeros(np.ones(2))
    array([0., 0.])
    """
    if isinstance(like, np.ndarray):
        return np.zeros(like.shape if shape is None else shape, like.dtype if dtype is None else numpy_dtype(dtype))
    shape = like.shape if shape is None else shape
    if dtype is None:
        return like.new_zeros(*shape or ((),))
    return like.new_zeros(*shape or ((),), dtype=torch_dtype(dtype))


def scratch(like: Any, *shape: int) -> Any:
    """An uninitialised array of float32 where `like` lies, for kernels only. On a CPU it is always one of NumPy.

    torch takes five times as long to make a tensor, and a launch longer to take it.

    >>> scratch(np.zeros(3, np.float16), 2, 4).dtype
    dtype('float32')
    """
    if isinstance(like, np.ndarray) or like.is_cpu and type(shape[0]) is type(shape[-1]) is int:  # no symbols
        return np.empty(shape, np.float32)
    return empty(like, shape, "float32")


@functools.cache
def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a name, bfloat16 and fp8 included.

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


@functools.cache
def torch_dtype(name: str) -> Any:
    """The torch dtype of a name.

    >>> torch_dtype("float16")
    torch.float16
    """
    return getattr(_torch(), name)


@functools.cache
def _torch() -> Any:
    import torch

    return torch


def strides(x: Any) -> tuple[int, ...]:
    """The strides of an array in elements.

    >>> strides(np.zeros((2, 3), np.float32))
    (3, 1)
    """
    if isinstance(x, np.ndarray):
        each = x.itemsize
        return tuple([n // each for n in x.strides])
    return x.stride()


def numel(x: Any) -> int:
    """How many elements an array has.

    >>> numel(np.zeros((2, 3)))
    6
    """
    return x.size if isinstance(x, np.ndarray) else x.numel()


def dtype_name(x: Any) -> str:
    """The name of an array's element type, the same for torch and NumPy.

    >>> dtype_name(np.zeros(1, np.float16))
    'float16'
    """
    return str(x.dtype).rpartition(".")[2]


def contiguous(x: Any) -> Any:
    """The array itself, or a copy of it in row-major order.

    >>> strides(contiguous(np.zeros((2, 3)).T))
    (2, 1)
    """
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x.contiguous()


def all_contiguous(*arrays: Any) -> list:
    """The arrays themselves, or copies of them in row-major order.

    >>> [strides(x) for x in all_contiguous(np.zeros((2, 3)).T, np.zeros(4))]
    [(2, 1), (1,)]
    """
    if isinstance(arrays[0], np.ndarray):
        return [np.ascontiguousarray(x) for x in arrays]
    return [x.contiguous() for x in arrays]


def multiprocessors(x: Any) -> int:
    """How many programs run at a time at least where an array lies: a GPU's multiprocessors, or the CPU's threads.

    >>> multiprocessors(np.zeros(3)) >= 1
    True
    """
    if on_gpu(x):
        return _multiprocessors_of("cuda")
    threads = _threads.get("cpu")
    if threads is None:
        threads = _threads["cpu"] = _multiprocessors_of("cpu")
    return threads


def _multiprocessors_of(device: str) -> int:
    import tritium

    driver = tritium.runtime.driver.of_device(device)
    return driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"]


# The CPU's threads, until a setting changes: a driver takes longer to ask than a launch takes.
_threads: dict[str, int] = {}
knobs.listeners.append(_threads.clear)


def with_rows(x: Any) -> Any:
    """The array itself if neighbours along its last axis are neighbours in memory, or a copy of which that is true.

    >>> strides(with_rows(np.zeros((4, 6))[:, :3])), strides(with_rows(np.zeros((4, 6)).T))
    ((6, 1), (4, 1))
    """
    return x if strides(x)[-1] == 1 or x.shape[-1] <= 1 else contiguous(x)


def on_gpu(x: Any) -> bool:
    """Whether an array lies in the memory of a GPU.

    >>> on_gpu(np.zeros(3))
    False
    """
    return not isinstance(x, np.ndarray) and x.is_cuda


def like_device(x: np.ndarray, device: str) -> Any:
    """An array of NumPy itself if `device` is "numpy", else a tensor of torch there; fp8 and bfloat16 included.

    >>> like_device(np.zeros(3), "numpy").shape
    (3,)
    """
    if device == "numpy":
        return x
    import torch

    name = dtype_name(x)
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = torch.from_numpy(np.ascontiguousarray(x).view({1: np.uint8, 2: np.int16}[x.itemsize]))
        return bits.view(getattr(torch, name)).to(device)
    return torch.from_numpy(np.ascontiguousarray(x)).to(device)
