"""From samples of launches to the rows of a profile."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from tritium.insight.profile.clocks import Sample
from tritium.insight.profile.facts import Compilation, Configuration, Launch, Limit, Row, TensorArgument, Tuning

__all__ = ["Tally", "flops_in", "rows", "traffic"]

FLOPS = ("flops", "flops8", "flops16", "flops32", "flops64")


def flops_in(metrics: dict[str, Any]) -> float | None:
    """The floating-point operations that launch metadata tells of, of all widths; None if of none.

    >>> flops_in({"flops16": 6, "flops8": 2, "name": "k"}), flops_in({"bytes": 3})
    (8, None)
    """
    told = [metrics[name] for name in FLOPS if isinstance(metrics.get(name), int | float)]
    return sum(told) if told else None


class Tally:
    """The launches of one configuration while they are counted."""

    def __init__(self, sample: Sample):
        self.kernel, self.name, self.grid, self.tensors = sample.kernel, sample.name, sample.grid, sample.tensors
        self.device = sample.device
        self.samples: list[Sample] = []
        self.times: list[int] = []
        self.spent: list[int] = []  # in our hooks
        self.count = 0
        self.bytes: float | None = None
        self.flops: float | None = None

    @staticmethod
    def key(sample: Sample) -> tuple:
        """What tells configurations apart."""
        kernel = sample.kernel
        sizes = tuple((number, shape, nbytes) for number, _, shape, nbytes, _ in sample.tensors)
        return sample.name, None if kernel is None else kernel.hash, sample.grid, sizes

    def add(self, sample: Sample) -> None:
        """Count a launch; its time may come later."""
        self.count += 1
        self.samples.append(sample)
        told = sample.metrics
        if isinstance(told.get("bytes"), int | float):
            self.bytes = (self.bytes or 0) + told["bytes"]
        if (flops := flops_in(told)) is not None:
            self.flops = (self.flops or 0) + flops

    def shrink(self) -> None:
        """Keep the times alone."""
        self.times += [sample.duration for sample in self.samples if sample.duration is not None]
        self.spent += [sample.spent for sample in self.samples]
        self.samples.clear()

    def configuration(self) -> Configuration:
        """As a fact."""
        if self.kernel is None:
            return Configuration(self.name or "(a launch without metadata)", self.device, self.grid, 0, 0, 1, (), ())
        source, metadata = self.kernel.src, self.kernel.metadata
        names = list(source.signature)
        constants = tuple((names[path[0]], _short(value)) for path, value in sorted(source.constants.items())
                          if len(path) == 1 and source.signature[names[path[0]]] == "constexpr")  # fmt: skip
        tensors = tuple(TensorArgument(names[number], dtype, shape, nbytes)
                        for number, dtype, shape, nbytes, _ in self.tensors)  # fmt: skip
        return Configuration(self.name, str(metadata.target.backend), self.grid, metadata.num_warps,
                             metadata.num_stages, metadata.num_ctas, constants, tensors)  # fmt: skip


def _short(value: Any) -> str:
    text = str(getattr(value, "value", value)) if not callable(value) else getattr(value, "__name__", str(value))
    return text if len(text) <= 40 else text[:37] + "..."


def traffic(kernel: Any, tensors: tuple) -> float | None:
    """The bytes of the tensors that a kernel reads, and of those that it writes: each byte once for either.

    An estimate: a kernel may touch parts of a tensor only, or some of it many times.
    """
    if kernel is None or not tensors:
        return None
    reads, writes = _touched(kernel)
    seen: set[tuple] = set()
    total = 0
    for number, _, _, nbytes, identity in tensors:
        for kind in (how for how, numbers in (("read", reads), ("written", writes)) if number in numbers):
            if (kind, identity) not in seen:  # an argument that is passed twice is one tensor
                seen.add((kind, identity))
                total += nbytes
    return float(total)


def _touched(kernel: Any) -> tuple[set[int], set[int]]:
    """The numbers of the parameters that a kernel loads from, and stores to."""
    from tritium.analysis.accesses import accesses, writes
    from tritium.ir.text import ParseError, parse_module
    from tritium.language.types.signature import flatten

    stores: set[int] = set(getattr(kernel.metadata, "stores", ()))
    types = list(kernel.src.signature.values())
    try:
        found = accesses(parse_module(str(kernel.asm["ttir"])))
    except (KeyError, ParseError):  # compiled from a late stage
        return set(range(len(types))) - stores, stores
    positions = [k for k, type_ in enumerate(types) for _ in flatten(type_)]
    loads = {positions[k] for k, ops in found.items() if any(not writes(op) or op.kind.name != "store" for op in ops)}
    return loads, stores


def rows(tallies: Iterable[Tally], compilations: Iterable[Compilation], tunings: Iterable[Tuning],
         limits: dict[str, Limit | None]) -> list[Row]:
    """The facts, in the order of the tallies."""
    compilations, tunings = list(compilations), list(tunings)
    found = []
    for tally in tallies:
        tally.shrink()
        where = tally.configuration()
        told = tally.bytes
        estimate = None if told is not None else traffic(tally.kernel, tally.tensors)
        made = [c for c in compilations if tally.kernel is not None and c.key == tally.kernel.hash]
        limit = limits.get(tally.device)
        times = tally.times or [0]
        found.append(Row(
            where, tally.count, len(tally.times), sum(tally.times), round(statistics.median(times)), min(times),
            told / tally.count if told is not None else estimate, told is None and estimate is not None,
            None if tally.flops is None else tally.flops / tally.count, limit and limit.bytes_per_second,
            sum(c.duration_ns for c in made if not c.cache_hit), sum(not c.cache_hit for c in made),
            sum(c.cache_hit for c in made), sum(t.duration_ns for t in tunings if _chose(t, where))))
    return found


def _chose(tuning: Tuning, where: Configuration) -> bool:
    """Whether a tuner's choice is this configuration of its kernel."""
    if tuning.kernel != where.kernel:
        return False
    known = dict(where.constants) | {"num_warps": str(where.num_warps), "num_stages": str(where.num_stages)}
    return all(known.get(name, value) == value for name, value in tuning.chosen)


def launches(tallies: list[Tally], origin: int, most: int) -> tuple[list[Launch], int]:
    """The first `most` launches in the order they began, and how many were left out."""
    found = [Launch(row, sample.start - origin, sample.duration, sample.device,
                    sample.thread if sample.device == "cpu" else sample.stream)
             for row, tally in enumerate(tallies) for sample in tally.samples]  # fmt: skip
    found.sort(key=lambda launch: launch.start_ns)
    count = sum(tally.count for tally in tallies)
    return found[:most], count - min(len(found), most)
