"""What it costs to have a tile in another layout than its own, in bytes that change threads.

An operation on an element counts as `CostModel.operation_bytes`. `placed(x, layout)` is true if the value is there
already, or will be before the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir import types as T
from ....ir.core import Op, Value, closure
from .. import ops as gpu_ops
from ..ops import bytes_of
from .choose import Choice
from .linear import Layout, conversion
from .rules import OPERAND, recomputes_in

Placed = Callable[[Value, Layout | None], bool]


def transfer_cost(choice: Choice, placed: Placed, x: Value, layout: Layout | None, most: int) -> int:
    """Bytes that change threads for `x` to be in `layout`, at most `most`."""
    cost = choice.remat.cost(x)
    if cost == 0 or placed(x, layout):
        return 0
    if cost is not None:
        return min(cost, most)
    assert layout is not None  # scalars cost nothing
    most = min(most, conversion_cost(choice, x, layout))
    return recompute_cost(choice, placed, x, layout, most) if recomputes_in(x, layout) else most


def conversion_cost(choice: Choice, x: Value, layout: Layout) -> int:
    """Bytes that change threads if a tile is converted from its anchor. Conditions are made bytes by an operation."""
    if conversion(choice.anchor(x), layout) not in ("lanes", "shared"):
        return 0
    return bytes_of(x.type) + (x.type.numel * choice.cost.operation_bytes if T.element(x.type) is T.i1 else 0)


def recompute_cost(choice: Choice, placed: Placed, x: Op, layout: Layout, most: int) -> int:
    """Bytes that change threads if a tile is recomputed, and those that its operations count as, at most `most`. An
    operand that is read twice, as one that is joined with itself, counts once."""
    moves = x.kind in OPERAND  # data movement in registers is free
    total = 0 if moves else x.type.numel * choice.cost.operation_bytes
    for y, wanted in dict.fromkeys((y, choice.operand_layout(x, k, layout)) for k, y in enumerate(x.operands)):
        if total >= most:
            return most
        total += transfer_cost(choice, placed, y, wanted, most - total)
    return min(total, most)


def replicates_work(choice: Choice, x: Op, layout: Layout) -> bool:
    """True if recomputing a large broadcast tile in `layout`, or one that much is computed of, would repeat its work in
    several warps."""
    if x.kind in OPERAND:
        return False
    once = choice.anchor(x).registers
    if not choice.is_rematerializable(x):
        return choice.cost.converted_registers <= once <= layout.registers // 2
    converting = choice.cost.barriers_alone + 2 * once  # a store and a load of each element
    return 2 * once <= layout.registers and 0 < choice.cost.barriers_alone and \
        converting < (layout.registers - once) * _work(x)


def _work(x: Op) -> int:
    """The elementwise ops that compute a tile from buffers; 0 for index arithmetic and masks, which read none."""
    tiles = [*closure([x], lambda y: [z for z in y.operands if type(z) is Op and type(z.type) is T.Tile])]
    reads = any(y.kind is gpu_ops.buffer_load for y in tiles)
    return sum(y.kind.elementwise and y.type.numel == x.type.numel for y in tiles) if reads else 0
