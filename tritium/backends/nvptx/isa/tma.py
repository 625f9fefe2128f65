"""TMA on Hopper and Blackwell: which boxes of tensors it moves to and from shared memory, and their tensor maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ...gpu.layout.swizzle import cuts, row_width, swizzled
from ...gpu.lower.convert import write_piece
from ...gpu.lower.shared_memory import Passage
from ...gpu.ops import bytes_of
from ...gpu.shared_memory.needs import BUFFER_ALIGNMENT, FEW_CUTS, Need, Room, aligned, takes_shared
from ...gpu.tma import ALIGNMENT, Roles, Tma, divisor
from ..runtime.tensor_map import MOST_MAPS, TYPES
from .shared_memory import await_boxes, block_rank, copy_box, copy_run, end_boxes, expect, store_box
from .threads import barrier, proxy_fence
from .warp_roles import element_store

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...gpu.analysis.affine import Access
    from ...llvm.writer import Val
    from .target import NvLowering

ARCHITECTURES = (90, 100, 103)
MOST_ROWS = 256  # of a box
PARAMETER = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'  # a tensor map, which nobody copies
SCRATCH = 32 << 10  # bytes of shared memory left to the consumer warps
_NAMES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", **{f"f8{x}": f"fp8{x}" for x in
          ("e5", "e4nv", "e4b15", "e5b16", "e4b8")}}  # fmt: skip


def support(sm: int, shared_bytes: int) -> Tma | None:
    """The TMA unit of an architecture; None where dots cannot read its buffers."""
    if sm not in ARCHITECTURES:
        return None
    return Tma(misfit, shared_bytes - SCRATCH, warps, describe, combines, MOST_MAPS, divides, PARAMETER, await_boxes)


def warps(number: int, columns: int) -> tuple[Roles, ...]:
    """The ways to share out registers, those that leave room for more blocks first.

    A multiprocessor has four partitions with 16384 registers each, and warps are distributed over them: one extra warp
    would cost the warps of its partition registers. So four are added, which give their registers away. Two blocks with
    four consumer warps fit, except with the widest instruction: its accumulators alone take 128 registers, and the code
    up to the exchange has no more than at launch. One block with four consumer warps has all that a thread can name.

    >>> [roles.registers for roles in warps(4, 128)], warps(16, 128)
    ([(128, 24, 232), (168, 80, 256)], ())
    """
    if number == 8:
        return (Roles(4, 168, 56, 224),)
    if number != 4:
        return ()
    return Roles(4, 128, 24, 232) if columns < 256 else Roles(4, 168, 56, 224), Roles(4, 168, 80, 256)


def signature_name(element: str) -> str:
    """The name of an element type of the IR in signatures.

    >>> signature_name("f16"), signature_name("i8")
    ('fp16', 'i8')
    """
    return _NAMES.get(element, element)


def misfit(tile: T.Tile, axis: int, access: Access) -> str:
    """Why TMA cannot load a 2-D tile with rows along `axis`; "" if it can. The address and all strides must be
    multiples of 16 bytes, and a buffer a whole number of swizzled blocks."""
    size = tile.element.bytes
    aligned = [dim.stride * size for dim in access.dims[:-1]] + [access.offset * size]
    if signature_name(tile.element.name) not in TYPES:
        return f"TMA has no {tile.element}"
    if access.tile[axis] != len(access.dims) - 1:
        return "its tile lies in memory along the other axis than the dots read it"
    if divisor(access.base) < ALIGNMENT or any(poly.divisor(divisor) < ALIGNMENT for poly in aligned):
        return f"its address or a stride is not known to be a multiple of {ALIGNMENT} bytes"
    if row_width(tile.shape, axis, size) < 16 or tile.shape[1 - axis] < 8 or tile.numel * size % 1024:
        return f"a tile of {' x '.join(map(str, tile.shape))} elements of {size} bytes is too small"
    return ""


def describe(tile: T.Tile, axis: int, access: Access, blocks: int = 1) -> tuple[str, tuple[int, ...], int]:
    """(element type, box size in each dimension, bytes of the swizzle) of a tensor map; `blocks` as for `part`."""
    width = row_width(tile.shape, axis, tile.element.bytes)
    rows, _ = part(tile, axis, blocks)
    boxes = [1] * (len(access.dims) - 2) + [min(rows, MOST_ROWS), width // tile.element.bytes]
    return signature_name(tile.element.name), tuple(boxes), width if width >= 32 else 0


def part(tile: T.Tile, axis: int, blocks: int) -> tuple[int, int]:
    """(rows, chunks of a swizzled row) of the part of a tile that each of `blocks` blocks multicasts: whole chunks if
    there are enough, else all chunks of some rows.

    >>> part(T.Tile((64, 256), T.f16), 1, 2), part(T.Tile((64, 256), T.f16), 0, 2)
    ((64, 2), (128, 1))
    """
    rows, size = tile.shape[1 - axis], tile.element.bytes
    chunks = tile.shape[axis] * size // row_width(tile.shape, axis, size)
    return (rows, chunks // blocks) if chunks >= blocks else (rows // blocks, chunks)


def divides(tile: T.Tile, axis: int, blocks: int) -> bool:
    """True if each of `blocks` blocks can multicast a part of a tile: the swizzle repeats every eight rows."""
    return part(tile, axis, blocks)[0] >= 8


def tma_load(g: NvLowering, op: Op, buffer: Sequence[Val], mbarrier: Sequence[Val], tensor: Sequence[Val],
             *coordinates: Sequence[Val]) -> None:
    """One copy per 128 bytes of a row and 256 rows of this block's part, all by the warp's first lane."""
    w, tile, axis, blocks = g.w, op.attrs["tile"], op.attrs["axis"], op.attrs["blocks"]
    size, rows = tile.element.bytes, tile.shape[1 - axis]
    width = row_width(tile.shape, axis, size)
    own, chunks = part(tile, axis, blocks)
    *outer, row, column = [x[0] for x in coordinates]
    with w.when(first_lane(g)):
        expect(g, g.shared.pointer(g, mbarrier[0]), tile.numel * size)
        start = buffer[0], row, column
        if blocks > 1:
            steps = (chunks * rows * width, 0, chunks * width // size) if own == rows else (own * width, own, 0)
            shift = lambda x, step: w.binary("add", x, w.binary("mul", block_rank(g), g.int(step)))
            start = list(map(shift, start, steps))
        for chunk in range(chunks):
            for first in range(0, own, MOST_ROWS):
                further = (chunk * rows + first) * width, first, chunk * width // size
                place, *at = (w.binary("add", x, g.int(step)) for x, step in zip(start, further))
                where = g.shared.pointer(g, place), tensor[0], (*outer, *at)
                copy_box(g, *where, g.shared.pointer(g, mbarrier[0]), blocks)


def row_load(g: NvLowering, op: Op, buffer: Sequence[Val], mbarrier: Sequence[Val], address: Sequence[Val]) -> None:
    """One copy, by the warp's first lane."""
    size, barrier = bytes_of(op.attrs["tile"]), g.shared.pointer(g, mbarrier[0])
    with g.w.when(first_lane(g)):
        expect(g, barrier, size)
        copy_run(g, g.shared.pointer(g, buffer[0]), address[0], size, barrier)


def combines(how: str, element: T.Scalar) -> bool:
    """True if TMA has this atomic operation on elements of this type."""
    return element in _COMBINED.get(how, ())


_INTEGERS = (T.u32, T.i32, T.u64, T.i64)
_COMBINED = {"add": (T.u32, T.i32, T.u64, T.f32, T.f16, T.bf16),
             **dict.fromkeys(("min", "max", "and", "or", "xor"), _INTEGERS)}  # fmt: skip


def _store_need(op: Op, room: Room) -> Need:
    """The tile, or pieces of it: two that are stored in turn if they fit. As many programs as there are registers for
    should find room, if pieces are small enough for that."""
    tile, gap = op.operands[0].type, aligned(room.top, BUFFER_ALIGNMENT) - room.top
    for free in room.spaces():
        bits, buffers = cuts(tile, op.attrs["axis"], free - gap)
        sizes = [bytes_of(tile) >> len(bits)] * buffers
        if sum(sizes) <= free - gap and len(bits) <= FEW_CUTS:
            break
    return Need(sizes, BUFFER_ALIGNMENT, {"cut": tuple(bits)} if bits else {})


@takes_shared(_store_need, leaves="tma")
def tma_store(g: NvLowering, op: Op, value: Sequence[Val], tensor: Sequence[Val], *numbers: Sequence[Val]) -> None:
    """The tile is written to shared memory, swizzled, and stored by one copy per 128 bytes of a row and 256 rows.

    If it does not fit, it is stored in pieces, with double buffering if two pieces fit.
    """
    w, tile, axis, rank = g.w, op.operands[0].type, op.attrs["axis"], op.attrs["rank"]
    images, _ = swizzled(tile.shape, axis, tile.element.bytes)
    bits, passage = op.attrs.get("cut", ()), Passage(g, op)
    part = T.Tile(tuple(n >> len(bits) if k == axis else n for k, n in enumerate(tile.shape)), tile.element)
    buffers = len(passage.bases)
    where, rest = [x[0] for x in numbers[:rank]], [x[0] for x in numbers[rank:]]
    leader = w.compare("icmp eq", g.place("thread"), g.int(0))
    for number in range(1 << len(bits)):
        if number == 0:
            passage.before_write()
        elif number >= buffers:
            with w.when(leader):
                await_boxes(g, buffers - 1, False)
            barrier(g)
        base, chosen = passage.bases[number % buffers], {bit: number >> k & 1 for k, bit in enumerate(bits)}
        write_piece(g, value, tile.element, g.layout(op.operands[0]), images, base, chosen)
        proxy_fence(g, everywhere=op.attrs["fenced"] and number == 0)
        barrier(g)
        first = tuple(number * part.shape[axis] if k == axis else 0 for k in range(2))
        with w.when(w.binary("and", leader, rest[0]) if rest else leader):
            _write_boxes(g, op, part, tensor[0], where, base, first[axis])
            end_boxes(g)
        if rest:
            _write_elements(g, op, part, base, first, *rest)


def _write_boxes(g: NvLowering, op: Op, part: T.Tile, tensor: Val, coordinates: Sequence[Val], base: int,
                 first: int) -> None:
    """Issue the stores of a piece that begins `first` elements behind the tile's start."""
    w, axis, size = g.w, op.attrs["axis"], part.element.bytes
    rows, width = part.shape[1 - axis], row_width(part.shape, axis, size)
    *outer, row, column = coordinates
    for chunk in range(part.shape[axis] * size // width):
        for down in range(0, rows, MOST_ROWS):
            source = g.shared.pointer(g, g.int(base + (chunk * rows + down) * width))
            start = w.binary("add", row, g.int(down)), w.binary("add", column, g.int(first + chunk * width // size))
            store_box(g, tensor, (*outer, *start), source, op.attrs["how"])


def _write_elements(g: NvLowering, op: Op, part: T.Tile, base: int, first: tuple[int, ...], fits: Val, origin: Val,
                    *numbers: Val) -> None:
    """Threads store a piece that TMA cannot, ordered after the earlier TMA stores and before the later ones."""
    w = g.w
    with w.when(w.binary("xor", fits, w.const("i1", True)), likely=False):
        with w.when(w.compare("icmp eq", g.place("thread"), g.int(0))):
            await_boxes(g, 0, True)
        barrier(g)
        element_store(g, op, base, part, first, origin, numbers)
        proxy_fence(g, everywhere=True)


def first_lane(g: NvLowering) -> Val:
    """i1: this is lane 0 of its warp."""
    return g.once("first lane", lambda: g.w.compare("icmp eq", g.place("lane"), g.int(0)))
