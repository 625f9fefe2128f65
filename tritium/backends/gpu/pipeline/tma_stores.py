"""Stores of tiles that are boxes of a tensor go through TMA.

    store pointers, tile, mask      ->      tma_store tile, map, row, column

All threads write the tile into shared memory, one issues the TMA store, and the program goes on while it completes. TMA
drops elements outside of the tensor, as the mask does. But a box must not start before its tensor: such boxes are
stored by the threads, element by element.

TMA stores are not ordered with later accesses of the threads, so a store stays with the threads if the program may
access global memory in any other way after it. TMA stores wait for one another, unless they write disjoint boxes of one
tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from .... import ops
from ....analysis.polynomial import Scalars, write
from ....ir import types as T
from ....ir.bounds import Pair
from ....ir.core import Arg, Block, Module, Op, walk
from ....ir.opdef import OpKind
from ....ir.rewrite import ERASE, Rewriter, sweep, uses
from ....named_tuples import NamedTuple
from ....passes.assumed import Assumed
from ....passes.dce import dce
from .. import ops as gpu_ops
from ..analysis.affine import Access, access, narrow
from ..analysis.preconditions import Assumptions, Row
from ..target import Target
from ..tma import HostValues, Tma, by_element, reached, tensor_map
from .reordering import Reordering

BY_PRODUCER, BY_THREADS = (ops.store, ops.atomic), (ops.atomic,)  # done by TMA with a producer warp, and without one


def tma_stores(module: Module, target: Target) -> Module:
    """Store tiles, and update them atomically, by TMA where possible.

    Without a producer warp only atomics are: threads store as fast, but their atomics, one by one, do not combine so.
    """
    kinds = BY_PRODUCER if module.attrs.get("producer_warps") else BY_THREADS
    if target.tma is None or not module.attrs.get("launch_checks"):
        return module
    if not any(op.kind in kinds for op in walk(module.body)):
        return module
    implicit = len(module.attrs.get("tensor_maps", ())) + 3 * module.attrs.get("persistent", False)  # maps and the grid
    slots = len(module.args) - implicit  # the kernel's own arguments; the grid comes behind them
    grid = module.args[slots:slots + 3] if module.attrs.get("persistent", False) else ()
    known = HostValues(module.args[:slots], grid)
    assumed = Assumed(module)
    found = _Stores(module, target.tma, known, kinds, Reordering.of(module, assumed)).chosen()
    if not found:
        return module
    return dce(assumed.stated_by(_Build(module, target.tma, known, found, assumed.nonnegative).build()))


class Box(NamedTuple):
    """A store as a box: its access, its contiguous axis, whether its coordinates surely are in range; whether it may
    overlap earlier boxes (`ordered`), and whether threads may have written there (`fenced`)."""

    op: Op
    access: Access
    axis: int
    sure: bool
    ordered: bool = False
    fenced: bool = False


class Event(NamedTuple):
    """An op that accesses global memory, the loops around it, the outermost first, and its block."""

    op: Op
    loops: tuple[Op, ...]
    block: Block


class _Stores:
    """Finds the stores that are boxes, and all other accesses to global memory."""

    def __init__(self, module: Module, tma: Tma, known: HostValues, kinds: tuple[OpKind, ...],
                 reordering: Reordering | None):
        self.module, self.tma, self.known, self.kinds, self.reordering = module, tma, known, kinds, reordering
        self.scalars, self.used = Scalars(), uses(module.body)
        self.events = []
        self.walk(module.body, (), module.attrs.get("persistent", False))

    def walk(self, block: Block, loops: tuple[Op, ...], persistent: bool) -> None:
        """Record the events of a block. The persistent loop is skipped: programs are not ordered."""
        for op in block.ops:
            if op.kind is gpu_ops.warp_specialize:
                self.walk(op.regions[1], loops, persistent)
                continue
            inner = (*loops, op) if op.kind.loop and not persistent else loops
            for region in op.regions:
                self.walk(region, inner, False)
            if op.kind.global_memory:
                self.events.append(Event(op, loops, block))

    def chosen(self) -> list[Box]:
        """The boxes, in program order."""
        boxes = {e.op: self.box(e.op) for e in self.events if e.op.kind in self.kinds}
        boxes = {key: box for key, box in boxes.items() if box is not None}
        while True:
            kept = {key: box for key, box in boxes.items() if not self.seen_later(box.op, boxes)}
            if len(kept) == len(boxes):
                break
            boxes = kept
        room = self.tma.maps - len(self.module.attrs.get("tensor_maps", ()))
        if len(boxes) > room or not self.assume(boxes):
            return []
        return self.ordered(boxes)

    def assume(self, boxes: dict[Op, Box]) -> bool:
        """Assume that threads access other memory after TMA stores; False if the launcher cannot check so much."""
        found = [self.apart(op, e) for op in boxes for e in self.later(op) if e.op not in boxes]
        pairs = tuple(pair for pair in found if pair is not None)
        return not pairs or self.reordering is not None and self.reordering.take(pairs)

    def box(self, op: Op) -> Box | None:
        pointers, value = op.operands[:2]
        if type(value.type) is not T.Tile or len(value.type.shape) != 2 or not self.only_writes(op):
            return None
        found = access(pointers, op.mask, self.scalars, self.known.__contains__)
        if found is None or found.ends:
            return None
        axis = found.tile.index(len(found.dims) - 1)
        if self.tma.misfit(value.type, axis, found):
            return None
        return Box(op, found, axis, narrow(found, op.mask))

    def only_writes(self, op: Op) -> bool:
        """True for a store without cache hints, or a relaxed atomic whose result is unused."""
        if op.kind is ops.store:
            return not op.attrs["cache"] and not op.attrs["eviction"]
        unordered = op.attrs["sem"] == "relaxed" and op.attrs["scope"] == "gpu" and op not in self.used
        return unordered and self.tma.combines(op.attrs["how"], op.type.element)

    def seen_later(self, op: Op, boxes: dict[Op, Box]) -> bool:
        """True if threads may access the same memory after this op, or in a later iteration."""
        return any(e.op not in boxes and self.apart(op, e) is None for e in self.later(op))

    def later(self, op: Op) -> Iterator[Event]:
        """What comes after this op, or in a later iteration of a loop around it."""
        at = self.place(op)
        return (e for k, e in enumerate(self.events) if k > at or self.around(op, e))

    def around(self, op: Op, event: Event) -> tuple[Op, ...]:
        """The loops around an op and an event."""
        return tuple(loop for loop in self.events[self.place(op)].loops if loop in event.loops)

    def apart(self, op: Op, event: Event) -> Pair | None:
        """The pair of this op and an access of threads that must not alias; None if no launcher can check it. Only for
        updates beside a producer warp: with TMA, products with a bias took up to 1.3 times as long, and gradients
        without a producer warp twice as long (docs/performance-gpu.md)."""
        updates = self.module.attrs.get("producer_warps") and op.kind.atomic
        if self.reordering is None or not (updates and event.op.kind.access):
            return None
        loop, *_ = (*self.around(op, event), None)
        return self.reordering.pair(event.op, op, loop)

    def written_before(self, op: Op, boxes: dict[Op, Box]) -> bool:
        """True if threads may have written the same memory before this op."""
        at = self.place(op)
        earlier = (e for k, e in enumerate(self.events) if k < at or self.around(op, e))
        return any(e.op not in boxes and e.op.kind.effects_of(e.op) == "write" for e in earlier)

    def place(self, op: Op) -> int:
        return next(k for k, event in enumerate(self.events) if event.op is op)

    def ordered(self, boxes: dict[Op, Box]) -> list[Box]:
        """The boxes, with what they wait for: boxes since the last wait, and those of the iteration before unless the
        block has waited for them. Those of one iteration may be apart, and nobody can tell the order of equal
        updates."""
        out, pending, waited = [], [], None  # events and boxes since the last wait; the block of that
        for event in self.events:
            box = boxes.get(event.op)
            if box is None:
                continue
            before = [e for e in self.events if e.op in boxes and self.around(event.op, e)]
            waits = not all(
                _commute(e.op, event.op) or e.block is event.block and _apart(other.access, box.access)
                for e, other in pending
            ) or waited is not event.block and not all(_commute(e.op, event.op) for e in before)
            if waits:
                pending, waited = [], event.block
            pending.append((event, box))
            out.append(box._replace(ordered=waits, fenced=self.written_before(event.op, boxes)))
        return out


def _commute(x: Op, y: Op) -> bool:
    """True for atomic updates of one kind."""
    return x.kind is y.kind is ops.atomic and x.attrs["how"] == y.attrs["how"]


def _apart(x: Access, y: Access) -> bool:
    """True if two boxes of one tensor, written in one iteration, are disjoint."""
    if (x.base, x.offset, len(x.dims)) != (y.base, y.offset, len(y.dims)):
        return False
    if any((a.size, a.stride) != (b.size, b.stride) for a, b in zip(x.dims, y.dims)):
        return False
    distances = [((b.start - a.start).number, a.box, b.box) for a, b in zip(x.dims, y.dims)]
    return any(d is not None and (d >= mine or -d >= theirs) for d, mine, theirs in distances)


class _Build:
    """Emits the new module: boxes of one tensor share a tensor map, appended to the existing ones."""

    def __init__(self, module: Module, tma: Tma, known: HostValues, chosen: list[Box],
                 preconditions: list[tuple[Row, ...]] | None):
        self.module, self.boxes = module, {box.op: box for box in chosen}
        slots = [known.slot(x) if x in known else 0 for x in module.args]
        grid: dict[int, Row] = {k: ("num_programs", "i32", ~slot) for k, slot in enumerate(slots) if slot < 0}
        self.assumptions = Assumptions(module, preconditions, grid)
        self.templates, self.numbers = list(module.attrs.get("tensor_maps", ())), {}
        for key, box in self.boxes.items():
            found = tensor_map(tma, known, box.op.operands[1].type, box.axis, box.access)
            if found not in self.templates:
                self.templates.append(found)
            self.numbers[key] = self.templates.index(found)

    def build(self) -> Module:
        module, old = self.module, [x for x in self.module.args if "tensor_map" in x.attrs]
        new = [Arg(T.Ptr(T.u8), f"map.{k}", {"tensor_map": True}) for k in range(len(old), len(self.templates))]
        self.maps = [*old, *new]
        swept = sweep(module, self.rule)
        attrs = {"persistent": False, **module.attrs, "tensor_maps": tuple(self.templates)}
        return swept.replace(body=Block([*module.args, *new], swept.body.ops), attrs=attrs)

    def rule(self, b: Rewriter, op: Op) -> tuple[()] | None:
        if not op.kind.writes or b.original not in self.boxes:
            return None
        key = b.original
        box, tensor = self.boxes[key], self.maps[self.numbers[key]]
        spell = lambda poly: write(b, poly, None, b.value)
        starts = [spell(dim.start) for dim in box.access.dims]
        numbers = [ops.cast(b, x, to=T.i32) for x in starts]
        fits = None
        if not self.assumptions.in_range(box.access, from_zero=True):
            fits = reached(b, box.access, starts, sure=box.sure, from_zero=True)
        if fits is not None:
            origin, steps, _ = by_element(b, box.access, op.operands[1].type.shape, spell)
            numbers += [fits, origin, *steps]
        attrs = {"axis": box.axis, "rank": len(starts), "how": op.attrs["how"] if op.kind is ops.atomic else ""}
        attrs |= {"ordered": box.ordered, "fenced": box.fenced}
        gpu_ops.tma_store(b, op.operands[1], tensor, *numbers, **attrs)
        return ERASE
