"""mma.sync, the MMA of one warp: m16n8 with 32 bytes of K, operands in registers.

Turing has smaller shapes, whose fragments are parts of these: several of them do the work of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ....named_tuples import NamedTuple
from ...gpu.layout.linear import Layout, in_matrix, span_of, warps_of_matrix
from ...gpu.lower.words import pack_words
from . import fragments
from .statements import statement
from .tensor_types import NAMES, STEP, multiplies

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

SINCE = {T.f16: 75, T.i8: 75, T.bf16: 80, T.f32: 80, T.f8e4nv: 89, T.f8e5: 89}  # architecture


class Part(NamedTuple):
    """One instruction: its shape, and the words of the operands and of the result it takes."""

    shape: str
    a: tuple
    b: tuple
    c: tuple


WHOLE = {size: (Part(f"m16n8k{STEP // size}", (0, 1, 2, 3), (0, 1), (0, 1, 2, 3)),) for size in (1, 2, 4)}
TURING = {
    T.f16: tuple(Part("m16n8k8", (2 * k, 2 * k + 1), (k,), (0, 1, 2, 3)) for k in range(2)),
    T.i8: tuple(Part("m8n8k16", (2 * k + m,), (k,), (2 * m, 2 * m + 1)) for k in range(2) for m in range(2)),
}


def fits(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, sm: int) -> bool:
    """True if mma.sync can do a dot of these tile types."""
    large = out.shape[-2] >= 16 and out.shape[-1] >= 8
    return large and multiplies(a, b, out, precision) and sm >= SINCE[a.element]


def warp_grid(shape: Sequence[int], warps: int, by_rows: bool = False) -> tuple[int, int]:
    """(warps along M, warps along N) of each matrix: the longer dimension of a warp's tile is halved first. With
    `by_rows` warps have whole rows, if there are 16 for each.

    >>> warp_grid((128, 64), 8), warp_grid((128, 64), 8, True), warp_grid((64, 64), 8, True), warp_grid((2, 64, 64), 8)
    ((4, 2), (8, 1), (4, 2), (2, 2))
    """
    (m, n), warps = shape[-2:], warps_of_matrix(shape, warps)
    if by_rows and m >= 16 * warps:
        return warps, 1
    along_m = along_n = 1
    while along_m * along_n < warps:
        if m // along_m > 16 and (m // along_m >= n // along_n or n // along_n <= 8):
            along_m *= 2
        else:
            along_n *= 2
    return along_m, along_n


def accumulator(out: T.Tile, warps: int, by_rows: bool = False) -> Layout:
    """The layout of the result of a dot of this type."""
    matrix = fragments.accumulator(out.shape[-2:], *warp_grid(out.shape, warps, by_rows))
    return matrix.batched(out.shape, warps)


def operands(a: T.Tile, b: T.Tile, out: T.Tile, warps: int, by_rows: bool = False) -> tuple[Layout, ...]:
    """The layouts of the operands: each warp has those of its part of the result."""
    grid = warp_grid(out.shape, warps, by_rows)
    matrices = (fragments.operand(t.shape[-2:], t.element.bits, *grid, which) for t, which in zip((a, b), "ab"))
    return tuple(matrix.batched(t.shape, warps) for t, matrix in zip((a, b), matrices))


def dot(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val]) -> list[Val]:
    """acc + a @ b: each step along K for all 16 x 8 pieces of the result, so that neighbouring instructions do not wait
    for each other's sums."""
    tiles = [x.type for x in op.operands[:2]]
    wanted = [g.layout(x) for x in op.operands[:2]]
    layout, out = g.layout(op), list(acc)
    ta, tb = (t.element for t in tiles)
    depth = STEP // ta.bytes
    words_a, words_b = pack_words(g, a), pack_words(g, b)
    index = [x.places() for x in (layout, *wanted)]
    found = pieces(layout)
    for k in range(0, tiles[0].shape[-1], depth):
        for element in found:
            batch, row, col = in_matrix(layout.shape, element)
            at = [index[0][element ^ x] for x in (0, 1, *below(layout.shape))]
            fragment_a = fragment(index[1], tiles[0].shape, batch, row, k, ta, words_a, rows=True)
            fragment_b = fragment(index[2], tiles[1].shape, batch, k, col, tb, words_b, rows=False)
            for part in TURING[ta] if g.target.sm < 80 else WHOLE[ta.bytes]:
                mine = [at[i] for i in part.c]
                words = [fragment_a[i] for i in part.a], [fragment_b[i] for i in part.b], [out[r] for r in mine]
                for r, x in zip(mine, _instruction(g, part.shape, ta, tb, *words)):
                    out[r] = x
    return out


def below(shape: Sequence[int]) -> tuple[int, int]:
    """The elements eight rows down: the second half of a piece's accumulators."""
    down = 8 * shape[-1]
    return down, down | 1


def pieces(layout: Layout) -> list[int]:
    """The first element of every 16 x 8 piece of this thread."""
    inner = {1, 8 * layout.shape[-1]}
    return span_of([x for x in layout.reg if x not in inner])


def fragment(index: Mapping[int, int], shape: Sequence[int], batch: int, row: int, col: int, t: T.Scalar,
             words: Sequence[Val], rows: bool) -> list[Val]:
    """The words of the operand piece that starts at (batch, row, col); with `rows`, eight rows further comes second."""
    per_word = 4 // t.bytes
    at = lambda r, c: index[(batch * shape[-2] + r) * shape[-1] + c] // per_word
    half = 4 * per_word
    if rows:
        return [words[at(row + dr, col + dk)] for dk in (0, half) for dr in (0, 8)]
    return [words[at(row + dk, col)] for dk in (0, half)]


def _instruction(g: NvLowering, shape: str, ta: T.Scalar, tb: T.Scalar, a: Sequence[Val], b: Sequence[Val],
                 c: Sequence[Val]) -> list[Val]:
    kind, total = ("i32", "s32") if ta is T.i8 else ("float", "f32")
    sizes, first, lists = (len(c), len(a), len(b), len(c)), 0, []
    for size in sizes:
        lists.append("{" + ",".join(f"${first + i}" for i in range(size)) + "}")
        first += size
    body = f"mma.sync.aligned.{shape}.row.col.{total}.{NAMES[ta]}.{NAMES[tb]}.{total} {', '.join(lists)};"
    return statement(g, body, *a, *b, *c, gives=[kind] * len(c), memory=False, named=False)
