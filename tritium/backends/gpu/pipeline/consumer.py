"""The loops of the computing warps: rounds of dots on buffers that a copying warp fills.

    for i:
      wait until slot s is full
      acc = dot_shared ring_a[s], ring_b[s], acc
      slot s - 1 is empty
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from .. import ops as gpu_ops
from .iteration import Copy
from .producer import bytes_of

STATE = ("slot", "parity")


def loop_of_rounds(build, b, op, job, slot, parity):
    """A loop in place of `op`, from a slot and the parity of its phase: its results, then the next slot and parity."""
    plan, (lo, hi, step, *inits) = job.plan, op.operands
    carried = [*inits, slot, parity, slot]
    if build.turning:
        gpu_ops.ping_pong_wait(b)
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
        gpu_ops.ping_pong_signal(b)
    for k in plan.late:
        outs[k] = gpu_ops.dot_wait(b, outs[k], pending=0)
    for number, group in enumerate(job.groups):
        if plan.is_late(group.last):
            _empty(b, build, number, last, *(() if attrs["nonempty"] else (plan.goes_on(lo),)))
    return [*outs, slot, parity]


class Round(Copy):
    """One round: every dot waits for boxes that it is the first to read, and gives back what it is the last to read.

    Dots that run on into the next round are over when that has waited for another dot, or when its own have begun.
    """

    def __init__(self, build, job, i, values, slot, parity, before=None, again=None):
        super().__init__(job.plan, {id(a): v for a, v in zip(job.plan.body.args, (i, *values))}, slot)
        self.build, self.parity, self.before, self.again = build, parity, before, again
        self.first, self.last = {}, {}  # by dots: the numbers of groups
        for k, group in enumerate(job.groups):
            self.first.setdefault(id(group.first), []).append(k)
            self.last.setdefault(id(group.last), []).append(k)
        late = {id(group.last) for group in job.groups if job.plan.is_late(group.last)}
        self.unfinished = [k for key in late for k in self.last[key]]  # of the round before
        self.held = {key: groups for key, groups in self.last.items() if key not in late}  # until their dots are over

    def in_order(self):
        """Where several dots read a box, they come in the order that says who is first and who last."""
        return self.plan.dots if self.first != self.last else ()

    def full(self, group):
        """(barrier, parity) of a group's slot that is full."""
        return self.build.at(self.build.full, group, self.slot, self.b), self.parity

    def gate(self, dot):
        """In its turn a dot waits for a box once more, if another has done so before."""
        if not self.takes_turn(dot):
            return ()
        group, *_ = self.first.get(id(dot)) or self.last[id(dot)]
        return self.full(group)

    def takes_turn(self, dot):
        return self.build.turning and self.plan.is_late(dot)

    def begin(self, dot, pending):
        """Turns are passed on when the dots that begin a round are under way."""
        made = super().begin(dot, None if self.build.turning else pending)
        if self.build.turning and dot is self.plan.dots[-2]:
            gpu_ops.ping_pong_signal(self.b)
        elif not self.build.turning and pending is not None:
            self.give_back_late()
        return made

    def dot(self, op, pending):
        self.prepare(op)  # before it waits for its boxes
        for group in () if self.takes_turn(op) else self.first.get(id(op), ()):
            gpu_ops.mbarrier_wait(self.b, *self.full(group))
        return super().dot(op, pending)

    def finished(self, dot):
        if self.build.turning and id(dot) not in self.started:
            self.begin(dot, None)
        made = super().finished(dot)
        self.give_back_late()
        for group in [k for key in list(self.started)[: self.over] for k in self.held.pop(key, ())]:
            _empty(self.b, self.build, group, self.slot)
        return made

    def give_back_late(self):
        """The dots of the round before are over, and so are their boxes."""
        for group in self.unfinished:
            _empty(self.b, self.build, group, self.before, self.again)
        self.unfinished = []


# --- slots ------------------------------------------------------------------------------------------------------------
def _empty(b, build, group, slot, *condition):
    """A group's slot is empty; with a condition, if that holds."""
    gpu_ops.mbarrier_arrive(b, build.at(build.empty, group, slot, b), *condition, blocks=build.blocks)


def i32(b, value):
    return ops.constant(b, value=value, type=T.i32)


def slot_address(b, ring, tile, slot):
    return ops.add(b, ring, ops.mul(b, slot, i32(b, bytes_of(tile))))


__all__ = ["STATE", "i32", "loop_of_rounds", "slot_address"]
