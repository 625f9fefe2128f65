"""Two runs of the benchmarks side by side: what became slower, what faster, and what cannot be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritium.named_tuples import NamedTuple
from tritium.tools.bench.machine import disturbances
from tritium.tools.bench.spread import Ratio, between_runs, summary

__all__ = ["Change", "changes", "latest_pair"]

OURS = "tritium"


class Change(NamedTuple):
    """What became of one benchmark."""

    name: str
    verdict: str  # "slower", "faster", "same", "unclear", "noisy", "wrong", "only before" or "only after"
    ratio: Ratio | None = None  # time after over time before
    before: float = 0.0  # seconds
    after: float = 0.0
    why: str = ""

    @property
    def is_regression(self) -> bool:
        """Whether it counts against the second run.

        >>> Change("softmax", "slower").is_regression, Change("softmax", "noisy").is_regression
        (True, False)
        """
        return self.verdict in ("slower", "wrong")


def key_of(row: dict[str, Any]) -> tuple:
    """What makes two rows the same benchmark.

    >>> key_of({"name": "softmax", "size": 1024, "dtype": "float32", "device": "cpu", "threads": 2})
    ('softmax', 1024, 'float32', 'cpu', 2, None)
    """
    return tuple(row.get(part) for part in ("name", "size", "dtype", "device", "threads", "clock"))


def latest_pair(runs: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The last run, and the last before it on the same machine that has a benchmark in common with it."""
    for after in reversed(runs[-1:]):
        rows = set(map(key_of, after["rows"]))
        for before in reversed(runs[:-1]):
            if _place(before) == _place(after) and rows & set(map(key_of, before["rows"])):
                return before, after
    return None


def _place(run: dict[str, Any]) -> tuple:
    machine = run.get("machine", {})
    return machine.get("name"), machine.get("device"), machine.get("processors")


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Every benchmark of two runs, in the order of the second."""
    old = {key_of(row): row for row in before["rows"]}
    new = {key_of(row): row for row in after["rows"]}
    versions = [run.get("machine", {}).get("versions", {}) for run in (before, after)]
    elsewhere = _elsewhere(before, after)
    found = [_change(old[key], row, versions, elsewhere) if key in old else Change(_title(row), "only after")
             for key, row in new.items()]
    return found + [Change(_title(row), "only before") for key, row in old.items() if key not in new]


def _elsewhere(before: dict[str, Any], after: dict[str, Any]) -> str:
    one, two = _place(before), _place(after)
    return "" if one == two else f"measured on {_words(one)}, then on {_words(two)}"


def _words(place: tuple) -> str:
    return f"{place[0]} ({place[1]}, {place[2]} processors)"


def _title(row: dict[str, Any]) -> str:
    return " ".join(str(row[part]) for part in ("name", "size", "dtype") if row.get(part) is not None)


def _change(old: dict[str, Any], new: dict[str, Any], versions: list[dict[str, str]], elsewhere: str) -> Change:
    times = [row.get("samples", {}).get(OURS) for row in (old, new)]
    if not all(row.get("correct", True) for row in (new,)):
        return Change(_title(new), "wrong", why=new.get("problem", "its result is wrong"))
    if not times[0] or not times[1]:
        return Change(_title(new), "only after" if times[1] else "only before", why="it was not timed")
    verdict, ratio = between_runs(times[0], times[1], _drift(old, new, versions))
    seconds = [summary(part).median for part in times]
    why = elsewhere or "; ".join(_noise(old, new))
    if why and verdict != "same":
        verdict = "noisy"
    return Change(_title(new), verdict, ratio, *seconds, why=why if verdict == "noisy" else "")


def _noise(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for when, row in (("before", old), ("after", new)):
        yield from (f"{when}: {reason}" for reason in disturbances(row)[:1])


def _drift(old: dict[str, Any], new: dict[str, Any], versions: list[dict[str, str]]) -> float:
    """By which factor the machine itself became slower: fixed work, and rivals of the same version, tell.

    The factor that explains most of our own change counts: what it leaves is ours.
    """
    factors = [1.0]
    if old.get("noise") and new.get("noise") and old["noise"][3] > 0 and new.get("device") != "cuda":
        factors.append(new["noise"][3] / old["noise"][3])
    for name, theirs in old.get("samples", {}).items():
        same = versions[0].get(name) == versions[1].get(name)
        if name != OURS and same and theirs and new.get("samples", {}).get(name):
            factors.append(summary(new["samples"][name]).median / summary(theirs).median)
    change = summary(new["samples"][OURS]).median / summary(old["samples"][OURS]).median
    toward = [f for f in factors if (f - 1) * (change - 1) > 0]  # what moved the other way explains nothing
    return max(toward, key=lambda f: abs(f - 1), default=1.0)
