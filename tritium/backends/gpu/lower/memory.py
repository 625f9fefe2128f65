"""Global memory: vector loads and stores, predicated by masks; atomics, executed once for each element."""

from __future__ import annotations

from collections.abc import Sequence

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ...llvm.numbering import NumberingWriter
from ...llvm.writer import Val
from .. import ops as gpu_ops
from ..analysis.scalar_updates import is_ordered_update
from ..layout.values import LARGE, at_once, layout_of, loaded_late
from ..shared_memory.needs import Need, Room, takes_shared
from .function import Lowering, llvm_type, lower, spread_need
from .registers import Registers
from .words import constant, memory_type, to_memory


def _groups(op: Op, pointers: Sequence[Val]) -> tuple[range, int]:
    """First registers of the vector accesses, and their width."""
    width = op.attrs.get("vector") or 1
    return range(0, len(pointers), width), width


def allowed(mask: Sequence[Val] | None, r: int) -> Val | None:
    """The mask of register r (i1, "false" if it is never allowed); None if it always is."""
    return None if mask is None or mask[r] == "true" else mask[r]


@lower(ops.load)
def load(g: Lowering, op: Op, pointers: Sequence[Val], mask: Sequence[Val] | None = None,
         other: Sequence[Val] | None = None) -> Sequence[Val]:
    t, w = T.element(op.type), g.w
    starts, width = _groups(op, pointers)
    seen = {}  # what registers of one address share

    def vector(r: int) -> list[Val]:
        fill = None if other is None else [to_memory(w, t, other[r + k]) for k in range(width)]
        key = pointers[r], allowed(mask, r), fill and tuple(fill)
        if key[1] == "false":
            return [constant(w, t, 0)] * width if other is None else list(other[r:r + width])
        if key not in seen or op.attrs["volatile"]:
            seen[key] = g.target.load(g, key[0], memory_type(t), width, key[1], fill, op.attrs)
        return [_from_memory(w, t, x) for x in seen[key]]

    shares = op in g.overlapping and len(pointers) < LARGE
    beside = loaded_late(op, any(kind.mma for kind in g.module.kinds))
    if not shares and (not beside or op.attrs["volatile"]):
        return [x for r in starts for x in vector(r)]
    found: dict[int, list[Val]] = {}

    def element(r: int) -> Val:
        first = r - r % width
        if first not in found and shares:
            there = _loaded(g, pointers, mask, other, r)
            if there is not None:
                return there
            found[first] = vector(first)
            _note_loaded(g, op, pointers, mask, other, first, found[first])
        elif first not in found:
            begin = r - r % beside
            found.update((k, vector(k)) for k in range(begin, min(begin + beside, len(pointers)), width))
        return found[first][r - first]

    return g.load_together(len(pointers), width, element) if shares else g.load_late(len(pointers), element)


def _loaded(g: Lowering, pointers: Sequence[Val], mask: Sequence[Val] | None, other: Sequence[Val] | None,
            r: int) -> Val | None:
    """What another tile has loaded for register r, under the same mask."""
    return g.loaded.get((*g.sum_of(pointers[r]), mask and mask[r], other and other[r]))


def _note_loaded(g: Lowering, op: Op, pointers: Sequence[Val], mask: Sequence[Val] | None, other: Sequence[Val] | None,
                 first: int, values: Sequence[Val]) -> None:
    at, offset = g.sum_of(pointers[first])
    for k, x in enumerate(values):
        key = at, offset + k * T.element(op.type).bytes, mask and mask[first], other and other[first + k]
        g.loaded.setdefault(key, x)


def _from_memory(w: NumberingWriter, t: T.Scalar | T.Ptr, x: Val) -> Val:
    if t is T.i1:
        return w.compare("icmp ne", x, w.const("i8", 0))
    return w.cast("inttoptr", x, llvm_type(t)) if type(t) is T.Ptr else x


@lower(ops.store)
def store(g: Lowering, op: Op, pointers: Sequence[Val], values: Sequence[Val],
          mask: Sequence[Val] | None = None) -> None:
    t, w = T.element(op.operands[1].type), g.w
    once = g.owns(g.layout(op.operands[0]))
    starts, width = _groups(op, pointers)
    # What is updated in place is loaded late: no load moves above a store, so each would be waited for by itself.
    together = at_once(width, t) if type(values) is Registers and values.loads else 1
    for first in range(0, len(starts), together):
        masks = {r: allowed(mask, r) for r in starts[first:first + together]}
        items = {r: [to_memory(w, t, x) for x in values[r:r + width]] for r, x in masks.items() if x != "false"}
        for r, elements in items.items():
            g.target.store(g, pointers[r], elements, w.all_of(once, masks[r]), op.attrs)


@lower(gpu_ops.schedule_fence)
def schedule_fence(g: Lowering, op: Op) -> None:
    g.target.schedule_fence(g)


def _old_values(op: Op, room: Room) -> Need | None:
    """What the old values of an atomic op take of shared memory, on their way to all that want them."""
    return spread_need(T.element(op.type), layout_of(op)) if op in room.used else None


@lower(ops.atomic, ops.atomic_cas)
@takes_shared(_old_values)
def atomic(g: Lowering, op: Op, pointers: Sequence[Val], *operands: Sequence[Val]) -> Sequence[Val]:
    """Each element once, by the lowest place that holds it; the old values then go to every place that wants them. If
    nobody does, the target need not bring them."""
    cas = op.kind is ops.atomic_cas
    values, mask = operands[:2] if cas else operands[:1], None if cas or len(operands) < 2 else operands[1]
    t, w = T.element(op.type), g.w
    layout = g.layout(op)
    once = g.owns(layout)
    before, behind = op.attrs.get("meets", (True, True)) if is_ordered_update(op) else (False, False)
    if before:
        g.target.barrier(g)  # what the program's other threads wrote happens before
    old, (starts, width) = [], _groups(op, pointers)
    for r in starts:
        inside = w.all_of(once, allowed(mask, r))
        old += g.target.atomic(g, op, pointers[r], t, [v[r : r + width] for v in values], inside)
    if op in g.used:
        return g.spread_owned(op, old, t, layout)
    if behind:
        g.target.barrier(g)
    return old
