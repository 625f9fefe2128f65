"""dot of f32 and f64 on x86-64 with fused multiply-add: the function that dot.py describes.

A register tile of C stays in registers during the loop over k. For each k, a row of B is loaded, and each element of a
column of A is broadcast from memory and multiplied by it. The number of instructions limits the loop, as the processor
issues four in a cycle, or two where another thread shares the core. Wide tiles need few, and so do addresses that are
the sum of a register and another or a constant.

LLVM's loop strength reduction would compute the address of each row of A for every k, and its scheduler would load the
operands of several ks first and spill them. Empty assembly statements hide from the former how addresses advance, and
keep the loads of a k behind those of the k before.

A panel of B is as wide as a tile, and so high that loads and stores of C take little time. It is copied to scratch
memory, where it is contiguous, if enough rows of A follow.

A core copies a line of 64 bytes from the third cache in 8 cycles, the time of 16 multiplications. So, where a register
is left for it, the tiles of a panel copy the next one while they multiply, a vector with every fourth k. Rows of A that
are a page or more apart fall into the same sets of a cache: tiles of the first panel copy them, four ks of each row.

    panel 0, copy A and panel 1 | panel 1, copy panel 2 | ... | panel n, copy panel 0 of the next ks | ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ....named_tuples import NamedTuple
from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, value, vector
from .dot_signature import PARAMETERS, round_down

_TYPES = {"f32": ("float", 4), "f64": ("double", 8)}
_PANEL = 32 << 10  # bytes of a panel of B, or more
_DEEP = 256  # ks that a panel has at least
_LINE = 64  # bytes of a cache line
_UNROLL = 4  # ks in an iteration
_ROWS_AHEAD = 8  # prefetch distance in rows of B while a panel is copied
_SLOWLY = 2  # the same while a tile copies them
_PAGE = 4 << 10  # bytes between rows of A from which copies of them pay off
_WIDE = 4  # panels of B from which they do
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


def panel_columns(target: CpuTarget, m: int, n: int) -> int:
    """The columns of the scratch panel: two panels of B, as if they spanned all of K, and a copy of A, as many floats.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> panel_columns(cpu_target("x86-64-v4"), 64, 64), panel_columns(cpu_target("x86-64-v4"), 64, 256)
    (128, 192)
    """
    width = SHAPES[target.simd][0].width // 4
    if target.simd != "avx512":
        return width
    return 2 * width + (m if n >= _WIDE * width // 2 else 0)


class Packing(NamedTuple):
    """What a tile copies while it multiplies: `rows` of the next panel of B, a vector with every fourth k."""

    source: Val
    stride: Val
    target: Val
    rows: Val


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
              more: Val | None = None, packing: Packing | None = None, copy: Val | None = None,
              is_copy: bool = False) -> None:
        """Update the tile of C at `c` by the rows at `a` and the columns at `b`, and by `more`, the address of a row.

        Its rows of A are copied to `copy`; `is_copy` tells that `a` is such a copy: four ks of a row are followed by
        those of the next. Strides are in bytes.
        """
        w = self.w
        places = [self.row(c, ldc, r) for r in range(self.rows)]
        totals = [x for p in places for x in self.load(w.select(fresh, ZEROS, p))]
        if more is not None:
            line = self.load(more)
            totals = [w.binary("add", x, line[i % self.parts]) for i, x in enumerate(totals)]
        # the addresses of every third row of A; the rows between them are a stride or two further
        starts = [a] if is_copy else [self.row(a, lda, r) for r in range(0, self.rows, 3)]
        main = w.binary("and", depth, w.const("i64", -_UNROLL))
        carried, first = [*starts, *([copy] if copy else []), b, *totals], w.const("i64", 0)
        steps = functools.partial(self.steps, lda=None if is_copy else lda, ldb=ldb, copies=copy is not None)
        if packing:
            size, last = self.lanes * self.size, _UNROLL * (self.parts - 1)
            some = w.binary("mul", packing.rows, w.const("i64", last + _UNROLL))
            with w.loop(first, some, _UNROLL, carry=[*carried, packing.source, packing.target]) as loop:
                *inner, source, target = loop.carried
                self.copy_row(source, target, packing.stride, _SLOWLY, 1)
                wraps = w.compare("icmp eq", w.binary("and", loop.index, w.const("i64", last)), w.const("i64", last))
                below = w.binary("sub", packing.stride, w.const("i64", last // _UNROLL * size))
                source = w.gep("i8", source, w.select(wraps, below, w.const("i64", size)))
                loop.next = [*steps(inner, unroll=_UNROLL), source, self.part(target, 1)]
            first, carried = some, list(loop.results[:-2])
        for start, last, unroll in ((first, main, _UNROLL), *(() if copy or is_copy else ((main, depth, 1),))):
            with w.loop(start, last, unroll, carry=carried) as loop:
                loop.next = steps(list(loop.carried), unroll=unroll)
            carried = list(loop.results)
        for i, x in enumerate(carried[-len(totals):]):
            w.store(x, self.part(places[i // self.parts], i % self.parts), align=self.size)

    def copy_row(self, source: Val, target: Val, stride: Val, distance: int, parts: int) -> None:
        """Copy some vectors of a row of a panel of B, and prefetch those of the row at a distance."""
        w = self.w
        w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        ahead = w.gep("i8", source, w.binary("mul", stride, w.const("i64", distance)))
        for v in range(parts):
            if v * self.lanes * self.size % _LINE == 0:
                w.effect(f"call void @llvm.prefetch.p0({self.part(ahead, v).typed}, i32 0, i32 3, i32 1)")
            w.store(w.load(self.type, self.part(source, v), align=self.size), self.part(target, v), align=self.size)

    def row(self, start: Val, stride: Val, r: int) -> Val:
        """The address `r` rows after `start`."""
        w = self.w
        return w.gep("i8", start, w.binary("mul", stride, w.const("i64", r)) if r > 1 else stride) if r else start

    def steps(self, carried: list[Val], lda: Val | None, ldb: Val, copies: bool, unroll: int) -> list[Val]:
        """The addresses and sums after `unroll` ks. Without `lda`, rows of A are interleaved; if `copies`, they are
        copied so."""
        w, sums, piece = self.w, self.rows * self.parts, unroll * self.size
        *starts, b = carried[:-sums]
        copy, totals = starts.pop() if copies else None, carried[-sums:]
        interleaved = lambda start, r: w.gep("i8", start, w.const("i64", r * piece)) if r else start
        rows = [interleaved(starts[0], r) if lda is None else self.row(starts[r // 3], lda, r % 3)
                for r in range(self.rows)]
        for r in range(self.rows if copy else 0):
            x = w.load(vector(unroll, self.element), rows[r], align=self.size)
            w.store(x, interleaved(copy, r), align=self.size)
        for u in range(unroll):
            if u:
                totals[-1] = self.separate(totals[-1])
            line = self.load(b)
            for r in range(self.rows):
                place = w.gep(self.element, rows[r], w.const("i64", u)) if u else rows[r]
                factor = w.splat(w.load(self.element, place, align=self.size), self.lanes)
                for v in range(self.parts):
                    i = r * self.parts + v
                    totals[i] = self.multiply(factor, line[v], totals[i])
            b = w.gep("i8", b, ldb)
        starts = [w.gep("i8", p, w.const("i64", piece * (self.rows if lda is None else 1))) for p in starts]
        if copy:
            starts.append(w.gep("i8", copy, w.const("i64", piece * self.rows)))
        hidden = [w.effect(f'call ptr asm "", "=r,0"({p.typed})', "ptr") for p in (*starts, b)]
        return [*hidden, *totals]

    def separate(self, x: Val) -> Val:
        """Keep the loads that follow behind those before, and behind the computation of `x`."""
        kind = "v" if self.lanes * self.size == _LINE else "x"
        return self.w.effect(f'call {x.type} asm sideeffect "", "={kind},0,~{{memory}}"({x.typed})', x.type)


class _Panels(NamedTuple):
    """Scratch memory for two panels of B. If `ready`, the first one holds the panel that is due."""

    mine: Val
    other: Val
    ready: Val


class _Block(NamedTuple):
    """The ks that a panel of B has: A and B there, how many they are, whether C is `fresh`, and the block after them:
    B there, and how many ks are left for it."""

    a: Val
    b: Val
    depth: Val
    fresh: Val
    next_b: Val
    next_depth: Val


class _Product:
    """C += A @ B. Strides are in bytes; `high` is how many rows the panels of B have."""

    def __init__(self, w: Writer, kind: str, simd: str, m: Val, n: Val, lda: Val, ldb: Val, ldc: Val, panel: Val,
                 high: Val):
        self.w, self.shapes, self.m, self.n = w, SHAPES[simd], m, n
        self.ahead = simd == "avx512"  # whether panels are copied ahead: the tiles of AVX2 need all 16 registers
        self.lda, self.ldb, self.ldc, self.panel = lda, ldb, ldc, panel
        self.element, self.size = _TYPES[kind]
        shapes = self.shapes
        self.lanes = shapes[-1].width // self.size  # of a register
        self.scratch = w.compare("icmp ne", panel, value("ptr", "null"))
        size, width = w.binary("mul", high, w.const("i64", shapes[0].width)), shapes[0].width // self.size
        other = w.gep("i8", panel, size)
        self.panels = _Panels(panel, other, w.const("i1", False))
        self.copies = w.gep("i8", other, size)
        distant = w.compare("icmp sge", lda, w.const("i64", _PAGE))
        self.copied = w.all_of(self.scratch, distant, w.compare("icmp sge", n, w.const("i64", _WIDE * width)))

    def write(self, k: _Block, c: Val, panels: _Panels) -> _Panels:
        """Update C by a block of ks, the widest panels first."""
        w, shape, left = self.w, self.shapes[0], self.w.const("i64", 0)
        columns = shape.width // self.size
        right = round_down(w, self.n, columns)
        with w.loop(left, right, columns, carry=[*panels]) as across:
            now, j = _Panels(*across.carried), w.binary("mul", across.index, w.const("i64", self.size))
            b, c_at = w.gep("i8", k.b, j), w.gep("i8", c, j)
            packed, ldb = self.packed(shape, b, k.depth, now.mine, now.ready)
            if not self.ahead:
                self.columns(shape, k, packed, ldb, c_at)
                across.next = [*now]
            else:
                more = w.compare("icmp slt", w.binary("add", across.index, w.const("i64", columns)), right)
                source = w.select(more, w.gep("i8", b, w.const("i64", shape.width)), k.next_b)
                rows = w.select(more, k.depth, k.next_depth)
                share = self.each(shape, k.depth, rows)
                packing = Packing(source, share, now.other, rows)
                copied, flip = w.binary("and", self.copied, self.even(k.depth)), w.const("i1", True)
                first = w.compare("icmp eq", across.index, left)
                cases = {"copy": w.binary("and", copied, first), "in place": w.binary("xor", copied, flip),
                         "copied": w.binary("and", copied, w.binary("xor", first, flip))}
                for how, chosen in cases.items():
                    with w.when(chosen):
                        self.columns(shape, k, packed, ldb, c_at, packing, how)
                ready = w.compare("icmp sgt", share, w.const("i64", 0))
                across.next = [w.select(ready, now.other, now.mine), w.select(ready, now.mine, now.other), ready]
        panels, left = _Panels(*across.results), right
        for shape in (*self.shapes[1:], Shape(_NARROW, (4, 1)), Shape(self.size, (4, 1))):
            columns = shape.width // self.size
            right = round_down(w, self.n, columns)
            with w.loop(left, right, columns) as across:
                j = w.binary("mul", across.index, w.const("i64", self.size))
                b, ldb = w.gep("i8", k.b, j), self.ldb
                if shape.width > _NARROW:
                    free = w.select(panels.ready, panels.other, panels.mine)
                    b, ldb = self.packed(shape, b, k.depth, free, w.const("i1", False))
                self.columns(shape, k, b, ldb, w.gep("i8", c, j))
            left = right
        return panels

    def columns(self, shape: Shape, k: _Block, b: Val, ldb: Val, c: Val, packing: Packing | None = None,
                how: str = "in place") -> None:
        """Update the columns of C at `c` by the panel of B at `b`, the highest tiles first.

        The highest tiles share the packing, whose `stride` is here how many rows each of them copies. Rows of A are
        read "in place", or from where they have been "copied", or read in place and "copy" is made.
        """
        w, top = self.w, self.w.const("i64", 0)
        for height, lower in zip(shape.heights, (*shape.heights[1:], 1), strict=True):
            bottom = w.binary("add", top, self.rows(w.binary("sub", self.m, top), height, lower))
            with w.loop(top, bottom, height) as down:
                rows = w.gep("i8", k.a, w.binary("mul", down.index, self.lda))
                place = w.gep("i8", c, w.binary("mul", down.index, self.ldc))
                offset = w.binary("mul", down.index, w.binary("mul", k.depth, w.const("i64", self.size)))
                copy = w.gep("i8", self.copies, offset)
                tile = Tile(w, self.element, self.size, height, shape.width // self.size, self.lanes, self.multiply)
                mine = self.share(shape, packing, down.index) if packing and height == shape.heights[0] else None
                tile.write(copy if how == "copied" else rows, self.lda, b, ldb, place, self.ldc, k.depth, k.fresh,
                           packing=mine, copy=copy if how == "copy" else None, is_copy=how == "copied")
            top = bottom

    def even(self, depth: Val) -> Val:
        """Whether iterations of several ks leave none."""
        w = self.w
        return w.compare("icmp eq", w.binary("and", depth, w.const("i64", _UNROLL - 1)), w.const("i64", 0))

    def each(self, shape: Shape, depth: Val, rows: Val) -> Val:
        """How many of the `rows` of the next panel each of the highest tiles copies: none if they cannot copy all."""
        w, one = self.w, self.w.const("i64", 1)
        tiles = w.binary("sdiv", self.rows(self.m, *shape.heights[:2]), w.const("i64", shape.heights[0]))
        tiles = w.intrinsic("smax", "i64", tiles, one)
        each = w.binary("udiv", w.binary("sub", w.binary("add", rows, tiles), one), tiles)
        ks = w.binary("mul", each, w.const("i64", _UNROLL * shape.width // (self.lanes * self.size)))
        possible = w.binary("and", self.worth(shape), w.compare("icmp sle", ks, depth))
        return w.select(possible, each, w.const("i64", 0))

    def share(self, shape: Shape, packing: Packing, i: Val) -> Packing:
        """The part of the packing for the tile in row `i`."""
        w, each = self.w, packing.stride
        start = w.binary("mul", w.binary("udiv", i, w.const("i64", shape.heights[0])), each)
        left = w.intrinsic("smax", "i64", w.binary("sub", packing.rows, start), w.const("i64", 0))
        return Packing(w.gep("i8", packing.source, w.binary("mul", start, self.ldb)), self.ldb,
                       w.gep("i8", packing.target, w.binary("mul", start, w.const("i64", shape.width))),
                       w.intrinsic("smin", "i64", left, each))

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

    def worth(self, shape: Shape) -> Val:
        """Whether panels of B are copied: they have gaps, and more than one tile will read them."""
        w = self.w
        several = w.compare("icmp sgt", self.m, w.const("i64", shape.heights[0]))
        gaps = w.compare("icmp ne", self.ldb, w.const("i64", shape.width))
        return w.all_of(self.scratch, several, gaps)

    def packed(self, shape: Shape, b: Val, depth: Val, panel: Val, ready: Val) -> tuple[Val, Val]:
        """The panel of B, copied if that is worth it and has not been done, and the stride of its rows."""
        w, width, worth = self.w, self.w.const("i64", shape.width), self.worth(shape)
        tile = Tile(w, self.element, self.size, 1, shape.width // self.size, self.lanes, self.multiply)
        due = w.binary("and", worth, w.binary("xor", ready, w.const("i1", True)))
        with w.when(due), w.loop(0, depth) as loop:
            line = w.gep("i8", b, w.binary("mul", loop.index, self.ldb))
            tile.copy_row(line, w.gep("i8", panel, w.binary("mul", loop.index, width)), self.ldb, _ROWS_AHEAD,
                          tile.parts)
        return w.select(worth, panel, b), w.select(worth, width, self.ldb)


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
        most = w.const("i64", max(_PANEL // shapes[0].width, _DEEP))
        high = w.intrinsic("smin", "i64", depth, most)
        product = _Product(w, kind, target.simd, m, n, lda, ldb, ldc, panel, high)
        some = w.intrinsic("smax", "i64", depth, w.const("i64", 1))  # a fresh C is written even if K is 0
        with w.loop(0, some, most, carry=[*product.panels], nonempty=True) as blocks:
            k = blocks.index
            after = w.binary("add", k, most)
            left, following = (w.intrinsic("smin", "i64", w.binary("sub", depth, x), most) for x in (k, after))
            following = w.intrinsic("smax", "i64", following, w.const("i64", 0))
            at = [w.gep("i8", b, w.binary("mul", x, ldb)) for x in (k, after)]
            begins = w.binary("and", fresh, w.compare("icmp eq", k, w.const("i64", 0)))
            block = _Block(w.gep(element, a, k), at[0], left, begins, at[1], following)
            blocks.next = [*product.write(block, c, _Panels(*blocks.carried))]
        w.ret()
    return w.text()
