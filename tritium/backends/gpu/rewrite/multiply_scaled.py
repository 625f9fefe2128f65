"""Block-scaled operands: dots that the target multiplies as they are become `dot_scaled`, others forget the hint.

    %9 = dot %5, %8, %acc, %a, %b, %sa, %sb {formats=("e4m3", "e4m3")}     %5 and %8 are %a and %b, upcast and scaled
    %9 = dot_scaled %a, %b, %acc, %sa, %sb {formats=("e4m3", "e4m3")}
"""

from __future__ import annotations

from .... import ops
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from .. import ops as gpu_ops
from ..target import Target


def multiply_scaled(module: Module, target: Target) -> Module:
    """Use the block-scaled MMA where there is one. The blocks of a cluster split plain dots only."""
    if ops.dot not in module.kinds:
        return module
    if not any(op.kind is ops.dot and len(op.operands) > 3 for op in walk(module.body)):
        return module
    warps, alone = module.attrs["num_warps"], module.attrs.get("num_ctas", 1) == 1

    def rule(b: Rewriter, op: Op) -> Value | None:
        if op.kind is not ops.dot or len(op.operands) == 3:
            return None
        left, right, acc, lhs, rhs, *scales = op.operands
        formats = op.attrs["formats"]
        types = [x.type for x in scales]
        if alone and target.mma.scaled(lhs.type, rhs.type, op.type, types, formats, warps) is not None:
            return gpu_ops.dot_scaled(b, lhs, rhs, acc, *scales, formats=formats)
        return b.emit_as_is(ops.dot, (left, right, acc), {**op.attrs, "formats": None})

    return dce(sweep(module, rule))
