"""The machine while something is measured: who else uses it, and how evenly it does fixed work.

    >>> watch = Watch()
    >>> for _ in range(3): watch.tick()
    >>> noise = watch.noise()
    >>> noise.processors >= 1 and noise.others >= 0
    True
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

from tritium.named_tuples import NamedTuple
from tritium.tools.bench.spread import summary

__all__ = ["Noise", "Watch", "describe", "disturbances"]

OTHERS = 0.15  # share of the processors that other programs may use
UNEVEN = 0.20  # spread that fixed work may have


class Noise(NamedTuple):
    """What disturbed a measurement on the host."""

    others: float  # processors that other programs kept busy, on average
    processors: int  # that this program may use
    spread: float  # of fixed work: the width of the middle half, as a part of the median
    yardstick: float  # seconds that the fixed work took

    @property
    def reasons(self) -> list[str]:
        """Why times taken meanwhile say little; empty on a quiet machine.

        >>> Noise(0.0, 2, 0.01, 1e-4).reasons
        []
        >>> Noise(1.5, 2, 0.3, 1e-4).reasons
        ['other programs used 1.5 of 2 processors', 'fixed work varied by 30 %']
        """
        found = []
        if self.others > OTHERS * self.processors:
            found.append(f"other programs used {self.others:.1f} of {self.processors} processors")
        if self.spread > UNEVEN:
            found.append(f"fixed work varied by {self.spread:.0%}".replace("%", " %"))
        return found


def disturbances(row: dict[str, Any]) -> list[str]:
    """Why the times of a row say little. A GPU has a clock of its own, which the host's programs do not disturb.

    >>> disturbances({"device": "cpu", "noise": (1.5, 2, 0.0, 1e-4)})
    ['other programs used 1.5 of 2 processors']
    >>> disturbances({"device": "cuda", "noise": (1.5, 2, 0.0, 1e-4)})
    []
    """
    return Noise(*row["noise"]).reasons if row.get("noise") and row.get("device") != "cuda" else []


class Watch:
    """Looks at the machine from its making to `noise`; `tick` does the fixed work once.

    With `time.thread_time` as the clock, others do not count: their share of the processors is in no time.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter):
        self._times: list[float] = []
        self._now = now
        self._begun = time.perf_counter()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def tick(self) -> None:
        """Do the fixed work once, and time it."""
        start = self._now()
        sum(range(20_000))
        self._times.append(self._now() - start)

    def noise(self) -> Noise:
        """What was seen so far."""
        wall = max(time.perf_counter() - self._begun, 1e-9)
        busy, own = _busy_seconds(), _own_seconds()
        others = 0.0
        if busy is not None and self._busy is not None and self._now is not time.thread_time:
            others = (busy - self._busy - (own - self._own)) / wall
        fixed = summary(self._times or [0.0])
        return Noise(max(others, 0.0), _processors(), fixed.spread, fixed.median)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds(path: str = "/proc/stat") -> float | None:
    """Seconds in which any process, or the hypervisor, used the processors of this program; None if unknown."""
    try:
        with open(path) as file:
            return busy_seconds(file.read(), os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK"))
    except (OSError, AttributeError, ValueError, IndexError):
        return None


def busy_seconds(text: str, processors: Any, ticks: int) -> float:
    """The same from the text of /proc/stat: user, nice, system, irq, softirq and steal of these processors.

    >>> busy_seconds("cpu 9 9 9\\ncpu0 100 0 50 800 30 0 0 50 0 0\\ncpu1 7 0 0 0 0 0 0 0 0 0\\n", {0}, 100)
    2.0
    """
    total = 0
    for line in text.split("\n"):
        name, *fields = line.split() or [""]
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in processors:
            numbers = list(map(int, fields[:8]))
            total += sum(numbers[:3]) + sum(numbers[5:])
    return total / ticks


def describe(device: str) -> dict[str, Any]:
    """What results depend on: the machine and the versions of what runs there.

    >>> sorted(describe("cpu"))
    ['compiler', 'device', 'machine', 'name', 'processors', 'python', 'versions']
    """
    from tritium import cache
    from tritium.tools.version import own_version

    return {"name": platform.node(), "machine": platform.machine(), "processors": _processors(),
            "device": device_name(device), "python": platform.python_version(), "compiler": cache.fingerprint()[:12],
            "versions": {"tritium": own_version().split()[0], **_versions()}}


def device_name(device: str) -> str:
    """The name that the maker gave a device.

    >>> device_name("cpu") != ""
    True
    """
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in ("llvmlite", "numpy", "torch", "triton", "numba"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
