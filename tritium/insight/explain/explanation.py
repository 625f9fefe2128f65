"""`tritium.explain`: everything that is known about one launch, as facts and as a page."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tritium.backends.compiler import GPUTarget
from tritium.insight.explain.findings import Finding, findings
from tritium.insight.explain.units import time_text
from tritium.insight.facts.accesses import PROGRAMS, Accesses, observe
from tritium.insight.facts.coalescing import RequestMeter, Requests, requests, with_hints
from tritium.insight.facts.cpu_timing import predict_cpu
from tritium.insight.facts.demand import demand
from tritium.insight.facts.devices import DEVICES, Device, devices_for
from tritium.insight.facts.launch import Launch, prepared
from tritium.insight.facts.measurement import measured_seconds
from tritium.insight.facts.resources import Resources, l1_bytes, resources
from tritium.insight.facts.roofline import FlopMeter, Roofline, Traffic, roofline, traffic_of
from tritium.insight.facts.shared_memory import SharedAccess, shared_accesses
from tritium.insight.facts.stages import Comparison, Stage, compare, stages
from tritium.insight.facts.timeline import Timeline, timeline
from tritium.insight.facts.timing import Prediction, predict
from tritium.insight.facts.trials import Trial, trials

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """The facts of one launch. `print` shows the report, `html(path)` writes a page; in a notebook it shows itself."""

    launch: Launch
    accesses: Accesses
    requests: tuple[Requests, ...]
    shared: tuple[SharedAccess, ...]
    resources: Resources
    roofline: Roofline
    timeline: Timeline
    stages: tuple[Stage, ...]
    trials: tuple[Trial, ...] = ()
    comparison: Comparison | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.launch.name

    @property
    def target(self) -> GPUTarget:
        """What it is compiled for."""
        return self.launch.target

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to change, the most important first."""
        return findings(self)

    @property
    def prediction(self) -> Prediction | None:
        """The prediction for the last device of the list."""
        return self.roofline.predictions[-1] if self.roofline.predictions else None

    @property
    def device(self) -> Device | None:
        """The GPU of `prediction`, None on a CPU."""
        return DEVICES.get(self.prediction.device) if self.prediction else None

    @property
    def bound(self) -> str:
        """What bounds the launch on that device."""
        return self.prediction.bound if self.prediction else ""

    @property
    def limits(self) -> str:
        """What limits the launch, in sentences: the predicted time, what takes it, and what hides latency."""
        p = self.prediction
        if p is None:
            return ""
        parts = sorted(((name, self.part(name)) for name in p.parts), key=lambda part: -part[1])
        told = ", ".join(f"{name} {share:.0%}" for name, share in parts[:3] if share >= 0.01)
        why = {"launch": ": starting the kernel takes longer than its work", "latency": ": programs wait for memory"}
        text = f"{time_text(p.seconds)} on {p.device}, bound by {p.bound}{why.get(p.bound, '')}"
        text += f". Each by itself takes: {told}" if told else ""
        r = self.resources
        if r.occupancy and r.occupancy.programs:
            text += (f". {r.occupancy.warps} of {r.occupancy.most_warps} warps fit on a processor, limited by "
                     f"{r.occupancy.limiter}")
        return text

    @property
    def memory_share(self) -> float:
        """The share of the predicted time that memory takes by itself: what saving traffic may save."""
        if self.prediction is None:
            return 1.0
        parts = self.prediction.parts
        return min(1.0, max(parts.get("DRAM", 0.0), parts.get("L2", 0.0)) / self.prediction.seconds)

    def part(self, resource: str) -> float:
        """The share of the predicted time that a resource takes by itself, such as "DRAM" or "atomics"."""
        p = self.prediction
        return min(1.0, p.parts.get(resource, 0.0) / p.seconds) if p else 0.0

    def saved(self, resource: str) -> float:
        """The share of the predicted time that is saved if a resource takes none, and the next one is the bound."""
        p = self.prediction
        if p is None:
            return 0.0
        others = max((seconds for name, seconds in p.parts.items() if name != resource), default=0.0)
        return max(0.0, p.parts.get(resource, 0.0) - others) / p.seconds

    @property
    def first_line(self) -> int:
        """The line of the kernel's `def`."""
        return self.launch.fn.def_file_line_number

    @property
    def figures(self) -> dict[str, str]:
        """The few figures that tell two launches apart."""
        r, out = self.resources, {"grid": "x".join(map(str, self.launch.grid))}
        out |= {name: str(value) for name, value in self.launch.constants.items()}
        if self.launch.is_gpu:
            out |= {"warps": str(r.warps), "registers": str(r.registers), "shared memory": str(r.shared),
                    "occupancy": f"{r.occupancy.share:.0%}" if r.occupancy else "unknown",
                    "bytes moved": f"{self.roofline.moved_bytes:.0f}"}  # fmt: skip
        if self.roofline.predictions:
            out |= {f"time on {p.device}": f"{p.seconds * 1e6:.1f} us, bound by {p.bound}"
                    for p in self.roofline.predictions}
        return out

    def compared(self, other: Explanation) -> Explanation:
        """This one, with its differences to another: another configuration or version of the kernel."""
        from dataclasses import replace

        names = f"{self.name} for {self.target}", f"{other.name} for {other.target}"
        return replace(self, comparison=compare(names, (self.figures, other.figures), self.stages, other.stages))

    def html(self, path: str | os.PathLike | None = None) -> str:
        """The page, written to `path` if one is given: one file that needs no other."""
        from tritium.insight.explain.html import page

        text = page(self)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def text(self) -> str:
        """The facts for a terminal."""
        from tritium.insight.explain.text import report

        return report(self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Explanation of {self.name} for {self.target}: print it, or write a page by html(path)>"

    def _repr_html_(self) -> str:
        from tritium.insight.explain.html import framed

        return framed(self)


def explain(kernel: Any, grid: Any, *args: Any, target: str | GPUTarget | None = None, programs: int = PROGRAMS,
            devices: Iterable[str] = (), measure: bool = False, **meta: Any) -> Explanation:
    """Explain the launch `kernel[grid](*args, **meta)` on a target, such as "cpu", "cuda:80" or "cuda:90a": nothing is
    launched, and no device is needed. The arguments are not changed.

    At most `programs` of the grid are run, by the interpreter; `devices` names those whose times are predicted. With
    `measure`, the kernel is also launched here, on copies, and its time stands beside the predictions.

    >>> import numpy as np
    >>> import tritium
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.zeros(1000, np.float32)
    >>> found = tritium.explain(add_kernel, (8,), x, x, x.copy(), 1000, target="cuda:80", BLOCK=128)
    >>> found.requests[0].vector, found.accesses.sites[0].masked
    (1, 24.0)
    """
    return explained(kernel, grid, args, meta, target, programs, devices, measure=measure)


def explained(kernel: Any, grid: Any, args: tuple, meta: dict[str, Any], target: str | GPUTarget | None = None,
              programs: int = PROGRAMS, devices: Iterable[str] = (), owned: bool = False,
              measure: bool = False) -> Explanation:
    """As `explain`, with the arguments and keywords of the launch apart. If they are `owned` by the caller, tensors are
    not copied before the interpreter stores to them."""
    from tritium.tools.compile import known_target

    if programs < 1:
        raise ValueError(f"explain must run at least 1 program, not {programs}")
    devices = list(devices)
    for name in devices:
        if name not in DEVICES:
            raise ValueError(f"there is no device {name!r} in the table: it has {', '.join(DEVICES)}")
    found = target if isinstance(target, GPUTarget) else known_target(target)
    launch = prepared(kernel, grid, args, meta, found, owned)
    if 0 in launch.grid:
        raise ValueError(f"the grid {launch.grid} has no programs: there is nothing to explain")
    used, flops = resources(launch), FlopMeter(launch)
    those = [DEVICES[name] for name in devices] or devices_for(found.arch) if launch.is_gpu else []
    meter = RequestMeter(launch, l1_bytes(launch, used), those[0].processors) if launch.is_gpu else None
    accesses = observe(launch, meter, flops, programs)
    made = with_hints(launch, requests(launch, meter, accesses.sites), meter) if meter is not None else ()
    traffic = traffic_of(accesses, made)
    lines = timeline(launch, traffic.misses)
    shared, times = (), []
    if launch.is_gpu:
        shared = shared_accesses(launch, flops.executed)
        work = demand(launch, accesses, traffic, made, flops, used, shared, lines.loops)
        times = [predict(device, work) for device in those]
    elif found.backend == "cpu":
        times = _on_this_cpu(launch, traffic, flops.flops)
    roof = roofline(traffic, flops.flops, times, measured_seconds(launch) if measure else None)
    return Explanation(launch, accesses, made, shared, used, roof, lines, stages(launch), trials(launch, used))


def _on_this_cpu(launch: Launch, traffic: Traffic, flops: dict[str, float]) -> list[Prediction]:
    """The time by the limits of this machine, which are measured when they are asked for the first time."""
    from tritium import knobs
    from tritium.insight.profile.limits import arithmetic_rate, copy_bandwidth

    limit = copy_bandwidth("cpu")
    if limit is None:
        return []
    programs = math.prod(launch.grid)
    return [predict_cpu(traffic, flops, programs, knobs.num_threads, limit.bytes_per_second, arithmetic_rate())]
