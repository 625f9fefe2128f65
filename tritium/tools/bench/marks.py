"""Benchmarks written for `triton.testing.perf_report`, as targets: their providers take turns, too.

A function under `perf_report` measures itself and returns a time in milliseconds or, where the axis is labelled with
one, a rate. One point of its x axis is one target.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tritium.testing import Benchmark, Mark
from tritium.tools.bench.targets import Case, Target

__all__ = ["Providers", "targets_of"]

_RATE = re.compile(r"/\s*s\b|flops?\b|gbps|per second", re.I)
_OURS = re.compile(r"tritium|triton", re.I)


class Providers:
    """The lines of a report at one point: `sample(name)` is seconds, or what stands for them.

    A rate counts by its inverse, so that less is better and ratios are those of times.
    """

    def __init__(self, fn: Callable, bench: Benchmark, point: Any):
        self.fn, self.bench, self.point = fn, bench, point
        self.is_rate = bool(_RATE.search(bench.ylabel))
        self.unit = bench.ylabel or "ms"
        values = dict(zip(bench.line_names, bench.line_vals))
        ours = next((name for name in values if _OURS.search(name)), bench.line_names[0])
        self.names = {"tritium" if name == ours else name: value for name, value in values.items()}

    def sample(self, name: str) -> float:
        """What the user's function measures, as a time in seconds."""
        arguments = dict(zip(self.bench.x_names, self.bench.point(self.point)))
        got = self.fn(**arguments, **{self.bench.line_arg: self.names[name]}, **self.bench.args)
        value = float(got[0] if isinstance(got, (tuple, list)) else got)
        return self.seconds(value)

    def seconds(self, value: float) -> float:
        """The time that stands for a value.

        >>> mark = Benchmark(["n"], [1], "who", ["t"], ["Triton"], "add", {}, ylabel="GB/s")
        >>> Providers(print, mark, 1).seconds(4.0)
        0.25
        """
        if self.is_rate:
            return 1 / value if value else float("inf")
        return value / 1e3

    def value(self, seconds: float) -> float:
        """The value that a time stands for: undoes `seconds`."""
        return (1 / seconds if seconds else float("inf")) if self.is_rate else seconds * 1e3


def targets_of(mark: Mark, path: str) -> list[Target]:
    """A target for every point of every benchmark of a mark."""
    benches = [mark.benchmarks] if isinstance(mark.benchmarks, Benchmark) else mark.benchmarks
    found = []
    for bench in benches:
        for x in bench.x_vals:
            shown = "x".join(map(str, x)) if isinstance(x, (tuple, list)) else str(x)
            sizes = {"cpu": (shown,), "cuda": (shown,)}
            name = re.sub(r"\W+", "_", bench.plot_name).strip("_")
            found.append(Target(f"{name}_{shown}", _refuse, f"{bench.plot_name}, {', '.join(bench.x_names)} = {shown}",
                                bench.plot_name, sizes, ("",), source=path, mark=Providers(mark.fn, bench, x)))
    return found


def _refuse(size: Any, dtype: str, device: str) -> Case:
    raise TypeError("a point of a report measures itself")
