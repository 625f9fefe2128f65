"""Scans along an axis: in registers, bit by bit between lanes by shuffles, then between warps through shared memory.

    bits of the axis    reg reg lane lane | warp warp reg        a block: the bits below the first of a warp
                        block totals -> shared memory, barrier -> every thread scans those of its lines

Large tiles go through shared memory whole, in loops over segments of them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op, walk
from ....named_tuples import NamedTuple
from ...llvm.writer import Val
from ..layout.axis import Axis
from ..layout.linear import Layout, axis_bits, log2, powers, span_of, without_bits
from ..layout.values import layout_of
from ..shared_memory.needs import SCRATCH_ALIGNMENT, Need, Room, side_by_side, takes_shared
from .convert import read, registers_with, without, write
from .function import Lowering, lower
from .reduce import exchange_need, exchange_threads
from .shared_memory import Passage, plan

WRITTEN_OUT = 2500  # instructions; the assembler's time grows faster than their number
TOGETHER = 4  # elements that a thread loads before it combines them


def _scan_need(op: Op, room: Room) -> Need | None:
    """A large tile goes through shared memory whole, in pieces that fit; else warps exchange their totals."""
    layout, types = layout_of(op.operands[0]), [T.element(x.type) for x in op.operands]
    for cut in _cuts(op, layout) if _instructions(op, layout) > WRITTEN_OUT else ():
        segments = Segments.of(op, cut, room.threads)
        exchange = [room.threads * size for size in segments.sizes]
        free = room.bytes - SCRATCH_ALIGNMENT * (len(types) + 1)
        if segments.count >= 2 * TOGETHER and sum(segments.bytes) + sum(exchange) <= free:
            between = side_by_side(0, exchange)[1:] if segments.parts > 1 else ()
            how = {"cut": cut, "segments": True} if cut else {"segments": True}
            return Need([*segments.bytes, *between], attrs=how)
    axis = Axis(layout, op.attrs["axis"])
    if not axis.of("warp"):
        return None
    sizes = [(layout.numel >> _inside(axis)) * t.bytes for t in types]
    if side_by_side(0, sizes)[1] <= room.bytes:
        return Need(sizes)
    return exchange_need(types, layout.registers, room)  # more than all totals: some go after the others


def _inside(axis: Axis) -> int:
    """How many of the lowest bits of an axis are inside of blocks: those below the first bit of a warp."""
    return next((k for k, (part, _) in enumerate(axis.bits) if part == "warp"), len(axis.bits))


@lower(ops.scan)
@takes_shared(_scan_need, meets=True)
def scan(g: Lowering, op: Op, *xs: Sequence[Val]) -> tuple[list[Val], ...]:
    """Neighbours that a thread has, one after the other. Then bit by bit inside of blocks, then between blocks: what is
    before a run of neighbours takes in totals that are before it, and is combined with the neighbours at the end.

    Registers that differ only in bits already seen share a total, so only one of them keeps it.
    """
    layout, reverse = g.layout(op.operands[0]), op.attrs["reverse"]
    types = [T.element(x.type) for x in op.operands]
    combine = lambda a, b: g.inline(op.regions[0], [*a, *b])
    if op.attrs.get("segments"):
        return _scan_pieces(g, op, layout, xs, combine, reverse)
    passage, axis = Passage(g, op), Axis(layout, op.attrs["axis"])
    inside = len(axis.bits) if "together" in op.attrs else _inside(axis)
    own = [1 << bit for _, bit in itertools.takewhile(lambda place: place[0] == "reg", axis.bits)]
    prefix, total = _scan_run([[x[r] for x in xs] for r in range(layout.registers)], own, combine, reverse)
    before: Mapping[int, Part | None] = dict.fromkeys(total)
    seen = own_bits = sum(own)
    for part, bit in axis.bits[len(own) : inside]:
        if part == "reg":
            before, total = _scan_registers(g, 1 << bit, seen, before, total, combine, reverse)
            seen |= 1 << bit
        else:
            before, total = _scan_threads(passage, types, part, bit, seen, before, total, combine, reverse)
    if inside < len(axis.bits):
        before = _scan_blocks(passage, types, layout, axis, inside, before, total, combine, reverse)
    prefix = [_joined(g, combine, before[r & ~own_bits], Part(p))[0] for r, p in enumerate(prefix)]
    return tuple([p[k] for p in prefix] for k in range(len(xs)))


class Part(NamedTuple):
    """The total of a part of a line; the part is empty where `exists` (i1, None for always) does not hold."""

    total: list
    exists: Val | None = None


def _joined(g: Lowering, combine: Callable, first: Part | None, second: Part | None) -> Part:
    """Two neighbouring parts as one, at least one of which is there."""
    if first is None or second is None:
        found = first or second
        assert found is not None
        return found
    made = combine(first.total, second.total)
    for part, other in ((second, first), (first, second)):
        if part.exists is not None:
            made = [g.w.select(part.exists, x, y) for x, y in zip(made, other.total)]
    if first.exists is None or second.exists is None:
        return Part(made)
    return Part(made, g.w.binary("or", first.exists, second.exists))


def _scan_run(xs: Sequence[list[Val]], steps: Sequence[int], combine: Callable,
              reverse: bool) -> tuple[list[list[Val]], dict[int, list[Val]]]:
    """Registers that differ in these bits of their numbers, the lowest along the axis: (prefix, total) of each run."""
    places, prefix, total = span_of(steps), list(xs), {}
    for first in range(len(xs)):
        if not first & sum(steps):
            run = [first | step for step in (reversed(places) if reverse else places)]
            for r, made in zip(run, itertools.accumulate((xs[r] for r in run), combine)):
                prefix[r] = total[first] = made
    return prefix, total


def _scan_registers(g: Lowering, step: int, seen: int, before: Mapping[int, Part | None], total: dict[int, list[Val]],
                    combine: Callable, reverse: bool) -> tuple[Mapping[int, Part | None], dict[int, list[Val]]]:
    """One bit of the register number: both halves are this thread's own."""
    later = lambda r: bool(r & step) != reverse
    new = lambda r, x: _joined(g, combine, Part(total[(r ^ step) & ~seen]), x) if later(r) else x
    pairs = {r: (r | step, r) if reverse else (r, r | step) for r in total if not r & step}
    totals = {r: combine(total[first], total[second]) for r, (first, second) in pairs.items()}
    return {r: new(r, x) for r, x in before.items()}, totals


def _scan_threads(passage: Passage, types: Sequence[T.Scalar | T.Ptr], part: str, bit: int, seen: int,
                  before: Mapping[int, Part | None], total: dict[int, list[Val]], combine: Callable,
                  reverse: bool) -> tuple[Mapping[int, Part | None], dict[int, list[Val]]]:
    """One bit of the lane or warp number: the other half's totals come from there."""
    g, w, keys = passage.g, passage.g.w, list(total)
    if part == "lane":
        other = [[g.target.shuffle(g, x, "xor", 1 << bit) for x in total[r]] for r in keys]
    else:
        other = exchange_threads(passage, types, g.int(g.lanes << bit), [total[r] for r in keys])
    other = dict(zip(keys, other))
    is_set = w.compare("icmp ne", w.binary("and", g.place(part), g.int(1 << bit)), g.int(0))
    later = w.binary("xor", is_set, w.const("i1", True)) if reverse else is_set
    pick = lambda yes, no: [w.select(later, a, b) for a, b in zip(yes, no)]
    new_before = {r: _joined(g, combine, Part(other[r & ~seen], later), x) for r, x in before.items()}
    new_total = {r: combine(pick(other[r], total[r]), pick(total[r], other[r])) for r in keys}
    return new_before, new_total


def _scan_blocks(passage: Passage, types: Sequence[T.Scalar | T.Ptr], layout: Layout, axis: Axis, inside: int,
                 inner: Mapping[int, Part | None], total: Mapping[int, list[Val]], combine: Callable,
                 reverse: bool) -> Mapping[int, Part | None]:
    """Add the blocks before a block to what is before each run inside (`inner`), as `inside` bits of the axis are.

    A thread scans the totals of all blocks of its lines, and picks those before its own. A block's number has bits of
    registers, which are known, and bits of the thread's place.
    """
    g, w, low, count = passage.g, passage.g.w, log2(axis.mask & -axis.mask), 1 << len(axis.bits) - inside
    written = layout.map(functools.partial(without_bits, low, inside), (layout.numel >> inside,))
    blocks = (count - 1) << low  # the bits of a block's number in the place of its total
    totals = _gather_totals(passage, types, written, total, blocks)
    numbers = [x << low for x in (reversed(range(count)) if reverse else range(count))]
    before: dict[int, Any] = {}  # by the place of a block's total; None for the first one
    for line in {place & ~blocks: None for place in totals}:
        scanned = itertools.accumulate((totals[line | n] for n in numbers[:-1]), combine)
        before.update(zip((line | n for n in numbers), (None, *scanned)))
    chosen, first = [], numbers[0]
    for k, (part, bit) in enumerate(axis.bits[inside:], low):
        if part != "reg":
            chosen.append((w.compare("icmp ne", w.binary("and", g.place(part), g.int(1 << bit)), g.int(0)), 1 << k))
            first &= ~(1 << k)
    behind = [w.binary("xor", is_set, w.const("i1", True)) if reverse else is_set for is_set, _ in chosen]
    later = functools.reduce(functools.partial(w.binary, "or"), behind)

    @functools.cache
    def pick(place: int, bits: int) -> Any:
        """What is before this thread's block: this one, but for the lowest `bits` that the thread's place chooses."""
        if not bits:
            return before[place]
        is_set, image = chosen[bits - 1]
        no, yes = pick(place, bits - 1), pick(place | image, bits - 1)
        return [w.select(is_set, a, b) for a, b in zip(yes, no)] if no and yes else no or yes

    places, out = written.register_elements(), {}
    for r, x in inner.items():
        exists = later if places[r] & blocks == first else None
        out[r] = _joined(g, combine, Part(pick(places[r], len(chosen)), exists), x)
    return out


def _gather_totals(passage: Passage, types: Sequence[T.Scalar | T.Ptr], written: Layout,
                   total: Mapping[int, list[Val]], blocks: int) -> dict[int, Any]:
    """The totals of all blocks of a thread's lines, by their places in memory. Threads meet once.

    `written` has the places of the totals, whose bits `blocks` are those of a block's number.
    """
    g, count = passage.g, written.numel
    kept = written._replace(reg=tuple(x for x in written.reg if x))
    own = [x for r, x in total.items() if not any(r >> k & 1 and not e for k, e in enumerate(written.reg))]
    lines, along = written.map(lambda x: x & ~blocks), [x for x in powers(1, count) if x & blocks]
    across = [x for x in lines.reg if x]
    wanted = lines._replace(reg=(*along, *across) if blocks & 1 else (*across, *along))
    images = [plan(kept, wanted, t.bytes) for t in types]
    passage.before_write()
    for items, t, base, at in zip(zip(*own), types, passage.bases, images):
        write(g, items, t, kept, at, base)
    passage.after_write()
    found = zip(*[read(g, t, wanted, at, base) for t, base, at in zip(types, passage.bases, images)])
    return dict(zip(wanted.register_elements(), found))


def _instructions(op: Op, layout: Layout) -> int:
    """How many a thread would take, about, with everything written out."""
    words = sum(max(1, T.element(x.type).bits // 32) for x in op.operands)
    combine = words * sum(1 for inner in walk(op.regions[0]) if not inner.kind.terminator)
    axis = Axis(layout, op.attrs["axis"])
    inside = _inside(axis)
    own = sum(1 for _ in itertools.takewhile(lambda place: place[0] == "reg", axis.bits))
    totals = runs = layout.registers >> own
    total = (layout.registers - runs) * combine + layout.registers * (combine + words)
    for part, _ in axis.bits[own:inside]:
        if part == "reg":
            totals //= 2
            total += (runs // 2 + totals) * combine
        else:
            total += runs * (combine + 2 * words) + totals * (combine + 3 * words)
    if inside < len(axis.bits):
        own = sum(part == "reg" for part, _ in axis.bits[inside:])
        blocks = totals >> own << len(axis.bits) - inside  # of all lines of a thread
        total += blocks * (combine + 2 * words) + (totals + runs) * words + runs * combine
    return total


def _cuts(op: Op, layout: Layout) -> list[tuple[int, ...]]:
    """Bits of an element's number by which a tile is cut into pieces, which separate lines: none first, then more."""
    low, width = axis_bits(layout.shape, op.attrs["axis"])
    along = ((1 << width) - 1) << low
    bits = [x for x in layout.reg if x and x & (x - 1) == 0 and not x & along]
    return [tuple(bits[:count]) for count in range(len(bits) + 1)]


def _scan_pieces(g: Lowering, op: Op, layout: Layout, xs: Sequence[Sequence[Val]], combine: Callable,
                 reverse: bool) -> tuple[list[Val], ...]:
    """Scan a tile piece by piece, all of one layout."""
    bits = op.attrs.get("cut", ())
    segments = _SegmentScan(g, op, Segments.of(op, bits, g.threads), combine, reverse)
    out: list[list[Any]] = [[None] * layout.registers for _ in xs]
    for number in range(1 << len(bits)):
        piece = registers_with(layout, {x: number >> k & 1 for k, x in enumerate(bits)})
        made = segments.scan([[x[r] for r in piece] for x in xs])
        for whole, part in zip(out, made):
            for r, y in zip(piece, part):
                whole[r] = y
    return tuple(out)


class Segments(NamedTuple):
    """A piece of a tile in shared memory, whose axis has `width` bits of an element's number from `low` on. The lines
    along it are cut into segments, one for each thread, or a thread has several lines; it scans its segments by itself.

    In row-major order, segments would begin in the same banks: room is left between them.
    """

    layout: Layout
    low: int
    width: int
    threads: int
    types: list

    @classmethod
    def of(cls, op: Op, cut: tuple[int, ...], threads: int) -> Segments:
        """The segments of a scan whose tile is cut by these bits."""
        layout = layout_of(op.operands[0])
        low, width = axis_bits(layout.shape, op.attrs["axis"])
        types = [T.element(x.type) for x in op.operands]
        return cls(without(layout, cut), low - sum(x < 1 << low for x in cut), width, threads, types)

    @property
    def lines(self) -> int:
        return self.layout.numel >> self.width

    @property
    def each(self) -> int:
        """How many segments a thread has."""
        return max(1, self.lines // self.threads)

    @property
    def parts(self) -> int:
        """How many threads share a line."""
        return max(1, self.threads // self.lines)

    @property
    def count(self) -> int:
        """Elements of a segment."""
        return (1 << self.width) // self.parts

    @property
    def sizes(self) -> list[int]:
        """Bytes of an element, for each operand."""
        return [t.bytes for t in self.types]

    @property
    def bytes(self) -> list[int]:
        """How much room the tile takes, for each operand."""
        return [(self.layout.numel + self.layout.numel // self.count) * size for size in self.sizes]


class _SegmentScan:
    """The scan of the segments of a tile's pieces."""

    def __init__(self, g: Lowering, op: Op, segments: Segments, combine: Callable, reverse: bool):
        self.g, self.w, self.layout, self.low, self.types = g, g.w, segments.layout, segments.low, segments.types
        self.each, self.parts, self.count, self.sizes = segments.each, segments.parts, segments.count, segments.sizes
        self.passage, self.combine, self.reverse = Passage(g, op), combine, reverse
        self.segment_bits = segments.low + segments.width - log2(segments.parts)  # of the number of an element in one

    def scan(self, xs: Sequence[Sequence[Val]]) -> tuple[list[Val], ...]:
        g = self.g
        self.passage.before_write()
        bases = self.passage.bases[: len(xs)]
        for x, base, t, size in zip(xs, bases, self.types, self.sizes):
            for r, pointer in enumerate(self.pointers(base, size)):
                g.shared.put(g, pointer, x[r], t)
        self.passage.after_write()
        if self.each > 1:
            with self.w.loop(0, self.each, type="i32") as loop:
                first = self.w.binary("shl", loop.index, g.int(log2(g.threads)))
                self.scan_segment(bases, self.start(self.w.binary("or", first, g.place("thread"))))
        else:
            start = self.start(g.place("thread"))
            total = self.scan_segment(bases, start)
            if self.parts > 1:
                self.add_before(bases, start, total)
        g.target.barrier(g)
        return tuple([g.shared.get(g, pointer, t) for pointer in self.pointers(base, size)]
                    for base, t, size in zip(bases, self.types, self.sizes))  # fmt: skip

    # --- addresses ----------------------------------------------------------------------------------------------
    def pointers(self, base: int, size: int) -> Iterator[Val]:
        """Where the elements of this thread's registers are."""
        g = self.g
        for at, more in g.addresses(self.layout, lambda e: e):
            more += more >> self.segment_bits << self.low  # `at` has none of its bits: no carries
            yield g.shared.pointer(g, self.w.binary("shl", self.apart(at), g.int(log2(size))), base + more * size)

    def apart(self, at: Val) -> Val:
        """The place of an element (i32), with the room between segments."""
        w, g = self.w, self.g
        return w.binary("add", at, w.binary("shl", w.binary("lshr", at, g.int(self.segment_bits)), g.int(self.low)))

    def start(self, number: Val) -> Val:
        """The place of the first element of a segment (i32). Neighbours in memory have neighbouring numbers: those of
        neighbouring lines, then those of a line."""
        w, g = self.w, self.g
        inner = w.binary("and", number, g.int((1 << self.low) - 1))
        rest = w.binary("shl", w.binary("lshr", number, g.int(self.low)), g.int(self.segment_bits))
        return self.apart(w.binary("or", rest, inner))

    # --- segments -------------------------------------------------------------------------------------------------
    def scan_segment(self, bases: Sequence[int], start: Val) -> list[Val]:
        """Scan a segment in place; returns its total."""
        total = self.group(bases, start, self.g.int(0), None)
        with self.w.loop(1, self.count // TOGETHER, carry=total, type="i32") as loop:
            loop.next = self.group(bases, start, loop.index, list(loop.carried))
        return list(loop.results)

    def group(self, bases: Sequence[int], start: Val, number: Val, before: Sequence[Val] | None,
              chained: bool = True) -> Any:
        """Combine a group of neighbours with what comes before, and `chained` with each other; returns the last."""
        g, w = self.g, self.w
        order = [self.count - 1 - k for k in range(TOGETHER)] if self.reverse else range(TOGETHER)
        step = w.binary("mul", number, g.int(-TOGETHER if self.reverse else TOGETHER))
        at = w.binary("add", start, w.binary("shl", step, g.int(self.low)))
        places = [
            [g.shared.pointer(g, w.binary("shl", at, g.int(log2(size))), base + (k << self.low) * size)
             for base, size in zip(bases, self.sizes)]
            for k in order
        ]  # fmt: skip
        found = [[g.shared.get(g, p, t) for p, t in zip(pointers, self.types)] for pointers in places]
        made = before
        for pointers, x in zip(places, found):
            made = x if made is None else self.combine(made if chained else before, x)
            for p, y, t in zip(pointers, made, self.types):
                g.shared.put(g, p, y, t)
        return made

    def add_before(self, bases: Sequence[int], start: Val, total: list[Val]) -> None:
        """Combine every segment of a line with the total of those before it."""
        g, w, combine, reverse = self.g, self.w, self.combine, self.reverse
        before_it: Mapping[int, Part | None] = {0: None}
        totals = {0: total}
        for bit in range(self.low, self.low + log2(self.parts)):
            part, bit = ("lane", bit) if bit < g.lane_bits else ("warp", bit - g.lane_bits)
            before_it, totals = _scan_threads(self.passage, self.types, part, bit, 0, before_it, totals, combine,
                                              reverse)
        prefix = _joined(g, combine, before_it[0], Part(total)).total
        thread = g.place("thread")
        neighbour = w.binary("add" if reverse else "sub", thread, g.int(1 << self.low))
        slots, _ = side_by_side(self.passage.bases[-1], [g.threads * size for size in self.sizes])
        self.passage.before_write()
        for x, base, t in zip(prefix, slots, self.types):
            g.shared.store(g, base, thread, x, t)
        self.passage.after_write()
        place = w.binary("and", thread, g.int((self.parts - 1) << self.low))
        later = w.compare("icmp ne", place, g.int((self.parts - 1) << self.low if reverse else 0))
        with w.when(later):
            before = [g.shared.load(g, base, neighbour, t) for base, t in zip(slots, self.types)]
            with w.loop(0, self.count // TOGETHER, type="i32") as loop:
                self.group(bases, start, loop.index, before, chained=False)
