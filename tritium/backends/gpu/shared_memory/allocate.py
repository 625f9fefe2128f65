"""Allocate shared memory: the addresses of buffers, and of the scratch that an op uses while it runs.

Buffers live from the op that makes them to their `release`, which frees those made after them too: a stack. Scratch
lies on top of it, and every op uses it anew: beside what the op before has used, so that no thread has to wait until
others have read that, as long as a program takes little (`CostModel.scratch_per_warp`). The memory of a function lies
above that of its callers.

    %1 = multibuffer {tile=tile<64x32xf16>, slots=3, axis=1, shared=((0, 12288),)} : i32
    %2 = convert %0 {layout=..., shared=((12288, 16384),)} : tile<64x64xf32>

Operands that several dots of a block read are written once. They stay in scratch until the last of them, which scratch
of ops in between leaves alone; `filled` has the buffers of an op that an earlier one has written.

    %3 = dot %1, %2, %acc {..., shared=((0, 8192), (8192, 8192))}
    %4 = dot %1, %3, %acc {..., shared=((0, 8192), (16384, 8192)), filled=(0,)}

`shared` has (address, bytes) of every buffer of an op. Where there is little room, an op is cut: `Need` lists the
attributes that say how. The module's `shared_bytes` is what a program takes in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import ops
from ....ir.core import Block, Module, Op, called, callees_first, walk
from ....ir.rewrite import annotate, uses
from .. import ops as gpu_ops
from ..layout.values import layout_of
from ..target import Target
from .needs import BUFFER_ALIGNMENT, HOW, Need, Room, Use, aligned, side_by_side, use_of

Range = tuple[int, int]  # of addresses: (start, end)


def allocate_shared(module: Module, target: Target) -> Module:
    """Give every op that takes shared memory its addresses, and the module the bytes it takes in all."""
    warps, registers = module.attrs["num_warps"], module.attrs.get("registers")
    all_warps = warps + module.attrs.get("producer_warps", 0)
    programs = target.machine.programs_of(all_warps, registers) if registers else 1
    room = Room(target, warps, 0, (), "producer_warps" in module.attrs, programs)
    found: dict[Op, dict] = {}

    def allocated(body: Block, start: int) -> int:
        stack = _Stack(room._replace(used=uses(body)), start)
        stack.block(body)
        found.update(stack.found)
        return stack.bytes

    total = allocated(module.body, 0)
    starts = dict.fromkeys(called(module.body) if module.functions else (), total)
    for function in reversed(callees_first(module)):  # callers first: their memory is known then
        taken = allocated(function.body, aligned(starts[function.name], BUFFER_ALIGNMENT))
        end = max(taken, starts[function.name])
        starts |= {name: max(end, starts.get(name, 0)) for name in called(function.body)}
        total = max(total, taken)
    functions = [function.replace(body=annotate(function.body, found)) for function in module.functions]
    return module.replace(annotate(module.body, found), {**module.attrs, "shared_bytes": total}, functions)


def fits_shared_memory(module: Module, target: Target) -> bool:
    """True if a program's shared memory is no more than there is, or nothing is buffered: fewer stages would not
    help."""
    return gpu_ops.multibuffer not in module.kinds or module.attrs["shared_bytes"] <= target.shared_bytes


def shares_multiprocessor(module: Module, target: Target) -> bool:
    """False if one slot fewer lets two programs on a multiprocessor that has room for one, in a module with layouts
    whose loops compute with products that read registers.

    Such a product is waited for, so one program alone leaves the tensor cores idle meanwhile: a second one hides that
    better than a third slot. Products that read buffers stay in flight, and sums of products are not waited for.
    """
    buffers = [op for op in walk(module.body) if op.kind is gpu_ops.multibuffer]
    if gpu_ops.dot_shared in module.kinds or not buffers or any(op.attrs["slots"] < 3 for op in buffers):
        return True
    taken, room = module.attrs["shared_bytes"], target.machine.shared_of(2)
    if not taken > room >= taken - sum(gpu_ops.bytes_of(op.attrs["tile"]) for op in buffers):
        return True
    bodies = [op.regions[0] for op in walk(module.body) if op.kind is ops.for_]
    if not any(op.kind is ops.dot and op not in body.yields for body in bodies for op in body.ops):
        return True
    carried = max(sum(layout.registers for layout in map(layout_of, body.args) if layout) for body in bodies)
    registers = carried + target.multiprocessor.beside_tiles_at_ease
    return target.machine.programs_of(module.attrs["num_warps"], registers) < 2


def _free(start: int, need: Need, taken: Sequence[Range]) -> int:
    """The first address from `start` on at which buffers overlap none of these ranges."""
    for at in sorted((start, *(end for _, end in taken if end > start))):
        at = aligned(at, need.alignment)
        (first, *_), end = side_by_side(at, need.sizes, need.alignment)
        if not any(first < b and a < end for a, b in taken):
            return at
    raise AssertionError("there is room behind the last of them")


class _Stack:
    """The buffers that are alive while a block runs, as (start, end). What lies below `start` belongs to callers."""

    def __init__(self, room: Room, start: int):
        self.room = room
        self.alive = [(0, start)] if start else []
        self.bytes = 0  # the most there ever is
        self.behind_tma = 0  # where that ends which TMA reads, if nothing else is in use; 0 if that is not known
        self.starts: dict[object, int] = {}  # of buffers
        self.last = (0, 0)  # the scratch of the op before
        self.found: dict[Op, dict] = {}
        self.kept: dict[Any, Range] = {}  # contents of scratch that later ops of the block need
        self.needed: dict[Any, list[int]] = {}  # contents -> the ops of the block that need them and are to come

    @property
    def top(self) -> int:
        """Where free memory begins."""
        return max((end for _, end in self.alive), default=0)

    def block(self, block: Block) -> None:
        needed = self.needed_in(block)
        self.kept, self.needed = {}, needed
        for op in block.ops:
            kept = {} if op.kind.control_flow else self.kept
            for region in op.regions:
                self.behind_tma = 0 if op.kind.control_flow else self.behind_tma
                self.block(region)
            if op.regions:
                self.kept, self.needed = kept, needed
            if op.kind.control_flow:
                self.behind_tma = 0
            use = use_of(self.room.target, op.kind)
            if op.kind is gpu_ops.release:
                start = self.starts[op.operands[0]]
                self.alive = [buffer for buffer in self.alive if buffer[0] < start]
            elif use is not None:
                self.give(op, use)

    def needed_in(self, block: Block) -> dict[Any, list[int]]:
        """Contents -> the numbers of the ops of a block that need them, in order."""
        out: dict[Any, list[int]] = {}
        for k, op in enumerate(block.ops):
            use = use_of(self.room.target, op.kind)
            need = use.needs(op, self.room) if use is not None and use.keeps else None
            for content in need.contents if need is not None else ():
                out.setdefault(content, []).append(k)
        return out

    def give(self, op: Op, use: Use) -> None:
        """Give an op what it needs."""
        need = use.needs(op, self.room._replace(top=self.top))
        attrs = {name: x for name, x in op.attrs.items() if name not in HOW}
        if need is not None and use.keeps and need.contents:
            starts, filled = self.keep(need)
            attrs |= {"shared": tuple(zip(starts, need.sizes)), **({"filled": filled} if filled else {})}
        elif need is not None:
            starts = self.place(op, use, need)
            attrs |= {"shared": tuple(zip(starts, need.sizes)), **need.attrs}
        if attrs != op.attrs:
            self.found[op] = attrs

    def place(self, op: Op, use: Use, need: Need) -> list[int]:
        """The addresses of an op's buffers."""
        stores = op.kind is gpu_ops.tma_store
        from_here = self.behind_tma if stores and self.is_better_behind(op, need) else self.top
        if not stores and not use.kept and self.is_better_beside(need):
            from_here = self.last[1]
        if not stores and not use.kept:
            from_here = self.beside_kept(from_here, need)
        starts, end = side_by_side(from_here, need.sizes, need.alignment)
        self.overwrite(starts[0], end)
        if use.kept:
            self.alive += [(start, start + size) for start, size in zip(starts, need.sizes)]
            self.starts |= dict(zip(op.results, starts))
            end = self.top
        else:
            self.last = starts[0], end
        self.bytes = max(self.bytes, end)
        self.behind_tma = starts[-1] + need.sizes[-1] if stores else 0
        return starts

    def keep(self, need: Need) -> tuple[list[int], tuple[int, ...]]:
        """The addresses of an op's buffers, and the numbers of those that hold already what it needs."""
        contents = need.contents
        for content in contents:
            self.needed[content].pop(0)
        own = {x: self.kept[x] for x in contents if x in self.kept}
        placed = self.placed_beside(own, need)
        if max(end for _, end in placed.values()) > self.most:
            self.kept = own = {}
            placed = self.placed_beside(own, need)
        for content in (x for x in placed if x not in own):
            self.overwrite(*placed[content])
            self.last = placed[content]
        self.bytes = max(self.bytes, *(end for _, end in placed.values()))
        self.kept = {x: at for x, at in {**self.kept, **placed}.items() if self.needed[x]}
        self.behind_tma = 0
        filled = tuple(k for k, x in enumerate(contents) if x in own or x in contents[:k])
        return [placed[x][0] for x in contents], filled

    def placed_beside(self, own: dict[Any, Range], need: Need) -> dict[Any, Range]:
        """`own`, and where those contents of an op lie that are not there yet."""
        placed = dict(own)
        for content, size in zip(need.contents, need.sizes):
            if content not in placed:
                one = need._replace(sizes=[size])
                start = self.beside_kept(self.top, one, tuple(placed.values()), (self.last,))
                placed[content] = start, start + size
        return placed

    @property
    def most(self) -> int:
        """The shared memory that a program may take for what is kept: as much as its share of registers."""
        room = self.room.target.shared_bytes
        return min(room, max(self.bytes, room * self.room.warps // self.room.target.cost.warps_with_all_registers))

    def beside_kept(self, start: int, need: Need, own: Sequence[Range] = (), last: Sequence[Range] = ()) -> int:
        """The first address from `start` on at which buffers leave alone the op's `own`, and what is kept as far as
        there is room: first what is needed soonest. Behind the `last` scratch, they need not wait for its readers."""
        soon = sorted((x for x in self.kept if self.needed[x]), key=lambda content: self.needed[content][0])
        kept = [self.kept[content] for content in soon]
        for avoided in ([*kept, *last], *(kept[:count] for count in range(len(kept), 0, -1))):
            at = _free(start, need, (*own, *avoided))
            if side_by_side(at, need.sizes, need.alignment)[1] <= self.most:
                return at
        return _free(start, need, own)

    def overwrite(self, start: int, end: int) -> None:
        """What is kept there is lost."""
        self.kept = {content: (a, b) for content, (a, b) in self.kept.items() if b <= start or end <= a}

    def is_better_beside(self, need: Need) -> bool:
        """True if scratch should lie behind that of the op before, which threads may still be reading: unless that
        would leave room for fewer programs at once."""
        (first, *_), end = side_by_side(self.top, need.sizes, need.alignment)
        if end <= self.last[0] or self.last[1] <= first:
            return False
        _, end = side_by_side(self.last[1], need.sizes, need.alignment)
        few = self.room.warps * self.room.target.cost.scratch_per_warp
        return end <= min(max(few, self.bytes), self.room.target.shared_bytes)

    def is_better_behind(self, op: Op, need: Need) -> bool:
        """True if a TMA store should use memory behind what TMA is reading, so that nobody has to wait: unless that
        would leave room for fewer programs at once, or the store waits for the earlier ones anyway."""
        _, end = side_by_side(self.behind_tma, need.sizes, need.alignment)
        most = self.room.target.shared_bytes
        known = self.behind_tma and not op.attrs["ordered"] and "cut" not in need.attrs
        return bool(known and end <= most < 2 * self.bytes)
