"""Dot without tensor cores: operands in shared memory, each thread multiplies what its accumulators need.

A thread has some rows and some columns of the result, about as many of each, and goes along K. From an operand whose
rows lie along K it reads 16 bytes of K at once, of one row after the other; from one that lies along M or N, 16 bytes
of that. Who has which row is chosen by `multiplied` so that the lanes of a warp read from different banks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ....named_tuples import NamedTuple
from ...llvm.writer import Val, vector
from .. import ops as gpu_ops
from ..layout.linear import image, log2, powers
from ..layout.swizzle import swizzled
from ..shared_memory.needs import SCRATCH_ALIGNMENT, Need, content, takes_shared
from .convert import write
from .function import Lowering, llvm_type, lower
from .shape import convert_scalar
from .shared_memory import Passage
from .words import unpack

_AXES = (1, 1)  # in rows, both operands, where threads write them
UNROLLED = 1024  # products in one iteration of the loop along K; twice as many do not fit in the instruction cache


@lower(ops.dot)
@takes_shared(lambda op, room: operands_need(op), meets=True, keeps=True)
def dot(g: Lowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val]) -> list[Val]:
    types, passage = [x.type for x in op.operands[:2]], Passage(g, op)
    lhs, rhs = (_Operand(g, t, axis, base) for t, axis, base in zip(types, _AXES, passage.bases))
    with passage.writing() as fresh:
        for k, (x, operand) in enumerate(zip((a, b), (lhs, rhs))):
            if k in fresh:
                write(g, x, operand.element, g.layout(op.operands[k]), operand.images, operand.base)
    return _multiply(g, op, lhs, rhs, acc)


def operands_need(op: Op, alignment: int = SCRATCH_ALIGNMENT, axes: Sequence[int] = _AXES) -> Need:
    """The shared memory of both operands of a dot, which are written in rows along these axes."""
    operands = op.operands[:2]
    contents = [content(x, axis) for x, axis in zip(operands, axes)]
    return Need([gpu_ops.bytes_of(x.type) for x in operands], alignment, contents=contents)


@lower(gpu_ops.dot_buffers)
def dot_buffers(g: Lowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val]) -> list[Val]:
    how = op.attrs
    left, right = _Operand(g, how["lhs"], how["a_axis"], a[0]), _Operand(g, how["rhs"], how["b_axis"], b[0])
    return _multiply(g, op, left, right, acc)


class _Operand:
    """An operand in shared memory: where its elements lie, in rows along one of the last two axes."""

    def __init__(self, g: Lowering, tile: T.Tile, axis: int, base: Val | int):
        self.tile, self.element, self.axis, self.base = tile, tile.element, axis, base
        self.outer, self.inner = tile.shape[-2:]
        rows = tile.numel // self.inner
        self.images, _ = swizzled((rows, self.inner), axis, tile.element.bytes)

    def wide(self, axis: int) -> int:
        """How many neighbours along `axis`, the last or the one before, are one access at most."""
        along = self.inner if axis == 1 else self.outer
        return min(along, max(1, 16 // self.element.bytes)) if axis == self.axis else 1

    def neighbours(self, parts: list[int], most: int) -> int:
        """How many of a thread's elements, at addresses with these parts, are one access."""
        count = 1
        while count < most and count * self.element.bytes in parts:
            count *= 2
        return count

    def at(self, batch: int, row: int, col: int) -> int:
        """Address of an element, or of a part of its number."""
        return image(self.images, (batch * self.outer + row) * self.inner + col)


class _Reads(NamedTuple):
    """How a thread reads its rows or columns: the address of its first, and of each the part it adds; `k` is the part
    of a step along K, and `taken` the bits that are not to be added. One access reads `along` elements along K, or
    `across` elements across it."""

    operand: _Operand
    thread: Any
    parts: list
    k: Any
    taken: int
    along: int
    across: int


def _multiply(g: Lowering, op: Op, a: _Operand, b: _Operand, acc: Sequence[Val]) -> list[Val]:
    """acc + a @ b as a loop along K, a few elements in each iteration."""
    w, t, depth = g.w, T.element(op.type), a.inner
    together = max(a.wide(1), b.wide(0))
    steps = min(depth, max(together, 1 << log2(max(1, UNROLLED // g.layout(op).registers))))
    rows, cols = _reads(g, op, a, b, steps)
    with w.loop(0, depth, steps, carry=acc, type="i32", nonempty=True) as loop:
        total = list(loop.carried)
        starts = [_start(g, read, loop.index, steps, depth) for read in (rows, cols)]
        for first in range(0, steps, together):
            xs, ys = (_fetch(g, read, start, first, together, t) for read, start in zip((rows, cols), starts))
            for k in range(together):
                pairs = zip(rows.parts, cols.parts, total)
                total = [_multiply_add(g, t, xs[i, k], ys[j, k], c) for i, j, c in pairs]
        loop.next = total
    return list(loop.results)


def _reads(g: Lowering, op: Op, a: _Operand, b: _Operand, steps: int) -> Iterator[_Reads]:
    """How a thread reads its operands, in iterations of `steps` steps along K."""
    layout, (m, n) = g.layout(op), op.type.shape[-2:]
    batch, row, col = (lambda e: e >> log2(m * n)), (lambda e: e >> log2(n) & (m - 1)), (lambda e: e & (n - 1))
    operands = (
        (a, lambda e: a.at(batch(e), row(e), 0), lambda k: a.at(0, 0, k), 1),
        (b, lambda e: b.at(batch(e), 0, col(e)), lambda k: b.at(0, k, 0), 0),
    )
    for operand, place, step, axis in operands:
        thread, parts = g.linear(layout, place)
        taken = 0
        for x in (*(place(e) for e in (*layout.lane, *layout.warp)), *(step(k) for k in powers(steps, a.inner))):
            taken |= x
        across = operand.neighbours(parts, operand.wide(1 - axis))
        yield _Reads(operand, thread, parts, step, taken, operand.wide(axis), across)


def _start(g: Lowering, read: _Reads, index: Val, steps: int, depth: int) -> Val:
    """The offset of a thread's first element, in the iteration that begins at `index` along K."""
    w, moves, total = g.w, {}, read.thread
    for k in powers(steps, depth):
        x = read.k(k)
        for bit in (i for i in range(x.bit_length()) if x >> i & 1):
            moves.setdefault(bit - log2(k), []).append(k)
    for distance, bits in moves.items():
        piece = w.binary("and", index, g.int(sum(bits)))
        piece = w.binary("shl" if distance > 0 else "lshr", piece, g.int(abs(distance)))
        total = w.binary("xor", total, piece)
    return total


def _fetch(g: Lowering, read: _Reads, start: Val, first: int, together: int, t: T.Scalar) -> dict[tuple[int, ...], Val]:
    """{(part of a row or column, step along K): its element, converted to `t`} of steps that one access covers."""
    operand, out = read.operand, {}
    size = operand.element.bytes
    for part in dict.fromkeys(read.parts):
        for k in range(0, together, read.along):
            if (part, k) in out:
                continue
            low = part & (read.across * size - 1)  # its place among neighbours across K
            items = _load(g, operand, start, part ^ low ^ read.k(first + k), read.taken, max(read.along, read.across))
            for i, x in enumerate(items):
                place = (part, k + i) if read.along > 1 else (part ^ low ^ i * size, k)
                out[place] = convert_scalar(g, x, operand.element, t)
    return out


def _load(g: Lowering, operand: _Operand, start: Val, at: int, taken: int, count: int) -> list[Val]:
    """`count` neighbours, at an address whose bits in `taken` are exchanged, and the others added."""
    offset = g.w.binary("xor", start, g.int(at & taken))
    pointer = g.shared.pointer(g, *g.shared.behind(g, operand.base, offset, at & ~taken))
    if count == 1:
        return [g.shared.get(g, pointer, operand.element)]
    loaded = vector(count, llvm_type(operand.element))
    return unpack(g.w, g.w.effect(f"load {loaded}, {pointer.typed}, align {operand.element.bytes * count}", loaded))


def _multiply_add(g: Lowering, t: T.Scalar, x: Val, y: Val, z: Val) -> Val:
    if t.is_float:
        return g.w.intrinsic("fma", llvm_type(t), x, y, z)
    return g.w.binary("add", g.w.binary("mul", x, y), z)
