"""dot of 16-bit floats and of bytes on Intel's tile unit (AMX): C += A @ B into f32 or i32, or C = A @ B if `fresh`.

    tt.dot.bf16(ptr A, ptr B, ptr C, i64 M, i64 N, i64 K, i64 lda, i64 ldb, i64 ldc, ptr panel, i1 fresh)
    tt.dot.bf16.columns(...)        the same for a B whose columns are contiguous, `ldb` apart; M, N and K as below

M is a multiple of 16, N and K are multiples of 32; for bytes, K is one of 64. The unit has eight tiles of 16 rows of
64 bytes: four hold 32 x 32 of C, two each hold a row's 64 bytes of ks of A and of B. If 16 rows of C remain, they take
two tiles. The unit needs the ks that make up four bytes side by side in B, two floats or four bytes, so 32 columns at
a time are packed in that order into `panel`. For floats, row p has B[2p, c], B[2p + 1, c] for each column c. The first
rows of C pack the panel two steps before they read it: the tile unit and the shuffles work at the same time.

What passes between the first two caches is the limit. So tiles of A are loaded as what is not read again soon: they
would push the panel out of the first cache, which all rows read. A is read in place, unless its rows lie in more pages
than the processor keeps addresses of: then the first panel has the tiles copied, and the others read the copies.

The unit flushes subnormal results and operands of bf16 to zero, regardless of the thread's floating-point state.
"""

from __future__ import annotations

from collections.abc import Callable

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
_AHEAD = 2  # steps: tiles cannot be loaded from lines that are on their way to the cache
_FAR = 256 << 10  # bytes from the first row of A to the last from which copies of rows pay off: 64 pages
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
BY_COLUMNS = {kind: f"tt.dot.{kind}.columns" for kind in _KINDS}


def is_amx(target: CpuTarget, kind: str) -> bool:
    """Whether the tile unit multiplies operands of a kind.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> [[kind for kind in ("bf16", "f16", "f32") if is_amx(cpu_target(f"{name}rapids"), kind)]
    ...  for name in ("sapphire", "granite")]
    [['bf16'], ['bf16', 'f16']]
    """
    return kind in target.amx


def panel_columns(m: int, n: int) -> int:
    """The columns of the scratch panel (K rows of f32): 32 columns of B, and a copy of an A of floats if B is wide.

    >>> panel_columns(64, 64), panel_columns(64, 128)
    (16, 48)
    """
    return _COLUMNS // 2 + (-(-m // 2) if n >= _WIDE else 0)


def takes(kind: str, m: int, n: int, k: int) -> bool:
    """Whether the unit multiplies all of a tile of M x K by one of K x N.

    >>> takes("bf16", 16, 32, 32), takes("i8", 16, 32, 32)
    (True, False)
    """
    return not (m % _ROWS or n % _COLUMNS or k % _KINDS[kind].depth)


def dot_tiles(kind: str, by_columns: bool = False) -> str:
    """The LLVM text of `tt.dot.bf16` or `tt.dot.f16`, or of any kind's product with a B that lies `by_columns`.

    >>> dot_tiles("f16").count("call void @llvm.x86.tdpfp16ps(")  # of 32 rows, and 16
    18
    """
    w = Writer()
    with w.function("void", (BY_COLUMNS if by_columns else SYMBOLS)[kind], PARAMETERS) as values:
        _Product(by_columns, w, _KINDS[kind], *values).write()
        w.ret()
    return w.text()


def write_bytes(w: Writer, kind: str, symbol: str, otherwise: str) -> None:
    """Write the product of bytes of a kind. `otherwise` is the function for sizes that the unit does not take.

    >>> w = Writer()
    >>> write_bytes(w, "i8", "tt.dot.i8", "other")
    >>> w.text().count("call void @llvm.x86.tdpbssd(")
    18
    """
    with w.function("void", symbol, PARAMETERS) as values:
        _, _, _, m, n, depth, *_, panel, _ = values
        can = w.compare("icmp ne", panel, value("ptr", "null"))
        for size, multiple in ((m, _ROWS), (n, _COLUMNS), (depth, _KINDS[kind].depth)):
            rest = w.binary("urem", size, w.const("i64", multiple))
            can = w.binary("and", can, w.compare("icmp eq", rest, w.const("i64", 0)))
        with w.when(can):
            _Product(False, w, _KINDS[kind], *values).write()
        with w.when(w.binary("xor", can, w.const("i1", True))):
            w.call("void", otherwise, *values)
        w.ret()


class _Rows(NamedTuple):
    """Rows of A: the tiles of a step begin at `start` + index * `step`, and have rows `stride` apart. If `copies`, they
    are copied to `copy`, one behind the other."""

    start: Val
    stride: Val
    step: Val
    copy: Val
    copies: Val


class _Product:
    """The product of one call."""

    def __init__(self, by_columns: bool, w: Writer, kind: _Kind, a: Val, b: Val, c: Val, m: Val, n: Val, depth: Val,
                 lda: Val, ldb: Val, ldc: Val, panel: Val, fresh: Val):
        self.by_columns = by_columns
        self.w, self.kind, self.a, self.b, self.c, self.m, self.n, self.panel = w, kind, a, b, c, m, n, panel
        self.lda, self.ldb = (w.binary("mul", stride, w.const("i64", kind.size)) for stride in (lda, ldb))
        self.ldc, self.fresh = w.binary("mul", ldc, w.const("i64", 4)), fresh
        self.row = row = w.binary("mul", depth, w.const("i64", kind.size))  # bytes of a row of A
        self.steps = w.binary("udiv", row, w.const("i64", _LINE))
        self.copies = w.gep("i8", panel, w.binary("mul", row, w.const("i64", _COLUMNS)))
        apart = w.compare("icmp sge", self.lda, w.binary("add", row, row))
        far = w.compare("icmp sge", w.binary("mul", self.lda, m), w.const("i64", _FAR))
        self.copied = w.all_of(apart, far, w.compare("icmp sge", n, w.const("i64", _WIDE)))
        for name, parameters in (("ldtilecfg", ["ptr"]), ("tilerelease", []), ("tileloadd64", ["i8", "ptr", "i64"]),
                                 ("tileloaddt164", ["i8", "ptr", "i64"]), ("tilestored64", ["i8", "ptr", "i64"]),
                                 ("tilezero", ["i8"]), (kind.instruction, ["i8"] * 3)):  # fmt: skip
            w.declare(f"llvm.x86.{name}", "void", parameters)

    def write(self) -> None:
        """Compute C."""
        w, top = self.w, self.w.const("i64", 0)
        w.effect(f"call void @llvm.x86.ldtilecfg({w.string(_CONFIG).typed})")  # each thread has its own
        even = round_down(w, self.m, _BLOCK)
        with w.loop(0, self.n, _COLUMNS) as columns:
            j = columns.index
            with w.when(w.compare("icmp ne", even, top)):
                self.block(2, top, j, packs=True)
                with w.loop(_BLOCK, even, _BLOCK) as rows:
                    self.block(2, rows.index, j)
                with w.when(w.compare("icmp ne", even, self.m)):
                    self.block(1, even, j)
            with w.when(w.compare("icmp eq", even, top)):
                self.block(1, top, j, packs=True)
        w.effect("call void @llvm.x86.tilerelease()")  # no tiles to save at a context switch

    def below(self, start: Val, stride: Val, rows: Val | int) -> Val:
        """The address some rows below."""
        w = self.w
        return w.gep("i8", start, w.binary("mul", stride, w.const("i64", rows) if isinstance(rows, int) else rows))

    def block(self, tall: int, i: Val, j: Val, packs: bool = False) -> None:
        """`tall` x 2 tiles of C, from row `i` and column `j` on. The first block `packs` the panel that the others
        read."""
        w, c = self.w, self.w.gep("i32", self.below(self.c, self.ldc, i), j)
        places = [w.gep("i32", line, w.const("i64", _ROWS * right)) if right else line
                  for line in (c, self.below(c, self.ldc, _ROWS))[:tall] for right in range(2)]
        with w.when(self.fresh):
            for tile in range(len(places)):
                w.effect(f"call void @llvm.x86.tilezero(i8 {tile})")
        with w.when(w.binary("xor", self.fresh, w.const("i1", True))):
            for tile, place in enumerate(places):
                _move(w, "tileloadd64", tile, place, self.ldc)
        a, done = self.rows(tall, i, j), w.const("i64", 0)
        if packs:
            ahead = w.intrinsic("umin", "i64", self.steps, w.const("i64", _AHEAD))
            done = w.binary("sub", self.steps, ahead)
            with w.loop(0, ahead) as loop:
                self.pack(j, loop.index, 0, 1)
            with w.loop(0, done) as loop:
                later = w.binary("add", loop.index, ahead)
                self.step(tall, a, loop.index, lambda product: self.pack(j, later, product, 2 * tall))
        with w.loop(done, self.steps) as loop:
            self.step(tall, a, loop.index)
        for tile, place in enumerate(places):
            _move(w, "tilestored64", tile, place, self.ldc)

    def rows(self, tall: int, i: Val, j: Val) -> _Rows:
        """The rows of A from row `i` on; the first columns of B may have their tiles copied for the others."""
        w = self.w
        start, line = self.below(self.a, self.lda, i), w.const("i64", _LINE)
        copy, tiles = self.below(self.copies, self.row, i), w.const("i64", tall * _TILE)
        begins = w.compare("icmp eq", j, w.const("i64", 0))
        again = w.binary("and", self.copied, w.binary("xor", begins, w.const("i1", True)))
        start, stride, step = (w.select(again, *x) for x in ((copy, start), (line, self.lda), (tiles, line)))
        return _Rows(start, stride, step, copy, w.binary("and", self.copied, begins))

    def step(self, tall: int, a: _Rows, index: Val, meanwhile: Callable[[int], None] = lambda product: None) -> None:
        """Add the products of 64 bytes of rows of A, from `a` on; `meanwhile` emits what is done after each."""
        w, product = self.w, 0
        b = self.below(self.panel, w.const("i64", 2 * _TILE), index)
        top = self.below(a.start, a.step, index)
        for down, rows in enumerate((top, self.below(top, a.stride, _ROWS))[:tall]):
            _move(w, "tileloaddt164", _A[down], rows, a.stride)
            for right in range(2):
                if not down:
                    half = w.gep("i8", b, w.const("i64", _LINE)) if right else b
                    _move(w, "tileloadd64", _B[right], half, w.const("i64", _PANEL_ROW))
                w.effect(f"call void @llvm.x86.{self.kind.instruction}(i8 {product}, i8 {_A[down]}, i8 {_B[right]})")
                meanwhile(product)
                product += 1
        with w.when(a.copies):
            place, line = self.below(a.copy, w.const("i64", tall * _TILE), index), w.const("i64", _LINE)
            for down in range(tall):
                _move(w, "tilestored64", _A[down], w.gep("i8", place, w.const("i64", _TILE * down)), line)

    def pack(self, j: Val, step: Val, part: int, parts: int) -> None:
        """Pack one of the equal `parts` of what a step reads of B's columns from `j` on."""
        if self.by_columns:
            for half in range(part * 2 // parts, (part + 1) * 2 // parts):
                self.pack_columns(j, step, half)
            return
        w, units = self.w, self.kind.depth // self.kind.unit
        start, first = w.gep(self.kind.operand, self.b, j), w.binary("mul", step, w.const("i64", units))
        for unit in range(part * units // parts, (part + 1) * units // parts):
            self.pack_unit(start, w.binary("add", first, w.const("i64", unit)) if unit else first)

    def pack_columns(self, j: Val, step: Val, half: int) -> None:
        """Pack what a step reads of a half of the columns: the ks that lie side by side do so in B."""
        w = self.w
        first = self.below(self.b, self.ldb, w.binary("add", j, w.const("i64", half * _ROWS)))
        start = w.gep("i8", first, w.binary("mul", step, w.const("i64", _LINE)))
        columns = [w.load("<16 x i32>", self.below(start, self.ldb, c) if c else start, align=self.kind.size)
                   for c in range(_ROWS)]
        place = self.below(w.gep("i8", self.panel, w.const("i64", half * _LINE)), w.const("i64", 2 * _TILE), step)
        for k, x in enumerate(_transposed(w, columns)):
            w.store(x, w.gep("i8", place, w.const("i64", _PANEL_ROW * k)) if k else place, align=self.kind.size)

    def pack_unit(self, start: Val, unit: Val) -> None:
        """Pack a unit of the columns from `start` on."""
        w, kind, count = self.w, self.kind, _LINE // self.kind.size
        top = self.below(start, self.ldb, w.binary("mul", unit, w.const("i64", kind.unit)))
        lines = [w.load(f"<{_COLUMNS} x {kind.operand}>", self.below(top, self.ldb, r) if r else top, align=kind.size)
                 for r in range(kind.unit)]
        if kind.unit > kind.group:
            lines = [w.shuffle(x, y, range(count)) for x, y in zip(lines[:kind.group], lines[kind.group:], strict=True)]
        # Registers have four lanes of 16 bytes; lane l gets the lth four columns of each half of a row.
        order = [16 * (i // 4 % (count // 16)) + 4 * (i // (count // 4)) + i % 4 for i in range(count)]
        parts, wide = [[w.shuffle(x, None, order)] for x in lines], 1
        while len(parts) > 1:
            parts = [[part for x, y in zip(*pair, strict=True) for part in _unpacked(w, x, y, wide)]
                     for pair in zip(parts[::2], parts[1::2], strict=True)]
            wide *= 2
        place = self.below(self.panel, w.const("i64", kind.unit * kind.size * _COLUMNS), unit)
        for i, x in enumerate(parts[0]):
            w.store(x, w.gep("i8", place, w.const("i64", _LINE * i)) if i else place, align=kind.size)


def _unpacked(w: Writer, x: Val, y: Val, wide: int) -> list[Val]:
    """Elements of two registers in turns, `wide` at a time: of the lower halves of their lanes, and of the upper."""
    count = lanes(x.type)
    lane = count // 4
    turns = [i // (2 * wide) * wide + i % wide + i // wide % 2 * count for i in range(lane)]
    return [w.shuffle(x, y, [first + turn for first in range(half, count, lane) for turn in turns])
            for half in (0, lane // 2)]


def _transposed(w: Writer, rows: list[Val]) -> list[Val]:
    """The columns of a square of 16 registers with 16 elements."""
    pairs = [x for k in range(0, 16, 2) for x in _unpacked(w, rows[k], rows[k + 1], 1)]
    fours = [x for k in (0, 1, 4, 5, 8, 9, 12, 13) for x in _unpacked(w, pairs[k], pairs[k + 2], 2)]

    def every_second(x: Val, y: Val, first: int) -> Val:
        return w.shuffle(x, y, [4 * lane + i for lane in range(first, 8, 2) for i in range(4)])
    columns = {}
    for c in range(4):  # four elements of column 4 l + c are lane l of each of these registers
        top, upper, lower, bottom = fours[c::4]
        for lane in range(2):
            above, below = every_second(top, upper, lane), every_second(lower, bottom, lane)
            columns[4 * lane + c], columns[4 * (lane + 2) + c] = (every_second(above, below, k) for k in range(2))
    return [columns[k] for k in range(16)]


def _move(w: Writer, how: str, tile: int, place: Val, stride: Val) -> None:
    w.effect(f"call void @llvm.x86.{how}(i8 {tile}, {place.typed}, {stride.typed})")
