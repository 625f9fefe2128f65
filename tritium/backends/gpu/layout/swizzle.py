"""The one shared-memory layout of matrix operands: rows of up to 128 bytes, XOR-swizzled. Tensor cores, ldmatrix and
the TMA units all read and write it without bank conflicts."""

from __future__ import annotations

from ....ir import types as T
from .linear import Layout, log2, pad, solve


def row_width(shape: tuple[int, ...], axis: int, size: int) -> int:
    """Bytes of a row along `axis`: 128, or all there is."""
    return min(128, shape[axis] * size)


def swizzled(shape: tuple[int, ...], axis: int, size: int) -> tuple[tuple[int, ...], int]:
    """Address images of a 2-D tile kept in rows of up to 128 bytes along `axis`, XOR-swizzled; and the row width.

    Bits along `axis` fill a row, then the other axis walks the rows, then further chunks of the axis follow. A 1-D tile
    lies in one piece.
    """
    if len(shape) == 1:
        return tuple(size << k for k in range(log2(shape[0]))), row_width(shape, 0, size)
    rows, cols = shape
    inner, outer = (cols, rows) if axis == 1 else (rows, cols)
    width = row_width((rows, cols), axis, size)
    per_row = width // size
    images = [0] * log2(rows * cols)
    inner_low, outer_low = (0, log2(cols)) if axis == 1 else (log2(cols), 0)
    for k in range(log2(inner)):
        at = size << k if (1 << k) < per_row else outer * width << (k - log2(per_row))
        images[inner_low + k] = at
    for k in range(log2(outer)):
        images[outer_low + k] = width << k
    mask = {128: 7, 64: 3, 32: 1}[width] if width >= 32 else 0
    return tuple(x ^ ((x >> 7 & mask) << 4) for x in images), width


def lane_ordered(shape: tuple[int, ...], axis: int, size: int, per_thread: int, warps: int, lanes: int) -> Layout:
    """The layout in which neighbouring lanes hold neighbouring runs of `per_thread` elements of such a tile's buffer:
    addresses, not elements, go up with the registers of a run, then lanes, warps and further registers.

    >>> lane_ordered((16, 64), 1, 2, 8, 1, 64)
    Layout((16, 64), reg=(1, 2, 4, 512), lane=(8, 16, 32, 72, 144, 288), warp=())
    """
    images, _ = swizzled(shape, axis, size)
    places = [solve(images, size << k) or 0 for k in range(len(images))]
    run, inside = log2(per_thread), log2(per_thread * lanes)
    lane, warp = places[run:inside], places[inside : inside + log2(warps)]
    reg = *places[:run], *places[inside + log2(warps) :]
    return Layout(tuple(shape), reg, pad(lane, log2(lanes)), pad(warp, log2(warps)))


def cuts(tile: T.Tile, axis: int, room: int) -> tuple[list[int], int]:
    """How such a tile goes through `room` bytes: (bits of an element's number by which it is cut, buffers in turn).

    It is cut between rows' chunks of 128 bytes, into no more parts than needed for two of them to fit.

    >>> from tritium.ir import types as T
    >>> cuts(T.Tile((128, 256), T.f16), 1, 1 << 16), cuts(T.Tile((128, 256), T.f16), 1, 1 << 15)
    (([], 1), ([64, 128], 2))
    """
    whole = tile.numel * tile.element.bytes
    chunks = tile.shape[axis] * tile.element.bytes // 128
    if whole <= room or chunks <= 1:
        return [], 1
    top = log2(tile.shape[axis]) + (0 if axis == 1 else log2(tile.shape[1]))
    count = next((n for n in range(1, log2(chunks)) if 2 * (whole >> n) <= room), log2(chunks))
    return [1 << k for k in range(top - count, top)], 2 if 2 * (whole >> count) <= room else 1
