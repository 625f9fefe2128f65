"""Unroll loops, so that the loads of several iterations are in flight at once.

A loop with a small constant trip count and a small total body is unrolled completely:

    for i in 0, 6144, 2048:          acc = acc + load p + (0 + arange), 0 + arange < 5000
      x = load p + (i + arange), i + arange < 5000            ->        ... twice more, for 2048 and 4096
      acc = acc + x

The index is a constant, so branches of the first iteration fold, and `apply_ranges` finds the masks of iterations
within bounds to hold.

A longer loop that only loads and computes is unrolled by a factor. Without that, each iteration waits for its own
loads: nothing else has been issued.

    for i in 0, n, 512:                     for i in 0, n / 2048 * 2048, 2048:
      acc = acc + load p + (i + arange)  ->   acc = acc + load p + (i + arange)
                                              ... three times more, for i + 512, i + 1024 and i + 1536
                                            for i in n / 2048 * 2048, n / 1024 * 1024, 1024:
                                              ... twice
                                            for i in n / 1024 * 1024, n, 512:
                                              acc = acc + load p + (i + arange)

The factor is the one that fills the bytes which a thread may have in flight (`CostModel.unrolled_bytes`). The rest
takes half the factor, a quarter and so on, so that short rows overlap their loads, too; it is written out if the trip
count is known. All loops but the last stay below the bound, so they need no masks `i + arange < n`, and their addresses
have one base.

Loops with dots are left to the software pipeline, and those that ask for stages to `prefetch_loads`. But where an
iteration only computes element by element, it takes less time than a load that is issued one iteration ahead. Such a
loop is unrolled if two tiles find room in the registers that `prefetch_loads` may take, and if no load waits for
another one. Loops with a `loop_unroll_factor` are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .... import ops
from ....analysis.arithmetic import constant_of
from ....ir import types as T
from ....ir.builder import several
from ....ir.core import Block, Module, Op, Result, Value, closure, op_of, walk
from ....ir.rewrite import Rewriter, effects, substitute, sweep
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.regions import trip_count
from ....passes.simplify import apply_rules, truth
from ..analysis.whole_masks import COMPARISONS, conditions, extremes
from ..cost_model import CostModel


def unroll_loops(lanes: int, cost: CostModel) -> Callable[[Module], Module]:
    """The pass that unrolls short loops of known length, for warps of `lanes` lanes; `cost` has the limits.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> from tritium.ir.text import parse_module
    >>> print(unroll_loops(32, NvTarget.of(90).cost)(parse_module('''kernel @f(%p: ptr<i32>) {
    ...   %0 = constant {value=0, type=i32} : i32
    ...   %1 = constant {value=2, type=i32} : i32
    ...   %2 = constant {value=1, type=i32} : i32
    ...   for %0, %1, %2 {
    ...   ^(%i: i32):
    ...     %3 = addptr %p, %i : ptr<i32>
    ...     store %3, %i
    ...     yield
    ...   }
    ... }''')), end="")
    kernel @f(%p: ptr<i32>) {
      %1 = constant {value=0, type=i32} : i32
      %2 = constant {value=1, type=i32} : i32
      store %p, %1
      %3 = addptr %p, %2 : ptr<i32>
      store %3, %2
    }
    """

    @each_function
    def unroll_loops(module: Module) -> Module:
        """Write out short loops of known length, and several iterations of longer ones that load."""
        if ops.for_ not in module.kinds:
            return module
        threads = lanes * module.attrs.get("num_warps", 4)
        if not any(_factor(op, lanes, threads, cost) > 1 for op in walk(module.body)):
            return module

        def rule(b: Rewriter, op: Op) -> Any:
            factor = _factor(op, lanes, threads, cost)
            return _unrolled(b, op, factor) if factor > 1 else apply_rules(b, op)

        return dce(sweep(module, rule))

    return unroll_loops


def _factor(op: Op, lanes: int, threads: int, cost: CostModel) -> int:
    """How many iterations of a loop are written out as one; 1 for loops that are left alone, and for other ops."""
    if op.kind is not ops.for_ or op.attrs["unroll"] is not None:
        return 1
    body, trips, stages = op.regions[0], trip_count(op), op.attrs["num_stages"]
    if any(map(_has_loops, walk(body))) or stages is not None and not (stages > 1 and _only_loads_and_computes(body)):
        return 1
    work = max(1, operations(walk(body), threads, cost))
    loaded = _loaded_bytes(body, threads)
    overlaps = loaded > 0 and all(map(_can_overlap, body.ops))
    if trips and trips <= cost.unrolled_trips:
        # Loads wait for the stores before them. But a row that is small is kept, and not loaded again by the next loop.
        gains = overlaps or 0 < trips * loaded <= cost.kept_bytes
        if trips * work <= (cost.unrolled_work if gains else cost.unrolled_work // cost.idle_unrolled):
            return trips
    if not overlaps or not _counts_up(op):
        return 1
    room = cost.unrolled_bytes if stages is None else _prefetched_bytes(threads // lanes, cost)
    factor = min(cost.unrolled_trips, room // max(loaded, _spread_bytes(body, threads)),
                 cost.unrolled_work // (2 * work))
    if not trips or factor < 2:
        return factor
    # One that leaves no iterations over, if there is one near. A loop of one iteration is none.
    near = (k for k in range(factor, factor // 2, -1) if trips % k == 0)
    return next(near, factor if trips >= 2 * factor else trips)


_LONG_STEP = 1 << 24  # some of them are no index of 32 bits


def _has_loops(op: Op) -> bool:
    return op.kind.loop or op.kind.mma or op.kind is ops.call


def _can_overlap(op: Op) -> bool:
    """True for what the loads of later iterations can be issued before: not for stores, nor for branches that load."""
    return effects(op) == "" or effects(op) == "read" and not op.regions


def _only_loads_and_computes(body: Block) -> bool:
    """True if each thread goes through an iteration without the others, and no load waits for another one: not for one
    of an earlier iteration either."""
    by_element = lambda op: op.kind.elementwise or op.kind.terminator or op.kind.cost == "free" or op.kind is ops.load
    loads = {op for op in body.ops if op.kind is ops.load}
    sources = closure((x for op in loads for x in op.operands), _behind(body))
    return all(map(by_element, body.ops)) and loads.isdisjoint(sources)


def _behind(body: Block) -> Callable[[Any], tuple[Value, ...]]:
    """What a value of a loop's body is made of; a carried one, of what the last iteration yields."""
    inside, yielded = set(body.ops), dict(zip(body.args[1:], body.yields))
    return lambda x: (x.operands if type(x) is Op and x in inside else (yielded[x],) if x in yielded else
                      (x.op,) if type(x) is Result else ())  # fmt: skip


def _prefetched_bytes(warps: int, cost: CostModel) -> int:
    """The bytes that a thread may hold of loads that are issued ahead: a part of its registers."""
    return 4 * 256 // cost.prefetch_share * cost.warps_with_all_registers // max(warps, cost.warps_with_all_registers)


def _counts_up(op: Op) -> bool:
    """True if the step is a constant above zero, and the index has no fewer bits than its multiples need."""
    step = constant_of(op.operands[2])
    return step is not None and 0 < step < _LONG_STEP and op.operands[0].type in (T.i32, T.i64)


def _spread_bytes(block: Block, threads: int) -> int:
    """The bytes of a thread's part of the largest tile that is broadcast to more elements than any load has.

    A body that compares each of a few loaded numbers with each of many rows keeps a thread busy while they arrive, and
    its registers are full.
    """
    sizes = [T.numel(op.type) for op in walk(block) if op.kind is ops.load]
    return max((T.numel(op.type) * T.element(op.type).bytes // threads for op in walk(block)
                if op.kind is ops.broadcast and T.numel(op.type) > max(sizes)), default=0)


def _loaded_bytes(block: Block, threads: int) -> int:
    """The bytes that a thread loads in a block, four for each load at least."""
    bytes_of = lambda op: max(4, T.numel(op.type) * T.element(op.type).bytes // threads)
    return sum(bytes_of(op) for op in walk(block) if op.kind is ops.load)


def operations(block: Iterable[Op], threads: int, cost: CostModel) -> int:
    """The approximate number of element operations per thread of ops."""
    return sum(_weight(op, cost) * max([1, *(T.numel(t) // threads for t in op.types)]) for op in block)


def _weight(op: Op, cost: CostModel) -> int:
    if op.kind.cost == "free" or op.kind.terminator:
        return 0
    return cost.slow_operations if op.kind.elementwise and op.kind.cost == "slow" else 1


def _unrolled(b: Rewriter, op: Op, factor: int) -> tuple[Value, ...]:
    """The results of the loop, with `factor` iterations written out as one."""
    lo, hi, step, *values = op.operands
    body, trips, stride = op.regions[0], trip_count(op), step.attrs["value"]
    constant = lambda value: ops.constant(b, value=value, type=lo.type)
    loads = _Loads(body)

    def iterations(first: Value, values: Sequence[Value], count: int,
                   in_bounds: _InBounds | None = None) -> Sequence[Value]:
        indices = [ops.add(b, first, constant(k * stride)) for k in range(count)]
        loaded, ahead = [], values
        for k, index in enumerate(indices):
            known, ahead = loads.emit(b, index, ahead, in_bounds.known(b, first, k * stride) if in_bounds else {})
            loaded.append(known)
        for index, known in zip(indices, loaded):
            values = substitute(b, body, (index, *values), known)
        return values

    def loop(start: Value, end: Value, count: int, values: Sequence[Value],
             in_bounds: _InBounds | None) -> tuple[Value, ...]:
        """A loop with `count` iterations written out as one."""
        with b.region([x.type for x in (lo, *values)], [arg.name for arg in body.args]) as region:
            ops.yield_(b, *iterations(region.args[0], region.args[1:], count, in_bounds))
        attrs = {**op.attrs, "nonempty": trips is not None, "copies": count, "num_stages": None}
        return _loop(b, (start, end, constant(count * stride), *values), attrs, region.block)

    if trips is not None and trips <= factor:
        return tuple(iterations(lo, values, trips))
    if trips is not None:
        last = lo.attrs["value"] + trips // factor * factor * stride
        in_bounds = _InBounds(body, hi, stride) if last <= hi.attrs["value"] else None
        return tuple(iterations(constant(last), loop(lo, constant(last), factor, values, in_bounds), trips % factor))
    first, start = constant_of(lo), lo
    nonnegative = first is not None and first >= 0
    in_bounds = _InBounds(body, hi, stride, nonnegative)
    while factor > 1:
        end = _last(b, start, hi, factor * stride, nonnegative)
        values = loop(start, end, factor, values, in_bounds)
        start, factor = end, factor // 2
    return _loop(b, (start, hi, step, *values), {**op.attrs, "nonempty": False, "num_stages": None}, body)


def _last(b: Rewriter, start: Value, bound: Value, step: int, nonnegative: bool) -> Value:
    """The last number up to a bound that is a multiple of `step` away from `start`."""
    length = ops.sub(b, ops.max_(b, bound, start), start)
    if nonnegative:
        wide = ops.constant(b, value=step, type=start.type)
        return ops.add(b, start, ops.mul(b, ops.div(b, length, wide), wide))
    unsigned = {T.i32: T.u32, T.i64: T.u64}[start.type]  # the length may be half of all numbers, and more
    wide = ops.constant(b, value=step, type=unsigned)
    length = ops.mul(b, ops.div(b, ops.cast(b, length, to=unsigned), wide), wide)
    return ops.add(b, start, ops.cast(b, length, to=start.type))


class _Loads:
    """What an iteration does for its loads: they, and all that their addresses, and those of the next, come from.

    Empty if that takes branches or several results of an op, or if the iteration stores: then nothing is issued ahead.
    """

    def __init__(self, body: Block):
        taken = {*closure((op for op in body.ops if op.kind is ops.load), _behind(body))}
        made = tuple(op for op in body.ops if op in taken)
        simple = all(len(op.types) == 1 and not op.regions for op in made)
        self.ops: tuple[Op, ...] = made if simple and all(effects(op) != "write" for op in body.ops) else ()
        self.yields: Sequence[Value] = body.yields
        self.body = Block(body.args, (*self.ops, Op(ops.yield_, self.ops, {}, ())))

    def emit(self, b: Rewriter, index: Value, values: Sequence[Value],
             known: dict[Op, Value]) -> tuple[dict[Value, Value], Sequence[Value]]:
        """Emit the loads of an iteration: what stands for its ops, and the next iteration's values as far as it knows.
        """
        made: dict[Value, Value] = {**known, **dict(zip(self.ops, substitute(b, self.body, (index, *values), known)))}
        names = {**dict(zip(self.body.args, (index, *values))), **made}
        return made, [names.get(x, x) for x in self.yields]


def _chosen(bound: Value) -> tuple[Value, ...]:
    """What a bound is wherever there are iterations from zero or more on: n, if it is n or else zero."""
    if type(bound) is Op and bound.kind is ops.select and constant_of(bound.operands[2]) == 0:
        return (bound.operands[1],)
    return ()


class _InBounds:
    """What is known of iterations whose indices, `stride` in each, all lie below a bound: masks that compare them with
    it hold, and sums of them do not overflow. So addresses are those of the first iteration and a number."""

    def __init__(self, body: Block, bound: Value, stride: int, nonnegative: bool = False):
        self.index, self.inside, self.stride = body.args[0], {*body.args, *body.ops}, stride
        self.bounds = bound, *(_chosen(bound) if nonnegative else ())
        self.masks = [op for op in body.ops if op.kind in COMPARISONS and self.holds(op)]
        self.addresses = [op for op in body.ops if op.kind is ops.addptr and self.starts_at_index(op)]

    def holds(self, mask: Op) -> bool:
        """True for a mask that compares indices with the bound."""
        bounds = [((bound, 1),) for bound in self.bounds]
        compares = lambda x: x.least.terms in bounds and x.most.terms == ((self.index, 1),)
        below = lambda x: x.most.number < x.least.number + self.stride + (not x.strict)
        found = conditions(mask)
        return bool(found) and all(compares(x) and below(x) for x in found)

    def starts_at_index(self, address: Op) -> bool:
        """True for the addresses of elements behind a pointer: of the index, and of less than `stride` further."""
        pointer, offset = address.operands
        one = type(address.type) is not T.Tile or type(pointer) is Op and pointer.kind is ops.splat
        if not one or op_of(pointer) in self.inside:
            return False
        found = extremes(offset)
        return found is not None and all(x.terms == ((self.index, 1),) and 0 <= x.number < self.stride for x in found)

    def known(self, b: Rewriter, first: Value, ahead: int) -> dict[Op, Value]:
        """What stands for ops in an iteration whose index is `first` and `ahead`."""
        found = {mask: truth(b, True, mask.type) for mask in self.masks}
        number, of_loop = ops.constant(b, value=ahead, type=first.type), b.loc
        for op in self.addresses:
            (pointer, offset), shape, b.loc = op.operands, T.shape(op.type), op.loc
            tile = lambda x, shape=shape: ops.splat(b, x, shape=shape) if shape else x
            near = tile(ops.addptr(b, pointer.operands[0] if shape else pointer, first))
            near = ops.addptr(b, near, self.without_index(b, offset))
            found[op] = ops.addptr(b, near, tile(number)) if ahead else near
        b.loc = of_loop
        return found

    def without_index(self, b: Rewriter, x: Value) -> Value:
        """What an offset is if the index is zero."""
        if x is self.index:
            return ops.constant(b, value=0, type=x.type)
        if type(x) is not Op or x not in self.inside:
            return x
        return b.emit(x.kind, [self.without_index(b, y) for y in x.operands], x.attrs)


def _loop(b: Rewriter, operands: tuple[Value, ...], attrs: dict[str, Any], body: Block) -> tuple[Value, ...]:
    """The results of a loop that is not unrolled again."""
    return several(b.emit_as_is(ops.for_, operands, attrs, (body,)))
