"""Time functions that compete, in turns: a slow moment of the machine hits all of them.

    >>> samples = measure({"ours": lambda: sum(range(100)), "theirs": lambda: sum(range(200))}, iterations=3)
    >>> {name: len(times) for name, times in samples.items()}
    {'ours': 3, 'theirs': 3}

The k-th sample of every rival comes from the same round, so `spread.ratio` may compare them in pairs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["DeviceClock", "HostClock", "measure"]

LEAST, MOST = 5, 1000  # rounds
BATCH = 1e-3  # seconds that one sample takes at least on the host


class HostClock:
    """Times calls that have finished when they return, or when `synchronize` does. Caches stay warm.

    `now` is the clock: `time.thread_time` counts the processor time of this thread alone.

    >>> HostClock().sample(lambda: None, 10) >= 0
    True
    """

    def __init__(self, synchronize: Callable[[], Any] = lambda: None, now: Callable[[], float] = time.perf_counter):
        self.synchronize, self.now = synchronize, now

    def sample(self, fn: Callable[[], Any], calls: int) -> float:
        """Seconds of one call, over some in a row."""
        start = self.now()
        for _ in range(calls):
            fn()
        self.synchronize()
        return (self.now() - start) / calls

    def calls(self, fn: Callable[[], Any]) -> int:
        """How many calls make up one sample."""
        once = min(self.sample(fn, 1) for _ in range(2))
        return max(1, int(BATCH / max(once, 1e-7)))


class DeviceClock:
    """Times work on a CUDA stream by torch's events.

    The host gets ahead before every sample, so that the time is that of the GPU and not of the launch. `cold` also
    empties the second-level cache before, and a sample is one call. Otherwise calls are timed in loops: long ones, so
    that every rival runs at the clock that the power limit leaves it, but of a few calls where they are short, or the
    host would fall behind.
    """

    LONG = 20e-3  # seconds of a loop
    SHORT = 200e-6  # of a call; Python takes up to 60 us to make one
    FEW = 8
    AHEAD = 1_000_000  # cycles that the GPU waits for the host: half a millisecond

    def __init__(self, torch: Any, cold: bool):
        self.torch, self.cold = torch, cold
        self._cache: Any = None

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.torch.cuda.synchronize()

    def sample(self, fn: Callable[[], Any], calls: int) -> float:
        """Seconds of one call."""
        if self.cold:
            self._flush()
        self.torch.cuda._sleep(self.AHEAD)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            fn()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / calls

    def calls(self, fn: Callable[[], Any]) -> int:
        """How many calls make up one sample: one, where the cache is emptied before."""
        if self.cold:
            return 1
        once = self.sample(fn, self.FEW)
        return self.FEW if once < self.SHORT else max(1, int(self.LONG / once))

    def _flush(self) -> None:
        if self._cache is None:
            self._cache = self.torch.empty(64 << 20, dtype=self.torch.int32, device="cuda")
        self._cache.zero_()


def measure(rivals: Mapping[str, Callable[[], Any]], clock: Any = None, seconds: float = 0.5,
            iterations: int | None = None, warmup: int = 1,
            each_round: Callable[[], Any] = lambda: None) -> dict[str, list[float]]:
    """Samples of every rival in seconds, one of each in a round, in random order.

    There are `iterations` rounds, or as many as fit in `seconds`, and five at least. `warmup` calls of each come
    before. `each_round` is called between rounds.

    >>> times = measure({"short": lambda: None, "long": lambda: sum(range(10000))}, seconds=0.02)
    >>> min(times["short"]) < min(times["long"])
    True
    """
    clock = clock or HostClock()
    for fn in rivals.values():
        for _ in range(max(warmup, 1)):
            fn()
        clock.synchronize()
    calls = {name: clock.calls(fn) for name, fn in rivals.items()}
    samples: dict[str, list[float]] = {name: [] for name in rivals}
    order, end, done = list(rivals), time.perf_counter() + seconds, 0
    while done < iterations if iterations else done < LEAST or time.perf_counter() < end and done < MOST:
        random.shuffle(order)
        for name in order:
            samples[name].append(clock.sample(rivals[name], calls[name]))
        each_round()
        done += 1
    return samples
