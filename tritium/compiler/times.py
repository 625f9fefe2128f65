"""Where a compilation spends its time."""

from __future__ import annotations

import time

from tritium.named_tuples import NamedTuple

__all__ = ["Clock", "CompileTimes"]


class CompileTimes(NamedTuple):
    """Where a compilation spent its time, in microseconds: what `knobs.compilation.listener` is told.

    >>> CompileTimes(900, (("llir", 400), ("obj", 2000)), 100).total
    3400
    """

    ir_initialization: int
    lowering_stages: tuple[tuple[str, int], ...]
    store_results: int

    @property
    def total_lowering(self) -> int:
        """All stages together."""
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        """Everything."""
        return self.ir_initialization + self.total_lowering + self.store_results


class Clock:
    """Takes the times of one compilation."""

    def __init__(self):
        self._last = time.perf_counter_ns()
        self._frontend = 0
        self._laps: list[tuple[str, int]] = []

    def _split(self) -> int:
        now = time.perf_counter_ns()
        elapsed, self._last = (now - self._last) // 1000, now
        return elapsed

    def end_of_frontend(self) -> None:
        """The module is there."""
        self._frontend = self._split()

    def end_of_stage(self, ext: str) -> None:
        """A stage is there."""
        self._laps.append((ext, self._split()))

    def stages_elsewhere(self, laps: tuple[tuple[str, int], ...]) -> None:
        """Another process ran these stages."""
        self._split()
        self._laps += laps

    def times(self) -> CompileTimes:
        """What was measured; the rest went into storing."""
        return CompileTimes(self._frontend, tuple(self._laps), self._split())
