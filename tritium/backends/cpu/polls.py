"""Which loops ask whether their launch has been stopped, and how often: `tt.poll` (see interrupt.py).

Every `while` does, every `for` that may run for long, and the loop over programs that are not short. The question takes
as long as a few thousand elements, so it is asked after a number of rounds that follows from what a round does: every
30 us or so. That is seldom enough to cost nothing, and often enough if the estimate is wrong by a factor of a thousand.

A `while` counts its rounds, an instruction and a branch each. A `for` has an index to compare: it runs to a limit that
is nearer than its end, asks there, and goes on to the next (`emit.py`), which costs its rounds nothing. Where a round
does so much that the question is lost in it, every round asks: that is one line for LLVM to compile instead of twenty.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Op

__all__ = ["ask", "count", "is_long", "is_long_program", "rounds", "trips", "work"]

_BETWEEN = 1 << 20  # elements computed from one question to the next
_SHORT = 1 << 24  # a loop that computes no more than so many needs no question
_STRIP = 16  # what a scalar costs, in elements
_ATOMIC = 64  # and each element of an atomic
_UNKNOWN = 16  # rounds of a loop that depend on the arguments
_MOST = 1 << 16
_SHORT_PROGRAM = 1 << 14  # the pool asks after a thousand programs of no more than so many
_LONG_ROUND = 1 << 14  # a round of so many may ask every time


def trips(op) -> int | None:
    """How many rounds a `for` makes, if that is known.

    >>> from tritium.ir.text import parse_module
    >>> loop = '''kernel @k(%n: i32) {
    ...   %a = constant {value=2, type=i32} : i32
    ...   %b = constant {value=9, type=i32} : i32
    ...   %c = constant {value=3, type=i32} : i32
    ...   for %a, %b, %c {
    ...   ^(%i: i32):
    ...     yield
    ...   }
    ... }'''
    >>> [trips(op) for op in parse_module(loop).body.ops if op.kind is ops.for_]
    [3]
    """
    bounds = op.operands[:3]
    if not all(isinstance(x, Op) and x.kind is ops.constant for x in bounds):
        return None
    start, stop, step = (int(x.attrs["value"]) for x in bounds)
    return len(range(start, stop, step)) if step else None


def work(*blocks) -> int:
    """About how many elements one run of these blocks computes.

    >>> from tritium.ir.text import parse_module
    >>> work(parse_module('''kernel @k(%p: ptr<f32>) {
    ...   %x = load %p : f32
    ...   store %p, %x
    ... }''').body)
    32
    """
    return sum(_work_of(op) for block in blocks for op in block.ops)


def _work_of(op):
    if op.kind is ops.for_:
        known = trips(op)
        return work(*op.regions) * (_UNKNOWN if known is None else known)
    if op.kind is ops.while_:
        return work(*op.regions) * _UNKNOWN
    if op.kind is ops.if_:
        return max(map(work, op.regions))
    size = max([_STRIP, *[T.numel(t) for t in (*op.types, *[x.type for x in op.operands]) if type(t) is T.Tile]])
    if op.kind is ops.dot:
        return size * T.shape(op.operands[0].type)[-1] // 2
    if op.kind in (ops.atomic, ops.atomic_cas):
        return size * _ATOMIC
    return size * (1 + sum(len(region.ops) for region in op.regions))


def is_long(op) -> bool:
    """Whether a `for` may run for so long that it must ask."""
    known = trips(op)
    return known is None or known * work(*op.regions) > _SHORT


def is_long_program(body) -> bool:
    """Whether a kernel asks after programs. One that does not may be a function that calls nothing.

    >>> from tritium.ir.text import parse_module
    >>> is_long_program(parse_module("kernel @k(%p: ptr<f32>) {}").body)
    False
    """
    return work(body) > _SHORT_PROGRAM


def rounds(*blocks) -> int:
    """How many rounds of a loop with these blocks may pass before it asks.

    >>> from tritium.ir.text import parse_module
    >>> rounds(parse_module("kernel @k(%p: ptr<f32>) {}").body)
    65536
    """
    return max(1, min(_BETWEEN // max(work(*blocks), 1), _MOST))


def ask(lo, index, body):
    """Have the open `for` with this index ask."""
    if work(body) >= _LONG_ROUND:
        lo.w.call("void", "tt.poll", lo.base)
    else:
        lo.w.poll(index, lo.base, rounds(body))


def count(lo, left, ask, head):
    """Count a round and go to its loop's `head`, through the block `ask` at zero. Returns what is left before that."""
    w = lo.w
    fewer = w.effect(f"sub i32 {left}, 1", "i32")
    w.branch(w.compare("icmp eq", fewer, w.const("i32", 0)), ask, head, likely=False)
    w.block(ask)
    w.call("void", "tt.poll", lo.base)
    w.jump(head)
    return fewer
