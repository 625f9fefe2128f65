"""Work against traffic: operations, bytes, arithmetic intensity, and the time that the slower of both takes.

DRAM moves every sector once that any program touches: caches serve the rest. The time is `timing`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tritium import ops
from tritium.insight.facts.accesses import Accesses
from tritium.insight.facts.coalescing import Requests
from tritium.insight.facts.launch import Launch
from tritium.insight.facts.pictures import SECTOR
from tritium.insight.facts.timing import Prediction
from tritium.ir import types as T

SPECIAL = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "tanh", "div")


@dataclass(frozen=True)
class Roofline:
    """Work and traffic of a launch."""

    flops: dict[str, float]  # by class: 'f16', 'tf32', 'f8', 'i8', 'f64' of dots; 'fp32', 'fp64', 'special' of others
    minimum_bytes: float  # every byte that is touched, once in each direction
    dram_bytes: float  # the sectors that these lie in
    moved_bytes: float  # between SMs and L2, all sectors of all requests
    predictions: tuple[Prediction, ...]
    measured: float | None = None  # seconds on this machine

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
        self.runs: dict[int, tuple[Any, float]] = {}
        self.tensor_cores = launch.is_gpu

    def __call__(self, op, times: float) -> None:
        """Count `times` executions of an op."""
        self.runs[id(op)] = op, times + self.runs.get(id(op), (op, 0.0))[1]
        kind, count = work_of(op, self.tensor_cores)
        if count:
            self.flops[kind] = self.flops.get(kind, 0.0) + times * count

    @property
    def executed(self) -> dict[Any, float]:
        """Place in the source -> times that its most frequent op ran."""
        out: dict[Any, float] = {}
        for op, times in self.runs.values():
            out[op.loc] = max(times, out.get(op.loc, 0.0))
        return out


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
    if op.kind.combines:
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


@dataclass(frozen=True)
class Traffic:
    """Bytes of a launch."""

    minimum: float  # every byte that is touched, once in each direction
    dram: float  # the sectors that these lie in
    moved: float  # between SMs and L2

    @property
    def misses(self) -> float:
        """The share of what moves that comes from DRAM."""
        return min(1.0, self.dram / self.moved) if self.moved else 1.0


def traffic_of(accesses: Accesses, found: Iterable[Requests]) -> Traffic:
    """What a launch moves."""
    found, minimum = tuple(found), minimum_bytes(accesses)
    return Traffic(minimum, dram_bytes(accesses, found), sum(r.bytes_moved for r in found) or minimum)


def roofline(traffic: Traffic, flops: dict[str, float], predictions: Iterable[Prediction],
             measured: float | None = None) -> Roofline:
    """Put a launch under the roofline of the devices that its time was predicted for."""
    return Roofline(dict(flops), traffic.minimum, traffic.dram, traffic.moved, tuple(predictions), measured)


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
