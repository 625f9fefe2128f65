"""The producer warp: it loads the boxes and rows of every iteration into slots, by TMA where it can.

    for i:
      wait until slot s is empty
      issue the TMA loads of its boxes

A box that TMA cannot read as the language says, such as one that starts before an unmasked tensor, is loaded element by
element.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from .... import ops
from ....analysis.polynomial import Poly, write
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Op, Value
from .. import ops as gpu_ops
from ..analysis.preconditions import Assumptions
from ..tma import by_element, reached
from .iteration import slot_address
from .producer_loop import Load, ProducerLoop, RowLoad
from .slots import SharedBuffers, carrying_loop
from .warp_plan import WarpPlan


class Producer:
    """Emits the producer warp's part of a program. `maps` are the tensor maps; loops in `nonempty` have an
    iteration."""

    def __init__(self, b: Builder, plan: WarpPlan, buffers: SharedBuffers, maps: Sequence[Arg],
                 assumptions: Assumptions, nonempty: Container[Op]):
        self.b, self.plan, self.work, self.buffers, self.maps = b, plan, plan.work, buffers, maps
        self.assumptions, self.nonempty = assumptions, nonempty

    def program(self, coordinates: list[Value], *state: Value) -> tuple[Value, ...]:
        """Emit the loads of a program, from this state on; returns the state after it."""
        b, outer = self.b, self.work.outer
        scalar = _Slice(b, dict(zip(self.plan.lifted.coordinates, coordinates)))
        if outer is None:
            return self.loops(scalar, *state)
        bounds = [scalar(x) for x in outer.operands[:3]]
        with b.region([bounds[0].type, *[T.i32] * len(state)], ["i", *self.buffers.state]) as region:
            index, *own = region.args
            scalar.known[outer.regions[0].args[0]] = index
            ops.yield_(b, *self.loops(scalar, *own))
        return carrying_loop(b, (*bounds, *state), region.block)

    def loops(self, scalar: _Slice, slot: Value, parity: Value, *ahead: Value) -> tuple[Value, ...]:
        ahead = self.tiles_ahead(scalar, *ahead) if ahead else ()
        for loop in self.work.loops:
            lo, hi, step = (scalar(x) for x in loop.op.operands[:3])
            slot, parity = self.loop(loop, (lo, hi, step), slot, parity, scalar)
        return slot, parity, *ahead

    def tiles_ahead(self, scalar: _Slice, slot: Value, parity: Value) -> tuple[Value, ...]:
        """Load the loop-invariant tiles."""
        b, slots = self.b, self.buffers.ahead_slots
        assert slots is not None
        filled = slots.fill(b, slot, parity)
        for load in self.work.ahead:
            self.load(load, slot_address(b, self.buffers.ahead[load.op], load.op.type, slot), filled, None, scalar)
        gpu_ops.mbarrier_arrive(b, filled)
        return slots.after(b, slot, parity)

    def loop(self, loop: ProducerLoop, bounds: tuple[Value, Value, Value], slot: Value, parity: Value,
             scalar: _Slice) -> tuple[Value, ...]:
        b, index, slots = self.b, bounds[0].type, self.buffers.slots
        none = ops.constant(b, value=0, type=T.i64)
        with b.region([index, T.i64, T.i32, T.i32], ["i", "iteration", "slot", "parity"]) as region:
            (_, iteration, mine, phase), scalar = region.args, scalar.inside()
            for number, group in enumerate(loop.groups):
                filled = slots.fill(b, mine, phase, number)
                boxes = [loop.loads[x] for x in group.loads if x in loop.loads]
                for load in sorted(boxes, key=lambda load: -load.blocks):  # multicast first
                    buffer = slot_address(b, self.buffers.multibuffers[load.op], load.op.type, mine)
                    self.load(load, buffer, filled, iteration, scalar, loop.op)
                for row in (loop.rows[x] for x in group.loads if x in loop.rows):
                    self.load_row(row, mine, filled, iteration, scalar)
                gpu_ops.mbarrier_arrive(b, filled)
            more = ops.add(b, iteration, ops.constant(b, value=1, type=T.i64))
            ops.yield_(b, more, *slots.after(b, mine, phase))
        return carrying_loop(b, (*bounds, none, slot, parity), region.block, loop.op in self.nonempty)[1:]

    def load(self, load: Load, buffer: Value, barrier: Value, iteration: Value | None, scalar: _Slice,
             loop: Op | None = None) -> None:
        """Load a box by TMA if it is in range, else element by element; `iteration` is that of `loop`."""
        b, tile, axis = self.b, load.op.type, self.plan.can.axis(load.op)
        b.loc = load.op.loc
        starts = [write(b, dim.start, iteration, scalar) for dim in load.access.dims]
        fits = None
        if not self.assumptions.in_range(load.access, loop=loop):
            fits = reached(b, load.access, starts, sure=load.sure)
        if fits is None:
            self.load_box(load, buffer, barrier, starts)
            return

        def by_hand() -> None:
            inside = scalar.inside()
            origin, numbers, wraps = by_element(b, load.access, tile.shape, lambda x: write(b, x, iteration, inside))
            gpu_ops.element_load(b, buffer, origin, *numbers, tile=tile, axis=axis, wraps=wraps)

        self.branch(fits, lambda: self.load_box(load, buffer, barrier, starts), by_hand)

    def load_box(self, load: Load, buffer: Value, barrier: Value, starts: Sequence[Value]) -> None:
        b, tile, axis = self.b, load.op.type, self.plan.can.axis(load.op)
        where = [ops.cast(b, x, to=T.i32) for x in starts]
        gpu_ops.tma_load(b, buffer, barrier, self.maps[load.number], *where, tile=tile, axis=axis, blocks=load.blocks)

    def load_row(self, row: RowLoad, slot: Value, barrier: Value, iteration: Value, scalar: _Slice) -> None:
        """Copy a row into its buffer, if it lies in one piece and is whole; otherwise the lanes load its elements."""
        b = self.b
        b.loc = row.op.loc
        tile, number = row.op.type, lambda value: ops.constant(b, value=value, type=T.i64)
        buffer = slot_address(b, self.buffers.multibuffers[row.op], tile, slot)
        start, step, low, high = _row_operands(b, row, lambda x: write(b, x, iteration, scalar))
        copy = lambda: gpu_ops.row_load(b, buffer, barrier, start, tile=tile)
        bounds = number(0), number(0), number(1), step, low, high
        by_hand = lambda: gpu_ops.element_load(b, buffer, start, *bounds, tile=T.Tile((1, *tile.shape), tile.element),
                                               axis=1, wraps=(False, False))  # fmt: skip
        if not row.in_one_piece or not row.limits:
            copy() if row.in_one_piece else by_hand()
            return
        whole = ops.and_(b, ops.le(b, low, number(0)), ops.ge(b, high, number(tile.numel)))
        self.branch(whole, copy, by_hand)

    def branch(self, condition: Value, *emit: Callable[[], object]) -> None:
        """Emit a branch: what to emit if the condition holds, and if not."""
        branches = []
        for each in emit:
            with self.b.region() as region:
                each()
                ops.yield_(self.b)
            branches.append(region.block)
        self.b.emit(ops.if_, (condition,), {}, tuple(branches))


def _row_operands(b: Builder, row: RowLoad, spell: Callable[[Poly], Value]) -> tuple[Value, Value, Value, Value]:
    """The address of a row, the step from element to element, and the bounds of those that are loaded. `spell` emits a
    polynomial as an i64."""
    lows, highs = ([x[k] for x in row.limits if x[k] is not None] for k in (1, 2))
    low, high = lows[0] if lows else Poly(), highs[0] if highs else Poly.of(row.op.type.numel)
    assert row.form.base is not None
    start = ops.addptr(b, row.form.base, spell(row.form.offset))
    return start, spell(row.form.axes[0].step), spell(low), spell(high)


class _Slice:
    """Clones scalars of the kernel with some arguments replaced."""

    def __init__(self, b: Builder, known: dict[Value, Value]):
        self.b, self.known = b, known

    def inside(self) -> _Slice:
        """The same for a region: clones made there are not visible behind it."""
        return _Slice(self.b, dict(self.known))

    def __call__(self, x: Value) -> Value:
        if x not in self.known:
            if type(x) is Arg:
                return x
            assert type(x) is Op
            self.known[x] = self.b.place(x.replace(operands=tuple(self(y) for y in x.operands)))
        return self.known[x]
