"""Tensor maps: the descriptors by which TMA, on Hopper and later GPUs, addresses a tensor in global memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

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
class Template(NamedTuple):
    """A tensor map as a function of a launch's arguments: its base argument, and numbers as sums of (factor,
    arguments).

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
