"""Matrix instructions of AMD GPUs: which one computes a dot, and how it is called.

All of them take their operands from registers: the fragments (see `fragments`) come through LDS or, where the layouts
allow, straight from the instruction before. Products that no instruction takes are FMAs of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....errors import fail
from ....ir import types as T
from ....named_tuples import NamedTuple
from ...gpu import ops as gpu_ops
from ...gpu.layout.linear import Layout, in_matrix, warps_of_matrix
from ...gpu.lower.dot import dot as dot_by_threads
from ...gpu.lower.dot import operands_need
from ...gpu.lower.words import bytes_of, pack
from ...gpu.shared_memory.needs import takes_shared
from ...gpu.target import Mma
from ...llvm.writer import Val, lanes
from . import fragments, mfma_scale
from .architectures import ARCHITECTURES
from .products import PRODUCTS

if TYPE_CHECKING:
    from ....ir.core import Op, Value
    from ...llvm.numbering import NumberingWriter
    from .fragments import Instruction
    from .target import AmdLowering, AmdTarget


class Plan(NamedTuple):
    """How a dot is computed: its instruction, (warps along M, warps along N), and `pack` of `fragments`."""

    instruction: Instruction
    grid: tuple[int, int]
    pack: int


def instructions(arch: str, nonkdim: int = 0, kpack: int = 1) -> Mma:
    """The matrix instructions of an architecture, for the passes.

    `nonkdim` and `kpack` are the launch options: rows and columns of an instruction (16, 32, or 0 for what suits the
    tile), and how many of a lane's fragments lie beside each other along K.

    >>> from tritium.ir import types as T
    >>> a, b, out = T.Tile((64, 32), T.f16), T.Tile((32, 64), T.f16), T.Tile((64, 64), T.f32)
    >>> instructions("gfx942").accumulator(a, b, out, "ieee", 4)
    Layout((64, 64), reg=(1, 2, 8, 16), lane=(64, 128, 256, 512, 1024, 4), warp=(2048, 32))
    """
    if nonkdim not in (0, 16, 32):
        raise fail(ValueError, f"there is no matrix instruction with matrix_instr_nonkdim={nonkdim}",
                   hint="use 16 or 32, or 0 to let tritium choose")
    if kpack < 1 or kpack & (kpack - 1):
        raise fail(ValueError, f"kpack={kpack} is not a power of two", hint="use 1 or 2")
    family = ARCHITECTURES[arch]

    # Rows are preferred for all dots: see `fragments.warp_grid`.
    def accumulator(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int,
                    by_rows: bool = False) -> Layout | None:
        found = plan(family, nonkdim, kpack, a, b, out, precision, warps)
        return found and fragments.accumulator(out.shape[-2:], found.instruction, found.grid).batched(out.shape, warps)

    def operands(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int,
                 by_rows: bool = False) -> tuple[Layout, ...] | None:
        found = plan(family, nonkdim, kpack, a, b, out, precision, warps)
        return found and tuple(fragments.operand(x.shape[-2:], which, *found).batched(x.shape, warps)
                               for x, which in ((a, "a"), (b, "b")))  # fmt: skip

    def scaled(a: T.Tile, b: T.Tile, out: T.Tile, scales: Sequence[T.Tile], formats: tuple[str, str],
               warps: int) -> tuple[Layout, ...] | None:
        found = mfma_scale.plan(family, nonkdim, a, b, out, scales, formats, warps)
        return found and mfma_scale.layouts(found, a, b, out, scales)

    def vector(op: Op, warps: int) -> int:
        a, b = (x.type for x in op.operands[:2])
        if op.kind is gpu_ops.dot_scaled:
            return _scaled_plan(op, warps, family, nonkdim).sums
        found = plan(family, nonkdim, kpack, a, b, op.type, op.attrs["precision"], warps)
        return 1 << len(found.instruction.result.reg) if found else 1

    def gathers(op: Op, element: T.Scalar, warps: int) -> int:
        return max(1, 8 // element.bytes) if vector(op, warps) > 1 else 1

    return Mma(accumulator, operands, scaled=scaled, vector=vector, gathers=gathers, subnormals=family not in _FLUSHES)


@functools.lru_cache(maxsize=1024)
def plan(family: str, nonkdim: int, kpack: int, a: T.Tile, b: T.Tile, out: T.Tile, precision: str,
         warps: int) -> Plan | None:
    """How a family computes a dot of these tile types; None if it has no instruction for it."""
    (m, n), depth, warps = out.shape[-2:], a.shape[-1], warps_of_matrix(out.shape, warps)
    found: dict[int, Instruction] = {}
    for product in PRODUCTS:
        if product.multiplies(family, a, b, out, precision):
            found |= {x.size: x for x in product.instructions if x.size <= min(m, n) and x.depth <= depth}
    if not found:
        return None
    chosen = found[fragments.best_size(found, nonkdim, m * n, warps)]
    grid = fragments.warp_grid(m, n, chosen.size, warps)
    return Plan(chosen, grid, min(max(kpack, chosen.pack), depth // chosen.depth))


_FLUSHES = ("cdna1", "cdna2")  # families that take subnormal f16 for zero


def dot_as(arch: str) -> dict[T.Scalar, T.Scalar]:
    """Float types that an architecture multiplies as another one, which holds their values exactly.

    8-bit floats become f16. CDNA 1 and 2 take subnormal f16 for zero: floats that reach so far down become bf16 there.

    >>> from tritium.ir import types as T
    >>> T.f8e5 in dot_as("gfx942"), T.f8e5 in dot_as("gfx950"), dot_as("gfx90a")[T.f8e5], dot_as("gfx90a")[T.f8e4nv]
    (True, False, bf16, f16)
    """
    family = ARCHITECTURES[arch]
    has = {t for product in PRODUCTS if family in product.families for t in (product.a, product.b)}
    if T.f16 not in has:
        return {}
    subnormal = family not in _FLUSHES
    smallest = lambda t: 1 - t.bias - t.mantissa  # as a power of two
    return {t: T.f16 if subnormal or smallest(t) >= 1 - T.f16.bias else T.bf16
            for t in T.FLOATS if t.bits == 8 and t not in has}  # fmt: skip


# --- lowering ---------------------------------------------------------------------------------------------------------
def _plan(op: Op, warps: int, target: AmdTarget) -> Plan | None:
    a, b = (x.type for x in op.operands[:2])
    return plan(target.family, target.nonkdim, target.kpack, a, b, op.type, op.attrs["precision"], warps)


@takes_shared(lambda op, room: None if _plan(op, room.warps, room.target) else operands_need(op), meets=True,
              keeps=True)
def dot(g: AmdLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val]) -> list[Val]:
    """acc + a @ b: along K in the order of the instructions, all pieces of the result in each step."""
    how = _plan(op, g.warps, g.target)
    if how is None:
        return dot_by_threads(g, op, a, b, acc)
    instruction, layout = how.instruction, g.layout(op)
    lhs, rhs = (_Fragments(g, x, value, instruction) for x, value in zip((a, b), op.operands))
    count = 1 << len(instruction.result.reg)
    pieces = layout.register_elements()[::count]
    sums = [pack(g.w, acc[r * count : (r + 1) * count]) for r in range(len(pieces))]
    for k in fragments.k_steps(instruction, lhs.shape[-1], how.pack):
        for r, element in enumerate(pieces):
            batch, row, col = in_matrix(layout.shape, element)
            sums[r] = _call(g, instruction, rhs.at(batch, k, col), lhs.at(batch, row, k), sums[r])
    return [g.w.extract(x, k) for x in sums for k in range(count)]


def _scaled_plan(op: Op, warps: int, family: str, nonkdim: int) -> mfma_scale.Scaled:
    a, b, _, *scales = (x.type for x in op.operands)
    found = mfma_scale.plan(family, nonkdim, a, b, op.type, scales, op.attrs["formats"], warps)
    assert found is not None
    return found


def dot_scaled(g: AmdLowering, op: Op, *values: Sequence[Val]) -> list[Val]:
    """acc + a @ b of operands whose groups along K share a scale."""
    return mfma_scale.dot(g, op, _scaled_plan(op, g.warps, g.target.family, g.target.nonkdim), *values)


class _Fragments:
    """The fragments of an operand in the registers of a thread, as an instruction takes them."""

    def __init__(self, g: AmdLowering, registers: Sequence[Val], value: Value, instruction: Instruction):
        layout = g.layout(value)
        self.g, self.registers, self.instruction, self.shape = g, registers, instruction, layout.shape
        starts = layout.register_elements()[:: instruction.per_lane]
        self.first = {element: k * instruction.per_lane for k, element in enumerate(starts)}
        self.made = {}

    def at(self, batch: int, row: int, col: int) -> Val:
        """The fragment whose first element is there."""
        r = self.first[(batch * self.shape[-2] + row) * self.shape[-1] + col]
        if r not in self.made:
            whole = _joined(self.g.w, self.registers[r : r + self.instruction.per_lane])
            self.made[r] = self.g.w.cast("bitcast", whole, self.instruction.operand)
        return self.made[r]


def _joined(w: NumberingWriter, items: Sequence[Val]) -> Val:
    """Elements in one value; a part of a vector that was loaded is taken from it as an integer."""
    vector, first = w.neighbours(items) or (None, 0)
    bits = len(items) * 8 * bytes_of(items[0].type)
    if vector is None or bits > 64 or first % len(items) or lanes(vector.type) % len(items):
        return pack(w, items)
    count = lanes(vector.type) // len(items)
    parts = w.cast("bitcast", vector, f"<{count} x i{bits}>" if count > 1 else f"i{bits}")
    return w.extract(parts, first // len(items)) if count > 1 else parts


def _call(g: AmdLowering, instruction: Instruction, x: Val, y: Val, sums: Val) -> Val:
    """sums + x @ y."""
    w, name = g.w, f"amdgcn.{instruction.intrinsic}"
    if instruction.signed:
        yes, no = w.const("i1", 1), w.const("i1", 0)
        return w.intrinsic(name, instruction.sums, yes, x, yes, y, sums, no, overload=())
    return w.intrinsic(name, instruction.sums, x, y, sums, *map(g.int, instruction.behind), overload=())


LOWER = {ops.dot: dot, gpu_ops.dot_scaled: dot_scaled}
