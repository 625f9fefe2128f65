"""Registers and shared memory that are live over the ops of a GPU module: the compiler's own estimate.

A tile in a layout takes its registers from the op that makes it to its last use; addresses and what is rematerialized
at each use count while they are needed. ptxas knows better: where it is there, its figure is the one that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium import ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.layout.values import layout_of
from tritium.insight.facts.places import in_kernel, line_of, name_at
from tritium.ir import types as T
from tritium.ir.core import Block, Module, Op, Result

BASE = 24  # registers of a thread that no tile explains: its place, addresses, the loop
_WHOLE = (ops.dot, gpu_ops.dot_shared, gpu_ops.dot_buffers, gpu_ops.dot_scaled, ops.yield_)  # see `_needs_all`
_REPEATED = (ops.splat, ops.arange, ops.broadcast, ops.expand_dims)
_INDICES = (ops.add, ops.sub, ops.mul, ops.cast, gpu_ops.convert)
_PIECEWISE = 96  # registers that an assembler takes for what can be computed a few elements at a time
_FEW = 8  # registers of a value that is not told by itself


@dataclass(frozen=True)
class Live:
    """Registers of a thread and bytes of shared memory that are live at one op."""

    line: int
    op: str
    depth: int
    registers: int
    shared: int


@dataclass(frozen=True)
class Held:
    """A tile that a thread holds: the line that makes it, its name there, and its registers."""

    line: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    registers: int


@dataclass(frozen=True)
class Pressure:
    """The place of a kernel where a thread holds most, and what it holds there, the largest first."""

    line: int
    registers: int
    held: tuple[Held, ...]


def liveness(module: Module) -> tuple[Live, ...]:
    """What is live at each op of a GPU module, in order, those in loops after the loop itself."""
    return tuple(_Walk(module).out)


def most_registers(module: Module) -> int:
    """An estimate of the registers that a thread needs to spill nothing: ops that need no whole tiles take some, too.

    >>> from tritium.ir.text import parse_module
    >>> most_registers(parse_module("kernel @f(%n: i32) { }")) == BASE
    True
    """
    most = max((x.registers for x in liveness(module)), default=0)
    return max(pressure(module).registers, min(_PIECEWISE, BASE + most))


def pressure(module: Module) -> Pressure:
    """Where a thread of a GPU module holds most.

    Only ops that need all elements of their tiles at once count: products, reductions, conversions through shared
    memory, the ends of iterations. Between these, an assembler computes a tile a few elements at a time.
    """
    walk = _Walk(module)
    found: dict[tuple[int, str, tuple[int, ...], str], int] = {}
    for x in {_key(x): x for x in walk.held if type(x.type) is T.Tile}.values():
        at = walk.told(x)
        found[at] = found.get(at, 0) + walk.registers(x)
    held = sorted((Held(*at, n) for at, n in found.items()), key=lambda h: -h.registers)
    return Pressure(walk.line, BASE + walk.most, tuple(h for h in held if h.registers >= _FEW))


class _Walk:
    """What is live at each op, in `out`; the most that ops hold that need whole tiles, and the values of it."""

    def __init__(self, module: Module):
        self.out: list[Live] = []
        self.last, self.line, self.most, self.held = 0, 0, 0, list[Any]()
        self.known: dict[Any, int] = {}
        self.indices: dict[Any, bool] = {}  # whether tiles are computed from the place of the thread
        self.carried: dict[Any, Any] = {}  # what loops carry -> what they go on with
        self._block(module.body, [], 0, 0)

    def _block(self, block: Block, around: list[Any], shared: int, depth: int) -> None:
        """Walk a block backwards for what is live, then forwards to tell it. The values `around` live all the time."""
        after: list[dict] = []
        live = {_key(y): y for y in block.yields}
        defined = {_key(a) for a in block.args} | {_key(r) for op in block.ops for r in op.results}
        for op in reversed(block.ops):
            after.append(dict(live))
            for r in op.results:
                live.pop(_key(r), None)
            for x in _used(op):
                if _key(x) in defined:
                    live[_key(x)] = x
        outside = self._sum(around)
        for op, now in zip(block.ops, reversed(after)):
            mine = [*now.values(), *(r for r in op.results if _key(r) not in now)]
            registers = outside + self._sum(mine)
            shared += _taken(op)
            self.last = line_of(op) or self.last
            if op.kind not in (ops.constant, ops.yield_) and op.loc:
                self.out.append(Live(line_of(op), op.kind.name, depth, registers, shared))
            if registers > self.most and _needs_all(op):
                values = [*around, *mine]
                self.most, self.held, self.line = registers, values, self.last
            own = {_key(r) for r in op.results}
            if op.kind in (ops.for_, ops.while_):
                yields = op.regions[-1].yields
                self.carried |= {_key(x): y for x, y in zip(op.regions[-1].args[::-1], yields[::-1])}
                self.carried |= {_key(r): y for r, y in zip(op.results[::-1], yields[::-1])}
            for region in op.regions:
                if op.kind in (ops.for_, ops.while_, ops.if_, gpu_ops.warp_specialize):
                    self._block(region, [*around, *(x for key, x in now.items() if key not in own)], shared, depth + 1)

    def told(self, x: Any) -> tuple[int, str, tuple[int, ...], str]:
        """The line, name, shape and element type of a tile. What a conversion copies goes by its own name, and what a
        loop carries by that of its update."""
        made, seen = x, set[Any]()
        while _key(made) not in seen:
            seen.add(_key(made))
            if (key := _key(made)) in self.carried:
                made = self.carried[key]
            elif type(made) is Op and made.kind is gpu_ops.convert:
                made = made.operands[0]
        op = made.op if type(made) is Result else made
        loc = in_kernel(op.loc) if type(op) is Op and op.loc else None
        return (loc.line if loc else 0), name_at(loc), T.shape(x.type), str(T.element(x.type))

    def registers(self, x: Any) -> int:
        """32-bit registers of a thread that a value takes."""
        key = _key(x)
        if key not in self.known:
            self.known[key] = self._registers(x)
        return self.known[key]

    def _registers(self, x: Any) -> int:
        t = T.element(x.type)
        bits = 64 if type(t) is T.Ptr else t.bits
        if type(x.type) is not T.Tile:
            return max(1, bits // 32)
        if T.is_ptr(x.type) or t is T.i1:
            return 2  # neighbours share an address; predicates are not registers
        if self._from_place(x):
            return 0
        try:
            layout = layout_of(x)
        except ValueError:
            layout = None
        return max(1, layout.registers * bits // 32) if layout else 0

    def _from_place(self, x: Any) -> bool:
        """Whether a tile repeats numbers, or is computed from the place of the thread at each use, as indices are."""
        if type(x) is not Op or x.kind in _REPEATED:
            return type(x) is Op
        if x.kind not in _INDICES or not x.type.element.is_int:
            return False
        if x not in self.indices:
            self.indices[x] = all(type(y.type) is not T.Tile or self._from_place(y) for y in x.operands)
        return self.indices[x]

    def _sum(self, values: list[Any]) -> int:
        return sum(map(self.registers, values))


def _needs_all(op: Op) -> bool:
    return op.kind in _WHOLE or op.kind.combines or bool(op.attrs.get("shared"))


def _used(op):
    yield from op.operands
    for region in op.regions:
        for inner in region.ops:
            yield from _used(inner)


def _taken(op) -> int:
    if op.kind is gpu_ops.multibuffer:
        return op.attrs["slots"] * op.attrs["tile"].numel * op.attrs["tile"].element.bytes
    if op.kind is gpu_ops.share:
        return sum(x.type.numel * x.type.element.bytes for x in op.operands)
    return 0


def _key(x):
    return (id(x.op), x.index) if type(x) is Result else (id(x), 0)
