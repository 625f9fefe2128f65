"""Block-scaled products: groups of elements along K share a scale, which the tensor cores multiply with.

tcgen05 has the scales in tensor memory: four of a row are a word; 32 lanes of four columns are 128 rows, and all four
warps' lanes have the same. They lie so in shared memory, too, 512 bytes for 128 rows, and are copied by the thread that
multiplies. mma.sync has them in registers: of A those of row r in lane 4 (r % 8) + r / 8, of B those of column c in
lane 4 c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ....named_tuples import NamedTuple
from ...gpu.layout.linear import Layout, in_matrix, log2, powers, spread_operand
from ...gpu.lower.convert import write
from ...gpu.lower.shared_memory import Passage
from ...gpu.lower.words import pack_words
from ...gpu.ops import bytes_of
from ...gpu.shared_memory.needs import BUFFER_ALIGNMENT, Need, takes_shared
from . import fragments, mma_sync, tcgen05
from . import tensor_memory as memory
from .statements import statement
from .tensor_types import STEP
from .wgmma import Operand, in_buffers

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

WARP_LEVEL = (120, 121)  # architectures with mma.sync for them
CHUNK, COLUMNS = 512, 4  # bytes of shared memory, columns of tensor memory, of four scales of 128 rows each


class Kind(NamedTuple):
    """The name of the instructions, the scales of a row that one of them takes, their type."""

    name: str
    scales: int
    type: str
    four_bits: bool


def kind_of(a: T.Tile, b: T.Tile, scales: Sequence[T.Tile], formats: tuple[str, str]) -> Kind | None:
    """The instructions for operands and scales of these types; None if there are none."""
    eight_bits = ("e4m3", "e5m2")
    inner = a.shape[1] * (2 if formats[0] == "e2m1" else 1)
    group, exponents = inner // scales[0].shape[1], scales[0].element.bits == 8 and not scales[0].element.is_float
    if a.shape[1] < STEP or scales[0].element is not scales[1].element:
        return None
    if all(form in eight_bits for form in formats) and group == 32 and exponents:
        return Kind("mxf8f6f4", 1, "ue8m0", False)
    if formats != ("e2m1", "e2m1") or group != (32 if exponents else 16):
        return None
    return Kind("mxf4", 2, "ue8m0", True) if exponents else Kind("mxf4nvf4", 4, "ue4m3", True)


def layouts(sm: int, a: T.Tile, b: T.Tile, out: T.Tile, scales: Sequence[T.Tile], formats: tuple[str, str],
            warps: int) -> tuple[Layout | None, ...] | None:
    """The layouts of a `dot_scaled`, as `Mma.scaled` has them."""
    if kind_of(a, b, scales, formats) is None or scales[1].shape[0] != out.shape[1]:
        return None
    m, n = out.shape
    if sm in tcgen05.ARCHITECTURES and m >= 128 and n >= 16 and warps % 4 == 0:
        _, parts = memory.split(out.shape, warps)
        fits = n // parts >= 8 and columns(out.shape, scales) <= memory.COLUMNS
        return (memory.layout(out.shape, warps), None, None, None, None) if fits else None
    if sm not in WARP_LEVEL or m < 16 or n < 8:
        return None
    grid = mma_sync.warp_grid(out.shape, warps)
    operands = (fragments.operand(t.shape, 8, *grid, which) for t, which in zip((a, b), "ab"))
    return mma_sync.accumulator(out, warps), *operands, *(_scale_layout(t.shape, *grid, which)
                                                         for t, which in zip(scales, "ab"))  # fmt: skip


def columns(shape: tuple[int, ...], scales: Sequence[T.Tile]) -> int:
    """How many columns of tensor memory sums of this shape and their scales take."""
    return memory.columns(shape) + sum(COLUMNS * _chunks(t) * _blocks(t) for t in scales)


def _chunks(tile: T.Tile) -> int:
    return -(-tile.shape[1] // 4)


def _blocks(tile: T.Tile) -> int:
    return -(-tile.shape[0] // 128)


@takes_shared(lambda op, room: _need(op, room.target.sm))
def dot_scaled(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val] | tcgen05.Held,
               a_scales: Sequence[Val], b_scales: Sequence[Val]) -> list[Val] | tcgen05.Held:
    """A block-scaled product."""
    types = [x.type for x in op.operands]
    kind = kind_of(types[0], types[1], types[3:], op.attrs["formats"])
    assert kind is not None, "the layouts were chosen for an instruction"
    if g.target.sm in WARP_LEVEL:
        assert not isinstance(acc, tcgen05.Held), "there is no tensor memory"
        return _by_warps(g, op, kind, a, b, acc, a_scales, b_scales)
    return _in_tensor_memory(g, op, kind, a, b, acc, a_scales, b_scales)


def _need(op: Op, sm: int) -> Need | None:
    """The shared memory of operands and scales, where they are read from there."""
    if sm in WARP_LEVEL:
        return None
    a, b, _, *scales = (x.type for x in op.operands)
    return Need([bytes_of(a), bytes_of(b), *(CHUNK * _chunks(t) * _blocks(t) for t in scales)], BUFFER_ALIGNMENT)


# --- tcgen05 ----------------------------------------------------------------------------------------------------------
def _in_tensor_memory(g: NvLowering, op: Op, kind: Kind, a: Sequence[Val], b: Sequence[Val],
                      acc: Sequence[Val] | tcgen05.Held, *scales: Sequence[Val]) -> list[Val] | tcgen05.Held:
    passage, factors = Passage(g, op), op.operands[3:]
    left, right = in_buffers(g, passage, (a, b), lambda *lies: not kind.four_bits and tcgen05.takes(*lies))
    for x, value, base in zip(scales, factors, passage.bases[2:]):
        write(g, x, value.type.element, g.layout(value), _images(value.type), base)
    g.target.async_fence(g)
    types = [x.type for x in factors]
    return tcgen05.finished(g, op, acc, lambda adds: _issue(g, op, kind, left, right, types, passage.bases[2:], adds))


def _images(tile: T.Tile) -> tuple[int, ...]:
    """Where scales lie in shared memory: address images of the bits of an element's number.

    >>> _images(T.Tile((256, 8), T.u8))
    (1, 2, 1024, 16, 32, 64, 128, 256, 4, 8, 512)
    """
    rows, count = tile.shape
    along = [1 << k if k < 2 else _blocks(tile) * CHUNK << (k - 2) for k in range(log2(count))]
    down = [16 << k if k < 5 else 4 << (k - 5) if k < 7 else CHUNK << (k - 7) for k in range(log2(rows))]
    return tuple(along + down)


def _issue(g: NvLowering, op: Op, kind: Kind, left: Operand, right: Operand, scales: Sequence[T.Tile],
           bases: Sequence[int], adds: bool | Val) -> None:
    """Copy the scales, and multiply."""
    w, (m, n) = g.w, op.type.shape
    base, commit = memory.place_of(g)[0], memory.next_commit(g)
    wide, first = min(n, tcgen05.MAX_N), op.attrs["column"] + memory.columns((m, n))
    starts = [first, first + COLUMNS * _chunks(scales[0]) * _blocks(scales[0])]
    name = f"tcgen05.mma.cta_group::1.kind::{kind.name}.block_scale.scale_vec::{kind.scales}X"
    places = [(row, column) for row in range(0, m, 128) for column in range(0, n, wide)]
    with w.when(w.compare("icmp eq", g.place("warp"), g.int(0))):
        for tile, start, where in zip(scales, starts, bases):
            _copy(g, w.binary("add", base, g.int(start)), where, _chunks(tile) * _blocks(tile))
        for row, column in places:
            target = w.binary("add", base, g.int(op.attrs["column"] + row // 128 * n + column))
            starting = ((left, row), (right, column))
            operands = [tcgen05.descriptor(g, w.binary("add", operand.address, g.int(operand.offset(extra))),
                                           tcgen05.constant_bits(operand)) for operand, extra in starting]  # fmt: skip
            factors = [w.binary("add", base, g.int(start + COLUMNS * (extra // 128)))
                       for start, (_, extra) in zip(starts, starting)]  # fmt: skip
            lines = []
            for step in range(left.depth // STEP):
                chunk, number = divmod(step * kind.scales, 4)
                what = instruction_descriptor(kind, op.attrs["formats"], left, right, wide, number)
                at = [COLUMNS * chunk * _blocks(t) for t in scales]
                lines.append(f"add.s64 da, $1, {left.advance(step)}; add.s64 db, $2, {right.advance(step)};")
                lines.append(f"@e {name} [$0], da, db, {what}, [$3+{at[0]}], [$4+{at[1]}], p;")
                if step == 0 and adds is not True:
                    lines.append("setp.eq.b32 p, 1, 1;")
            last = commit if (row, column) == places[-1] else None
            tcgen05.elected(g, lines, [target, *operands, *factors], adds, last)


def _copy(g: NvLowering, target: Val, where: int, count: int) -> None:
    """The thread that multiplies copies scales from shared to tensor memory."""
    bits = 1 << 46 | (128 >> 4) << 32 | (128 >> 4) << 16  # not swizzled, 8 rows of 16 bytes together
    source = tcgen05.descriptor(g, g.int(where), bits)
    lines = []
    for k in range(count):
        lines.append(f"add.s64 da, $1, {k * CHUNK >> 4};")
        lines.append(f"@e tcgen05.cp.cta_group::1.32x128b.warpx4 [$0+{COLUMNS * k}], da;")
    tcgen05.elected(g, lines, [target, source], True)


def instruction_descriptor(kind: Kind, formats: tuple[str, str], left: Operand, right: Operand, n: int,
                           number: int) -> int:
    """Shape, types, which operands are contiguous along M or N, and which scales of a word are taken."""
    numbers = [1 if kind.four_bits else {"e4m3": 0, "e5m2": 1}[form] for form in formats]
    types = numbers[0] << 7 | numbers[1] << 10 | (kind.type == "ue8m0") << 23
    transposed = (not left.k_major) << 15 | (not right.k_major) << 16
    return types | transposed | (n >> 3) << 17 | (128 >> 7) << 27 | number << 4 | number << 29


# --- mma.sync ---------------------------------------------------------------------------------------------------------
def _scale_layout(shape: tuple[int, ...], warps_m: int, warps_n: int, which: str) -> Layout:
    """Where mma.sync wants the scales of operand "a" ([M, G]) or "b" ([N, G]).

    >>> _scale_layout((32, 2), 1, 1, "a")
    Layout((32, 2), reg=(1, 32), lane=(16, 0, 2, 4, 8), warp=())
    """
    rows, count = shape
    lane = 8 * count if which == "a" else 0, 0, count, 2 * count, 4 * count
    warp, repeats = spread_operand(which, (warps_m, warps_n), rows, count, 16 if which == "a" else 8)
    return Layout(tuple(shape), (*powers(1, count), *repeats), lane, tuple(warp))


def _by_warps(g: NvLowering, op: Op, kind: Kind, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val],
              *scales: Sequence[Val]) -> list[Val]:
    """acc + a @ b, one 16 x 8 piece of the result after the other."""
    lhs, rhs, _, *factors = op.operands
    layout, out, count = g.layout(op), list(acc), factors[0].type.shape[1]
    results, lefts, rights, *of_scales = (x.places() for x in (layout, *map(g.layout, (lhs, rhs, *factors))))
    words_a, words_b = pack_words(g, a), pack_words(g, b)
    for element in mma_sync.pieces(layout):
        _, row, col = in_matrix(layout.shape, element)
        at = [results[element ^ x] for x in (0, 1, *mma_sync.below(layout.shape))]
        for step in range(lhs.type.shape[1] // STEP):
            k = STEP * step
            left = mma_sync.fragment(lefts, lhs.type.shape, 0, row, k, T.i8, words_a, rows=True)
            right = mma_sync.fragment(rights, rhs.type.shape, 0, k, col, T.i8, words_b, rows=False)
            both = [_word(g, xs, [found[outer * count + step * kind.scales + j] for j in range(kind.scales)])
                    for xs, found, outer in zip(scales, of_scales, (row, col))]  # fmt: skip
            for r, x in zip(at, _instruction(g, op, kind, left, right, [out[r] for r in at], both)):
                out[r] = x
    return out


def _word(g: NvLowering, xs: Sequence[Val], registers: Sequence[int]) -> Val:
    """Some scales in the low bytes of a word."""
    w, out = g.w, g.int(0)
    for k, r in enumerate(registers):
        out = w.binary("or", out, w.binary("shl", w.cast("zext", xs[r], "i32"), g.int(8 * k)))
    return out


def _instruction(g: NvLowering, op: Op, kind: Kind, a: Sequence[Val], b: Sequence[Val], c: Sequence[Val],
                 scales: Sequence[Val]) -> list[Val]:
    ta, tb = op.attrs["formats"]
    lists = ["{" + ",".join(f"${first + k}" for k in range(size)) + "}"
             for first, size in ((0, 4), (4, 4), (8, 2), (10, 4))]  # fmt: skip
    depth = 2 * STEP if kind.four_bits else STEP
    name = (f"mma.sync.aligned.kind::{kind.name}.block_scale.scale_vec::{kind.scales}X.m16n8k{depth}.row.col."
            f"f32.{ta}.{tb}.f32.{kind.type}")
    body = f"{name} {', '.join(lists)}, {{$14}}, {{0, 0}}, {{$15}}, {{0, 0}};"
    return statement(g, body, *a, *b, *c, *scales, gives=["float"] * 4, memory=False, named=False)
