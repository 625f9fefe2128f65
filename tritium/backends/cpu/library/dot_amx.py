"""dot of 16-bit floats and of bytes on Intel's tile unit (AMX): C += A @ B into f32 or i32, or C = A @ B if `fresh`.

    tt.dot.bf16(ptr A, ptr B, ptr C, i64 M, i64 N, i64 K, i64 lda, i64 ldb, i64 ldc, ptr panel, i1 fresh)

M, N and K are multiples of 32; for bytes, K is one of 64. The unit has eight tiles of 16 rows of 64 bytes: four hold
32 x 32 of C, two each hold a row's 64 bytes of ks of A and of B. A is read in place. The unit needs the ks that make up
four bytes side by side in B, two floats or four bytes, so 32 columns at a time are packed in that order into `panel`.
For floats, row p has B[2p, c], B[2p + 1, c] for each column c.

The unit flushes subnormal results and operands of bf16 to zero, regardless of the thread's floating-point state.
"""

from __future__ import annotations

from ....named_tuples import NamedTuple
from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer, value
from .dot_signature import PARAMETERS

SYMBOLS = {kind: f"tt.dot.{kind}" for kind in ("bf16", "f16")}  # those that only this unit multiplies
MULTIPLE = 32  # of all sizes
_ROWS = 16
_TILE_ROW = 64  # bytes
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
    def depth(self) -> int:
        """The ks of a tile."""
        return _TILE_ROW // self.size


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


def dot_floats(kind: str) -> str:
    """The LLVM text of `tt.dot.bf16` or `tt.dot.f16`.

    >>> dot_floats("f16").count("call void @llvm.x86.tdpfp16ps(")
    4
    """
    w = Writer()
    with w.function("void", SYMBOLS[kind], PARAMETERS) as values:
        _product(w, _KINDS[kind], *values)
        w.ret()
    return w.text()


def write_bytes(w: Writer, kind: str, symbol: str, otherwise: str) -> None:
    """Write the product of bytes of a kind. `otherwise` is the function for sizes that the unit does not take.

    >>> w = Writer()
    >>> write_bytes(w, "i8", "tt.dot.i8", "other")
    >>> w.text().count("call void @llvm.x86.tdpbssd(")
    4
    """
    with w.function("void", symbol, PARAMETERS) as values:
        _, _, _, m, n, depth, *_, panel, _ = values
        can = w.compare("icmp ne", panel, value("ptr", "null"))
        for size, multiple in ((m, MULTIPLE), (n, MULTIPLE), (depth, _KINDS[kind].depth)):
            rest = w.binary("urem", size, w.const("i64", multiple))
            can = w.binary("and", can, w.compare("icmp eq", rest, w.const("i64", 0)))
        with w.when(can):
            _product(w, _KINDS[kind], *values)
        with w.when(w.binary("xor", can, w.const("i1", True))):
            w.call("void", otherwise, *values)
        w.ret()


def _product(w: Writer, kind: _Kind, a: Val, b: Val, c: Val, m: Val, n: Val, depth: Val, lda: Val, ldb: Val, ldc: Val,
             panel: Val, fresh: Val) -> None:
    for name, parameters in (("ldtilecfg", ["ptr"]), ("tilerelease", []), ("tileloadd64", ["i8", "ptr", "i64"]),
                             ("tilestored64", ["i8", "ptr", "i64"]), ("tilezero", ["i8"]),
                             (kind.instruction, ["i8"] * 3)):  # fmt: skip
        w.declare(f"llvm.x86.{name}", "void", parameters)
    w.effect(f"call void @llvm.x86.ldtilecfg({w.string(_CONFIG).typed})")  # each thread has its own
    with w.loop(0, n, MULTIPLE) as columns:
        j = columns.index
        _pack(w, kind, w.gep(kind.operand, b, j), ldb, depth, panel)
        with w.loop(0, m, MULTIPLE) as rows:
            i = rows.index
            place = w.gep("i32", w.gep("i32", c, w.binary("mul", i, ldc)), j)
            _block(w, kind, w.gep(kind.operand, a, w.binary("mul", i, lda)), lda, panel, place, ldc, depth, fresh)
    w.effect("call void @llvm.x86.tilerelease()")  # no tiles to save at a context switch


def _pack(w: Writer, kind: _Kind, b: Val, ldb: Val, depth: Val, panel: Val) -> None:
    """32 columns of B to `panel`, a group of rows at a time."""
    with w.loop(0, depth, kind.group) as loop:
        first = w.gep(kind.operand, b, w.binary("mul", loop.index, ldb))
        lines = []
        for r in range(kind.group):
            place = w.gep(kind.operand, first, w.binary("mul", ldb, w.const("i64", r))) if r else first
            lines.append(w.load(f"<{MULTIPLE} x {kind.operand}>", place, align=kind.size))
        while len(lines) > 2:  # two rows become one of pairs
            width = 2 * MULTIPLE
            lines = [w.shuffle(x, y, [l // 2 + MULTIPLE * (l % 2) for l in range(width)])
                     for x, y in zip(lines[::2], lines[1::2])]
        each = kind.group // 2  # elements of a line that belong to one column
        row = w.gep("i8", panel, w.binary("mul", loop.index, w.const("i64", _PANEL_ROW // kind.group)))
        for half in range(2):
            picks = []
            for column in range(half * _ROWS, (half + 1) * _ROWS):
                own = range(column * each, (column + 1) * each)
                picks += [*own, *(each * MULTIPLE + at for at in own)]
            place = w.gep("i8", row, w.const("i64", _TILE_ROW * half)) if half else row
            w.store(w.shuffle(lines[0], lines[1], picks), place, align=kind.size)


def _block(w: Writer, kind: _Kind, a: Val, lda: Val, panel: Val, c: Val, ldc: Val, depth: Val, fresh: Val) -> None:
    """32 x 32 of C."""
    wide, deep = (w.binary("mul", stride, w.const("i64", size)) for stride, size in ((ldc, 4), (lda, kind.size)))
    places = []
    for down in range(2):
        line = w.gep("i8", c, w.binary("mul", wide, w.const("i64", _ROWS))) if down else c
        places += [line, w.gep("i32", line, w.const("i64", 16))]
    with w.when(fresh):
        for tile in range(4):
            w.effect(f"call void @llvm.x86.tilezero(i8 {tile})")
    with w.when(w.binary("xor", fresh, w.const("i1", True))):
        for tile, place in enumerate(places):
            _move(w, "tileloadd64", tile, place, wide)
    lower = w.gep("i8", a, w.binary("mul", deep, w.const("i64", _ROWS)))
    with w.loop(0, depth, kind.depth) as loop:
        k = loop.index
        for tile, base in zip(_A, (a, lower), strict=True):
            _move(w, "tileloadd64", tile, w.gep(kind.operand, base, k), deep)
        groups = w.gep("i8", panel, w.binary("mul", k, w.const("i64", _PANEL_ROW // kind.group)))
        for half, tile in enumerate(_B):
            place = w.gep("i8", groups, w.const("i64", _TILE_ROW * half)) if half else groups
            _move(w, "tileloadd64", tile, place, w.const("i64", _PANEL_ROW))
        for tile in range(4):
            w.effect(f"call void @llvm.x86.{kind.instruction}(i8 {tile}, i8 {_A[tile // 2]}, i8 {_B[tile % 2]})")
    for tile, place in enumerate(places):
        _move(w, "tilestored64", tile, place, wide)


def _move(w: Writer, how: str, tile: int, place: Val, stride: Val) -> None:
    w.effect(f"call void @llvm.x86.{how}(i8 {tile}, {place.typed}, {stride.typed})")
