"""The loop of a persistent block over its programs, the longest ones first.

A block runs one of each `blocks` consecutive programs, from the other end each time. So blocks that begin with a long
program go on with a short one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Value
from ....named_tuples import NamedTuple
from .slots import carrying_loop, i32
from .warp_plan import Lengths


class Programs(NamedTuple):
    """The programs of a launch: the arguments with its grid, whether that surely has `one_axis`, and the axis that the
    lengths of programs depend on, if there is one. Up to `dealt_together` programs of one length run side by side."""

    grid: tuple[Arg, ...]
    one_axis: bool
    lengths: Lengths | None
    dealt_together: int

    def loop(self, b: Builder, names: Sequence[str], state: Sequence[Value], body: Callable) -> None:
        """Emit the loop: body(index on each axis, *state) -> state. The `names` are those of the state."""
        x, y, z = self.grid
        count = ops.mul(b, ops.mul(b, x, y), z)
        block, blocks, one = ops.program_id(b, axis=0), ops.num_programs(b, axis=0), i32(b, 1)
        opposite = ops.sub(b, ops.sub(b, blocks, one), block)
        whole, rest = ops.div(b, count, blocks), ops.rem(b, count, blocks)
        last = ops.select(b, ops.eq(b, ops.and_(b, whole, one), one), opposite, block)  # its place in the rest
        end = ops.add(b, ops.sub(b, count, rest), ops.cast(b, ops.lt(b, last, rest), to=T.i32))
        with b.region([T.i32] * (2 + len(names)), ["first", "place", *names]) as loop:
            first, place, *own = loop.args
            following = ops.sub(b, ops.sub(b, blocks, one), place)
            index = self.index(b, ops.add(b, first, place))
            ops.yield_(b, following, *body(index, *own))
        carrying_loop(b, (i32(b, 0), end, blocks, block, *state), loop.block, nonempty=True)

    def index(self, b: Builder, program: Value) -> list[Value]:
        """The index on each axis of the program that is run as number `program`.

        It is computed unsigned, which makes quotients cheaper. The remainders and the minimum also give range analysis
        its bounds.
        """
        number, *sizes = (ops.cast(b, value, to=T.u32) for value in (program, *self.grid))
        u32 = lambda value: ops.constant(b, value=value, type=T.u32)
        last_first = self.lengths is not None and self.lengths.last_longest
        if self.one_axis:
            last = ops.sub(b, sizes[0], u32(1))
            number = ops.min_(b, number, last)
            index = [ops.sub(b, last, number) if last_first else number, u32(0), u32(0)]
        elif self.lengths is None:
            index = _split(b, number, sizes)
        else:
            axis = self.lengths.axis
            others = [k for k in range(3) if k != axis]
            length, other = self._dealt(b, number, sizes[axis], ops.mul(b, *(sizes[k] for k in others)))
            if last_first:
                length = ops.sub(b, ops.sub(b, sizes[axis], u32(1)), length)
            index = _split(b, other, [sizes[k] for k in others])
            index.insert(axis, ops.rem(b, length, sizes[axis]))
        return [ops.cast(b, value, to=T.i32) for value in index]

    def _dealt(self, b: Builder, number: Value, lengths: Value, others: Value) -> tuple[Value, Value]:
        """(index on the axis that lengths depend on, number on the other axes) of the program that is run as `number`:
        those of one length side by side if they are few, else those that share tiles."""
        few = ops.le(b, others, ops.constant(b, value=self.dealt_together, type=T.u32))
        fast = ops.select(b, few, others, lengths)
        slow, rest = ops.div(b, number, fast), ops.rem(b, number, fast)
        return ops.select(b, few, slow, rest), ops.select(b, few, rest, slow)


def _split(b: Builder, number: Value, sizes: Sequence[Value]) -> list[Value]:
    """The index on each axis of a number that counts through them, the first axis fastest."""
    out = []
    for size in sizes:
        out.append(ops.rem(b, number, size))
        number = ops.div(b, number, size)
    return out
