"""What a target can do with the dots and loads of a module: what a pipeline schedule asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....analysis.axis_info import analyze
from ....ir.core import Module, Op
from ....named_tuples import NamedTuple
from ...occupancy import Machine
from ..analysis.preconditions import Row
from ..layout.across import is_across
from ..multiprocessor import Multiprocessor
from ..target import Target
from .trace import Threads


class Capabilities(NamedTuple):
    """What the target can do with dots and loads.

    fits(dot): it has an asynchronous MMA for this dot on shared-memory operands. multiplies(dot): it has an MMA for it
    with operands in registers, and asynchronous copies to buffers that these are read from. copies(dot): it has no MMA
    for it, but asynchronous copies to buffers that threads read. axis(load): the contiguous axis of a load.
    vector(load): the bytes of one asynchronous copy. takes(dot, operand, axis): operand "a" or "b" may be contiguous
    along `axis`. lhs_once(dot): an lhs in registers is not replicated over threads. threads: those that multiply.
    """

    fits: Callable
    multiplies: Callable
    copies: Callable
    axis: Callable
    takes: Callable
    vector: Callable
    lhs_once: Callable
    threads: Threads


_NOBODY = Threads(Multiprocessor(), Machine(0, 0, 0, 0, 0), 1, 0, 0)
_no = lambda *_: False
NO_DOTS = Capabilities(_no, _no, _no, _no, _no, _no, _no, _NOBODY)  # for loops without dots


def capabilities(target: Target, module: Module, nonnegative: list[tuple[Row, ...]] | None) -> Capabilities:
    """The `Capabilities` of a target for the dots and loads of a module. Asynchronous copies have up to 16 bytes.

    Values that are assumed not to be negative are added to `nonnegative`; see `axis_info.analyze`.
    """
    info, warps = analyze(module, nonnegative), module.attrs["num_warps"]
    mma, copies_itself = target.mma, target.async_copies is not None

    def types(dot: Op) -> tuple[Any, ...]:
        return dot.operands[0].type, dot.operands[1].type, dot.type, dot.attrs["precision"], warps

    def multiplies(dot: Op) -> bool:
        if not copies_itself or len(dot.type.shape) != 2 or mma.fragments(*types(dot)) is None:
            return False
        return mma.gathers is None or not is_across(dot, axis)  # else its operand is transposed in registers

    def copies(dot: Op) -> bool:
        return copies_itself and len(dot.type.shape) == 2 and mma.accumulator(*types(dot)) is None

    def axis(load: Op) -> int:
        known = info(load.operands[0])
        return max(range(len(known.contiguity)), key=lambda k: (known.contiguity[k], k))

    def takes(dot: Op, operand: str, axis: int) -> bool:
        return mma.takes(dot.operands["ab".index(operand)].type, operand, axis)

    def vector(load: Op) -> int:
        known, size = info(load.operands[0]), load.type.element.bytes
        along = axis(load)
        width = min(known.contiguity[along], known.divisibility[along] // size, load.type.shape[along], 16 // size)
        if len(load.operands) > 1:
            width = min(width, info(load.operands[1]).constancy[along])
        return width * size

    threads = Threads(target.multiprocessor, target.machine, warps, target.machine.thread_registers,
                      target.shared_bytes)  # fmt: skip
    return Capabilities(
        fits=lambda dot: mma.in_shared(*types(dot)), multiplies=multiplies, copies=copies, axis=axis, takes=takes,
        vector=vector, lhs_once=lambda dot: mma.lhs_once(dot.type.shape[0], warps), threads=threads,
    )  # fmt: skip
