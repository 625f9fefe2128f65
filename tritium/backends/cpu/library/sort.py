"""Sorting on scratch memory, in place.

    tt.sort.KIND(ptr data, i64 n, i64 descending)      n a power of two

A bitonic network over vectors: no branch depends on the data. Each merge first compares elements mirrored about the
middle of a block (i with k-1-i), so every comparison sorts upwards and the network needs no directions.

Elements are mapped to signed integers of the same order and back, so that one network serves all types of a width:
floats of any format are sign and magnitude (-0 before 0, nan at the ends), and complementing reverses the order.
"""

from __future__ import annotations

from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, element, vector

__all__ = ["KINDS", "SYMBOLS", "sort"]

_LANES = 16

KINDS = {
    **{f"i{bits}": (bits, "int") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (bits, "uint") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": (bits, "float") for bits in (8, 16, 32, 64)},
    "bf16": (16, "float"),
}
SYMBOLS = {kind: f"tt.sort.{kind}" for kind in KINDS}


class _Network:
    """Emits the stages of the network on `data`."""

    def __init__(self, w: Writer, bits: int, data: Val, n: Val):
        self.w, self.scalar, self.data, self.n = w, f"i{bits}", data, n
        self.chunk, self.align = vector(_LANES, self.scalar), bits // 8

    def load(self, index: Val, type: str) -> Val:
        return self.w.load(type, self.w.gep(self.scalar, self.data, index), align=self.align)

    def store(self, x: Val, index: Val) -> None:
        self.w.store(x, self.w.gep(self.scalar, self.data, index), align=self.align)

    def exchange(self, x: Val, y: Val) -> tuple[Val, Val]:
        """The smaller and the larger, lane by lane."""
        return self.w.intrinsic("smin", x.type, x, y), self.w.intrinsic("smax", x.type, x, y)

    def within(self, x: Val, partner: int) -> Val:
        """Compare each lane of `x` with the lane whose number differs in the bits of `partner`."""
        low, high = self.exchange(x, self.w.shuffle(x, None, [i ^ partner for i in range(_LANES)]))
        first = 1 << partner.bit_length() - 1
        return self.w.shuffle(low, high, [i if not i & first else i + _LANES for i in range(_LANES)])

    def within_chunks(self, partners: list[int]) -> None:
        """Emit the stages within every chunk."""
        with self.w.loop(0, self.n, _LANES) as loop:
            x = self.load(loop.index, self.chunk)
            for partner in partners:
                x = self.within(x, partner)
            self.store(x, loop.index)

    def across(self, block: Val, distance: Val, mirrored: bool) -> None:
        """Compare chunks `distance` apart, or mirrored about the middle, in each block."""
        w = self.w
        half = w.binary("lshr", block, w.const("i64", 1))
        backwards = list(reversed(range(_LANES)))
        with w.loop(0, self.n, block) as blocks, w.loop(0, half, _LANES, nonempty=True) as loop:
            here = w.binary("add", blocks.index, loop.index)
            if mirrored:
                last = w.binary("add", blocks.index, w.binary("sub", block, w.const("i64", _LANES)))
                there = w.binary("sub", last, loop.index)
                y = w.shuffle(self.load(there, self.chunk), None, backwards)
            else:
                there = w.binary("add", here, distance)
                y = self.load(there, self.chunk)
            low, high = self.exchange(self.load(here, self.chunk), y)
            self.store(low, here)
            self.store(w.shuffle(high, None, backwards) if mirrored else high, there)

    def large(self) -> None:
        """Sort 16 or more elements."""
        w = self.w
        self.within_chunks([1, 3, 1, 7, 2, 1, 15, 4, 2, 1])
        log = w.intrinsic("cttz", "i64", self.n, w.const("i1", 1))
        one, two = w.const("i64", 1), w.const("i64", 2)
        with w.loop(5, w.binary("add", log, one)) as merge:
            block = w.binary("shl", one, merge.index)
            self.across(block, block, mirrored=True)
            with w.loop(0, w.binary("sub", merge.index, w.const("i64", 5))) as step:
                distance = w.binary("shl", one, w.binary("sub", w.binary("sub", merge.index, two), step.index))
                self.across(w.binary("shl", distance, one), distance, mirrored=False)
            self.within_chunks([8, 4, 2, 1])

    def small(self) -> None:
        """Sort fewer than 16 elements: an odd-even transposition sort of n passes."""
        w = self.w
        one = w.const("i64", 1)
        with w.loop(0, self.n) as iteration:
            start = w.binary("and", iteration.index, one)
            with w.loop(start, w.binary("sub", self.n, one), 2) as loop:
                right = w.binary("add", loop.index, one)
                low, high = self.exchange(self.load(loop.index, self.scalar), self.load(right, self.scalar))
                self.store(low, loop.index)
                self.store(high, right)

    def convert(self, kind: str, lanes: int, before: Val, after: Val) -> None:
        """Map elements to keys or back, `lanes` at a time; complemented `before` or `after`."""
        w = self.w
        before, after = w.splat(before, lanes), w.splat(after, lanes)
        with w.loop(0, self.n, lanes) as loop:
            x = w.binary("xor", self.load(loop.index, vector(lanes, self.scalar)), before)
            self.store(w.binary("xor", _key(w, kind, x), after), loop.index)


def _key(w: Writer, kind: str, x: Val) -> Val:
    """The order-preserving signed integer of `x`; an involution."""
    bits = int(element(x.type)[1:])
    if kind == "uint":
        x = w.binary("xor", x, w.const(x.type, -(1 << bits - 1)))
    elif kind == "float":
        sign = w.binary("ashr", x, w.const(x.type, bits - 1))
        x = w.binary("xor", x, w.binary("and", sign, w.const(x.type, (1 << bits - 1) - 1)))
    return x


def sort(target: CpuTarget, kind: str) -> str:
    """The LLVM text of `tt.sort.KIND`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "smin.v16i16" in sort(cpu_target("aarch64"), "bf16")
    True
    """
    bits, order = KINDS[kind]
    w = Writer()
    with w.function("void", SYMBOLS[kind], ["ptr data", "i64 n", "i64 descending"]) as (data, n, descending):
        network = _Network(w, bits, data, n)
        wanted = w.compare("icmp ne", descending, w.const("i64", 0))
        down = w.cast("sext", wanted, network.scalar)
        zero = w.const(network.scalar, 0)
        large = w.compare("icmp sge", n, w.const("i64", _LANES))
        small = w.binary("xor", large, w.const("i1", 1))
        for lanes, condition, steps in (_LANES, large, network.large), (1, small, network.small):
            with w.when(condition):
                network.convert(order, lanes, zero, down)
                steps()
                network.convert(order, lanes, down, zero)
        w.ret()
    return w.text()
