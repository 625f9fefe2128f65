"""Shared memory: how tiles pass through it, and addresses that are linear in the element's bits.

A shared layout maps each bit of an element's index to the byte-address bits it flips, so swizzles are layouts too and a
conversion between register layouts is two linear maps. Which map is free of bank conflicts is found by counting.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ....ir import types as T
from ....named_tuples import NamedTuple
from ...llvm.writer import Val, vector
from ..layout.linear import Layout, image, log2, span_of
from ..shared_memory.needs import addresses
from .words import llvm_type, unpack

if TYPE_CHECKING:
    from ....ir.core import Op
    from .function import Lowering

BANK_ROW = 128  # bytes that all banks serve in one pass


class Passage:
    """The passage of tiles through the shared memory of one op. Before the first write comes what `insert_barriers` has
    decided (`sync`, see there), or a barrier at least if `always`; before later ones all threads meet, who may still be
    reading what the op wrote before."""

    def __init__(self, g: Lowering, op: Op, always: bool = False):
        self.g, self.op, self.bases = g, op, addresses(op)
        self.sync = self.first = op.attrs.get("sync") or ("barrier" if always else None)

    def before_write(self) -> None:
        """Nobody may still be reading what is about to be overwritten."""
        if self.sync in ("tma_read", "tma_written"):
            wait_for_tma(self.g, self.sync == "tma_written")
        if self.sync:
            self.g.target.barrier(self.g)
        self.sync = None

    def after_write(self) -> None:
        """Everyone sees what was written."""
        self.g.target.barrier(self.g)
        self.sync = "barrier"

    @contextmanager
    def writing(self) -> Iterator[list[int]]:
        """The numbers of the buffers to write, which no earlier op has filled; with barriers around, if there are
        any."""
        fresh = [k for k in range(len(self.bases)) if k not in self.op.attrs.get("filled", ())]
        if fresh:
            self.before_write()
        yield fresh
        if fresh:
            self.after_write()

    def may_begin_here(self) -> None:
        """The first write may have been skipped, or come again."""
        self.sync = self.first


def wait_for_tma(g: Lowering, written: bool) -> None:
    """The thread that talks to TMA waits until it has read shared memory, or `written` global memory too."""
    with g.w.when(g.w.compare("icmp eq", g.place("thread"), g.int(0))):
        assert g.target.tma is not None
        g.target.tma.wait(g, 0, written)


class SharedMemory:
    """Accesses to shared memory."""

    def pointer(self, g: Lowering, offset: Val, constant: int = 0) -> Val:
        """Address of a byte offset (an i32 value, and a number) in shared memory, for an access that follows at once.

        The number stays beside the access, which takes it as part of its address.
        """
        type_ = "ptr addrspace(3)"
        start = g.w.emit(type_, f"getelementptr i8, ptr addrspace(3) @smem, i32 {offset}", offset)
        return g.w.effect(f"getelementptr i8, {start.typed}, i32 {constant}", type_) if constant else start

    def behind(self, g: Lowering, base: Val | int, offset: Val, constant: int) -> tuple[Val, int]:
        """(offset, number) of an address in the buffer at byte `base`, a number or an i32 value."""
        if isinstance(base, int):
            return offset, constant + base
        return g.w.binary("add", offset, base), constant

    def store(self, g: Lowering, base: int, index: Val, x: Val, t: T.Scalar | T.Ptr) -> None:
        """Write one element at an index (i32) of the buffer at byte `base`."""
        self.put(g, self.pointer(g, self._offset(g, base, index, t)), x, t)

    def load(self, g: Lowering, base: int, index: Val, t: T.Scalar | T.Ptr) -> Val:
        """Read one element at an index (i32) of the buffer at byte `base`."""
        return self.get(g, self.pointer(g, self._offset(g, base, index, t)), t)

    def load_several(self, g: Lowering, base: int, index: Val, t: T.Scalar | T.Ptr, count: int) -> list[Val]:
        """Read `count` neighbours from an index (i32) that is a multiple of it, 16 bytes at a time."""
        size, kind = t.bytes, llvm_type(t)
        stored, together = "i8" if kind == "i1" else kind, min(count, 16 // size)
        offset, out = self._offset(g, base, index, t), []
        for k in range(0, count, together):
            pointer, type_ = self.pointer(g, offset, k * size), vector(together, stored)
            out += unpack(g.w, g.w.effect(f"load {type_}, {pointer.typed}, align {together * size}", type_))
        return [g.w.cast("trunc", x, "i1") for x in out] if kind == "i1" else out

    def put(self, g: Lowering, pointer: Val, x: Val, t: T.Scalar | T.Ptr) -> None:
        """Write one element."""
        x = g.w.cast("zext", x, "i8") if x.type == "i1" else x
        g.w.effect(f"store {x.typed}, {pointer.typed}")

    def get(self, g: Lowering, pointer: Val, t: T.Scalar | T.Ptr) -> Val:
        """Read one element."""
        kind = llvm_type(t)
        if kind == "i1":
            return g.w.cast("trunc", g.w.effect(f"load i8, {pointer.typed}", "i8"), "i1")
        return g.w.effect(f"load {kind}, {pointer.typed}", kind)

    @staticmethod
    def _offset(g: Lowering, base: int, index: Val, t: T.Scalar | T.Ptr) -> Val:
        return g.w.binary("add", g.w.binary("shl", index, g.int(log2(t.bytes))), g.int(base))


# --- choosing an address map ------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=4096)
def plan(source: Layout, target: Layout, size: int, stores_matrices: bool = False,
         loads_matrices: bool = False) -> tuple[int, ...]:
    """Byte-address images of the element bits for passing a tile of `size`-byte elements between two layouts.

    Among row-major order, the reader's and the writer's own order, each with XOR swizzles, the one with the fewest
    bank passes wins, and among those the one with the widest accesses. Whole matrices move at once if the target has
    instructions for that; then the order in which the writer's warps hold them counts, too.
    """
    bits = log2(source.numel)
    best: Any = None
    both = source, target  # without conflicts, in accesses of 16 bytes
    ideal = (sum((x.registers * size << len(x.lane)) // BANK_ROW for x in both),
             -sum(min(16 // size, x.registers) for x in both))  # fmt: skip
    orders = [tuple(range(bits)), _own_order(target, bits, size), _own_order(source, bits, size)]
    orders += [_own_order(source, bits, size, vector=1)] if stores_matrices and size == 2 else []
    for order in dict.fromkeys(orders):
        plain = [0] * bits
        for k, bit in enumerate(order):
            plain[bit] = size << k
        for images in _swizzles(tuple(plain), size, bits):
            written, wide = passes(source, images, size, stored_matrices if stores_matrices else None)
            read, broad = passes(target, images, size, loaded_matrices if loads_matrices else None)
            cost = written + read, -(wide + broad)
            if best is None or cost < best[0]:
                best = (cost, images)
                if cost == ideal:
                    return images
    return best[1]


class Matrices(NamedTuple):
    """How a warp holds 8x8 matrices of 16-bit elements: the register bits inside of a word, the bits that select a
    matrix's rows of 16 bytes, and whether it is transposed on the way."""

    inner: int
    rows: tuple[int, ...]
    transposed: bool = False


def stored_matrices(layout: Layout, images: Sequence[int], size: int) -> Matrices | None:
    """The matrices that a warp's registers are in memory: 16 bytes in four neighbouring lanes, eight rows."""
    if size != 2 or len(layout.reg) < 3:
        return None
    places = [image(images, x) for x in (layout.reg[0], *layout.lane, *layout.reg[1:], *layout.warp)]
    whole = places[:3] == [2, 4, 8] and all(places[3:6]) and not any(x % 16 for x in places[3:])
    return Matrices(1, layout.lane[2:]) if whole else None


def loaded_matrices(layout: Layout, images: Sequence[int], size: int) -> Matrices | None:
    """The matrices that a warp can read a tile as; None if it cannot.

    A lane gets a word of each matrix. As they lie, four lanes share a row of 16 bytes; transposed, a word has two rows.
    """
    inner = log2(4 // size) if size in (1, 2, 4) else 0
    if size > 4 or len(layout.reg) < inner + 1:
        return None
    place = lambda xs: [image(images, x) for x in xs]
    word, first, rows = layout.reg[:inner], layout.lane[:2], layout.lane[2:]
    whole = lambda xs: all(x and x % 16 == 0 for x in place(xs))
    if any(x % 16 for x in place((*layout.reg[inner:], *layout.warp))):
        return None
    if place((*word, *first)) == [size << k for k in range(inner + 2)] and whole(rows):
        return Matrices(inner, rows)
    if size == 2 and place(rows) == [2, 4, 8] and whole((*word, *first)):
        return Matrices(inner, (*word, *first), transposed=True)
    return None


def _own_order(layout: Layout, bits: int, size: int, vector: int | None = None) -> tuple[int, ...]:
    """Element bits in the order a thread walks those of one access, of 2^vector elements or 16 bytes, then its warp."""
    order, vector = [], log2(16 // size) if vector is None else vector
    for x in (*layout.reg[:vector], *layout.lane, *layout.warp, *layout.reg[vector:]):
        bit = x.bit_length() - 1
        if x and bit not in order:
            order.append(bit)
    return tuple(order + [b for b in range(bits) if b not in order])


def _swizzles(plain: tuple[int, ...], size: int, bits: int) -> Iterator[tuple[int, ...]]:
    yield plain
    top = log2(size) + bits
    for unit in range(max(2, log2(size)), 5):  # XOR units of 4 (an element at least), 8 or 16 bytes of a bank row
        for first in range(7, top):
            yield tuple(x ^ _fold(x, unit, first) for x in plain)


def _fold(x: int, unit: int, first: int) -> int:
    """Address bits from `first` on, brought down onto the bank bits from `unit` to 6."""
    return (x >> first << unit) & (BANK_ROW - 1) & ~((1 << unit) - 1) if x >> first else 0


def vector_bits(layout: Layout, images: Sequence[int], size: int) -> int:
    """How many of a thread's lowest registers are neighbours in memory, as a power of two (16 bytes at most)."""
    count = 0
    while count < len(layout.reg) and size << count < 16 and image(images, layout.reg[count]) == size << count:
        count += 1
    while count:  # whatever else selects an address must leave the bits inside the vector alone
        rest = (*layout.reg[count:], *layout.lane, *layout.warp)
        if not any(image(images, x) & ((size << count) - 1) for x in rest):
            break
        count -= 1
    return count


def passes(layout: Layout, images: tuple[int, ...], size: int,
           matrices: Callable[..., Matrices | None] | None = None) -> tuple[int, int]:
    """Bank passes a warp needs to move its tile once, instructions times conflicts; elements a thread moves at once.
    `matrices` finds those that are moved as a whole."""
    found = matrices(layout, images, size) if matrices is not None else None
    if found is not None:
        words = layout.registers * size // 4
        return words * conflicts(_places(images, found.rows), 16), min(4, words) * 4 // size
    together = 1 << vector_bits(layout, images, size)
    lanes = 1 << len(layout.lane)
    group = min(lanes, lanes_at_once(size * together))
    each = conflicts(_places(images, layout.lane)[:group])
    return layout.registers // together * (lanes // group) * each, together


def _places(images: tuple[int, ...], bits: Sequence[int]) -> Sequence[int]:
    """The addresses that these bits of a tile select."""
    return span_of([image(images, x) for x in bits])


def lanes_at_once(size: int) -> int:
    """How many lanes the banks serve in one pass: accesses of more than 4 bytes are served in parts of the warp.

    >>> lanes_at_once(2), lanes_at_once(8)
    (32, 16)
    """
    return max(1, BANK_ROW // max(size, 4))


def conflicts(addresses: Iterable[int], unit: int = 4) -> int:
    """The passes that lanes at these addresses take together, `unit` bytes each: the most that one bank is asked for.

    >>> conflicts(range(0, 128, 4)), conflicts(range(0, 256, 8)), conflicts([0, 0, 4])
    (1, 2, 1)
    """
    units: dict[int, set[int]] = {}
    for address in addresses:
        units.setdefault(address % BANK_ROW // unit, set()).add(address // unit)
    return max(map(len, units.values()))
