"""Which steps want which tiles, and which tiles are worth keeping in scratch memory.

A value that several steps want and that is costly is kept: the first step that computes it writes it to scratch on the
way. A load that a step wants after memory may have changed is kept before the change, and before the step itself where
its own stores may hit what it still has to load (dependences.py).

A set of steps is an int: bit 2s+1 stands for step s, bit 2s for the loops that fill scratch memory just before it.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Result, walk
from .affine import ADDRESSING
from .dependences import positionwise, reorders

# Operands that must lie in scratch memory before the op: kind -> their positions.
WHOLE = {ops.gather: (0,), ops.dot: (0, 1)}

__all__ = ["Wants", "carried_shifts"]

KEEP = 8  # a value this costly is rather kept than computed again
LOAD = 8
SLOW = 8
WORK = 6  # so many operations are not done again for each row or column they are repeated over
DEEP = 120  # longer chains are cut: their loops would run out of registers
_LOOPS = (ops.for_, ops.while_)
# Steps whose loops do not visit every element of what they want, or visit it more than once.
_SCATTERED = frozenset((ops.for_, ops.while_, ops.if_, ops.extract))
# Steps that go from element to element: what is costly is computed in chunks before.
_ONE_BY_ONE = frozenset((ops.atomic, ops.atomic_cas, ops.print_, ops.histogram, ops.map_, ops.inline_asm))


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


class Wants:
    """Goes through a block backwards, from the steps to what they are computed from."""

    def __init__(self, lo, block, groups):
        self.lo, self.block, self.groups, self.steps = lo, block, groups, groups.steps
        # key -> steps: all, loops, those needing all of it, those wanting elements from other positions than their own
        self.want, self.looped, self.whole, self.moved = {}, {}, {}, {}
        self.must, self.cut, self.kept = set(groups.forced), set(), set()
        self.weight = {}  # id of a lazy op -> (instructions for a chunk, longest chain, how many are arithmetic)

    def find(self):
        """Find for each value the steps that want it, and decide which values are kept."""
        order = self.foreign() + list(self.block.ops)
        lazy = [op for op in order if self.lo.is_lazy(op)]
        self.weigh(lazy)
        waiting = {id(op) for op in lazy}
        step_of = {}
        for step in self.steps:
            step_of.update([(id(op), step.index) for op in step.ops])
            if step.force is not None:
                self.add(step.force, 2 << 2 * step.index)
        for op in reversed(order):
            if id(op) in waiting:
                self.lazy(op)
            elif id(op) in step_of:
                self.root(op, 2 << 2 * step_of[id(op)])
        for step in self.steps:  # what others are computed from comes first
            for values in (step.before, step.keeps, step.first_keeps):
                values.reverse()

    def last(self, made):
        """The last step that wants each value (or makes it: `made` gives those)."""
        out = dict(made)
        for k, bits in self.want.items():
            out[k] = bits.bit_length() - 1 >> 1
        return out

    def steps_of(self, x):
        """(numbers of the steps that want a value in their own loops, whether others want it before theirs)."""
        bits, out, s, alone = self.want[self.lo.key(x)], [], 0, False
        while bits:
            if bits & 2:
                out.append(s)
            alone = alone or bool(bits & 1)
            bits, s = bits >> 2, s + 1
        return out, alone

    def foreign(self):
        """Lazy ops from outside that this block may have to compute, operands first."""
        if self.lo.plan is None:  # the kernel itself
            return []
        lo, out, pending = self.lo, [], []
        seen = {id(op) for op in self.block.ops}
        used = [x for op in walk(self.block) for x in op.operands]
        stack = [iter(used)]
        while stack:
            x = next(stack[-1], None)
            if x is None:
                stack.pop()
                if pending:
                    out.append(pending.pop())
                continue
            x = x.op if type(x) is Result else x
            if type(x) is Arg or id(x) in seen or not lo.is_lazy(x) or lo.key(x.results[0]) in lo.homes:
                continue
            seen.add(id(x))
            pending.append(x)
            stack.append(iter(x.operands))
        return out

    # --- costs ----------------------------------------------------------------------------------------------------
    def weigh(self, lazy):
        """Roughly how many instructions a chunk of each lazy value takes, and how long its longest chain is."""
        users, weight = {}, self.weight
        for op in self.block.ops:
            for x in op.operands:
                k = id(x.op) if type(x) is Result else id(x)
                users[k] = users.get(k, 0) + 1
        self.row_numbers = self.for_rows()
        for op in lazy:
            kind = op.kind
            if kind is ops.splat or kind is ops.arange:
                weight[id(op)] = (0, 0, 0)
                continue
            cost = depth = work = 0
            for x in op.operands:
                k = id(x.op) if type(x) is Result else id(x)
                c, d, w = weight.get(k) or (int(type(x.type) is T.Tile), 0, 0)
                cost += 1 if c >= KEEP and users.get(k, 0) > 1 else c  # a costly one with several users will be kept
                depth = max(depth, d)
                work += w
            own = _own(op)
            weight[id(op)] = (LOAD, depth + 1, 0) if kind is ops.load else \
                (min(cost + own, 1000), depth + 1, min(work + own, 1000))
            if depth >= DEEP and self.keepable(op):
                self.must.add(self.lo.key(op.results[0]))
                self.cut.add(self.lo.key(op.results[0]))
                weight[id(op)] = (1, 0, 0)

    def for_rows(self):
        """The ids of values that are wanted once for each row of a tile, and by nobody else."""
        rows, others = set(), set()
        for op in reversed(self.block.ops):
            column = op.kind is ops.expand_dims and op.attrs["axis"] == 1
            wanted = rows if column or op.kind.elementwise and id(op) in rows and id(op) not in others else others
            wanted.update([id(x.op) if type(x) is Result else id(x) for x in op.operands])
            for region in op.regions:
                others.update([id(x) for inner in walk(region) for x in inner.operands])
        return rows - others

    def heavy(self, op):
        """Whether a value is rather kept than computed again."""
        return self.weight.get(id(op), (0,))[0] >= KEEP and self.keepable(op)

    def keepable(self, op):
        """Addresses are described, not kept, unless they were loaded. A remainder along lanes is contiguous where it
        does not wrap, a kept one is not; one that only numbers rows is better kept."""
        element = T.element(op.types[0])
        if op.kind is ops.load:
            return True
        if type(element) is T.Ptr or element.is_int and op.kind in ADDRESSING:
            return False
        return op.kind is not ops.rem or element.is_float or id(op) in self.row_numbers

    # --- wants ----------------------------------------------------------------------------------------------------
    def add(self, x, bits, looped=0, whole=0, moved=0):
        """Steps `bits` want x."""
        if type(x.type) is not T.Tile:
            return
        k = self.lo.key(x)
        self.want[k] = self.want.get(k, 0) | bits
        if looped:
            self.looped[k] = self.looped.get(k, 0) | looped
        if whole:
            self.whole[k] = self.whole.get(k, 0) | whole
        if moved:
            self.moved[k] = self.moved.get(k, 0) | moved

    def root(self, op, bit):
        """A step's op wants its operands, and what its regions use from outside."""
        loops = op.kind in _LOOPS
        shifts = carried_shifts(op) if loops else ()
        first = 3 if op.kind is ops.for_ else 0
        for k, x in enumerate(op.operands):
            if k - first in shifts:  # after the loop the tile is the one before it, moved
                later = self.want.get(self.lo.key(op.results[k - first]), 0)
                self.add(x, bit | later, looped=bit)
            else:
                self.add(x, bit)
                if op.kind in _ONE_BY_ONE and type(x) not in (Arg, Result) and self.heavy(x) and not _plain_load(x):
                    self.must.add(self.lo.key(x))
        if op.regions:
            inside = {id(o) for r in op.regions for o in walk(r)}
            for region in op.regions:
                for o in walk(region):
                    for x in o.operands:
                        if id(x.op if type(x) is Result else x) not in inside:
                            self.add(x, bit, looped=bit if loops else 0)

    def lazy(self, op):
        """A lazy op wants its operands for the steps that compute it."""
        bits = looped = moved = 0
        for x in op.results:
            k = self.lo.key(x)
            if k in self.want:
                bits |= self.decide(op, x, k)
                moved |= self.moved.get(k, 0)
                if k not in self.kept:
                    looped |= self.looped.get(k, 0)
        if not bits:
            return
        if op.kind is ops.broadcast:
            self.before_broadcast(op, bits)
        moved = bits & moved if positionwise(op) else bits
        complete = WHOLE.get(op.kind, ())
        if op.kind is ops.split or op.kind is ops.reshape and _hard(op):
            complete = (0,)
        for k, x in enumerate(op.operands):
            if k in complete:
                self.must.add(self.lo.key(x))
                self.add(x, bits, whole=bits, moved=moved)
            else:
                self.add(x, bits, looped, moved=moved)

    def before_broadcast(self, op, bits):
        """What takes some work is computed in chunks of its own shape before it is repeated."""
        x, = op.operands
        while type(x) not in (Arg, Result) and x.kind is ops.expand_dims:
            x = x.operands[0]
        if type(x) in (Arg, Result) or not 1 < T.numel(x.type) < T.numel(op.type):
            return
        if self.weight.get(id(x), (0, 0, 0))[2] >= WORK and self.keepable(x):
            k = self.lo.key(x)
            self.must.add(k)
            self.whole[k] = self.whole.get(k, 0) | bits

    # --- keeping --------------------------------------------------------------------------------------------------
    def decide(self, op, x, k):
        """Keep a value or not; returns the steps that compute it."""
        bits = self.want[k]
        if k in self.lo.homes:
            return 0
        keep = k in self.must or (bits & (bits - 1) or self.looped.get(k, 0)) and self.heavy(op)
        deadline = self.deadline(op, bits, self.moved.get(k, 0)) if op.kind is ops.load else None
        if not keep and deadline is None:
            return bits
        self.kept.add(k)
        first = bits & -bits
        s = first.bit_length() - 1 >> 1
        if deadline is not None and deadline < first:
            first = deadline
            self.steps[first.bit_length() - 1 >> 1].before.append(x)
        else:
            first = self.keep(op, x, k, self.steps[s], first)
        self.want[k] = bits | first
        return first

    def keep(self, op, x, k, step, first):
        """Let the first step that wants it put a value into scratch; returns the bit of the loops that do."""
        if step.force is not None and self.lo.key(step.force) == k:
            return first
        alone = k in self.cut or self.whole.get(k, 0) & first or self.looped.get(k, 0) & first \
            or not self.keepable(op)  # loops that only want addresses do not compute it
        before = 1 << 2 * step.index
        if first == before:
            (step.before if alone else step.first_keeps).append(x)
            return first
        if alone or any(o.kind in _SCATTERED or o.kind in _ONE_BY_ONE for o in step.ops):
            step.before.append(x)
            return before
        step.keeps.append(x)
        return first

    def deadline(self, op, bits, moved):
        """The bit of the loops by which a load must be done, or None: those of the first step that changes memory if
        it wants the load itself and changes only what it has loaded, else the ones before it."""
        position, last = self.groups.positions.get(id(op), -1), bits.bit_length() - 1 >> 1
        for s, at in self.groups.writes:
            if at > position:
                if last < s:
                    return None
                inside = 2 << 2 * s
                earlier = bits & -bits < inside >> 1  # then it is kept, and done by then
                if earlier or not bits & inside or reorders(self.lo, op, self.steps[s], bool(moved & inside)):
                    return inside >> 1
                return inside if last > s else None
        return None


def _plain_load(op):
    """A load without a mask costs no more element by element."""
    return op.kind is ops.load and len(op.operands) == 1


def _own(op):
    """What an op adds to the cost of its operands."""
    if op.kind.elementwise:
        return SLOW if op.kind.row and op.kind.row.cost == "slow" else 1
    if op.kind in ADDRESSING:
        return 0
    return SLOW if op.regions else 1


def _hard(op):
    """Only powers of two can be counted through in chunks."""
    return any(n & (n - 1) for n in (*T.shape(op.operands[0].type), *T.shape(op.type)))
