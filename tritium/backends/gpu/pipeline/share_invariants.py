"""Operands that stay as they are in a loop go to shared memory before it.

    for i:                                    bk = share k
      s = dot p, k'                           for i:
      x = dot s, k                    ->        s = dot_shared p, bk
      p = ...                                   x = dot_shared s, bk
                                                p = ...
                                              release bk

An asynchronous MMA reads its rhs from shared memory. A dot of a loop that is not pipelined, as it has nothing to load,
would write it there in each iteration, and keep it in registers in between. The lhs, which is computed, stays in
registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....ir.core import Op, Result, walk
from ....ir.rewrite import copy_region, sweep
from ....passes.dce import dce
from .. import ops as gpu_ops
from ..ops import bytes_of, op_of
from .capabilities import capabilities
from .loop_info import LoopInfo

if TYPE_CHECKING:
    from ....ir.core import Module, Value
    from ....ir.rewrite import Rewriter
    from ..target import Target


def share_invariants(module: Module, target: Target) -> Module:
    """Stage loop-invariant operands of asynchronous MMAs in shared memory, if occupancy allows."""
    if ops.for_ not in module.kinds or ops.dot not in module.kinds or target.mma.started is None:
        return module
    can = capabilities(target, module, None)
    room = target.shared_bytes * module.attrs["num_warps"] // target.cost.warps_with_all_registers

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if op.kind is not ops.for_ or any(inner.kind.loop for inner in walk(op.regions[0])):
            return None
        info = LoopInfo.of(op, can)
        found = {dot: _staged(info, dot) for dot in info.dots if _is_invariant(info, dot)}
        staged = dict.fromkeys(found.values())
        if not staged or sum(bytes_of(x.type) for x, _ in staged) > room:
            return None
        return _shared(b, info, found)

    swept = sweep(module, rule)
    return module if swept is module else dce(swept)


def _is_invariant(info: LoopInfo, dot: Op) -> bool:
    """True for a dot of an rhs from before the loop and an lhs that is computed in it, each element by one thread."""
    lhs, (rhs, _) = dot.operands[0], _base(dot.operands[1])
    return info.outside(rhs) and not info.outside(lhs) and info.source(lhs)[0] is None and info.can.lhs_once(dot)


def _base(x: Value) -> tuple[Value, bool]:
    """(the tile that is transposed to an operand, whether one is)."""
    if type(x) is Op and x.kind is ops.trans and x.attrs["order"] == (1, 0):
        return x.operands[0], True
    return x, False


def _axis(info: LoopInfo, dot: Op) -> int:
    """The axis of the rows of an rhs in its buffer: that of its load, if the MMA can read it so, else along K."""
    x, transposed = _base(dot.operands[1])
    axis = info.can.axis(x) if type(x) is Op and x.kind is ops.load else 1
    axis = 1 - axis if transposed else axis
    return axis if info.can.takes(dot, "b", axis) else 0


def _staged(info: LoopInfo, dot: Op) -> tuple[Value, int]:
    """(tile, axis of its rows in the buffer) from which a dot reads its rhs, transposed or not."""
    x, transposed = _base(dot.operands[1])
    axis = _axis(info, dot)
    return x, 1 - axis if transposed else axis


def _shared(b: Rewriter, info: LoopInfo, found: dict[Op, tuple[Value, int]]) -> tuple[Value, ...]:
    """The results of the loop on staged operands."""
    loop, body = info.loop, info.body
    buffers = {(x, axis): gpu_ops.share(b, x, axis=axis) for x, axis in dict.fromkeys(found.values())}
    with b.region([a.type for a in body.args], [a.name for a in body.args]) as region:
        names: dict[Value, tuple] = {old: (new,) for old, new in zip(body.args, region.args)}
        value = lambda x: names.get(op_of(x), (x,))[x.index if type(x) is Result and op_of(x) in names else 0]
        for op in body.ops[:-1]:
            operands = [value(x) for x in op.operands]
            if op in found:
                lhs, rhs = (x.type for x in op.operands[:2])
                made = gpu_ops.dot_shared(b, operands[0], buffers[found[op]], operands[2], lhs=lhs, rhs=rhs, a_axis=1,
                                          b_axis=_axis(info, op), precision=op.attrs["precision"], pending=0,
                                          loc=op.loc)  # fmt: skip
            else:
                made = b.emit(op.kind, operands, op.attrs, [copy_region(b, r, names) for r in op.regions], op.loc)
            names[op] = made if type(made) is tuple else (made,)
        ops.yield_(b, *map(value, body.yields))
    outs = b.emit_as_is(ops.for_, loop.operands, loop.attrs, (region.block,))
    gpu_ops.release(b, next(iter(buffers.values())))
    return outs if type(outs) is tuple else (outs,)
