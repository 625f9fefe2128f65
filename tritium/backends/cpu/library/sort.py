"""Sorting on scratch memory, in place: the first k of n elements in order come to the beginning.

    tt.sort.KIND(ptr data, i64 n, i64 k, i64 descending)      n and k powers of two

A bitonic network over vectors: no branch depends on the data. Each merge first compares elements mirrored about the
middle of a block (i with k-1-i), so every comparison sorts upwards and the network needs no directions. Blocks of k
elements, or of a vector, are sorted; of two sorted blocks then only the smaller of mirrored elements are kept.

Elements are mapped to signed integers of the same order and back, so that one network serves all types of a width:
floats of any format are sign and magnitude (-0 before 0, nan at the ends), and complementing reverses the order.
"""

from __future__ import annotations

from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, element, vector

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

    def within_chunks(self, n: Val, partners: list[int]) -> None:
        """Emit the stages within every chunk of `n` elements."""
        with self.w.loop(0, n, _LANES) as loop:
            x = self.load(loop.index, self.chunk)
            for partner in partners:
                x = self.within(x, partner)
            self.store(x, loop.index)

    def across(self, n: Val, block: Val, distance: Val, mirrored: bool) -> None:
        """Compare chunks `distance` apart, or mirrored about the middle, in each block of `n` elements."""
        w = self.w
        half = w.binary("lshr", block, w.const("i64", 1))
        backwards = list(reversed(range(_LANES)))
        with w.loop(0, n, block) as blocks, w.loop(0, half, _LANES, nonempty=True) as loop:
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

    def large(self, k: Val) -> None:
        """The first `k` of 16 or more elements in order."""
        w, one = self.w, self.w.const("i64", 1)
        log_of = lambda x: w.intrinsic("cttz", "i64", x, w.const("i1", 1))
        run = w.intrinsic("umax", "i64", k, w.const("i64", _LANES))
        log, behind = log_of(run), w.binary("add", log_of(run), one)
        self.within_chunks(self.n, [1, 3, 1, 7, 2, 1, 15, 4, 2, 1])
        with w.loop(5, behind) as merge:
            block = w.binary("shl", one, merge.index)
            self.across(self.n, block, block, mirrored=True)
            self.finish(self.n, merge.index)
        with w.loop(log, log_of(self.n)) as halving:
            left = w.binary("lshr", self.n, w.binary("sub", w.binary("add", halving.index, one), log))
            self.keep(left, run)
            self.finish(left, behind)

    def finish(self, n: Val, merge: Val) -> None:
        """The steps after the first of the merge that makes blocks of 2 ** `merge`."""
        w, one, two = self.w, self.w.const("i64", 1), self.w.const("i64", 2)
        with w.loop(0, w.binary("sub", merge, w.const("i64", 5))) as step:
            distance = w.binary("shl", one, w.binary("sub", w.binary("sub", merge, two), step.index))
            self.across(n, w.binary("shl", distance, one), distance, mirrored=False)
        self.within_chunks(n, [8, 4, 2, 1])

    def keep(self, n: Val, run: Val) -> None:
        """Of every two runs the smaller of mirrored elements, `n` in all, one behind the other."""
        w = self.w
        with w.loop(0, n, run) as runs, w.loop(0, run, _LANES, nonempty=True) as loop:
            here, first = w.binary("add", runs.index, loop.index), w.binary("shl", runs.index, w.const("i64", 1))
            behind = w.binary("add", first, w.binary("shl", run, w.const("i64", 1)))
            there = w.binary("sub", w.binary("sub", behind, w.const("i64", _LANES)), loop.index)
            x = self.load(w.binary("add", first, loop.index), self.chunk)
            y = w.shuffle(self.load(there, self.chunk), None, list(reversed(range(_LANES))))
            self.store(self.exchange(x, y)[0], here)

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

    def convert(self, kind: str, n: Val, lanes: int, before: Val, after: Val) -> None:
        """Map `n` elements to keys or back, `lanes` at a time; complemented `before` or `after`."""
        w = self.w
        before, after = w.splat(before, lanes), w.splat(after, lanes)
        with w.loop(0, n, lanes) as loop:
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
    arguments = ["ptr data", "i64 n", "i64 k", "i64 descending"]
    with w.function("void", SYMBOLS[kind], arguments) as (data, n, k, descending):
        network = _Network(w, bits, data, n)
        wanted = w.compare("icmp ne", descending, w.const("i64", 0))
        down = w.cast("sext", wanted, network.scalar)
        zero = w.const(network.scalar, 0)
        large = w.compare("icmp sge", n, w.const("i64", _LANES))
        small = w.binary("xor", large, w.const("i1", 1))
        for lanes, condition, steps in (_LANES, large, lambda: network.large(k)), (1, small, network.small):
            with w.when(condition):
                network.convert(order, n, lanes, zero, down)
                steps()
                network.convert(order, k, lanes, down, zero)
        w.ret()
    return w.text()
