"""Sorting along the last axis: a bitonic network, whose every step compares elements with partners.

Elements become integers in their order and back: floats are sign and magnitude (-0 before 0, nan at the ends). Small
networks are written out. There a merge begins with partners mirrored about the middle of a block, so that comparisons
sort upwards. That is another permutation of registers for every merge; in large networks, which are loops over the
merges, those blocks that are to go down are complemented meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ...llvm.writer import Val
from ..layout.axis import Axis
from ..layout.linear import Layout
from ..layout.values import layout_of
from ..shared_memory.needs import Need, Room, takes_shared
from .control import guarded
from .function import Lowering, llvm_type, lower
from .reduce import exchange_need, exchange_threads
from .shared_memory import Passage

WRITTEN_OUT = 1024  # comparisons of words in a thread; the assembler's time grows faster than their number


def _sort_need(op: Op, room: Room) -> Need | None:
    """Warps exchange all their keys."""
    layout = layout_of(op)
    between_warps = Axis(layout, len(layout.shape) - 1).of("warp")
    return exchange_need([key_type(T.element(op.type))], layout.registers, room) if between_warps else None


def key_type(t: T.Scalar) -> T.Scalar:
    """The type of the integers that stand for elements."""
    return T.i64 if t.bits == 64 else T.i32


@lower(ops.sort)
@takes_shared(_sort_need)
def sort(g: Lowering, op: Op, x: Sequence[Val]) -> list[Val]:
    network = Network(g, op, g.layout(op))
    keys = [network.key(v) for v in x]
    return [network.value(v) for v in (network.in_loops(keys) if network.is_large else network.written_out(keys))]


class Network:
    """The network for one tile. A bit of the index along the axis lives in the number of a register, lane or warp."""

    def __init__(self, g: Lowering, op: Op, layout: Layout):
        self.g, self.w, self.op, self.t, self.layout = g, g.w, op, T.element(op.type), layout
        self.bits = Axis(self.layout, len(self.layout.shape) - 1).bits
        self.downwards = bool(op.attrs["descending"])
        self.key_type = key_type(self.t)
        self.width, self.kind = self.key_type.bits, f"i{self.key_type.bits}"
        self.passage = Passage(g, op)
        self.sign = "s" if self.t.kind in ("int", "float") else "u"

    @property
    def is_large(self) -> bool:
        steps = len(self.bits) * (len(self.bits) + 1) // 2
        return self.layout.registers * steps * self.width // 32 > WRITTEN_OUT

    # --- elements as integers -----------------------------------------------------------------------------------
    def key(self, x: Val) -> Val:
        """An integer in the place of an element."""
        if self.t.is_float:
            x = self.w.cast("bitcast", x, f"i{self.t.bits}")
        x = self.w.cast("sext" if self.sign == "s" else "zext", x, self.kind)
        return self.magnitude(x) if self.t.is_float else x

    def value(self, x: Val) -> Val:
        """The element in whose place an integer is."""
        x = self.w.cast("trunc", self.magnitude(x) if self.t.is_float else x, f"i{self.t.bits}")
        return self.w.cast("bitcast", x, llvm_type(self.t)) if self.t.is_float else x

    def magnitude(self, x: Val) -> Val:
        """Complement the magnitude of what is negative."""
        negative = self.w.binary("ashr", x, self.int(self.width - 1))
        return self.w.binary("xor", x, self.w.binary("and", negative, self.int((1 << (self.t.bits - 1)) - 1)))

    def int(self, x: int) -> Val:
        return self.w.const(self.kind, x)

    # --- steps --------------------------------------------------------------------------------------------------
    def written_out(self, x: Sequence[Val]) -> Sequence[Val]:
        for k in range(len(self.bits)):
            down = self.bits[k + 1][1] if self.is_turned(k + 1) else None
            x = self.step(x, (k,) if self.is_turned(k) else range(k + 1), down)
            for j in reversed(range(k)):
                x = self.step(x, (j,), down)
        return x

    def is_turned(self, k: int) -> bool:
        """Whether merge `k` begins with halves in opposite order: then it begins in registers, where mirrored partners
        would be in other threads."""
        parts = [part for part, _ in self.bits[: k + 1]]
        return len(parts) > k and parts[k] == "reg" and parts.count("reg") <= k

    def step(self, x: Sequence[Val], flipped: tuple[int, ...] | range, down: int | None = None) -> Sequence[Val]:
        """Compare with partners whose index differs in these bits; who has the highest of them set keeps the larger.

        Registers with the bit `down` are sorted downwards.
        """
        part, bit = self.bits[max(flipped)]
        others = self.across(x, [self.bits[k] for k in flipped])
        descends = [self.downwards != (down is not None and bool(r >> down & 1)) for r in range(len(x))]
        if part != "reg":
            return self.keep(x, others, self.is_set(part, self.g.int(1 << bit)), descends)
        return [self.extreme(bool(r >> bit & 1) != descends[r], mine, y) for r, (mine, y) in enumerate(zip(x, others))]

    def across(self, x: Sequence[Val], places: Sequence[tuple[str, int]]) -> Sequence[Val]:
        """What is where the numbers of the register, the lane and the warp differ in the bits of `places`."""
        masks = {"reg": 0, "lane": 0, "warp": 0}
        for part, bit in places:
            masks[part] |= 1 << bit
        return self.partners([x[r ^ masks["reg"]] for r in range(len(x))], masks["lane"], masks["warp"])

    def partners(self, x: Sequence[Val], lanes: Any, warps: Any) -> Sequence[Val]:
        """What the threads have whose lane and warp differ in these bits (numbers, or i32 values)."""
        g = self.g
        if warps:
            lanes = lanes if isinstance(lanes, str) else g.int(lanes)
            warps = warps if isinstance(warps, str) else g.int(warps)
            mask = self.w.binary("or", self.w.binary("shl", warps, g.int(g.lane_bits)), lanes)
            return [items[0] for items in exchange_threads(self.passage, [self.key_type], mask, [[v] for v in x])]
        return [g.target.shuffle(g, v, "xor", lanes) for v in x] if lanes else x

    def is_set(self, part: str, mask: Val) -> Val:
        """i1: this thread's lane or warp has the bit of a mask (i32)."""
        return self.w.compare("icmp ne", self.w.binary("and", self.g.place(part), mask), self.g.int(0))

    def keep(self, mine: Sequence[Val], others: Sequence[Val], upper: Val, descends: list[bool]) -> list[Val]:
        """The larger of two if `upper` (i1), else the smaller, or the other way round where `descends`.

        Partners are never both upper.
        """
        w, out = self.w, []
        for x, y, reverse in zip(mine, others, descends):
            larger = w.binary("xor", upper, w.const("i1", True)) if reverse else upper
            less = w.compare(f"icmp {self.sign}lt", y, x)
            out.append(w.select(w.binary("xor", less, larger), y, x))
        return out

    def extreme(self, larger: bool, x: Any, y: Any) -> Val:
        """The larger or the smaller of two. Of 64 bits both are selected by one comparison."""
        if self.width == 32:
            return self.w.intrinsic(self.sign + ("max" if larger else "min"), self.kind, x, y)
        x, y = sorted((x, y))
        less = self.w.compare(f"icmp {self.sign}lt", x, y)
        return self.w.select(less, y, x) if larger else self.w.select(less, x, y)

    # --- loops --------------------------------------------------------------------------------------------------
    def in_loops(self, x: Sequence[Val]) -> Sequence[Val]:
        """A loop over the merges. In merge k, indices with bit k + 1 are complemented: their blocks go down."""
        g, w = self.g, self.w
        self.passage = Passage(g, self.op, always=True)
        for part in ("lane", "warp"):
            g.place(part)  # at the head of the kernel, wherever it is asked for first
        x = [w.binary("xor", v, mask) for v, mask in zip(x, self.masks(lambda index: index, g.int(0)))]
        with w.loop(0, len(self.bits), carry=x, type="i32") as loop:
            # from the complements of the merge before: those that have one of the bits k and k + 1
            masks = self.masks(lambda index: index ^ index >> 1, loop.index)
            y = [w.binary("xor", v, mask) for v, mask in zip(loop.carried, masks)]
            for run in reversed(self.runs()):
                y = self.loop_over(run, loop.index, y) if len(run) > 1 else self.at_most(run[0], loop.index, y)
            loop.next = y
        return loop.results

    def masks(self, fn: Callable[[int], int], k: Val) -> list[Val]:
        """For every register all ones if `fn` of its index along the axis, which is linear, has bit `k` (i32)."""
        w, last = self.w, self.layout.shape[-1] - 1
        mask = lambda bits: w.binary("sub", self.int(0), w.cast("zext", self.bit(bits, k), self.kind))
        thread, _ = self.g.linear(self.layout, lambda e: fn(e & last))
        out = [mask(thread)]
        for x in self.layout.reg:
            more = mask(self.g.int(fn(x & last))) if x & last else self.int(0)
            out += [w.binary("xor", one, more) for one in out]
        return out

    def bit(self, bits: Val, k: Val) -> Val:
        """Bit `k` (i32) of an i32."""
        return self.w.binary("and", self.w.binary("lshr", bits, k), self.g.int(1))

    def runs(self) -> list[list[int]]:
        """The bits of the axis, low to high; those of threads together that are neighbours in their numbers too."""
        out = []
        for k, (part, bit) in enumerate(self.bits):
            if part != "reg" and out and self.bits[out[-1][-1]] == (part, bit - 1):
                out[-1].append(k)
            else:
                out.append([k])
        return out

    def at_most(self, j: int, k: Val, x: Sequence[Val]) -> Sequence[Val]:
        """The step at bit `j` if merge `k` (i32) has it."""
        if j == 0:
            return self.step(x, (0,))
        self.passage.may_begin_here()
        merge_has_it = lambda: self.w.compare("icmp sge", k, self.g.int(j))
        return guarded(self.g, merge_has_it, lambda: self.step(x, (j,)), x, ("step", "stepped"))

    def loop_over(self, run: Sequence[int], k: Val, x: Sequence[Val]) -> Sequence[Val]:
        """The steps at several bits, from the highest that merge `k` (i32) has."""
        g, w, (part, low) = self.g, self.w, self.bits[run[0]]
        first = w.intrinsic("smin", "i32", k, g.int(run[-1]))
        self.passage.may_begin_here()
        with w.loop(first, run[0] - 1, -1, carry=x, type="i32", until="sgt") as loop, self.g.kept_here():
            mask = w.binary("shl", g.int(1), w.binary("add", loop.index, g.int(low - run[0])))
            mine = list(loop.carried)
            others = self.partners(mine, *((mask, 0) if part == "lane" else (0, mask)))
            loop.next = self.keep(mine, others, self.is_set(part, mask), [self.downwards] * len(mine))
        return loop.results
