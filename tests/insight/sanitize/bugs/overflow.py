"""Offsets that do not fit in 32 bits."""

import mmap

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.insight.sanitize.bugs.collection import bug


def sparse(elements, dtype):
    """An array that takes address space but no memory."""
    size = elements * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    return np.frombuffer(memory, dtype)


@triton.jit
def far_row(x, y, row, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i)  # BUG
    tl.store(y + i, v)


@bug("overflow")
def row_times_stride():
    far_row[(1,)](sparse((1 << 31) + 65536, np.int8), np.zeros(64, np.int8), 1 << 15, 1 << 16, BLOCK=64)


@triton.jit
def many_programs(x, y, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    i = (tl.program_id(0) + SHIFT) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)  # BUG
    tl.store(y + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), v)


@bug("overflow")
def program_times_block():
    many_programs[(4,)](sparse((1 << 31) + 4096, np.int8), np.zeros(4096, np.int8), BLOCK=1024, SHIFT=(1 << 21) - 1)


@triton.jit
def far_element(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i * n)  # BUG
    tl.store(y + i, v)


@bug("overflow")
def lane_times_stride():
    far_element[(1,)](sparse((1 << 31) + 8192, np.int8), np.zeros(16, np.int8), 1 << 28, BLOCK=16)


@triton.jit
def table_of_rows(x, index, y, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.load(index + i) * stride)  # BUG
    tl.store(y + i, v)


@bug("overflow")
def loaded_index_times_stride():
    rows = np.arange(16, dtype=np.int32) + (1 << 15) - 8
    table_of_rows[(1,)](sparse((1 << 31) + (1 << 20), np.int8), rows, np.zeros(16, np.int8), 1 << 16, BLOCK=16)
