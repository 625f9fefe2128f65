"""The pipeline schedule of a loop around dots: which loads are prefetched, and which dots stay in flight.

`software_pipeline` and `specialize_warps` emit it; `swap_operands` and `eliminate_redundant_loads` ask for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Result, walk
from ....ir.rewrite import effects
from ....passes.alias import MOST_PAIRS, AliasAnalysis
from ....passes.regions import counts_down
from .. import ops as gpu_ops
from ..ops import MIN_TRANSFER


class Capabilities(NamedTuple):
    """What the target says of dots and loads.

    fits(dot): it can start this dot on buffers.   multiplies(dot): it has instructions for it, in registers at least.
    copies(dot): it has none, but copies that run by themselves, to buffers that threads read.
    axis(load): along which its rows lie in memory.   vector(load): bytes of one copy.
    takes(dot, side, axis): its operand `side` ("a" or "b") may lie along `axis`.
    left_once(dot): of a left side in registers, each thread has elements of its own.
    holds(tiles): threads can hold these results all at once.
    """

    fits: Callable
    multiplies: Callable
    copies: Callable
    axis: Callable
    takes: Callable
    vector: Callable
    left_once: Callable
    holds: Callable


class Reordering:
    """Legality of hoisting loads above stores; `pairs` collects the access pairs that must be disjoint."""

    def __init__(self, module, pairs):
        self.module, self.pairs, self._known = module, pairs, {}

    @functools.cached_property
    def alias(self):
        """The alias analysis of the module."""
        return AliasAnalysis(self.module)

    def pair(self, load, store, loop):
        """The `Pair` of a load and a store in a loop; None if no launcher could prove them disjoint."""
        key = id(load), id(store)
        if key not in self._known:  # with what the key stands for, so that it stands for nothing else
            x, y = (self.alias.origin(op.operands[0]) for op in (load, store))
            pair = None if x == y else self.alias.pair(load, store, False, loop)
            self._known[key] = pair, load, store
        return self._known[key][0]

    def take(self, pairs):
        """Add preconditions; False if there are too many."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.pairs]
        if len(self.pairs) + len(new) > MOST_PAIRS:
            return False
        self.pairs += new
        return True


class Plan:
    """A loop: its dots, the loads that can run ahead, and what their addresses depend on."""

    def __init__(self, loop, can, reordering=None):
        self.loop, self.can, self.body, self.reordering = loop, can, loop.regions[0], reordering
        self.inside = {id(op): op for op in self.body.ops}
        dots = [op for op in self.body.ops if op.kind is ops.dot]
        self.dots = [op for op in dots if can.fits(op)]
        self.in_registers = [op for op in dots if op not in self.dots and can.multiplies(op)]
        self.stores = [op for op in self.body.ops if op.kind is ops.store]
        self.by_threads = [op for op in dots if can.copies(op) and self.comes_in_buffers(op)]
        self.rings = {}  # addresses of the buffers of loads that run ahead, by their keys
        self.shared = {}  # operands made before the loop that are in shared memory: as `share_outer_operands`
        self.brought = {}  # likewise, if the copy engine brings them there

    def works(self):
        """True if the loop gains: a dot with at least one load to run ahead, and nothing in the way of that."""
        self.loads = {}
        if not self.dots or not self.quiet():
            return False
        for dot in self.dots:
            for side, x in zip("ab", dot.operands):
                load, turned = self.source(x)
                if load is None or not self.can_copy(load):
                    continue
                if not turned or side == "a" or self.lies_right(dot, load, side, turned):
                    self.loads[id(load)] = load
        self.loads = {k: x for k, x in self.loads.items() if self.feeds_only_dots(x)}
        return bool(self.loads) and self.find_slice() and not self.indices

    def works_with_registers(self):
        """As `works`, where loads may also run ahead that dots want in registers or computed with, or whose addresses
        follow from other loads."""
        alone, more = self.works(), {}
        for dot in (*self.dots, *self.in_registers, *self.by_threads):
            for x in dot.operands[:2]:
                more |= {id(load): load for load in self.behind(x) if self.can_copy(load)}
        direct, self.loads = self.loads, self.loads | more
        if more and self.quiet() and self.find_slice():
            return self.with_rows()
        self.loads = direct
        return alone and self.find_slice() and self.with_rows()

    def comes_in_buffers(self, dot):
        """True if threads can read both sides of a dot as copies bring them, or as they were put before the loop."""
        loads = [self.source(x)[0] for x in dot.operands[:2]]
        there = [self.outside(x) or load is not None for x, load in zip(dot.operands, loads)]
        return all(there) and any(loads) and all(self.can_copy(load) for load in loads if load is not None)

    def with_rows(self):
        """Have 1-D tiles run ahead as well (scales, sums of rows): read back from a buffer they come in any layout."""
        found = [op for op in self.body.ops if op.kind is ops.load and len(T.shape(op.type)) == 1]
        found = [op for op in found if op not in self.looked_up and self.can_run_ahead(op) and not self.needs_loads(op)]
        self.loads |= {id(op): op for op in found}
        return self.find_slice()

    def quiet(self):
        """True if nothing in the loop writes memory but stores that loads may pass, and every op can be copied."""
        return self.only_stores() and not any(map(self.captures, self.body.ops))

    def only_stores(self):
        """True if nothing in the loop writes memory but stores that loads may pass."""
        allowed = () if self.reordering is None else self.stores
        return not any("write" in (op.kind.effects, effects(op)) for op in self.body.ops if op not in allowed)

    def passes_stores(self, load):
        """True if a load may run ahead of what the loop stores."""
        return self.reordering is None or all(self.reordering.pair(load, store, self.loop) for store in self.stores)

    def take_pairs(self):
        """Note what the launcher has to see to; False if that is too much."""
        if self.reordering is None or not self.stores:
            return True
        loads = [*self.loads.values(), *self.looked_up]
        return self.reordering.take([self.reordering.pair(x, store, self.loop) for x in loads for store in self.stores])

    def behind(self, x, rank=2):
        """The loads of 2-D tiles that a dot's operand is computed from element by element, cheaply, or is spread from;
        or those of another `rank`."""
        if type(x) is not Op or id(x) not in self.inside:
            return
        if x.kind is ops.load and len(T.shape(x.type)) == rank:
            yield x
        elif x.kind in _SPREADS or x.kind.row and x.kind.row.cost == "cheap" or x.kind.elementwise and not x.kind.row:
            for y in x.operands:
                yield from self.behind(y, rank)

    def captures(self, op):
        """True if a region of `op` uses what the body computes: such an op cannot be copied by its operands alone."""
        used = [x.op if type(x) is Result else x for r in op.regions for inner in walk(r) for x in inner.operands]
        return any(id(x) in self.inside or x in self.body.args for x in used)

    def source(self, x):
        """(load, whether it is transposed) behind a dot's operand; (None, False) if it is something else."""
        turned = False
        if type(x) is Op and x.kind is ops.trans and x.attrs["order"] == (1, 0) and id(x) in self.inside:
            x, turned = x.operands[0], True
        if type(x) is Op and x.kind is ops.load and id(x) in self.inside:
            return x, turned
        return None, False

    def can_copy(self, load):
        """True if copies bring what a load does."""
        return zeros_elsewhere(load) and self.can_run_ahead(load)

    def can_run_ahead(self, load):
        """True if copies bring what a load does where its mask holds."""
        return self.can.vector(load) >= MIN_TRANSFER and self.passes_stores(load)

    def lies_right(self, dot, load, side, turned):
        """True if the dot can read the load's buffer as it lies in memory."""
        axis = self.can.axis(load)
        return self.can.takes(dot, side, 1 - axis if turned else axis)

    def best_axis(self, dot):
        """Along which the rows of a right side come best that threads put into a buffer: as what it is computed from
        lies in memory, and results of dots in registers, if the dot can read it so."""
        side = dot.operands[1]
        along_k = any(self.can.axis(load) == 0 for load in self.behind(side))
        return 1 if self.can.takes(dot, "b", 1) and not along_k else 0

    def feeds_only_dots(self, load):
        """True if nothing but dots (perhaps through a transposition) reads the load."""
        readers = [op for op in self.body.ops if any(x is load for x in op.operands)]
        turned = [op for op in readers if op.kind is ops.trans]
        readers += [op for op in self.body.ops for t in turned if any(x is t for x in op.operands)]
        readers = [op for op in readers if op not in turned]
        return all(op in self.dots and load in [self.source(x)[0] for x in op.operands[:2]] for op in readers)

    def find_slice(self):
        """The carried parameters that the addresses of what runs ahead depend on, and the loads (`looked_up`), of which
        `indices` follow from no other; False if among them is one to be copied ahead, or something stranger."""
        found = self.slice_of(self.loads.values())
        if found is None:
            return False
        self.params, self.looked_up = found
        self.indices = [op for op in self.looked_up if not any(self.computed_from(op, x) for x in self.looked_up)]
        return True

    def slice_of(self, loads):
        """(carried parameters, other loads) that the operands of `loads` depend on, the former by their positions; None
        if one of them is to be copied ahead, or something stranger."""
        params, seen = set(), set()
        todo = [x for load in loads for x in load.operands]
        carried = {id(a): k for k, a in enumerate(self.body.args[1:])}
        while todo:
            x = todo.pop()
            op = x.op if type(x) is Result else x
            if id(op) in carried and carried[id(op)] not in params:
                params.add(carried[id(op)])
                todo.append(self.body.yields[carried[id(op)]])
            elif id(op) in self.inside and id(op) not in seen:
                if id(op) in self.loads or effects(op) and not (op.kind is ops.load and self.passes_stores(op)):
                    return None
                if self.captures(op):
                    return None
                seen.add(id(op))
                todo += op.operands
        return sorted(params), [op for op in self.body.ops if op.kind is ops.load and id(op) in seen]

    def choose_loads(self, cost, room):
        """Have loads run ahead in registers (`indices`), each with those that it depends on, in order as long as they
        cost no more than there is room for; False if there are none."""
        self.loads, chosen = {}, set()
        for load in (op for op in self.body.ops if op.kind is ops.load and self.passes_stores(op)):
            found = self.slice_of([load])
            more = chosen.union((load, *found[1])) if found is not None else chosen
            chosen = more if sum(map(cost, more)) <= room else chosen
        self.indices = self.looked_up = [op for op in self.body.ops if op in chosen]
        self.params, _ = self.slice_of(self.indices) or ([], [])
        return bool(chosen)

    def computed_from(self, x, source):
        """True if `x` follows from an op of its round."""
        todo, seen = list(x.operands), set()
        while todo:
            x = todo.pop()
            op = x.op if type(x) is Result else x
            if op is source:
                return True
            if id(op) in self.inside and id(op) not in seen:
                seen.add(id(op))
                todo += op.operands
        return False

    def needs_loads(self, x):
        """True if `x` follows from another load of its round."""
        return any(op is not x and self.computed_from(x, op) for op in self.body.ops if op.kind is ops.load)

    def settle_dots(self, copies=False):
        """Find the dots that run on into the next round (`late`, by their positions among the carried values), and
        those that begin a round together (`early`). The dots are then in the order in which they begin. Threads that
        hold the addresses of `copies` have registers for less."""
        self.late = [k for k, out in enumerate(self.body.yields) if out in self.dots and self.runs_on(k, out)]
        if copies:
            self.late = [k for k in self.late if self.can.holds(self.at_once(self.body.yields[k]))]
        first = [dot for dot in self.dots if not self.is_late(dot) and self.can_begin(dot)]
        carried = [x.type for x in self.body.args[1:] if type(x.type) is T.Tile]
        self.early = first if len(first) > 1 and self.can.holds([*(dot.type for dot in first), *carried]) else []
        self.dots = [*self.early, *(dot for dot in self.dots if dot not in self.early)]

    def is_late(self, dot):
        """True if a dot runs on into the next round."""
        return any(dot is self.body.yields[k] for k in self.late)

    def runs_on(self, k, dot):
        """True if the dot that makes a carried value may do so into the next round."""
        arg = self.body.args[1 + k]
        if sum(y is dot or y is arg for y in self.body.yields) != 1 or self.users(dot) or not self.sides_stay(dot):
            return False
        return self.sum_of(dot) == k or dot.operands[2] is not arg and self.follow_other_dots(self.users(arg), dot)

    def at_once(self, dot):
        """Tiles that threads hold at once if a dot runs on: its left side, if it has it in registers, what the loop
        carries, and the largest result that is made meanwhile."""
        others = [x.type for x in self.dots if x is not dot and x not in self.body.yields]
        carried = [x.type for x in self.body.args[1:] if type(x.type) is T.Tile and len(x.type.shape) > 1]
        left = [] if self.reads_in_place(dot, "a") else [dot.operands[0].type]
        return [*left, *carried, *sorted(others, key=lambda t: t.numel)[-1:]]

    def can_begin(self, dot):
        """True if a dot needs no other of its round, and nothing is to be put into a buffer for it."""
        return self.reads_in_place(dot, "b") and not any(map(self.needs_dots, dot.operands))

    def sum_of(self, dot):
        """The position among the carried values of one that is the sum of this dot's products and nothing else."""
        for k, (out, arg) in enumerate(zip(self.body.yields, self.body.args[1:])):
            once = sum(y is out or y is arg for y in self.body.yields) == 1
            if once and out is dot and dot.operands[2] is arg and self.users(arg) == [dot] and not self.users(dot):
                return k
        return None

    def runs_into_next(self, dot):
        """True if nothing needs the dot's result but another that adds to it."""
        users = self.users(dot)
        adds = dot in self.dots and len(users) == 1 and users[0] in self.dots and users[0].operands[2] is dot
        return adds and dot not in self.body.yields and dot not in users[0].operands[:2]

    def users(self, x):
        return [op for op in self.body.ops[:-1] if any(y is x for y in op.operands)]

    def reads_in_place(self, dot, side):
        """True if a dot reads this side from a buffer that is not written in every round: a slot of a ring, or what was
        put there before the loop."""
        x = dot.operands["ab".index(side)]
        load, turned = self.source(x)
        if load is not None and id(load) in self.loads:
            return self.lies_right(dot, load, side, turned)
        return self.outside(x)

    def sides_stay(self, dot):
        """True if nothing a dot reads is written in the next round before it has been waited for: it reads a buffer, or
        on the left registers that follow from another dot, or that are rounded when it is over."""
        left = dot.operands[0]
        stays = self.reads_in_place(dot, "a") or type(left) is Op and self.follows_other_dot(left, dot)
        return (stays or self.unrounded(dot) is not None) and self.reads_in_place(dot, "b")

    def unrounded(self, dot):
        """What a left side is that its round computes without other dots, before it is rounded to 16 bits; with the
        order of its axes if it is transposed. None of other left sides."""
        left, order = dot.operands[0], None
        if type(left) is Op and left.kind is ops.trans and id(left) in self.inside:
            (left,), order = left.operands, left.attrs["order"]
        if type(left) is not Op or left.kind is not ops.cast or id(left) not in self.inside:
            return None
        (x,), to = left.operands, left.attrs["to"]
        rounds = T.element(x.type) is T.f32 and to.is_float and to.bits == 16 and left.attrs["rounding"] is None
        return (x, order) if rounds and not self.needs_dots(x) else None

    def needs_dots(self, x):
        """True if `x` follows from the result of a dot of its round."""
        op = x.op if type(x) is Result else x
        return id(op) in self.inside and (op.kind is ops.dot or any(self.needs_dots(y) for y in op.operands))

    def outside(self, x):
        """True for what is made before the loop."""
        op = x.op if type(x) is Result else x
        return id(op) not in self.inside and op not in self.body.args

    def follow_other_dots(self, users, dot):
        return bool(users) and all(self.follows_other_dot(op, dot) for op in users)

    def follows_other_dot(self, op, dot):
        """True if `op` needs the result of another dot of its round, which therefore has been waited for."""
        todo, seen = list(op.operands), set()
        while todo:
            x = todo.pop()
            x = x.op if type(x) is Result else x
            if id(x) in seen or id(x) not in self.inside:
                continue
            if x in self.dots:
                return x is not dot
            seen.add(id(x))
            todo += x.operands
        return False

    # --- carried out ------------------------------------------------------------------------------------------------
    def carry_out(self, b, hi):
        """From now on `b` writes the loop, which ends at `hi`."""
        self.b, self.hi = b, hi

    def goes_on(self, i):
        """i1: the loop has a round with index `i`."""
        return (ops.gt if counts_down(self.loop) else ops.lt)(self.b, i, self.hi)

    def outer_operands(self):
        """Operands made before the loop that go into shared memory: (operand, side) -> (operand, axis of its rows)."""
        found = {}
        for dot in (*self.dots, *self.in_registers, *self.by_threads):
            for side, x in zip("ab", dot.operands):
                if self.outside(x) and (id(x), side) not in self.brought:
                    found[id(x), side] = x, 1 if side == "a" else 0
        return found

    def share_outer_operands(self, operands=None):
        """Put such operands into shared memory once: (operand, side) -> (address, axis of its rows)."""
        found = self.outer_operands() if operands is None else operands
        return {key: (gpu_ops.share(self.b, x, axis=axis), axis) for key, (x, axis) in found.items()}

    def slot_address(self, key, slot):
        b, size = self.b, self.loads[key].type.numel * self.loads[key].type.element.bytes
        slot = slot if slot.type is T.i32 else ops.cast(b, slot, to=T.i32)
        return ops.add(b, self.rings[key], ops.mul(b, slot, ops.constant(b, value=size, type=T.i32)))


_SPREADS = (ops.trans, ops.expand_dims, ops.broadcast, ops.reshape)  # they compute nothing


def is_loaded(x):
    """True for what is loaded as it is, or transposed."""
    x = x.operands[0] if type(x) is Op and x.kind is ops.trans else x
    return type(x) is Op and x.kind is ops.load


def zeros_elsewhere(load):
    """True if a load gives zeros, or anything, where its mask is off."""
    return len(load.operands) < 3 or _zero(load.operands[2])


def _zero(x):
    while type(x) is Op and x.kind in (ops.splat, ops.cast):
        x = x.operands[0]
    return type(x) is Op and x.kind is ops.constant and x.attrs["value"] == 0
