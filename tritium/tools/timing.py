"""Compare the speed of several functions fairly on a noisy machine: the short form of `tritium.tools.bench`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from tritium.tools.bench.measuring import HostClock, measure


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
    samples = measure(rivals, HostClock(synchronize), seconds)
    return {name: statistics.quantiles(times, n=4)[0] for name, times in samples.items()}
