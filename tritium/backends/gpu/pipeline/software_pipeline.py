"""Software pipelining: loads that feed dots are started several rounds ahead, into rings of shared-memory buffers.

    for i:                          for i:
      a = load pa(i)                  wait until the copies of round i have arrived
      b = load pb(i)         ->       start the copies of round i + S - 1
      acc += a @ b                    acc += ring_a[i % S] @ ring_b[i % S]

What is not multiplied as it lies in its buffer, but computed with first or wanted in registers, is read back. So are
rows of numbers that a round loads besides, scales for example: whoever computes with them reads what it needs.
Dots whose results are only handed to the next round may still run when that begins: sums of products, which the next
round's own dots take up as they are, or attention's product with V, which runs on into the product with K. What such a
loop starts to copy goes into buffers of the round before, so all warps meet first, when they have waited for a dot that
began after those; or at the end of a round that waits for none. Dots that need no other begin their round together, and
each is waited for when its result is wanted.

The addresses of a later round need the loop's scalars of that round: the part of the body that computes them is copied,
and a second set of those scalars runs ahead with the copies. If that part loads something itself (the page a tile lies
on, the row a token goes to), what it loads is carried in registers from one round to the next, so that nobody waits:

    round i:  load the indices of round i + S, if there is such a round
              start the copies of round i + S - 1, with the indices loaded a round ago

Only what is found through such an index in turn is loaded where it is needed.

What dots of all rounds read, attention's Q for instance, is put into a buffer before the loop. If a later loop of the
block reads it too, as where a mask parts the blocks, it stays there: the first loop's rings are released, and threads
need not hold the tile while that loop runs.

What runs ahead passes the stores of the rounds before. A loop that stores is pipelined if the launcher can see to it
that these write elsewhere; each such pair of accesses is noted.
"""

from __future__ import annotations

from .... import ops
from ....ir.core import walk
from ....ir.rewrite import sweep
from .. import ops as gpu_ops
from .iteration import Copy
from .schedule import Capabilities, Plan, Reordering


def software_pipeline(module, can: Capabilities, most=None, pairs=None):
    """Pipeline every innermost loop around dots, in no more than `most` stages.

    Accesses that are assumed to be disjoint (`ir.bounds.Pair`) are added to the list `pairs`; with None
    nothing is assumed.
    """
    depth = module.attrs.get("num_stages", 3)
    reordering = None if pairs is None else Reordering(module, pairs)
    kept = _Kept(module)

    def rule(b, op):
        if op.kind is not ops.for_:
            return None
        stages = op.attrs["num_stages"] if op.attrs["num_stages"] is not None else depth
        stages, plan = min(stages, most or stages), Plan(op, can, reordering)
        fits = stages > 1 and plan.works_with_registers() and plan.take_pairs()
        return _Pipelined(plan, b, stages, kept).build() if fits else None

    return sweep(module, rule)


class _Kept:
    """Buffers that outlive the loop they were made for, because a later one of its block reads them as well."""

    def __init__(self, module):
        self.buffers = []  # (key of `Plan.shared`, address, axis, tile) in the order in which they are made
        self.siblings = {}  # id of an op of the module -> its block, and its place there
        self._note(module.body)

    def _note(self, block):
        for k, op in enumerate(block.ops):
            self.siblings[id(op)] = block, k
            for region in op.regions:
                self._note(region)

    def here(self, b):
        """{key: (address, axis)} of those in the block that is being written."""
        return {key: (address, axis) for key, address, axis, _ in self.buffers if b.is_here(address)}

    def wanted(self, b):
        """The ids of what dots in later loops of the block read."""
        block, k = self.siblings[id(b.original)]
        loops = [op for op in block.ops[k + 1 :] if op.kind is ops.for_]
        dots = [dot for loop in loops for dot in walk(loop.regions[0]) if dot.kind is ops.dot]
        return {id(b.value(x)) for dot in dots for x in dot.operands[:2]}

    def end(self, b, wanted):
        """The first buffer of the block that no later loop reads, nor any made after it; None if there is none."""
        first = None
        while self.buffers and b.is_here(self.buffers[-1][1]) and self.buffers[-1][0][0] not in wanted:
            first = self.buffers.pop()[1]
        return first


class _Pipelined:
    """A loop whose rounds start the copies of later ones."""

    def __init__(self, plan, b, stages, kept):
        self.plan, self.b, self.stages, self.body, self.kept = plan, b, stages, plan.body, kept
        lo, hi, self.step, *_ = plan.loop.operands
        self.index = lo.type
        plan.carry_out(b, hi)
        plan.settle_dots(copies=True)

    def build(self):
        """The new loop's results."""
        b, plan, stages = self.b, self.plan, self.stages
        lo, hi, step, *inits = plan.loop.operands
        ring = lambda x: gpu_ops.multibuffer(b, tile=x.type, slots=stages, axis=plan.can.axis(x))
        wanted = self.kept.wanted(b)
        own = self.share_kept(wanted)
        plan.rings = {key: ring(load) for key, load in plan.loads.items()}
        plan.shared |= plan.share_outer_operands(own)
        ahead_i, ahead = lo, [inits[k] for k in plan.params]
        ahead += self.load_indices(lo, ahead)
        for s in range(stages - 1):  # the first rounds' copies, before the loop
            ahead = self.copies(self.number(s), ahead_i, ahead, plan.goes_on(ahead_i))
            ahead_i = ops.add(b, ahead_i, step)
        carried = [*inits, ahead_i, self.number(0), self.number(stages - 1), *ahead]
        names = ["i", *(a.name for a in self.body.args[1:]), *[""] * (len(carried) - len(inits))]
        with b.region([self.index, *(x.type for x in carried)], names) as region:
            ops.yield_(b, *self.round(region.args))
        # As it is: the new loop may hold dots that take registers, and is not to be pipelined again.
        outs = list(b.emit_as_is(ops.for_, (lo, hi, step, *carried), plan.loop.attrs, (region.block,)))[: len(inits)]
        for k in plan.late:
            outs[k] = gpu_ops.dot_wait(b, outs[k], pending=0)
        gpu_ops.async_wait(b, pending=0)
        gpu_ops.release(b, self.kept.end(b, wanted) or next(iter(plan.rings.values())))
        return tuple(outs)

    def share_kept(self, wanted):
        """Find operands that are in buffers already, and put those there that later loops want; returns the others."""
        b, plan, operands = self.b, self.plan, self.plan.outer_operands()
        there = self.kept.here(b)
        new = {key: x for key, x in operands.items() if key not in there and key[0] in wanted}
        made = plan.share_outer_operands(new)
        self.kept.buffers += [(key, *made[key], new[key][0]) for key in made]
        plan.shared = {key: found for key, found in {**there, **made}.items() if key in operands}
        return {key: x for key, x in operands.items() if key not in plan.shared}

    def number(self, value):
        return ops.constant(self.b, value=value, type=self.index)

    def run_ahead(self, i, values, more):
        """What a later round computes from its index, the carried values that count, and the indices if it has them."""
        args = [self.body.args[0], *(self.body.args[1 + k] for k in self.plan.params), *self.plan.indices]
        return Copy(self.plan, {id(x): value for x, value in zip(args, (i, *values))}, more=more)

    def load_indices(self, i, values):
        """What the addresses of a later round are computed with; nothing if there is no such round."""
        if not self.plan.indices:
            return []
        copy = self.run_ahead(i, values, self.plan.goes_on(i))
        return [copy.value(load) for load in self.plan.indices]

    def copies(self, slot, i, values, more):
        """Start one round's copies into a slot; returns the values of the following round that run ahead."""
        b, copy = self.b, self.run_ahead(i, values, more)
        following = lambda: [copy.value(self.body.yields[k]) for k in self.plan.params]
        indices = self.load_indices(ops.add(b, i, self.step), following()) if self.plan.indices else []
        for key, load in self.plan.loads.items():
            mask = copy.mask(load)
            gpu_ops.async_load(
                b,
                self.plan.slot_address(key, slot),
                copy.value(load.operands[0]),
                mask,
                tile=load.type,
                axis=self.plan.can.axis(load),
                loc=load.loc,
            )
        gpu_ops.async_commit(b)
        return [*following(), *indices]

    def round(self, args):
        b, count = self.b, len(self.body.args) - 1
        i, own, (ahead_i, slot, fill, *ahead) = args[0], args[1 : 1 + count], args[1 + count :]
        gpu_ops.async_wait(b, pending=self.stages - 2)
        copy = Copy(self.plan, {id(a): v for a, v in zip(self.body.args, (i, *own))}, slot)
        more = self.plan.goes_on(ahead_i)
        start = lambda: self.copies(fill, ahead_i, ahead, more)
        if not self.plan.late:
            following, ends = start(), copy.body()
        else:
            copy.meeting = start
            ends = copy.body()
            following = copy.met()
        return [*ends, ops.add(b, ahead_i, self.step), self.next(slot), self.next(fill), *following]

    def next(self, slot):
        b = self.b
        more = ops.add(b, slot, self.number(1))
        return ops.select(b, ops.eq(b, more, self.number(self.stages)), self.number(0), more)
