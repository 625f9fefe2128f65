"""Programs from the other end: a GPU starts them in the order of their index, and the longest should come first.

    i = program_id(0)                        i = num_programs(0) - 1 - program_id(0)
    for n in range(0, (i + 1) * 128):   ->   for n in range(0, (i + 1) * 128):

Of a causal mask's programs the last have the most to do. If they start last, most of the device waits for a few of them
in the end. Which program starts first means nothing to a kernel that does not wait for other programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ir.core import Op, walk
from ....ir.rewrite import sweep
from ..analysis.programs import computed_from, synchronizes

if TYPE_CHECKING:
    from ....ir.core import Module, Value
    from ....ir.rewrite import Rewriter

__all__ = ["order_programs"]


def order_programs(module: Module) -> Module:
    """Number programs from the other end where those with the greatest index have the longest loops of dots."""
    axis = _longest_last(module)
    if axis is None or module.attrs.get("num_ctas", 1) > 1 or any(map(synchronizes, walk(module.body))):
        return module

    def rule(b: Rewriter, op: Op) -> Value | None:
        if b.original is None or op.kind is not ops.program_id or op.attrs["axis"] != axis:
            return None
        last = ops.sub(b, ops.num_programs(b, axis=axis), ops.constant(b, value=1, type=T.i32))
        return ops.sub(b, last, b.emit_as_is(ops.program_id, (), op.attrs))

    return sweep(module, rule)


def _longest_last(module: Module) -> int | None:
    """The axis whose program index decides where loops around dots end, and not where they start, if it is one."""
    loops = [op for op in walk(module.body) if op.kind is ops.for_ and any(x.kind.mma for x in op.regions[0].ops)]
    axes = lambda k: {x.attrs["axis"] for loop in loops for x in computed_from(loop.operands[k])
                      if type(x) is Op and x.kind is ops.program_id}  # fmt: skip
    ends = axes(1)
    return ends.pop() if len(ends) == 1 and not axes(0) else None
