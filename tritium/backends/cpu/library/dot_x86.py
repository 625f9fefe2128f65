"""dot of f32 and f64 on x86-64 with fused multiply-add: the function that dot.py describes.

A register tile of C stays in registers during the loop over k. For each k, a row of B is loaded, and each element of a
column of A is broadcast from memory and multiplied by it. The number of instructions limits the loop, as the processor
issues four in a cycle, or two where another thread shares the core. Wide tiles need few, and so do addresses that are
the sum of a register and another or a constant.

LLVM's loop strength reduction would compute the address of each row of A for every k, and its scheduler would load the
operands of several ks first and spill them. Empty assembly statements hide from the former how addresses advance, and
keep the loads of a k behind those of the k before.

A panel of B is as wide as a tile and as high as fits in the first cache. It is copied to scratch memory, where it is
contiguous, if enough rows of A follow. Copying A as well, or prefetching either, gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ....named_tuples import NamedTuple
from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, value, vector
from .dot_signature import PARAMETERS, round_down

__all__ = ["SHAPES", "ZEROS", "Shape", "Tile", "dot_fused", "is_fused", "panel_columns"]

_TYPES = {"f32": ("float", 4), "f64": ("double", 8)}
_PANEL = 32 << 10  # bytes of a panel of B
_LINE = 64  # bytes of a cache line
_UNROLL = 4  # ks in an iteration
_ROWS_AHEAD = 8  # prefetch distance in rows of B while a panel is copied
_NARROW = 16  # bytes of a tile whose columns are read in place
ZEROS = value("ptr", "@zeros")  # initial values of a fresh C: as long as the widest row of a tile


class Shape(NamedTuple):
    """Register tiles of one width: their bytes, and their heights, each of which covers the rows that remain."""

    width: int
    heights: tuple[int, ...]


# The accumulators, a row of B and two broadcast elements fit in the 32 or 16 registers.
SHAPES = {
    "avx512": (Shape(256, (6, 4, 1)), Shape(128, (12, 4, 1)), Shape(64, (12, 4, 1))),
    "avx2": (Shape(64, (6, 4, 1)), Shape(32, (6, 4, 1))),
}


def is_fused(target: CpuTarget, kind: str) -> bool:
    """Whether this module has the product of a kind.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> is_fused(cpu_target("x86-64-v3"), "f32"), is_fused(cpu_target("aarch64"), "f32")
    (True, False)
    """
    return target.simd in SHAPES and target.has_fma and kind in _TYPES


def panel_columns(target: CpuTarget) -> int:
    """The columns of a panel of B that spans all of K, as many floats.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> panel_columns(cpu_target("x86-64-v4"))
    64
    """
    return SHAPES[target.simd][0].width // 4


class Tile:
    """One register tile: `rows` x `columns` of C, held as vectors of `lanes`; `multiply` adds a product to one.

    `element` is what is broadcast from A, and the type of C.
    """

    def __init__(self, w: Writer, element: str, size: int, rows: int, columns: int, lanes: int,
                 multiply: Callable[[Val, Val, Val], Val]):
        self.w, self.element, self.size, self.rows, self.multiply = w, element, size, rows, multiply
        self.lanes, self.parts = min(lanes, columns), max(1, columns // lanes)
        self.type = vector(self.lanes, element)

    def load(self, place: Val) -> list[Val]:
        """A row as vectors."""
        return [self.w.load(self.type, self.part(place, v), align=self.size) for v in range(self.parts)]

    def part(self, place: Val, v: int) -> Val:
        """The address of the `v`th vector of a row."""
        return self.w.gep(self.type, place, self.w.const("i64", v)) if v else place

    def write(self, a: Val, lda: Val, b: Val, ldb: Val, c: Val, ldc: Val, depth: Val, fresh: Val,
              more: Val | None = None) -> None:
        """Update the tile of C at `c` by the rows at `a` and the columns at `b`, and by `more`, the address of a row.

        Strides are in bytes.
        """
        w = self.w
        places = [self.row(c, ldc, r) for r in range(self.rows)]
        totals = [x for p in places for x in self.load(w.select(fresh, ZEROS, p))]
        if more is not None:
            line = self.load(more)
            totals = [w.binary("add", x, line[i % self.parts]) for i, x in enumerate(totals)]
        # the addresses of every third row of A; the rows between them are a stride or two further
        starts = [self.row(a, lda, r) for r in range(0, self.rows, 3)]
        main = w.binary("and", depth, w.const("i64", -_UNROLL))
        carried = [*starts, b, *totals]
        for first, last, unroll in ((w.const("i64", 0), main, _UNROLL), (main, depth, 1)):
            with w.loop(first, last, unroll, carry=carried) as loop:
                loop.next = self.steps(list(loop.carried), lda, ldb, unroll)
            carried = list(loop.results)
        for i, x in enumerate(carried[len(starts) + 1:]):
            w.store(x, self.part(places[i // self.parts], i % self.parts), align=self.size)

    def row(self, start: Val, stride: Val, r: int) -> Val:
        """The address `r` rows after `start`."""
        w = self.w
        return w.gep("i8", start, w.binary("mul", stride, w.const("i64", r)) if r > 1 else stride) if r else start

    def steps(self, carried: list[Val], lda: Val, ldb: Val, unroll: int) -> list[Val]:
        """The addresses and sums after `unroll` ks."""
        w, count = self.w, -(-self.rows // 3)
        starts, b, totals = carried[:count], carried[count], carried[count + 1:]
        for u in range(unroll):
            if u:
                w.effect('call void asm sideeffect "", "~{memory}"()')
            line = self.load(b)
            for r in range(self.rows):
                place = self.row(starts[r // 3], lda, r % 3)
                place = w.gep(self.element, place, w.const("i64", u)) if u else place
                factor = w.splat(w.load(self.element, place, align=self.size), self.lanes)
                for v in range(self.parts):
                    i = r * self.parts + v
                    totals[i] = self.multiply(factor, line[v], totals[i])
            b = w.gep("i8", b, ldb)
        starts = [w.gep(self.element, p, w.const("i64", unroll)) for p in starts]
        hidden = [w.effect(f'call ptr asm "", "=r,0"({p.typed})', "ptr") for p in (*starts, b)]
        return [*hidden, *totals]


class _Product:
    """C += A @ B for as many ks as a panel of B has rows. Strides are in bytes."""

    def __init__(self, w: Writer, kind: str, shapes: tuple[Shape, ...], lda: Val, ldb: Val, ldc: Val, panel: Val):
        self.w, self.shapes, self.lda, self.ldb, self.ldc, self.panel = w, shapes, lda, ldb, ldc, panel
        self.element, self.size = _TYPES[kind]
        self.lanes = shapes[-1].width // self.size  # of a register
        self.scratch = w.compare("icmp ne", panel, value("ptr", "null"))

    def write(self, a: Val, b: Val, c: Val, m: Val, n: Val, depth: Val, fresh: Val) -> None:
        """Update C, the widest panels first."""
        w, left = self.w, self.w.const("i64", 0)
        for shape in (*self.shapes, Shape(_NARROW, (4, 1)), Shape(self.size, (4, 1))):
            right = round_down(w, n, shape.width // self.size)
            with w.loop(left, right, shape.width // self.size) as across:
                j = w.binary("mul", across.index, w.const("i64", self.size))
                self.columns(shape, a, w.gep("i8", b, j), w.gep("i8", c, j), m, depth, fresh)
            left = right

    def columns(self, shape: Shape, a: Val, b: Val, c: Val, m: Val, depth: Val, fresh: Val) -> None:
        """Update the columns of C at `c` by the panel of B at `b`, the highest tiles first."""
        w, ldb, top = self.w, self.ldb, self.w.const("i64", 0)
        if shape.width > _NARROW:
            b, ldb = self.packed(shape, b, m, depth)
        for height, lower in zip(shape.heights, (*shape.heights[1:], 1), strict=True):
            bottom = w.binary("add", top, self.rows(w.binary("sub", m, top), height, lower))
            with w.loop(top, bottom, height) as down:
                rows = w.gep("i8", a, w.binary("mul", down.index, self.lda))
                place = w.gep("i8", c, w.binary("mul", down.index, self.ldc))
                tile = Tile(w, self.element, self.size, height, shape.width // self.size, self.lanes, self.multiply)
                tile.write(rows, self.lda, b, ldb, place, self.ldc, depth, fresh)
            top = bottom

    def rows(self, left: Val, height: int, lower: int) -> Val:
        """How many of the rows that are left tiles of a height cover.

        Tiles of one row wait for their own sums. Where two rows would remain, as of 32 by six, two of the next lower
        tiles cover the last eight.
        """
        w, covered = self.w, round_down(self.w, left, height)
        if height + 2 != 2 * lower:
            return covered
        two = w.compare("icmp eq", w.binary("sub", left, covered), w.const("i64", 2))
        some = w.compare("icmp sgt", covered, w.const("i64", 0))
        return w.select(w.binary("and", two, some), w.binary("sub", covered, w.const("i64", height)), covered)

    def multiply(self, x: Val, y: Val, z: Val) -> Val:
        """x * y + z."""
        return self.w.intrinsic("fmuladd", z.type, x, y, z)

    def packed(self, shape: Shape, b: Val, m: Val, depth: Val) -> tuple[Val, Val]:
        """The panel of B, copied if it has gaps and more than one tile will read it, and the stride of its rows."""
        w, width = self.w, self.w.const("i64", shape.width)
        several = w.compare("icmp sgt", m, w.const("i64", shape.heights[0]))
        gaps = w.compare("icmp ne", self.ldb, width)
        worth = w.binary("and", self.scratch, w.binary("and", several, gaps))
        w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        with w.when(worth), w.loop(0, depth) as loop:
            line = w.gep("i8", b, w.binary("mul", loop.index, self.ldb))
            ahead = w.gep("i8", line, w.binary("mul", self.ldb, w.const("i64", _ROWS_AHEAD)))
            for offset in range(0, shape.width, _LINE):
                p = w.gep("i8", ahead, w.const("i64", offset)) if offset else ahead
                w.effect(f"call void @llvm.prefetch.p0({p.typed}, i32 0, i32 3, i32 1)")
            x = w.load(vector(shape.width // self.size, self.element), line, align=self.size)
            w.store(x, w.gep("i8", self.panel, w.binary("mul", loop.index, width)), align=self.size)
        return w.select(worth, self.panel, b), w.select(worth, width, self.ldb)


def dot_fused(target: CpuTarget, kind: str, symbol: str) -> str:
    """The LLVM text of the product of a kind.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "fmuladd.v16f32" in dot_fused(cpu_target("x86-64-v4"), "f32", "tt.dot.f32")
    True
    """
    w, shapes, (element, size) = Writer(), SHAPES[target.simd], _TYPES[kind]
    w.raw(f"{ZEROS} = private constant [{shapes[0].width} x i8] zeroinitializer, align 64")
    with w.function("void", symbol, PARAMETERS) as values:
        a, b, c, m, n, depth, *strides, panel, fresh = values
        lda, ldb, ldc = (w.binary("mul", stride, w.const("i64", size)) for stride in strides)
        product = _Product(w, kind, shapes, lda, ldb, ldc, panel)
        high = w.const("i64", _PANEL // shapes[0].width)
        some = w.intrinsic("smax", "i64", depth, w.const("i64", 1))  # a fresh C is written even if K is 0
        with w.loop(0, some, high) as blocks:
            k = blocks.index
            deep = w.intrinsic("smin", "i64", w.binary("sub", depth, k), high)
            begins = w.binary("and", fresh, w.compare("icmp eq", k, w.const("i64", 0)))
            product.write(w.gep(element, a, k), w.gep("i8", b, w.binary("mul", k, ldb)), c, m, n, deep, begins)
        w.ret()
    return w.text()
