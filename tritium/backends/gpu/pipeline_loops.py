"""Software pipelining: loads that feed a dot are started several rounds ahead, into a ring of shared-memory buffers.

    for i:                          for i:
      a = load pa(i)                  wait until the copies of round i have arrived
      b = load pb(i)         ->       start acc += ring_a[i % S] @ ring_b[i % S]
      acc += a @ b                    wait for the dot of round i - 1, everywhere
                                      start the copies of round i + S - 1

The addresses of a later round need the loop's scalars of that round: the part of the body that computes them is copied,
and a second set of those scalars runs S - 1 rounds ahead.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Op, Result
from ...ir.rewrite import sweep
from . import ops as gpu_ops

MIN_TRANSFER = 4  # bytes: the smallest asynchronous copy


def pipeline_loops(module, fits, axes, vector):
    """Pipeline every loop around a dot.

    `fits(op)`: the target can start this dot on buffers; `axes(op)`: along which axis its two operands lie in memory;
    `vector(load)`: bytes one thread may copy at once.
    """
    depth = module.attrs.get("num_stages", 3)

    def rule(b, op):
        if op.kind is not ops.for_:
            return None
        stages = op.attrs["num_stages"] if op.attrs["num_stages"] is not None else depth
        plan = _Plan.of(op, fits, axes, vector) if stages > 1 else None
        return None if plan is None else plan.build(b, stages)
    return sweep(module, rule)


class _Plan:
    """A loop that can be pipelined: its dot, the two loads and what their addresses depend on."""

    def __init__(self, loop, dot, loads, axes):
        self.loop, self.dot, self.loads, self.axes = loop, dot, loads, axes
        self.body = loop.regions[0]
        self.inside = {id(op): op for op in self.body.ops}

    @classmethod
    def of(cls, loop, fits, axes, vector):
        body = loop.regions[0]
        inside = {id(op) for op in body.ops}
        dots = [op for op in body.ops if op.kind is ops.dot and fits(op)]
        if len(dots) != 1 or any(op.kind.effects == "write" for op in body.ops):
            return None
        dot = dots[0]
        loads = dot.operands[:2]
        for x in loads:
            if not (type(x) is Op and x.kind is ops.load and id(x) in inside and vector(x) >= MIN_TRANSFER):
                return None
            if len(x.operands) > 2 and not _zero(x.operands[2]):
                return None
        plan = cls(loop, dot, loads, axes(dot))
        return plan if plan.find_slice() and plan.dot_is_last() else None

    def find_slice(self):
        """Ops and carried parameters the loads' addresses depend on; False if a load or a region is among them."""
        self.slice, self.params, todo = set(), set(), [x for load in self.loads for x in load.operands]
        carried = {id(a): k for k, a in enumerate(self.body.args[1:])}
        while todo:
            x = todo.pop()
            op = x.op if type(x) is Result else x
            if id(op) in carried and carried[id(op)] not in self.params:
                self.params.add(carried[id(op)])
                todo.append(self.body.yields[carried[id(op)]])
            elif id(op) in self.inside and id(op) not in self.slice:
                if op.kind.effects or op.regions:
                    return False
                self.slice.add(id(op))
                todo += op.operands
        return True

    def dot_is_last(self):
        """True if the accumulator is carried and only the dot touches it, so that the next round may start at once."""
        self.acc = next((k for k, y in enumerate(self.body.yields) if y is self.dot), None)
        if self.acc is None or self.dot.operands[2] is not self.body.args[1 + self.acc]:
            return False
        users = [op for op in self.body.ops if op is not self.dot and not op.kind.terminator
                 and any(x is self.dot or x is self.body.args[1 + self.acc] for x in op.operands)]
        return not users and self.acc not in self.params

    # --- the new loop -------------------------------------------------------------------------------------------
    def build(self, b, stages):
        loop = self.loop
        lo, hi, step, *inits = loop.operands
        index = lo.type
        number = lambda value: ops.constant(b, value=value, type=index)
        rings = [gpu_ops.ring(b, tile=x.type, slots=stages, axis=axis) for x, axis in zip(self.loads, self.axes)]
        sizes = [x.type.numel * x.type.element.bytes for x in self.loads]
        params = sorted(self.params)
        ahead_i, ahead = lo, [inits[k] for k in params]
        for s in range(stages - 1):  # the first rounds' copies, before the loop
            more = ops.lt(b, ahead_i, hi)
            ahead = self.copies(b, rings, sizes, number(s), index, ahead_i, ahead, params, more)
            ahead_i = ops.add(b, ahead_i, step)
        zero, last = number(0), number(stages - 1)
        carried = [*inits, ahead_i, zero, last, *ahead]
        with b.region([index, *(x.type for x in carried)], ["i", *(a.name for a in self.body.args[1:]),
                                                            *[""] * (len(carried) - len(inits))]) as region:
            ends = self.round(b, region.args, rings, sizes, stages, hi, step, params, number)
            ops.yield_(b, *ends)
        outs = b.emit(ops.for_, (lo, hi, step, *carried), loop.attrs, (region.block,))
        outs = list(outs)[:len(inits)]
        outs[self.acc] = gpu_ops.dot_wait(b, outs[self.acc], pending=0)
        gpu_ops.async_wait(b, pending=0)
        return tuple(outs) if len(outs) != 1 else outs[0]

    def copies(self, b, rings, sizes, slot, index, i, values, params, more):
        """Start one round's copies into a slot; returns the address scalars of the following round."""
        copy = _Copy(b, self, {id(self.body.args[0]): i, **{id(self.body.args[1 + k]): v
                                                            for k, v in zip(params, values)}})
        slot32 = slot if index is T.i32 else ops.cast(b, slot, to=T.i32)
        for ring, size, load, axis in zip(rings, sizes, self.loads, self.axes):
            offset = ops.mul(b, slot32, ops.constant(b, value=size, type=T.i32))
            address = ops.add(b, ring, offset)
            mask = ops.splat(b, more, shape=load.type.shape)
            if len(load.operands) > 1:
                mask = ops.and_(b, mask, copy.value(load.operands[1]))
            gpu_ops.async_load(b, address, copy.value(load.operands[0]), mask, tile=load.type, axis=axis)
        gpu_ops.async_commit(b)
        return [copy.value(self.body.yields[k]) for k in params]

    def round(self, b, args, rings, sizes, stages, hi, step, params, number):
        count = len(self.body.args) - 1
        i, own, (ahead_i, slot, fill, *ahead) = args[0], args[1:1 + count], args[1 + count:]
        index = i.type
        gpu_ops.async_wait(b, pending=stages - 2)
        copy = _Copy(b, self, {id(self.body.args[0]): i, **{id(a): v for a, v in zip(self.body.args[1:], own)}})
        slot32 = slot if index is T.i32 else ops.cast(b, slot, to=T.i32)
        at = [ops.add(b, ring, ops.mul(b, slot32, ops.constant(b, value=size, type=T.i32)))
              for ring, size in zip(rings, sizes)]
        a, d = self.dot.operands[:2], self.dot
        acc = gpu_ops.dot_shared(b, *at, own[self.acc], lhs=a[0].type, rhs=a[1].type, a_axis=self.axes[0],
                                 b_axis=self.axes[1], precision=d.attrs["precision"])
        acc = gpu_ops.dot_wait(b, acc, pending=1)
        ops.barrier(b)
        ahead = self.copies(b, rings, sizes, fill, index, ahead_i, ahead, params, ops.lt(b, ahead_i, hi))
        copy.known[id(self.dot)] = acc
        for op in self.body.ops[:-1]:  # whatever else the loop computes
            if op is not self.dot and op not in self.loads and not op.kind.effects == "":
                copy.value(op)
        ends = [copy.value(y) for y in self.body.yields]
        bump = lambda x: ops.select(b, ops.eq(b, ops.add(b, x, number(1)), number(stages)), number(0),
                                    ops.add(b, x, number(1)))
        return [*ends, ops.add(b, ahead_i, step), bump(slot), bump(fill), *ahead]


class _Copy:
    """Copies body ops on demand, with some values replaced."""

    def __init__(self, b, plan, known):
        self.b, self.plan, self.known = b, plan, known

    def value(self, x):
        key = id(x.op) if type(x) is Result else id(x)
        if key in self.known:
            return self.known[key]
        if key not in self.plan.inside:
            return x
        op = x.op if type(x) is Result else x
        made = self.b.place(op.replace(operands=tuple(self.value(y) for y in op.operands)))
        self.known[key] = made
        return made


def _zero(x):
    while type(x) is Op and x.kind in (ops.splat, ops.cast):
        x = x.operands[0]
    return type(x) is Op and x.kind is ops.constant and x.attrs["value"] == 0


