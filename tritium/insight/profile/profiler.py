"""`tritium.profile()`: what each kernel of a block of code costs. `docs/profile.md` shows what it prints."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from typing import Any

from tritium import knobs
from tritium.insight.profile.clocks import Sample
from tritium.insight.profile.facts import Compilation, Limit, Overhead, Profile, Tuning
from tritium.insight.profile.launches import CLOCKS, watch
from tritium.insight.profile.tally import Tally
from tritium.insight.profile.tally import launches as launches_of
from tritium.insight.profile.tally import rows as rows_of
from tritium.locks import lock

__all__ = ["Profiling", "profile"]

MOST = 100_000  # launches that a trace shows


class Profiling:
    """A profile that is being taken, and the facts once it is: `rows`, `facts`, `text()`, `save(path)`.

    Made by `tritium.profile()`; it is a context manager, and has `start` and `stop`.
    """

    def __init__(self, clock: str = "auto", limit: bool = True, launches: int = MOST):
        if clock not in CLOCKS:
            raise ValueError(f"there is no clock {clock!r}: it is one of {', '.join(CLOCKS)}")
        if not isinstance(launches, int) or launches < 0:
            raise ValueError(f"the number of launches to keep is 0 or more, not {launches!r}")
        self._wanted, self._limit, self._most = clock, limit, launches
        self._guard = lock()
        self._begun = 0
        self._tallies: dict[tuple, Tally] = {}
        self._compilations: list[Compilation] = []
        self._tunings: list[Tuning] = []
        self._kept = 0
        self._facts: Profile | None = None

    # -- taking it -----------------------------------------------------------------------------------------------------

    def start(self) -> Profiling:
        """Begin; the same as `with`."""
        if self._begun:
            raise RuntimeError("a profile is taken once: make another with tritium.profile()")
        self._begun = time.perf_counter_ns()
        watch.wanted = self._wanted
        watch.add(self)
        return self

    def stop(self) -> Profile:
        """End, and give the facts."""
        if not self._begun:
            raise RuntimeError("the profile was not started")
        if self._facts is None:
            watch.settle()
            wall = time.perf_counter_ns() - self._begun
            overheads = self._overheads()
            watch.remove(self)
            self._facts = self._collect(wall, overheads)
        return self._facts

    def __enter__(self) -> Profiling:
        return self.start()

    def __exit__(self, *_) -> None:
        self.stop()

    def launched(self, sample: Sample) -> None:
        """Told by the hooks."""
        key = Tally.key(sample)
        with self._guard:
            tally = self._tallies.get(key)
            if tally is None:
                tally = self._tallies[key] = Tally(sample)
        tally.add(sample)
        self._kept += 1
        if self._kept > 2 * self._most and self._kept % 4096 == 0:
            self._shrink()

    def compiled(self, fact: Compilation) -> None:
        """Told by the compiler."""
        self._compilations.append(fact)

    def tuned(self, fact: Tuning) -> None:
        """Told by the tuners."""
        self._tunings.append(fact)

    def _shrink(self) -> None:
        """Forget when single launches were: there are too many to show."""
        watch.settle()
        with self._guard:
            for tally in self._tallies.values():
                if len(tally.samples) > 1000:
                    tally.shrink()

    def _overheads(self) -> tuple[Overhead, ...]:
        found = []
        for device, clock in watch.clocks.items():
            tallies = [tally for tally in self._tallies.values() if tally.device == device]
            spent = [ns for tally in tallies for ns in (*tally.spent, *(sample.spent for sample in tally.samples))]
            if spent:
                found.append(Overhead(clock.name, clock.within(), round(statistics.median(spent))))
        return tuple(found)

    def _collect(self, wall: int, overheads: tuple[Overhead, ...]) -> Profile:
        tallies = list(self._tallies.values())
        shown, dropped = launches_of(tallies, self._begun, self._most)
        limits = self._limits({tally.device for tally in tallies})
        rows = rows_of(tallies, self._compilations, self._tunings, limits)
        order = sorted(range(len(rows)), key=lambda k: -rows[k].total_ns)
        place = {old: new for new, old in enumerate(order)}
        moved = tuple(dataclasses.replace(launch, row=place[launch.row]) for launch in shown)
        compilations = tuple(_since(fact, self._begun) for fact in self._compilations)
        tunings = tuple(_since(fact, self._begun) for fact in self._tunings)
        return Profile(wall, tuple(rows[k] for k in order), moved, compilations, tunings,
                       tuple(found for found in limits.values() if found is not None), overheads, dropped,
                       tuple(_notes(rows)))  # fmt: skip

    def _limits(self, devices: set[str]) -> dict[str, Limit | None]:
        if not self._limit:
            return {}
        from tritium.insight.profile.limits import copy_bandwidth

        with watch.aside():
            return {device: copy_bandwidth(device) for device in sorted(devices)}

    # -- the result ----------------------------------------------------------------------------------------------------

    @property
    def facts(self) -> Profile:
        """All that is known, once the profile is taken."""
        if self._facts is None:
            raise RuntimeError("the profile is still being taken: look at it after the `with`, or after stop()")
        return self._facts

    @property
    def rows(self) -> tuple:
        """One row for each kernel and launch configuration, by total time."""
        return self.facts.rows

    def text(self, width: int | None = None) -> str:
        """The facts as a table for the terminal."""
        from tritium.insight.profile.text import table

        return table(self.facts, width)

    def __str__(self) -> str:
        return self.text() if self._facts is not None else repr(self)

    def html(self) -> str:
        """The facts as a page that needs nothing else."""
        from tritium.insight.profile.page import page

        return page(self.facts)

    def _repr_html_(self) -> str:
        return self.html()

    def save(self, path: str | os.PathLike) -> None:
        """Write a file: `.html` a page, `.trace.json` a trace for Perfetto, `.json` all facts, `.txt` a table."""
        from tritium.insight.profile.files import save

        save(self.facts, path)


def profile(*, clock: str = "auto", limit: bool = True, launches: int = MOST) -> Profiling:
    """Profile what is launched inside a `with`: time, bandwidth and FLOP/s of each kernel and launch configuration.

    `clock` is for GPUs: "cupti", "events", or what there is. Without `limit`, the bandwidth of a copy, with which
    kernels are compared, is not measured. At most `launches` launches are shown in a trace.

    >>> import numpy as np, tritium
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x, out = np.ones(4096, np.float32), np.empty(4096, np.float32)
    >>> with tritium.profile(limit=False) as p:
    ...     for _ in range(3):
    ...         _ = add_kernel[(4,)](x, x, out, 4096, BLOCK=1024)
    >>> [(row.configuration.kernel, row.count, row.bytes) for row in p.rows]
    [('add_kernel', 3, 32768.0)]
    """
    return Profiling(clock, limit, launches)


def _since(fact: Any, origin: int) -> Any:
    return dataclasses.replace(fact, start_ns=fact.start_ns - origin)


def _notes(rows: list) -> list[str]:
    found = []
    if not rows:
        found.append("no kernel was launched" + (
            ": TRITON_INTERPRET=1 runs them as Python, which is not profiled" if knobs.runtime.interpret else ""))
    if any(row.bytes_are_estimated for row in rows):
        found.append("~ bytes are estimated: each tensor once if the kernel reads it, once if it writes it; "
                     "launch_metadata may tell them")
    if any(row.timed < row.count for row in rows):
        found.append("launches that a CUDA graph captured are counted, not timed")
    return found
