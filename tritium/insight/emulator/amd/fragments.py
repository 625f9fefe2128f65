"""Who holds which element in AMD's matrix products: MFMA on CDNA, WMMA on RDNA.

Written from AMD's instruction set guides and its matrix instruction calculator, not from the compiler's layouts, so
that each checks the other. A map gives coordinates for each lane and register element: arrays [lane, element].
"""

from __future__ import annotations

import functools

import numpy as np

from tritium.named_tuples import NamedTuple

__all__ = ["Fragment", "mfma_accumulator", "mfma_operand", "mfma_scale", "wmma_accumulator", "wmma_operand"]


class Fragment(NamedTuple):
    """For each lane and element: the row (the column, for a right operand), the place along K or the column, and the
    number of the block, of instructions that multiply several matrices at once."""

    outer: np.ndarray
    inner: np.ndarray
    block: np.ndarray


def _fragment(lanes, elements, fn) -> Fragment:
    lane, k = np.arange(lanes)[:, None], np.arange(elements)[None, :]
    return Fragment(*(np.broadcast_to(x, (lanes, elements)) for x in fn(lane, k)))


@functools.cache
def mfma_operand(rows: int, depth: int, blocks: int = 1, halves: bool = False) -> Fragment:
    """Where A (rows x depth) is; B lies the same way, with columns for rows.

    Lanes go along the rows first, then along blocks, then along K; a lane has neighbours along K. With `halves`, those
    of 8-bit operands of the f8f6f4 instructions, a lane has 16 neighbours of each half of K.

    >>> a = mfma_operand(16, 16)  # v_mfma_f32_16x16x16_f16
    >>> a.outer[17, 2], a.inner[17, 2]
    (np.int64(1), np.int64(6))
    """
    count = rows * depth * blocks // 64

    def place(lane, e):
        group = lane // (rows * blocks)
        along = depth // 2 * (e // 16) + 16 * group + e % 16 if halves else count * group + e
        return lane % rows, along, lane // rows % blocks

    return _fragment(64, count, place)


@functools.cache
def mfma_accumulator(rows: int, blocks: int = 1, wide: bool = False) -> Fragment:
    """Where C and D (rows x rows) are: outer is the row, inner the column. `wide` elements have 64 bits.

    >>> d = mfma_accumulator(32)  # v_mfma_f32_32x32x8_f16
    >>> d.outer[33, 5], d.inner[33, 5]
    (np.int64(13), np.int64(1))
    """

    def place(lane, e):
        if wide:  # groups of lanes have neighbouring rows
            return lane // (rows * blocks) + 64 // (rows * blocks) * e, lane % rows, lane // rows % blocks
        if rows == 4:
            return e, lane % 4, lane // 4
        groups = 64 // rows
        return 4 * groups * (e // 4 % (rows // (4 * groups))) + 4 * (lane // rows) + e % 4, lane % rows, \
            e // (rows * rows // 64)

    return _fragment(64, rows * rows * blocks // 64, place)


@functools.cache
def mfma_scale(rows: int) -> np.ndarray:
    """[row, block of 32 along K]: the lane that has its scale, in f8f6f4 instructions."""
    return np.arange(rows)[:, None] + rows * np.arange(64 // rows)[None, :]


@functools.cache
def wmma_operand(depth: int, generation: int) -> Fragment:
    """Where A (16 x depth) is, for 32 lanes. RDNA3 (11) wants each row twice, whole, in lanes 16 apart; of RDNA4 (12)
    the second 16 lanes have the second half of K.

    >>> wmma_operand(16, 11).inner[20, 3], wmma_operand(16, 12).inner[20, 3]
    (np.int64(3), np.int64(11))
    """
    count = depth if generation == 11 else depth // 2
    part = 0 if generation == 11 else count
    return _fragment(32, count, lambda lane, e: (lane % 16, e + part * (lane // 16), 0))


@functools.cache
def wmma_accumulator(generation: int) -> Fragment:
    """Where C and D are: on RDNA3 (11) the second 16 lanes have the odd rows, on RDNA4 (12) the last eight.

    >>> wmma_accumulator(11).outer[20, 3], wmma_accumulator(12).outer[20, 3]
    (np.int64(7), np.int64(11))
    """
    row = (lambda lane, e: 2 * e + lane // 16) if generation == 11 else (lambda lane, e: e + 8 * (lane // 16))
    return _fragment(32, 8, lambda lane, e: (row(lane, e), lane % 16, 0))
