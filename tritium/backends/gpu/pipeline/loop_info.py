"""A loop as the pipeline passes see it: its dots, its stores, and which value depends on which. Nothing is chosen here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Value, closure, op_of, walk
from ....ir.rewrite import captured, effects, inputs
from ..analysis.held_sums import carried_sums
from ..ops import MIN_TRANSFER
from .capabilities import Capabilities
from .reordering import Reordering


@dataclass(frozen=True, eq=False)
class LoopInfo:
    """A loop and its dots, by who multiplies: asynchronous MMAs on shared memory (`dots`), MMAs on registers
    (`in_registers`), or threads on buffers (`by_threads`). `stores` are its stores, and atomics without a result, those
    in branches too."""

    loop: Op
    can: Capabilities
    reordering: Reordering | None
    inside: frozenset[Op]
    dots: tuple[Op, ...]
    in_registers: tuple[Op, ...]
    stores: tuple[Op, ...]
    by_threads: tuple[Op, ...] = ()

    @staticmethod
    def of(loop: Op, can: Capabilities, reordering: Reordering | None = None) -> LoopInfo:
        """What there is to know of a loop; without a `reordering`, no load moves above a store."""
        body = loop.regions[0].ops
        every = [op for op in body if op.kind is ops.dot]
        dots = tuple(op for op in every if can.fits(op))
        in_registers = tuple(op for op in every if op not in dots and can.multiplies(op))
        stores = tuple(op for op in walk(loop.regions[0]) if op.kind is ops.store or _only_adds(op, loop))
        info = LoopInfo(loop, can, reordering, frozenset(body), dots, in_registers, stores)
        by_threads = tuple(op for op in every if can.copies(op) and info.comes_in_buffers(op))
        return dataclasses.replace(info, by_threads=by_threads) if by_threads else info

    @property
    def body(self) -> Block:
        """The body of the loop."""
        return self.loop.regions[0]

    # --- memory -----------------------------------------------------------------------------------------------------
    def quiet(self) -> bool:
        """True if the loop writes memory only by stores that loads may be hoisted above, and every op can be cloned.
        A branch with stores stays where it is, so no dot may need what it gives."""
        hoisted = self.only_stores() and all(map(self.hoists_over_stores, self.behind_stores()))
        if not hoisted or not all(map(self.can_clone, self.body.ops)):
            return False
        writes = [op for op in self.body.ops if op.regions and effects(op) == "write"]
        return not any(self.computed_from(dot, op) for op in writes for dot in self.body.ops if dot.kind.mma)

    def behind_stores(self) -> tuple[Op, ...]:
        """The loads that stand behind a store of their iteration: with the dots that need them they move above it."""
        first = next((k for k, op in enumerate(self.body.ops) if effects(op) == "write"), len(self.body.ops))
        reads = [op for op in self.body.ops[first:] if effects(op) == "read"]
        return tuple(x for op in reads for x in (op, *_inner(op)) if x.kind is ops.load)

    def only_stores(self) -> bool:
        """True if the loop writes memory only by stores that loads may be hoisted above."""
        allowed = () if self.reordering is None else self.stores
        return not any("write" in (op.kind.effects, op.kind.effects_of(op)) for op in walk(self.body)
                       if op not in allowed)  # fmt: skip

    def hoists_over_stores(self, load: Op) -> bool:
        """True if a load may be hoisted above the stores of earlier iterations."""
        return self.reordering is None or all(self.pairs([load]))

    def pairs(self, loads: Iterable[Op]) -> tuple:
        """The pairs of these loads and the stores that the launcher must check not to alias."""
        if self.reordering is None or not self.stores:
            return ()
        around_dots = any(op.kind.mma for op in self.body.ops)
        pair = self.reordering.hoisted if around_dots else self.reordering.pair
        return tuple(pair(x, store, self.loop) for x in loads for store in self.stores)

    def can_copy(self, load: Op) -> bool:
        """True if an asynchronous copy gives the same tile as the load."""
        return zeros_elsewhere(load) and self.can_prefetch(load)

    def can_prefetch(self, load: Op) -> bool:
        """True if an asynchronous copy gives the same elements as the load where its mask holds."""
        return self.can.vector(load) >= MIN_TRANSFER and self.hoists_over_stores(load)

    # --- operands of dots -------------------------------------------------------------------------------------------
    def source(self, x: Value) -> tuple[Op | None, bool]:
        """(load, whether it is transposed) that defines an operand of a dot; (None, False) if it is not a plain
        load."""
        transposed = False
        if type(x) is Op and x.kind is ops.trans and x.attrs["order"] == (1, 0) and x in self.inside:
            x, transposed = x.operands[0], True
        if type(x) is Op and x.kind is ops.load and x in self.inside:
            return x, transposed
        return None, False

    def loads_behind(self, x: Value, rank: int = 2) -> Iterator[Op]:
        """The loads of tiles of this rank from which an operand of a dot is computed by elementwise ops, views,
        broadcasts and joins, each once."""
        return (load for load, _ in self._loads_behind(x, rank))

    def _loads_behind(self, x: Value, rank: int = 2) -> Iterator[tuple[Op, bool]]:
        """(load, whether it is transposed an odd number of times) of these loads."""
        seen, stack = set(), [(x, False)]
        while stack:
            x, transposed = stack.pop()
            if type(x) is not Op or x not in self.inside or x in seen:
                continue
            seen.add(x)
            if x.kind is ops.load and len(T.shape(x.type)) == rank:
                yield x, transposed
            elif x.kind.elementwise or x.kind.cost != "slow" or x.kind is ops.join:
                transposed ^= x.kind is ops.trans and x.attrs["order"] == (1, 0)
                stack += [(y, transposed) for y in reversed(x.operands)]

    def comes_in_buffers(self, dot: Op) -> bool:
        """True if threads can read both operands of a dot from buffers: filled by copies, or before the loop."""
        loads = [self.source(x)[0] for x in dot.operands[:2]]
        there = [self.outside(x) or load is not None for x, load in zip(dot.operands, loads)]
        return all(there) and any(loads) and all(self.can_copy(load) for load in loads if load is not None)

    def layout_fits(self, dot: Op, load: Op, operand: str, transposed: bool) -> bool:
        """True if the dot can read the buffer of a load with its layout in memory."""
        axis = self.can.axis(load)
        return self.can.takes(dot, operand, 1 - axis if transposed else axis)

    def best_axis(self, dot: Op) -> int:
        """The contiguous axis of an rhs that threads write into a buffer: that of the loads it is computed from, or of
        the results of dots in registers, if the dot can read it so."""
        operand = dot.operands[1]
        along_k = any(self.can.axis(load) == transposed for load, transposed in self._loads_behind(operand))
        return 1 if self.can.takes(dot, "b", 1) and not along_k else 0

    def feeds_only_dots(self, load: Op) -> bool:
        """True if only dots read the load, directly or transposed."""
        readers = self.users(load)
        transposed = [op for op in readers if op.kind is ops.trans]
        readers += [op for t in transposed for op in self.users(t)]
        readers = [op for op in readers if op not in transposed]
        return all(op in self.dots and load in [self.source(x)[0] for x in op.operands[:2]] for op in readers)

    def best_lhs_axis(self, dot: Op) -> int | None:
        """The contiguous axis of an lhs that threads write into a buffer: that of the loads it is computed from, if the
        dot can read it so; None if it is computed from dots, or from no loads."""
        operand = dot.operands[0]
        along_k = [self.can.axis(load) != transposed for load, transposed in self._loads_behind(operand)]
        if not along_k or self.needs_dots(operand):
            return None
        return 1 if any(along_k) or not self.can.takes(dot, "a", 0) else 0

    def unrounded(self, dot: Op) -> tuple[Value, tuple[int, ...] | None] | None:
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

    # --- results of dots --------------------------------------------------------------------------------------------
    def sum_of(self, dot: Op) -> int | None:
        """The position of the loop-carried value that is an accumulator of this dot alone; None if there is none."""
        acc = dot.operands[2]
        for k, (out, arg) in enumerate(zip(self.body.yields, self.body.args[1:])):
            once = sum(y is out or y is arg for y in self.body.yields) == 1
            alone = carried_sums(dot) is arg and len(self.users(arg)) == len(self.users(acc)) == 1
            if once and out is dot and alone and self.only_branches_read(dot):
                return k
        return None

    def only_branches_read(self, dot: Op) -> bool:
        """True if nothing but branches reads the result of a dot in its iteration: they can wait for it."""
        return all(op.kind is ops.if_ and op.operands[0] is not dot for op in self.users(dot))

    def beside_store(self, op: Op, in_flight: Sequence[Value]) -> tuple[list[Op], list[Op]]:
        """The dots to be issued before `op` is computed, a store of dots' results: the last of those it waits for, then
        the dots in flight that only add to sums, and run meanwhile. Nothing if there are none of these."""
        if effects(op) != "write" or not self.needs_dots(op):
            return [], []
        beside = [dot for dot in self.dots if dot in in_flight and self.sum_of(dot) is not None]
        awaited = [dot for dot in self.dots if dot not in beside and self.computed_from(op, dot)]
        return (awaited[-1:], beside) if beside and awaited else ([], [])

    def chains_into_next(self, dot: Op) -> bool:
        """True if the only user of the result is another dot that accumulates onto it."""
        users = self.users(dot)
        adds = len(users) == 1 and users[0] in self.dots and users[0].operands[2] is dot
        return adds and dot not in self.body.yields and dot not in users[0].operands[:2]

    # --- dependences ------------------------------------------------------------------------------------------------
    def outside(self, x: Value) -> bool:
        """True for values defined before the loop."""
        return op_of(x) not in self.inside and x not in self.body.args

    def users(self, x: Value) -> list[Op]:
        """The ops of the body that read a value, themselves or in a region."""
        return [op for op in self.body.ops[:-1] if any(y is x for y in inputs(op))]

    def captures(self, op: Op) -> bool:
        """True if a region of `op` uses values of the body."""
        return any(op_of(x) in self.inside or x in self.body.args for x in captured(op))

    def can_clone(self, op: Op) -> bool:
        """True if an op can be emitted on other values: it captures none, or is a branch without loops and dots."""
        plain = op.kind is ops.if_ and not any(x.kind.loop or x.kind.mma or x.kind is ops.call for x in _inner(op))
        return plain or not self.captures(op)

    def behind(self, values: Iterable[Value]) -> set[Op]:
        """The ops of an iteration that compute these values."""
        return {*self._behind(values)}

    def _behind(self, values: Iterable[Value]) -> Iterator[Op]:
        made_inside = lambda xs: [op for op in map(op_of, xs) if op in self.inside]
        return closure(made_inside(values), lambda op: made_inside(inputs(op)))

    def computed_from(self, x: Op, source: Op) -> bool:
        """True if `x` depends on an op of the same iteration."""
        return source in self.behind(inputs(x))

    def needs_loads(self, x: Op) -> bool:
        """True if `x` depends on another load of the same iteration."""
        return any(y.kind is ops.load for op in self.behind(inputs(x)) for y in (op, *_inner(op)))

    def needs_dots(self, x: Value) -> bool:
        """True if `x` depends on a dot of the same iteration."""
        return any(op.kind is ops.dot for op in self.behind([x]))

    def follow_other_dots(self, users: list[Op], dot: Op) -> bool:
        """True if there are users, and each follows another dot than this one."""
        return bool(users) and all(self.follows_other_dot(op, dot) for op in users)

    def follows_other_dot(self, op: Op, dot: Op) -> bool:
        """True if `op` depends on another dot of its iteration, which has therefore been waited for."""
        return next((x is not dot for x in self._behind(inputs(op)) if x in self.dots), False)


def _inner(op: Op) -> Iterator[Op]:
    """The ops of the regions of an op."""
    return (inner for region in op.regions for inner in walk(region))


def registers_of(t: T.Type, threads: int, packed: bool = False) -> int:
    """The number of 32-bit registers per thread of a value. 16-bit elements count as one each, unless they are packed:
    they are widened when used, but not by dots."""
    numel, element = (t.numel, t.element) if type(t) is T.Tile else (1, t)
    if packed and type(element) is T.Scalar:
        return max(1, numel * element.bytes // (4 * threads))
    return max(1, numel // threads) * (2 if type(element) is T.Ptr or element.bits > 32 else 1)


def stages_of(loop: Op, module: Module) -> int:
    """The number of stages of a loop: its own `num_stages`, else the kernel's, else 3."""
    own = loop.attrs["num_stages"]
    return module.attrs.get("num_stages", 3) if own is None else own


def untransposed(x: Value) -> tuple[Value, bool]:
    """(the tile that is transposed to a value, whether one is)."""
    if type(x) is Op and x.kind is ops.trans and x.attrs["order"] == (1, 0):
        return x.operands[0], True
    return x, False


def is_loaded(x: Value) -> bool:
    """True for a load, or a transposed load."""
    x = x.operands[0] if type(x) is Op and x.kind is ops.trans else x
    return type(x) is Op and x.kind is ops.load


def _only_adds(op: Op, loop: Op) -> bool:
    """True for an atomic update of a loop whose old value nobody reads. The program cannot tell which updates of others
    came before, so loads may move above it whatever its memory order. Not for exchanges: who was last is seen later."""
    adds = op.kind is ops.atomic and op.attrs["how"] not in ("xchg", "load", "store")
    return adds and not any(op in other.operands for other in walk(loop.regions[0]))


def zeros_elsewhere(load: Op) -> bool:
    """True if a load gives zeros, or undefined values, where its mask is off."""
    return len(load.operands) < 3 or is_zero(load.operands[2])


def is_zero(x: Value) -> bool:
    """True for the number 0, or a tile of zeros."""
    while type(x) is Op and (x.kind.view or x.kind is ops.cast):
        x = x.operands[0]
    return type(x) is Op and x.kind is ops.constant and x.attrs["value"] == 0
