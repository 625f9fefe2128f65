"""The coordinates of a vector chunk in a tile: one index for each axis, a scalar plus constant offsets of the lanes.

An index is `(base, lanes)`: `base` is an int or a uniform i64 value, `lanes` the offsets of the lanes, or None if all
are 0. A chunk along the last axis is `(i, iota(16))` there and `(row, None)` elsewhere; shape ops only rearrange
indices and generate no code.

    >>> iota(4).offsets, lanes_of((0, 0, 0)) is None
    ((0, 1, 2, 3), True)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from .... import ops
from ....analysis.views import axes_behind
from ....ir import types as T
from ....named_tuples import NamedTuple

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from ..lower.function import Lowering

Coordinate: TypeAlias = "tuple[int | Val, Lanes | None]"  # along one axis
Index: TypeAlias = "tuple[Coordinate, ...]"  # one for each axis
ZERO: Coordinate = (0, None)  # the only index of an axis of size 1


class Lanes:
    """The offsets of the lanes of an index: interned, so equality is `is`."""

    __slots__ = ("offsets",)

    def __init__(self, offsets: tuple[int, ...]):
        self.offsets = offsets

    def __repr__(self):
        return f"Lanes{self.offsets}"


_LANES: dict[tuple[int, ...], Lanes] = {}


def lanes_of(offsets: Iterable[int]) -> Lanes | None:
    """The pattern with these offsets; None when all are 0."""
    offsets = tuple(offsets)
    if not any(offsets):
        return None
    return _LANES.get(offsets) or _LANES.setdefault(offsets, Lanes(offsets))  # the first of several threads decides


def iota(n: int) -> Lanes | None:
    """0, 1 ... n-1.

    >>> iota(2), iota(1)
    (Lanes(0, 1), None)
    """
    return lanes_of(range(n))


def plus(x: Sequence[int] | None, y: Iterable[int]) -> list[int]:
    """The sums of lanes' offsets; None stands for no offsets yet.

    >>> plus(None, (0, 1)), plus([0, 4], (0, 1))
    ([0, 1], [0, 5])
    """
    return list(y) if x is None else [a + b for a, b in zip(x, y, strict=True)]


def width_of(idx: Sequence[Coordinate]) -> int:
    """The number of lanes of an index (1 if it is uniform).

    >>> width_of(((0, None), (16, iota(16)))), width_of(())
    (16, 1)
    """
    for _, lanes in idx:
        if lanes is not None:
            return len(lanes.offsets)
    return 1


def power_of_two(n: int) -> bool:
    """Whether n is 1, 2, 4 ..."""
    return n & (n - 1) == 0


class Chunks(NamedTuple):
    """A traversal of a tile: loops over the `outer` axes, then chunks of `width` lanes over the collapsed `inner` axes.

    `total` is the number of elements in the inner axes, `sizes` those of the loops.
    """

    shape: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    width: int
    total: int
    sizes: tuple[int, ...] = ()

    def index(self, lo: Lowering, at: Sequence[int | Val], base: int | Val) -> Index:
        """The index of the chunk at element `base` of the inner axes, `at` being the indices of the outer axes."""
        idx: list[tuple] = [ZERO] * len(self.shape)
        for axis, i in zip(self.outer, at, strict=True):
            idx[axis] = (i, None)
        if len(self.inner) == 1:
            idx[self.inner[0]] = (base, iota(self.width))
        else:
            sizes = [self.shape[axis] for axis in self.inner]
            for axis, i in zip(self.inner, unravel(lo, (base, iota(self.width)), sizes), strict=True):
                idx[axis] = i
        return tuple(idx)

    @contextmanager
    def rows(self, lo: Lowering) -> Iterator[list[Any]]:
        """Loops over the outer axes; gives their indices."""
        with lo.loops(self.sizes) as at:
            for i, size, axis in zip(at, self.sizes, self.outer, strict=True):
                if size != self.shape[axis]:  # several axes: strength reduction takes longer than it gains
                    lo.w.hide(i)
            yield at

    @contextmanager
    def each(self, lo: Lowering) -> Iterator[Index]:
        """Loops over all chunks; gives the index of one."""
        with self.rows(lo) as at, lo.counted(self.total, self.width) as base:
            yield self.index(lo, at, base)


def chunks(shape: tuple[int, ...], width: int, order: tuple[int, ...] | None = None) -> Chunks:
    """Traverse `shape` with the axes nested in `order` (the last innermost), in chunks of at most `width` lanes.

    Axes shorter than a chunk are collapsed with the next outer ones.

    >>> chunks((64, 128), 16)[1:]
    ((0,), (1,), 16, 128, (64,))
    >>> chunks((64, 4), 16)[1:]
    ((), (0, 1), 16, 256, ())
    >>> chunks((3, 6), 16)[1:]
    ((0,), (1,), 2, 6, (3,))
    """
    order = tuple(range(len(shape))) if order is None else order
    axes = [axis for axis in order if shape[axis] > 1]
    if not axes:
        return Chunks(shape, (), order[-1:], 1, 1)
    inner = [axes.pop()]
    total = shape[inner[0]]
    while axes and total < width and power_of_two(total) and power_of_two(shape[axes[-1]]):
        inner.insert(0, axes.pop())
        total *= shape[inner[0]]
    fits = width
    while total % fits:
        fits //= 2
    return Chunks(shape, tuple(axes), tuple(inner), fits, total, tuple([shape[axis] for axis in axes]))


def source_index(lo: Lowering, op: Op, idx: Sequence[Coordinate]) -> Index:
    """The index in a shape op's operand of the element at index `idx` of its result."""
    return _reshape(lo, op, idx) if op.kind is ops.reshape else axes_behind(op, idx, ZERO)


def _reshape(lo: Lowering, op: Op, idx: Sequence[Coordinate]) -> Index:
    """Axes that a reshape keeps keep their index; the others are linearized and delinearized in row-major order.

    Bases are multiples of what the lanes span and sizes are powers of two, so no carry passes between base and lanes.
    """
    source, target = T.shape(op.operands[0].type), T.shape(op.type)
    out = []
    for before, after in groups(source, target):
        if len(before) == len(after) == 1:
            out.append(idx[after[0]])
        else:
            flat = ravel(lo, [idx[k] for k in after], [target[k] for k in after])
            out += unravel(lo, flat, [source[k] for k in before])
    return tuple(out)


@functools.cache
def groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of runs of axes with equally many elements, as short as possible."""
    found, i, j = [], 0, 0
    while i < len(source) or j < len(target):
        a, b = [], []
        x = y = 1
        while True:
            if (x <= y and i < len(source)) or j >= len(target):
                x *= source[i]
                a.append(i)
                i += 1
            else:
                y *= target[j]
                b.append(j)
                j += 1
            if x == y and (a and b or i >= len(source) and j >= len(target)):
                break
        found.append((tuple(a), tuple(b)))
    return found


def ravel(lo: Lowering, idx: Sequence[Coordinate], sizes: Sequence[int]) -> Coordinate:
    """The row-major position of an index."""
    base, offsets, stride = 0, None, 1
    for (b, lanes), size in zip(reversed(idx), reversed(sizes), strict=True):
        base = lo.add(lo.mul(b, stride), base)
        if lanes is not None:
            offsets = plus(offsets, [stride * o for o in lanes.offsets])
        stride *= size
    return base, None if offsets is None else lanes_of(offsets)


def unravel(lo: Lowering, flat: Coordinate, sizes: Sequence[int]) -> list[Coordinate]:
    """The index at a row-major position."""
    base, lanes = flat
    out, stride, total = [], 1, math.prod(sizes)
    for size in reversed(sizes):
        last = stride * size == total
        b = lo.divide(base, stride)
        b = b if last else lo.modulo(b, size)
        offsets = None
        if lanes is not None:
            offsets = lanes_of([o // stride % size for o in lanes.offsets])
        out.insert(0, (b, offsets) if size > 1 else ZERO)
        stride *= size
    return out
