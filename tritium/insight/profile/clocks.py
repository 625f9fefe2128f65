"""Clocks that time launches. On the CPU a launch is over when it returns; on a GPU marks in the stream tell.

A clock is asked to `begin` and `end` a sample; `settle` fills in the times that were not known at once.
"""

from __future__ import annotations

import time
from typing import Any

from tritium.knobs import HookChain
from tritium.locks import lock

__all__ = ["EventClock", "HostClock", "Sample"]


class Sample:
    """One launch while it is being timed. `pending` is what the clock needs to find its time later."""

    __slots__ = ("address", "device", "duration", "excluded", "grid", "kernel", "metrics", "name", "pending", "spent",
                 "start", "stream", "tensors", "thread")  # fmt: skip

    def __init__(self):
        self.kernel: Any = None
        self.name, self.device, self.stream, self.thread = "", "cpu", 0, 0
        self.grid: tuple[int, int, int] = (1, 1, 1)
        self.tensors: tuple = ()
        self.metrics: dict[str, Any] = {}
        self.start = self.spent = self.excluded = 0
        self.duration: int | None = None
        self.pending: Any = None
        self.address: int | None = None  # CUPTI's number of the launch


class HostClock:
    """Takes the time of the caller: for launches that return when the kernel has run.

    >>> clock, sample = HostClock(), Sample()
    >>> clock.begin(sample); clock.end(sample)
    >>> sample.duration >= 0
    True
    """

    name = "host clock around the run of the thread pool"

    def begin(self, sample: Sample) -> None:
        """The launch starts."""
        sample.start = time.perf_counter_ns()

    def end(self, sample: Sample) -> None:
        """The launch is over; what was compiled meanwhile does not count."""
        sample.duration = max(time.perf_counter_ns() - sample.start - sample.excluded, 0)

    def settle(self) -> None:
        """Every time is known."""

    close = settle

    def within(self) -> int:
        """What the clock adds to a time, in nanoseconds."""
        sample, found = Sample(), []
        enter, leave = HookChain(calls=[self.begin]), HookChain(reverse=True, calls=[self.end])  # as hooks are called
        for _ in range(50):
            enter(sample)
            leave(sample)
            found.append(sample.duration or 0)
        return sorted(found)[25]


class EventClock:
    """Events of the driver before and after each launch, in its stream. Launches that a graph captures are counted,
    not timed.

    Where CUPTI is present it takes over once it has told the time of a launch that events have timed as well.
    """

    FULL = 1024  # pairs that may wait to be read; with more, the host waits for the last

    def __init__(self, cupti: Any = None):
        from tritium.backends.gpu_runtime.memory import gpu

        self._gpu = gpu()
        self._cupti: Any = cupti
        self._trusted, self._guard = False, lock()
        self._free: list[Any] = []
        self._waiting: list[Sample] = []
        self._bases: dict[int, tuple[Any, int]] = {}

    @property
    def name(self) -> str:
        """Who tells the times."""
        return "CUPTI" if self._trusted else f"{self._gpu.events} events"

    def begin(self, sample: Sample) -> None:
        """Mark the stream before the launch."""
        sample.start, sample.pending = time.perf_counter_ns(), None
        if self._gpu.capturing(sample.stream):
            return
        device = self._gpu.current()
        with self._guard:
            if self._cupti is not None:
                sample.address = self._cupti.push()
            if not self._trusted:
                self._base(device)
                sample.pending = (device, self._event(device), self._event(device))
                sample.pending[1].record(sample.stream)

    def end(self, sample: Sample) -> None:
        """Mark it after the launch."""
        with self._guard:
            if self._cupti is not None and sample.address is not None:
                self._cupti.pop()
            if sample.pending is not None:
                sample.pending[2].record(sample.stream)
            elif sample.address is None:
                return  # captured by a graph
            self._waiting.append(sample)
            if self._cupti is not None and not self._trusted:
                self._try_cupti(sample)
            if len(self._waiting) >= self.FULL:
                self.settle()

    def _try_cupti(self, sample: Sample) -> None:
        """Whether CUPTI tells the time of a launch, and it is no longer than what lies between the events."""
        self.settle()
        found = self._cupti.times().get(sample.address)
        between = sample.duration or 0
        if found is not None and 0 < found[1] - found[0] <= between + 50_000:
            self._trusted = True
            sample.start, sample.duration = found[0], found[1] - found[0]
        else:
            self._cupti.close()
            self._cupti = None

    def settle(self) -> None:
        """Wait for the launches so far, and read their times."""
        with self._guard:
            waiting, self._waiting = self._waiting, []
            told = [sample for sample in waiting if sample.pending is None]
            if told:
                self._synchronize()
                times = self._cupti.times()
                for sample in told:
                    if (found := times.get(sample.address)) is not None:
                        sample.start, sample.duration = found[0], found[1] - found[0]
            for sample in waiting:
                if sample.pending is not None:
                    self._read(sample)

    def _read(self, sample: Sample) -> None:
        """The time between the two events of a launch."""
        device, first, last = sample.pending
        last.synchronize()
        sample.duration = max(round(first.elapsed_time(last) * 1e6), 0)
        mark, begun = self._bases[device]
        sample.start = begun + round(mark.elapsed_time(first) * 1e6)
        sample.pending = None
        self._free += [first, last]

    def close(self) -> None:
        """Give CUPTI back."""
        self.settle()
        if self._cupti is not None:
            self._cupti.close()
            self._cupti = None
        self._free.clear()

    def within(self) -> int:
        """What the clock adds: the time between two marks with nothing between them. CUPTI adds nothing."""
        if self._trusted or self._gpu.capturing(0):
            return 0
        found = []
        for _ in range(10):
            first, last = (self._event(self._gpu.current()) for _ in range(2))
            first.record(0)
            last.record(0)
            last.synchronize()
            found.append(round(first.elapsed_time(last) * 1e6))
            self._free += [first, last]
        return sorted(found)[5]

    def _event(self, device: int) -> Any:
        from tritium.backends.gpu_runtime.memory import Event

        for k, event in enumerate(self._free):
            if event.device_index == device:
                return self._free.pop(k)
        return Event(enable_timing=True, device=device)

    def _base(self, device: int) -> None:
        """An event whose moment on the host's clock is known."""
        if device not in self._bases:
            event = self._event(device)
            event.record(0)
            event.synchronize()
            self._bases[device] = event, time.perf_counter_ns()

    def _synchronize(self) -> None:
        self._gpu.synchronize()
