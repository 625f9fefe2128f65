"""Tiles that are stored as boxes of a tensor leave through the copy engine.

    store pointers, tile, mask      ->      tma_store tile, map, row, column

All threads put the tile into shared memory, one tells the engine, and the program goes on while it writes. The engine
drops what lies outside of the tensor, as the mask does. But a box may not start before its tensor: those that do, the
threads write, element by element.

Nothing orders the engine's writes with what threads read and write afterwards, so a store is left to the threads if
the program may touch global memory behind it in any other way. Boxes of the engine wait for one another, unless they
are parts of one tensor that cannot meet.
"""

from __future__ import annotations

from typing import NamedTuple

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, walk
from ....ir.rewrite import ERASE, sweep, uses
from .. import ops as gpu_ops
from ..analysis.affine import Access, access, narrow
from ..analysis.polynomial import Scalars, write
from ..analysis.preconditions import Assumptions
from ..tma import by_element, reached, recipe


def tma_stores(module, engine, slots, kinds=(ops.store, ops.atomic), preconditions=None):
    """The module with the stores and atomics (`kinds`) that can be done so given to the copy engine; `engine` is None
    where there is none.

    The first `slots` arguments are the kernel's own: what the host knows before a launch. Values that it takes for not
    negative are added to `preconditions`, as rows of `ir.bounds`.
    """
    if engine is None or not any(op.kind in kinds for op in walk(module.body)):
        return module
    found = _Stores(module, engine, slots, kinds).chosen()
    return _Build(module, engine, slots, found, preconditions).build() if found else module


class Box(NamedTuple):
    """A store as a box: where it lies, the axis its rows lie along, and whether the engine surely reaches it; then
    whether it may meet what boxes before it have written, and whether threads may have written there."""

    op: Op
    access: Access
    axis: int
    sure: bool
    ordered: bool = False
    fenced: bool = False


class Event(NamedTuple):
    """An op that touches global memory, the loops around it, and its block."""

    op: Op
    loops: frozenset
    block: Block


class _Stores:
    """Looks for the stores that are boxes, and for what else the program does with global memory."""

    def __init__(self, module, engine, slots, kinds):
        self.module, self.engine, self.kinds = module, engine, kinds
        self.own = {id(x) for x in module.args[:slots]}
        self.scalars, self.used = Scalars(), uses(module.body)
        self.events = []
        self.walk(module.body, frozenset(), module.attrs.get("persistent", False))

    def walk(self, block, loops, persistent):
        """Note the events of a block. The loop over programs is none of the program's: they know no order."""
        for op in block.ops:
            if op.kind is gpu_ops.warp_specialize:
                self.walk(op.regions[1], loops, persistent)
                continue
            inner = loops | {id(op)} if op.kind in (ops.for_, ops.while_) and not persistent else loops
            for region in op.regions:
                self.walk(region, inner, False)
            if op.kind in _TOUCHES:
                self.events.append(Event(op, loops, block))

    def chosen(self):
        """The boxes, in the program's order."""
        boxes = {id(e.op): self.box(e.op) for e in self.events if e.op.kind in self.kinds}
        boxes = {key: box for key, box in boxes.items() if box is not None}
        while True:
            kept = {key: box for key, box in boxes.items() if not self.seen_later(box.op, boxes)}
            if len(kept) == len(boxes):
                break
            boxes = kept
        room = self.engine.maps - len(self.module.attrs.get("maps", ()))
        return self.ordered(boxes) if len(boxes) <= room else []

    def box(self, op):
        pointers, value = op.operands[:2]
        if type(value.type) is not T.Tile or len(value.type.shape) != 2 or not self.only_writes(op):
            return None
        mask = op.operands[2] if len(op.operands) > 2 else None
        found = access(pointers, mask, self.scalars, lambda x: type(x) is Arg and id(x) in self.own)
        if found is None or found.wraps:
            return None
        axis = found.tile.index(len(found.sides) - 1)
        if not self.engine.fits(value.type, axis, found):
            return None
        return Box(op, found, axis, narrow(found, mask))

    def only_writes(self, op):
        """True for a store without hints, or an atomic whose old values nobody wants, in no order."""
        if op.kind is ops.store:
            return not op.attrs["cache"] and not op.attrs["eviction"]
        unordered = op.attrs["sem"] == "relaxed" and op.attrs["scope"] == "gpu" and id(op) not in self.used
        return unordered and self.engine.combines(op.attrs["how"], op.type.element)

    def seen_later(self, op, boxes):
        """True if what threads do behind this op may touch what it has written."""
        at = self.place(op)
        later = (e.op for k, e in enumerate(self.events) if k > at or self.events[at].loops & e.loops)
        return any(id(other) not in boxes for other in later)

    def written_before(self, op, boxes):
        """True if threads may have written before this op."""
        at = self.place(op)
        earlier = (e.op for k, e in enumerate(self.events) if k < at or self.events[at].loops & e.loops)
        return any(id(x) not in boxes and x.kind.effects_of(x) == "write" for x in earlier)

    def place(self, op):
        return next(k for k, event in enumerate(self.events) if event.op is op)

    def ordered(self, boxes):
        out, pending = [], None  # the event and box of those no one has waited for; None before the first
        for event in self.events:
            box = boxes.get(id(event.op))
            if box is None:
                continue
            waits = bool(event.loops) if pending is None else not all(
                e.block is event.block and _apart(other.access, box.access) for e, other in pending
            )
            pending = [(event, box)] if waits or pending is None else [*pending, (event, box)]
            out.append(box._replace(ordered=waits, fenced=self.written_before(event.op, boxes)))
        return out


_TOUCHES = (ops.load, ops.store, ops.atomic, ops.atomic_cas, ops.inline_asm, ops.call, gpu_ops.async_load)


def _apart(x, y):
    """True if two boxes of one tensor, written in one round, cannot meet."""
    if (x.base, x.offset, len(x.sides)) != (y.base, y.offset, len(y.sides)):
        return False
    if any((a.size, a.stride) != (b.size, b.stride) for a, b in zip(x.sides, y.sides)):
        return False
    distances = [((b.start - a.start).number, a.box, b.box) for a, b in zip(x.sides, y.sides)]
    return any(d is not None and (d >= mine or -d >= theirs) for d, mine, theirs in distances)


class _Build:
    """Writes the new module: boxes of one tensor share a map, behind those that are there."""

    def __init__(self, module, engine, slots, chosen, preconditions):
        self.module, self.boxes = module, {id(box.op): box for box in chosen}
        sizes = range(3) if module.attrs.get("persistent", False) else ()  # the grid comes behind the user's arguments
        self.assumptions = Assumptions(module, preconditions, {slots + k: ("num_programs", "i32", k) for k in sizes})
        self.told, self.numbers, own = list(module.attrs.get("maps", ())), {}, module.args[:slots]
        for key, box in self.boxes.items():
            found = recipe(engine, own, box.op.operands[1].type, box.axis, box.access)
            if found not in self.told:
                self.told.append(found)
            self.numbers[key] = self.told.index(found)

    def build(self):
        module, old = self.module, [x for x in self.module.args if "tensor_map" in x.attrs]
        new = [Arg(T.Ptr(T.u8), f"map.{k}", {"tensor_map": True}) for k in range(len(old), len(self.told))]
        self.maps = [*old, *new]
        swept = sweep(module, self.rule)
        attrs = {"persistent": False, **module.attrs, "maps": tuple(self.told)}
        return swept.replace(body=Block([*module.args, *new], swept.body.ops), attrs=attrs)

    def rule(self, b, op):
        if op.kind not in (ops.store, ops.atomic) or id(b.original) not in self.boxes:
            return None
        key = id(b.original)
        box, tensor = self.boxes[key], self.maps[self.numbers[key]]
        spell = lambda poly: write(b, poly, None, b.value)
        starts = [spell(side.start) for side in box.access.sides]
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


__all__ = ["tma_stores"]
