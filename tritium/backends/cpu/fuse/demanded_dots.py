"""Demanded elements of dots: the masks of the stores that the result of a dot reaches.

No store writes the rows and columns that lie behind the end of the matrix: 32 of the 128 rows of two tiles of 64 if the
matrix has 96 rows, 15 of 16 if it has one. A dot need not compute them.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Result, Value, closure, walk
from . import ops as cpu_ops


def masks_of_stores(body: Block) -> dict[Op, tuple[Value, ...]]:
    """Each dot whose result reaches memory through masked stores only, and the masks of these stores.

    Between a dot and a store there may be elementwise ops, accumulators of other dots, loops and branches. Masks that
    such a loop computes anew do not count: what one iteration adds, another one stores.

    >>> from tritium.ir.text import parse_module
    >>> kernel = parse_module('''kernel @f(%p: tile<16x16xptr<f32>>, %x: tile<16x16xf32>, %m: tile<16x16xi1>) {
    ...   %0 = dot %x, %x, %x : tile<16x16xf32>
    ...   store %p, %0, %m
    ... }''')
    >>> [[mask.name for mask in masks] for masks in masks_of_stores(kernel.body).values()]
    [['m']]
    """
    dots = [op for op in walk(body) if op.kind is ops.dot]
    if not dots:
        return {}
    users = _users(body)
    found = {dot: _masks(dot, users) for dot in dots}
    return {dot: masks for dot, masks in found.items() if masks}


_Users = dict[Value, list[tuple[Op, int, "Op | None"]]]


def _users(body: Block) -> _Users:
    """Value -> (op that reads it, which of its operands it is, the op around that), for each time it is read."""
    users: _Users = {}

    def visit(block: Block, around: Op | None) -> None:
        for op in block.ops:
            for k, x in enumerate(op.operands):
                users.setdefault(x, []).append((op, k, around))
            for region in op.regions:
                visit(region, op)

    visit(body, None)
    return users


def _masks(dot: Op, users: _Users) -> tuple[Value, ...] | None:
    """The masks of the stores that a dot reaches; None if it reaches anything else."""
    masks, loops, seen = dict[Value, None](), set[Op](), set[Value]()
    todo: list[Value] = [*dot.results]
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        for op, k, around in users.get(x, ()):
            if cpu_ops.is_marker(op):
                continue
            if op.kind is ops.store and k == 1 and op.mask is not None:
                masks[op.mask] = None
            elif op.kind is ops.dot and k == 2 or op.kind.elementwise and not divides_integers(op):
                todo += op.results
            elif op.kind is ops.for_ and k >= 3:
                todo += _carried(op, k - 3)
                loops.add(op)
            elif op.kind.terminator and around is not None and around.kind is ops.for_:
                todo += _carried(around, k)
                loops.add(around)
            elif op.kind.terminator and around is not None and around.kind is ops.if_:
                todo.append(around.results[k])
            else:
                return None
    inside = {x for loop in loops for x in _made_in(loop)}
    return None if any(_is_made_in(mask, inside) for mask in masks) else tuple(masks)


def divides_integers(op: Op) -> bool:
    """True for a quotient or remainder of integers, which may trap where its operands were not computed."""
    return (op.kind is ops.div or op.kind is ops.rem) and not T.element(op.type).is_float


def _carried(loop: Op, k: int) -> tuple[Value, Value]:
    """What a loop carries as number `k`, in its body and behind it."""
    return loop.regions[0].args[1 + k], loop.results[k]


def _made_in(loop: Op) -> set[Op | Arg]:
    """The ops of a loop, and the parameters of its regions."""
    body = [*walk(loop.regions[0])]
    return {*body, *(arg for op in (loop, *body) for region in op.regions for arg in region.args)}


def _is_made_in(x: Value, inside: set[Op | Arg]) -> bool:
    """True if a value is computed from some of these."""
    onward = lambda x: (x.op,) if type(x) is Result else x.operands if type(x) is Op else ()
    return any(y in inside for y in closure([x], onward))
