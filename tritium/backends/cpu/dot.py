"""dot on scratch memory: C += A @ B for row-major A (MxK), B (KxN) and C (MxN) of any size.

    tt.dot.KIND(ptr A, ptr B, ptr C, i64 M, i64 N, i64 K, i64 lda, i64 ldb, i64 ldc, ptr panel, i1 fresh)

Strides are in elements. If `fresh`, C = A @ B, whatever C held before.

A register tile of C is kept while k runs: for each k one row of B is loaded and multiplied by one element of each row
of A. NEON multiplies by a lane of a register, so a register of ks of A is loaded at once. x86 broadcasts from memory,
one k a round: with more, LLVM loads all it will broadcast and spills it.

A and B may lie anywhere. The first rows of A meet a panel of B, as wide as a register tile, where it lies, and copy it
to `panel` (room for K rows of it) on the way, in the shadow of the multiplications; the other rows find it there, in
one piece and in the cache.

What the tile does not divide is done by narrower tiles, down to one row and one column.
"""

from __future__ import annotations

from typing import NamedTuple

from ..llvm.target import CpuTarget
from ..llvm.writer import Val, Writer, lanes, value, vector

__all__ = ["KINDS", "SYMBOLS", "dot"]


class Kind(NamedTuple):
    """Element types of the operands and of C, as LLVM spells them, and how an operand becomes wide."""

    operand: str
    accumulator: str
    widen: str = ""


KINDS = {
    "f32": Kind("float", "float"),
    "f64": Kind("double", "double"),
    "i32": Kind("i32", "i32"),
    "i8": Kind("i8", "i32", "sext"),
    "u8": Kind("i8", "i32", "zext"),
}
SYMBOLS = {kind: f"tt.dot.{kind}" for kind in KINDS}
_BYTES = {"float": 4, "double": 8, "i32": 4, "i8": 1}


_ZEROS = value("ptr", "@zeros")  # what a fresh C is taken to hold: as long as the widest row of a tile


def _whole(w: Writer, n: Val, step: int) -> Val:
    """The largest multiple of `step` up to `n`."""
    return n if step == 1 else w.binary("sub", n, w.binary("urem", n, w.const("i64", step)))


class _Matrix(NamedTuple):
    """A matrix in memory: base, stride between rows, element type."""

    base: Val
    stride: Val
    type: str

    def at(self, w: Writer, row: Val, column: Val) -> Val:
        """The address of an element."""
        line = w.gep(self.type, self.base, w.binary("mul", row, self.stride))
        return w.gep(self.type, line, column)


class _Tile:
    """One register tile: `rows` x `columns` of C, held as vectors of `columns` lanes; `unroll` ks are one round.

    The rows of B it meets are copied to `panel` if there is one.
    """

    def __init__(self, w: Writer, kind: Kind, unroll: int, rows: int, columns: int, panel: _Matrix | None = None):
        self.w, self.kind, self.unroll, self.rows, self.columns, self.panel = w, kind, unroll, rows, columns, panel
        self.type = vector(columns, kind.accumulator)

    def fused(self, x: Val, y: Val, z: Val) -> Val:
        """x * y + z."""
        if self.kind.accumulator == "i32":
            return self.w.binary("add", self.w.binary("mul", x, y), z)
        return self.w.intrinsic("fmuladd", self.type, x, y, z)

    def wide(self, x: Val, n: int) -> Val:
        """An operand as wide as C."""
        return self.w.cast(self.kind.widen, x, vector(n, self.kind.accumulator)) if self.kind.widen else x

    def update(self, a_rows: list[Val], b: _Matrix, k: Val, unroll: int, c: list[Val]) -> list[Val]:
        """The accumulators after `unroll` further ks from `k` on; several are lanes of one load."""
        w, operand = self.w, self.kind.operand
        places = [w.gep(operand, row, k) for row in a_rows]
        strips = [self.wide(w.load(vector(unroll, operand), p, align=_BYTES[operand]), unroll) for p in places]
        for u in range(unroll):
            row, zero = w.binary("add", k, w.const("i64", u)) if u else k, w.const("i64", 0)
            line = w.load(vector(self.columns, operand), b.at(w, row, zero), align=_BYTES[operand])
            if self.panel:
                w.store(line, self.panel.at(w, row, zero), align=_BYTES[operand])
                self.ask_for(b.at(w, w.binary("add", row, w.const("i64", _ROWS_AHEAD)), zero))
            line = self.wide(line, self.columns)
            for i, strip in enumerate(strips):
                c[i] = self.fused(self.spread(strip, u), line, c[i])
        return c

    def ask_for(self, place: Val) -> None:
        """Rows far apart are no stream that the hardware would follow."""
        w, step = self.w, 64 // _BYTES[self.kind.operand]
        w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        for column in range(0, self.columns, step):
            p = w.gep(self.kind.operand, place, w.const("i64", column)) if column else place
            w.effect(f"call void @llvm.prefetch.p0(ptr {p}, i32 0, i32 3, i32 1)")

    def spread(self, strip: Val, lane: int) -> Val:
        """A lane of an operand in all columns."""
        if lanes(strip.type) == 1:
            return self.w.splat(strip, self.columns)
        if self.columns == 1:
            return self.w.extract(strip, lane)
        return self.w.shuffle(strip, None, [lane] * self.columns)

    def write(self, a: _Matrix, b: _Matrix, c: _Matrix, i: Val, j: Val, depth: Val, fresh: Val) -> None:
        """Update the tile of C at row `i`, column `j`; `b` begins in that column."""
        w = self.w
        rows = [w.binary("add", i, w.const("i64", r)) for r in range(self.rows)]
        zero = w.const("i64", 0)
        a_rows = [a.at(w, row, zero) for row in rows]
        c_rows = [c.at(w, row, j) for row in rows]
        align = _BYTES[c.type]
        totals = [w.load(self.type, w.select(fresh, _ZEROS, p), align=align) for p in c_rows]
        start = zero
        for unroll in sorted({self.unroll, 1}, reverse=True):
            stop = _whole(w, depth, unroll)
            with w.loop(start, stop, unroll, carry=totals) as loop:
                loop.next = self.update(a_rows, b, loop.index, unroll, list(loop.carried))
            start, totals = stop, loop.results
        for x, p in zip(totals, c_rows, strict=True):
            w.store(x, p, align=align)


_ROWS_AHEAD = 16  # of B


def dot(target: CpuTarget, kind: str) -> str:
    """The LLVM text of `tt.dot.KIND` for `target`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "fmuladd.v32f32" in dot(cpu_target("x86-64-v4"), "f32")
    True
    """
    w, k = Writer(), KINDS[kind]
    w.raw(f"{_ZEROS} = private constant [{4 * target.dot_columns} x i8] zeroinitializer, align 64")
    widest = target.dot_columns * 4 // _BYTES[k.accumulator]
    widths = (widest, 16, 4, 1) if widest > 16 else (widest, 4, 1)
    unroll = 16 // _BYTES[k.accumulator] if target.simd == "neon" else 1  # as many as a register holds
    parameters = [f"ptr {p}" for p in "ABC"] + [f"i64 {p}" for p in ("M", "N", "K", "lda", "ldb", "ldc")]
    with w.function("void", SYMBOLS[kind], [*parameters, "ptr panel", "i1 fresh"]) as values:
        a, b, c, m, n, depth, lda, ldb, ldc, panel, fresh = values
        a, c = _Matrix(a, lda, k.operand), _Matrix(c, ldc, k.accumulator)
        left = w.const("i64", 0)
        for width in widths:
            right = _whole(w, n, width)
            with w.loop(left, right, width) as columns:
                lines = _Matrix(w.gep(k.operand, b, columns.index), ldb, k.operand)
                top = w.const("i64", 0)
                if width == widest:
                    packed = _Matrix(panel, w.const("i64", width), k.operand)
                    first = _Tile(w, k, unroll, target.dot_rows, width, packed)
                    lines, top = _first_rows(first, a, lines, c, columns.index, depth, m, fresh)
                for height in _heights(target):
                    bottom = _whole(w, m, height)
                    with w.loop(top, bottom, height) as rows:
                        _Tile(w, k, unroll, height, width).write(a, lines, c, rows.index, columns.index, depth, fresh)
                    top = w.intrinsic("smax", "i64", top, bottom)
            left = right
        w.ret()
    return w.text()


def _heights(target):
    """Rows of the tiles that divide up what is left below the larger ones: sizes are powers of two."""
    return (target.dot_rows, 2, 1) if target.dot_rows % 4 else (target.dot_rows, 1)


def _first_rows(tile, a, b, c, j, depth, m, fresh):
    """Do the first rows of a panel of B, copying it; returns where the others find it, and the first of them."""
    w, packed = tile.w, tile.panel
    enough = w.compare("icmp sge", m, w.const("i64", tile.rows))
    with w.when(enough, likely=True):
        zero = w.effect("add i64 0, 0", "i64")  # what is computed from it stays in here
        tile.write(a, b, c, zero, j, depth, fresh)
    found = _Matrix(w.select(enough, packed.base, b.base), w.select(enough, packed.stride, b.stride), b.type)
    return found, w.select(enough, w.const("i64", tile.rows), w.const("i64", 0))
