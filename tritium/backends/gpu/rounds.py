"""The loops of the computing warps: rounds of dots on buffers that a copying warp fills.

    for i:
      wait until slot s is full
      acc = dot_shared ring_a[s], ring_b[s], acc
      slot s - 1 is empty
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from . import ops as gpu_ops
from .copy_jobs import bytes_of
from .pipeline_loops import Copy

STATE = ("slot", "parity")


def loop_of_rounds(build, b, op, job, slot, parity):
    """A loop in place of `op`, from a slot and the parity of its phase: its results, then the next slot and parity."""
    plan, (lo, hi, step, *inits) = job.plan, op.operands
    carried = [*inits, slot, parity, slot]
    if build.turning:
        gpu_ops.take_turn(b)
    names = [*(a.name for a in plan.body.args), *STATE, "before"]
    with b.region([lo.type, *(x.type for x in carried)], names) as region:
        i, *own = region.args
        own, (slot, parity, before) = own[: len(inits)], own[len(inits) :]
        ends = Round(build, job, i, own, slot, parity, before, ops.ne(b, i, lo)).body()
        ops.yield_(b, *ends, *build.after(slot, parity, b), slot)
    attrs = {**op.attrs, "nonempty": job in build.nonempty}
    outs = list(b.emit(ops.for_, (lo, hi, step, *carried), attrs, (region.block,)))
    outs, (slot, parity, last) = outs[: len(inits)], outs[len(inits) :]
    if build.turning:
        gpu_ops.pass_turn(b)
    if plan.late is not None:
        outs[plan.late] = gpu_ops.dot_wait(b, outs[plan.late], pending=0)
        used = () if attrs["nonempty"] else (plan.goes_on(lo),)
        for number, group in enumerate(job.groups):
            if group.last is plan.body.yields[plan.late]:
                _empty(b, build, number, last, *used)
    return [*outs, slot, parity]


class Round(Copy):
    """One round: every dot waits for boxes that it is the first to read, and gives back what it is the last to read.

    A dot that runs on into the next round is over when that has waited for another dot, or when its own has begun.
    """

    def __init__(self, build, job, i, values, slot, parity, before=None, again=None):
        super().__init__(job.plan, {id(a): v for a, v in zip(job.plan.body.args, (i, *values))}, slot)
        self.build, self.parity, self.before, self.again = build, parity, before, again
        self.first, self.last = {}, {}  # by dots: the numbers of groups
        for k, group in enumerate(job.groups):
            self.first.setdefault(id(group.first), []).append(k)
            self.last.setdefault(id(group.last), []).append(k)
        late = job.plan.late
        self.late = None if late is None else job.plan.body.yields[late]
        self.unfinished = self.last.get(id(self.late), ())  # of the round before

    def body(self):
        """As the copy's; where several dots read a box, they come in the order that says who is first and who last."""
        if self.first != self.last:
            for dot in self.plan.dots:
                self.value(dot)
        return super().body()

    def pending(self, dot):
        """All but the late one are waited for: their buffers are given back. But first a turn is passed on."""
        return None if self.build.turning else int(dot is self.late)

    def full(self, group):
        """(barrier, parity) of a group's slot that is full."""
        return self.build.at(self.build.full, group, self.slot, self.b), self.parity

    def gate(self, dot):
        return self.full(*self.first[id(dot)]) if self.takes_turn(dot) else ()

    def takes_turn(self, dot):
        return self.build.turning and dot is self.late

    def dot(self, op):
        for x in op.operands:
            if self.plan.source(x)[0] is None:
                self.value(x)  # what it is computed from comes before the wait
        for group in () if self.takes_turn(op) else self.first.get(id(op), ()):
            gpu_ops.await_phase(self.b, *self.full(group))
        made = super().dot(op)
        if self.build.turning and op is not self.late:
            gpu_ops.pass_turn(self.b)
            made = gpu_ops.dot_wait(self.b, made, pending=0)
        if op is not self.late or op.operands[2] in self.plan.body.args:
            for group in self.unfinished:
                _empty(self.b, self.build, group, self.before, self.again)
            self.unfinished = ()
        for group in () if op is self.late else self.last.get(id(op), ()):
            _empty(self.b, self.build, group, self.slot)
        return made


# --- slots ------------------------------------------------------------------------------------------------------------
def _empty(b, build, group, slot, *condition):
    """A group's slot is empty; with a condition, if that holds."""
    gpu_ops.arrive(b, build.at(build.empty, group, slot, b), *condition, blocks=build.blocks)


def i32(b, value):
    return ops.constant(b, value=value, type=T.i32)


def slot_address(b, ring, tile, slot):
    return ops.add(b, ring, ops.mul(b, slot, i32(b, bytes_of(tile))))


__all__ = ["STATE", "i32", "loop_of_rounds", "slot_address"]
