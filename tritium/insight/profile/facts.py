"""What a profile tells: frozen data, all times in nanoseconds. `text`, `trace` and `page` draw it.

    >>> where = Configuration("add", "cpu", (4, 1, 1), 4, 3, 1, (("BLOCK", "64"),), ())
    >>> row = Row(where, 2, 2, 2000, 1000, 1000, 1200.0, True, None, 2e9, 0, 0, 0, 0)
    >>> row.bytes_per_second, row.percent_of_limit, row.configuration.text
    (1200000000.0, 60.0, '4 programs, BLOCK=64')
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

__all__ = ["Compilation", "Configuration", "Launch", "Limit", "Overhead", "Profile", "Row", "TensorArgument", "Tuning"]

DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}  # a launch that says so says nothing new


@dataclass(frozen=True)
class TensorArgument:
    """A tensor of a launch: its parameter, element type, sizes, and the bytes it spans."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class Configuration:
    """What tells one launch from another: the compiled kernel, the grid, and the tensors' sizes."""

    kernel: str
    target: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    num_ctas: int
    constants: tuple[tuple[str, str], ...]
    tensors: tuple[TensorArgument, ...]

    @property
    def text(self) -> str:
        """The grid, the constants, and those options that are not as usual."""
        used = [n for n in self.grid if n != 1] or [1]
        programs = " x ".join(map(str, used)) + (" programs" if used != [1] else " program")
        chosen = [f"{name}={getattr(self, name)}" for name, usual in DEFAULTS.items() if getattr(self, name) != usual]
        return ", ".join([programs, *(f"{name}={value}" for name, value in self.constants), *chosen])


@dataclass(frozen=True)
class Row:
    """All launches of one configuration.

    `timed` of the `count` launches have a time; bytes and flops are those of one launch, None if unknown. `limit` is
    the measured copy bandwidth of the device in bytes per second.
    """

    configuration: Configuration
    count: int
    timed: int
    total_ns: int
    median_ns: int
    fastest_ns: int
    bytes: float | None
    bytes_are_estimated: bool
    flops: float | None
    limit: float | None
    compile_ns: int
    compiled: int  # how often
    cache_hits: int  # on disk
    tuning_ns: int

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of the timed launches over their time."""
        return self._per_second(self.bytes)

    @property
    def flops_per_second(self) -> float | None:
        """Floating-point operations of the timed launches over their time."""
        return self._per_second(self.flops)

    @property
    def percent_of_limit(self) -> float | None:
        """How much of the bandwidth of a copy it reaches; more than 100 if data stays in a cache."""
        rate = self.bytes_per_second
        return 100 * rate / self.limit if rate is not None and self.limit else None

    def _per_second(self, amount: float | None) -> float | None:
        return amount * self.timed * 1e9 / self.total_ns if amount is not None and self.total_ns else None


@dataclass(frozen=True)
class Launch:
    """One launch: its row, when it began on the clock of the profile, and how long it took, None if that is unknown."""

    row: int
    start_ns: int
    duration_ns: int | None
    device: str
    lane: int  # the thread on the CPU, the stream on a GPU


@dataclass(frozen=True)
class Compilation:
    """One compilation, or one kernel read from the cache on disk."""

    kernel: str
    target: str
    key: str
    start_ns: int
    duration_ns: int
    cache_hit: bool
    stages: tuple[tuple[str, int], ...]
    thread: int


@dataclass(frozen=True)
class Tuning:
    """One choice of a tuner: measured, or read from disk."""

    kernel: str
    key: str
    best: str
    chosen: tuple[tuple[str, str], ...]
    configurations: int
    start_ns: int
    duration_ns: int
    cache_hit: bool
    thread: int


@dataclass(frozen=True)
class Limit:
    """What a device reaches when it copies memory, in bytes per second (read and written bytes both count)."""

    device: str
    bytes_per_second: float


@dataclass(frozen=True)
class Overhead:
    """What profiling costs: what a clock adds to each time it takes, and the time one launch spends in our hooks."""

    clock: str
    within_ns: int
    per_launch_ns: int


@dataclass(frozen=True)
class Profile:
    """Everything. Rows are sorted by total time; `dropped` launches are in the rows but not in `launches`."""

    wall_ns: int
    rows: tuple[Row, ...]
    launches: tuple[Launch, ...]
    compilations: tuple[Compilation, ...]
    tunings: tuple[Tuning, ...]
    limits: tuple[Limit, ...]
    overheads: tuple[Overhead, ...]
    dropped: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The facts as plain lists, numbers and texts, with the derived rates in each row."""
        found = dataclasses.asdict(self)
        for row, written in zip(self.rows, found["rows"]):
            for name in ("bytes_per_second", "flops_per_second", "percent_of_limit"):
                written[name] = getattr(row, name)
        return found
