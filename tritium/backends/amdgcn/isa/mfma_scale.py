"""MFMA with block scales (CDNA 4): operands of 8 and 4 bits, whose groups of 32 along K share an exponent.

Along K, a lane has chunks of 16 bytes of a row of A: one of 4-bit floats, or two of 8-bit ones, half of K apart. Lanes
walk rows, then chunks; lane row + size * n has the scale of group n, as one byte of a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ....named_tuples import NamedTuple
from ...gpu.lower.words import pack
from ...llvm.writer import Val, mangle
from . import fragments
from .fragments import MFMA_16, MFMA_32, Instruction

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...gpu.layout.linear import Layout
    from .target import AmdLowering

_WARP, _CHUNK, _GROUP, _WORD = 64, 16, 32, 4
_FORMATS = {"e4m3": 0, "e5m2": 1, "e2m1": 4}  # as the instruction numbers them


class Scaled(NamedTuple):
    """How a `dot_scaled` is computed: size and K of the instruction, warps along M and N, formats of a and b."""

    size: int
    depth: int
    grid: tuple[int, int]
    formats: tuple[str, str]

    @property
    def sums(self) -> int:
        """Elements of the result in a lane."""
        return self.size * self.size // _WARP

    def layout(self, shape: tuple[int, ...]) -> Layout:
        """The layout of the result."""
        return fragments.accumulator(shape, self._parts(1), self.grid)

    def operand(self, shape: tuple[int, ...], which: str) -> Layout:
        """The layout of the bytes of an operand: a chunk, other lanes' chunks, further chunks."""
        return fragments.operand(shape, which, self._parts(_CHUNK), self.grid, 1)

    def scales(self, shape: tuple[int, ...], which: str) -> Layout:
        """The layout of the scales of an operand, [M, groups] or [N, groups]."""
        if which == "a":
            return fragments.operand(shape, which, self._parts(1), self.grid, 1)
        return fragments.operand(shape[::-1], which, self._parts(1), self.grid, 1).trans((1, 0))

    def _parts(self, per_lane: int) -> Instruction:
        """Stands for an instruction whose lanes hold `per_lane` neighbours along K."""
        places = MFMA_32 if self.size == 32 else MFMA_16
        return Instruction("", self.size, _WARP // self.size * per_lane, per_lane, "", "", places)

    def bytes(self, which: str) -> int:
        """Bytes of an operand in a lane."""
        return _GROUP // 2 if self.formats["ab".index(which)] == "e2m1" else _GROUP


def plan(family: str, nonkdim: int, a: T.Tile, b: T.Tile, out: T.Tile, scales: Sequence[T.Tile],
         formats: tuple[str, str], warps: int) -> Scaled | None:
    """How CDNA 4 computes a `dot_scaled` of these tile types; None if it has no instruction for it."""
    if family != "cdna4" or any(x not in _FORMATS for x in formats) or len(out.shape) != 2:
        return None
    (m, n), depth = out.shape, a.shape[1] * (2 if formats[0] == "e2m1" else 1)
    grouped = all(x.element in (T.u8, T.i8) and x.shape[1] * _GROUP == depth for x in scales)
    sizes = [size for size, k in ((16, 128), (32, 64)) if size <= min(m, n) and k <= depth]
    if not grouped or out.element is not T.f32 or not sizes:
        return None
    size = fragments.best_size(sizes, nonkdim, m * n, warps)
    return Scaled(size, 2048 // size, fragments.warp_grid(m, n, size, warps), (formats[0], formats[1]))


def layouts(found: Scaled, a: T.Tile, b: T.Tile, out: T.Tile, scales: Sequence[T.Tile]) -> tuple[Layout, ...]:
    """Those of the result, of the operands, and of their scales."""
    operands = (a, "a"), (b, "b")
    return (found.layout(out.shape), *(found.operand(x.shape, which) for x, which in operands),
            *(found.scales(x.shape, which) for x, which in zip(scales, "ab")))  # fmt: skip


def dot(g: AmdLowering, op: Op, found: Scaled, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val],
        a_scale: Sequence[Val], b_scale: Sequence[Val]) -> list[Val]:
    """acc + a @ b, along K in the order of the instructions; multiplied transposed, as in `fragments`."""
    shape, count = op.type.shape, found.sums
    lhs, rhs = (_Operand(g, found, which, op, k, x, s, shape) for k, which, x, s in
                ((0, "a", a, a_scale), (1, "b", b, b_scale)))  # fmt: skip
    pieces = g.layout(op).register_elements()[::count]
    sums = [pack(g.w, acc[r * count : (r + 1) * count]) for r in range(len(pieces))]
    for step in range(lhs.steps):
        for r, element in enumerate(pieces):
            sums[r] = _call(g, found, rhs.at(element % shape[1], step), lhs.at(element // shape[1], step), sums[r])
    return [g.w.extract(x, k) for x in sums for k in range(count)]


class _Operand:
    """The fragments and scales of an operand in the registers of a thread, by row (or column) and step along K."""

    def __init__(self, g: AmdLowering, found: Scaled, which: str, op: Op, k: int, registers: Sequence[Val],
                 scales: Sequence[Val], shape: tuple[int, ...]):
        self.g, self.registers, self.scales, self.format = g, registers, scales, found.formats[k]
        self.bytes, self.words = found.bytes(which), {}
        outer, groups = op.operands[3 + k].type.shape
        self.steps = groups * _GROUP // found.depth
        self.first = {}  # row or column of a piece: its number among the pieces of this thread
        along = shape[1] if which == "a" else 1
        for element in g.layout(op).register_elements()[:: found.sums]:
            row = element // along % outer
            self.first.setdefault(row, len(self.first))

    def at(self, row: int, step: int) -> tuple[Val, int, Val, int]:
        """(fragment, number of its format, register with its scale, byte of it that is the scale)."""
        number = self.first[row] * self.steps + step
        if number not in self.words:
            items = self.registers[number * self.bytes : (number + 1) * self.bytes]
            fragment = self.g.w.cast("bitcast", pack(self.g.w, items), f"<{self.bytes // 4} x i32>")
            first = number // _WORD * _WORD
            word = self._word(self.scales[first : first + _WORD])
            self.words[number] = fragment, _FORMATS[self.format], word, number - first
        return self.words[number]

    def _word(self, scales: Sequence[Val]) -> Val:
        w = self.g.w
        return w.cast("zext", w.cast("bitcast", pack(w, scales), f"i{8 * len(scales)}"), "i32")


def _call(g: AmdLowering, found: Scaled, x: tuple[Val, int, Val, int], y: tuple[Val, int, Val, int], sums: Val) -> Val:
    """sums + x @ y."""
    (a, of_a, scale_a, byte_a), (b, of_b, scale_b, byte_b) = x, y
    shape = f"{found.size}x{found.size}x{found.depth}"
    name = f"amdgcn.mfma.scale.f32.{shape}.f8f6f4.{mangle(a.type)}.{mangle(b.type)}"
    numbers = g.int(of_a), g.int(of_b), g.int(byte_a), scale_a, g.int(byte_b), scale_b
    return g.w.intrinsic(name, f"<{found.sums} x float>", a, b, sums, *numbers, overload=())
