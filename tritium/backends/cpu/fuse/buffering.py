"""Buffering decisions: which loop nests use which tiles, and which tiles are kept in scratch memory.

A costly value with several uses is buffered: the first nest that computes it also writes it to scratch. A load whose
uses follow a write that may alias is buffered before the write, and before its own nest if that nest's stores may hit
elements it has still to load (dependences.py).

A set of nests is an int: bit 2s+1 is nest s, bit 2s the loops that fill scratch memory just before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....analysis.induction import steps
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Value, op_of, walk
from ....ir.rewrite import captured
from ....passes.simplify import SWAPPED
from .affine import ADDRESSING
from .dependences import positionwise, reorders

if TYPE_CHECKING:
    from .fuse_loops import _Fusion
    from .plan import LoopNest, _Groups

# Operands that must be materialized in scratch memory before the op: kind -> their positions.
MATERIALIZED = {ops.gather: (0,), ops.dot: (0, 1)}

KEEP = 8  # instructions per chunk from which a value is buffered, not rematerialized
LOAD = 8
SLOW = 8
WORK = 6  # arithmetic operations from which a value is buffered before a broadcast
DEEP = 120  # longer dependence chains are cut: their loops would spill registers


def induction_tiles(op: Op) -> frozenset[int]:
    """The positions of loop-carried tiles that every iteration advances by a uniform amount: carried as one scalar."""
    body = op.regions[-1]
    args = body.args[op.kind.loop.parameters:]
    return frozenset(k for k, (arg, y) in enumerate(zip(args, body.yields)) if _is_induction(arg, y))


def _is_induction(arg: Arg, y: Value) -> bool:
    if type(arg.type) is not T.Tile or type(T.element(arg.type)) is T.Scalar and T.element(arg.type).bits < 32:
        return False
    found = steps(arg, y)
    return found is not None and all(_is_uniform(step.value) for step in found)


def _is_uniform(x: Value) -> bool:
    while type(x) is Op and (x.kind.view or x.kind is ops.cast) and type(x.type) is T.Tile:
        x = x.operands[0]
    return type(x.type) is not T.Tile


class Buffering:
    """Propagates uses backwards through a block, from loop nests to the values they are computed from."""

    def __init__(self, lo: _Fusion, block: Block, groups: _Groups):
        self.lo, self.block, self.groups, self.nests = lo, block, groups, groups.nests
        # value -> nests: all that use it, loops, those that need it materialized, those that read at permuted positions
        self.uses, self.looped, self.needs_all, self.moved = {}, {}, {}, {}
        self.required, self.cut, self.kept = set(groups.forced), set(), set()
        self.weight = {}  # lazy op -> (instructions for a chunk, longest chain, how many are arithmetic)

    def find(self) -> None:
        """Find the nests that use each value, and decide which values are buffered."""
        order = self.foreign() + list(self.block.ops)
        lazy = [op for op in order if self.lo.is_lazy(op)]
        self.weigh(lazy)
        waiting = {*lazy}
        nest_of = {}
        for nest in self.nests:
            nest_of.update([(op, nest.index) for op in nest.ops])
            if nest.force is not None:
                self.add(nest.force, 2 << 2 * nest.index)
        for op in reversed(order):
            if op in waiting:
                self.lazy(op)
            elif op in nest_of:
                self.root(op, 2 << 2 * nest_of[op])
        for nest in self.nests:  # producers come first
            for values in (nest.before, nest.keeps, nest.first_keeps):
                values.reverse()

    def last_use(self, made: Mapping[Value, int]) -> dict[Value, int]:
        """value -> index of the last nest that uses a value, or of the one that computes it (from `made`)."""
        out = dict(made)
        for k, bits in self.uses.items():
            out[k] = bits.bit_length() - 1 >> 1
        return out

    def nests_using(self, x: Value) -> tuple[list[int], bool]:
        """(indices of the nests whose loops use a value, whether the loops before some nest use it as well)."""
        bits, out, s, alone = self.uses[x], [], 0, False
        while bits:
            if bits & 2:
                out.append(s)
            alone = alone or bool(bits & 1)
            bits, s = bits >> 2, s + 1
        return out, alone

    def foreign(self) -> list[Op]:
        """Lazy ops of enclosing blocks that this block may compute, operands first."""
        if not self.lo.inner:  # the kernel itself
            return []
        lo, out, pending = self.lo, [], []
        seen = {*self.block.ops}
        used = [x for op in walk(self.block) for x in op.operands]
        stack = [iter(used)]
        while stack:
            x = next(stack[-1], None)
            if x is None:
                stack.pop()
                if pending:
                    out.append(pending.pop())
                continue
            x = op_of(x)
            if type(x) is Arg or x in seen or not lo.is_lazy(x) or x.results[0] in lo.buffers:
                continue
            seen.add(x)
            pending.append(x)
            stack.append(iter(x.operands))
        return out

    # --- costs ----------------------------------------------------------------------------------------------------
    def weigh(self, lazy: Sequence[Op]) -> None:
        """Estimate the instructions per chunk of each lazy value, and its longest dependence chain."""
        users, weight, others = {}, self.weight, set()  # others: no index arithmetic, which has closed forms
        for op in self.block.ops:
            for x in op.operands:
                k = op_of(x)
                users[k] = users.get(k, 0) + 1
        self.row_numbers = self.for_rows()
        for op in lazy:
            kind = op.kind
            if kind.cost == "free" and not any(type(x.type) is T.Tile for x in op.operands):
                weight[op] = (0, 0, 0)
                continue
            cost = depth = work = 0
            for x in op.operands:
                k = op_of(x)
                c, d, w = weight.get(k) or (int(type(x.type) is T.Tile), 0, 0)
                cost += 1 if c >= KEEP and users.get(k, 0) > 1 else c  # a costly one with several users will be kept
                depth = max(depth, d)
                work += w
            if not T.is_ptr(op.types[0]) and (kind not in ADDRESSING or not others.isdisjoint(op.operands)):
                others.update(op.results)
            own = _own(op)
            weight[op] = (LOAD, depth + 1, 0) if kind is ops.load else \
                (min(cost + own, 1000), depth + 1, min(work + own, 1000))
            if depth >= DEEP and (self.keepable(op) or op.results[0] in others):
                self.required.add(op.results[0])
                self.cut.add(op.results[0])
                weight[op] = (1, 0, 0)

    def for_rows(self) -> set[Value]:
        """The values whose only uses are one per row of a tile."""
        rows, others = set(), set()
        for op in reversed(self.block.ops):
            column = op.kind is ops.expand_dims and op.attrs["axis"] == 1
            wanted = rows if column or op.kind.elementwise and op in rows and op not in others else others
            wanted.update([op_of(x) for x in op.operands])
            others.update(captured(op))
        return rows - others

    def heavy(self, op: Op) -> bool:
        """Whether a value is costly enough to buffer instead of rematerializing it."""
        return self.weight.get(op, (0,))[0] >= KEEP and self.keepable(op)

    def keepable(self, op: Op) -> bool:
        """Whether a value may be buffered. Addresses have closed forms instead, unless loaded. A remainder along lanes
        is contiguous where it does not wrap, and not from a buffer; one that only indexes rows is buffered."""
        element = T.element(op.types[0])
        if op.kind is ops.load:
            return True
        if type(element) is T.Ptr or element.is_int and op.kind in ADDRESSING:
            return False
        return op.kind is not ops.rem or element.is_float or op in self.row_numbers

    # --- uses ------------------------------------------------------------------------------------------------------
    def add(self, x: Value, bits: int, looped: int = 0, needs_all: int = 0, moved: int = 0) -> None:
        """Add nests `bits` to the uses of x."""
        if type(x.type) is not T.Tile:
            return
        self.uses[x] = self.uses.get(x, 0) | bits
        if looped:
            self.looped[x] = self.looped.get(x, 0) | looped
        if needs_all:
            self.needs_all[x] = self.needs_all.get(x, 0) | needs_all
        if moved:
            self.moved[x] = self.moved.get(x, 0) | moved

    def root(self, op: Op, bit: int) -> None:
        """Add the uses of a statement: its operands, and what its regions capture."""
        loops, one_by_one = op.kind.loop, self.lo.visits(op) == "elements"
        inductions, first = (induction_tiles(op), loops.operands) if loops else ((), 0)
        for k, x in enumerate(op.operands):
            if k - first in inductions:  # after the loop the tile is its start plus an offset
                later = self.uses.get(op.results[k - first], 0)
                self.add(x, bit | later, looped=bit)
            else:
                self.add(x, bit)
                if one_by_one and type(x) is Op and self.heavy(x) and not _plain_load(x):
                    self.required.add(x)
        for x in captured(op) if op.regions else ():
            self.add(x, bit, looped=bit if loops else 0)

    def lazy(self, op: Op) -> None:
        """Propagate the uses of a lazy op to its operands."""
        bits = looped = moved = 0
        for x in op.results:
            if x in self.uses:
                bits |= self.decide(op, x)
                moved |= self.moved.get(x, 0)
                if x not in self.kept:
                    looped |= self.looped.get(x, 0)
        if not bits:
            return
        if op.kind is ops.broadcast:
            self.before_broadcast(op, bits)
        moved = bits & moved if positionwise(op) else bits
        complete = MATERIALIZED.get(op.kind, ())
        if op.kind is ops.split or op.kind is ops.reshape and _hard(op):
            complete = (0,)
        for k, x in enumerate(op.operands):
            if k in complete:
                self.required.add(x)
                self.add(x, bits, needs_all=bits, moved=moved)
            else:
                self.add(x, bits, looped, moved=moved)

    def before_broadcast(self, op: Op, bits: int) -> None:
        """Buffer a costly operand of a broadcast, so that it is computed once, in chunks of its own shape."""
        x, = op.operands
        while type(x) is Op and x.kind is ops.expand_dims:
            x = x.operands[0]
        if type(x) is not Op or not 1 < T.numel(x.type) < T.numel(op.type):
            return
        if self.weight.get(x, (0, 0, 0))[2] >= WORK and self.keepable(x):
            self.required.add(x)
            self.needs_all[x] = self.needs_all.get(x, 0) | bits

    # --- decisions ------------------------------------------------------------------------------------------------
    def decide(self, op: Op, x: Value) -> int:
        """Decide whether to buffer a value; returns the nests that compute it."""
        bits = self.uses[x]
        if x in self.lo.buffers:
            return 0
        keep = x in self.required or (bits & (bits - 1) or self.looped.get(x, 0)) and self.heavy(op) \
            and not _taken_apart(op)  # its terms are buffered instead
        deadline = self.deadline(op, bits, self.moved.get(x, 0)) if op.kind is ops.load else None
        if not keep and (deadline is None or bits < deadline << 1):  # all loops that use it come before the deadline
            return bits
        self.kept.add(x)
        first = bits & -bits
        s = first.bit_length() - 1 >> 1
        if deadline is not None and deadline < first:
            first = deadline
            self.nests[first.bit_length() - 1 >> 1].before.append(x)
        else:
            first = self.keep(op, x, self.nests[s], first)
        self.uses[x] = bits | first
        return first

    def keep(self, op: Op, x: Value, nest: LoopNest, first: int) -> int:
        """Buffer a value in the first nest that uses it; returns the bit of the loops that write it."""
        if nest.force is not None and nest.force == x:
            return first
        alone = x in self.cut or self.needs_all.get(x, 0) & first or self.looped.get(x, 0) & first \
            or not self.keepable(op) or _taken_apart(op)  # loops that use only addresses and bounds do not compute it
        before = 1 << 2 * nest.index
        if first == before:
            (nest.before if alone else nest.first_keeps).append(x)
            return first
        if alone or any(self.lo.visits(o) != "chunks" for o in nest.ops):
            nest.before.append(x)
            return before
        nest.keeps.append(x)
        return first

    def deadline(self, op: Op, bits: int, moved: int) -> int | None:
        """The bit of the last loops that may perform a load, or None if any may: the first nest that writes memory if
        it uses the load and overwrites only elements already loaded, else the loops before it."""
        position, last = self.groups.positions.get(op, -1), bits.bit_length() - 1 >> 1
        for s, at in self.groups.writes:
            if at > position:
                if last < s:
                    return None
                inside = 2 << 2 * s
                earlier = bits & -bits < inside >> 1  # then it is buffered before the write
                if earlier or not bits & inside or reorders(self.lo, op, self.nests[s], bool(moved & inside)):
                    return inside >> 1
                return inside if last > s else None
        return None


def _taken_apart(op: Op) -> bool:
    """Whether loops may use an op as bounds of their indices, term by term, without ever computing it as a mask."""
    if T.element(op.types[0]) is not T.i1:
        return False
    if op.kind in SWAPPED:  # a comparison by order
        compared = T.element(op.operands[0].type)
        return type(compared) is T.Scalar and compared.is_int
    return op.kind is ops.and_ or op.kind.view


def _plain_load(op: Op) -> bool:
    """Whether an op is a load without a mask, which costs no more element by element."""
    return op.kind is ops.load and len(op.operands) == 1


def _own(op: Op) -> int:
    """The cost of an op without its operands."""
    if op.kind.elementwise:
        return SLOW if op.kind.cost == "slow" else 1
    if op.kind in ADDRESSING:
        return 0
    return SLOW if op.regions else 1


def _hard(op: Op) -> bool:
    """Whether a reshape has sizes that are no powers of two: chunks cannot be indexed through it."""
    return any(n & (n - 1) for n in (*T.shape(op.operands[0].type), *T.shape(op.type)))
