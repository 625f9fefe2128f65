"""Where the bits of the index along an axis are: each in the number of a register, a lane or a warp."""

from __future__ import annotations

from ....named_tuples import NamedTuple
from .linear import PARTS, Layout, axis_bits, log2


class Axis:
    """Where a layout has the bits of an axis: `bits` has (part, bit of the part) for each, low to high."""

    def __init__(self, layout: Layout, axis: int):
        low, width = axis_bits(layout.shape, axis)
        self.mask = ((1 << width) - 1) << low
        self.bits = [bit_of(layout, 1 << (low + k)) for k in range(width)]

    def of(self, part: str) -> list[int]:
        return [k for p, k in self.bits if p == part]


def bit_of(layout: Layout, image: int) -> tuple[str, int]:
    """(part, bit of the part) that has an image."""
    return next((part, getattr(layout, part).index(image)) for part in PARTS if image in getattr(layout, part))


class Swap(NamedTuple):
    """A bit of a thread's place (`part`, `bit`) and the bit `register` of the number of a register change places."""

    part: str
    bit: int
    register: int


class Merge(NamedTuple):
    """Of every two runs whose places differ in one bit, the first elements of both are kept.

    `part` and `bit` say which bit that is. If it is a thread's, either thread keeps half of what there is to keep: the
    bit `moved` of the number of a register, which chose between the halves, moves to the thread's. The halves are those
    of every run if `splits`, else of the runs. Without such a bit (None) both threads keep all. `after` is the layout
    of what is kept.
    """

    part: str
    bit: int
    moved: int | None
    splits: bool
    after: Layout


class Runs:
    """How the first `k` elements of the last axis are found: in order within runs of `k`, then by `merges` of runs.

    Runs are in registers as far as there are any: `swaps` bring bits of the index there in exchange for those of other
    axes, which leads to `layout`. `images` are those of the bits of an element's index in its run, low to high.

    >>> runs = Runs(Layout((64,), (1, 2, 32), (4, 8), (16,)), 4)
    >>> runs.images, runs.swaps, [m[:4] for m in runs.merges]
    ([1, 2], [], [('reg', 2, None, False), ('lane', 0, 0, True), ('lane', 1, 0, True), ('warp', 0, None, False)])
    >>> runs.result
    Layout((4,), reg=(), lane=(1, 2), warp=(0,))

    >>> runs = Runs(Layout((4, 8), (1, 8, 16), (2, 4), ()), 4)
    >>> runs.swaps, runs.layout
    ([Swap(part='lane', bit=0, register=1)], Layout((4, 8), reg=(1, 2, 16), lane=(8, 4), warp=()))
    >>> runs.result
    Layout((4, 4), reg=(1, 2), lane=(4, 8), warp=())
    """

    def __init__(self, layout: Layout, k: int):
        width = log2(layout.shape[-1])
        inside = lambda x: bool(x & ((1 << width) - 1))
        found = [x for part in PARTS for x in getattr(layout, part) if inside(x)]
        self.images, self.swaps, self.merges = found[: log2(k)], [], []
        self.exchanges_all = any(x in layout.warp for x in self.images)
        for image in self.images:
            part, bit = bit_of(layout, image)
            beside = next((n for n, x in enumerate(layout.reg) if not inside(x)), None)
            if part != "reg" and beside is not None:
                self.swaps.append(Swap(part, bit, beside))
                layout = _swapped(layout, image, beside)
        self.layout = layout
        for image in found[log2(k) :]:
            self.merges.append(self._merge(layout, image))
            layout = self.merges[-1].after
        index = {x: 1 << j for j, x in enumerate(self.images)}
        self.result = layout.map(lambda x: index.get(x, x >> width << log2(k)), (*layout.shape[:-1], k))

    def _merge(self, layout: Layout, image: int) -> Merge:
        part, bit = bit_of(layout, image)
        if part == "reg":
            return Merge(part, bit, None, False, _without(layout, bit))
        inside = [k for k, x in enumerate(layout.reg) if x in self.images]
        beside = [k for k, x in enumerate(layout.reg) if x not in self.images]
        if not layout.reg:
            return Merge(part, bit, None, False, layout.map(lambda x: 0 if x == image else x))
        moved = (beside or inside)[0]
        after = _without(layout, moved).map(lambda x: layout.reg[moved] if x == image else x)
        return Merge(part, bit, moved, not beside, after)

    @property
    def exchanged(self) -> int:
        """The most registers of a thread that go to another warp at once."""
        if self.exchanges_all:
            return self.layout.registers
        return max((merge.after.registers for merge in self.merges if merge.part == "warp"), default=0)


def _without(layout: Layout, bit: int) -> Layout:
    """The layout of half the registers: those whose number has a zero for `bit`."""
    return layout._replace(reg=(*layout.reg[:bit], *layout.reg[bit + 1 :]))


def _swapped(layout: Layout, image: int, register: int) -> Layout:
    """The layout where a register's bit has `image`, and what had it has the register's."""
    other = layout.reg[register]
    reg = (*layout.reg[:register], image, *layout.reg[register + 1 :])
    return layout.map(lambda x: other if x == image else x)._replace(reg=reg)
