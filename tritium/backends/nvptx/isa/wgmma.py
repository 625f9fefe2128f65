"""Hopper's warpgroup MMA (wgmma): four warps own 64 rows of the result, operands are read from shared memory."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....ir import types as T
from ....named_tuples import NamedTuple
from ...gpu.layout.linear import Layout, log2
from ...gpu.layout.swizzle import row_width, swizzled
from ...gpu.layout.values import layout_of
from ...gpu.lower.convert import write
from ...gpu.lower.dot import operands_need as both_operands
from ...gpu.lower.shared_memory import Passage
from ...gpu.lower.words import pack_words
from ...gpu.shared_memory.needs import BUFFER_ALIGNMENT, Need
from . import fragments
from .statements import statement
from .tensor_types import NAMES, STEP, multiplies
from .warp_roles import await_ping_pong

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .target import NvLowering

MAX_N = 256  # columns of one instruction
ALONG_K = {"a": 1, "b": 0}  # the axis of K in [M, K] and [K, N]


def fits(a: T.Tile, b: T.Tile, out: T.Tile, precision: str, warps: int, sm: int) -> bool:
    """True if these instructions can do a dot of these tile types."""
    if sm != 90 or len(out.shape) != 2 or warps % 4 or not multiplies(a, b, out, precision):
        return False
    _, columns = warp_split(out.shape[0], warps)
    return out.shape[0] >= 64 and out.shape[1] // columns >= 8


def warp_split(m: int, warps: int) -> tuple[int, int]:
    """(warps along M, parts of N): warpgroups stack along M first."""
    groups = warps // 4
    along_m = min(groups, max(1, m // 64))
    return along_m * 4, groups // along_m


def accumulators(shape: Sequence[int], warps: int) -> tuple[int, int]:
    """(registers, count) of the accumulators of a dot with a result of this shape: each is one instruction's.

    >>> accumulators((128, 256), 4), accumulators((128, 256), 8)
    ((128, 2), (128, 1))
    """
    rows, columns = warp_split(shape[0], warps)
    mine = shape[1] // columns
    step = min(mine, MAX_N)
    return step // 2, shape[0] // (16 * rows) * (mine // step)


def layouts(op: Op, warps: int) -> tuple[Layout, Layout]:
    """(layout of the result of a `dot_shared`, layout of its lhs if that is in registers)."""
    lhs, split = op.attrs["lhs"], warp_split(op.type.shape[0], warps)
    out = fragments.accumulator(op.type.shape, *split, rows=64)
    left = fragments.operand(lhs.shape, lhs.element.bits, *split, "a")
    if type(op.operands[0].type) is T.Tile and lhs.element.bits == 32 and op.attrs["a_axis"] == 0:
        order = _picked_rows(op.type.shape[0], split[0] // 4)
        return out.reorder(0, order), left.reorder(0, order)
    return out, left


def _picked_rows(m: int, groups: int) -> tuple[int, ...]:
    """The bit of a tile's row index for each row bit of the instruction, where 32-bit elements are read from a buffer
    with 128-byte rows along M: a thread's rows are adjacent, and its warp's in different banks.

    An instruction's row bits 0-2 are lanes, 3 registers, 4 and 5 warps; then warpgroups, then further registers. Lanes
    also step along K, which moves the swizzle's bits 4 and 5 of the address: bits 2, 3 and 6 are free.
    """
    bits = log2(m)
    mine = (3, *range(6 + log2(groups), bits))[:2]
    lanes = (1, 4, 2) if len(mine) == 1 else (4, 2, 3)
    order = dict(zip((*mine, 0, 1, 2), (*range(len(mine)), *lanes)))
    left = iter(k for k in range(bits) if k not in order.values())
    return tuple(order[k] if k in order else next(left) for k in range(bits))


def lhs_once(rows: int, warps: int) -> bool:
    """True if no two threads hold the same element of an lhs of `rows` rows."""
    return warp_split(rows, warps)[1] == 1


def takes(tile: T.Tile, operand: str, axis: int) -> bool:
    """True if an operand of a dot may be contiguous along `axis` in shared memory.

    Along K always. Along M or N only 16-bit types, in rows of at least 32 bytes; a warpgroup may take a part of each.
    """
    return axis == ALONG_K[operand] or (
        tile.element.bits == 16 and row_width(tile.shape, axis, tile.element.bytes) >= 32
    )


class Operand(NamedTuple):
    """One operand: at a byte address (i32) in shared memory with rows along `axis`, or in registers as words."""

    tile: T.Tile
    operand: str
    axis: int
    base: Val | None = None
    words: Sequence[Val] | None = None

    @property
    def address(self) -> Val:
        """Where it begins in shared memory."""
        assert self.base is not None, "an operand in registers has no address"
        return self.base

    @property
    def k_major(self) -> bool:
        return self.axis == ALONG_K[self.operand]

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return row_width(self.tile.shape, self.axis, self.tile.element.bytes)

    @property
    def depth(self) -> int:
        return self.tile.shape[ALONG_K[self.operand]]

    @property
    def outer(self) -> int:
        return self.tile.shape[1 - ALONG_K[self.operand]]

    def offset(self, outer: int) -> int:
        """Bytes from the operand's start to row (or column) `outer`; in the swizzle's atoms, before it is applied."""
        if self.k_major:
            return outer * self.width
        size = self.tile.element.bytes
        chunk, inside = divmod(outer, self.width // size)  # chunks of a row along M or N, each K rows high
        return chunk * self.depth * self.width + inside * size

    def descriptor(self, g: NvLowering, group: Val | None, span: int, extra: int) -> Val:
        """The descriptor of the first k-step: each group has `span` rows (or columns), this one starts `extra`
        further."""
        w = g.w
        start = w.binary("add", block_memory(g), self.address)
        if extra:
            start = w.binary("add", start, g.int(self.offset(extra)))
        if group is not None:
            start = w.binary("add", start, self.start(g, group, span))
        return descriptor(g, start, self.constant_bits())

    def start(self, g: NvLowering, group: Val, span: int) -> Val:
        """Bytes from the operand's start to that of a group; several may share the rows of a chunk."""
        w = g.w
        sharing = 1 if self.k_major else max(1, self.width // self.tile.element.bytes // span)
        if sharing == 1:
            return w.binary("mul", group, g.int(self.offset(span)))
        chunk, inside = w.binary("lshr", group, g.int(log2(sharing))), w.binary("and", group, g.int(sharing - 1))
        chunks = w.binary("mul", chunk, g.int(self.offset(sharing * span)))
        return w.binary("add", chunks, w.binary("mul", inside, g.int(self.offset(span))))

    def constant_bits(self) -> int:
        """All fields but the start address: swizzle, stride of groups of eight rows, stride of chunks."""
        mode = {128: 1, 64: 2, 32: 3}[self.width]
        leading = 16 if self.k_major else self.depth * self.width
        return (mode << 62) | ((8 * self.width >> 4) << 32) | ((leading >> 4) << 16)

    def advance(self, step: int) -> int:
        """The step of the start address per k-step, in 16-byte units."""
        if self.k_major:
            inside = self.width // STEP
            return ((step // inside) * self.outer * self.width + (step % inside) * STEP) >> 4
        return step * (STEP // self.tile.element.bytes) * self.width >> 4


def block_memory(g: NvLowering) -> Val:
    """Where the block's shared memory begins, i32."""
    return g.w.emit("i32", "ptrtoint ptr addrspace(3) @smem to i32")


def descriptor(g: NvLowering, start: Val, bits: int) -> Val:
    """A shared-memory descriptor with its start address (i32); `bits` has all other fields."""
    w = g.w
    start = w.binary("lshr", w.binary("and", start, g.int(0x3FFFF)), g.int(4))
    return w.binary("or", w.cast("zext", start, "i64"), w.const("i64", bits - (1 << 64) if bits >> 63 else bits))


def dot(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val] | Held) -> list[Val] | Held:
    """acc + a @ b, with both operands written to shared memory first; an lhs stays in registers that are those of the
    instruction."""
    passage, listed = Passage(g, op), []
    with passage.writing() as fresh:
        bases = iter(enumerate(passage.bases))
        for x, value, which, axis in zip((a, b), op.operands, "ab", _axes(op, takes)):
            if which == "a" and _is_in_place(op, g.warps):
                listed.append(Operand(value.type, which, axis, words=pack_words(g, x)))
                continue
            k, base = next(bases)
            listed.append(Operand(value.type, which, axis, g.int(base)))
            if k in fresh:
                write_operand(g, x, value.type, g.layout(value), axis, base)
        if fresh:
            g.target.async_fence(g)
    return issue(g, acc, *listed)


def operands_need(op: Op, warps: int) -> Need:
    """The shared memory of the operands that are read from there."""
    need = both_operands(op, BUFFER_ALIGNMENT, _axes(op, takes))
    return need._replace(sizes=need.sizes[1:], contents=need.contents[1:]) if _is_in_place(op, warps) else need


def _is_in_place(op: Op, warps: int) -> bool:
    """True if threads hold the lhs of a dot, each element once, as the instruction reads it from registers."""
    lhs = op.operands[0]
    shape, split = op.type.shape, warp_split(op.type.shape[0], warps)
    wanted = fragments.operand(lhs.type.shape, lhs.type.element.bits, *split, "a")
    return split[1] == 1 and shape[0] == lhs.type.shape[0] and layout_of(lhs) == wanted


def _axes(op: Op, may_lie: Callable[[T.Tile, str, int], bool]) -> list[int]:
    """The axes along which the operands of a dot are contiguous in its buffers: that along which threads hold runs, if
    they may_lie(tile, operand, axis) so, else K."""
    out = []
    for x, which in zip(op.operands, "ab"):
        along_k, layout = ALONG_K[which], layout_of(x)
        runs = layout.contiguous(1 - along_k) > layout.contiguous(along_k)
        out.append(1 - along_k if runs and may_lie(x.type, which, 1 - along_k) else along_k)
    return out


def in_buffers(g: NvLowering, passage: Passage, operands: Sequence[Sequence[Val]],
               may_lie: Callable[[T.Tile, str, int], bool]) -> list[Operand]:
    """Both operands of a dot, written to its buffers, where they may_lie(tile, operand, axis)."""
    listed = [Operand(value.type, which, axis, g.int(base)) for value, which, axis, base in
              zip(passage.op.operands, "ab", _axes(passage.op, may_lie), passage.bases)]  # fmt: skip
    passage.before_write()
    for x, value, operand, base in zip(operands, passage.op.operands, listed, passage.bases):
        write_operand(g, x, operand.tile, g.layout(value), operand.axis, base)
    return listed


def write_operand(g: NvLowering, x: Sequence[Val], tile: T.Tile, layout: Layout, axis: int, base: int) -> None:
    """Write a tile to shared memory in swizzled rows along `axis`."""
    images, _ = swizzled(tile.shape, axis, tile.element.bytes)
    write(g, x, tile.element, layout, images, base)


def issue(g: NvLowering, acc: Sequence[Val] | Held, left: Operand, right: Operand, pending: int | None = 0,
          wait: Callable[[NvLowering], None] | None = None) -> list[Val] | Held:
    """All k-steps of one dot; at its end at most `pending` dots are unfinished, or it waits for none (None).

    `wait(g)` is emitted last before the first instruction.
    """
    w, m, n = g.w, left.outer, right.outer
    rows, columns = warp_split(m, g.warps)
    along_m, mine = rows // 4, n // columns
    group = w.binary("lshr", g.place("warp"), g.int(2))
    group_m = w.binary("and", group, g.int(along_m - 1)) if along_m > 1 else None
    group_n = w.binary("lshr", group, g.int(log2(along_m))) if columns > 1 else None
    step_n = min(mine, MAX_N)
    per, repeats = step_n // 2, m // (64 * along_m)  # accumulators of one instruction; blocks of rows
    held = acc if isinstance(acc, Held) else None
    out: list[Any] = [*(acc.names if isinstance(acc, Held) else acc)]
    operands, count = [], len(out) // per
    for k in range(count):
        block, column = divmod(k, mine // step_n)
        if left.words is None:
            first = [left.descriptor(g, group_m, 64, block * along_m * 64)]
        else:  # the words of this block of rows, four for each k-step
            words = len(left.words) // repeats
            first = left.words[block * words : (block + 1) * words]
        operands.append((*first, right.descriptor(g, group_n, mine, column * step_n)))
    if wait is not None:
        out, *operands = _pinned(g, out, *operands)
        wait(g)
    ends = ["wgmma.commit_group.sync.aligned;", *([] if pending is None else [waiting(pending)])]
    for k, (*first, second) in enumerate(operands):
        mine = slice(k * per, (k + 1) * per)
        last = ends if held or count == 1 else ends[:1]
        out[mine] = _instructions(g, out[mine], left, first, right, second, last if k == count - 1 else (), held)
    if held or count == 1 or pending is None:
        return held or out
    return settled(g, out, pending)


def _pinned(g: NvLowering, *lists: Sequence[Val]) -> list[list[Val]]:
    """The same values, opaque to LLVM: their definitions cannot move behind this point."""
    values = [x for xs in lists for x in xs if str(x).startswith("%")]
    made = statement(g, "", *values, gives=[x.type for x in values], tied=len(values), memory=False)
    new = dict(zip(values, made))
    return [[new.get(x, x) for x in xs] for xs in lists]


def _instructions(g: NvLowering, acc: list[Val], left: Operand, first: Sequence[Val], right: Operand, second: Val,
                  ends: Sequence[str], held: Held | None) -> list[Val]:
    """One asm statement: a block of the result, all its k-steps, and the commit; a wait there is tied to its values.

    If the accumulator starts at zero, the first step overwrites it, and no register need be zeroed. Accumulators that
    are `held` are updated in place.
    """
    count, t = len(acc), left.tile.element
    kind, total = ("i32", "s32") if t is T.i8 else ("float", "f32")
    fresh = not held and is_zero(g, acc)
    in_registers = left.words is not None
    name = f"m64n{2 * count}k{STEP // t.bytes}.{total}.{NAMES[t]}.{NAMES[right.tile.element]}"
    outs = ", ".join(acc if held else (f"${i}" for i in range(count)))
    at = 0 if held else count if fresh else 2 * count  # operands: outputs, the accumulators tied to them, then these
    inputs = [*first, second]
    adds, once = f"setp.{'ne' if fresh else 'eq'}.b32 p, 1, 1;", fresh
    if held and held.begun is not None:
        adds, once = f"mov.pred p, ${len(inputs)};", True
        inputs.append(held.begun)
    lines = [f"{{ .reg .pred p; .reg .b64 da, db; {adds} wgmma.fence.sync.aligned;"]
    for step in range(left.depth * t.bytes // STEP):
        lines.append(f"add.s64 db, ${at + len(first)}, {right.advance(step)};")
        if in_registers:
            source = "{" + ", ".join(f"${at + 4 * step + i}" for i in range(4)) + "}"
        else:
            source = "da"
            lines.append(f"add.s64 da, ${at}, {left.advance(step)};")
        lines.append(f"wgmma.mma_async.sync.aligned.{name} {{{outs}}}, {source}, db, {_flags(t, left, right)};")
        if once and step == 0:
            lines.append("setp.eq.b32 p, 1, 1;")
    lines += [*ends, "}"]
    if held:
        statement(g, " ".join(lines), *inputs)
        return acc
    updated = () if fresh else acc
    return statement(g, " ".join(lines), *updated, *inputs, gives=[kind] * count, tied=len(updated), early=fresh)


def _flags(t: T.Scalar, left: Operand, right: Operand) -> str:
    """The immediates after the operands: scale-d, signs, and for 16-bit types which operands are contiguous along M or
    N."""
    if t is T.i8:
        return "p"
    listed = [] if t.bits != 16 else [right] if left.words is not None else [left, right]
    return ", ".join(["p", "1", "1", *(str(int(not operand.k_major)) for operand in listed)])


def is_zero(g: NvLowering, acc: Sequence[Val]) -> bool:
    """True if sums are known to be 0."""
    return all(x == g.const(x.type, 0 if x.type == "i32" else 0.0) for x in acc)


class HeldSums(ABC):
    """Sums of a dot that stay in their place throughout a loop, without copies in LLVM.

    `begun` is an i1, false in the iteration that overwrites them with its first product; None if they are there before
    the loop.
    """

    def __init__(self, g: NvLowering, dot: Op, init: Sequence[Val] | HeldSums, nonempty: bool):
        self.w, self.dot, self.begun, self.fresh = g.w, dot, None, False
        self.kind = init.kind if isinstance(init, HeldSums) else init[0].type
        if not isinstance(init, HeldSums):
            self.fresh = nonempty and is_zero(g, init)

    def inside(self, index: Val, first: Val) -> HeldSums:
        """The sums in an iteration of the loop."""
        if self.fresh:
            self.begun = self.w.emit("i1", f"icmp ne {index.typed}, {first}", index, first)
        return self

    def cleared(self, fresh: Val) -> HeldSums:
        """The sums, to be overwritten if `fresh` holds as well."""
        out, adds = copy.copy(self), self.w.binary("xor", fresh, self.w.const("i1", True))
        out.begun = adds if self.begun is None else self.w.binary("and", self.begun, adds)
        return out

    def after(self, g: NvLowering) -> list[Val] | HeldSums:
        """The sums after the loop, while the last dot may be in flight."""
        return self.read(g) if self.dot.attrs.get("pending", 0) == 0 else self

    @abstractmethod
    def read(self, g: NvLowering) -> list[Val]:
        """Their values, once the dots are finished."""


class Held(HeldSums):
    """Accumulators in PTX registers."""

    def __init__(self, g: NvLowering, dot: Op, init: Sequence[Val] | Held, nonempty: bool):
        super().__init__(g, dot, init, nonempty)
        if isinstance(init, Held):
            self.names = init.names
            return
        name = g.w.label("sums").replace(".", "_")
        self.names = [f"{name}_{k}" for k in range(len(init))]
        statement(g, f".reg .b32 {name}_<{len(init)}>;", memory=False, at=0)
        if not self.fresh:
            statement(g, " ".join(f"mov.b32 {name}, ${k};" for k, name in enumerate(self.names)), *init)

    def read(self, g: NvLowering, pending: int | None = None) -> list[Val]:
        """Their values, once at most `pending` dots are unfinished."""
        wait = "" if pending is None else waiting(pending) + " "
        moves = " ".join(f"mov.b32 ${k}, {name};" for k, name in enumerate(self.names))
        return statement(g, wait + moves, gives=[self.kind] * len(self.names))


def dot_shared(g: NvLowering, op: Op, a: Sequence[Val], b: Sequence[Val], acc: Sequence[Val] | Held,
               *phase: Sequence[Val]) -> list[Val] | Held:
    """Issue a dot on filled buffers; the lhs may be in registers."""
    in_registers = type(op.operands[0].type) is T.Tile
    left = Operand(op.attrs["lhs"], "a", op.attrs["a_axis"])
    if in_registers:
        if op.operands[0].type.element is not left.tile.element:
            a = settled(g, a, 0)  # rounded into registers that no unfinished dot reads
        left = left._replace(words=pack_words(g, rounded(g, op, a)))
    else:
        left = left._replace(base=a[0])
    right = Operand(op.attrs["rhs"], "b", op.attrs["b_axis"], b[0])
    return issue(g, acc, left, right, op.attrs["pending"], (lambda g: await_ping_pong(g, *phase)) if phase else None)


def rounded(g: NvLowering, op: Op, a: Sequence[Val]) -> Sequence[Val]:
    """The lhs of a `dot_shared`, which is in registers, in the type of the operand."""
    source, to = op.operands[0].type.element, op.attrs["lhs"].element
    if source is to:
        return a
    both = g.target.pair_cast(source, to)
    return [x for k in range(0, len(a), 2) for x in both(g, a[k], a[k + 1])]


def dot_wait(g: NvLowering, op: Op, acc: Sequence[Val] | Held) -> list[Val]:
    """The accumulators, tied to the wait so that no use is scheduled before it."""
    pending = op.attrs["pending"]
    return acc.read(g, pending) if isinstance(acc, Held) else settled(g, acc, pending)


def settled(g: NvLowering, acc: Sequence[Val], pending: int) -> list[Val]:
    """The accumulators once at most `pending` dots are unfinished."""
    return statement(g, waiting(pending), *acc, gives=[x.type for x in acc], tied=len(acc))


def waiting(pending: int) -> str:
    return f"wgmma.wait_group.sync.aligned {pending};"
