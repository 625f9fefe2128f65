"""Work against traffic: operations, bytes, arithmetic intensity, and the time that the slower of both takes.

The model is the roofline: a launch takes as long as its slowest resource (DRAM, L2, tensor cores, ordinary units,
special functions), stretched by what the grid leaves idle in its last wave, plus the time in which a kernel starts and
ends. DRAM moves every sector once that any program touches: caches serve the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tritium import ops
from tritium.insight.facts.accesses import Accesses
from tritium.insight.facts.coalescing import Requests
from tritium.insight.facts.devices import DEVICES, Device, devices_for
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.pictures import SECTOR
from tritium.insight.facts.resources import Resources
from tritium.ir import types as T

START = 2.0e-6  # seconds: an empty kernel from the first to the last block
SPECIAL = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "tanh", "div")


@dataclass(frozen=True)
class Prediction:
    """How long a launch takes on a device by the model, and what bounds it."""

    device: str
    seconds: float
    bound: str  # "DRAM", "L2", "tensor cores", "fp32 units", "fp64 units", "special functions" or "launch"
    parts: dict[str, float]  # seconds of each resource alone
    waves: float
    busy: float  # share of the processors' slots that work, over all waves
    sustained: bool  # whether the device's reachable shares were measured

    @property
    def share_of_peak(self) -> float:
        """The bound's own time over the whole."""
        return max(self.parts.values(), default=0.0) / self.seconds


@dataclass(frozen=True)
class Roofline:
    """Work and traffic of a launch."""

    flops: dict[str, float]  # by class: 'f16', 'tf32', 'f8', 'i8', 'f64' of dots; 'fp32', 'fp64', 'special' of others
    minimum_bytes: float  # every byte that is touched, once in each direction
    dram_bytes: float  # the sectors that these lie in
    moved_bytes: float  # between SMs and L2, all sectors of all requests
    predictions: tuple[Prediction, ...]

    @property
    def total_flops(self) -> float:
        """All operations on floats and in dots."""
        return sum(self.flops.values())

    @property
    def intensity(self) -> float:
        """Operations for each byte that has to be moved."""
        return self.total_flops / self.minimum_bytes if self.minimum_bytes else math.inf


class FlopMeter:
    """Adds up the operations of the ops that a run tells it of."""

    def __init__(self, launch: Launch):
        self.flops: dict[str, float] = {}
        self.executed: dict[Any, float] = {}  # place in the source -> times that its ops ran
        self.tensor_cores = launch.is_gpu

    def __call__(self, op, times: float) -> None:
        """An op ran so many times."""
        self.executed[op.loc] = max(times, self.executed.get(op.loc, 0.0))
        kind, count = work_of(op, self.tensor_cores)
        if count:
            self.flops[kind] = self.flops.get(kind, 0.0) + times * count


def work_of(op, tensor_cores: bool = True) -> tuple[str, int]:
    """(class, operations) of one execution of an op.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: f32) {\\n  %0 = mul %x, %x : f32\\n}")
    >>> work_of(m.body.ops[0])
    ('fp32', 1)
    """
    if op.kind is ops.dot:
        a, out = op.operands[0].type, op.type
        return _dot_class(T.element(a), op.attrs["precision"], tensor_cores), 2 * T.numel(out) * T.shape(a)[-1]
    if op.kind in (ops.reduce, ops.scan):
        t = op.operands[0].type
        return _plain_class(T.element(t)), T.numel(t) * len(op.operands) if _is_float(t) else 0
    if op.kind.row is None or not op.types or not _is_float(op.types[0]):
        return "fp32", 0
    numel = max(1, T.numel(op.operands[0].type))
    if op.kind.name in SPECIAL:
        return "special", numel
    return _plain_class(T.element(op.operands[0].type)), numel * (2 if op.kind.name == "fma" else 1)


def _is_float(t) -> bool:
    element = T.element(t)
    return type(element) is T.Scalar and element.is_float


def _plain_class(t) -> str:
    return "fp64" if t is T.f64 else "fp32"


def _dot_class(t, precision: str, tensor_cores: bool) -> str:
    if not tensor_cores:
        return _plain_class(t)
    if t is T.f32:
        return "fp32" if precision == "ieee" else "tf32"
    if t is T.f64:
        return "f64"
    if t.bits == 8:
        return "f8" if t.is_float else "i8"
    return "f16"


def roofline(launch: Launch, accesses: Accesses, found: Iterable[Requests], flops: dict[str, float],
             used: Resources, names: Iterable[str] = ()) -> Roofline:
    """Put a launch under the roofline of devices: those named, or those of its target."""
    minimum = minimum_bytes(accesses)
    found = tuple(found)
    moved = sum(r.bytes_moved for r in found) or minimum
    dram = dram_bytes(accesses, found)
    devices = [DEVICES[name] for name in names] or (devices_for(launch.target.arch) if launch.is_gpu else [])
    programs = math.prod(launch.grid)
    predictions = tuple(predict(d, flops, dram, moved, programs, used) for d in devices)
    return Roofline(dict(flops), minimum, dram, moved, predictions)


def minimum_bytes(accesses: Accesses) -> float:
    """Bytes that have to be moved: of each tensor what is loaded once, and what is stored once; atomics do both."""
    total = 0.0
    for tensor in accesses.tensors:
        sites = [s for s in accesses.sites if tensor.name in s.tensors]
        for kinds, counted in ((("load",), tensor.loaded), (("store",), tensor.stored), (("atomic",), None)):
            touched = sum(s.bytes / len(s.tensors) for s in sites if s.kind in kinds)
            if touched:
                most = counted * tensor.itemsize if counted else tensor.bytes
                total += min(touched, most) * (2 if kinds == ("atomic",) else 1)
    return total


def dram_bytes(accesses: Accesses, found: Iterable[Requests]) -> float:
    """Bytes of all sectors that are loaded, and that are stored, each once. In a launch that was sampled, the sectors
    of all requests, but no more than the tensor has."""
    by_site, total = {r.site: r.bytes_moved for r in found}, 0.0
    for tensor in accesses.tensors:
        sites = [s for s in accesses.sites if tensor.name in s.tensors]
        for kind, counted in (("load", tensor.loaded_sectors), ("store", tensor.stored_sectors)):
            touching = [s for s in sites if s.kind in (kind, "atomic")]
            if not touching:
                continue
            if counted is not None:
                total += counted * SECTOR
            else:
                total += min(tensor.bytes, sum(by_site.get(s.number, s.bytes) / len(s.tensors) for s in touching))
    return total


def predict(device: Device, flops: dict[str, float], dram: float, moved: float, programs: int,
            used: Resources) -> Prediction:
    """The time of a launch on a device, by the model of this module.

    >>> from types import SimpleNamespace as Used
    >>> one = Used(occupancy=Used(programs=16))
    >>> made = predict(DEVICES["H200"], {}, 3 * 2**30, 3 * 2**30, 2**18, one)
    >>> made.bound, round(made.seconds * 1e3, 2)
    ('DRAM', 0.76)
    """
    parts = {"DRAM": dram / (device.dram * 1e9 * device.sustained_dram), "L2": moved / (device.l2 * 1e9)}
    for kind, count in flops.items():
        name = "tensor cores" if kind in device.tensor else {
            "fp64": "fp64 units", "f64": "fp64 units", "special": "special functions"}.get(kind, "fp32 units")
        parts[name] = parts.get(name, 0.0) + count / device.rate(kind)
    each = max(1, used.occupancy.programs if used.occupancy else 1)
    slots = device.processors * each
    waves = programs / slots
    # A grid that fills no wave keeps some processors idle; one that does loses only in its last wave.
    busy = min(1.0, programs / device.processors) if waves < 1 else waves / math.ceil(waves)
    work = {name: seconds / (busy if name not in ("DRAM", "L2") else min(1.0, 2 * busy))
            for name, seconds in parts.items()}
    bound = max(work, key=lambda name: work[name]) if work else "launch"
    seconds = max(work.values(), default=0.0) + START
    if work.get(bound, 0.0) < START:
        bound = "launch"
    return Prediction(device.name, seconds, bound, parts, waves, busy, device.measured)

