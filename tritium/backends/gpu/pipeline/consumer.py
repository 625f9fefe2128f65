"""The consumer warps: they run the kernel, with dots on buffers that a producer warp fills.

    for i:
      wait until slot s is full
      acc = dot_shared buffer_a[s], buffer_b[s], acc
      arrive: slot s - 1 is empty
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from .... import ops
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Op, Value
from ....ir.rewrite import Rewriter, substitute, sweep
from .. import ops as gpu_ops
from .iteration import Emission, IterationEmitter, slot_address
from .producer_loop import ProducerLoop
from .slots import STATE, SharedBuffers, state_args
from .warp_plan import WarpPlan


class Consumer:
    """Emits the consumer warps' part of a program. Loops in `nonempty` have an iteration."""

    def __init__(self, b: Builder, plan: WarpPlan, buffers: SharedBuffers, nonempty: Container[Op]):
        self.b, self.plan, self.buffers, self.nonempty = b, plan, buffers, nonempty

    def program(self, coordinates: list[Value], *begin: Value) -> tuple[Value, ...]:
        """Emit a program, from this state on; returns the state after it."""
        lifted, state = self.plan.lifted, state_args(self.buffers.state)
        rewrite = _Rewrite(self, state)
        body = sweep(lifted.module, rewrite.rule).body
        ends = Op(ops.yield_, rewrite.state, {}, ())
        values = [*lifted.original.args, *coordinates, *begin]
        return substitute(self.b, Block([*body.args, *state], [*body.ops, ends]), values)


class _Rewrite:
    """Rewrites the kernel: its loops read filled buffers. `state` are the slot and the parity of the next iteration,
    and those of the tiles loaded ahead."""

    state: tuple[Any, ...]

    def __init__(self, consumer: Consumer, state: tuple[Arg, ...]):
        self.consumer, self.plan, self.buffers = consumer, consumer.plan, consumer.buffers
        self.state = self.before = state
        self.tiles = {}  # those loaded ahead, as `Emission.outer` has them
        self.loops = {loop.op.regions[0]: loop for loop in self.plan.work.loops}
        if self.plan.work.outer is not None:  # its regions come before it: they begin with parameters it has yet to get
            self.state = self.carried = state_args(self.buffers.state)

    def rule(self, b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if b.original is self.plan.work.outer:
            return self.around(b, op)
        loop = self.loops.get(op.regions[0]) if op.kind is ops.for_ else None
        return self.loop(b, op, loop) if loop else None

    def around(self, b: Builder, op: Op) -> tuple[Value, ...]:
        """The loop around the producer loops carries the state."""
        (body,) = op.regions
        ends = Op(ops.yield_, (*body.yields, *self.state), {}, ())
        region = Block([*body.args, *self.carried], [*body.ops[:-1], ends])
        attrs, operands = op.attrs, (*op.operands, *self.before)
        outs = b.place(Op(ops.for_, operands, attrs, tuple(x.type for x in operands[3:]), (region,), op.loc)).results
        self.state = outs[len(body.yields) :]
        return outs[: len(body.yields)]

    def loop(self, b: Builder, op: Op, loop: ProducerLoop) -> tuple[Value, ...]:
        (slot, parity, *ahead), loops = self.state, self.plan.work.loops
        if ahead and loop is loops[0]:
            self.wait_for_tiles(b, *ahead)
        emission = Emission(loop.schedule, b, op.operands[1], self.buffers.multibuffers, {**self.tiles})
        outer = loop.schedule.outer_operands()
        shared = emission.share({key: axis for key, axis in outer.items() if key not in self.tiles})
        emission.outer |= shared
        *outs, slot, parity = _consumer_loop(self.consumer, emission, op, loop, slot, parity)
        self.state = (slot, parity, *ahead)
        for address, _ in list(shared.values())[:1]:
            gpu_ops.release(b, address)
        if ahead and loop is loops[-1]:
            self.release_tiles(b, *ahead)
        if loop is loops[-1] and self.plan.ends_with_last_loop:
            gpu_ops.release(b, next(iter(self.buffers.multibuffers.values())))
        return tuple(outs)

    def wait_for_tiles(self, b: Builder, slot: Value, parity: Value) -> None:
        """Wait for the tiles loaded ahead; dots read them in their buffers."""
        assert self.buffers.ahead_slots is not None
        gpu_ops.mbarrier_wait(b, self.buffers.ahead_slots.when_full(b, slot), parity)
        for load, buffer in self.buffers.ahead.items():
            where = slot_address(b, buffer, load.type, slot), self.plan.can.axis(load)
            self.tiles |= {(load, operand): where for operand in "ab"}

    def release_tiles(self, b: Builder, slot: Value, parity: Value) -> None:
        slots = self.buffers.ahead_slots
        assert slots is not None
        slots.release(b, slot)
        self.state = (*self.state[:2], *slots.after(b, slot, parity))


# --- loops ------------------------------------------------------------------------------------------------------------
def _consumer_loop(consumer: Consumer, emission: Emission, op: Op, loop: ProducerLoop, slot: Value,
                   parity: Value) -> list[Value]:
    """Emit the consumer loop for `op`, starting at a slot and the parity of its phase: its results, then the next slot
    and parity."""
    b, schedule, (lo, hi, step, *inits) = emission.b, loop.schedule, op.operands
    slots, ping_pong = consumer.buffers.slots, consumer.plan.ping_pong
    carried = [*inits, slot, parity, slot]
    if ping_pong:
        gpu_ops.ping_pong_wait(b)
    names = [*(a.name for a in schedule.body.args), *STATE, "before"]
    with b.region([lo.type, *(x.type for x in carried)], names) as region:
        i, *own = region.args
        own, (slot, parity, before) = own[: len(inits)], own[len(inits) :]
        ends = _ConsumerIteration(consumer, emission, loop, i, own, slot, parity, before, ops.ne(b, i, lo)).body()
        ops.yield_(b, *ends, *slots.after(b, slot, parity), slot)
    attrs = {**op.attrs, "nonempty": loop.op in consumer.nonempty}
    outs = list(b.emit(ops.for_, (lo, hi, step, *carried), attrs, (region.block,)))
    outs, (slot, parity, last) = outs[: len(inits)], outs[len(inits) :]
    if ping_pong:
        gpu_ops.ping_pong_signal(b)
    for k in schedule.in_flight:
        outs[k] = gpu_ops.dot_wait(b, outs[k], pending=0)
    for number, group in enumerate(loop.groups):
        if schedule.stays_in_flight(group.last):
            slots.release(b, last, number, *(() if attrs["nonempty"] else (emission.has_iteration(lo),)))
    return [*outs, slot, parity]


class _ConsumerIteration(IterationEmitter):
    """One iteration: a dot waits for the groups it reads first, and releases those it reads last.

    Dots in flight across the back edge are finished when the next iteration has waited for another dot, or has issued
    its own.
    """

    def __init__(self, consumer: Consumer, emission: Emission, loop: ProducerLoop, i: Value, values: Sequence[Value],
                 slot: Value, parity: Value, before: Value, again: Value):
        super().__init__(emission, dict(zip(loop.schedule.body.args, (i, *values))), slot)
        self.slots, self.ping_pong, self.parity = consumer.buffers.slots, consumer.plan.ping_pong, parity
        self.before, self.again = before, again  # the slot of the previous iteration, and whether there was one
        self.rows = {row: k for k, group in enumerate(loop.groups) for row in group.loads if row in loop.rows}
        self.there = set()  # groups that have been waited for
        self.first, self.last = {}, {}  # dot -> numbers of groups
        for k, group in enumerate(loop.groups):
            self.first.setdefault(group.first, []).append(k)
            self.last.setdefault(group.last, []).append(k)
        in_flight = dict.fromkeys(group.last for group in loop.groups if loop.schedule.stays_in_flight(group.last))
        self.unfinished = [k for key in in_flight for k in self.last[key]]  # of the previous iteration
        self.held = {key: groups for key, groups in self.last.items() if key not in in_flight}

    def in_order(self) -> tuple[Op, ...]:
        """If several dots read a box, they are issued in the order that defines the first and the last reader."""
        return self.schedule.dots if self.first != self.last else ()

    def full(self, group: int) -> tuple[Value, Value]:
        """(barrier, parity) of the full slot of a group."""
        return self.slots.when_full(self.b, self.slot, group), self.parity

    def gate(self, dot: Op) -> tuple[Value, ...]:
        """A dot that waits for the other warpgroup waits for its box at that point, too."""
        if not self.waits_for_turn(dot):
            return ()
        group, *_ = self.first.get(dot) or self.last[dot]
        return self.full(group)

    def waits_for_turn(self, dot: Op) -> bool:
        return self.ping_pong and self.schedule.stays_in_flight(dot)

    def begin(self, dot: Op, pending: int | None) -> Value:
        """The other warpgroup is signaled when the dots at the start of an iteration are issued."""
        made = super().begin(dot, None if self.ping_pong else pending)
        if self.ping_pong and dot is self.schedule.dots[-2]:
            gpu_ops.ping_pong_signal(self.b)
        elif not self.ping_pong and pending is not None:
            self.release_in_flight()
        return made

    def dot(self, op: Op, pending: int | None) -> Value:
        self.prepare(op)  # before it waits for its boxes
        for group in () if self.waits_for_turn(op) else self.first.get(op, ()):
            gpu_ops.mbarrier_wait(self.b, *self.full(group))
            self.there.add(group)
        return super().dot(op, pending)

    def made(self, op: Op) -> Value:
        """A row is read when its group is there."""
        group = self.rows.get(op)
        if group is not None and group not in self.there:
            gpu_ops.mbarrier_wait(self.b, *self.full(group))
            self.there.add(group)
        return super().made(op)

    def finished(self, dot: Op) -> Value:
        if self.ping_pong and dot not in self.started:
            self.begin(dot, None)
        made = super().finished(dot)
        self.release_in_flight()
        for group in [k for key in list(self.started)[: self.over] for k in self.held.pop(key, ())]:
            self.slots.release(self.b, self.slot, group)
        return made

    def release_in_flight(self) -> None:
        """The dots of the previous iteration are finished: release their slots."""
        for group in self.unfinished:
            self.slots.release(self.b, self.before, group, self.again)
        self.unfinished = []
