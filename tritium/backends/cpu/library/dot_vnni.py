"""dot of bytes on x86-64 with AVX-512 VNNI: the function that dot.py describes.

The instruction vpdpbusd adds four products of bytes to each lane: those of an unsigned operand and a signed one. Four
ks of a row of A are broadcast at once, and meet a row of a panel of B that has four ks of each column side by side. So
the register tiles are those of floats (dot_x86.py).

One of two signed operands must become unsigned, and one of two unsigned operands signed. Flipping the top bit of the
bytes of A does it, and adds 128 to them or subtracts it. So 128 times the sums of the columns of B are subtracted from
C, or added to it. A is flipped as it is copied to scratch memory, once for each call, and sums are found as a panel is
packed.

Where K is no multiple of four, and for columns that remain, the general product does the work.
"""

from __future__ import annotations

from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, value
from .dot_signature import PARAMETERS, interleaved, round_down
from .dot_x86 import SHAPES, Shape, Tile

WIDTH = SHAPES["avx512"][0].width  # bytes of the widest row of a tile
_STEP = 4  # ks in a lane
_LANES = 16
_HIGH = 128  # rows of a panel
_FLIP = 64  # bytes of A flipped at a time
_QUADS_AHEAD = 8  # prefetch distance in fours of rows of B while a panel is packed


def is_vnni(target: CpuTarget, kind: str) -> bool:
    """Whether this module has the product of a kind.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> is_vnni(cpu_target("sapphirerapids"), "i8"), is_vnni(cpu_target("x86-64-v4"), "i8")
    (True, False)
    """
    return target.simd == "avx512" and target.has_dot8 and kind in ("i8", "u8")


def panel_columns(m: int) -> int:
    """The columns of the scratch panel (K rows of i32): a panel of B, its sums, and a copy of A.

    >>> panel_columns(64)
    144
    """
    return 2 * WIDTH // 4 + -(-m // _STEP)


def write(w: Writer, kind: str, symbol: str, general: str) -> None:
    """Write the product of a kind. `general` is the name of the function that has the rest.

    >>> w = Writer()
    >>> write(w, "i8", "tt.dot.i8", "general")
    >>> w.text().count("call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(") > 100
    True
    """
    with w.function("void", symbol, PARAMETERS) as values:
        _Bytes(w, kind, *values).write(SHAPES["avx512"], general)
        w.ret()


class _Bytes:
    """The product of one call."""

    def __init__(self, w: Writer, kind: str, a: Val, b: Val, c: Val, m: Val, n: Val, k: Val, lda: Val, ldb: Val,
                 ldc: Val, panel: Val, fresh: Val):
        self.w, self.signed = w, kind == "i8"
        self.a, self.b, self.c, self.m, self.n, self.k = a, b, c, m, n, k
        self.lda, self.ldb, self.ldc, self.panel, self.fresh = lda, ldb, ldc, panel, fresh

    def write(self, shapes: tuple[Shape, ...], general: str) -> None:
        """Compute C."""
        w, zero = self.w, self.w.const("i64", 0)
        can = w.all_of(w.compare("icmp eq", w.binary("urem", self.k, w.const("i64", _STEP)), zero),
                       w.compare("icmp sgt", self.k, zero), w.compare("icmp ne", self.panel, value("ptr", "null")))
        right = w.select(can, round_down(w, self.n, _LANES), zero)
        with w.when(w.compare("icmp sgt", right, zero), likely=True):
            self.sums = self.panel
            self.quads = w.gep("i8", self.panel, w.const("i64", WIDTH))
            high = w.intrinsic("smin", "i64", self.k, w.const("i64", _STEP * _HIGH))
            flipped = w.gep("i8", self.quads, w.binary("mul", high, w.const("i64", WIDTH // _STEP)))
            self.flip(flipped)
            with w.loop(0, self.k, _STEP * _HIGH, nonempty=True) as blocks:
                k, left = blocks.index, zero
                depth = w.intrinsic("smin", "i64", w.binary("sub", self.k, k), w.const("i64", _STEP * _HIGH))
                quads = w.binary("udiv", depth, w.const("i64", _STEP))
                begins = w.binary("and", self.fresh, w.compare("icmp eq", k, zero))
                for shape in shapes:
                    columns = shape.width // 4
                    end = round_down(w, right, columns)
                    with w.loop(left, end, columns) as across:
                        j = across.index
                        b = w.gep("i8", w.gep("i8", self.b, w.binary("mul", k, self.ldb)), j)
                        self.pack(b, quads, columns)
                        self.columns(shape, w.gep("i8", flipped, k), w.gep("i32", self.c, j), quads, begins)
                    left = end
        with w.when(w.compare("icmp slt", right, self.n), likely=False):
            rest = (self.a, w.gep("i8", self.b, right), w.gep("i32", self.c, right), self.m,
                    w.binary("sub", self.n, right), self.k, self.lda, self.ldb, self.ldc, self.panel, self.fresh)
            w.call("void", general, *rest)

    def flip(self, copy: Val) -> None:
        """Copy A with the top bits of its bytes flipped; rows become contiguous."""
        w, main = self.w, round_down(self.w, self.k, _FLIP)
        with w.loop(0, self.m) as rows:
            source = w.gep("i8", self.a, w.binary("mul", rows.index, self.lda))
            target = w.gep("i8", copy, w.binary("mul", rows.index, self.k))
            for first, last, step in ((w.const("i64", 0), main, _FLIP), (main, self.k, _STEP)):
                with w.loop(first, last, step) as loop:
                    x = w.load(f"<{step} x i8>", w.gep("i8", source, loop.index), align=1)
                    x = w.binary("xor", x, w.const(f"<{step} x i8>", -128))
                    w.store(x, w.gep("i8", target, loop.index), align=1)

    def pack(self, b: Val, quads: Val, columns: int) -> None:
        """Write a panel of B, four rows at a time, and what the flipped bits of A have added to each column."""
        w, type = self.w, f"<{_LANES} x i32>"
        ones = w.const(f"<{4 * _LANES} x i8>", 1)
        parts = columns // _LANES
        w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        with w.loop(0, quads, carry=[w.const(type, 0)] * parts, nonempty=True) as loop:
            first = w.gep("i8", b, w.binary("mul", loop.index, w.binary("mul", self.ldb, w.const("i64", _STEP))))
            target = w.gep("i8", self.quads, w.binary("mul", loop.index, w.const("i64", 4 * columns)))
            ahead = self.line(first, _STEP * _QUADS_AHEAD)
            for r in range(_STEP):
                w.effect(f"call void @llvm.prefetch.p0({self.line(ahead, r).typed}, i32 0, i32 3, i32 1)")
            totals = []
            for v in range(parts):
                at = w.const("i64", v * _LANES)
                lines = [w.load(f"<{_LANES} x i8>", w.gep("i8", self.line(first, r), at), align=1)
                         for r in range(_STEP)]
                quad = interleaved(w, lines, _LANES)
                w.store(quad, w.gep("i8", target, w.const("i64", v * 4 * _LANES)), align=1)
                totals.append(self.add(ones, quad, loop.carried[v]))
            loop.next = totals
        for v, x in enumerate(loop.results):
            x = w.binary("mul", x, w.const(type, -128 if self.signed else 128))
            w.store(x, w.gep("i8", self.sums, w.const("i64", v * 4 * _LANES)), align=4)

    def line(self, first: Val, r: int) -> Val:
        """The address `r` rows of B after `first`."""
        w = self.w
        return w.gep("i8", first, w.binary("mul", self.ldb, w.const("i64", r))) if r else first

    def add(self, x: Val, y: Val, total: Val) -> Val:
        """Add the products of the bytes of `x`, of flipped A, and of `y`, of B, to the lanes of `total`."""
        w = self.w
        pair = [w.cast("bitcast", z, f"<{4 * _LANES} x i8>") for z in ((x, y) if self.signed else (y, x))]
        name = "llvm.x86.avx512.vpdpbusd.512"
        w.declare(name, total.type, [total.type, pair[0].type, pair[1].type])
        return w.emit(total.type, f"call {total.type} @{name}({total.typed}, {pair[0].typed}, {pair[1].typed})", total,
                      *pair)

    def columns(self, shape: Shape, a: Val, c: Val, quads: Val, fresh: Val) -> None:
        """Update columns of C by a panel, the highest tiles first."""
        w, top, columns = self.w, self.w.const("i64", 0), shape.width // 4
        ldc = w.binary("mul", self.ldc, w.const("i64", 4))
        for height in shape.heights:
            bottom = w.binary("add", top, round_down(w, w.binary("sub", self.m, top), height))
            with w.loop(top, bottom, height) as down:
                tile = Tile(w, "i32", 4, height, columns, _LANES, self.add)
                tile.write(w.gep("i8", a, w.binary("mul", down.index, self.k)), self.k, self.quads,
                           w.const("i64", 4 * columns), w.gep("i8", c, w.binary("mul", down.index, ldc)), ldc, quads,
                           fresh, self.sums)
            top = bottom
