"""The pipeline schedule of a loop around dots: which loads are prefetched, and which dots stay in flight.

`software_pipeline` and `specialize_warps` emit it; `swap_operands` and `eliminate_redundant_loads` ask for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from .... import ops
from ....analysis.alias import MOST_PAIRS, AliasAnalysis
from ....analysis.axis_info import analyze
from ....ir import types as T
from ....ir.core import Op, Result, walk
from ....ir.rewrite import effects
from ....passes.regions import counts_down
from .. import ops as gpu_ops
from ..ops import MIN_TRANSFER


class Capabilities(NamedTuple):
    """What the target can do with dots and loads.

    fits(dot): it has an asynchronous MMA for this dot on shared-memory operands. multiplies(dot): it has an MMA for it
    with operands in registers. copies(dot): it has no MMA for it, but asynchronous copies to buffers that threads read.
    axis(load): the contiguous axis of a load. vector(load): the bytes of one asynchronous copy. takes(dot, operand,
    axis): operand "a" or "b" may be contiguous along `axis`. lhs_once(dot): an lhs in registers is not replicated over
    threads. holds(tiles): these tiles fit into the registers of the threads at the same time.
    """

    fits: Callable
    multiplies: Callable
    copies: Callable
    axis: Callable
    takes: Callable
    vector: Callable
    lhs_once: Callable
    holds: Callable


_OTHERS = 63  # registers of a thread for operands and addresses, beside the results of dots


def capabilities(target, module, nonnegative):
    """The `Capabilities` of a target for the dots and loads of a module. Asynchronous copies have up to 16 bytes.

    Values that are assumed not to be negative are added to `nonnegative`; see `axis_info.analyze`.
    """
    info, warps = analyze(module, nonnegative), module.attrs["num_warps"]
    mma, copies_itself = target.mma, target.async_copies is not None

    def types(dot):
        return dot.operands[0].type, dot.operands[1].type, dot.type, dot.attrs["precision"], warps

    def multiplies(dot):
        return copies_itself and len(dot.type.shape) == 2 and mma.fragments(*types(dot)) is not None

    def copies(dot):
        return copies_itself and len(dot.type.shape) == 2 and mma.accumulator(*types(dot)) is None

    def axis(load):
        known = info(load.operands[0])
        return max(range(len(known.contiguity)), key=lambda k: (known.contiguity[k], k))

    def takes(dot, operand, axis):
        return mma.takes(dot.operands["ab".index(operand)].type, operand, axis, dot.type.shape[0], warps)

    def vector(load):
        known, size = info(load.operands[0]), load.type.element.bytes
        along = axis(load)
        width = min(known.contiguity[along], known.divisibility[along] // size, load.type.shape[along], 16 // size)
        if len(load.operands) > 1:
            width = min(width, info(load.operands[1]).constancy[along])
        return width * size

    def holds(tiles, registers=target.registers):
        words = sum(tile.numel * _bytes(tile.element) // 4 for tile in tiles)
        return words <= (registers - _OTHERS) * target.warp_size * warps

    return Capabilities(
        fits=lambda dot: mma.in_shared(*types(dot)), multiplies=multiplies, copies=copies, axis=axis, takes=takes,
        vector=vector, lhs_once=lambda dot: mma.lhs_once(dot.type.shape[0], warps), holds=holds,
    )  # fmt: skip


def _bytes(element):
    return 8 if type(element) is T.Ptr else element.bytes


class Reordering:
    """Legality of hoisting loads of a module above stores; `pairs` are those assumed not to alias."""

    def __init__(self, module, pairs):
        self.module, self.pairs, self._known = module, pairs, {}

    @staticmethod
    def of(module, assumed):
        """As a pass may assume (`passes.assumed`); None if no launcher checks that accesses do not alias."""
        return None if assumed.pairs is None else Reordering(module, assumed.pairs)

    @functools.cached_property
    def alias(self):
        """The alias analysis of the module."""
        return self.module.found_by(AliasAnalysis)

    def pair(self, load, store, loop):
        """The pair of a load and a store in a loop that must not alias; None if no launcher can check it."""
        if (load, store) not in self._known:
            x, y = (self.alias.origin(op.operands[0]) for op in (load, store))
            pair = None if x == y else self.alias.pair(load, store, False, loop)
            self._known[load, store] = pair
        return self._known[load, store]

    def take(self, pairs):
        """Assume that these pairs do not alias; False if there are too many to check."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.pairs]
        if len(self.pairs) + len(new) > MOST_PAIRS:
            return False
        self.pairs += new
        return True


class Schedule:
    """A loop, its dots, the loads to prefetch, and the slice of the body that computes their addresses."""

    def __init__(self, loop, can, reordering=None):
        self.loop, self.can, self.body, self.reordering = loop, can, loop.regions[0], reordering
        self.inside = {*self.body.ops}
        dots = [op for op in self.body.ops if op.kind is ops.dot]
        self.dots = [op for op in dots if can.fits(op)]
        self.in_registers = [op for op in dots if op not in self.dots and can.multiplies(op)]
        self.stores = [op for op in self.body.ops if op.kind is ops.store]
        self.by_threads = [op for op in dots if can.copies(op) and self.comes_in_buffers(op)]
        self.buffers = {}  # prefetched load -> address of its multibuffer
        self.shared = {}  # loop-invariant operands in shared memory, as `share_outer_operands` gives them
        self.from_tma = {}  # the same for operands that TMA loads

    def works(self):
        """True if pipelining is legal and gains: at least one load that feeds a dot can be prefetched."""
        self.loads = {}  # in order; the values mean nothing
        if not self.dots or not self.quiet():
            return False
        for dot in self.dots:
            for operand, x in zip("ab", dot.operands):
                load, transposed = self.source(x)
                if load is None or not self.can_copy(load):
                    continue
                if not transposed or operand == "a" or self.layout_fits(dot, load, operand, transposed):
                    self.loads[load] = None
        self.loads = dict.fromkeys(filter(self.feeds_only_dots, self.loads))
        return bool(self.loads) and self.find_slice() and not self.indices

    def works_with_registers(self):
        """As `works`, but loads are also prefetched if a dot reads them from registers, if its operand is computed from
        them, or if their addresses depend on other loads."""
        alone, more = self.works(), {}
        for dot in (*self.dots, *self.in_registers, *self.by_threads):
            for x in dot.operands[:2]:
                more |= dict.fromkeys(filter(self.can_copy, self.loads_behind(x)))
        direct, self.loads = self.loads, self.loads | more
        if more and self.quiet() and self.find_slice():
            return self.with_rows()
        self.loads = direct
        return alone and self.find_slice() and self.with_rows()

    def comes_in_buffers(self, dot):
        """True if threads can read both operands of a dot from buffers: filled by copies, or before the loop."""
        loads = [self.source(x)[0] for x in dot.operands[:2]]
        there = [self.outside(x) or load is not None for x, load in zip(dot.operands, loads)]
        return all(there) and any(loads) and all(self.can_copy(load) for load in loads if load is not None)

    def with_rows(self):
        """Prefetch 1-D tiles as well (scales, row sums): read back from a buffer they take any layout."""
        found = [op for op in self.body.ops if op.kind is ops.load and len(T.shape(op.type)) == 1]
        found = [op for op in found if op not in self.index_loads and self.can_prefetch(op)]
        found = [op for op in found if not self.needs_loads(op)]
        self.loads |= dict.fromkeys(found)
        return self.find_slice()

    def quiet(self):
        """True if the loop writes memory only by stores that loads may be hoisted above, and every op can be cloned."""
        return self.only_stores() and not any(map(self.captures, self.body.ops))

    def only_stores(self):
        """True if the loop writes memory only by stores that loads may be hoisted above."""
        allowed = () if self.reordering is None else self.stores
        return not any("write" in (op.kind.effects, effects(op)) for op in self.body.ops if op not in allowed)

    def hoists_over_stores(self, load):
        """True if a load may be hoisted above the stores of earlier iterations."""
        return self.reordering is None or all(self.reordering.pair(load, store, self.loop) for store in self.stores)

    def take_pairs(self):
        """Record the pairs the launcher must check; False if there are too many."""
        if self.reordering is None or not self.stores:
            return True
        loads = [*self.loads, *self.index_loads]
        return self.reordering.take([self.reordering.pair(x, store, self.loop) for x in loads for store in self.stores])

    def loads_behind(self, x, rank=2):
        """The loads of tiles of this rank from which an operand of a dot is computed by cheap elementwise ops, views
        and broadcasts."""
        if type(x) is not Op or x not in self.inside:
            return
        if x.kind is ops.load and len(T.shape(x.type)) == rank:
            yield x
        elif x.kind.cost != "slow":
            for y in x.operands:
                yield from self.loads_behind(y, rank)

    def captures(self, op):
        """True if a region of `op` uses values of the body: such an op cannot be cloned by its operands alone."""
        used = [x.op if type(x) is Result else x for r in op.regions for inner in walk(r) for x in inner.operands]
        return any(x in self.inside or x in self.body.args for x in used)

    def source(self, x):
        """(load, whether it is transposed) that defines an operand of a dot; (None, False) if it is not a plain
        load."""
        transposed = False
        if type(x) is Op and x.kind is ops.trans and x.attrs["order"] == (1, 0) and x in self.inside:
            x, transposed = x.operands[0], True
        if type(x) is Op and x.kind is ops.load and x in self.inside:
            return x, transposed
        return None, False

    def can_copy(self, load):
        """True if an asynchronous copy gives the same tile as the load."""
        return zeros_elsewhere(load) and self.can_prefetch(load)

    def can_prefetch(self, load):
        """True if an asynchronous copy gives the same elements as the load where its mask holds."""
        return self.can.vector(load) >= MIN_TRANSFER and self.hoists_over_stores(load)

    def layout_fits(self, dot, load, operand, transposed):
        """True if the dot can read the buffer of a load with its layout in memory."""
        axis = self.can.axis(load)
        return self.can.takes(dot, operand, 1 - axis if transposed else axis)

    def best_axis(self, dot):
        """The contiguous axis of an rhs that threads write into a buffer: that of the loads it is computed from, or of
        the results of dots in registers, if the dot can read it so."""
        operand = dot.operands[1]
        along_k = any(self.can.axis(load) == 0 for load in self.loads_behind(operand))
        return 1 if self.can.takes(dot, "b", 1) and not along_k else 0

    def feeds_only_dots(self, load):
        """True if only dots read the load, directly or transposed."""
        readers = [op for op in self.body.ops if any(x is load for x in op.operands)]
        transposed = [op for op in readers if op.kind is ops.trans]
        readers += [op for op in self.body.ops for t in transposed if any(x is t for x in op.operands)]
        readers = [op for op in readers if op not in transposed]
        return all(op in self.dots and load in [self.source(x)[0] for x in op.operands[:2]] for op in readers)

    def find_slice(self):
        """Find the loop-carried values (`params`) and the loads (`index_loads`) that the addresses of prefetched loads
        depend on. `indices` are the index loads that depend on no other. False if the slice contains a prefetched load
        or an op with side effects."""
        found = self.slice_of(self.loads)
        if found is None:
            return False
        self.params, self.index_loads = found
        self.indices = [op for op in self.index_loads if not any(self.computed_from(op, x) for x in self.index_loads)]
        return True

    def slice_of(self, loads):
        """(positions of loop-carried values, other loads) that the operands of `loads` depend on; None if the slice
        contains a prefetched load or an op with side effects."""
        params, seen = set(), set()
        todo = [x for load in loads for x in load.operands]
        carried = {arg: k for k, arg in enumerate(self.body.args[1:])}
        while todo:
            x = todo.pop()
            op = x.op if type(x) is Result else x
            if op in carried and carried[op] not in params:
                params.add(carried[op])
                todo.append(self.body.yields[carried[op]])
            elif op in self.inside and op not in seen:
                if op in self.loads or effects(op) and not (op.kind is ops.load and self.hoists_over_stores(op)):
                    return None
                if self.captures(op):
                    return None
                seen.add(op)
                todo += op.operands
        return sorted(params), [op for op in self.body.ops if op.kind is ops.load and op in seen]

    def choose_loads(self, cost, room):
        """Prefetch loads into registers (`indices`), each with the loads it depends on, in program order until `room`
        is spent; False if there are none."""
        self.loads, chosen = {}, set()
        for load in (op for op in self.body.ops if op.kind is ops.load and self.hoists_over_stores(op)):
            found = self.slice_of([load])
            more = chosen.union((load, *found[1])) if found is not None else chosen
            chosen = more if sum(map(cost, more)) <= room else chosen
        self.indices = self.index_loads = [op for op in self.body.ops if op in chosen]
        self.params, _ = self.slice_of(self.indices) or ([], [])
        return bool(chosen)

    def computed_from(self, x, source):
        """True if `x` depends on an op of the same iteration."""
        todo, seen = list(x.operands), set()
        while todo:
            x = todo.pop()
            op = x.op if type(x) is Result else x
            if op is source:
                return True
            if op in self.inside and op not in seen:
                seen.add(op)
                todo += op.operands
        return False

    def needs_loads(self, x):
        """True if `x` depends on another load of the same iteration."""
        return any(op is not x and self.computed_from(x, op) for op in self.body.ops if op.kind is ops.load)

    def schedule_dots(self, copies=False):
        """Find the dots that stay in flight across the back edge (`in_flight`, positions of their loop-carried results)
        and those that are issued together at the start of an iteration (`issued_first`), and order the dots by issue.
        With `copies`, the threads also hold addresses and have fewer registers for results."""
        yields = [(k, out) for k, out in enumerate(self.body.yields) if out in self.dots]
        self.in_flight = [k for k, out in yields if self.may_stay_in_flight(k, out)]
        if copies:
            self.in_flight = [k for k in self.in_flight if self.can.holds(self.at_once(self.body.yields[k]))]
        first = [dot for dot in self.dots if not self.stays_in_flight(dot) and self.can_begin(dot)]
        carried = [x.type for x in self.body.args[1:] if type(x.type) is T.Tile]
        self.issued_first = first if len(first) > 1 and self.can.holds([*(dot.type for dot in first), *carried]) else []
        self.dots = [*self.issued_first, *(dot for dot in self.dots if dot not in self.issued_first)]

    def stays_in_flight(self, dot):
        """True if a dot stays in flight across the back edge."""
        return any(dot is self.body.yields[k] for k in self.in_flight)

    def may_stay_in_flight(self, k, dot):
        """True if the dot that yields loop-carried value `k` may stay in flight across the back edge."""
        arg = self.body.args[1 + k]
        if sum(y is dot or y is arg for y in self.body.yields) != 1 or self.users(dot) or not self.operands_stay(dot):
            return False
        return self.sum_of(dot) == k or dot.operands[2] is not arg and self.follow_other_dots(self.users(arg), dot)

    def at_once(self, dot):
        """Tiles live at once while a dot stays in flight: its lhs if in registers, the loop-carried tiles, and the
        largest result computed meanwhile."""
        others = [x.type for x in self.dots if x is not dot and x not in self.body.yields]
        carried = [x.type for x in self.body.args[1:] if type(x.type) is T.Tile and len(x.type.shape) > 1]
        left = [] if self.reads_in_place(dot, "a") else [dot.operands[0].type]
        return [*left, *carried, *sorted(others, key=lambda t: t.numel)[-1:]]

    def can_begin(self, dot):
        """True if a dot depends on no other dot of its iteration, and its rhs needs no copy to a buffer."""
        return self.reads_in_place(dot, "b") and not any(map(self.needs_dots, dot.operands))

    def sum_of(self, dot):
        """The position of the loop-carried value that is an accumulator of this dot alone; None if there is none."""
        for k, (out, arg) in enumerate(zip(self.body.yields, self.body.args[1:])):
            once = sum(y is out or y is arg for y in self.body.yields) == 1
            if once and out is dot and dot.operands[2] is arg and self.users(arg) == [dot] and not self.users(dot):
                return k
        return None

    def chains_into_next(self, dot):
        """True if the only user of the result is another dot that accumulates onto it."""
        users = self.users(dot)
        adds = dot in self.dots and len(users) == 1 and users[0] in self.dots and users[0].operands[2] is dot
        return adds and dot not in self.body.yields and dot not in users[0].operands[:2]

    def users(self, x):
        return [op for op in self.body.ops[:-1] if any(y is x for y in op.operands)]

    def reads_in_place(self, dot, operand):
        """True if a dot reads this operand from a buffer that no iteration rewrites: a slot of a multibuffer, or a tile
        shared before the loop."""
        x = dot.operands["ab".index(operand)]
        load, transposed = self.source(x)
        if load is not None and load in self.loads:
            return self.layout_fits(dot, load, operand, transposed)
        return self.outside(x)

    def operands_stay(self, dot):
        """True if no operand of a dot is overwritten before the dot is waited for: each is in a buffer, or the lhs is
        in registers that depend on another dot or are rounded after this one finished."""
        left = dot.operands[0]
        stays = self.reads_in_place(dot, "a") or type(left) is Op and self.follows_other_dot(left, dot)
        return (stays or self.unrounded(dot) is not None) and self.reads_in_place(dot, "b")

    def unrounded(self, dot):
        """(lhs before its rounding to 16 bits, order of its axes if transposed), for an lhs that depends on no dot of
        its iteration; otherwise None."""
        left, order = dot.operands[0], None
        if type(left) is Op and left.kind is ops.trans and left in self.inside:
            (left,), order = left.operands, left.attrs["order"]
        if type(left) is not Op or left.kind is not ops.cast or left not in self.inside:
            return None
        (x,), to = left.operands, left.attrs["to"]
        rounds = T.element(x.type) is T.f32 and to.is_float and to.bits == 16 and left.attrs["rounding"] is None
        return (x, order) if rounds and not self.needs_dots(x) else None

    def needs_dots(self, x):
        """True if `x` depends on a dot of the same iteration."""
        op = x.op if type(x) is Result else x
        return op in self.inside and (op.kind is ops.dot or any(self.needs_dots(y) for y in op.operands))

    def outside(self, x):
        """True for values defined before the loop."""
        op = x.op if type(x) is Result else x
        return op not in self.inside and op not in self.body.args

    def follow_other_dots(self, users, dot):
        return bool(users) and all(self.follows_other_dot(op, dot) for op in users)

    def follows_other_dot(self, op, dot):
        """True if `op` depends on another dot of its iteration, which has therefore been waited for."""
        todo, seen = list(op.operands), set()
        while todo:
            x = todo.pop()
            x = x.op if type(x) is Result else x
            if x in seen or x not in self.inside:
                continue
            if x in self.dots:
                return x is not dot
            seen.add(x)
            todo += x.operands
        return False

    # --- emission ---------------------------------------------------------------------------------------------------
    def bind(self, b, hi):
        """Emit the loop, which ends at `hi`, with builder `b`."""
        self.b, self.hi = b, hi

    def has_iteration(self, i):
        """i1: the loop has an iteration with index `i`."""
        return (ops.gt if counts_down(self.loop) else ops.lt)(self.b, i, self.hi)

    def outer_operands(self):
        """Loop-invariant operands that go into shared memory: (value, "a" or "b") -> (value, contiguous axis)."""
        found = {}
        for dot in (*self.dots, *self.in_registers, *self.by_threads):
            for operand, x in zip("ab", dot.operands):
                if self.outside(x) and (x, operand) not in self.from_tma:
                    found[x, operand] = x, 1 if operand == "a" else 0
        return found

    def share_outer_operands(self, operands=None):
        """Write such operands into shared memory: (value, "a" or "b") -> (address, contiguous axis)."""
        found = self.outer_operands() if operands is None else operands
        return {key: (gpu_ops.share(self.b, x, axis=axis), axis) for key, (x, axis) in found.items()}

    def slot_address(self, load, slot):
        b, size = self.b, load.type.numel * load.type.element.bytes
        slot = slot if slot.type is T.i32 else ops.cast(b, slot, to=T.i32)
        return ops.add(b, self.buffers[load], ops.mul(b, slot, ops.constant(b, value=size, type=T.i32)))


def stages_of(loop, module):
    """The number of stages of a loop: its own `num_stages`, else the kernel's, else 3."""
    own = loop.attrs["num_stages"]
    return module.attrs.get("num_stages", 3) if own is None else own


def is_loaded(x):
    """True for a load, or a transposed load."""
    x = x.operands[0] if type(x) is Op and x.kind is ops.trans else x
    return type(x) is Op and x.kind is ops.load


def zeros_elsewhere(load):
    """True if a load gives zeros, or undefined values, where its mask is off."""
    return len(load.operands) < 3 or _zero(load.operands[2])


def _zero(x):
    while type(x) is Op and (x.kind.view or x.kind is ops.cast):
        x = x.operands[0]
    return type(x) is Op and x.kind is ops.constant and x.attrs["value"] == 0
