"""The loops of the computing warps: rounds of dots on buffers that a copying warp fills.

    for i:                                                take a turn
      wait until slot s is full                           s = dot q, k[0]
      acc = dot_shared ring_a[s], ring_b[s], acc          pass it on
      slot s - 1 is empty                                 p, acc = ... s ...
                                                          for i from the second round on:
                                                            take a turn
                                                            s = dot q, k[i];  acc = dot p, v[i - 1], acc
                                                            pass it on
                                                            p, acc = ... s ..., while the second dot is running
                                                          acc = dot p, v[the last], acc

On the left any loop; on the right two dots, the second of which needs what is computed from the first. If the second of
a round begins together with the first of the next, tensor cores work while that is computed even if no other warps keep
them busy. This is how loops go whose groups of warps take turns (see `turns`).
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from . import ops as gpu_ops
from .copy_jobs import bytes_of
from .pipeline_loops import Copy

STATE = ("slot", "parity")


def plain_loop(build, b, op, job, slot, parity):
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
    outs = list(b.emit(ops.for_, (lo, hi, step, *carried), op.attrs, (region.block,)))
    outs, (slot, parity, last) = outs[: len(inits)], outs[len(inits) :]
    if build.turning:
        gpu_ops.pass_turn(b)
    if plan.late is not None:
        outs[plan.late] = gpu_ops.dot_wait(b, outs[plan.late], pending=0)
        for group, (dot, _) in enumerate(job.groups):
            if dot is plan.body.yields[plan.late]:
                _empty_if(b, build, group, last, plan.goes_on(lo))
    return [*outs, slot, parity]


class Round(Copy):
    """One round: every dot waits for its boxes, and the buffers of dots that are over are given back.

    A dot that runs on into the next round is over when that has waited for another dot, or when its own has begun.
    """

    def __init__(self, build, job, i, values, slot, parity, before=None, again=None):
        super().__init__(job.plan, {id(a): v for a, v in zip(job.plan.body.args, (i, *values))}, slot)
        self.build, self.parity, self.before, self.again = build, parity, before, again
        self.groups = {id(dot): k for k, (dot, _) in enumerate(job.groups)}
        late = job.plan.late
        self.late = None if late is None else job.plan.body.yields[late]
        self.unfinished = self.groups.get(id(self.late))  # of the round before

    def pending(self, dot):
        """All but the late one are waited for: their buffers are given back. But first a turn is passed on."""
        return None if self.build.turning else int(dot is self.late)

    def full(self, group):
        """(barrier, parity) of a group's slot that is full."""
        return self.build.at(self.build.full, group, self.slot, self.b), self.parity

    def gate(self, dot):
        return self.full(self.groups[id(dot)]) if self.takes_turn(dot) else ()

    def takes_turn(self, dot):
        return self.build.turning and dot is self.late

    def dot(self, op):
        for x in op.operands:
            if self.plan.source(x)[0] is None:
                self.value(x)  # what it is computed from comes before the wait
        group = self.groups.get(id(op))
        if group is not None and not self.takes_turn(op):
            gpu_ops.await_phase(self.b, *self.full(group))
        made = super().dot(op)
        if self.build.turning and op is not self.late:
            gpu_ops.pass_turn(self.b)
            made = gpu_ops.dot_wait(self.b, made, pending=0)
        if self.unfinished is not None and (op is not self.late or op.operands[2] in self.plan.body.args):
            _empty_if(self.b, self.build, self.unfinished, self.before, self.again)
            self.unfinished = None
        if group is not None and op is not self.late:
            _empty(self.b, self.build, group, self.slot)
        return made


# --- two rounds at once -----------------------------------------------------------------------------------------------
def overlapped_loop(build, b, op, job, slot, parity):
    """As `plain_loop`, for groups that take turns: the second dot of a round begins with the first of the next."""
    plan, (lo, hi, step, *inits) = job.plan, op.operands
    with b.region() as then:
        carried = [*_Overlapped(build, job, lo, inits, slot, parity).first(), lo, slot, parity]
        names = [*(a.name for a in plan.body.args), "left", "i", *STATE]
        with b.region([lo.type, *(x.type for x in carried)], names) as region:
            _, *values, left, i, own, phase = region.args
            after, further = build.after(own, phase, b), ops.add(b, i, step)
            ends = _Overlapped(build, job, further, values, *after).both(left, own)
            ops.yield_(b, *ends, further, *after)
        outs = b.emit(ops.for_, (lo, ops.sub(b, hi, step), step, *carried), op.attrs, (region.block,))
        *values, left, i, own, phase = outs
        values[plan.late] = _Overlapped(build, job, i, values, own, phase).last(left)
        ops.yield_(b, *values, *build.after(own, phase, b))
    with b.region() as other:
        ops.yield_(b, *inits, slot, parity)
    return list(b.emit(ops.if_, (plan.goes_on(lo),), {}, (then.block, other.block)))


class _Overlapped(Round):
    """A round, whose second dot begins in the next one. `running` is that of the round before: its sum so far, and the
    slot it reads."""

    FIRST, SECOND = range(2)  # groups

    def __init__(self, build, job, i, values, slot, parity):
        super().__init__(build, job, i, values, slot, parity)
        self.sum, self.running = self.plan.body.args[1 + self.plan.late], None

    def first(self):
        """The first dot, and all that follows."""
        made = _Begun(self.plan, self.known, self.slot, self.full(self.FIRST)).dot(self.plan.dots[0])
        gpu_ops.pass_turn(self.b)
        return self.rest(made, 0)

    def both(self, left, slot):
        """The first dot, with the second one of the round before: its left side and its slot. Then all that follows."""
        made = _Begun(self.plan, self.known, self.slot, self.full(self.FIRST)).dot(self.plan.dots[0])
        self.begin_second(left, slot)
        gpu_ops.pass_turn(self.b)
        return self.rest(made, 1)

    def last(self, left):
        """The second dot by itself: the sum."""
        self.begin_second(left, self.slot, self.full(self.SECOND))
        gpu_ops.pass_turn(self.b)
        return self.value(self.sum)

    def begin_second(self, left, slot, phase=()):
        a, _, total = self.late.operands
        known = {id(a): left, id(total): self.known[id(self.sum)]}
        self.running = _Begun(self.plan, known, slot, phase).dot(self.late), slot

    def rest(self, made, pending):
        """What follows from the first dot, with so many begun behind it: values for the next round, among them its sum
        as far as the second dot takes it up, then that dot's left side.

        This is computed while the other dot runs, but for rounding: that waits for registers which the dot reads.
        """
        b, (left, _, total) = self.b, self.late.operands
        self.known[id(self.plan.dots[0])] = gpu_ops.dot_wait(b, made, pending=pending)
        _empty(b, self.build, self.FIRST, self.slot)
        ends = [None if y is self.late else self.value(y) for y in self.plan.body.yields]
        wide = left.operands[0] if left.kind is ops.cast else left
        self.known[id(wide)] = gpu_ops.settle(b, self.value(wide))
        gpu_ops.await_phase(b, *self.full(self.SECOND))
        self.value(self.sum)
        ends[self.plan.late] = self.value(total)
        return [*ends, self.value(left)]

    def value(self, x):
        if x is self.sum and self.running:
            (made, slot), self.running = self.running, None
            self.known[id(x)] = gpu_ops.dot_wait(self.b, made, pending=0)
            _empty(self.b, self.build, self.SECOND, slot)
        return super().value(x)


class _Begun(Copy):
    """A dot that is begun and not waited for; with a phase, when that is over and a turn is taken."""

    def __init__(self, plan, known, slot, phase):
        super().__init__(plan, known, slot)
        self.phase = phase

    def gate(self, dot):
        return self.phase

    def pending(self, dot):
        return None


# --- slots ------------------------------------------------------------------------------------------------------------
def _empty_if(b, build, group, slot, condition):
    """A group's slot is empty, if there was a round that used it."""
    with b.region() as then:
        _empty(b, build, group, slot)
        ops.yield_(b)
    with b.region() as other:
        ops.yield_(b)
    b.emit(ops.if_, (condition,), {}, (then.block, other.block))


def _empty(b, build, group, slot):
    """A group's slot is empty."""
    gpu_ops.arrive(b, build.at(build.empty, group, slot, b), blocks=build.blocks)


def i32(b, value):
    return ops.constant(b, value=value, type=T.i32)


def slot_address(b, ring, tile, slot):
    return ops.add(b, ring, ops.mul(b, slot, i32(b, bytes_of(tile))))


__all__ = ["STATE", "i32", "overlapped_loop", "plain_loop", "slot_address"]
