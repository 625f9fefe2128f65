"""Blackwell's MMA (tcgen05): one thread multiplies for the block, from shared memory into tensor memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ...gpu.layout.linear import Layout, log2
from ...gpu.layout.swizzle import row_width
from ...gpu.lower.shared_memory import Passage
from ...gpu.ops import bytes_of
from ...gpu.shared_memory.needs import BUFFER_ALIGNMENT, Need, Room
from . import tensor_memory as memory
from . import wgmma
from .statements import statement
from .tensor_types import STEP, multiplies
from .wgmma import ALONG_K, Operand

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

ARCHITECTURES = (100, 101, 103, 110)
WITHOUT_INTEGERS = (103,)
MAX_N = 256  # columns of one instruction

# Element type -> (kind, its number in an instruction descriptor).
KINDS = {T.f16: ("f16", 0), T.bf16: ("f16", 1), T.f32: ("tf32", 2), T.f8e4nv: ("f8f6f4", 0), T.f8e5: ("f8f6f4", 1),
         T.i8: ("i8", 1)}  # fmt: skip
SUMS = {T.f32: 1, T.i32: 2}  # the same of a result


def fits(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int, sm: int) -> bool:
    """True if these instructions can do a dot of these tile types."""
    if sm not in ARCHITECTURES or len(out.shape) != 2 or warps % 4 or not multiplies(a, b, out, precision):
        return False
    if a.element is T.i8 and sm in WITHOUT_INTEGERS:
        return False
    m, n = out.shape
    _, parts = memory.split(out.shape, warps)
    return m >= 64 and n >= (16 if m > 64 else 8) and n // parts >= 8 and memory.columns(out.shape) <= memory.COLUMNS


def takes(tile: T.Tile, operand: str, axis: int) -> bool:
    """True if an operand may be contiguous along `axis` in shared memory: along K always, along M or N in elements of
    8 or 16 bits and rows of at least 32 bytes."""
    wide = row_width(tile.shape, axis, tile.element.bytes) >= 32
    return axis == ALONG_K[operand] or tile.element.bits <= 16 and wide


def layouts(op: Op, warps: int) -> tuple[Layout, Layout]:
    """(layout of the result of a `dot_shared`, layout of its lhs if that is in registers)."""
    return memory.layout(op.type.shape, warps), _rows(op.attrs["lhs"].shape, warps)


def _rows(shape: tuple[int, ...], warps: int) -> Layout:
    """Each thread has a row, or a part of it if there are more threads than rows.

    >>> _rows((64, 32), 4)
    Layout((64, 32), reg=(1, 2, 4, 8), lane=(32, 64, 128, 256, 512), warp=(1024, 16))
    """
    m, k = shape
    rows = [k << i for i in range(log2(m))]
    count = min(log2(warps), len(rows) - 5)
    parts = min(log2(warps) - count, log2(k))
    inner = [1 << i for i in range(log2(k))]
    spare = [0] * (log2(warps) - count - parts)
    reg, rest = inner[: len(inner) - parts], inner[len(inner) - parts :]
    return Layout(shape, tuple(reg + rows[5 + count :]), tuple(rows[:5]), tuple(rows[5 : 5 + count] + rest + spare))


# --- instructions -----------------------------------------------------------------------------------------------------
def constant_bits(operand: Operand) -> int:
    """All fields of a shared-memory descriptor but the start address: swizzle, version, stride of groups of eight rows,
    stride of chunks."""
    mode = {128: 2, 64: 4, 32: 6}[operand.width]
    leading = 16 if operand.k_major else operand.depth * operand.width
    return mode << 61 | 1 << 46 | (8 * operand.width >> 4) << 32 | (leading >> 4) << 16


def descriptor(g: NvLowering, base: Val, bits: int) -> Val:
    """A shared-memory descriptor with its start address: `base` (i32) is from the beginning of the block's memory."""
    return wgmma.descriptor(g, g.w.binary("add", wgmma.block_memory(g), base), bits)


def instruction_descriptor(left: Operand, right: Operand, m: int, n: int, total: T.Scalar) -> int:
    """Shape, types, and which operands are contiguous along M or N.

    >>> a, b = (Operand(T.Tile(shape, T.f16), which, 1) for shape, which in (((128, 64), "a"), ((64, 256), "b")))
    >>> hex(instruction_descriptor(a, b, 128, 256, T.f32))
    '0x8410010'
    """
    types = KINDS[left.tile.element][1] << 7 | KINDS[right.tile.element][1] << 10
    transposed = (not left.k_major) << 15 | (not right.k_major) << 16
    return SUMS[total] << 4 | types | transposed | (n >> 3) << 17 | (m >> 4) << 24


def issue(g: NvLowering, op: Op, left: Operand, right: Operand, adds: bool | Val) -> None:
    """The first warp issues all instructions of a dot, and commits them. They add to what is there if `adds` (an i1, or
    known here)."""
    w, (m, n), t = g.w, op.type.shape, left.tile.element
    base, commit = memory.place_of(g)[0], memory.next_commit(g)
    high, wide = min(m, 128), min(n, MAX_N)
    what = instruction_descriptor(left, right, high, wide, op.type.element)
    name = f"tcgen05.mma.cta_group::1.kind::{KINDS[t][0]}"
    places = [(row, column) for row in range(0, m, high) for column in range(0, n, wide)]
    with w.when(w.compare("icmp eq", g.place("warp"), g.int(0))):
        for row, column in places:
            target = w.binary("add", base, g.int(op.attrs["column"] + row // 128 * n + column))
            first, second = (descriptor(g, w.binary("add", x.address, g.int(x.offset(at))), constant_bits(x))
                             for x, at in ((left, row), (right, column)))  # fmt: skip
            lines = []
            for step in range(left.depth * t.bytes // STEP):
                lines.append(f"add.s64 da, $1, {left.advance(step)}; add.s64 db, $2, {right.advance(step)};")
                lines.append(f"@e {name} [$0], da, db, {what}, p;")
                if step == 0 and adds is not True:
                    lines.append("setp.eq.b32 p, 1, 1;")
            last = commit if (row, column) == places[-1] else None
            elected(g, lines, [target, first, second], adds, last)


def elected(g: NvLowering, lines: Sequence[str], inputs: Sequence[Val], adds: bool | Val,
            commit: Val | None = None) -> None:
    """One asm statement for one thread of the warp: `e` is the thread, `p` whether the first instruction adds; at its
    end the thread commits to the mbarrier at `commit` if there is one."""
    inputs = list(inputs)
    if isinstance(adds, bool):
        start = f"setp.{'eq' if adds else 'ne'}.b32 p, 1, 1;"
    else:
        start = f"mov.pred p, ${len(inputs)};"
        inputs.append(adds)
    ends = []
    if commit is not None:
        barrier = g.shared.pointer(g, commit)
        ends = [f"@e tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [${len(inputs)}];"]
        inputs.append(barrier)
    head = "{ .reg .pred e, p; .reg .b64 da, db; elect.sync _|e, 0xffffffff;"
    statement(g, " ".join([head, start, *lines, *ends, "}"]), *inputs)


# --- dots -------------------------------------------------------------------------------------------------------------
def dot(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val] | Held) -> list[Val] | Held:
    """acc + a @ b, with both operands written to shared memory first."""
    left, right = wgmma.in_buffers(g, Passage(g, op), (a, b), takes)
    g.target.async_fence(g)
    return finished(g, op, acc, lambda adds: issue(g, op, left, right, adds))


def finished(g: NvLowering, op: Op, acc: Sequence[Val] | Held, start: Callable[[bool | Val], None]) -> list[Val] | Held:
    """The result of products that `start(adds)` issues, once all threads have met: where the sums are held, or in
    registers as `acc` is."""
    if isinstance(acc, Held):
        memory.meet(g)
        start(acc.adds)
        memory.await_commits(g, 0)
        return acc
    adds = not wgmma.is_zero(g, acc)
    _begin(g, op, acc if adds else None)
    start(adds)
    memory.await_commits(g, 0)
    return memory.load(g, op.type.shape, op.attrs["column"], acc[0].type)


def _begin(g: NvLowering, op: Op, acc: Sequence[Val] | None) -> None:
    """Products may be issued now; they add to `acc`, if it is given. Warps of other warpgroups may have read what is
    overwritten."""
    if acc is not None:
        if g.warps > 4:
            memory.meet(g)
        memory.store(g, op.type.shape, op.attrs["column"], acc)
    memory.meet(g)


def lhs_need(op: Op, room: Room) -> Need | None:
    """The shared memory of an lhs that a `dot_shared` has in registers."""
    if op.attrs.get("column") is None or type(op.operands[0].type) is not T.Tile:
        return None
    return Need([bytes_of(op.attrs["lhs"])], BUFFER_ALIGNMENT)


def dot_shared(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val],
               acc: Sequence[Val] | Held) -> list[Val] | Held:
    """Issue a dot on filled buffers; an lhs in registers is written to one first. Unless the sums stay in tensor memory
    throughout a loop, they are read at once."""
    in_registers = type(op.operands[0].type) is T.Tile
    if in_registers:
        passage = Passage(g, op)
        passage.before_write()
        lhs, layout = wgmma.rounded(g, op, a), g.layout(op.operands[0])
        wgmma.write_operand(g, lhs, op.attrs["lhs"], layout, 1, passage.bases[0])
        g.target.async_fence(g)
        left = Operand(op.attrs["lhs"], "a", 1, g.int(passage.bases[0]))
    else:
        left = Operand(op.attrs["lhs"], "a", op.attrs["a_axis"], a[0])
    right = Operand(op.attrs["rhs"], "b", op.attrs["b_axis"], b[0])
    start = lambda adds: issue(g, op, left, right, adds)
    if in_registers or not isinstance(acc, Held):
        return finished(g, op, acc, start)
    start(acc.adds)
    pending, most = op.attrs["pending"], memory.MBARRIERS - 2  # no slot is reused while threads wait for it
    memory.await_commits(g, most if pending is None else min(pending, most))
    return acc


def dot_wait(g: NvLowering, op: Op, acc: Sequence[Val] | Held) -> Sequence[Val]:
    """The result of a loop, or one that was read already; in a branch of a loop, the sums so far."""
    if not isinstance(acc, Held):
        return acc
    memory.await_commits(g, min(op.attrs["pending"], memory.MBARRIERS - 2))
    sums = acc.read(g)
    if op.operands[0] is acc.dot:  # the next dot adds to them, or overwrites them
        memory.meet(g)
    return sums


class Held(wgmma.HeldSums):
    """Sums in tensor memory."""

    def __init__(self, g: NvLowering, dot: Op, init: Sequence[Val] | Held, nonempty: bool):
        super().__init__(g, dot, init, nonempty)
        if not isinstance(init, Held):
            _begin(g, dot, None if self.fresh else init)

    @property
    def adds(self) -> bool | Val:
        """Whether the next products add to what is there."""
        return True if self.begun is None else self.begun

    def read(self, g: NvLowering) -> list[Val]:
        """Their values, once the dots are finished."""
        return memory.load(g, self.dot.type.shape, self.dot.attrs["column"], self.kind)


def hold(g: NvLowering, dot: Op, init: Sequence[Val] | Held, nonempty: bool) -> Held | None:
    """A place for the sums of a dot in a loop, if there is one in tensor memory."""
    return Held(g, dot, init, nonempty) if dot.attrs.get("held") else None
