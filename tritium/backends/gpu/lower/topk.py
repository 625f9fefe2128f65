"""The first elements of the last axis in order: runs of them are sorted, then merged.

The first k elements of two sorted runs a and b are the better ones of every a[i] and b[k - 1 - i]. These go up and down
(or down and up), so half a merge of the bitonic network puts them in order. Two threads that merge their runs keep one
half each: `Runs` says where the bits of the index are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .... import ops
from ....ir import types as T
from ....ir.core import Op
from ...llvm.writer import Val
from ..layout.axis import Merge, Runs, Swap, bit_of
from ..layout.linear import Layout
from ..layout.values import layout_of
from ..shared_memory.needs import Need, Room, takes_shared
from .function import Lowering, lower
from .reduce import exchange_need
from .sort import Network, key_type


def _runs(op: Op) -> Runs:
    return Runs(layout_of(op.operands[0]), op.attrs["k"])


def _topk_need(op: Op, room: Room) -> Need | None:
    """Warps exchange the keys of their runs."""
    registers = _runs(op).exchanged
    return exchange_need([key_type(T.element(op.type))], registers, room) if registers else None


@lower(ops.topk)
@takes_shared(_topk_need)
def topk(g: Lowering, op: Op, x: Sequence[Val]) -> list[Val]:
    network = Selection(g, op)
    return [network.value(v) for v in network.first([network.key(v) for v in x])]


class Selection(Network):
    """The network that keeps the first elements of two runs after the other."""

    def __init__(self, g: Lowering, op: Op):
        super().__init__(g, op, g.layout(op.operands[0]))
        self.plan = _runs(op)

    def settle(self, layout: Layout) -> None:
        """The runs are in this layout from now on."""
        self.layout, self.bits = layout, [bit_of(layout, x) for x in self.plan.images]

    def first(self, x: Sequence[Val]) -> Sequence[Val]:
        """The keys of the first elements of every row, in the layout of the result."""
        for swap in self.plan.swaps:
            x = self.swapped(x, swap)
        self.settle(self.plan.layout)
        merges = self.plan.merges
        x = self.ordered(x, self.written_out, merges[:1])
        for n, merge in enumerate(merges):
            x = self.ordered(self.better(x, merge), self.half_merge, merges[n + 1 : n + 2])
        return x

    def swapped(self, x: Sequence[Val], swap: Swap) -> list[Val]:
        """The elements of one row in the place of those of two. Their order in it does not matter yet."""
        mine, other = self.own_half(x, swap, swap.register)
        pairs = iter(zip(mine, self.across(other, [(swap.part, swap.bit)])))
        out, step = [], 1 << swap.register
        for _ in range(0, len(x), 2 * step):
            some = [next(pairs) for _ in range(step)]
            out += [pair[half] for half in (0, 1) for pair in some]
        return out

    def own_half(self, x: Sequence[Val], at: Swap | Merge, register: int) -> tuple[list[Val], list[Val]]:
        """What a thread keeps and what it gives away: the registers whose number has, for the bit `register`, the same
        as its own place has there, and the others."""
        upper, (low, high) = self.is_upper(at), _halves(x, register)
        mine = [self.w.select(upper, b, a) for a, b in zip(low, high)]
        return mine, [self.w.select(upper, a, b) for a, b in zip(low, high)]

    def half_merge(self, x: Sequence[Val]) -> Sequence[Val]:
        """Put what goes up and down in order."""
        for k in reversed(range(len(self.bits))):
            x = self.step(x, (k,))
        return x

    def ordered(self, x: Sequence[Val], put: Callable, following: Sequence[Merge]) -> Sequence[Val]:
        """`put` runs in order. If the merge that is `following` splits them, one of every two in reverse: there the
        keys are complemented meanwhile."""
        if not any(merge.splits for merge in following):
            return put(x)
        mask = self.w.cast("sext", self.is_upper(following[0]), self.kind)
        flip = lambda x: [self.w.binary("xor", v, mask) for v in x]
        return flip(put(flip(x)))

    def is_upper(self, at: Swap | Merge) -> Val:
        """i1: this thread's place has the bit in question."""
        return self.is_set(at.part, self.g.int(1 << at.bit))

    def better(self, x: Sequence[Val], merge: Merge) -> list[Val]:
        """The first elements of every two runs, which go up and down."""
        places = [(merge.part, merge.bit)]
        if merge.part == "reg":
            places, (mine, other) = [], _halves(x, merge.bit)
        elif merge.moved is None:
            mine = other = x
        else:
            mine, other = self.own_half(x, merge, merge.moved)
        self.settle(merge.after)
        if not merge.splits:
            places = [*places, *self.bits]  # the other run from its end
        return [self.extreme(self.downwards, a, b) for a, b in zip(mine, self.across(other, places))]


def _halves(x: Sequence[Val], bit: int) -> tuple[list[Val], list[Val]]:
    """The registers whose numbers have a zero for a bit, and those that have a one."""
    zero, one = ([v for r, v in enumerate(x) if r >> bit & 1 == half] for half in (0, 1))
    return zero, one
