"""How long a launch takes on a GPU: a roofline over all resources, with what their phases leave idle.

Each resource alone would take its share of the work over its peak: DRAM, L2, L1, shared memory, tensor cores, the
schedulers and the units behind them. Three things come on top.

- Programs come in rounds: a processor that gets one program more than the others works longer.
- Memory, arithmetic and tensor cores are phases of a program. The longest is always seen; the others are hidden as far
  as independent streams of a processor (its programs, their warps where no barrier ties them, or a pipeline) run
  beside it.
- A program that waits for memory in each iteration of a loop takes its latencies one after another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tritium.insight.facts.devices import Device
from tritium.insight.facts.instructions import Instructions

_MEMORY = ("DRAM", "L2", "atomics", "programs")
_TENSOR = ("tensor cores", "operands in shared memory")
_UNITS = {"fp32": "fp32 units", "fp64": "fp64 units", "integer": "integer units", "convert": "conversions",
          "special": "special functions", "load/store": "load/store units"}


@dataclass(frozen=True)
class Work:
    """What a whole launch asks of a device."""

    programs: int  # blocks of threads: those of a cluster count singly
    resident: int = 1  # of them on a processor at once
    streams: int = 1  # of each that run independently of each other
    dram_bytes: float = 0.0
    l2_bytes: float = 0.0
    l1_lines: float = 0.0  # of 128 bytes, that threads ask L1 for
    shared_passes: float = 0.0  # of loads and stores of threads
    operand_passes: float = 0.0  # of tensor cores that read their operands there
    flops: dict[str, float] = field(default_factory=dict)  # by class, as in `Device.rate`
    instructions: Instructions | None = None  # without them, the ordinary units' time comes from `flops`
    atomics: float = 0.0  # on the address that gets the most
    waits: float = 1.0  # latencies of memory that a program sees one after another
    from_dram: float = 1.0  # share of its loads that come from there
    pipelined: bool = False  # whether loads run beside the work of earlier iterations
    repeated_bytes: tuple[float, ...] = ()  # that all programs load once more, by the line that does
    rounds: bool = True  # whether each program pays its first latency anew (a persistent one does not)


@dataclass(frozen=True)
class Prediction:
    """How long a launch takes on a device by the model, and what bounds it."""

    device: str
    seconds: float
    bound: str  # a name of `parts`, "latency" or "launch"
    parts: dict[str, float]  # seconds of each resource alone
    waves: float
    busy: float  # share of the processors' time in which they have programs
    sustained: bool  # whether the device's reachable shares were measured

    @property
    def share_of_peak(self) -> float:
        """The bound's own time over the whole."""
        return max(self.parts.values(), default=0.0) / self.seconds


def predict(device: Device, work: Work) -> Prediction:
    """The time of a launch on a device, by the model of this module.

    >>> from tritium.insight.facts.devices import DEVICES
    >>> made = predict(DEVICES["H200"], Work(2**18, 16, 4, dram_bytes=3 * 2**30, l2_bytes=3 * 2**30))
    >>> made.bound, round(made.seconds * 1e3, 2)
    ('DRAM', 0.76)
    """
    each = work.programs / device.processors
    busy = each / math.ceil(each)
    parts = resources(device, work)
    spread = {name: seconds / (1.0 if name in _MEMORY else busy) for name, seconds in parts.items()}
    if "L2" in parts:  # one processor gets no more than its port to L2 lets through
        spread["L2"] = max(parts["L2"], parts["L2"] * device.l2 / device.l2_ports / busy)
    memory = max((spread[name] for name in spread if name in _MEMORY), default=0.0)
    tensor = max((spread[name] for name in spread if name in _TENSOR), default=0.0)
    compute = max((spread[name] for name in spread if name not in (*_MEMORY, *_TENSOR)), default=0.0)
    phases = [compute, tensor] if work.pipelined else [memory, compute, tensor]
    resident = max(1, min(work.resident, math.ceil(each)))
    seconds = max(memory, max(phases) + (sum(phases) - max(phases)) / (resident * work.streams))
    bound = max(spread, key=lambda name: spread[name]) if spread else "launch"
    waiting = _latencies(device, work, resident, max(memory, *phases) if work.pipelined else sum(phases))
    if waiting > seconds:
        seconds, bound = waiting, "latency" if work.waits * device.latency(work.from_dram) > waiting / 4 else bound
    start = device.launch + device.latency(1.0)
    if seconds < start:
        bound = "launch"
    waves = work.programs / (device.processors * max(1, work.resident))
    return Prediction(device.name, seconds + start, bound, parts, waves, busy, device.measured)


def _latencies(device: Device, work: Work, resident: int, alone: float) -> float:
    """The time of programs that come one after another to each place of a processor."""
    rounds = max(1.0, math.ceil(work.programs / device.processors) / resident)
    waits = work.waits if work.rounds else max(0.0, work.waits - 1)
    return rounds * waits * device.latency(work.from_dram) + alone / (resident * work.streams)


def resources(device: Device, work: Work) -> dict[str, float]:
    """Seconds that each resource would take alone, all processors working."""
    cycle = 1 / (device.processors * device.clock * 1e9)
    parts = {"DRAM": (work.dram_bytes + _lost(device, work)) / (device.dram * 1e9 * device.sustained_dram),
             "L2": work.l2_bytes / (device.l2 * 1e9), "L1": work.l1_lines * cycle,
             "shared memory": work.shared_passes * cycle,
             "operands in shared memory": work.operand_passes * cycle, "atomics": work.atomics * device.atomic,
             "programs": 0.0 if not work.rounds else work.programs * device.program}
    tensor = [(kind, count) for kind, count in work.flops.items() if kind in device.tensor]
    if tensor:
        parts["tensor cores"] = _tensor_seconds(device, tensor)
    if work.instructions is not None:
        for unit, name in _UNITS.items():
            if count := work.instructions.by_unit.get(unit, 0.0):
                parts[name] = 32 * count / device.lanes(unit) * cycle
        parts["instruction issue"] = work.instructions.total / device.schedulers * cycle
    for kind, count in work.flops.items():
        if kind not in device.tensor and (work.instructions is None or kind in ("f64", "fp64")):
            name = {"fp64": "fp64 units", "f64": "fp64 units", "special": "special functions"}.get(kind, "fp32 units")
            parts[name] = max(parts.get(name, 0.0), count / device.rate(kind))
    return {name: seconds for name, seconds in parts.items() if seconds}


def _lost(device: Device, work: Work) -> float:
    """Bytes that come from DRAM once more: programs that run side by side bring more to L2 than it holds."""
    at_once = min(work.programs, device.processors * work.resident) / work.programs
    return sum(size for size in work.repeated_bytes if size * at_once > device.l2_bytes)


def _tensor_seconds(device: Device, flops: list[tuple[str, float]]) -> float:
    """Short launches run at the burst rate; those that outlast `burst_seconds` at what the power limit leaves."""
    burst = sum(count / device.rate(kind, burst=True) for kind, count in flops)
    if burst <= device.burst_seconds:
        return burst
    return sum(count / device.rate(kind) for kind, count in flops)
