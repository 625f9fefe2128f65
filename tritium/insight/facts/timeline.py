"""The pipelines of a GPU kernel's loops: what runs before, in and after each, and how loads overlap with work.

    for loop in timeline(launch).loops:
        loop.how, loop.distance        # "software pipeline", and how many iterations loads run ahead
        loop.prologue, loop.body, loop.epilogue, loop.producer
        schedule(loop)                 # bars: what the units do when, by the estimates in cycles

Cycles are estimates from a device's peaks and a memory latency of 600 cycles: they show what hides what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium import ops
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.layout.linear import conversion
from tritium.backends.gpu.layout.values import layout_of
from tritium.backends.gpu.passes import pipeline
from tritium.backends.gpu.pipeline.specialize_warps import specialize_warps
from tritium.backends.gpu.pipeline.warp_plan import refusal
from tritium.insight.emulator.targets import gpu_of
from tritium.insight.facts.devices import Device, devices_for
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.liveness import Live, liveness
from tritium.insight.facts.places import line_of
from tritium.insight.facts.roofline import work_of
from tritium.ir import types as T
from tritium.ir.core import Op, walk
from tritium.passes import first_that

LATENCY = 600  # cycles from a request to DRAM to its data

_LOADS = (ops.load, gpu_ops.async_load, gpu_ops.tma_load, gpu_ops.row_load,
          gpu_ops.element_load)  # fmt: skip
_STORES = (ops.store, ops.atomic, ops.atomic_cas, gpu_ops.tma_store)
_DOTS = (ops.dot, gpu_ops.dot_shared, gpu_ops.dot_buffers, gpu_ops.dot_scaled)
_WAITS = (gpu_ops.async_wait, gpu_ops.mbarrier_wait, gpu_ops.dot_wait)
_LOOPS = (ops.for_, ops.while_)


@dataclass(frozen=True)
class Work:
    """Something that a program does on one line: `kind` is "load", "mma", "compute", "reduce", "convert", "store" or
    "wait"; `amount` is bytes of memory ops and operations of others."""

    kind: str
    line: int
    what: str
    amount: int
    cycles: float


@dataclass(frozen=True)
class Loop:
    """One loop. `distance` is how many iterations its loads run ahead; `producer` is what producer warps do."""

    line: int
    how: str  # "plain", "prefetch", "software pipeline" or "producer warp"
    distance: int
    slots: int
    prologue: tuple[Work, ...]
    body: tuple[Work, ...]
    epilogue: tuple[Work, ...]
    producer: tuple[Work, ...] = ()

    @property
    def load_cycles(self) -> float:
        """Cycles in which memory is busy with one iteration's loads, latency not counted."""
        loads = [w for w in (*self.body, *self.producer) if w.kind == "load"]
        return sum(max(0.0, w.cycles - LATENCY) for w in loads)

    @property
    def work_cycles(self) -> float:
        """Cycles of one iteration's work without its loads and waits."""
        return sum(w.cycles for w in self.body if w.kind not in ("load", "wait"))

    @property
    def hides_latency(self) -> bool:
        """Whether the work of the iterations in between is as long as a load's latency."""
        return self.distance * max(self.work_cycles, self.load_cycles) >= LATENCY


@dataclass(frozen=True)
class Bar:
    """A piece of a schedule, in cycles."""

    row: str  # "load", "mma" or "other"
    iteration: int
    start: float
    end: float
    phase: str  # "prologue", "steady" or "epilogue"


@dataclass(frozen=True)
class Obstacle:
    """Why no producer warp loads for loops around dots, on a GPU that has TMA: where, why, and what helps."""

    line: int
    why: str
    remedy: str


@dataclass(frozen=True)
class Timeline:
    """The loops of a kernel, what is live at each op, and why it has no producer warp."""

    device: str
    roles: tuple[str, ...]
    loops: tuple[Loop, ...]
    live: tuple[Live, ...]
    obstacle: Obstacle | None = None


def timeline(launch: Launch, misses: float = 1.0) -> Timeline:
    """The pipelines of a launch's kernel; a CPU's has none. `misses` is the share of its loads that come from DRAM."""
    if not launch.is_gpu:
        return Timeline("", (), (), ())
    module, device = launch.stages["ttgir"], devices_for(launch.target.arch)[-1]
    costs = _Costs(device, module, misses)
    roles = next((op for op in walk(module.body) if op.kind is gpu_ops.warp_specialize), None)
    names = ("producer warp", "consumer warps") if roles is not None else ("all warps",)
    obstacle = _obstacle(launch) if roles is None else None
    return Timeline(device.name, names, tuple(_loops(module.body, costs)), liveness(module), obstacle)


def _obstacle(launch: Launch) -> Obstacle | None:
    """What the pass that gives producer warps says of a kernel without one."""
    gpu, module = gpu_of(launch.target), launch.stages["ttir"]
    for step in pipeline(gpu):
        if isinstance(step, first_that):  # the ways to pipeline loops
            break
        module = step(module)
    refused = refusal(module, gpu)
    if refused is not None:
        cause = refused.cause if isinstance(refused.cause, Op) else None
        where = f" (line {line_of(cause)})" if cause is not None and cause.loc else ""
        return Obstacle(line_of(refused.op), refused.why + where, refused.remedy)
    made = specialize_warps(module, gpu)
    if made is module:
        return None
    loop = next(op for op in walk(made.body) if op.kind in _DOTS)
    return Obstacle(line_of(loop), "its buffers leave too little shared memory to the rest of the kernel",
                    "use smaller tiles or fewer stages")


class _Costs:
    """Cycles that ops take on one processor, by a device's peaks."""

    def __init__(self, device: Device, module: Any, misses: float):
        self.device, self.misses = device, misses
        self.cycle = 1 / (device.clock * 1e9)
        self.slots = max((op.attrs["slots"] for op in walk(module.body) if op.kind is gpu_ops.multibuffer), default=1)

    def memory(self, size: int) -> float:
        """Seconds of a load or store of `size` bytes: its share of the bandwidth of DRAM or L2, and the latency."""
        dram, l2 = self.device.dram * self.device.sustained_dram, self.device.l2
        seconds = size / 1e9 * self.device.processors * max(self.misses / dram, 1 / l2)
        return LATENCY + seconds / self.cycle

    def work(self, kind: str, count: int) -> float:
        """So many operations of a class."""
        return count / (self.device.rate(kind) / self.device.processors) / self.cycle


def _loops(block, costs: _Costs):
    for k, op in enumerate(block.ops):
        if op.kind is gpu_ops.warp_specialize:
            yield from _specialized(op, costs)
        elif op.kind in _LOOPS:
            inner = list(_loops(op.regions[-1], costs))
            yield from inner
            if not inner or any(w.kind == "mma" for w in _works(op.regions[-1].ops, costs)):
                found = _loop(op, block, k, costs)
                if found.body:
                    yield found
        else:
            for region in op.regions:
                yield from _loops(region, costs)


def _loop(op, block, k: int, costs: _Costs) -> Loop:
    body = tuple(_works(op.regions[-1].ops, costs))
    start = max((n + 1 for n in range(k) if block.ops[n].kind in _LOOPS), default=0)
    end = next((n for n in range(k + 1, len(block.ops)) if block.ops[n].kind in _LOOPS), len(block.ops))
    before, after = (tuple(_works(part, costs)) for part in (block.ops[start:k], block.ops[k + 1 : end]))
    lines = {w.line for w in body if w.kind == "load"}
    ahead = [w for w in before if w.kind == "load" and w.line in lines]
    copies = any(inner.kind is gpu_ops.async_load for inner in op.regions[-1].ops)
    distance = len(ahead) // max(1, len({w.line for w in ahead})) if ahead else 0
    how = "software pipeline" if copies and distance else "prefetch" if distance else "plain"
    return Loop(line_of(op), how, distance, costs.slots if copies else 1,
                before if distance else (), body, tuple(w for w in after if w.kind != "wait") if distance else ())


def _specialized(op, costs: _Costs):
    """Loops of consumers, each with the producer's loop that feeds it."""
    feeding = [loop for loop in _innermost(op.regions[0]) if any(w.kind == "load" for w in _works(loop, costs))]
    eating = [loop for loop in _innermost(op.regions[1]) if any(w.kind == "mma" for w in _works(loop, costs))]
    after = tuple(w for w in _works([x for x in walk(op.regions[1]) if x.kind in _STORES], costs))
    for k, body in enumerate(eating):
        producer = tuple(_works(feeding[min(k, len(feeding) - 1)], costs)) if feeding else ()
        loads = [w for w in producer if w.kind == "load"]
        yield Loop(_line_of(body), "producer warp", costs.slots, costs.slots,
                   tuple(loads), tuple(w for w in _works(body, costs)), after, producer)


def _innermost(block):
    """Ops of the innermost loops of a block."""
    for op in block.ops:
        if op.kind in _LOOPS:
            inner = list(_innermost(op.regions[-1]))
            yield from inner or [op.regions[-1].ops]
        else:
            for region in op.regions:
                yield from _innermost(region)


def _works(block_ops, costs: _Costs):
    """What ops do, those that compute on one line together."""
    last = None
    for op in block_ops:
        made = _work(op, costs)
        if made is None:
            continue
        if last is not None and made.kind == last.kind == "compute" and made.line == last.line:
            last = Work("compute", last.line, last.what, last.amount + made.amount, last.cycles + made.cycles)
            continue
        if last is not None:
            yield last
        last = made
    if last is not None:
        yield last


def _work(op, costs: _Costs) -> Work | None:
    line = line_of(op)
    if op.kind in (*_LOADS, *_STORES):
        tile = _tile(op)
        size = T.numel(tile) * _bytes(tile)
        kind = "load" if op.kind in _LOADS else "store"
        cycles = costs.memory(size) - (LATENCY if kind == "store" else 0)
        return Work(kind, line, f"{_NAMES.get(op.kind, kind)} {tile}", size, cycles)
    if op.kind in _DOTS:
        kind, count = _dot_work(op)
        return Work("mma", line, f"{op.kind.name} {op.type}", count, costs.work(kind, count))
    if op.kind in _WAITS:
        return Work("wait", line, op.kind.name.replace("_", " "), 0, 0.0)
    if op.kind is gpu_ops.convert:
        if conversion(layout_of(op.operands[0]), layout_of(op)) in ("same", "registers"):
            return None
        size = T.numel(op.type) * _bytes(op.type)
        return Work("convert", line, f"through shared memory {op.type}", size, 2 * size / 128 + 30)
    kind, count = work_of(op)
    if not count:
        return None
    name = "reduce" if op.kind.combines else "compute"
    return Work(name, line, f"{name} {op.types[0] if op.types else ''}", count, costs.work(kind, count))


def _dot_work(op) -> tuple[str, int]:
    if op.kind is ops.dot:
        return work_of(op)
    if op.kind is gpu_ops.dot_scaled:
        return "f8", 2 * T.numel(op.type) * op.operands[0].type.shape[-1]
    lhs = op.attrs["lhs"]
    t, count = lhs.element, 2 * T.numel(op.type) * lhs.shape[-1]
    if op.kind is gpu_ops.dot_buffers:
        return ("fp64" if t is T.f64 else "fp32"), count
    return ("tf32" if t is T.f32 else "f8" if t.bits == 8 and t.is_float else "i8" if t.bits == 8 else "f16"), count


_NAMES = {gpu_ops.async_load: "cp.async", gpu_ops.tma_load: "TMA load", gpu_ops.tma_store: "TMA store",
          gpu_ops.row_load: "bulk copy",
          gpu_ops.element_load: "element load", ops.atomic: "atomic", ops.atomic_cas: "atomic"}  # fmt: skip


def _tile(op):
    if "tile" in op.attrs:
        return op.attrs["tile"]
    if op.kind is gpu_ops.tma_store:
        return op.operands[0].type
    return op.type if op.types else op.operands[1].type


def _bytes(t) -> int:
    element = T.element(t)
    return 8 if type(element) is T.Ptr else element.bytes


def _line_of(block_ops) -> int:
    return next((line_of(op) for op in block_ops if op.kind in _DOTS), 0)


def schedule(loop: Loop, iterations: int = 6) -> tuple[Bar, ...]:
    """What the memory system, the tensor cores and the other units do over a few iterations.

    A load is issued when the work that used its slot begins; work begins when its loads have arrived and the work
    before it is done.

    >>> work = (Work("load", 1, "", 0, LATENCY + 100), Work("mma", 2, "", 0, 1000))
    >>> plain, ahead = (Loop(1, "", d, d + 1, (), work, ()) for d in (0, 2))
    >>> [round(max(b.end for b in schedule(loop))) for loop in (plain, ahead)]
    [10200, 6700]
    """
    transfer = loop.load_cycles
    has_loads = any(w.kind == "load" for w in (*loop.body, *loop.producer))
    mma = sum(w.cycles for w in loop.body if w.kind == "mma")
    other = sum(w.cycles for w in loop.body if w.kind not in ("load", "wait", "mma"))
    started, done, busy, bars = [], 0.0, 0.0, []
    for i in range(iterations):
        issued = started[i - loop.distance] if loop.distance and i >= loop.distance else 0.0 if loop.distance else done
        begins = max(issued, busy)
        busy = begins + transfer
        arrived = busy + LATENCY if has_loads else done
        phase = "prologue" if loop.distance and i < loop.distance else "steady"
        if has_loads:
            bars.append(Bar("load", i, begins, arrived, phase))
        start = max(done, arrived)
        started.append(start)
        if mma:
            bars.append(Bar("mma", i, start, start + mma, _phase(i, iterations, loop)))
        if other:
            bars.append(Bar("other", i, start + mma, start + mma + other, _phase(i, iterations, loop)))
        done = start + mma + other
    return tuple(bars)


def _phase(i: int, iterations: int, loop: Loop) -> str:
    return "epilogue" if loop.distance and i >= iterations - loop.distance else "steady"
