"""dot of bytes on AArch64 with `dotprod`: the function that dot.py describes.

The instructions sdot and udot add four products of bytes to each lane. A panel of B, sixteen columns wide, is packed so
that it has four ks of each column side by side; four ks of a row of A are a lane of a register. So a register tile is
4 x 16, as that of floats, and each step does four ks.

Where K is no multiple of four, and for columns that remain, the general product does the work.
"""

from __future__ import annotations

from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, value
from .dot_signature import PARAMETERS, interleaved, round_down

_STEP = 4  # ks in a lane
_COLUMNS = 16  # of a panel
_ROWS = 4
_LANES = 4
_TYPE = f"<{_LANES} x i32>"
_ZEROS = value("ptr", "@zeros")  # as in dot.py, whose text stands beside this


def is_dotprod(target: CpuTarget, kind: str) -> bool:
    """Whether this module has the product of a kind.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> is_dotprod(cpu_target("aarch64"), "i8"), is_dotprod(cpu_target("x86-64-v4"), "i8")
    (True, False)
    """
    return target.simd == "neon" and target.has_dot8 and kind in ("i8", "u8")


def write(w: Writer, kind: str, symbol: str, general: str) -> None:
    """Write the product of a kind. `general` is the name of the function that has the rest.

    >>> w = Writer()
    >>> write(w, "u8", "tt.dot.u8", "general")
    >>> w.text().count("call <4 x i32> @llvm.aarch64.neon.udot.v4i32.v16i8(") > 64
    True
    """
    with w.function("void", symbol, PARAMETERS) as (a, b, c, m, n, k, lda, ldb, ldc, panel, fresh):
        zero = w.const("i64", 0)
        can = w.all_of(w.compare("icmp eq", round_down(w, k, _STEP), k), w.compare("icmp sgt", k, zero),
                       w.compare("icmp ne", panel, value("ptr", "null")))
        right = w.select(can, round_down(w, n, _COLUMNS), zero)
        tile = _Tile(w, "sdot" if kind == "i8" else "udot", panel, lda, ldc, k, fresh)
        with w.loop(0, right, _COLUMNS) as across:
            j = across.index
            _pack(w, w.gep("i8", b, j), ldb, k, panel)
            top = zero
            for height in (_ROWS, 1):
                bottom = round_down(w, m, height)
                with w.loop(top, bottom, height) as down:
                    i = down.index
                    tile.write(w.gep("i8", a, w.binary("mul", i, lda)),
                               w.gep("i32", w.gep("i32", c, w.binary("mul", i, ldc)), j), height)
                top = bottom
        with w.when(w.compare("icmp slt", right, n), likely=False):
            w.call("void", general, a, w.gep("i8", b, right), w.gep("i32", c, right), m, w.binary("sub", n, right), k,
                   lda, ldb, ldc, panel, fresh)
        w.ret()


def _pack(w: Writer, b: Val, ldb: Val, k: Val, panel: Val) -> None:
    """Write a panel of B, four rows at a time."""
    with w.loop(0, k, _STEP) as loop:
        first = w.gep("i8", b, w.binary("mul", loop.index, ldb))
        lines = [w.load(f"<{_COLUMNS} x i8>", w.gep("i8", first, w.binary("mul", ldb, w.const("i64", r))), align=1)
                 for r in range(_STEP)]
        quads = interleaved(w, lines, _COLUMNS)
        w.store(quads, w.gep("i8", panel, w.binary("mul", loop.index, w.const("i64", _COLUMNS))), align=1)


class _Tile:
    """Register tiles that multiply rows of A by the panel."""

    def __init__(self, w: Writer, name: str, panel: Val, lda: Val, ldc: Val, k: Val, fresh: Val):
        self.w, self.panel, self.lda, self.ldc, self.k, self.fresh = w, panel, lda, ldc, k, fresh
        self.name = f"llvm.aarch64.neon.{name}.v4i32.v16i8"

    def write(self, a: Val, c: Val, height: int) -> None:
        """Update `height` rows of sixteen columns of C."""
        w = self.w
        rows = [w.gep("i8", a, w.binary("mul", self.lda, w.const("i64", r))) for r in range(height)]
        lines = [w.gep("i32", c, w.binary("mul", self.ldc, w.const("i64", r))) for r in range(height)]
        places = [w.gep("i32", line, w.const("i64", v)) for line in lines for v in range(0, _COLUMNS, _LANES)]
        totals = [w.load(_TYPE, w.select(self.fresh, _ZEROS, place), align=4) for place in places]
        start = w.const("i64", 0)
        for quads in (4, 1):
            stop = round_down(w, self.k, _STEP * quads)
            with w.loop(start, stop, _STEP * quads, carry=totals) as loop:
                loop.next = self.update(rows, loop.index, quads, list(loop.carried))
            start, totals = stop, loop.results
        for x, place in zip(totals, places, strict=True):
            w.store(x, place, align=4)

    def update(self, rows: list[Val], k: Val, quads: int, totals: list[Val]) -> list[Val]:
        """The sums after some quads of ks."""
        w = self.w
        chunks = [w.load(f"<{quads} x i32>" if quads > 1 else "i32", w.gep("i8", row, k), align=1) for row in rows]
        lines = w.gep("i8", self.panel, w.binary("mul", k, w.const("i64", _COLUMNS)))
        for q in range(quads):
            columns = [w.load("<16 x i8>", w.gep("i8", lines, w.const("i64", 4 * _COLUMNS * q + v)), align=1)
                       for v in range(0, 4 * _COLUMNS, 16)]
            for r, chunk in enumerate(chunks):
                four = w.splat(chunk, _LANES) if quads == 1 else w.shuffle(chunk, None, [q] * _LANES)
                four = w.cast("bitcast", four, "<16 x i8>")
                for v, line in enumerate(columns):
                    at = r * len(columns) + v
                    totals[at] = self.add(totals[at], line, four)
        return totals

    def add(self, total: Val, x: Val, y: Val) -> Val:
        """Add the products of bytes to the lanes of `total`."""
        w = self.w
        w.declare(self.name, _TYPE, [_TYPE, "<16 x i8>", "<16 x i8>"])
        return w.emit(_TYPE, f"call {_TYPE} @{self.name}({total.typed}, {x.typed}, {y.typed})", total, x, y)
