"""Loads of tiles that are transposed on their way to an MMA: the operands that are contiguous across K where fragments
hold neighbours along it, and those that threads write to buffers whose rows are along another axis.

A thread that loads neighbours along that axis as well regroups them in its registers, and writes them to shared memory
as neighbours: in wide accesses, and so that fragments are read in wide accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Module, Op, Value, walk
from .. import ops as gpu_ops
from ..target import Target


def loads_across(module: Module, target: Target) -> dict[Op, tuple[int, int]]:
    """{load: (axis, how many neighbours along it a thread should have)}: of K, or of the rows of a buffer."""
    mma, warps, found = target.mma, module.attrs["num_warps"], {}
    if mma.gathers is None and gpu_ops.buffer_store not in module.kinds:
        return found
    carried = dict(_carried(module))
    for op in walk(module.body):
        if op.kind is gpu_ops.buffer_store:
            for load, along in _sources(op.operands[1], op.attrs["axis"], carried, set()):
                found[load] = along, 16 // T.element(load.type).bytes
        elif mma.gathers is not None and op.kind.mma and len(op.operands) > 2:
            for x, axis in ((op.operands[0], -1), (op.operands[1], -2)):
                for load, along in _sources(x, len(T.shape(x.type)) + axis, carried, set()):
                    found[load] = along, mma.gathers(op, T.element(load.type), warps)
    return found


def is_across(dot: Op, contiguous: Callable[[Op], int]) -> bool:
    """True if an operand of a dot is loaded in its block with another contiguous axis than K."""
    rank = len(dot.type.shape)
    ends = ((dot.operands[0], rank - 1), (dot.operands[1], rank - 2))
    return any(contiguous(load) != along for x, axis in ends for load, along in _sources(x, axis, {}, set()))


def _carried(module: Module) -> Iterator[tuple[Value, tuple[Value, Value]]]:
    """(parameter of a loop, (its first value, its next one))."""
    for op in walk(module.body):
        if op.kind.loop:
            heads, skip = op.kind.loop
            body = op.regions[-1]
            for arg, first, following in zip(body.args[skip:], op.operands[heads:], body.yields):
                yield arg, (first, following)


def _sources(x: Value, axis: int, carried: dict, seen: set) -> Iterator[tuple[Op, int]]:
    """The loads that a tile comes from, element by element, and the loaded tile's axis that `axis` is."""
    if x in seen or type(x.type) is not T.Tile:
        return
    seen.add(x)
    if type(x) is Arg and x in carried:
        for value in carried[x]:
            yield from _sources(value, axis, carried, seen)
    elif type(x) is Op and x.kind is ops.load:
        yield x, axis
    elif type(x) is Op and x.kind is ops.trans:
        yield from _sources(x.operands[0], x.attrs["order"][axis], carried, seen)
    elif type(x) is Op and x.kind.elementwise:
        for y in x.operands:
            yield from _sources(y, axis, carried, seen)
