"""The little that torch tensors and NumPy arrays do not spell alike."""

from __future__ import annotations

from typing import Any

import numpy as np


def empty(like: Any, shape: tuple | None = None, dtype: str | None = None) -> Any:
    """An uninitialised array of the kind and on the device of `like`; shape and dtype are its own unless given.

    >>> empty(np.zeros(3), dtype="float32").dtype
    dtype('float32')
    """
    shape = tuple(like.shape) if shape is None else shape
    if isinstance(like, np.ndarray):
        return np.empty(shape, like.dtype if dtype is None else numpy_dtype(dtype))
    if dtype is None:
        return like.new_empty(shape)
    import torch

    return like.new_empty(shape, dtype=getattr(torch, dtype))


def zeros(like: Any, shape: tuple | None = None, dtype: str | None = None) -> Any:
    """Like `empty`, filled with zeros.

    >>> zeros(np.ones(2))
    array([0., 0.])
    """
    shape = tuple(like.shape) if shape is None else shape
    if isinstance(like, np.ndarray):
        return np.zeros(shape, like.dtype if dtype is None else numpy_dtype(dtype))
    import torch

    return torch.zeros(shape, dtype=like.dtype if dtype is None else getattr(torch, dtype), device=like.device)


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a name, bfloat16 and fp8 included.

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


def strides(x: Any) -> tuple[int, ...]:
    """The strides of an array in elements.

    >>> strides(np.zeros((2, 3), np.float32))
    (3, 1)
    """
    return tuple(n // x.itemsize for n in x.strides) if isinstance(x, np.ndarray) else tuple(x.stride())


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


def multiprocessors(x: Any) -> int:
    """How many programs run at a time at least where an array lies: a GPU's multiprocessors, or the CPU's threads.

    >>> multiprocessors(np.zeros(3)) >= 1
    True
    """
    import tritium

    driver = tritium.runtime.driver.of_device("cuda" if on_gpu(x) else "cpu")
    return driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"]


def with_rows(x: Any) -> Any:
    """The array itself if neighbours along its last axis are neighbours in memory, or a copy of which that is true.

    >>> strides(with_rows(np.zeros((4, 6))[:, :3])), strides(with_rows(np.zeros((4, 6)).T))
    ((6, 1), (4, 1))
    """
    return x if x.shape[-1] <= 1 or strides(x)[-1] == 1 else contiguous(x)


def on_gpu(x: Any) -> bool:
    """Whether an array lies in the memory of a GPU.

    >>> on_gpu(np.zeros(3))
    False
    """
    return not isinstance(x, np.ndarray) and x.device.type == "cuda"


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
