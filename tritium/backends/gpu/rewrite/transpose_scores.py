"""Compute the scores of attention in the order of axes in which the next product reads them.

    s = dot q, k'                      t = dot k, q'
    p = exp2 s - l                     u = exp2 t - l'
    dv = dot p', do, dv       ->       dv = dot u, do, dv

An asynchronous MMA reads its lhs from registers, in the layout of another's sums, but not transposed: the transpose of
what was computed from a dot goes through shared memory, between two barriers. The dot itself may be transposed at no
cost, if both its operands are loaded. Then it may also have few rows: an MMA may have few columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....named_tuples import NamedTuple
from ....passes.dce import dce
from ....passes.transposes import Transposes, transposed
from ..pipeline.capabilities import capabilities
from ..pipeline.loop_info import LoopInfo, is_zero, untransposed
from ..target import Target
from .swap_operands import swapped


def transpose_scores(module: Module, target: Target) -> Module:
    """Transpose dots in loops if most dots read transposes of what is computed from their results."""
    if ops.dot not in module.kinds or ops.trans not in module.kinds or target.mma.started is None:
        return module
    can = capabilities(target, module, [])
    loops = [op for op in walk(module.body) if op.kind is ops.for_]
    found = [scores for loop in loops for scores in _scores(LoopInfo.of(loop, can))]
    dots = {op for scores in found for op in scores.dots}
    readers = {op for scores in found for op in scores.readers}

    def rule(b: Rewriter, op: Op) -> Value | None:
        if op.kind is ops.dot and b.original in dots:
            left, right, total = op.operands
            operands = _flipped(b, right), _flipped(b, left), Transposes(b).of(total)
            return transposed(b, b.emit_as_is(ops.dot, operands, op.attrs, (), op.loc))
        if op.kind is not ops.dot or b.original not in readers:
            return None
        left, flipped = untransposed(op.operands[0])
        made = Transposes(b).of(left)
        return b.emit_as_is(ops.dot, (made if flipped else transposed(b, made), *op.operands[1:]), op.attrs, (), op.loc)

    return dce(sweep(module, rule)) if found else module


def _flipped(b: Rewriter, x: Value) -> Value:
    inner, flipped = untransposed(x)
    return inner if flipped else transposed(b, x)


class _Scores(NamedTuple):
    """Tiles that elementwise ops connect: dots, what is computed from them, and dots that read it as their lhs."""

    dots: set[Op]
    tiles: set[Op]
    readers: set[Op]


def _scores(info: LoopInfo) -> Iterator[_Scores]:
    """The scores of a loop that are to be transposed."""
    seen: set[Op] = set()
    for dot in info.body.ops:
        if dot.kind is ops.dot and dot not in seen:
            scores = _scores_of(info, dot)
            if scores is not None:
                seen |= scores.dots
                flipped = sum(untransposed(x.operands[0])[1] for x in scores.readers)
                if 2 * flipped > len(scores.readers):
                    yield scores


def _scores_of(info: LoopInfo, dot: Op) -> _Scores | None:
    """The scores with this dot; None if they cannot be transposed."""
    todo, scores = [dot], _Scores(set(), set(), set())
    while todo:
        op = todo.pop()
        if op in scores.dots or op in scores.tiles:
            continue
        if op in info.body.yields or not (_turns(info, op) if op.kind is ops.dot else _computes(info, op)):
            return None
        (scores.dots if op.kind is ops.dot else scores.tiles).add(op)
        if op.kind is not ops.dot:
            todo += [x for x in op.operands if type(x) is Op and x in info.inside and info.needs_dots(x)]
        users = info.users(op)
        views = [x for x in users if untransposed(x)[1]]
        for user in (*(x for x in users if x not in views), *(x for view in views for x in info.users(view))):
            if user.kind is not ops.dot:
                todo.append(user)
            elif untransposed(user.operands[0])[0] is op and op not in user.operands[1:] and _reads(info, user):
                scores.readers.add(user)
            else:
                return None
    return scores


def _reads(info: LoopInfo, dot: Op) -> bool:
    """True for a dot that reads an lhs from registers, each element of one thread."""
    return info.can.fits(dot) and info.can.lhs_once(dot)


def _computes(info: LoopInfo, op: Op) -> bool:
    """True for an elementwise op that meets no loaded tile of its size."""
    return op.kind.elementwise and all(load.type.shape != op.type.shape for load in info.loads_behind(op))


def _turns(info: LoopInfo, dot: Op) -> bool:
    """True for a dot that may be transposed: of loaded operands of 16 bits, with an MMA for that."""
    a, b, total = dot.operands
    loaded = all(info.outside(x) or info.source(x)[0] is not None for x in (a, b))
    return loaded and is_zero(total) and T.element(a.type).bits == 16 and info.can.fits(swapped(dot))
