"""Reductions along an axis: first in registers, then between lanes by shuffles, then between warps through shared
memory. Which bit of the axis lives where is read off the layout, so one routine serves every layout."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Value
from ....ir.rewrite import Rewriter, substitute
from ....passes.simplify import apply_rules
from ...llvm.numbering import number_of
from ...llvm.writer import Val
from ..analysis.operand_order import order_matters
from ..analysis.picked_elements import picked_element
from ..analysis.whole_masks import COMPARISONS
from ..layout.axis import Axis
from ..layout.linear import Layout, axis_bits, without_bits
from ..layout.values import layout_of
from ..shared_memory.needs import Need, Room, side_by_side, takes_shared
from .function import Lowering, lower
from .registers import Affine, affine_of, distinct_values
from .shape import convert_scalar
from .shared_memory import Passage


def _partials_need(op: Op, room: Room) -> Need | None:
    """The partial results of all warps along the axis, for each operand."""
    layout = layout_of(op.operands[0])
    axis = Axis(layout, op.attrs["axis"])
    count = layout.numel >> len(axis.bits) << len(axis.of("warp"))
    return Need([count * T.element(x.type).bytes for x in op.operands]) if axis.of("warp") else None


@lower(ops.reduce)
@takes_shared(_partials_need, meets=True)
def reduce(g: Lowering, op: Op, *xs: Sequence[Val]) -> tuple[list[Val], ...]:
    layout, region = g.layout(op.operands[0]), op.regions[0]
    axis = Axis(layout, op.attrs["axis"])
    half = picked_element(op) if len(axis.bits) == 1 and axis.of("lane") else None
    if half is not None:
        return _from_half(g, op, *half, layout, axis)
    combine = Combination(g, region)
    counted = [_counted(x) if k in combine.places else None for k, x in enumerate(xs)]
    own = [x if c is None else [g.const(T.element(y.type), n) for n in c.numbers]
           for x, y, c in zip(xs, op.operands, counted)]  # fmt: skip
    groups = {}
    for r, e in enumerate(layout.register_elements()):
        groups.setdefault(e & ~axis.mask, []).append([x[r] for x in own])
    keys = list(groups)
    totals = [_tree(groups[k], combine, in_order=any(counted)) for k in keys]
    totals = [[x if c is None else g.w.binary("add", c.base[0], x) for x, c in zip(t, counted)] for t in totals]
    lanes = axis.of("lane")
    sided = bool(lanes or axis.of("warp")) and order_matters(region)  # all threads must agree: they may branch on it
    totals = _between_lanes(g, totals, lanes, combine)
    if axis.of("warp"):
        totals = _across_warps(g, op, layout, axis, keys, totals, combine, sided)
    elif sided:
        totals = _from_first(g, totals, lanes)
    return _arrange(op, keys, totals, layout)


def _from_half(g: Lowering, op: Op, product: Op, x: Value, which: int, layout: Layout,
               axis: Axis) -> tuple[list[Val], ...]:
    """Element `which` of each pair, whose elements are in two lanes: the lane's own, or the other's."""
    (bit,), source, to = axis.of("lane"), T.element(product.type), T.element(op.operands[0].type)
    own = [y if source is to else convert_scalar(g, y, source, to) for y in g.get(x)]
    low = _is_first(g, [bit])
    pick = lambda mine, other: g.select(low, *((mine, other) if which == 0 else (other, mine)))
    totals = [[pick(y, g.heard(y, 1 << bit))] for y in own]
    keys = [e & ~axis.mask for e in layout.register_elements()]
    return _arrange(op, keys, totals, layout)


class Combination:
    """Combines what two places have of all operands, by the region of a reduction.

    Operands that are constants are folded: so Welford's weights, which begin as ones, are added while the kernel is
    compiled, and quotients of them as well."""

    def __init__(self, g: Lowering, region: Block):
        self.g, self.region = g, region
        self.known: dict[tuple, Block] = {}
        half = len(region.args) // 2
        pairs = zip(region.args[:half], region.args[half:], region.yields)
        self.places = {k: found for k, pair in enumerate(pairs) if (found := _comparisons(region, *pair))}

    def __call__(self, a: Sequence[Val], b: Sequence[Val]) -> list[Val]:
        operands = [*a, *b]
        numbers = tuple(None if k % len(a) in self.places else number_of(x) for k, x in enumerate(operands))
        if numbers.count(None) == len(numbers):
            return self.g.inline(self._ordered(dict(zip(self.region.args, operands))), operands)
        key = tuple(map(repr, numbers))  # 0.0 is not -0.0
        if key not in self.known:
            self.known[key] = _with_constants(self.region, numbers)
        return self.g.inline(self.known[key], [x for x, n in zip(operands, numbers) if n is None])

    def _ordered(self, values: dict[Value, Val]) -> Block:
        """The region, without comparisons of places whose results are known."""
        spell = lambda op: op.kind.row.llvm["uint" if op.attrs.get("unsigned") else "int"]
        compared = [op for found in self.places.values() for op in found]
        results = tuple([self.g.decided(spell(op), *(values[x] for x in op.operands)) for op in compared])
        if results.count(None) == len(results):
            return self.region
        if results not in self.known:
            b = Rewriter(apply_rules)
            with b.region([arg.type for arg in self.region.args]) as inner:
                known = {op: ops.constant(b, value=x == "true", type=T.i1) for op, x in zip(compared, results) if x}
                ops.yield_(b, *substitute(b, self.region, inner.args, known))
            self.known[results] = inner.block
        return self.known[results]


def _comparisons(region: Block, a: Arg, b: Arg, chosen: Value) -> list[Op]:
    """The comparisons of two operands that are only compared with each other, and of which one is chosen: they may be
    counted from anywhere. Empty for other operands."""
    if a.type not in (T.i32, T.i64) or type(chosen) is not Op or chosen.kind is not ops.select:
        return []
    users = [op for op in region.ops if a in op.operands or b in op.operands]
    others = [op for op in users if op is not chosen]
    fits = all(op.kind in COMPARISONS for op in others) and all({*x.operands[-2:]} == {a, b} for x in (chosen, *others))
    again = any(op.regions or chosen in op.operands for op in region.ops[:-1]) or [*region.yields].count(chosen) > 1
    return others if fits and not again else []


def _counted(x: Sequence[Val]) -> Affine | None:
    """The numbers that registers are counted by, from one value; None if there is no such value."""
    found = affine_of(x)
    return found if found and found.exact and found.scale is None and distinct_values(found.base) == 1 else None


def _with_constants(region: Block, numbers: Sequence[float | int | None]) -> Block:
    """The region with numbers in place of some parameters; it takes the others."""
    b = Rewriter(apply_rules)
    others = [arg for arg, n in zip(region.args, numbers) if n is None]
    with b.region([arg.type for arg in others], [arg.name for arg in others]) as inner:
        rest = iter(inner.args)
        args = [next(rest) if n is None else ops.constant(b, value=n, type=arg.type)
                for arg, n in zip(region.args, numbers)]  # fmt: skip
        ops.yield_(b, *substitute(b, region, args))
    return inner.block


def _between_lanes(g: Lowering, totals: Sequence[Sequence[Val]], lanes: list[int],
                   combine: Callable) -> Sequence[Sequence[Val]]:
    """Combine with the lanes that differ in these bits of their number, one bit after the other.

    The lane without any of them, and those that it hears from, have what comes first on the left. So where the order of
    operands matters, the result that counts is that lane's."""
    for bit in lanes:
        others = [[_heard(g, x, "xor", 1 << bit) for x in t] for t in totals]
        totals = [combine(*pair) for pair in zip(totals, others)]
    return totals


def _heard(g: Lowering, x: Val, how: str, lane: int | Val) -> Val:
    """What another lane has of a value; a constant all have."""
    return g.target.shuffle(g, x, how, lane) if x[0] == "%" else x


def _from_first(g: Lowering, totals: Sequence[Sequence[Val]], lanes: list[int]) -> Sequence[Sequence[Val]]:
    """What the lane without these bits of its number has."""
    if not lanes:
        return totals
    first = g.w.binary("and", g.place("lane"), g.int(g.lanes - 1 & ~sum(1 << bit for bit in lanes)))
    return [[_heard(g, x, "from", first) for x in t] for t in totals]


def _tree(items: Sequence[Any], combine: Callable, in_order: bool = False) -> Any:
    """Combine pairs, and what they come to: of the two halves, or of neighbours, which stay in order."""
    while len(items) > 1:
        half = len(items) // 2
        pairs = zip(items[::2], items[1::2]) if in_order else zip(items[:half], items[half:])
        items = [*(combine(*pair) for pair in pairs), *items[2 * half :]]
    return items[0]


def _across_warps(g: Lowering, op: Op, layout: Layout, axis: Axis, keys: list[int], totals: Sequence[Sequence[Val]],
                  combine: Callable, sided: bool) -> Sequence[Sequence[Val]]:
    """Every warp leaves its partial results in shared memory; every thread collects those of its elements.

    Lanes that want the same element share the work, if there are as many as partial results: each reads the few that
    one access brings, and they exchange what these come to. The pairs that are combined are the same either way."""
    w = g.w
    types = [T.element(x.type) for x in op.operands]
    passage = Passage(g, op)
    bases, count = passage.bases, layout.numel >> len(axis.bits)  # results in all
    squeeze = _squeezer(layout.shape, op.attrs["axis"])
    kept = layout.map(squeeze, (count,))
    thread, _ = g.linear(kept._replace(reg=()), lambda x: x)
    bits = len(axis.of("warp"))
    idle = [k for k, x in enumerate(kept.lane) if not x]
    alone = min(bits, _TOGETHER) if len(idle) >= bits else bits  # of the number of a partial, what a thread reads alone
    shared = idle[: bits - alone]
    place = [alone + k if k < len(shared) else k - len(shared) for k in range(bits)] if len(idle) >= bits else None
    at = [w.binary("xor", thread, g.int(squeeze(key))) for key in keys]
    passage.before_write()
    with w.when(_is_first(g, axis.of("lane")) if sided and axis.of("lane") else None):
        for total, index in zip(totals, _slots(g, layout, axis, at, place, count)):
            for x, base, t in zip(total, bases, types):
                if x[0] == "%":
                    g.shared.store(g, base, index, x, t)
    passage.after_write()
    if place is None:
        behind = lambda index, p: w.binary("add", index, g.int(p * count))
        read = lambda index, base, t: [g.shared.load(g, base, behind(index, p), t) for p in range(1 << bits)]
    else:
        part = g.spread([1 << alone + shared.index(k) if k in shared else 0 for k in range(g.lane_bits)], "lane")
        start = lambda index: w.binary("or disjoint", w.binary("shl", index, g.int(bits)), part)
        read = lambda index, base, t: g.shared.load_several(g, base, start(index), t, 1 << alone)
    partials = 1 << (bits if place is None else alone)
    found = lambda index, x, base, t: read(index, base, t) if x[0] == "%" else [x] * partials
    rows = lambda total, index: list(zip(*[found(index, *each) for each in zip(total, bases, types)]))
    collected = [_tree(rows(total, index), combine) for total, index in zip(totals, at)]
    out = _between_lanes(g, collected, shared[::-1], combine)
    return _from_first(g, out, shared) if sided else out


_TOGETHER = 2  # bits: four partial results of 4 bytes are one access


def _is_first(g: Lowering, lanes: list[int]) -> Val:
    """i1: none of these bits of the lane's number is set."""
    mask = sum(1 << bit for bit in lanes)
    return g.w.compare("icmp eq", g.w.binary("and", g.place("lane"), g.int(mask)), g.int(0))


def _slots(g: Lowering, layout: Layout, axis: Axis, at: Sequence[Val], place: list[int] | None,
           count: int) -> list[Val]:
    """Where a warp leaves its partial results of the elements `at`: bit k of its number along the axis goes to bit
    `place[k]` behind the element's, or, without places, one warp's are behind the other's."""
    w, of = g.w, axis.of("warp")
    image = {bit: 1 << (k if place is None else place[k]) for k, bit in enumerate(of)}
    slot = g.spread([image.get(k, 0) for k in range(len(layout.warp))], "warp")
    if place is None:
        return [w.binary("add", w.binary("mul", slot, g.int(count)), x) for x in at]
    return [w.binary("or disjoint", w.binary("shl", x, g.int(len(of))), slot) for x in at]


def _squeezer(shape: tuple[int, ...], axis: int) -> Callable[[int], int]:
    """The function that takes an element's number in a tile to that in the result of a reduction."""
    return functools.partial(without_bits, *axis_bits(shape, axis))


def _arrange(op: Op, keys: list[int], totals: Sequence[Sequence[Val]], layout: Layout) -> tuple[list[Val], ...]:
    """Put each total into the registers the result's layout names."""
    squeeze = _squeezer(layout.shape, op.attrs["axis"])
    found = {squeeze(k): t for k, t in zip(keys, totals)}
    placed = layout_of(op.results[0])
    elements = placed.register_elements() if placed else [0]
    return tuple([found[e][k] for e in elements] for k in range(len(op.types)))


def exchange_need(types: Sequence[T.Scalar | T.Ptr], registers: int, room: Room) -> Need:
    """The shared memory that `exchange_threads` needs for `registers` registers of each thread.

    Where there is no room for all of them, some go after the others: `together` is the bytes of a thread that go at
    once.
    """
    each, together = sum(t.bytes for t in types), room.bytes // room.threads
    at_once = min(registers, max(1, together // each))
    _, size = side_by_side(0, [room.threads * at_once * t.bytes for t in types])
    return Need([size], attrs={"together": together} if at_once < registers else {})


def exchange_threads(passage: Passage, types: Sequence[T.Scalar | T.Ptr], mask: Val,
                     total: Sequence[Sequence[Val]]) -> list[list[Val]]:
    """What the thread whose number differs in `mask` (i32) holds, register by register, through the last of the op's
    buffers."""
    g, w, threads = passage.g, passage.g.w, passage.g.threads
    thread = g.place("thread")
    partner = w.binary("xor", thread, mask)
    together, out = passage.op.attrs.get("together"), []
    at_once = len(total) if together is None else max(1, together // sum(t.bytes for t in types))
    for start in range(0, len(total), at_once):
        some = total[start : start + at_once]
        bases, _ = side_by_side(passage.bases[-1], [threads * len(some) * t.bytes for t in types])
        passage.before_write()
        for r, items in enumerate(some):
            for x, base, t in zip(items, bases, types):
                g.shared.store(g, base, w.binary("add", thread, g.int(r * threads)), x, t)
        passage.after_write()
        for r in range(len(some)):
            index = w.binary("add", partner, g.int(r * threads))
            out.append([g.shared.load(g, base, index, t) for base, t in zip(bases, types)])
    return out


@lower(ops.map_)
def map_(g: Lowering, op: Op, *xs: Sequence[Val]) -> tuple[list[Val], ...]:
    """Apply the region to each `pack` neighbouring registers (the layout keeps neighbours together)."""
    pack, region = op.attrs["pack"], op.regions[0]
    count = len(xs[0])
    outs: list[list[Any]] = [[None] * count for _ in op.types]
    for start in range(0, count, pack):
        args = [x[start + k] for x in xs for k in range(pack)]
        results = g.inline(region, args)
        for n in range(len(op.types)):
            outs[n][start : start + pack] = results[n * pack : (n + 1) * pack]
    return tuple(outs)
