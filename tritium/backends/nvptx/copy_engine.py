"""Hopper's copy engine: which boxes of tensors it brings into shared memory, and how the host describes the tensors."""

from __future__ import annotations

from ..gpu.specialize_warps import Engine
from ..gpu.swizzle import row_width
from .tensor_map import TYPES

MOST_ROWS = 256  # of a box
SCRATCH = 32 << 10  # bytes of shared memory that are left to the computing warps
_NAMES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", **{f"f8{x}": f"fp8{x}" for x in
          ("e5", "e4nv", "e4b15", "e5b16", "e4b8")}}  # fmt: skip


def engine(target):
    """The engine as `specialize_warps` sees it; None on architectures whose dots cannot read what it brings."""
    return Engine(fits, target.shared_bytes - SCRATCH, warps, describe) if target.sm == 90 else None


def warps(number):
    """(warps behind so many, registers of a thread at first, of theirs later, of the others' later).

    A multiprocessor has four parts with 16384 registers each, and warps take turns on them: one warp more leaves less
    to all on its part. So four come, and give their registers away. Of blocks with four working warps there is room
    for two.
    """
    return {4: (4, (128, 24, 232)), 8: (4, (168, 56, 224))}[number]


def signature_name(element):
    """What signatures call an element type of the IR.

    >>> signature_name("f16"), signature_name("i8")
    ('fp16', 'i8')
    """
    return _NAMES.get(element, element)


def fits(tile, axis, access):
    """True if the engine can bring a 2-D tile with rows along `axis`: the address and all strides are multiples of 16
    bytes, and a buffer is a whole number of swizzled blocks."""
    size = tile.element.bytes
    known = lambda x: x.attrs.get("divisible", 1)
    aligned = [side.stride * size for side in access.sides[:-1]] + [access.offset * size]
    numbers = [side.size for side in access.sides if side.size is not None] + aligned
    return (
        signature_name(tile.element.name) in TYPES
        and access.tile[axis] == len(access.sides) - 1
        and known(access.base) >= 16
        and all(poly.divisor(known) >= 16 for poly in aligned)
        and all(len(product) <= 2 for poly in numbers for product in poly.terms)
        and row_width(tile.shape, axis, size) >= 16
        and tile.shape[1 - axis] >= 8
        and tile.numel * size % 1024 == 0
    )


def describe(tile, axis, access):
    """(type of the elements, how many a box has on each axis, bytes over which it is swizzled)."""
    width = row_width(tile.shape, axis, tile.element.bytes)
    boxes = [1] * (len(access.sides) - 2) + [min(tile.shape[1 - axis], MOST_ROWS), width // tile.element.bytes]
    return signature_name(tile.element.name), tuple(boxes), width if width >= 32 else 0


def box_load(g, op, buffer, barrier, tensor, *coordinates):
    """One copy for each 128 bytes of a row and 256 rows, all by the warp's first lane."""
    w, tile, axis = g.w, op.attrs["tile"], op.attrs["axis"]
    size, rows = tile.element.bytes, tile.shape[1 - axis]
    width = row_width(tile.shape, axis, size)
    *outer, row, column = [x[0] for x in coordinates]
    with w.when(first_lane(g)):
        g.target.expect(g, g.shared.pointer(g, barrier[0]), tile.numel * size)
        for chunk in range(tile.shape[axis] * size // width):
            for first in range(0, rows, MOST_ROWS):
                place = w.binary("add", buffer[0], g.int((chunk * rows + first) * width))
                start = w.binary("add", row, g.int(first)), w.binary("add", column, g.int(chunk * width // size))
                where = g.shared.pointer(g, place), tensor[0], (*outer, *start)
                g.target.copy_box(g, *where, g.shared.pointer(g, barrier[0]))


def first_lane(g):
    """i1: this is lane 0 of its warp."""
    return g.once("first lane", lambda: g.w.compare("icmp eq", g.place("lane"), g.int(0)))
