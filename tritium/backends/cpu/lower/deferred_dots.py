"""Deferred dots: products of iterations that follow each other are multiplied as one (library/defer.py).

A dot of a loop may wait until the loop ends if nothing else reads its sum, the loop writes nothing that its operands
may lie in, and these are read in place. Most loops over K are like that, and take few ks in an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value, walk
from ..fuse import ops as cpu_ops
from ..library import defer as library

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering
    from .scratch import View

_MOST = 256, 512  # ks of a product of several iterations, or so many bytes of a row of A where those are more ks


def most(a: Value) -> int:
    """The ks of a product of several iterations."""
    depth, size = _MOST
    return max(depth, size // T.element(a.type).bytes)


def begin(lo: Lowering, loop: Op, inits: Sequence[Value]) -> list[Val]:
    """Make room for the pending products of a loop's dots, before the loop; for no dots that may not wait."""
    body = loop.regions[-1]
    args, used = body.args[len(body.args) - len(inits):], cpu_ops.reads(body)
    sums = [y for y, arg in zip(body.yields, args, strict=True)
            if type(y) is Op and y.kind is ops.dot and y.operands[2] is arg and used[arg] == used[y] == 1]
    found = [y for y in sums if _is_short(y)]
    if any(op.kind.effects_of(op) == "write" for op in walk(body)):
        return []
    for y in found:
        pending = lo.pending_dots[y] = lo.w.alloca(f"[{library.PENDING.size} x i8]", align=8)
        depth = lo.w.gep("i8", pending, lo.const(library.PENDING.offset("K")))
        lo.w.store(lo.const(library.NOTHING), depth, align=8)
    return [lo.pending_dots[y] for y in found]


def defer(lo: Lowering, pending: Val, operands: Sequence[View], limit: int, function: Val,
          arguments: Sequence[Val]) -> None:
    """Have a product computed together with those of the next iterations, if its operands stay where they are."""
    w = lo.w
    stays = w.all_of(*(w.compare("icmp ne", v.start, lo.address(v.copy)) for v in operands if v.copy is not None))
    y, size = operands[1], lo.const(operands[1].element.bytes)
    step = lo.const(lo.mul(y.strides[0], y.element.bytes))  # of B, from one k to the next
    if y.by_columns is not None:
        step = w.select(y.by_columns, size, step)
    stays = w.const("i1", True) if stays is None else stays
    w.call("void", "tt.dot.defer", pending, lo.const(limit), size, step, stays, function, *arguments)


def end(lo: Lowering, pending: Sequence[Val]) -> None:
    """Compute the products that are pending behind a loop."""
    for product in pending:
        lo.w.call("void", "tt.dot.flush", product)


def _is_short(op: Op) -> bool:
    """Whether several products of a dot of matrices fit into one."""
    a = op.operands[0]
    return len(T.shape(a.type)) == 2 and T.shape(a.type)[1] < most(a)
