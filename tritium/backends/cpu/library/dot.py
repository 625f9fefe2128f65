"""dot on scratch memory: C += A @ B for row-major A (MxK), B (KxN) and C (MxN) of any size.

    tt.dot.KIND(ptr A, ptr B, ptr C, i64 M, i64 N, i64 K, i64 lda, i64 ldb, i64 ldc, ptr panel, i1 fresh)

Strides are in elements. If `fresh`, C = A @ B, whatever C held. `panel` is scratch memory (`panel_width`); if it is
null, for a B that is in the cache, nothing is copied.

A register tile of C stays in registers during the loop over k: for each k one row of B is loaded and multiplied by one
element of each row of A. NEON multiplies by a lane of a register, so a register of ks of A is loaded at once. x86
broadcasts from memory, one k in each iteration: with more, LLVM loads all operands first and spills them. Floats on
x86 with fused multiply-add have functions of their own (dot_x86.py), and so do bytes with VNNI (dot_vnni.py), with AMX
(dot_amx.py) and with the dot products of AArch64 (dot_neon.py).

The first rows of A multiply a panel of B, as wide as a register tile, in place, and copy it to `panel` meanwhile; the
other rows read the copy, which is contiguous and in the cache.

Tiles of large matrices have rows far apart, on different pages, and are not in the cache. If they are wide enough for
it to pay off, A is packed as well, while it multiplies the first panel, in the order in which it will be read; and
while a panel is multiplied the next one is copied, a few rows with each row of tiles. NEON gains from that, and AVX-512
(dot_x86.py).

Rows and columns that remain are computed by narrower tiles, down to one row and one column.
"""

from __future__ import annotations

from ....named_tuples import NamedTuple
from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, lanes, value, vector
from . import dot_amx, dot_neon, dot_vnni, dot_x86
from .dot_signature import PARAMETERS, round_down


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


_ZEROS = value("ptr", "@zeros")  # initial values of a fresh C: as long as the widest row of a tile


class _Matrix(NamedTuple):
    """A matrix in memory: base, stride between rows, element type."""

    base: Val
    stride: Val
    type: str

    def at(self, w: Writer, row: Val, column: Val) -> Val:
        """The address of an element."""
        line = w.gep(self.type, self.base, w.binary("mul", row, self.stride))
        return w.gep(self.type, line, column)


class _Rows(NamedTuple):
    """Some rows of A: their addresses, the distance of consecutive ks in elements, and the rows to copy them to.

    A tile loads some ks of a row at once. In a copy those of one row are followed by those of the next.
    """

    places: list[Val]
    step: int = 1
    copies: _Rows | None = None


class _Tile:
    """One register tile: `rows` x `columns` of C, held as vectors of `columns` lanes; an iteration does `unroll` ks.

    The rows of B it reads are copied to `panel` if given. With `prefetch_below`, the rows of C below are prefetched.
    """

    def __init__(self, w: Writer, kind: Kind, unroll: int, rows: int, columns: int, panel: _Matrix | None = None,
                 prefetch_below: bool = False):
        self.w, self.kind, self.unroll, self.rows, self.columns, self.panel = w, kind, unroll, rows, columns, panel
        self.prefetch_below = prefetch_below
        self.type = vector(columns, kind.accumulator)

    def fused(self, x: Val, y: Val, z: Val) -> Val:
        """x * y + z."""
        if self.kind.accumulator == "i32":
            return self.w.binary("add", self.w.binary("mul", x, y), z)
        return self.w.intrinsic("fmuladd", self.type, x, y, z)

    def wide(self, x: Val, n: int) -> Val:
        """An operand as wide as C."""
        return self.w.cast(self.kind.widen, x, vector(n, self.kind.accumulator)) if self.kind.widen else x

    def update(self, a: _Rows, b: _Matrix, k: Val, unroll: int, c: list[Val]) -> list[Val]:
        """The accumulators after `unroll` further ks from `k` on; several are lanes of one load."""
        w, operand = self.w, self.kind.operand
        chunks = [w.load(vector(unroll, operand), p, align=_BYTES[operand]) for p in self.at(a, k)]
        if a.step * unroll * _BYTES[operand] >= _LINE:
            self.prefetch(w.gep(operand, self.at(a, k)[0], w.const("i64", _CHUNKS_AHEAD * unroll * a.step)), 1, 1)
        for chunk, p in zip(chunks, self.at(a.copies, k) if a.copies else (), strict=False):
            w.store(chunk, p, align=_BYTES[operand])
        chunks = [self.wide(chunk, unroll) for chunk in chunks]
        for u in range(unroll):
            row, zero = w.binary("add", k, w.const("i64", u)) if u else k, w.const("i64", 0)
            line = w.load(vector(self.columns, operand), b.at(w, row, zero), align=_BYTES[operand])
            if self.panel:
                w.store(line, self.panel.at(w, row, zero), align=_BYTES[operand])
                for ahead, cache in _ROWS_AHEAD:  # the hardware prefetcher does not follow rows far apart
                    self.prefetch(b.at(w, w.binary("add", row, w.const("i64", ahead)), zero), cache, self.columns)
            line = self.wide(line, self.columns)
            for i, chunk in enumerate(chunks):
                c[i] = self.fused(self.broadcast(chunk, u), line, c[i])
        return c

    def at(self, a: _Rows, k: Val) -> list[Val]:
        """The addresses of the rows' elements `k`."""
        w = self.w
        k = w.binary("mul", k, w.const("i64", a.step)) if a.step > 1 else k
        return [w.gep(self.kind.operand, row, k) for row in a.places]

    def prefetch(self, place: Val, cache: int, elements: int) -> None:
        """Prefetch some elements into a cache."""
        w, step = self.w, _LINE // _BYTES[self.kind.operand]
        w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        for column in range(0, elements, step):
            p = w.gep(self.kind.operand, place, w.const("i64", column)) if column else place
            w.effect(f"call void @llvm.prefetch.p0(ptr {p}, i32 0, i32 {4 - cache}, i32 1)")

    def broadcast(self, chunk: Val, lane: int) -> Val:
        """A lane of an operand in all columns."""
        if lanes(chunk.type) == 1:
            return self.w.splat(chunk, self.columns)
        if self.columns == 1:
            return self.w.extract(chunk, lane)
        return self.w.shuffle(chunk, None, [lane] * self.columns)

    def rows_of(self, a: _Matrix, i: Val) -> _Rows:
        """Its rows of A in place."""
        w = self.w
        return _Rows([a.at(w, w.binary("add", i, w.const("i64", r)), w.const("i64", 0)) for r in range(self.rows)])

    def write(self, a: _Rows, b: _Matrix, c: _Matrix, i: Val, j: Val, depth: Val, fresh: Val) -> None:
        """Update the tile of C at row `i`, column `j`; `b` begins in that column."""
        w = self.w
        c_rows = [c.at(w, w.binary("add", i, w.const("i64", r)), j) for r in range(self.rows)]
        align = _BYTES[c.type]
        totals = [w.load(self.type, w.select(fresh, _ZEROS, p), align=align) for p in c_rows]
        if self.prefetch_below:
            below = w.binary("mul", c.stride, w.const("i64", self.rows))
            for p in c_rows:
                self.prefetch(w.gep(c.type, p, below), 1, self.columns)
        start = w.const("i64", 0)
        for unroll in (self.unroll,) if a.copies or a.step > 1 else sorted({self.unroll, 1}, reverse=True):
            stop = round_down(w, depth, unroll)
            with w.loop(start, stop, unroll, carry=totals) as loop:
                loop.next = self.update(a, b, loop.index, unroll, list(loop.carried))
            start, totals = stop, loop.results
        for x, p in zip(totals, c_rows, strict=True):
            w.store(x, p, align=align)


class _Large:
    """The full tiles of a product that packs A and the next panel of B into `scratch`.

    The rows of A itself are read for the first panel only.
    """

    def __init__(self, tile: _Tile, a: _Matrix, b: _Matrix, scratch: Val, depth: Val, bottom: Val, right: Val):
        w, self.tile, self.a, self.b, self.depth, self.bottom, self.right = tile.w, tile, a, b, depth, bottom, right
        size = w.binary("mul", depth, w.const("i64", tile.columns))
        self.panels = [scratch, w.gep(b.type, scratch, size)]
        self.copies = w.gep(b.type, self.panels[1], size)
        rows = w.const("i64", tile.rows)
        upper = w.binary("sub", w.binary("add", w.binary("mul", depth, rows), bottom), w.const("i64", 1))
        self.share = w.binary("udiv", upper, bottom)  # rows of the next panel for each row of tiles

    def write(self, c: _Matrix, fresh: Val) -> None:
        """Compute all full tiles of C."""
        w, tile, zero = self.tile.w, self.tile, self.tile.w.const("i64", 0)
        self.copy_panel(zero, self.panels[0], zero, self.depth, w.const("i64", _ROWS_AHEAD[-1][0]))
        with w.loop(0, self.right, tile.columns) as columns:
            j = columns.index
            odd = w.cast("trunc", w.binary("udiv", j, w.const("i64", tile.columns)), "i1")
            mine, other = (w.select(odd, *ps) for ps in (self.panels[::-1], self.panels))
            after = w.binary("add", j, w.const("i64", tile.columns))
            end = w.select(w.compare("icmp slt", after, self.right), self.depth, zero)
            lines = _Matrix(mine, w.const("i64", tile.columns), self.b.type)
            begins = w.compare("icmp eq", j, zero)
            with w.loop(0, self.bottom, tile.rows) as rows:
                i = rows.index
                start = w.binary("udiv", w.binary("mul", i, self.share), w.const("i64", tile.rows))
                stop = w.intrinsic("smin", "i64", w.binary("add", start, self.share), end)
                self.copy_panel(after, other, start, stop, self.share)
                copied = self.copy_of(i)
                with w.when(begins):
                    tile.write(tile.rows_of(self.a, i)._replace(copies=copied), lines, c, i, j, self.depth, fresh)
                with w.when(w.binary("xor", begins, w.const("i1", True))):
                    tile.write(copied, lines, c, i, j, self.depth, fresh)

    def copy_panel(self, j: Val, panel: Val, start: Val, stop: Val, ahead: Val) -> None:
        """Copy rows of the panel of B in column `j`, and prefetch the following ones."""
        w, tile, b, align = self.tile.w, self.tile, self.b, _BYTES[self.b.type]
        with w.loop(start, stop) as ks:
            tile.prefetch(b.at(w, w.binary("add", ks.index, ahead), j), 1, tile.columns)
            line = w.load(vector(tile.columns, b.type), b.at(w, ks.index, j), align=align)
            w.store(line, w.gep(b.type, panel, w.binary("mul", ks.index, w.const("i64", tile.columns))), align=align)

    def copy_of(self, i: Val) -> _Rows:
        """The copies of a tile's rows of A."""
        w, tile = self.tile.w, self.tile
        start = w.gep(self.a.type, self.copies, w.binary("mul", i, self.depth))
        return _Rows([w.gep(self.a.type, start, w.const("i64", r * tile.unroll)) for r in range(tile.rows)], tile.rows)


# (prefetch distance in rows of the panel of B, cache level). Of rows a power of two apart, few fit into the first cache
# at once.
_ROWS_AHEAD = ((8, 1), (32, 2))
_CHUNKS_AHEAD = 8  # prefetch distance in copied rows of A
_LINE = 64  # bytes of a cache line
_WIDE = 128  # columns from which packing A pays off


def _copies(target: CpuTarget) -> bool:
    """Whether packing makes large products faster."""
    return target.simd == "neon"


def panel_width(target: CpuTarget, kind: str, m: int, n: int) -> int:
    """The columns of the scratch panel (K rows, elements of C's type) for a product into M x N.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> panel_width(cpu_target("aarch64"), "f32", 64, 64), panel_width(cpu_target("aarch64"), "f32", 64, 128)
    (16, 96)
    """
    if dot_vnni.is_vnni(target, kind):
        return dot_vnni.panel_columns(m)
    if dot_amx.is_amx(target, kind):
        return dot_amx.panel_columns(m, n)
    if dot_x86.is_fused(target, kind):
        return dot_x86.panel_columns(target, m, n)
    return target.dot_columns + (target.dot_columns + m if _copies(target) and n >= _WIDE else 0)


def dot(target: CpuTarget, kind: str) -> str:
    """The LLVM text of `tt.dot.KIND` for `target`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "fmuladd.v16f32" in dot(cpu_target("aarch64"), "f32")
    True
    """
    if dot_x86.is_fused(target, kind):
        return dot_x86.dot_fused(target, kind, SYMBOLS[kind])
    w, k, name = Writer(), KINDS[kind], SYMBOLS[kind]
    if dot_vnni.is_vnni(target, kind):
        tiles = dot_amx.is_amx(target, kind)
        vnni, name = f"{name}.vnni" if tiles else name, f"{name}.general"
        if tiles:
            dot_amx.write_bytes(w, kind, SYMBOLS[kind], vnni)
        dot_vnni.write(w, kind, vnni, name)
        w.raw(f"{_ZEROS} = private constant [{dot_vnni.WIDTH} x i8] zeroinitializer, align 64")
    else:
        w.raw(f"{_ZEROS} = private constant [{4 * target.dot_columns} x i8] zeroinitializer, align 64")
    if dot_neon.is_dotprod(target, kind):
        name = f"{name}.general"
        dot_neon.write(w, kind, SYMBOLS[kind], name)
    widest = target.dot_columns * 4 // _BYTES[k.accumulator]
    widths = (widest, 16, 4, 1) if widest > 16 else (widest, 4, 1)
    unroll = 16 // _BYTES[k.accumulator] if target.simd == "neon" else 1  # as many as a register holds
    with w.function("void", name, PARAMETERS) as values:
        a, b, c, m, n, depth, lda, ldb, ldc, panel, fresh = values
        a, c = _Matrix(a, lda, k.operand), _Matrix(c, ldc, k.accumulator)
        large = w.const("i1", False)
        if _copies(target):
            large = _is_large(w, m, n, depth, lda, panel, target.dot_rows, unroll)
            with w.when(large):
                tile = _Tile(w, k, unroll, target.dot_rows, widest, prefetch_below=True)
                bottom, right = round_down(w, m, tile.rows), round_down(w, n, tile.columns)
                _Large(tile, a, _Matrix(b, ldb, k.operand), panel, depth, bottom, right).write(c, fresh)
        left = w.const("i64", 0)
        for width in widths:
            right = round_down(w, n, width)
            with w.loop(left, right, width) as columns:
                lines = _Matrix(w.gep(k.operand, b, columns.index), ldb, k.operand)
                top = w.const("i64", 0)
                if width == widest:
                    packed = _Matrix(panel, w.const("i64", width), k.operand)
                    first = _Tile(w, k, unroll, target.dot_rows, width, packed)
                    lines, top = _first_rows(first, a, lines, c, columns.index, depth, m, fresh, large)
                for height in _heights(target):
                    bottom = round_down(w, m, height)
                    with w.loop(top, bottom, height) as rows:
                        prefetch_below = not _copies(target) and (height, width) == (target.dot_rows, widest)
                        tile = _Tile(w, k, unroll, height, width, prefetch_below=prefetch_below)
                        tile.write(tile.rows_of(a, rows.index), lines, c, rows.index, columns.index, depth, fresh)
                    top = w.intrinsic("smax", "i64", top, bottom)
            left = right
        w.ret()
    return w.text()


def _is_large(w: Writer, m: Val, n: Val, depth: Val, lda: Val, panel: Val, rows: int, unroll: int) -> Val:
    """Whether to pack A and B: A's rows are far apart, enough panels follow, `unroll` divides K, and there is scratch
    memory."""
    distant = w.compare("icmp sge", lda, w.binary("add", depth, depth))
    wide = w.compare("icmp sge", n, w.const("i64", _WIDE))
    high = w.compare("icmp sge", m, w.const("i64", rows))
    even = w.compare("icmp eq", round_down(w, depth, unroll), depth)
    given = w.compare("icmp ne", panel, value("ptr", "null"))
    return w.all_of(distant, wide, high, even, given)


def _heights(target: CpuTarget) -> tuple[int, ...]:
    """The heights of the tiles that cover the remaining rows: sizes are powers of two."""
    return (target.dot_rows, 2, 1) if target.dot_rows % 4 else (target.dot_rows, 1)


def _first_rows(tile: _Tile, a: _Matrix, b: _Matrix, c: _Matrix, j: Val, depth: Val, m: Val, fresh: Val,
                done: Val) -> tuple[_Matrix, Val]:
    """Multiply the first rows by a panel of B and copy it; returns the panel for the other rows, and the first of them.

    `done`: all rows of full tiles have been computed already.
    """
    w, packed, zero = tile.w, tile.panel, tile.w.const("i64", 0)
    assert packed is not None, "a tile of the first rows copies to a panel"
    near = w.compare("icmp eq", packed.base, value("ptr", "null"))
    worth = w.compare("icmp sge", w.select(w.binary("or", done, near), zero, m), w.const("i64", tile.rows))
    with w.when(worth, likely=True):
        top = w.effect("add i64 0, 0", "i64")  # not hoisted
        tile.write(tile.rows_of(a, top), b, c, top, j, depth, fresh)
    found = _Matrix(w.select(worth, packed.base, b.base), w.select(worth, packed.stride, b.stride), b.type)
    ready = w.select(done, round_down(w, m, tile.rows), zero)
    return found, w.select(worth, w.const("i64", tile.rows), ready)
