"""Loads that repeat what their program has loaded before: the same elements at another line, or in every iteration."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

Sum = tuple[int, int, int]  # how many addresses, their sum, the sum of their squares; the sums modulo 2^64


class Repetitions:
    """Compares what the loads of a program touch, by sums over their addresses.

    >>> seen, row = Repetitions(), np.arange(0, 64, 4, dtype=np.uint64)
    >>> for site in ("first", "second"):
    ...     for half in (row[:8], row[8:]):
    ...         seen.note(site, [0], half)
    >>> seen.close()
    >>> seen.found()
    {'second': 'first'}
    """

    def __init__(self) -> None:
        self.now: dict[Hashable, list[Sum]] = {}  # site -> its executions in the program that runs
        self.through: dict[Hashable, tuple[int, ...]] = {}
        self.partners: dict[Hashable, set] = {}  # site -> sites that loaded the same in every program so far

    def note(self, site: Hashable, tensors: Iterable[int], addresses: np.ndarray) -> None:
        """A load through these arguments touched these addresses."""
        self.through[site] = tuple(tensors)
        self.now.setdefault(site, []).append(sum_of(addresses))

    def close(self) -> None:
        """A program ends."""
        totals = {site: _total(made) for site, made in self.now.items()}
        for site, made in self.now.items():
            same = {other for other in _before(totals, site)
                    if totals[other] == totals[site] and self.through[other] == self.through[site]}
            if len(made) > 1 and len(set(made)) == 1:
                same.add(site)
            self.partners[site] = same & self.partners.get(site, same)
        self.now = {}

    def found(self) -> dict:
        """{site: the first site whose elements it loads again in every program}."""
        order = {site: k for k, site in enumerate(self.partners)}
        return {site: min(same, key=lambda other: order[other]) for site, same in self.partners.items() if same}


def sum_of(addresses: np.ndarray) -> Sum:
    """What two sets of addresses have in common only if they are the same, or by a strange chance.

    >>> sum_of(np.array([1, 2], np.uint64))
    (2, 3, 5)
    """
    squares = int((addresses * addresses).sum(dtype=np.uint64))
    return len(addresses), int(addresses.sum(dtype=np.uint64)), squares


def _total(made: list[Sum]) -> tuple[int, ...]:
    return tuple(sum(part) % 2**64 for part in zip(*made))


def _before(sites: Iterable, last: Hashable) -> list:
    out = []
    for site in sites:
        if site == last:
            break
        out.append(site)
    return out
