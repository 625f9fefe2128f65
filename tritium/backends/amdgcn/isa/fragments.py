"""Which lanes and registers of AMD's matrix instructions hold which elements: layouts of operands and results.

An instruction multiplies A [size, depth] and B [depth, size] and adds C [size, size]. A lane has neighbours along K of
one row of A, or of one column of B: both fragments are alike. Of the result it has several rows in one column. Tiles
are multiplied transposed, as D^T = B^T A^T + C^T: the fragments only change places, and a lane gets several columns
in one row, which it stores together.

K may be cut among lanes and instructions in any way that both operands share. So `pack` gives a lane the operands of
that many instructions as neighbours along K, which are one access to LDS. With four neighbours (of f64: one) an operand
has the layout of a result, and a dot of a dot's result needs no exchange between lanes.
"""

from __future__ import annotations

from collections.abc import Collection

from ....named_tuples import NamedTuple
from ...gpu.layout.linear import Layout, log2, powers, spread, spread_operand


class Places(NamedTuple):
    """Who holds which element of a result: what each bit of register and lane stands for, a step of rows or columns."""

    reg: tuple[tuple[str, int], ...]
    lane: tuple[tuple[str, int], ...]


def _places(reg: str, lane: str) -> Places:
    """Places of "row2 col1 ...": two rows, one column, ..."""
    bits = lambda text: tuple((x[:3], int(x[3:])) for x in text.split())
    return Places(bits(reg), bits(lane))


# Results of the instructions, as the vendor numbers rows and columns.
_COLUMNS = "col1 col2 col4 col8"
MFMA_16 = _places("row1 row2", f"{_COLUMNS} row4 row8")
MFMA_16_F64 = _places("row4 row8", f"{_COLUMNS} row1 row2")
MFMA_32 = _places("row1 row2 row8 row16", f"{_COLUMNS} col16 row4")
WMMA_GFX11 = _places("row2 row4 row8", f"{_COLUMNS} row1")
WMMA_GFX12 = _places("row1 row2 row4", f"{_COLUMNS} row8")


class Instruction(NamedTuple):
    """A matrix instruction: its LLVM intrinsic, its shape, and the fragments of a lane."""

    intrinsic: str  # behind "llvm.amdgcn."
    size: int  # rows of A, and columns of B
    depth: int  # K
    per_lane: int  # elements of A or B in a lane
    operand: str  # LLVM's type of them
    sums: str  # LLVM's type of C and D
    result: Places
    pack: int = 1  # operands of that many instructions are neighbours at least
    behind: tuple[int, ...] = ()  # i32 arguments behind A, B and C
    signed: bool = False  # a flag before A and B says that integers have signs; one behind C lets sums overflow

    @property
    def shared_by(self) -> int:
        """How many lanes have parts of the same row of A."""
        return self.depth // self.per_lane


def k_steps(instruction: Instruction, depth: int, pack: int) -> list[int]:
    """Where along K the first lane's elements of each instruction begin.

    >>> from .products import MFMA
    >>> half = next(x.instructions[1] for x in MFMA if x.name == "mfma.f32.{}f16")
    >>> half.depth, k_steps(half, 64, pack=1), k_steps(half, 64, pack=2)
    (16, [0, 16, 32, 48], [0, 4, 32, 36])
    """
    bits = [*powers(instruction.per_lane, instruction.per_lane * pack), *powers(instruction.depth * pack, depth)]
    out = [0]
    for step in bits:
        out += [x + step for x in out]
    return out


def best_size(sizes: Collection[int], asked: int, elements: int, warps: int) -> int:
    """Of the sizes of instructions that fit a tile, the asked one; else 32 if every warp gets a piece of its own of the
    elements, and the least if not."""
    return asked if asked in sizes else 32 if 32 in sizes and elements >= warps * 32 * 32 else min(sizes)


def warp_grid(m: int, n: int, size: int, warps: int) -> tuple[int, int]:
    """(warps along M, warps along N): the longer dimension of each warp's tile is halved first.

    Rows are preferred as long as each warp keeps 32 of them and has no more than 128 columns: LDS still delivers
    operands as fast as the matrix units take them, reductions along rows stay in a warp, and so does the result of a
    dot that another one multiplies.

    >>> warp_grid(128, 64, 32, 4), warp_grid(128, 128, 32, 4), warp_grid(64, 64, 32, 4), warp_grid(16, 64, 16, 8)
    ((4, 1), (4, 1), (2, 2), (1, 8))
    """
    along_m = along_n = 1
    while along_m * along_n < warps:
        rows, cols = m // along_m, n // along_n
        if rows > size and (rows >= cols or cols <= size or rows >= 64 and cols <= 128):
            along_m *= 2
        else:
            along_n *= 2
    return along_m, along_n


def accumulator(shape: tuple[int, ...], instruction: Instruction, grid: tuple[int, int]) -> Layout:
    """The layout of the result of a dot: a piece of each warp, then repeats along columns and rows."""
    m, n = shape
    step = {"row": 1, "col": n}  # transposed
    reg, lane = ([step[axis] * k for axis, k in bits] for bits in instruction.result)
    rows, row_repeats = spread(m, n, instruction.size, grid[0])
    cols, col_repeats = spread(n, 1, instruction.size, grid[1])
    return Layout(tuple(shape), (*reg, *col_repeats, *row_repeats), tuple(lane), (*rows, *cols))


def operand(shape: tuple[int, ...], which: str, instruction: Instruction, grid: tuple[int, int], pack: int) -> Layout:
    """The layout of operand "a" [M, K] or "b" [K, N] of a dot: each warp has the rows or columns of its results."""
    rows, cols = shape
    (outer, across), (depth, along) = ((rows, cols), (cols, 1)) if which == "a" else ((cols, 1), (rows, cols))
    wide = instruction.per_lane * pack
    lane = [across << k for k in range(log2(instruction.size))]
    lane += [along * wide << k for k in range(log2(instruction.shared_by))]
    lane += [0] * (len(instruction.result.lane) - len(lane))
    warp, repeats = spread_operand(which, grid, outer, across, instruction.size)
    reg = [along * k for k in (*powers(1, wide), *powers(instruction.depth * pack, depth))]
    return Layout(tuple(shape), (*reg, *repeats), tuple(lane), tuple(warp))
