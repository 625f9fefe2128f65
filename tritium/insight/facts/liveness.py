"""Registers and shared memory that are live over the ops of a GPU module: the compiler's own estimate.

A tile in a layout takes its registers from the op that makes it to its last use; addresses and what is rematerialized
at each use count while they are needed. ptxas knows better: where it is there, its figure is the one that counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritium import ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.layout.values import layout_of
from tritium.errors import innermost
from tritium.ir import types as T
from tritium.ir.core import Op, Result

BASE = 24  # registers of a thread that no tile explains: its place, addresses, the loop


@dataclass(frozen=True)
class Live:
    """Registers of a thread and bytes of shared memory that are live at one op."""

    line: int
    op: str
    depth: int
    registers: int
    shared: int


def liveness(module) -> tuple[Live, ...]:
    """What is live at each op of a GPU module, in order, those in loops after the loop itself."""
    out: list[Live] = []
    _block(module.body, 0, 0, 0, out)
    return tuple(out)


def most_registers(module) -> int:
    """An estimate of the registers that a thread would need to spill nothing.

    >>> from tritium.ir.text import parse_module
    >>> most_registers(parse_module("kernel @f(%n: i32) { }")) == BASE
    True
    """
    most = max((live.registers for live in liveness(module)), default=0)
    return BASE + most


def _block(block, held: int, shared: int, depth: int, out: list[Live]) -> None:
    """Walk a block backwards for what is live, then forwards to tell it. `held` registers live around it."""
    after: list[dict] = []
    live = {_key(y): _registers(y) for y in block.yields}
    defined = {_key(a) for a in block.args} | {_key(r) for op in block.ops for r in op.results}
    for op in reversed(block.ops):
        after.append(dict(live))
        for r in op.results:
            live.pop(_key(r), None)
        for x in _used(op):
            if _key(x) in defined:
                live[_key(x)] = _registers(x)
    for op, now in zip(block.ops, reversed(after)):
        mine = sum(now.values()) + sum(_registers(r) for r in op.results if _key(r) not in now)
        shared += _taken(op)
        if op.kind not in (ops.constant, ops.yield_) and op.loc:
            out.append(Live(innermost(op.loc).line, op.kind.name, depth, held + mine, shared))
        around = sum(n for key, n in now.items() if key not in {_key(r) for r in op.results})
        for region in op.regions:
            if op.kind in (ops.for_, ops.while_, ops.if_, gpu_ops.warp_specialize):
                _block(region, held + around, shared, depth + 1, out)


def _used(op):
    yield from op.operands
    for region in op.regions:
        for inner in region.ops:
            yield from _used(inner)


def _registers(x) -> int:
    """32-bit registers of a thread that a value takes."""
    t = T.element(x.type)
    bits = 64 if type(t) is T.Ptr else t.bits
    if type(x.type) is not T.Tile:
        return max(1, bits // 32)
    if type(x) is Op and x.kind in (ops.splat, ops.arange, ops.broadcast, ops.expand_dims):
        return 0  # repeated or computed from the place of the thread
    if T.is_ptr(x.type) or t is T.i1:
        return 2  # neighbours share an address; predicates are not registers
    try:
        layout = layout_of(x)
    except ValueError:
        layout = None
    return max(1, layout.registers * bits // 32) if layout else 0


def _taken(op) -> int:
    if op.kind is gpu_ops.multibuffer:
        return op.attrs["slots"] * op.attrs["tile"].numel * op.attrs["tile"].element.bytes
    if op.kind is gpu_ops.share:
        return sum(x.type.numel * x.type.element.bytes for x in op.operands)
    return 0


def _key(x):
    return (id(x.op), x.index) if type(x) is Result else (id(x), 0)
