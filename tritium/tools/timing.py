"""Compare the speed of several functions fairly on a noisy machine."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any


def interleave(rivals: dict[str, Callable[[], Any]], seconds: float = 0.5,
               synchronize: Callable[[], Any] = lambda: None) -> dict[str, float]:
    """The time of one call of each function, in seconds: the lower quartile of its samples.

    Rivals take turns in random order, so that a slow moment of the machine hits all of them, and the quartile is what
    the machine does when nobody else wants it. Calls shorter than a millisecond are timed in batches. `seconds` is the
    time to spend on all rivals together; on a GPU pass what waits for it as `synchronize`.

    >>> times = interleave({"short": lambda: sum(range(10)), "long": lambda: sum(range(10000))}, seconds=0.05)
    >>> times["short"] < times["long"]
    True
    """
    batches = {name: _batch(fn, synchronize) for name, fn in rivals.items()}
    samples: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[order[0]]) < 3:
        random.shuffle(order)
        for name in order:
            samples[name].append(_time(rivals[name], batches[name], synchronize))
    return {name: statistics.quantiles(times, n=4)[0] for name, times in samples.items()}


def _time(fn: Callable[[], Any], n: int, synchronize: Callable[[], Any]) -> float:
    start = time.perf_counter()
    for _ in range(n):
        fn()
    synchronize()
    return (time.perf_counter() - start) / n


def _batch(fn: Callable[[], Any], synchronize: Callable[[], Any]) -> int:
    """How many calls take about a millisecond."""
    _time(fn, 1, synchronize)
    once = min(_time(fn, 1, synchronize) for _ in range(2))
    return max(1, int(1e-3 / max(once, 1e-7)))
