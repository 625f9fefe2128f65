"""The ops of a round made again: on buffers that hold what was loaded, or for a later round that runs ahead."""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.core import Result
from .. import ops as gpu_ops
from .schedule import zeros_elsewhere


class Copy:
    """Copies body ops on demand with some values replaced; dots on staged operands become `dot_shared`.

    With `more`, an i1, of a round that there may not be: then its addresses are any, and nothing is loaded from them.
    """

    def __init__(self, plan, known, slot=None, more=None):
        self.plan, self.b, self.known, self.slot, self.more = plan, plan.b, known, slot, more
        self.put = {}  # values that several dots read from one buffer
        self.started, self.over = {}, 0  # dots of this round in order, and how many of them are over
        self.meeting: Callable[[], list] | None = None  # what is to be done when all warps have met
        self.outcome = []

    def body(self):
        """The whole body but its staged loads, and indices that serve only those; returns the yielded values."""
        for dot in self.plan.early:
            self.begin(dot, None)
        for dot in self.in_order():
            self.begun(dot) if self.plan.is_late(dot) else self.value(dot)
        for op in self.plan.body.ops[:-1]:
            if op.kind.effects and id(op) not in self.plan.loads and op not in self.plan.indices:
                self.value(op)
        return [self.begun(y) if k in self.plan.late else self.value(y) for k, y in enumerate(self.plan.body.yields)]

    def in_order(self):
        """Dots that must come in this order, whoever asks for their results."""
        return ()

    def value(self, x):
        op = x.op if type(x) is Result else x
        if id(op) not in self.known:
            if id(op) not in self.plan.inside:
                return x
            outer, self.b.loc = self.b.loc, op.loc
            self.known[id(op)] = self.made(op)
            self.b.loc = outer
        made = self.known[id(op)]
        return Result(made, x.index) if type(x) is Result else made

    def made(self, op):
        plan = self.plan
        if op in plan.dots:
            return self.finished(op)
        if id(op) in plan.loads:
            found = self.read_back(plan.slot_address(id(op), self.slot), op.type, plan.can.axis(op))
            if zeros_elsewhere(op):
                return found
            _, mask, other = op.operands
            return ops.select(self.b, self.value(mask), found, self.value(other))
        if op in plan.in_registers:
            sides = [self.in_registers(x, side) for x, side in zip(op.operands, "ab")]
            return self.b.place(op.replace(operands=(*sides, self.value(op.operands[2]))))
        if op in plan.by_threads:
            return self.by_threads(op)
        if op.kind is ops.load and self.more is not None:
            mask, (pointer, *rest) = self.mask(op), (self.value(y) for y in op.operands)
            return self.b.place(op.replace(operands=(pointer, mask, *rest[1:])))
        return self.b.place(op.replace(operands=tuple(self.value(y) for y in op.operands)))

    def by_threads(self, dot):
        """A dot whose sides threads read from buffers."""
        (a, a_axis), (rhs, b_axis) = (self.in_buffer(x, side) for side, x in zip("ab", dot.operands))
        lhs, right, acc = dot.operands[0].type, dot.operands[1].type, self.value(dot.operands[2])
        return gpu_ops.dot_buffers(self.b, a, rhs, acc, lhs=lhs, rhs=right, a_axis=a_axis, b_axis=b_axis)

    def in_buffer(self, x, side):
        """(address, axis its rows lie along) of an operand that is in a buffer."""
        if (id(x), side) in self.plan.shared:
            return self.plan.shared[id(x), side]
        load, turned = self.plan.source(x)
        axis = self.plan.can.axis(load)
        return self.plan.slot_address(id(load), self.slot), 1 - axis if turned else axis

    def mask(self, load):
        """Where to load for a round that there may not be."""
        b, shape = self.b, T.shape(load.type)
        there = ops.splat(b, self.more, shape=shape) if shape else self.more
        return ops.and_(b, there, self.value(load.operands[1])) if len(load.operands) > 1 else there

    def in_registers(self, x, side):
        """An operand of a dot that takes none from buffers; what was put into one before the loop is read back."""
        address, axis = self.plan.shared.get((id(x), side), (None, 0))
        return self.value(x) if address is None else self.read_back(address, x.type, axis)

    def read_back(self, address, tile, axis):
        return gpu_ops.buffer_load(self.b, address, tile=tile, axis=axis)

    # --- dots: begun, perhaps with others, and then waited for ---
    def begin(self, dot, pending):
        """Start a dot; it waits until at most `pending` are unfinished, itself included, or for none (None)."""
        outer, self.b.loc = self.b.loc, dot.loc
        self.started[id(dot)] = made = self.dot(dot, pending)
        self.b.loc = outer
        return made

    def begun(self, dot):
        """What a dot will make: it may be unfinished, but those of the round before are not."""
        if id(dot) in self.started:
            return self.started[id(dot)]
        self.prepare(dot)
        return self.begin(dot, 1 + len(self.started) - self.over)

    def prepare(self, dot):
        """Make what a dot's operands are computed from, and perhaps wait for other dots to that end."""
        left, right, total = dot.operands
        if self.plan.source(left)[0] is None and (id(left), "a") not in {**self.plan.shared, **self.plan.brought}:
            self.left(dot)
        if self.plan.source(right)[0] is None:
            self.value(right)
        self.total(total)

    def total(self, x):
        """A value, or what a dot will make that the next one adds to."""
        return self.begun(x) if self.plan.runs_into_next(x) else self.value(x)

    def finished(self, dot):
        """What a dot has made. All that began before it are finished as well."""
        if id(dot) not in self.started:
            self.prepare(dot)
            self.reduce_first(dot)
            made = self.begin(dot, 0)
        else:
            after = len(self.started) - 1 - list(self.started).index(id(dot))
            made = gpu_ops.dot_wait(self.b, self.started[id(dot)], pending=after)
        self.over = max(self.over, 1 + list(self.started).index(id(dot)))
        self.met()
        return made

    def reduce_first(self, dot):
        """Nothing is done while a dot runs that is waited for at once. So what there is to be reduced is reduced first:
        then threads need not hold it while the dot runs."""
        for op in self.plan.body.ops[: self.plan.body.ops.index(dot)]:
            if op.kind is ops.reduce and all(_source(x) in self.known for x in op.operands):
                self.value(op)

    def met(self):
        """Once: have all warps meet, now that the dots of the round before are over, and do what waits for that."""
        if self.meeting is not None:
            ops.barrier(self.b)
            self.outcome, self.meeting = self.meeting(), None
        return self.outcome

    def dot(self, op, pending):
        (a, a_axis), (rhs, b_axis) = (self.operand(op, x, side) for side, x in zip("ab", op.operands))
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
        """The barrier and the parity of the phase a dot waits for when it has all else."""
        return ()

    def operand(self, dot, x, side):
        """(address or tile, axis its rows lie along)."""
        plan = self.plan
        for known in (plan.shared, plan.brought):
            if (id(x), side) in known:
                return known[id(x), side]
        load, turned = plan.source(x)
        axis = 1
        if load is not None and id(load) in plan.loads:
            axis = 1 - plan.can.axis(load) if turned else plan.can.axis(load)
            if plan.lies_right(dot, load, side, turned):
                return plan.slot_address(id(load), self.slot), axis
        if side == "a":
            return self.left(dot), axis
        axis = plan.best_axis(dot)
        if (_key(x), axis) not in self.put:
            self.put_right_sides(dot, axis)
        return self.put[_key(x), axis], axis

    def left(self, dot):
        """A left side in registers. That of a dot which runs on is rounded where the one before it is over."""
        found = self.plan.unrounded(dot) if self.plan.is_late(dot) else None
        if found is None:
            return self.value(dot.operands[0])
        x, order = found
        return self.value(x) if order is None else ops.trans(self.b, self.value(x), order=order)

    def put_right_sides(self, dot, axis):
        """Put a right side into a buffer with rows along `axis`, and with it all others that lie so and need no dot:
        threads meet for every `share`."""
        plan = self.plan
        others = [d for d in plan.dots if not plan.reads_in_place(d, "b") and plan.best_axis(d) == axis]
        sides = [dot.operands[1], *(d.operands[1] for d in others if not plan.needs_dots(d.operands[1]))]
        ready = {(_key(y), axis): self.value(y) for y in sides}
        ready = {key: y for key, y in ready.items() if key not in self.put}
        made = gpu_ops.share(self.b, *ready.values(), axis=axis)
        self.put |= zip(ready, made if type(made) is tuple else (made,))


def _source(x):
    return id(x.op if type(x) is Result else x)


def _key(x):
    return (id(x.op), x.index) if type(x) is Result else (id(x), 0)
