"""Allocate shared memory: the addresses of buffers, and of the scratch that an op uses while it runs.

Buffers live from the op that makes them to their `release`, which frees those made after them too: a stack. Scratch
lies on top of it, and every op uses it anew: beside what the op before has used, so that no thread has to wait until
others have read that, as long as a program takes little (`CostModel.scratch_per_warp`). The memory of a function lies
above that of its callers.

    %1 = multibuffer {tile=tile<64x32xf16>, slots=3, axis=1, shared=((0, 12288),)} : i32
    %2 = convert %0 {layout=..., shared=((12288, 16384),)} : tile<64x64xf32>

`shared` has (address, bytes) of every buffer of an op. Where there is little room, an op is cut: `Need` lists the
attributes that say how. The module's `shared_bytes` is what a program takes in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.core import Block, Module, Op, called, callees_first
from ....ir.rewrite import annotate, uses
from .. import ops as gpu_ops
from .needs import BUFFER_ALIGNMENT, HOW, Need, Room, Use, aligned, side_by_side, use_of

if TYPE_CHECKING:
    from ..target import Target


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

    @property
    def top(self) -> int:
        """Where free memory begins."""
        return max((end for _, end in self.alive), default=0)

    def block(self, block: Block) -> None:
        for op in block.ops:
            for region in op.regions:
                self.behind_tma = 0 if op.kind.control_flow else self.behind_tma
                self.block(region)
            if op.kind.control_flow:
                self.behind_tma = 0
            use = use_of(self.room.target, op.kind)
            if op.kind is gpu_ops.release:
                start = self.starts[op.operands[0]]
                self.alive = [buffer for buffer in self.alive if buffer[0] < start]
            elif use is not None:
                self.give(op, use)

    def give(self, op: Op, use: Use) -> None:
        """Give an op what it needs."""
        need = use.needs(op, self.room._replace(top=self.top))
        attrs = {name: x for name, x in op.attrs.items() if name not in HOW}
        if need is not None:
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
        starts, end = side_by_side(from_here, need.sizes, need.alignment)
        if use.kept:
            self.alive += [(start, start + size) for start, size in zip(starts, need.sizes)]
            self.starts |= dict(zip(op.results, starts))
            end = self.top
        else:
            self.last = starts[0], end
        self.bytes = max(self.bytes, end)
        self.behind_tma = starts[-1] + need.sizes[-1] if stores else 0
        return starts

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
