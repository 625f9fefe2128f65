"""Which loops a block becomes, which tiles they share through scratch memory, and how long those live.

Tile ops are computed inside the loops of the *steps* that want them: stores, reductions, dots, loops of the program. A
value that several steps want and that is costly is kept: the first step that computes it writes it to scratch on the way.
A load that a step wants after memory may have changed is kept before the change.

Steps are numbered; a set of steps is an int with a bit for each: bit 2s+1 stands for step s, bit 2s for the loops that
fill scratch memory just before it.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Arg, Result, walk
from .affine import ADDRESSING
from .clip import clip_of, settles
from .table import WHOLE

__all__ = ["Plan", "Step", "carried_shifts", "plan"]

KEEP = 8  # a value this costly is rather kept than computed again
LOAD = 8
SLOW = 8
WORK = 6  # so many operations are not done again for each row or column they are repeated over
DEEP = 120  # longer chains are cut: their loops would run out of registers
_LOOPS = (ops.for_, ops.while_)
# Steps whose loops do not visit every element of what they want, or visit it more than once.
_SCATTERED = (ops.for_, ops.while_, ops.if_, ops.extract, ops.atomic, ops.atomic_cas, ops.print_, ops.map_)
# Steps that go from element to element: what is costly is computed in strips before.
_ONE_BY_ONE = (ops.atomic, ops.atomic_cas, ops.print_, ops.histogram, ops.map_, ops.inline_asm)


class Step:
    """One or several ops done in one nest of loops, or a value to `force` into scratch memory.

    before: values to put into scratch with loops of their own first   first_keeps: kept on the way there
    keeps: values its loops write to scratch on the way                dead: values nobody wants after it
    after: ops on scalars that had to wait for it                      mark: bits above it stand for ops that come later
    clip: the mask beyond which its loops need not go
    """

    __slots__ = ("after", "before", "clip", "dead", "first_keeps", "force", "keeps", "mark", "nest", "ops")

    def __init__(self, ops=(), force=None, nest=None, mark=0):
        self.ops, self.force, self.nest, self.mark = list(ops), force, nest, mark
        self.clip = None
        self.before, self.first_keeps, self.keeps, self.dead, self.after = [], [], [], [], []


class Plan:
    """The steps of a block and the ops on scalars between them, in order.

    `last` is the last step that wants a value, `mine` the values made here and the block's parameters.
    """

    def __init__(self, block, program, steps, last, mine):
        self.block, self.program, self.steps, self.last, self.mine = block, program, steps, last, mine


def carried_shifts(op) -> frozenset[int]:
    """Which tiles carried by a loop only have equal amounts added to all elements: they are carried as one number."""
    body = op.regions[-1]
    args = body.args[1:] if op.kind is ops.for_ else body.args
    return frozenset(k for k, (arg, y) in enumerate(zip(args, body.yields)) if _is_shift(arg, y))


def _is_shift(arg, y):
    t = arg.type
    if type(t) is not T.Tile or not (type(t.element) is T.Ptr or t.element.is_int and t.element.bits >= 32):
        return False
    while y is not arg:
        if type(y) in (Arg, Result) or y.kind not in (ops.addptr, ops.add, ops.sub):
            return False
        x, by = y.operands
        if y.kind is ops.add and not _is_uniform(by):
            x, by = by, x
        if not _is_uniform(by):
            return False
        y = x
    return True


def _is_uniform(x):
    while type(x) not in (Arg, Result) and x.kind in (ops.broadcast, ops.reshape, ops.expand_dims, ops.hint, ops.cast):
        x = x.operands[0]
    return type(x) not in (Arg, Result) and x.kind is ops.splat


def _array(p):
    """The parameter (or whatever else) that pointers are computed from."""
    while type(p) not in (Arg, Result) and p.operands and T.is_ptr(p.operands[0].type):
        p = p.operands[0]
    return p


def plan(lo, block) -> Plan:
    """Plan a block; values that lie in scratch memory already (`lo.homes`) stay there."""
    planner = _Planner(lo, block)
    planner.number()
    planner.wanted()
    planner.clip()
    planner.end_lives()
    mine = {*planner.at, *planner.kept_here, *[lo.key(a) for a in block.args]}
    return Plan(block, planner.program, planner.steps, planner.last, mine)


def nest_of(op):
    """What kind of loops an op needs: ops with equal ones may share them. None for loops it shares with nobody."""
    shape = T.shape(op.operands[0].type) if op.operands else ()
    if not shape:
        return None
    if op.kind is ops.store:
        return ("rows", shape)
    if op.kind is ops.reduce:
        axis = op.attrs["axis"]
        along = axis == len(shape) - 1 and (shape[-1] >= 16 or len(shape) == 1)
        return ("rows", shape) if along else ("columns", shape, axis)
    return None


class _Planner:
    def __init__(self, lo, block):
        self.lo, self.block = lo, block
        self.key, self.is_lazy = lo.key, lo.is_lazy
        self.steps, self.program = [], []
        self.at = {}  # key of a tile value made here -> step that makes it
        self.users = {}
        self.last = {}

    # --- forward: ops to steps ------------------------------------------------------------------------------------
    def number(self):
        """Group the ops that need loops into steps, in order; ops on scalars stay between them."""
        self.depends = {}  # key -> bits of the steps' ops it is computed from, loads included
        self.bit = 1
        self.group_bits = 0  # ops in the last step, as long as others may join it
        self.writes = []  # (step, position in the block) of what changes memory
        self.positions = {}
        self.forced = set()
        for position, op in enumerate(self.block.ops):
            self.positions[id(op)] = position
            for x in op.operands:
                k = id(x.op if type(x) is Result else x)
                self.users[k] = self.users.get(k, 0) + 1
            depends = self.depends_on(op)
            if self.is_lazy(op):
                if op.kind is ops.load:
                    depends |= self.new_bit()
                    if depends & self.group_bits or self.steps and any(o.kind is ops.store for o in self.steps[-1].ops):
                        self.group_bits = 0  # what is loaded after a store, or before one that joins, stays in between
                self.note(op, depends)
            elif not op.kind.terminator and self.is_scalar(op):
                self.place_scalar(op, depends)
            else:
                self.place(op, depends, position)

    def is_scalar(self, op):
        """Ops without tiles that change nothing are done where they stand."""
        return not op.regions and op.kind.effects != "write" and \
            all(type(t) is not T.Tile for t in (*op.types, *[x.type for x in op.operands]))

    def depends_on(self, op):
        out = 0
        for x in op.operands:
            out |= self.depends.get(id(x.op if type(x) is Result else x), 0)
        for region in op.regions:
            for inner in walk(region):
                out |= self.depends_on_shallow(inner)
        return out

    def depends_on_shallow(self, op):
        out = 0
        for x in op.operands:
            out |= self.depends.get(id(x.op if type(x) is Result else x), 0)
        return out

    def note(self, op, depends):
        self.depends[id(op)] = depends

    def new_bit(self):
        self.bit <<= 1
        return self.bit

    def place_scalar(self, op, depends):
        if op.kind.effects:  # what reads memory stays behind the stores before it
            self.group_bits = 0
            depends |= self.new_bit()
        self.note(op, depends)
        if depends & self.group_bits:
            self.steps[-1].after.append(op)
        else:
            self.program.append(op)

    def place(self, op, depends, position):
        for k in WHOLE.get(op.kind, ()):
            self.force(op.operands[k])
        nest = nest_of(op)
        bit = self.new_bit()
        step = self.earlier(op, nest, depends)
        if step is None and nest and self.group_bits and self.steps[-1].nest == nest and not depends & self.group_bits \
                and self.apart(op, self.steps[-1].ops):
            step = self.steps[-1]
            self.program.remove(step)
            self.program.append(step)
            self.group_bits |= bit
        if step is None:
            step = Step(nest=nest, mark=bit >> 1)
            self.steps.append(step)
            self.program.append(step)
            self.group_bits = bit if nest else 0
        step.ops.append(op)
        self.note(op, bit)
        index = self.steps.index(step)
        for x in op.results:
            self.at[self.key(x)] = index
        if op.kind.effects == "write" or any(o.kind.effects == "write" for r in op.regions for o in walk(r)):
            self.writes.append((index, position))

    def apart(self, op, others):
        """Whether a store may share a loop with others: they hit the same elements in step, or other arrays."""
        if op.kind is not ops.store:
            return True
        p = op.operands[0]
        stores = [o.operands[0] for o in others if o.kind is ops.store]
        return all(p is q or _array(p) is not _array(q) for q in stores)

    def earlier(self, op, nest, depends):
        """A step that fills scratch with the tile a reduction runs over: there its elements are at hand."""
        if op.kind is not ops.reduce or nest[0] != "rows":
            return None
        forced = {self.key(step.force): step for step in self.steps if step.force is not None and step.nest == nest}
        for x in op.operands:
            step = forced.get(self.key(x))
            if step is not None and depends <= step.mark:
                return step
        return None

    def force(self, x):
        if type(x.type) is T.Tile and self.key(x) not in self.lo.homes and self.key(x) not in self.forced:
            op = x.op if type(x) is Result else x
            if type(op) is not Arg and self.is_lazy(op):
                self.forced.add(self.key(x))
                step = Step(force=x, nest=("rows", T.shape(x.type)), mark=self.bit)
                self.steps.append(step)
                self.program.append(step)
                self.group_bits = 0

    # --- backward: who wants what ---------------------------------------------------------------------------------
    def wanted(self):
        """Find for each value the steps that want it, and decide which values are kept."""
        self.want, self.looped, self.whole = {}, {}, {}
        self.must = set(self.forced)
        order = self.order()
        self.costs(order)
        step_of = {}
        for s, step in enumerate(self.steps):
            for op in step.ops:
                step_of[id(op)] = s
            if step.force is not None:
                self.wants(step.force, 2 << 2 * s)
        for op in reversed(order):
            if id(op) in step_of:
                self.root(op, 2 << 2 * step_of[id(op)], step_of[id(op)])
            elif self.is_lazy(op):
                self.lazy(op)
        for step in self.steps:
            for values in (step.before, step.keeps, step.first_keeps):
                values.reverse()

    def order(self):
        """Lazy ops from outside that this block may have to compute, then the ops of the block."""
        seen, foreign = {id(op) for op in self.block.ops}, []
        stack = [iter([x for op in self.block.ops for x in self.reads(op)])]
        pending = []
        while stack:
            x = next(stack[-1], None)
            if x is None:
                stack.pop()
                if pending and stack:
                    foreign.append(pending.pop())
                continue
            x = x.op if type(x) is Result else x
            if type(x) is Arg or id(x) in seen or not self.is_lazy(x) or self.key(x.results[0]) in self.lo.homes:
                continue
            seen.add(id(x))
            pending.append(x)
            stack.append(iter(x.operands))
        return foreign + list(self.block.ops)

    def reads(self, op):
        """Everything an op uses, inside its regions too."""
        yield from op.operands
        for region in op.regions:
            for inner in walk(region):
                yield from inner.operands

    def costs(self, order):
        """Roughly how many instructions a strip of each lazy value takes, and how long its longest chain is."""
        self.cost, self.depth, self.work, self.cut = {}, {}, {}, set()
        for op in order:
            if not self.is_lazy(op):
                continue
            cost, depth, work = 0, 0, 0
            for x in op.operands:
                made = x.op if type(x) is Result else x
                c = self.cost.get(id(made), 1 if type(x.type) is T.Tile else 0)
                heavy = c >= KEEP and self.users.get(id(made), 0) > 1
                cost += 1 if heavy else c  # a costly value with several users will be kept by itself
                depth = max(depth, self.depth.get(id(made), 0))
                work += self.work.get(id(made), 0)
            own = 0
            if op.kind.elementwise:
                own = SLOW if op.kind.row and op.kind.row.cost == "slow" else 1
            elif op.kind not in ADDRESSING:
                own = SLOW if op.regions else 1
            cost += own
            if op.kind is ops.load:
                cost, work = LOAD, 0
            elif op.kind in (ops.arange, ops.splat):
                cost = work = 0
            else:
                work += own
            depth += 1
            self.work[id(op)] = min(work, 1000)
            if depth > DEEP and self.keepable(op):
                self.must.add(self.key(op.results[0]))
                self.cut.add(self.key(op.results[0]))
                cost, depth = 1, 0
            self.cost[id(op)], self.depth[id(op)] = min(cost, 1000), depth

    def keepable(self, op):
        """Addresses are described, not kept; a remainder is contiguous where it does not wrap, a kept one is not."""
        element = T.element(op.types[0])
        if type(element) is T.Ptr:
            return False
        return not (element.is_int and (op.kind in ADDRESSING or op.kind is ops.rem))

    def wants(self, x, bits, looped=0, whole=0):
        if type(x.type) is not T.Tile:
            return
        k = self.key(x)
        self.want[k] = self.want.get(k, 0) | bits
        if looped:
            self.looped[k] = self.looped.get(k, 0) | looped
        if whole:
            self.whole[k] = self.whole.get(k, 0) | whole

    def root(self, op, bit, s):
        """A step's op wants its operands, and what its regions use from outside."""
        if op.kind in _LOOPS:
            shifts = carried_shifts(op)
            first = 3 if op.kind is ops.for_ else 0
            for k, x in enumerate(op.operands):
                if k - first in shifts:  # after the loop the tile is the one before it, moved
                    later = self.want.get(self.key(op.results[k - first]), 0)
                    self.wants(x, bit | later, looped=bit)
                else:
                    self.wants(x, bit)
        else:
            for x in op.operands:
                self.wants(x, bit)
                if op.kind in _ONE_BY_ONE and type(x) not in (Arg, Result) and self.cost.get(id(x), 0) >= KEEP \
                        and self.keepable(x):
                    self.must.add(self.key(x))
        inside = {id(o) for r in op.regions for o in walk(r)}
        for region in op.regions:
            for o in walk(region):
                for x in o.operands:
                    if id(x.op if type(x) is Result else x) not in inside:
                        self.wants(x, bit, looped=bit if op.kind in _LOOPS else 0)

    def lazy(self, op):
        kept_bits = 0
        for x in op.results:
            bits = self.want.get(self.key(x), 0)
            if bits:
                kept_bits |= self.decide(op, x, bits)
        if not kept_bits:
            return
        looped = 0
        for x in op.results:
            if self.key(x) not in self.kept_here:
                looped |= self.looped.get(self.key(x), 0)
        if op.kind is ops.broadcast:
            self.before_broadcast(op, kept_bits)
        for k, x in enumerate(op.operands):
            if k in WHOLE.get(op.kind, ()) or op.kind is ops.split or self.hard_reshape(op):
                self.must.add(self.key(x))
                self.wants(x, kept_bits, whole=kept_bits)
            else:
                self.wants(x, kept_bits, looped=looped)

    def before_broadcast(self, op, bits):
        """What takes some work is computed in strips of its own shape before it is repeated."""
        x, = op.operands
        while type(x) not in (Arg, Result) and x.kind is ops.expand_dims:
            x = x.operands[0]
        if type(x) in (Arg, Result) or not 1 < T.numel(x.type) < T.numel(op.type):
            return
        if self.work.get(id(x), 0) >= WORK and self.keepable(x):
            k = self.key(x)
            self.must.add(k)
            self.whole[k] = self.whole.get(k, 0) | bits

    def hard_reshape(self, op):
        """Only powers of two can be counted through in strips."""
        if op.kind is not ops.reshape:
            return False
        return any(n & (n - 1) for n in (*T.shape(op.operands[0].type), *T.shape(op.type)))

    kept_here: set = frozenset()

    def decide(self, op, x, bits):
        """Keep a value or not; returns the steps that compute it."""
        k = self.key(x)
        if k in self.lo.homes:
            return 0
        heavy = self.cost[id(op)] >= KEEP and self.keepable(op)
        several = bits & (bits - 1)
        keep = k in self.must or heavy and (several or self.looped.get(k, 0))
        deadline = None
        if op.kind is ops.load:
            deadline = self.deadline(op, bits)
        if not keep and deadline is None:
            return bits
        self.kept_here = self.kept_here | {k}
        first = bits & -bits
        s = (first.bit_length() - 1) // 2
        if deadline is not None and deadline < s:
            s, first = deadline, 1 << 2 * deadline
            self.steps[s].before.append(x)
        else:
            first = self.keep(x, s, first, deadline)
        self.want[k] = bits | first
        return first

    def keep(self, x, s, first, deadline):
        """Let step `s`, the first that wants it, put a value into scratch; returns the bit of the loops that do."""
        step, k = self.steps[s], self.key(x)
        if step.force is not None and self.key(step.force) == k:
            return first
        alone = k in self.cut or self.whole.get(k, 0) & first or self.looped.get(k, 0) & first \
            or not self.keepable(x.op if type(x) is Result else x)  # loops that only want addresses do not compute it
        if first == 1 << 2 * s:
            (step.before if alone else step.first_keeps).append(x)
            return first
        if alone or any(o.kind in _SCATTERED for o in step.ops):
            step.before.append(x)
            return 1 << 2 * s
        step.keeps.append(x)
        return first

    def deadline(self, op, bits):
        """The step that changes memory before the last use of a load, or None; the load must be done by then."""
        position = self.positions.get(id(op), -1)
        last = (bits.bit_length() - 1) // 2
        for s, at in self.writes:
            if at > position:
                return s if last > s else None
        return None

    # --- ends of loops --------------------------------------------------------------------------------------------
    def clip(self):
        """Let loops stop where their mask ends, unless what they keep is wanted beyond."""
        for step in reversed(self.steps):
            if not step.ops or step.nest is None or step.nest[0] != "rows" or step.force is not None:
                continue
            masks = [clip_of(op) for op in step.ops]
            if all(m is not None and m is masks[0] for m in masks) and all(self.ends(x, masks[0]) for x in step.keeps):
                step.clip = masks[0]

    def ends(self, x, mask):
        """Whether all steps that want a value stop at the end of `mask`."""
        bits, s = self.want[self.key(x)] >> 1, 0
        first = True
        while bits:
            if bits & 1 and not first and self.steps[s].clip is not mask:
                return False
            if bits & 1:
                first = False
            bits, s = bits >> 2, s + 1
        return settles(x, mask)

    # --- lives ----------------------------------------------------------------------------------------------------
    def end_lives(self):
        """Note after which step each value that lies in scratch is not wanted any more."""
        for k, bits in self.want.items():
            self.last[k] = (bits.bit_length() - 1) // 2
        for k, s in self.at.items():
            self.last.setdefault(k, s)
        mine = set(self.at) | self.kept_here
        for k, s in self.last.items():
            if k in mine:
                self.steps[s].dead.append(k)
