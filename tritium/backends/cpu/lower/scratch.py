"""Scratch memory: row-major buffers in the worker's arena, at offsets that buffers with disjoint lifetimes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ....ir import types as T
from ...llvm.writer import Val
from ..fuse.index import power_of_two

ALIGN = 64
# A full chunk may be loaded where only some of its lanes are used.
SLACK = 256


# Rows a power of two apart fall into the same few sets of a cache: from this row size (bytes) on they are padded.
CONFLICT = 512


# A free block more than this many times as large is left for a larger buffer: buffers that reuse one offset stay in the
# cache.
MUCH = 16


@final
class Buffer:
    """A tile's memory in the arena; `users` counts the live values in it, `flat` is whether rows have no padding.

    `late`, if not None, emits the code that fills the buffer, on its first use.
    """

    __slots__ = ("element", "flat", "late", "offset", "shape", "size", "strides", "users")

    def __init__(self, shape: tuple[int, ...], element: Any):
        self.shape, self.element = tuple(shape), element
        strides, total = [], 1
        for n in reversed(self.shape):
            strides.insert(0, total)
            total *= n
            row = total * element.bytes
            if len(strides) == 1 < len(self.shape) and row >= CONFLICT and all(map(power_of_two, self.shape)):
                total += ALIGN // element.bytes
        self.strides = tuple(strides)
        self.flat = len(strides) < 2 or strides[-2] == self.shape[-1]
        self.size = -(-(total * element.bytes + SLACK) // ALIGN) * ALIGN
        self.offset = self.users = 0
        self.late: Callable[[], None] | None = None

    def fits(self, t: T.Tile) -> bool:
        """Whether it can hold a value of type `t`."""
        return self.shape == T.shape(t) and self.element is T.element(t)


@final
class View:
    """A strided view of a tile in global memory, at `start` with run-time `strides`, or of its `copy` in the arena.

    `by_columns`, if not None: whether (i1) columns are contiguous, and the first stride is that from one to the next.
    """

    flat = False

    def __init__(self, t: T.Tile, start: Val, outer: Any, copy: Any = None, by_columns: Val | None = None):
        self.shape, self.element, self.start, self.copy = T.shape(t), T.element(t), start, copy
        self.by_columns = by_columns
        self.strides = (*outer, 1)
        self.offset = copy.offset if copy is not None else None
        self.users = 1

    def fits(self, t: T.Tile) -> bool:
        """Never: a view is read-only."""
        return False


class Arena:
    """A first-fit allocator of offsets; `bytes` is the peak use.

    >>> arena = Arena()
    >>> x, y = arena.take((16,), T.f32), arena.take((16,), T.f32)
    >>> arena.release(x)
    >>> x.offset, y.offset, arena.take((8,), T.f64).offset, arena.bytes
    (0, 320, 0, 640)
    """

    def __init__(self):
        self.bytes = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), sorted, never touching
        self._end = 0

    def take(self, shape: tuple[int, ...], element: Any) -> Buffer:
        """A new buffer with one user."""
        buffer = Buffer(shape, element)
        buffer.users = 1
        for k, (offset, size) in enumerate(self._free):
            if buffer.size <= size <= MUCH * buffer.size:
                rest = (offset + buffer.size, size - buffer.size)
                self._free[k : k + 1] = [rest] if rest[1] else []
                buffer.offset = offset
                return buffer
        buffer.offset = self._end
        if self._free and sum(self._free[-1]) == self._end:  # grow into what is free at the end
            buffer.offset = self._free.pop()[0]
        self._end = buffer.offset + buffer.size
        self.bytes = max(self.bytes, self._end)
        return buffer

    def release(self, buffer: Buffer | View) -> None:
        """Drop one user; the last one frees the buffer."""
        buffer.users -= 1
        if buffer.users:
            return
        if isinstance(buffer, View):
            if buffer.copy is not None:
                self.release(buffer.copy)
            return
        free = sorted([*self._free, (buffer.offset, buffer.size)])
        merged = free[:1]
        for offset, size in free[1:]:
            start, length = merged[-1]
            if start + length == offset:
                merged[-1] = (start, length + size)
            else:
                merged.append((offset, size))
        self._free = merged
