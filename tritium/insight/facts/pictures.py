"""A tensor in the order of memory: the cells of its picture, and counters of its elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritium.insight.facts.replicas import Replica

COUNTED = 1 << 23  # elements of a tensor whose touches are counted one by one
SECTOR = 32  # bytes that memory moves at once
CELLS = (48, 96)  # rows and columns of a picture

Runs = tuple[tuple[int, int], ...]


class Picture:
    """The cells of a tensor's picture, and counters of its elements."""

    def __init__(self, replica: Replica):
        self.replica, self.extent, self.start = replica, replica.extent, replica.data_ptr()
        self.pitch = pitch_of(replica)
        rows = -(-self.extent // self.pitch) if self.extent else 1
        self.cell = -(-rows // CELLS[0]), -(-self.pitch // CELLS[1])
        self.cells = -(-rows // self.cell[0]), -(-self.pitch // self.cell[1])
        counted = self.extent <= COUNTED
        # None where the tensor is too large
        self.loads: Any = np.zeros(self.extent, np.uint32) if counted else None
        self.owner: Any = np.zeros(self.extent, np.int32) if counted else None  # 1 + the last program that stored it
        self.shared: Any = np.zeros(self.extent, bool) if counted else None

    def elements(self, addresses: np.ndarray) -> np.ndarray:
        """The positions in memory of elements at these addresses."""
        return (addresses.astype(np.int64) - self.start) // self.replica.itemsize

    def cells_of(self, elements: np.ndarray) -> np.ndarray:
        """The cells of elements, each once."""
        first, last = (int(elements[0]), int(elements[-1])) if len(elements) else (0, -1)
        in_a_row = last - first == len(elements) - 1 and first // self.pitch == last // self.pitch
        if in_a_row and (np.diff(elements) == 1).all():
            row = first // self.pitch // self.cell[0] * self.cells[1]
            return np.arange(row + first % self.pitch // self.cell[1], row + last % self.pitch // self.cell[1] + 1)
        row, column = elements // self.pitch // self.cell[0], elements % self.pitch // self.cell[1]
        touched = np.zeros(self.cells[0] * self.cells[1], bool)
        touched[row * self.cells[1] + column] = True
        return np.flatnonzero(touched)

    def count(self, kind: str, elements: np.ndarray, program: int) -> None:
        """Note an access of a program."""
        if self.loads is None:
            return
        if kind != "store":
            self.loads[elements] += 1  # what several lanes of one access load comes once
        if kind == "store":
            before = self.owner[elements]
            self.shared[elements[(before != 0) & (before != program + 1)]] = True
        if kind != "load":
            self.owner[elements] = program + 1

    def sectors(self, touched: np.ndarray) -> int:
        """The sectors of its storage that touched elements lie in."""
        at = (self.replica.offset + np.flatnonzero(touched) * self.replica.itemsize) // SECTOR
        return int(np.count_nonzero(np.diff(at, prepend=-1)))


def pitch_of(replica: Replica) -> int:
    """Elements of a row of the picture: of the axis that is contiguous in memory; a long row is folded."""
    strides = sorted({s for n, s in zip(replica.shape, replica.strides) if n > 1 and s > 0})
    if len(strides) > 1 and strides[1] > 1:
        return max(1, strides[1])
    return max(1, min(replica.extent, 1 << max(4, math.ceil(math.log2(max(1, replica.extent)) / 2) + 1)))


def runs_of(cells: np.ndarray) -> Runs:
    """Sorted numbers as runs (first, last).

    >>> runs_of(np.array([1, 2, 3, 7]))
    ((1, 3), (7, 7))
    """
    if not len(cells):
        return ()
    breaks = np.flatnonzero(np.diff(cells) > 1)
    firsts, lasts = np.r_[cells[0], cells[breaks + 1]], np.r_[cells[breaks], cells[-1]]
    return tuple((int(a), int(b)) for a, b in zip(firsts, lasts))
