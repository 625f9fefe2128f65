"""Tensor maps: the descriptors by which TMA, on Hopper and later GPUs, addresses a tensor in global memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from ....named_tuples import NamedTuple
from . import cuda

TYPES = {  # CUtensorMapDataType, by signature string; 8-bit floats are copied as bytes
    "u8": 0, "i8": 0, "u16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "fp16": 6, "fp32": 7, "fp64": 8, "bf16": 9,
    "i16": 1, **dict.fromkeys(("fp8e5", "fp8e4nv", "fp8e4b15", "fp8e5b16", "fp8e4b8"), 0),
}  # fmt: skip
MOST_MAPS = 16  # of a kernel
MOST_FACTORS = 4  # slots that are multiplied in a term of a template
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
class Template(NamedTuple):
    """A tensor map as a function of a launch: its base argument, and numbers as sums of (factor, slots). A slot is the
    number of an argument, or ~axis for the size of the grid on an axis.

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
        value = lambda slot: int(arguments[slot] if slot >= 0 else grid[~slot])
        total = lambda terms: sum(factor * math.prod(map(value, slots)) for factor, slots in terms)
        sizes, strides = zip(*((total(size), total(stride) * self.size) for size, stride in self.dims))
        return int(arguments[self.base]) + total(self.offset) * self.size, list(sizes), list(strides)
