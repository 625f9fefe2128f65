"""Slots of the multibuffers that both roles of a warp-specialized kernel share, and their mbarriers.

The producer warp waits until a slot is empty and fills it; consumer warps wait until it is full and release it. Both
carry the next slot, and the parity of its phase, from iteration to iteration and from program to program.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Op, Value
from ....named_tuples import NamedTuple
from .. import ops as gpu_ops

STATE, AHEAD_STATE = ("slot", "parity"), ("tile", "tile_parity")
_BARRIER = 8  # bytes of an mbarrier


class Slots(NamedTuple):
    """`count` slots, and the mbarriers of full and of empty ones: for each group of loads, one for each slot. The
    consumers of so many `blocks` of a cluster release a slot."""

    count: int
    full: Value
    empty: Value
    blocks: int

    @staticmethod
    def init(b: Builder, count: int, warps: int, groups: int = 1, blocks: int = 1) -> Slots:
        """Slots that are empty, for so many consumer `warps` of each block."""
        full = gpu_ops.mbarrier_init(b, count=count * groups, arrivals=1)
        empty = gpu_ops.mbarrier_init(b, count=count * groups, arrivals=blocks * warps)
        return Slots(count, full, empty, blocks)

    def fill(self, b: Builder, slot: Value, parity: Value, group: int = 0) -> Value:
        """Wait until the slot of a group is empty; returns the mbarrier at which it becomes full."""
        gpu_ops.mbarrier_wait(b, self._at(b, self.empty, slot, group), ops.xor(b, parity, i32(b, 1)))
        return self.when_full(b, slot, group)

    def when_full(self, b: Builder, slot: Value, group: int = 0) -> Value:
        """The address of the mbarrier of a full slot."""
        return self._at(b, self.full, slot, group)

    def release(self, b: Builder, slot: Value, group: int = 0, *condition: Value) -> None:
        """Arrive at the mbarrier of an empty slot; with a condition, if it holds."""
        gpu_ops.mbarrier_arrive(b, self._at(b, self.empty, slot, group), *condition, blocks=self.blocks)

    def after(self, b: Builder, slot: Value, parity: Value) -> tuple[Value, Value]:
        """The next slot, and the parity of its phase."""
        more = ops.add(b, slot, i32(b, 1))
        over = ops.eq(b, more, i32(b, self.count))
        other = ops.xor(b, parity, i32(b, 1))
        return ops.select(b, over, i32(b, 0), more), ops.select(b, over, other, parity)

    def _at(self, b: Builder, barriers: Value, slot: Value, group: int) -> Value:
        first = ops.add(b, barriers, i32(b, _BARRIER * self.count * group)) if group else barriers
        return ops.add(b, first, ops.mul(b, slot, i32(b, _BARRIER)))


class SharedBuffers(NamedTuple):
    """What both roles know: the address of each load's multibuffer, and its slots; the same of tiles loaded ahead."""

    multibuffers: dict[Op, Value]
    slots: Slots
    ahead: dict[Op, Value]
    ahead_slots: Slots | None

    @property
    def state(self) -> tuple[str, ...]:
        """The names of the scalars that both roles carry."""
        return (*STATE, *(AHEAD_STATE if self.ahead else ()))


def i32(b: Builder, value: int) -> Value:
    return ops.constant(b, value=value, type=T.i32)


def state_args(names: Sequence[str]) -> tuple[Arg, ...]:
    """Parameters of a region that carries state."""
    return tuple(Arg(T.i32, name) for name in names)


def carrying_loop(b: Builder, operands: tuple[Value, ...], block: Block, nonempty: bool = False) -> tuple[Value, ...]:
    """Emit a loop over what `Slots` count; returns what it carries."""
    attrs = {**ops.for_.defaults, "nonempty": nonempty}
    return b.place(Op(ops.for_, operands, attrs, tuple(x.type for x in operands[3:]), (block,))).results
