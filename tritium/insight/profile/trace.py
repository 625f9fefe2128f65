"""A profile as a trace of Chrome's format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import os
from typing import Any

from tritium.insight.profile.facts import Profile

__all__ = ["trace"]


def trace(facts: Profile) -> dict[str, Any]:
    """The object to write as JSON.

    >>> trace(Profile(0, (), (), (), (), (), ()))["traceEvents"]
    []
    """
    lanes: dict[tuple[str, Any], int] = {}
    events: list[dict[str, Any]] = []

    def lane(device: str, number: Any) -> int:
        return lanes.setdefault((device, number), len(lanes))

    for launch in facts.launches:
        row = facts.rows[launch.row]
        where, device = row.configuration, "kernels on the CPU" if launch.device == "cpu" else launch.device
        told = {"grid": list(where.grid), "num_warps": where.num_warps, "num_stages": where.num_stages,
                **dict(where.constants)}  # fmt: skip
        if launch.duration_ns:
            told |= {name: value * 1e9 / launch.duration_ns for name, value in
                     (("bytes per second", row.bytes), ("FLOP per second", row.flops)) if value is not None}
        events.append(_event(where.kernel, "kernel", launch.start_ns, launch.duration_ns or 0,
                             lane(device, launch.lane), told))  # fmt: skip
    for fact in facts.compilations:
        name = f"{'load' if fact.cache_hit else 'compile'} {fact.kernel}"
        stages = {stage: ns / 1e3 for stage, ns in fact.stages}
        events.append(_event(name, "compile", fact.start_ns, fact.duration_ns, lane("compiler", fact.thread), stages))
    for tuned in facts.tunings:
        events.append(_event(f"tune {tuned.kernel}", "tuning", tuned.start_ns, tuned.duration_ns,
                             lane("tuner", tuned.thread), {"key": tuned.key, "best": tuned.best}))  # fmt: skip
    names = [{"name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": number,
              "args": {"name": f"{device}, {'stream' if device not in _THREADS else 'thread'} {which}"}}
             for (device, which), number in lanes.items()]  # fmt: skip
    return {"traceEvents": [*names, *sorted(events, key=lambda event: event["ts"])], "displayTimeUnit": "ns",
            "otherData": {"program": "tritium", "notes": list(facts.notes)}}  # fmt: skip


_THREADS = ("kernels on the CPU", "compiler", "tuner")


def _event(name: str, kind: str, start: int, duration: int, lane: int, told: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "cat": kind, "ph": "X", "ts": start / 1e3, "dur": duration / 1e3, "pid": os.getpid(),
            "tid": lane, "args": told}  # fmt: skip
