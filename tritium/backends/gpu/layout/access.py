"""How memory ops touch memory: in which order, how wide, and in which layout their threads neighbour in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .... import ops
from ....analysis.axis_info import analyze
from ....analysis.polynomial import Poly, Scalars
from ....analysis.runs import Growth
from ....ir import types as T
from ....ir.core import Module, Op, Value, walk
from .. import ops as gpu_ops
from ..target import Target
from .across import loads_across
from .linear import Layout, blocked, log2, product
from .swizzle import lane_ordered

ANCHOR_BYTES = 16  # the widest access of one thread
LINE_BYTES = 128  # of a cache: what a warp touches in one line takes one lookup
SECTOR_BYTES = LINE_BYTES // 4  # that memory moves at once

Order = tuple[tuple[int, ...], tuple[int, ...]]  # shape, axes from most to least contiguous


@dataclass(frozen=True, eq=False)
class Accesses:
    """The memory ops of a module; `widths` are elements per access of those on one shape in one order."""

    info: Callable  # value -> its axis info
    warps: int
    lanes: int
    target: Target
    with_dots: bool
    widths: dict[Order, int]
    across: dict[Op, tuple[int, int]]  # see `loads_across`
    combined: dict[tuple[int, ...], int]  # see `_combined_axes`
    scanned: dict[tuple[int, ...], int] = field(default_factory=dict)  # see `_scanned_axes`
    reshaped: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)  # see `_reshaped`
    folded: set[tuple[int, ...]] = field(default_factory=set)  # shapes of what reductions and scans combine
    repeated: set[Op] = field(default_factory=set)  # ops in loops
    forms: Scalars = field(default_factory=Scalars)
    orders: dict[Op, Order] = field(default_factory=dict)  # those that were asked for

    @staticmethod
    def of(module: Module, target: Target, nonnegative: list | None) -> Accesses:
        """The accesses of a module; `nonnegative` as in `axis_info.analyze`."""
        warps, info = module.attrs["num_warps"], analyze(module, nonnegative)
        with_dots = any(kind.mma for kind in module.kinds)
        accesses = Accesses(info, warps, target.warp_size, target, with_dots, {}, loads_across(module, target),
                            _combined_axes(module))
        together: dict[Order, list[Op]] = {}
        accesses.folded.update(T.shape(op.operands[0].type) for op in walk(module.body) if op.kind.combines)
        accesses.repeated.update(x for op in walk(module.body) if op.kind.loop for r in op.regions for x in walk(r))
        for op in walk(module.body):
            if op.kind.access and type(op.pointer.type) is T.Tile:
                together.setdefault(accesses.order(op), []).append(op)
        accesses.widths.update((order, accesses._shared_width(found)) for order, found in together.items())
        accesses.scanned.update(_scanned_axes(module, together))
        accesses.reshaped.update(_reshaped(module, together, accesses.folded))
        return accesses

    def _shared_width(self, accesses: list[Op]) -> int:
        """The elements per access of memory ops on one shape in one order: they share it, then they share a layout.

        It is the widest that any can use on the way to an MMA, else that in which all together look up the fewest
        lines: those in loops count as often as loops are assumed to iterate. Atomics are slow unless they are wide.
        """
        most = max(map(self.vector, accesses))
        if self.with_dots or most == 1 or any(op.kind.atomic for op in accesses):
            return most
        times = lambda op: self.target.cost.assumed_trips if op in self.repeated else 1
        lookups = lambda width: sum(times(op) * self._lookups(op, width) for op in accesses)
        return min([most >> k for k in range(log2(most) + 1)], key=lookups)

    def _lookups(self, op: Op, width: int) -> float:
        """What an access costs for each element of a thread that holds `width` neighbours: the lines that a warp looks
        up, and one for the instruction.

        If a thread takes several accesses for its neighbours, each has gaps: those of strided ones, and of stores of
        elements that are larger than others. What a load leaves in a gap is in the L1 cache for the next one.
        Neighbours at one address are loaded once. What is stored at loaded indices is taken to lie side by side, as
        where a kernel leaves some out, and each sector counts: a part of it costs as much as all of it.
        """
        axis, info = self.order(op)[1][0], self.info(op.pointer)
        size, together = T.element(op.pointer.type).pointee.bytes, min(width, self.vector(op))
        if info.contiguity[axis] > 1:
            apart = (together if op.kind is ops.load else width) * size
        elif info.constancy[axis] > 1:
            together, apart = min(width, info.constancy[axis]), width * size / info.constancy[axis]
        else:
            distance = self._distances(op.pointer)[axis]
            indexed = distance * size >= LINE_BYTES and op.kind is ops.store and self.forms.of(op.pointer).loose
            if indexed and op.pointer.type.shape not in self.folded:  # threads scan neighbours that they hold
                distance = LINE_BYTES // SECTOR_BYTES
            apart = width * size * distance
        return (min(self.lanes, max(1, self.lanes * apart / LINE_BYTES)) + 1) / together

    def order(self, op: Op) -> Order:
        """(shape, axes from most to least contiguous) of a memory op."""
        found = self.orders.get(op)
        if found is None:
            found = self.orders[op] = self._order(op)
        return found

    def _order(self, op: Op) -> Order:
        shape = op.pointer.type.shape
        contiguity = [min(pair) for pair in zip(self.info(op.pointer).contiguity, shape)]
        ranks: list[float] = [-run for run in contiguity]
        if len(shape) > 1 and max(contiguity) == 1:  # neighbours that are near each other still share cache lines
            ranks = self._distances(op.pointer)
        return shape, tuple(sorted(range(len(shape)), key=lambda a: (ranks[a], -a)))

    def _distances(self, pointer: Value) -> list[float]:
        """Elements between neighbours of a tile of pointers along each axis, where no quotient steps; infinite if all
        are one, and if they are known to be too far apart to share a line.

        What is not known is taken for that far apart, the more so the more it is a multiple of: of the strides of a
        filter, s and 16 t, the second is likely the larger.
        """
        form, growth = self.forms.of(pointer), Growth(self.forms.of, self.forms.number_of)
        most = LINE_BYTES // T.element(pointer.type).pointee.bytes

        def distance(axis: int) -> float:
            n = growth.along(form, axis)
            if n is None:
                return most * (self._divisor(form.strides[axis]) or 1)
            return abs(n) if 0 < abs(n) < most else math.inf

        return [distance(a) if n > 1 else math.inf for a, n in enumerate(T.shape(pointer.type))]

    def _divisor(self, stride: Poly) -> int:
        """A number that a stride is a multiple of; 0 for a stride of 0."""
        return math.gcd(*(c * product(self.info(x).divisibility[0] for x in term) for term, c in stride.terms.items()))

    def vector(self, op: Op) -> int:
        """Elements per access in a layout of its own: as many as possible without idle threads."""
        element = T.element(op.pointer.type).pointee
        # Idle threads cost less here: short async copies do not exist, and short atomics are slow.
        short = op.kind.atomic or op.kind is gpu_ops.async_load
        least = gpu_ops.MIN_TRANSFER // element.bytes if short else 1
        most = max(1, least, product(op.pointer.type.shape) // (self.lanes * self.warps))
        return 1 << log2(min(self.reach(op), most))

    def reach(self, op: Op) -> int:
        """The most elements per access: contiguous, aligned, with one predicate."""
        pointer, mask = op.pointer, op.mask
        element = T.element(pointer.type).pointee
        size = element.bytes
        shape, order = self.order(op)
        axis, info = order[0], self.info(pointer)
        width = min(ANCHOR_BYTES // size, info.contiguity[axis], shape[axis], max(1, info.divisibility[axis] // size))
        if mask is not None:
            width = min(width, self.info(mask).constancy[axis])
        if op.kind is gpu_ops.async_load and self.target.async_copies is not None:
            width = max((n // size for n in self.target.async_copies.sizes if n <= width * size), default=width)
        if op.kind.atomic:
            width = min(width, self.target.widest_atomic(op.attrs.get("how", "cas"), element))
        return 1 << log2(max(1, width))

    def coalesced(self, op: Op, alone: bool = False) -> Layout:
        """The coalesced layout of a memory op; that of a copy in the order of lanes follows from its buffer. Ops of
        different widths share one, unless asked for `alone`, and but for atomics: caches take the parts of a sector one
        after the other."""
        shape, order = self.order(op)
        copies = self.target.async_copies
        if op.kind is gpu_ops.async_load and copies is not None and copies.in_lane_order:
            size = T.element(op.pointer.type).pointee.bytes
            return lane_ordered(shape, op.attrs["axis"], size, self.reach(op), self.warps, self.lanes)
        width, (axis, count) = self.widths[shape, order], self.across.get(op, (order[0], 1))
        width = min(width, self.vector(op)) if alone or op.kind.atomic else width
        if axis == order[0]:
            held = op.kind is not gpu_ops.async_load  # no thread holds what it copies
            scanned = self.scanned.get(shape) if held else None
            return self._blocked(shape, width, order, scanned)
        return blocked(shape, min(width, self.reach(op)), self.warps, self.lanes, order, (axis, count))

    def without_gaps(self, op: Op) -> Layout:
        """The coalesced layout of a store of its own. The one that it shares with memory ops on smaller elements has
        more neighbours in a thread than a store takes: each access of a warp would write parts of sectors."""
        return self.coalesced(op, alone=True)

    def loads_as_well(self, op: Op, layout: Layout) -> bool:
        """True if a load in a user's layout costs less than converting it: threads that hold the same elements load
        them again, from the L1 cache, and no thread waits for others.

        So it is for tiles with fewer elements than threads, and for vectors that take few loads of a thread. Beside
        dots registers are scarce and threads wait for each other anyway: there a small tile may not take many either.
        """
        if op.kind is not ops.load or op.attrs.get("volatile"):
            return False
        shape, order = self.order(op)
        width = min(self.reach(op), layout.contiguous(order[0]))
        if product(shape) < self.lanes * self.warps:
            return not self.with_dots or layout.registers <= 4 * self.target.cost.repeated_loads * width
        return max(shape) == product(shape) and layout.registers <= self.target.cost.repeated_loads * width

    def has(self, shape: tuple[int, ...]) -> bool:
        """True if there are memory ops on tiles of a shape, or of one that it is reshaped to or from."""
        return shape in self.reshaped or any(found == shape for found, _ in self.widths)

    def default(self, shape: tuple[int, ...]) -> Layout:
        """The layout of a tile without an anchor: that of the memory ops on tiles of its shape, or of one that it is
        reshaped to or from."""
        if shape in self.reshaped:
            return self.default(self.reshaped[shape]).reshape(shape)
        width = max([v for (s, _), v in self.widths.items() if s == shape] or [1])
        return self._blocked(shape, width, None, self.scanned.get(shape))

    def _blocked(self, shape: tuple[int, ...], width: int, order: Sequence[int] | None, scanned: int | None) -> Layout:
        """The layout of memory ops on tiles of a shape that touch `width` neighbours each, and perhaps are scanned."""
        also = None if scanned is None else (scanned, shape[scanned])
        return blocked(shape, width, self.warps, self.lanes, order, also, self.combined.get(shape))

    def serves(self, op: Op, own: Layout, ideal: Layout) -> bool:
        """True if storing from a tile's own layout is as good as converting it to the ideal one first."""
        inner = own.contiguous(self.order(op)[1][0])
        if inner < self.vector(op):
            return False
        if own.free("lane") or own.free("warp"):  # so few elements that converting them costs more than idle threads
            return own.registers <= self.target.cost.idle_factor * ideal.registers * min(inner, self.reach(op))
        return _coalesced(own, ideal, self.target.cost.run_bits)


def _combined_axes(module: Module) -> dict[tuple[int, ...], int]:
    """{shape: axis} of tiles that reductions and scans combine along one axis: within a warp it takes no shared memory.

    Tiles of one shape share a layout whether or not they are combined themselves, for they meet in operations. Where a
    kernel loads a row for all rows of such a tile, as weights of a norm, warps share the row instead: every warp would
    need all of it.
    """
    found: dict[tuple[int, ...], set[int]] = {}
    loaded = set()
    for op in walk(module.body):
        if op.kind.combines:
            found.setdefault(T.shape(op.operands[0].type), set()).add(op.attrs["axis"])
        elif op.kind.access and op.types and not op.kind.atomic:
            loaded.add(tuple(n for n in T.shape(op.pointer.type) if n > 1))
    return {shape: axis for shape, (axis, *others) in found.items() if not others and (shape[axis],) not in loaded}


def _scanned_axes(module: Module, accesses: Mapping[Order, list[Op]]) -> dict[tuple[int, ...], int]:
    """{shape: axis} of tiles that are scanned along one axis, across which they are contiguous in memory: a thread has
    neighbours along it, in as many registers as there are. It combines them without shuffles.

        a column of 8 rows     threads 0 1 0 1 0 1 0 1: scans each pair      threads 0 0 0 0 1 1 1 1: one scan

    Lanes still follow the rows, so that an access touches as many sectors, if a row has one.
    """
    found: dict[tuple[int, ...], set[int]] = {}
    for op in walk(module.body):
        if op.kind is ops.scan:
            found.setdefault(T.shape(op.operands[0].type), set()).add(op.attrs["axis"])
    for (shape, (fastest, *_)), touching in accesses.items():
        sizes = (T.element(op.pointer.type).pointee.bytes for op in touching)
        if fastest in found.get(shape, ()) or shape[fastest] * min(sizes) < SECTOR_BYTES:
            found.pop(shape, None)
    return {shape: axis for shape, (axis, *others) in found.items() if not others and axis != len(shape) - 1}


def _reshaped(module: Module, accesses: Mapping[Order, list[Op]],
              folded: set[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """{shape: shape of a memory op} of tiles that no memory op has, but one that they are reshaped to or from.

    Tiles that are combined along an axis are not among them: their layout is as that is fast.
    """
    touched, found = {shape for shape, _ in accesses}, {}
    for op in walk(module.body):
        if op.kind is ops.reshape:
            pair = T.shape(op.type), T.shape(op.operands[0].type)
            for one, other in (pair, pair[::-1]):
                if other in touched and one not in touched and one not in folded:
                    found.setdefault(one, other)
    return found


def _coalesced(own: Layout, ideal: Layout, bits: int) -> bool:
    """True if the warp touches memory in runs about as long as the ideal layout would."""
    lowest = sorted(x for x in own.lane if x)[:bits]
    return lowest == sorted(x for x in ideal.lane if x)[:bits]
