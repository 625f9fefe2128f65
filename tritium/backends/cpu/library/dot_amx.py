"""dot of 16-bit floats and of bytes on Intel's tile unit (AMX): C += A @ B into f32 or i32, or C = A @ B if `fresh`.

    tt.dot.bf16(ptr A, ptr B, ptr C, i64 M, i64 N, i64 K, i64 lda, i64 ldb, i64 ldc, ptr panel, i1 fresh)

M is a multiple of 16, N and K are multiples of 32; for bytes, K is one of 64. The unit has eight tiles of 16 rows of 64
bytes: four hold 32 x 32 of C, two each hold a row's 64 bytes of ks of A and of B. If 16 rows of C remain, they take two
tiles. A is read in place. The unit needs the ks that make up four bytes side by side in B, two floats or four bytes, so
32 columns at a time are packed in that order into `panel`. For floats, row p has B[2p, c], B[2p + 1, c] for each column
c. While a panel is multiplied the next one is packed, a few rows with each step: the tile unit and the shuffles work at
the same time.

Rows of A far apart fall into the same sets of the caches. If there are several panels, the first one has the tiles of A
copied, and the others read the copies.

The unit flushes subnormal results and operands of bf16 to zero, regardless of the thread's floating-point state.
"""

from __future__ import annotations

from ....named_tuples import NamedTuple
from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, lanes, value
from .dot_signature import PARAMETERS, round_down

SYMBOLS = {kind: f"tt.dot.{kind}" for kind in ("bf16", "f16")}  # those that only this unit multiplies
MULTIPLES = (16, 32, 32)  # of M, K and N
_ROWS, _, _COLUMNS = MULTIPLES
_BLOCK = 2 * _ROWS  # rows of C that are computed at a time
_LINE = 64  # bytes of a row of a tile, and of a line of the cache
_TILE = _ROWS * _LINE  # bytes
_DISTANT = 2 << 10  # bytes between rows of A from which copies of them pay off
_WIDE = 128  # columns from which they do
_PANEL_ROW = 128  # bytes: 32 columns of four
# palette 1; from byte 16 the width of each tile in bytes (u16), from byte 48 its rows
_CONFIG = bytes([1]) + bytes(15) + b"\x40\x00" * 8 + bytes(16) + bytes([_ROWS] * 8) + bytes(8)
_A, _B = (4, 5), (6, 7)  # tile registers; C has 0 to 3


class _Kind(NamedTuple):
    """Operands of a kind: their type and bytes, and the instruction that multiplies them."""

    operand: str
    size: int
    instruction: str

    @property
    def group(self) -> int:
        """The ks that lie side by side."""
        return 4 // self.size

    @property
    def unit(self) -> int:
        """The ks that are packed at a time: a register holds 32 columns of a row of B, or of two rows of bytes."""
        return self.group * self.group // 2

    @property
    def depth(self) -> int:
        """The ks of a tile."""
        return _LINE // self.size


_KINDS = {"bf16": _Kind("i16", 2, "tdpbf16ps"), "f16": _Kind("i16", 2, "tdpfp16ps"),
          "i8": _Kind("i8", 1, "tdpbssd"), "u8": _Kind("i8", 1, "tdpbuud")}


def is_amx(target: CpuTarget, kind: str) -> bool:
    """Whether the tile unit multiplies operands of a kind.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> [[kind for kind in ("bf16", "f16", "f32") if is_amx(cpu_target(f"{name}rapids"), kind)]
    ...  for name in ("sapphire", "granite")]
    [['bf16'], ['bf16', 'f16']]
    """
    return kind in target.amx


def panel_columns(m: int, n: int) -> int:
    """The columns of the scratch panel (K rows of f32): two panels of B, and a copy of an A of floats if B is wide.

    >>> panel_columns(64, 64), panel_columns(64, 128)
    (32, 64)
    """
    return _COLUMNS + (-(-m // 2) if n >= _WIDE else 0)


def dot_floats(kind: str) -> str:
    """The LLVM text of `tt.dot.bf16` or `tt.dot.f16`.

    >>> dot_floats("f16").count("call void @llvm.x86.tdpfp16ps(")  # 32 rows, and 16
    6
    """
    w = Writer()
    with w.function("void", SYMBOLS[kind], PARAMETERS) as values:
        _Product(w, _KINDS[kind], *values).write()
        w.ret()
    return w.text()


def write_bytes(w: Writer, kind: str, symbol: str, otherwise: str) -> None:
    """Write the product of bytes of a kind. `otherwise` is the function for sizes that the unit does not take.

    >>> w = Writer()
    >>> write_bytes(w, "i8", "tt.dot.i8", "other")
    >>> w.text().count("call void @llvm.x86.tdpbssd(")
    6
    """
    with w.function("void", symbol, PARAMETERS) as values:
        _, _, _, m, n, depth, *_, panel, _ = values
        can = w.compare("icmp ne", panel, value("ptr", "null"))
        for size, multiple in ((m, _ROWS), (n, _COLUMNS), (depth, _KINDS[kind].depth)):
            rest = w.binary("urem", size, w.const("i64", multiple))
            can = w.binary("and", can, w.compare("icmp eq", rest, w.const("i64", 0)))
        with w.when(can):
            _Product(w, _KINDS[kind], *values).write()
        with w.when(w.binary("xor", can, w.const("i1", True))):
            w.call("void", otherwise, *values)
        w.ret()


class _Packing(NamedTuple):
    """What is packed while a panel is multiplied: the next panel, `each` of its units with a step."""

    source: Val
    target: Val
    each: Val
    units: Val


class _Product:
    """The product of one call."""

    def __init__(self, w: Writer, kind: _Kind, a: Val, b: Val, c: Val, m: Val, n: Val, depth: Val, lda: Val, ldb: Val,
                 ldc: Val, panel: Val, fresh: Val):
        self.w, self.kind, self.a, self.b, self.c, self.m, self.n, self.depth = w, kind, a, b, c, m, n, depth
        self.lda, self.ldb = (w.binary("mul", stride, w.const("i64", kind.size)) for stride in (lda, ldb))
        self.ldc, self.fresh = w.binary("mul", ldc, w.const("i64", 4)), fresh
        self.row = w.binary("mul", depth, w.const("i64", kind.size))  # bytes of a row of A
        size = w.binary("mul", self.row, w.const("i64", _COLUMNS))
        self.panels = panel, w.gep("i8", panel, size)
        self.copies = w.gep("i8", self.panels[1], size)
        distant = w.compare("icmp sge", self.lda, w.const("i64", _DISTANT))
        self.copied = w.binary("and", distant, w.compare("icmp sge", n, w.const("i64", _WIDE)))
        for name, parameters in (("ldtilecfg", ["ptr"]), ("tilerelease", []), ("tileloadd64", ["i8", "ptr", "i64"]),
                                 ("tilestored64", ["i8", "ptr", "i64"]), ("tilezero", ["i8"]),
                                 (kind.instruction, ["i8"] * 3)):  # fmt: skip
            w.declare(f"llvm.x86.{name}", "void", parameters)
        w.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])

    def write(self) -> None:
        """Compute C."""
        w, zero, one = self.w, self.w.const("i64", 0), self.w.const("i64", 1)
        w.effect(f"call void @llvm.x86.ldtilecfg({w.string(_CONFIG).typed})")  # each thread has its own
        units = w.binary("udiv", self.depth, w.const("i64", self.kind.unit))
        steps = w.binary("mul", w.binary("udiv", self.row, w.const("i64", _LINE)),
                         w.binary("udiv", w.binary("add", self.m, w.const("i64", _ROWS)), w.const("i64", _BLOCK)))
        upper = w.binary("sub", w.binary("add", units, steps), one)
        each = w.binary("udiv", upper, w.intrinsic("smax", "i64", steps, one))  # units that a step packs
        with w.loop(0, units) as loop:
            self.pack(self.b, self.panels[0], loop.index)
        even = round_down(w, self.m, _BLOCK)
        with w.loop(0, self.n, _COLUMNS, carry=[*self.panels]) as columns:
            j, (mine, other) = columns.index, columns.carried
            begins, after = w.compare("icmp eq", j, zero), w.binary("add", j, w.const("i64", _COLUMNS))
            packing = _Packing(w.gep(self.kind.operand, self.b, after), other, each,
                               w.select(w.compare("icmp slt", after, self.n), units, zero))
            with w.loop(0, even, _BLOCK, carry=[zero]) as rows:
                rows.next = [self.block(2, rows.index, j, begins, mine, packing, *rows.carried)]
            with w.when(w.compare("icmp ne", even, self.m)):
                self.block(1, even, j, begins, mine, packing, *rows.results)
            columns.next = [other, mine]
        w.effect("call void @llvm.x86.tilerelease()")  # no tiles to save at a context switch

    def below(self, start: Val, stride: Val, rows: Val | int) -> Val:
        """The address some rows below."""
        w = self.w
        return w.gep("i8", start, w.binary("mul", stride, w.const("i64", rows) if isinstance(rows, int) else rows))

    def pack(self, b: Val, panel: Val, unit: Val) -> None:
        """Pack a unit of the panel of B at `b`, and prefetch the lines to the right of it."""
        w, kind, count = self.w, self.kind, _LINE // self.kind.size
        first = self.below(b, self.ldb, w.binary("mul", unit, w.const("i64", kind.unit)))
        rows = [self.below(first, self.ldb, r) for r in range(kind.unit)]
        lines = [w.load(f"<{_COLUMNS} x {kind.operand}>", row, align=kind.size) for row in rows]
        for row in rows:
            ahead = w.gep("i8", row, w.const("i64", _LINE))
            w.effect(f"call void @llvm.prefetch.p0({ahead.typed}, i32 0, i32 2, i32 1)")
        if kind.unit > kind.group:
            lines = [w.shuffle(x, y, range(count)) for x, y in zip(lines[:kind.group], lines[kind.group:], strict=True)]
        # Registers have four lanes of 16 bytes; lane l gets the lth four columns of each half of a row.
        order = [16 * (i // 4 % (count // 16)) + 4 * (i // (count // 4)) + i % 4 for i in range(count)]
        parts, wide = [[w.shuffle(x, None, order)] for x in lines], 1
        while len(parts) > 1:
            parts = [[part for x, y in zip(*pair, strict=True) for part in _unpacked(w, x, y, wide)]
                     for pair in zip(parts[::2], parts[1::2], strict=True)]
            wide *= 2
        place = w.gep("i8", panel, w.binary("mul", unit, w.const("i64", kind.unit * kind.size * _COLUMNS)))
        for i, x in enumerate(parts[0]):
            w.store(x, w.gep("i8", place, w.const("i64", _LINE * i)) if i else place, align=kind.size)

    def block(self, tall: int, i: Val, j: Val, begins: Val, panel: Val, packing: _Packing, unit: Val) -> Val:
        """`tall` x 2 tiles of C, from row `i` and column `j` on; returns the first unit that is still to be packed,
        `unit` before.

        `begins`: in the first columns.
        """
        w, copy = self.w, self.below(self.copies, self.row, i)
        c = w.gep("i32", self.below(self.c, self.ldc, i), j)
        places = [w.gep("i32", line, w.const("i64", _ROWS * right)) if right else line
                  for line in (c, self.below(c, self.ldc, _ROWS))[:tall] for right in range(2)]
        with w.when(self.fresh):
            for tile in range(len(places)):
                w.effect(f"call void @llvm.x86.tilezero(i8 {tile})")
        with w.when(w.binary("xor", self.fresh, w.const("i1", True))):
            for tile, place in enumerate(places):
                _move(w, "tileloadd64", tile, place, self.ldc)
        line, tiles, in_place = w.const("i64", _LINE), w.const("i64", tall * _TILE), self.below(self.a, self.lda, i)
        is_copy = w.binary("and", self.copied, w.binary("xor", begins, w.const("i1", True)))
        a, lda, step = (w.select(is_copy, x, y) for x, y in ((copy, in_place), (line, self.lda), (tiles, line)))
        with w.loop(0, w.binary("udiv", self.row, line), carry=[unit]) as loop:
            along, copies = w.binary("mul", loop.index, step), self.below(copy, tiles, loop.index)
            b = self.below(panel, w.const("i64", 2 * _TILE), loop.index)
            for down, rows in enumerate((a, self.below(a, lda, _ROWS))[:tall]):
                _move(w, "tileloadd64", _A[down], w.gep("i8", rows, along), lda)
                for right in range(2):
                    if not down:
                        half = w.gep("i8", b, w.const("i64", _LINE * right))
                        _move(w, "tileloadd64", _B[right], half, w.const("i64", _PANEL_ROW))
                    operands = f"i8 {2 * down + right}, i8 {_A[down]}, i8 {_B[right]}"
                    w.effect(f"call void @llvm.x86.{self.kind.instruction}({operands})")
            with w.when(w.binary("and", self.copied, begins)):
                for down in range(tall):
                    _move(w, "tilestored64", _A[down], w.gep("i8", copies, w.const("i64", _TILE * down)), line)
            stop = w.intrinsic("smin", "i64", w.binary("add", loop.carried[0], packing.each), packing.units)
            with w.loop(loop.carried[0], stop) as some:
                self.pack(packing.source, packing.target, some.index)
            loop.next = [stop]
        for tile, place in enumerate(places):
            _move(w, "tilestored64", tile, place, self.ldc)
        return loop.results[0]


def _unpacked(w: Writer, x: Val, y: Val, wide: int) -> list[Val]:
    """Elements of two registers in turns, `wide` at a time: of the lower halves of their lanes, and of the upper."""
    count = lanes(x.type)
    lane = count // 4
    turns = [i // (2 * wide) * wide + i % wide + i // wide % 2 * count for i in range(lane)]
    return [w.shuffle(x, y, [first + turn for first in range(half, count, lane) for turn in turns])
            for half in (0, lane // 2)]


def _move(w: Writer, how: str, tile: int, place: Val, stride: Val) -> None:
    w.effect(f"call void @llvm.x86.{how}(i8 {tile}, {place.typed}, {stride.typed})")
