"""Samples of times, and what may be said of them: medians, ratios with an interval, changes that are no noise.

Everything here is a function of numbers; nothing is timed. Intervals hold 95 % of what a bootstrap gives: samples are
drawn again in short runs of neighbours, so that a slow moment, which hits several in a row, counts as one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.named_tuples import NamedTuple

__all__ = ["CLEAR", "SMALLEST_CHANGE", "Ratio", "Summary", "between_runs", "ratio", "summary"]

CLEAR = 1.25  # the most by which an interval's upper end may be larger than its lower, as a factor
SMALLEST_CHANGE = 0.05  # what two runs may differ by without a reason: code and data lie elsewhere in memory
_DRAWS, _SEED = 1000, 7


class Summary(NamedTuple):
    """Quantiles of samples, in their unit."""

    median: float
    low: float  # 25 %
    high: float  # 75 %
    best: float
    count: int

    @property
    def spread(self) -> float:
        """The width of the middle half, as a part of the median.

        >>> summary([9.0, 10.0, 11.0]).spread
        0.1
        """
        return (self.high - self.low) / self.median if self.median else 0.0


def summary(samples: Sequence[float]) -> Summary:
    """The quantiles of some samples.

    >>> summary([3.0, 1.0, 2.0])
    Summary(median=2.0, low=1.5, high=2.5, best=1.0, count=3)
    """
    if not len(samples):
        raise ValueError("there are no samples")
    low, median, high = np.quantile(np.asarray(samples, float), (0.25, 0.5, 0.75))
    return Summary(float(median), float(low), float(high), float(min(samples)), len(samples))


class Ratio(NamedTuple):
    """A ratio of two medians, and the interval it lies in."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval is narrow enough to call the value a result.

        >>> Ratio(2.0, 1.9, 2.1).is_clear, Ratio(17.0, 1.1, 18.0).is_clear
        (True, False)
        """
        return self.high <= CLEAR * self.low

    @property
    def text(self) -> str:
        """The value with half the width of the interval.

        >>> Ratio(2.0, 1.9, 2.1).text, Ratio(0.5, 0.5, 0.5).text
        ('2.00x ± 5 %', '0.50x ± 0 %')
        """
        return f"{self.value:.2f}x ± {(self.high - self.low) / 2 / self.value:.0%}".replace("%", " %")

    @property
    def range_text(self) -> str:
        """The interval alone.

        >>> Ratio(17.0, 1.1, 18.0).range_text
        '1.1x to 18x'
        """
        return f"{self.low:.3g}x to {self.high:.3g}x"


def ratio(ours: Sequence[float], theirs: Sequence[float], paired: bool = True) -> Ratio:
    """Their median time over ours: above 1, we are faster.

    `paired` samples were taken in turns: the k-th of both in the same moment. What slows both down then cancels out.

    >>> ratio([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    Ratio(value=2.0, low=2.0, high=2.0)
    """
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    if paired:
        a, b = a[:min(len(a), len(b))], b[:min(len(a), len(b))]
    if not len(a) or not len(b):
        raise ValueError("there are no samples to compare")
    rng: Any = np.random.default_rng(_SEED)
    drawn = _drawn(len(a), rng)
    other = drawn if paired else _drawn(len(b), rng)
    found = np.median(b[other], axis=1) / np.median(a[drawn], axis=1)
    low, high = np.quantile(found, (0.025, 0.975))
    value = float(np.median(b) / np.median(a))
    return Ratio(value, min(float(low), value), max(float(high), value))


def _drawn(n: int, rng: Any) -> np.ndarray:
    """Indices of samples drawn again: rows of n, each made of runs of neighbours."""
    length = max(1, round(n**0.5))
    starts = rng.integers(0, n, (_DRAWS, -(-n // length)))
    return ((starts[..., None] + np.arange(length)) % n).reshape(_DRAWS, -1)[:, :n]


def between_runs(before: Sequence[float], after: Sequence[float], drift: float = 1.0) -> tuple[str, Ratio]:
    """("slower", "faster", "same" or "unclear", time after over time before) for samples of two runs.

    A change counts if its whole interval lies beyond `SMALLEST_CHANGE` and beyond `drift`, the factor by which fixed
    work took longer or shorter in the second run. It is unclear if the interval is wide and holds both.

    >>> between_runs([1.0] * 9, [1.5] * 9)[0], between_runs([1.0] * 9, [1.5] * 9, drift=1.5)[0]
    ('slower', 'same')
    """
    changed = ratio(before, after, paired=False)
    slack = max(SMALLEST_CHANGE, abs(drift - 1), abs(1 / drift - 1) if drift > 0 else 0)
    if changed.low > 1 + slack:
        return "slower", changed
    if changed.high < 1 / (1 + slack):
        return "faster", changed
    return "same" if changed.is_clear else "unclear", changed
