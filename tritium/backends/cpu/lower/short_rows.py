"""Loads and stores of chunks that are several short rows: each row by an access of its own.

A chunk of 32 lanes is two rows of a tile of 64x16 elements. Each is one vector in memory, or one element that all its
lanes read, wherever rows begin: a gather would load lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ....named_tuples import NamedTuple
from ...llvm.writer import Val, lanes, vector
from . import intrinsics

if TYPE_CHECKING:
    from ..fuse.index import Lanes
    from .function import Lowering

__all__ = ["Rows", "load", "load_some", "rows_of", "store", "store_some"]


class Rows(NamedTuple):
    """The rows of a chunk: how many lanes each has, and whether these lie side by side or at one place."""

    size: int
    uniform: bool

    def firsts(self, n: int) -> range:
        """The first lane of each row.

        >>> list(Rows(4, False).firsts(16))
        [0, 4, 8, 12]
        """
        return range(0, n, self.size)


def rows_of(fixed: Lanes | None, others: Iterable[Lanes], n: int) -> Rows | None:
    """The longest rows of a chunk with constant offsets `fixed`, and others where lanes differ in one of `others`.

    >>> from ..fuse.index import lanes_of
    >>> rows_of(lanes_of((0, 1, 0, 1)), [lanes_of((0, 0, 1, 1))], 4)
    Rows(size=2, uniform=False)
    >>> rows_of(lanes_of((0, 0, 4, 4)), [], 4), rows_of(lanes_of((0, 2, 4, 6)), [], 4)
    (Rows(size=2, uniform=True), None)
    """
    offsets, others, size = fixed.offsets if fixed else (0,) * n, list(others), n
    while size % 2 == 0:
        size //= 2
        if size < 2 or any(len(set(other.offsets[k:k + size])) > 1 for other in others for k in range(0, n, size)):
            continue
        for step in (1, 0):
            if all(offsets[k + i] == offsets[k] + step * i for k in range(0, n, size) for i in range(size)):
                return Rows(size, uniform=not step)
    return None


def load(lo: Lowering, rows: Rows, pointers: Sequence[Val], t: str, align: int) -> Val:
    """All lanes; `pointers` are the rows'."""
    type = t if rows.uniform else vector(rows.size, t)
    parts = [lo.w.effect(f"load {type}, ptr {p}, align {align}", type) for p in pointers]
    return _joined(lo, [lo.widen(part, rows.size) for part in parts])


def store(lo: Lowering, x: Val, rows: Rows, pointers: Sequence[Val], align: int) -> None:
    """Store all lanes."""
    for part, pointer in zip(_parts(lo, x, rows), pointers, strict=True):
        lo.w.store(part, pointer, align)


def load_some(lo: Lowering, rows: Rows, pointers: Sequence[Val], mask: Val, other: Val, align: int) -> Val:
    """The active lanes; the others are `other`."""
    each = zip(pointers, _parts(lo, mask, rows), _parts(lo, other, rows), strict=True)
    return _joined(lo, [intrinsics.masked(lo, "load", f"ptr align {align} {p}", "p0", m, x) for p, m, x in each])


def store_some(lo: Lowering, x: Val, rows: Rows, pointers: Sequence[Val], mask: Val, align: int) -> None:
    """Store the active lanes."""
    for p, m, part in zip(pointers, _parts(lo, mask, rows), _parts(lo, x, rows), strict=True):
        intrinsics.masked(lo, "store", f"ptr align {align} {p}", "p0", m, part)


def _parts(lo: Lowering, x: Val, rows: Rows) -> list[Val]:
    """The lanes of each row."""
    return [lo.w.shuffle(x, None, range(k, k + rows.size)) for k in rows.firsts(lanes(x.type))]


def _joined(lo: Lowering, parts: Sequence[Val]) -> Val:
    """All lanes of vectors of one type, in order; there are 2, 4, 8 ... of them."""
    while len(parts) > 1:
        parts = [lo.w.shuffle(x, y, range(2 * lanes(x.type))) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
