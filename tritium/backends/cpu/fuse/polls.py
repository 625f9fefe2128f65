"""Which loops poll for a stopped launch, and how often: `tt.poll` (see interrupt.py).

Every `while` loop polls, every `for` loop that may run for long, and the loop over long programs. A poll costs as much
as a few thousand elements, so the interval in iterations follows from an estimate of the work of one: about 30 us. That
is seldom enough to cost nothing, and often enough if the estimate is wrong by a factor of a thousand.

A `while` loop counts down: an instruction and a branch in each iteration. A `for` loop runs to a limit nearer than its
end, polls there, and goes on to the next limit (`emit.py`): its iterations pay nothing. Where one iteration does so
much work that a poll is lost in it, every iteration polls: one line for LLVM to compile instead of twenty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....passes.regions import trip_count
from . import ops as cpu_ops

if TYPE_CHECKING:
    from ....ir.core import Block, Op
    from ...llvm.writer import Val
    from ..lower.function import Lowering

_BETWEEN = 1 << 20  # elements computed between two polls
_SHORT = 1 << 24  # elements; a loop that computes no more does not poll
_STRIP = 16  # what a scalar costs, in elements
_ATOMIC = 64  # and each element of an atomic
_UNKNOWN = 16  # assumed trip count of a loop whose bounds are run-time values
_MOST = 1 << 16
_SHORT_PROGRAM = 1 << 14  # elements; the pool polls after a thousand programs that compute no more
_LONG_PROGRAM = 1 << 17  # elements; a program that computes fewer polls once in 2, 4 or 8 programs
_LONG_ITERATION = 1 << 14  # elements; an iteration that computes more polls every time


def work(*blocks: Block) -> int:
    """About how many elements one run of these blocks computes.

    >>> from tritium.ir.text import parse_module
    >>> work(parse_module('''kernel @k(%p: ptr<f32>) {
    ...   %x = load %p : f32
    ...   store %p, %x
    ... }''').body)
    32
    """
    return sum(_work_of(op) for block in blocks for op in block.ops)


def _work_of(op: Op) -> int:
    if op.kind is ops.for_:
        known = trip_count(op)
        return work(*op.regions) * (_UNKNOWN if known is None else known)
    if op.kind is ops.while_:
        return work(*op.regions) * _UNKNOWN
    if op.kind is ops.if_:
        return max(map(work, op.regions))
    if op.kind is cpu_ops.loop_nest:
        return sum(map(_work_of, op.regions[0].ops[:-1]))
    if cpu_ops.is_marker(op):
        return 0
    size = max([_STRIP, *[T.numel(t) for t in (*op.types, *[x.type for x in op.operands]) if type(t) is T.Tile]])
    if op.kind is ops.dot:
        return size * T.shape(op.operands[0].type)[-1] // 2
    if op.kind.atomic:
        return size * _ATOMIC
    return size * (1 + sum(len(region.ops) for region in op.regions))


def is_long(op: Op) -> bool:
    """Whether a `for` loop may run for so long that it must poll."""
    known = trip_count(op)
    return known is None or known * work(*op.regions) > _SHORT


def programs(body: Block) -> int:
    """After how many programs a kernel polls, a power of two; 0 for never. One that never does may be a function that
    calls nothing. Reading the clock takes as long as a thousand elements.

    >>> from tritium.ir.text import parse_module
    >>> kernel = "kernel @k(%x: tile<2048xf32>) {" + " %y = add %x, %x : tile<2048xf32>\\n" * 10 + "}"
    >>> programs(parse_module("kernel @k(%p: ptr<f32>) {}").body), programs(parse_module(kernel).body)
    (0, 4)
    """
    total = 0
    for op in body.ops:  # most long programs show it in their first ops
        total += _work_of(op)
        if total >= _LONG_PROGRAM:
            return 1
    return 0 if total <= _SHORT_PROGRAM else 1 << (_LONG_PROGRAM // total).bit_length() - 1


def iterations(*blocks: Block) -> int:
    """The polling interval of a loop with these blocks, in iterations.

    >>> from tritium.ir.text import parse_module
    >>> iterations(parse_module("kernel @k(%p: ptr<f32>) {}").body)
    65536
    """
    return max(1, min(_BETWEEN // max(work(*blocks), 1), _MOST))


def ask(lo: Lowering, index: Val, body: Block) -> None:
    """Make the open `for` loop with this index poll."""
    if work(body) >= _LONG_ITERATION:
        lo.w.call("void", "tt.poll", lo.base)
    else:
        lo.w.poll(index, lo.base, iterations(body))


def count(lo: Lowering, left: Val, ask: str, head: str) -> Val:
    """Count an iteration down and branch to the loop's `head`, through the block `ask` at zero; returns the counter."""
    w = lo.w
    fewer = w.effect(f"sub i32 {left}, 1", "i32")
    w.branch(w.compare("icmp eq", fewer, w.const("i32", 0)), ask, head, likely=False)
    w.block(ask)
    w.call("void", "tt.poll", lo.base)
    w.jump(head)
    return fewer
