"""dot of bf16 on Intel's tile unit (AMX): C += A @ B into f32, or C = A @ B if `fresh`.

    tt.dot.bf16(ptr A, ptr B, ptr C, i64 M, i64 N, i64 K, i64 lda, i64 ldb, i64 ldc, ptr panel, i1 fresh)

M, N and K are multiples of 32. The unit has eight tiles of 16 rows of 64 bytes: four hold 32 x 32 of C, two each hold
32 ks of A and of B. A is read in place. The unit needs pairs of ks side by side in B, so 32 columns at a time are
packed in that order into `panel`: row p has B[2p, c], B[2p + 1, c] for each column c.

The unit flushes subnormal operands and results to zero, regardless of the thread's floating-point state.
"""

from __future__ import annotations

from ...llvm.target import CpuTarget
from ...llvm.writer import Val, Writer

__all__ = ["MULTIPLE", "SYMBOL", "dot_bf16"]

SYMBOL = "tt.dot.bf16"
MULTIPLE = 32  # of all sizes
_ROWS = 16
_PANEL_ROW = 128  # bytes: 32 columns, two ks
# palette 1; from byte 16 the width of each tile in bytes (u16), from byte 48 its rows
_CONFIG = bytes([1]) + bytes(15) + b"\x40\x00" * 8 + bytes(16) + bytes([_ROWS] * 8) + bytes(8)
_A, _B = (4, 5), (6, 7)  # tile registers; C has 0 to 3


def dot_bf16(target: CpuTarget) -> str:
    """The LLVM text of `tt.dot.bf16`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> dot_bf16(cpu_target("x86-64-v4")).count("call void @llvm.x86.tdpbf16ps(")
    4
    """
    w = Writer()
    for name, parameters in (("ldtilecfg", ["ptr"]), ("tilerelease", []), ("tileloadd64", ["i8", "ptr", "i64"]),
                             ("tilestored64", ["i8", "ptr", "i64"]), ("tilezero", ["i8"]), ("tdpbf16ps", ["i8"] * 3)):
        w.declare(f"llvm.x86.{name}", "void", parameters)
    config = w.string(_CONFIG)
    parameters = [f"ptr {p}" for p in "ABC"] + [f"i64 {p}" for p in ("M", "N", "K", "lda", "ldb", "ldc")]
    with w.function("void", SYMBOL, [*parameters, "ptr panel", "i1 fresh"]) as values:
        a, b, c, m, n, depth, lda, ldb, ldc, panel, fresh = values
        w.effect(f"call void @llvm.x86.ldtilecfg({config.typed})")  # each thread has its own
        with w.loop(0, n, MULTIPLE) as columns:
            j = columns.index
            _pair(w, w.gep("i16", b, j), ldb, depth, panel)
            with w.loop(0, m, MULTIPLE) as rows:
                i = rows.index
                place = w.gep("float", w.gep("float", c, w.binary("mul", i, ldc)), j)
                _block(w, w.gep("i16", a, w.binary("mul", i, lda)), lda, panel, place, ldc, depth, fresh)
        w.effect("call void @llvm.x86.tilerelease()")  # no tiles to save at a context switch
        w.ret()
    return w.text()


def _pair(w: Writer, b: Val, ldb: Val, depth: Val, panel: Val) -> None:
    """32 columns of B to `panel`, two rows at a time."""
    with w.loop(0, depth, 2) as loop:
        k = loop.index
        first = w.gep("i16", b, w.binary("mul", k, ldb))
        lines = [w.load("<32 x i16>", p, align=2) for p in (first, w.gep("i16", first, ldb))]
        row = w.gep("i8", panel, w.binary("mul", k, w.const("i64", _PANEL_ROW // 2)))
        for half in range(2):
            picks = [half * 16 + l // 2 + 32 * (l % 2) for l in range(32)]
            place = w.gep("i8", row, w.const("i64", 64 * half)) if half else row
            w.store(w.shuffle(lines[0], lines[1], picks), place, align=2)


def _block(w: Writer, a: Val, lda: Val, panel: Val, c: Val, ldc: Val, depth: Val, fresh: Val) -> None:
    """32 x 32 of C."""
    wide, deep = (w.binary("mul", stride, w.const("i64", size)) for stride, size in ((ldc, 4), (lda, 2)))
    places = []
    for down in range(2):
        line = w.gep("i8", c, w.binary("mul", wide, w.const("i64", _ROWS))) if down else c
        places += [line, w.gep("float", line, w.const("i64", 16))]
    with w.when(fresh):
        for tile in range(4):
            w.effect(f"call void @llvm.x86.tilezero(i8 {tile})")
    with w.when(w.binary("xor", fresh, w.const("i1", True))):
        for tile, place in enumerate(places):
            _move(w, "tileloadd64", tile, place, wide)
    lower = w.gep("i8", a, w.binary("mul", deep, w.const("i64", _ROWS)))
    with w.loop(0, depth, MULTIPLE) as loop:
        k = loop.index
        for tile, base in zip(_A, (a, lower), strict=True):
            _move(w, "tileloadd64", tile, w.gep("i16", base, k), deep)
        pairs = w.gep("i8", panel, w.binary("mul", k, w.const("i64", _PANEL_ROW // 2)))
        for half, tile in enumerate(_B):
            place = w.gep("i8", pairs, w.const("i64", 64 * half)) if half else pairs
            _move(w, "tileloadd64", tile, place, w.const("i64", _PANEL_ROW))
        for tile in range(4):
            w.effect(f"call void @llvm.x86.tdpbf16ps(i8 {tile}, i8 {_A[tile // 2]}, i8 {_B[tile % 2]})")
    for tile, place in enumerate(places):
        _move(w, "tilestored64", tile, place, wide)


def _move(w: Writer, how: str, tile: int, place: Val, stride: Val) -> None:
    w.effect(f"call void @llvm.x86.{how}(i8 {tile}, {place.typed}, {stride.typed})")
