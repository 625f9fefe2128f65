"""Clones of the ops of an iteration: on buffers that hold its loads, or for a later iteration that is prefetched."""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.core import Result
from .. import ops as gpu_ops
from .schedule import zeros_elsewhere


class IterationEmitter:
    """Clones ops of the body on demand with some values replaced; dots on staged operands become `dot_shared`.

    `more`, an i1, says whether the iteration exists; if not, its addresses are undefined and its loads are masked off.
    """

    def __init__(self, schedule, known, slot=None, more=None):
        self.schedule, self.b, self.known, self.slot, self.more = schedule, schedule.b, known, slot, more
        self.put = {}  # buffers that several dots read
        self.started, self.over = {}, 0  # issued dots in order, and how many of them are finished
        self.meeting: Callable[[], list] | None = None  # runs behind the barrier
        self.outcome = []

    def body(self):
        """Emit the body without its staged loads and their index loads; returns the yielded values."""
        for dot in self.schedule.issued_first:
            self.begin(dot, None)
        for dot in self.in_order():
            self.begun(dot) if self.schedule.stays_in_flight(dot) else self.value(dot)
        for op in self.schedule.body.ops[:-1]:
            if op.kind.effects and op not in self.schedule.loads and op not in self.schedule.indices:
                self.value(op)
        in_flight, yields = self.schedule.in_flight, self.schedule.body.yields
        return [self.begun(y) if k in in_flight else self.value(y) for k, y in enumerate(yields)]

    def in_order(self):
        """Dots that must be issued in this order, independent of their users."""
        return ()

    def value(self, x):
        op = x.op if type(x) is Result else x
        if op not in self.known:
            if op not in self.schedule.inside:
                return x
            outer, self.b.loc = self.b.loc, op.loc
            self.known[op] = self.made(op)
            self.b.loc = outer
        made = self.known[op]
        return Result(made, x.index) if type(x) is Result else made

    def made(self, op):
        schedule = self.schedule
        if op in schedule.dots:
            return self.finished(op)
        if op in schedule.loads:
            found = self.read_back(schedule.slot_address(op, self.slot), op.type, schedule.can.axis(op))
            if zeros_elsewhere(op):
                return found
            _, mask, other = op.operands
            return ops.select(self.b, self.value(mask), found, self.value(other))
        if op in schedule.in_registers:
            operands = [self.in_registers(x, operand) for x, operand in zip(op.operands, "ab")]
            return self.b.place(op.replace(operands=(*operands, self.value(op.operands[2]))))
        if op in schedule.by_threads:
            return self.by_threads(op)
        if op.kind is ops.load and self.more is not None:
            mask, (pointer, *rest) = self.mask(op), (self.value(y) for y in op.operands)
            return self.b.place(op.replace(operands=(pointer, mask, *rest[1:])))
        return self.b.place(op.replace(operands=tuple(self.value(y) for y in op.operands)))

    def by_threads(self, dot):
        """A dot computed by threads without MMA, with both operands in buffers."""
        (a, a_axis), (rhs, b_axis) = (self.in_buffer(x, operand) for operand, x in zip("ab", dot.operands))
        lhs, right, acc = dot.operands[0].type, dot.operands[1].type, self.value(dot.operands[2])
        return gpu_ops.dot_buffers(self.b, a, rhs, acc, lhs=lhs, rhs=right, a_axis=a_axis, b_axis=b_axis)

    def in_buffer(self, x, operand):
        """(address, contiguous axis) of an operand that is in a buffer."""
        if (x, operand) in self.schedule.shared:
            return self.schedule.shared[x, operand]
        load, transposed = self.schedule.source(x)
        axis = self.schedule.can.axis(load)
        return self.schedule.slot_address(load, self.slot), 1 - axis if transposed else axis

    def mask(self, load):
        """The mask of a load in an iteration that may not exist."""
        b, shape = self.b, T.shape(load.type)
        there = ops.splat(b, self.more, shape=shape) if shape else self.more
        return ops.and_(b, there, self.value(load.operands[1])) if len(load.operands) > 1 else there

    def in_registers(self, x, operand):
        """An operand of a dot that reads registers; an operand shared before the loop is read back."""
        address, axis = self.schedule.shared.get((x, operand), (None, 0))
        return self.value(x) if address is None else self.read_back(address, x.type, axis)

    def read_back(self, address, tile, axis):
        return gpu_ops.buffer_load(self.b, address, tile=tile, axis=axis)

    # --- dots: issued, then waited for ---
    def begin(self, dot, pending):
        """Issue a dot, and wait until at most `pending` dots, this one included, are unfinished; None waits for
        none."""
        outer, self.b.loc = self.b.loc, dot.loc
        self.started[dot] = made = self.dot(dot, pending)
        self.b.loc = outer
        return made

    def begun(self, dot):
        """The result of an issued dot, perhaps unfinished; those of the previous iteration are finished."""
        if dot in self.started:
            return self.started[dot]
        self.prepare(dot)
        return self.begin(dot, 1 + len(self.started) - self.over)

    def prepare(self, dot):
        """Emit the definitions of the operands of a dot, which may wait for other dots."""
        schedule, (left, right, total) = self.schedule, dot.operands
        if schedule.source(left)[0] is None and (left, "a") not in {**schedule.shared, **schedule.from_tma}:
            self.left(dot)
        if schedule.source(right)[0] is None:
            self.value(right)
        self.total(total)

    def total(self, x):
        """The accumulator of a dot: a value, or the unfinished result of the dot it chains with."""
        return self.begun(x) if self.schedule.chains_into_next(x) else self.value(x)

    def finished(self, dot):
        """The finished result of a dot. All dots issued before it are finished as well."""
        if dot not in self.started:
            self.prepare(dot)
            self.reduce_first(dot)
            made = self.begin(dot, 0)
        else:
            after = len(self.started) - 1 - list(self.started).index(dot)
            made = gpu_ops.dot_wait(self.b, self.started[dot], pending=after)
        self.over = max(self.over, 1 + list(self.started).index(dot))
        self.met()
        return made

    def reduce_first(self, dot):
        """Emit the reductions that are ready before a dot that is waited for at once, so that their inputs are not live
        while it runs."""
        for op in self.schedule.body.ops[: self.schedule.body.ops.index(dot)]:
            if op.kind is ops.reduce and all(_source(x) in self.known for x in op.operands):
                self.value(op)

    def met(self):
        """Once: emit a barrier, now that the dots of the previous iteration are finished, and run `meeting`."""
        if self.meeting is not None:
            ops.barrier(self.b)
            self.outcome, self.meeting = self.meeting(), None
        return self.outcome

    def dot(self, op, pending):
        (a, a_axis), (rhs, b_axis) = (self.operand(op, x, operand) for operand, x in zip("ab", op.operands))
        return gpu_ops.dot_shared(
            self.b,
            a,
            rhs,
            self.total(op.operands[2]),
            *self.gate(op),
            lhs=op.operands[0].type,
            rhs=op.operands[1].type,
            a_axis=a_axis,
            b_axis=b_axis,
            precision=op.attrs["precision"],
            pending=pending,
        )

    def gate(self, dot):
        """(barrier, parity) of the phase a dot waits for when its operands are ready."""
        return ()

    def operand(self, dot, x, operand):
        """(address or tile, contiguous axis) of operand "a" or "b" of a dot."""
        schedule = self.schedule
        for known in (schedule.shared, schedule.from_tma):
            if (x, operand) in known:
                return known[x, operand]
        load, transposed = schedule.source(x)
        axis = 1
        if load is not None and load in schedule.loads:
            axis = 1 - schedule.can.axis(load) if transposed else schedule.can.axis(load)
            if schedule.layout_fits(dot, load, operand, transposed):
                return schedule.slot_address(load, self.slot), axis
        if operand == "a":
            return self.left(dot), axis
        axis = schedule.best_axis(dot)
        if (x, axis) not in self.put:
            self.share_rhs(dot, axis)
        return self.put[x, axis], axis

    def left(self, dot):
        """The lhs in registers. For a dot that stays in flight it is rounded after the previous dot finished."""
        found = self.schedule.unrounded(dot) if self.schedule.stays_in_flight(dot) else None
        if found is None:
            return self.value(dot.operands[0])
        x, order = found
        return self.value(x) if order is None else ops.trans(self.b, self.value(x), order=order)

    def share_rhs(self, dot, axis):
        """Write an rhs into a buffer with rows along `axis`, together with every other rhs of that layout that depends
        on no dot: each `share` costs a barrier."""
        schedule = self.schedule
        others = [d for d in schedule.dots if not schedule.reads_in_place(d, "b") and schedule.best_axis(d) == axis]
        operands = [dot.operands[1], *(d.operands[1] for d in others if not schedule.needs_dots(d.operands[1]))]
        ready = {(y, axis): self.value(y) for y in operands}
        ready = {key: y for key, y in ready.items() if key not in self.put}
        made = gpu_ops.share(self.b, *ready.values(), axis=axis)
        self.put |= zip(ready, made if type(made) is tuple else (made,))


def _source(x):
    return x.op if type(x) is Result else x
