"""The loops of the consumer warps: dots on buffers that a producer warp fills.

    for i:
      wait until slot s is full
      acc = dot_shared buffer_a[s], buffer_b[s], acc
      arrive: slot s - 1 is empty
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from .. import ops as gpu_ops
from .iteration import IterationEmitter

if TYPE_CHECKING:
    from ....ir.builder import Builder
    from ....ir.core import Op, Value
    from .iteration import Emission
    from .producer import ProducerLoop
    from .specialize_warps import _Build

STATE = ("slot", "parity")


def consumer_loop(build: _Build, emission: Emission, op: Op, loop: ProducerLoop, slot: Value,
                  parity: Value) -> list[Value]:
    """Emit the consumer loop for `op`, starting at a slot and the parity of its phase: its results, then the next slot
    and parity."""
    b, schedule, (lo, hi, step, *inits) = emission.b, loop.schedule, op.operands
    carried = [*inits, slot, parity, slot]
    if build.ping_pong:
        gpu_ops.ping_pong_wait(b)
    names = [*(a.name for a in schedule.body.args), *STATE, "before"]
    with b.region([lo.type, *(x.type for x in carried)], names) as region:
        i, *own = region.args
        own, (slot, parity, before) = own[: len(inits)], own[len(inits) :]
        ends = ConsumerIteration(build, emission, loop, i, own, slot, parity, before, ops.ne(b, i, lo)).body()
        ops.yield_(b, *ends, *build.after(slot, parity, b), slot)
    attrs = {**op.attrs, "nonempty": loop in build.nonempty}
    outs = list(b.emit(ops.for_, (lo, hi, step, *carried), attrs, (region.block,)))
    outs, (slot, parity, last) = outs[: len(inits)], outs[len(inits) :]
    if build.ping_pong:
        gpu_ops.ping_pong_signal(b)
    for k in schedule.in_flight:
        outs[k] = gpu_ops.dot_wait(b, outs[k], pending=0)
    for number, group in enumerate(loop.groups):
        if schedule.stays_in_flight(group.last):
            _arrive_empty(b, build, number, last, *(() if attrs["nonempty"] else (emission.has_iteration(lo),)))
    return [*outs, slot, parity]


class ConsumerIteration(IterationEmitter):
    """One iteration: a dot waits for the groups it reads first, and releases those it reads last.

    Dots in flight across the back edge are finished when the next iteration has waited for another dot, or has issued
    its own.
    """

    before: Any  # the slot of the previous iteration and whether there was one, where dots stay in flight
    again: Any

    def __init__(self, build: _Build, emission: Emission, loop: ProducerLoop, i: Value, values: Sequence[Value],
                 slot: Value, parity: Value, before: Value | None = None, again: Value | None = None):
        super().__init__(emission, dict(zip(loop.schedule.body.args, (i, *values))), slot)
        self.build, self.parity, self.before, self.again = build, parity, before, again
        self.rows = {row: k for k, group in enumerate(loop.groups) for row in group.keys if row in loop.rows}
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
        return self.build.at(self.build.full, group, self.slot, self.b), self.parity

    def gate(self, dot: Op) -> tuple[Value, ...]:
        """A dot that waits for the other warpgroup waits for its box at that point, too."""
        if not self.waits_for_turn(dot):
            return ()
        group, *_ = self.first.get(dot) or self.last[dot]
        return self.full(group)

    def waits_for_turn(self, dot: Op) -> bool:
        return self.build.ping_pong and self.schedule.stays_in_flight(dot)

    def begin(self, dot: Op, pending: int | None) -> Value:
        """The other warpgroup is signaled when the dots at the start of an iteration are issued."""
        made = super().begin(dot, None if self.build.ping_pong else pending)
        if self.build.ping_pong and dot is self.schedule.dots[-2]:
            gpu_ops.ping_pong_signal(self.b)
        elif not self.build.ping_pong and pending is not None:
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
        if self.build.ping_pong and dot not in self.started:
            self.begin(dot, None)
        made = super().finished(dot)
        self.release_in_flight()
        for group in [k for key in list(self.started)[: self.over] for k in self.held.pop(key, ())]:
            _arrive_empty(self.b, self.build, group, self.slot)
        return made

    def release_in_flight(self) -> None:
        """The dots of the previous iteration are finished: release their slots."""
        for group in self.unfinished:
            _arrive_empty(self.b, self.build, group, self.before, self.again)
        self.unfinished = []


# --- slots ------------------------------------------------------------------------------------------------------------
def _arrive_empty(b: Builder, build: _Build, group: int, slot: Value, *condition: Value) -> None:
    """Arrive at the barrier of an empty slot; with a condition, if it holds."""
    gpu_ops.mbarrier_arrive(b, build.at(build.empty, group, slot, b), *condition, blocks=build.blocks)


def i32(b: Builder, value: int) -> Value:
    return ops.constant(b, value=value, type=T.i32)


__all__ = ["STATE", "consumer_loop", "i32"]
