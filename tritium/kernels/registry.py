"""One record for each kernel of the collection: what tests check, `tritium bench` measures and the demo shows.

A module of the collection lists its records in `KERNELS`. `kernels()` gathers them all.

    >>> record = find("vector_add")
    >>> arguments = record.make_arguments(1000, "float32", "numpy")
    >>> record.error(*arguments) < record.tolerance("float32")
    True
    >>> record.bytes(*arguments), record.flops(*arguments)
    (12000, 1000)
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tritium.kernels import arrays
from tritium.locks import imported, once

# How far a result may be from the float64 one, as a part of the largest value, for each type of input.
TOLERANCE = {"float64": 1e-6, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 2e-3,
             "float8_e5m2": 2e-3}  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """A kernel of the collection: how to call it, what it should give, how much work it is.

    `size` is one number; `size_is` says of what. `device` is "numpy" for NumPy arrays, else a torch device.

    >>> find("softmax").size_is
    'rows and columns of a square matrix'
    """

    name: str
    wrapper: Callable  # (*arguments) -> array or tuple of arrays
    reference: Callable  # (*arguments), arrays as float64 of NumPy -> the same
    make_arguments: Callable[[int, str, str], tuple]  # (size, dtype, device)
    bytes: Callable[..., int]  # (*arguments) -> bytes that must move: each input and each result once
    flops: Callable[..., int]  # (*arguments) -> floating-point operations
    group: str  # kernels of one group do the same task
    title: str  # a few words for tables
    size_is: str
    scenario: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)  # "cpu", "cuda" -> the size to measure there
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")  # the first is the usual one
    bound: str = "memory"  # or "compute": which limit a measurement is compared with
    jit: tuple = ()  # the @jit functions the wrapper launches
    rival: Callable | None = None  # (torch, *arguments): the same by torch
    main: int | None = None  # which results are compared: one of them, or all
    slack: float = 1.0  # a factor on the tolerance

    def tolerance(self, dtype: str) -> float:
        """The largest `error` to accept for inputs of `dtype`.

        >>> find("matmul").tolerance("float16") > find("vector_add").tolerance("float16")
        True
        """
        return TOLERANCE.get(dtype, 0.0) * self.slack  # integers are exact

    def expected(self, *arguments: Any) -> tuple:
        """What the reference gives, computed in float64: a tuple of NumPy arrays.

        >>> find("vector_add").expected(np.float32([1]), np.float32([2]))
        (array([3.]),)
        """
        return self._compared(self.reference(*map(as_float64, arguments)))

    def error(self, *arguments: Any) -> float:
        """The largest difference between wrapper and reference, as a part of the largest value expected.

        >>> find("vector_add").error(np.float32([1]), np.float32([2]))
        0.0
        """
        got, expected = self._compared(self.wrapper(*arguments)), self.expected(*arguments)
        finite = [np.abs(e[np.isfinite(e)]).max(initial=0.0) for e in expected]
        scale = max([float(f) for f in finite], default=0.0) or 1.0
        return max((_difference(as_float64(g), e) for g, e in zip(got, expected)), default=0.0) / scale

    def _compared(self, results: Any) -> tuple:
        results = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(results) if self.main is None else (results[self.main],)


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
    if got.shape != np.shape(expected):
        return float("inf")
    if got.size == 0:
        return 0.0
    apart = float(np.where(got == expected, 0.0, np.abs(got - expected)).max())  # equal infinities are not apart
    return float("inf") if np.isnan(apart) else apart


def as_float64(x: Any) -> Any:
    """Arrays and tensors of floats as float64 arrays of NumPy, of integers as they are; other values unchanged.

    >>> as_float64(np.float16([0.5])).dtype
    dtype('float64')
    """
    if isinstance(x, (tuple, list)):
        return type(x)(map(as_float64, x))
    if not hasattr(x, "dtype"):
        return x
    if not isinstance(x, np.ndarray):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    return x if x.dtype.kind in "iub" else x.astype(np.float64)


def normal(shape: tuple[int, ...], dtype: str, device: str, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal random numbers: an array of NumPy if `device` is "numpy", else a tensor of torch there.

    >>> normal((2, 3), "bfloat16", "numpy").shape
    (2, 3)
    """
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * np.float32(scale)
    if device == "numpy":
        return x.astype(arrays.numpy_dtype(dtype))
    import torch

    return torch.from_numpy(x).to(device).to(getattr(torch, dtype))


def nbytes(*values: Any) -> int:
    """The bytes of some arrays.

    >>> nbytes(np.zeros(3, np.float32), np.zeros((2, 2)))
    44
    """
    return sum(arrays.numel(x) * x.itemsize for x in values)


@once
def kernels() -> Mapping[str, Kernel]:
    """Every record by name, in the order of the scenarios.

    >>> {"softmax", "softmax_persistent", "matmul"} <= set(kernels())
    True
    """
    import tritium.kernels as package

    found: dict[str, Kernel] = {}
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for record in getattr(imported(info.name), "KERNELS", ()):
            assert record.name not in found, f"two kernels are named {record.name}"
            found[record.name] = record
    return dict(sorted(found.items(), key=lambda item: (item[1].scenario or "S99", item[1].group)))


def find(name: str) -> Kernel:
    """The record of a name.

    >>> find("vectoradd")
    Traceback (most recent call last):
    ...
    KeyError: 'no kernel is named vectoradd; did you mean vector_add?'
    """
    if name not in kernels():
        import difflib

        close = difflib.get_close_matches(name, kernels(), n=1)
        raise KeyError(f"no kernel is named {name}" + (f"; did you mean {close[0]}?" if close else
                       f"; there are {', '.join(kernels())}"))
    return kernels()[name]
