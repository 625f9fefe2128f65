"""Tensor maps: the descriptors by which TMA, on Hopper and later GPUs, addresses a tensor in global memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ....named_tuples import NamedTuple
from . import cuda

TYPES = {  # CUtensorMapDataType, by signature string; 8-bit floats are copied as bytes
    "u8": 0, "i8": 0, "u16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "fp16": 6, "fp32": 7, "fp64": 8, "bf16": 9,
    "i16": 1, **dict.fromkeys(("fp8e5", "fp8e4nv", "fp8e4b15", "fp8e5b16", "fp8e4b8"), 0),
}  # fmt: skip
MOST_MAPS = 16  # of a kernel
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
SPANS = {number: span for span, number in SWIZZLES.items()}


def encode(address: int, element: int | str, element_bytes: int, shape: Sequence[int], strides: Sequence[int],
           block: Sequence[int], swizzle: int = 128, nan: bool = False) -> ctypes.Array:
    """The 128 bytes of a tensor map, aligned to 64; keep the result while the kernel may read it.

    `element` is a signature string or a CUtensorMapDataType. `shape`, `strides` (in elements, the last is 1) and
    `block` list the slowest axis first, as in NumPy. Elements read outside are zeros, or with `nan` NaNs.
    """
    number = element if isinstance(element, int) else TYPES.get(element)
    if number is None:
        raise ValueError(f"TMA knows no {element}: use one of {', '.join(TYPES)}")
    if strides[-1] != 1:
        raise ValueError(f"the last stride of a tensor TMA reads must be 1, not {strides[-1]}")
    rank = len(shape)
    dims = (ctypes.c_uint64 * rank)(*reversed(shape))
    steps = (ctypes.c_uint64 * max(rank - 1, 1))(*(s * element_bytes for s in reversed(strides[:-1])))
    box, ones = (ctypes.c_uint32 * rank)(*reversed(block)), (ctypes.c_uint32 * rank)(*[1] * rank)
    memory = (ctypes.c_char * 192)()
    start = -ctypes.addressof(memory) % 64
    found = (ctypes.c_char * 128).from_buffer(memory, start)
    cuda.call("cuTensorMapEncodeTiled", ctypes.byref(found), number, rank, ctypes.c_void_p(address), dims,
              steps, box, ones, 0, SWIZZLES[swizzle], 2, int(nan))
    return found


# --- templates: functions of a kernel's arguments ---------------------------------------------------------------------
def value(slot: Any, arguments: Sequence[int], grid: Sequence[int]) -> int:
    """The value of a slot in a launch: the number of an argument, ~axis for the size of the grid on an axis, or (name,
    left, right) for what the host computes of two sums. Quotients are rounded toward zero, as in kernels.

    >>> heads = ("div", ((1, (0,)), (1, ())), ((4, ()),))  # (argument 0 + 1) / 4
    >>> value(heads, [31], (1, 1, 1)), value(heads, [-31], (1, 1, 1)), value(("rem", *heads[1:]), [-31], (1, 1, 1))
    (8, -7, -2)
    """
    if isinstance(slot, int):
        return int(arguments[slot] if slot >= 0 else grid[~slot])
    name, *sides = slot
    left, right = (total(terms, arguments, grid) for terms in sides)
    return _COMPUTED[name](left, right)


def total(terms: Sequence, arguments: Sequence[int], grid: Sequence[int]) -> int:
    """The value of a sum of (factor, slots) in a launch.

    >>> total(((2, (0, -1)), (1, ())), [5], (3, 1, 1))
    31
    """
    return sum(factor * math.prod(value(slot, arguments, grid) for slot in slots) for factor, slots in terms)


def _quotient(a: int, b: int) -> int:
    """a / b, rounded toward zero; 0 if b is."""
    whole = abs(a) // abs(b) if b else 0
    return whole if (a < 0) == (b < 0) else -whole


_COMPUTED = {  # as the native launcher computes them
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "rem": lambda a, b: a - _quotient(a, b) * b if b else 0,
    "min": min,
    "max": max,
}
COMPUTED = tuple(_COMPUTED)


class Template(NamedTuple):
    """A tensor map as a function of a launch: its base argument, and numbers as sums of (factor, slots), with slots as
    in `value`.

    `offset` is added to the base, `dims` are (size, stride) of each dimension, slowest first, all in elements; then the
    box size in each dimension and the bytes of the swizzle.
    """

    element: str
    size: int
    base: int
    offset: tuple
    dims: tuple
    box: tuple
    swizzle: int

    def tensor(self, arguments: Sequence[int], grid: Sequence[int]) -> tuple[int, list[int], list[int]]:
        """Address, sizes, and strides in bytes of the tensor in a launch.

        >>> rows = ((64, (1, -2)),)
        >>> Template("fp16", 2, 0, (), ((rows, ((64, ()),)), (((64, ()),), ((1, ()),))), (8, 64), 128).tensor(
        ...     [4096, 5], (1, 3, 1))
        (4096, [960, 64], [128, 2])
        """
        number = lambda terms: total(terms, arguments, grid)
        sizes, strides = zip(*((number(size), number(stride) * self.size) for size, stride in self.dims))
        return int(arguments[self.base]) + number(self.offset) * self.size, list(sizes), list(strides)
