"""Reductions along an axis: first in registers, then between lanes by shuffles, then between warps through shared
memory. Which bit of the axis lives where is read off the layout, so one routine serves every layout."""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import walk
from ..layout.linear import Layout, axis_bits
from .function import lower


class Axis:
    """The bits of an axis and their homes in a layout: `bits` has (part, bit of the part) for each, low to high."""

    def __init__(self, layout, axis):
        low, width = axis_bits(layout.shape, axis)
        self.mask = ((1 << width) - 1) << low
        self.bits = []
        for k in range(width):
            image = 1 << (low + k)
            self.bits.append(
                next(
                    (part, getattr(layout, part).index(image))
                    for part in ("reg", "lane", "warp")
                    if image in getattr(layout, part)
                )
            )

    def of(self, part):
        return [k for p, k in self.bits if p == part]


@lower(ops.reduce)
def reduce(g, op, *xs):
    layout, region = g.layout(op.operands[0]), op.regions[0]
    axis = Axis(layout, op.attrs["axis"])
    combine = lambda a, b: g.inline(region, [*a, *b])
    groups = {}
    for r, e in enumerate(layout.register_elements()):
        groups.setdefault(e & ~axis.mask, []).append([x[r] for x in xs])
    keys = list(groups)
    totals = [_tree(groups[k], combine) for k in keys]
    sided = _may_round_apart(region)
    for bit in axis.of("lane"):
        others = [[g.target.shuffle_xor(g, x, 1 << bit) for x in t] for t in totals]
        pairs = _in_order(g, bit, totals, others) if sided else zip(totals, others)
        totals = [combine(*pair) for pair in pairs]
    if axis.of("warp"):
        totals = _across_warps(g, op, layout, axis, keys, totals, combine)
    return _arrange(g, op, keys, totals, axis, layout)


def _may_round_apart(region):
    """True if exchanging the sides of a combination may change its result's last bits.

    So it is where floats are computed with, other than by an op that takes the two sides alike: x + y is y + x, but
    Welford's means differ. All threads must have the same result, for they may branch on it.
    """
    half = len(region.args) // 2
    sides = {frozenset(map(id, pair)) for pair in zip(region.args[:half], region.args[half:])}

    def rounds(op):
        row = op.kind.row
        alike = row and (row.exact or row.commutes and frozenset(map(id, op.operands)) in sides)
        return not alike and any(T.element(t).is_float for t in op.types if type(T.element(t)) is T.Scalar)

    return any((op.kind.row or op.kind is ops.call) and rounds(op) for op in walk(region))


def _in_order(g, bit, mine, others):
    """(what the lane without the bit has, what the one with it has) of each total: both lanes combine alike."""
    w = g.w
    is_set = w.compare("icmp ne", w.binary("and", g.place("lane"), g.int(1 << bit)), g.int(0))
    pick = lambda yes, no: [w.select(is_set, a, b) for a, b in zip(yes, no)]
    return [(pick(other, total), pick(total, other)) for total, other in zip(mine, others)]


def _tree(items, combine):
    while len(items) > 1:
        half = len(items) // 2
        items = [combine(items[k], items[k + half]) for k in range(half)] + items[2 * half :]
    return items[0]


def _across_warps(g, op, layout, axis, keys, totals, combine):
    """Every warp leaves its partial results in shared memory; every thread collects those of its elements."""
    w = g.w
    types = [T.element(x.type) for x in op.operands]
    count = layout.numel >> len(axis.bits)  # results in all
    squeeze = _squeezer(layout.shape, op.attrs["axis"])
    kept = layout.map(squeeze, (count,))
    thread, _ = g.linear(kept._replace(reg=()), lambda x: x)
    slot = g.spread(
        [1 << axis.of("warp").index(k) if k in axis.of("warp") else 0 for k in range(len(layout.warp))], "warp"
    )
    partials = 1 << len(axis.of("warp"))
    bases = g.shared.take([partials * count * t.bytes for t in types])
    g.shared.before_write(g)
    for key, total in zip(keys, totals):
        at = w.binary("xor", thread, g.int(squeeze(key))) if squeeze(key) else thread
        at = w.binary("add", w.binary("mul", slot, g.int(count)), at)
        for x, base, t in zip(total, bases, types):
            g.shared.store(g, base, at, x, t)
    g.shared.after_write(g)
    out = []
    for key in keys:
        at = w.binary("xor", thread, g.int(squeeze(key))) if squeeze(key) else thread
        rows = [
            [g.shared.load(g, base, w.binary("add", at, g.int(p * count)), t) for base, t in zip(bases, types)]
            for p in range(partials)
        ]
        out.append(_tree(rows, combine))
    return out


def _squeezer(shape, axis):
    low, width = axis_bits(shape, axis)
    return lambda e: (e & ((1 << low) - 1)) | (e >> (low + width) << low)


def _arrange(g, op, keys, totals, axis, layout):
    """Put each total into the registers the result's layout names."""
    squeeze = _squeezer(layout.shape, op.attrs["axis"])
    found = {squeeze(k): t for k, t in zip(keys, totals)}
    placed = op.attrs.get("layout")
    if placed is None or placed[0] is None:
        elements = [0]
    else:
        elements = (Layout(*placed) if len(op.types) == 1 else Layout(*placed[0])).register_elements()
    return tuple([found[e][k] for e in elements] for k in range(len(op.types)))


def exchange_threads(g, types, mask, total):
    """What the thread whose number differs in `mask` (i32) holds, register by register, through shared memory.

    Where there is no room for all registers of all threads, some go after the others.
    """
    w, threads = g.w, 32 * g.warps
    thread = g.target.thread_id(g)
    partner = w.binary("xor", thread, mask)
    room = (g.target.shared_bytes - g.shared.top) // (threads * sum(max(t.bytes, 1) for t in types))
    out = []
    for start in range(0, len(total), max(room, 1)):
        some = total[start : start + max(room, 1)]
        bases = g.shared.take([threads * len(some) * t.bytes for t in types])
        g.shared.before_write(g)
        for r, items in enumerate(some):
            for x, base, t in zip(items, bases, types):
                g.shared.store(g, base, w.binary("add", thread, g.int(r * threads)), x, t)
        g.shared.after_write(g)
        out += [
            [g.shared.load(g, base, w.binary("add", partner, g.int(r * threads)), t) for base, t in zip(bases, types)]
            for r in range(len(some))
        ]
    return out


@lower(ops.map_)
def map_(g, op, *xs):
    """Apply the region to each `pack` neighbouring registers (the layout keeps neighbours together)."""
    pack, region = op.attrs["pack"], op.regions[0]
    count = len(xs[0])
    outs = [[None] * count for _ in op.types]
    for start in range(0, count, pack):
        args = [x[start + k] for x in xs for k in range(pack)]
        results = g.inline(region, args)
        for n in range(len(op.types)):
            outs[n][start : start + pack] = results[n * pack : (n + 1) * pack]
    return tuple(outs)
