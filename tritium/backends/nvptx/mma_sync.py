"""mma.sync, the tensor-core instruction of one warp: m16n8 with 32 bytes of K, operands in registers."""

from __future__ import annotations

from ...ir import types as T
from ..gpu.layout import axis_bits, mma_accumulator, mma_operand
from ..gpu.lower_convert import through_shared
from .tensor_types import NAMES, STEP, multiplies
from .words import pack_words


def fits(a, b, out, precision, target):
    """True if mma.sync can do a dot of these tile types."""
    since = 89 if a.element.bits == 8 and a.element.is_float else 80
    large = out.shape[-2] >= 16 and out.shape[-1] >= 8
    return target.sm >= since and large and multiplies(a, b, out, precision)


def warp_grid(shape, warps):
    """(warps along M, warps along N): the longer side of each warp's tile is halved first."""
    m, n = shape[-2:]
    along_m = along_n = 1
    while along_m * along_n < warps:
        if m // along_m > 16 and (m // along_m >= n // along_n or n // along_n <= 8):
            along_m *= 2
        else:
            along_n *= 2
    return along_m, along_n


def accumulator(out, warps):
    """Where the result of a dot of this type lives."""
    return mma_accumulator(out.shape, *warp_grid(out.shape, warps))


def dot(g, op, a, b, acc):
    """acc + a @ b, one 16 x 8 piece of the result after the other."""
    grid = warp_grid(op.type.shape, g.warps)
    tiles = [x.type for x in op.operands[:2]]
    wanted = [mma_operand(t.shape, t.element.bits, *grid, side) for t, side in zip(tiles, "ab")]
    a, b = (
        through_shared(g, x, t.element, g.layout(v), layout)
        for x, t, v, layout in zip((a, b), tiles, op.operands, wanted)
    )
    layout, out = g.layout(op), list(acc)
    ta, tb = (t.element for t in tiles)
    depth = STEP // ta.bytes
    words_a, words_b = pack_words(g, a), pack_words(g, b)
    index = [{e: r for r, e in reversed(list(enumerate(x.register_elements())))} for x in (layout, *wanted)]
    for element in _pieces(layout):
        batch, row, col = _split(layout.shape, element)
        at = [index[0][element ^ x] for x in (0, 1, *_below(layout.shape))]
        for k in range(0, tiles[0].shape[-1], depth):
            fragment_a = _fragment(index[1], tiles[0].shape, batch, row, k, ta, words_a, rows=True)
            fragment_b = _fragment(index[2], tiles[1].shape, batch, k, col, tb, words_b, rows=False)
            made = _instruction(g, ta, tb, fragment_a, fragment_b, [out[r] for r in at])
            for r, x in zip(at, made):
                out[r] = x
    return out


def _below(shape):
    """Elements eight rows down, left and right: the second half of a piece's accumulators."""
    down = 8 * shape[-1]
    return down, down | 1


def _pieces(layout):
    """The first element of every 16 x 8 piece this thread takes part in."""
    inner = {1, 8 * layout.shape[-1]}
    reg = [x for x in layout.reg if x not in inner]
    out = [0]
    for x in reg:
        out += [y ^ x for y in out]
    return out


def _split(shape, element):
    (row_low, row_width), (_, col_width) = axis_bits(shape, -2), axis_bits(shape, -1)
    return (
        element >> (row_low + row_width),
        element >> row_low & ((1 << row_width) - 1),
        element & ((1 << col_width) - 1),
    )


def _fragment(index, shape, batch, row, col, t, words, rows):
    """The words of the operand piece that starts at (batch, row, col); with `rows`, eight rows further comes second."""
    per_word = 4 // t.bytes
    at = lambda r, c: index[(batch * shape[-2] + r) * shape[-1] + c] // per_word
    half = 4 * per_word
    if rows:
        return [words[at(row + dr, col + dk)] for dk in (0, half) for dr in (0, 8)]
    return [words[at(row + dk, col)] for dk in (0, half)]


def _instruction(g, ta, tb, a, b, c):
    w, integer = g.w, ta is T.i8
    kind, letter = ("i32", "r") if integer else ("float", "f")
    total = "s32" if integer else "f32"
    name = f"m16n8k{STEP // ta.bytes}.row.col.{total}.{NAMES[ta]}.{NAMES[tb]}.{total}"
    body = f"mma.sync.aligned.{name} {{$0,$1,$2,$3}}, {{$4,$5,$6,$7}}, {{$8,$9}}, {{$10,$11,$12,$13}};"
    constraints = ",".join([f"={letter}"] * 4 + ["r"] * 6 + [letter] * 4)
    result = "{" + ", ".join([kind] * 4) + "}"
    made = w.effect(
        f'call {result} asm sideeffect "{body}", "{constraints}"({", ".join(x.typed for x in (*a, *b, *c))})', result
    )
    return [w.emit(kind, f"extractvalue {result} {made}, {k}", made) for k in range(4)]
