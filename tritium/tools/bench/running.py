"""Run targets: make the inputs, check the result, take samples of ours and of the rivals in turns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from tritium.named_tuples import NamedTuple
from tritium.tools.bench import limits
from tritium.tools.bench.history import new_id
from tritium.tools.bench.machine import Watch, describe
from tritium.tools.bench.marks import Providers
from tritium.tools.bench.measuring import DeviceClock, HostClock, measure
from tritium.tools.bench.peers import Rivals
from tritium.tools.bench.targets import Case, Target

__all__ = ["Plan", "Settings", "plan", "run"]

OURS = "tritium"
EACH = 1.0  # seconds for one benchmark
KEPT = 200  # samples of each rival that are written down


class Settings(NamedTuple):
    """How to measure."""

    device: str = "cpu"
    threads: int = 1
    iterations: int | None = None
    warmup: int = 3
    seconds: float | None = None  # for the whole run
    limits: bool = True
    label: str = ""
    processor_time: bool = False  # of one thread, instead of the time that passes
    each: float = EACH  # seconds for one benchmark, where the whole run is not bounded


class Plan(NamedTuple):
    """One row to come."""

    target: Target
    size: Any
    dtype: str


def plan(targets: list[Target], device: str, sizes: list[Any] | None, dtypes: list[str] | None) -> list[Plan]:
    """The rows of a run: every target in its usual size and dtype, or in those that were asked for and it has.

    >>> from tritium.tools.bench.targets import collected
    >>> [row[1:] for row in plan([collected()["softmax"]], "cpu", [128, 256], None)]
    [(128, 'float32'), (256, 'float32')]
    """
    rows = []
    for target in targets:
        chosen = sizes if sizes and target.mark is None else target.sizes.get(device, ())
        for dtype in [d for d in dtypes if d in target.dtypes] if dtypes else [target.usual_dtype(device)]:
            rows += [Plan(target, size, dtype) for size in chosen]
    return rows


def run(rows: list[Plan], rivals: Rivals, settings: Settings,
        told: Callable[[int, Plan, dict | None], Any] = lambda number, row, done: None) -> dict[str, Any]:
    """Measure everything; `told` hears of each row before (with None) and after. The result is what history keeps."""
    begun, results = time.time(), []
    end = None if settings.seconds is None else time.perf_counter() + settings.seconds
    for number, row in enumerate(rows):
        told(number, row, None)
        left = None if end is None else end - time.perf_counter()
        if left is not None and left <= 0:
            done = _empty(row, settings, problem="there was no time left: --seconds")
            done["skipped"] = True
        else:
            share = settings.each if left is None else max(min(EACH, left / (len(rows) - number) / 2), 0.05)
            done = _measured(row, rivals, settings, share)
        results.append(done)
        told(number, row, done)
    return {"id": new_id(begun), "time": begun, "label": settings.label, "device": settings.device,
            "threads": settings.threads, "machine": describe(settings.device), "rows": results}


def _empty(row: Plan, settings: Settings, **more: Any) -> dict[str, Any]:
    target = row.target
    clock = {"clock": "processor"} if settings.processor_time else {}
    return {"name": target.name, "title": target.title or target.name, "group": target.group, "size": row.size,
            "dtype": row.dtype, "device": settings.device, "threads": settings.threads, "correct": None,
            "samples": {}, "problems": {}, **clock, **more}


def _measured(row: Plan, rivals: Rivals, settings: Settings, seconds: float) -> dict[str, Any]:
    done = _empty(row, settings)
    watch = Watch(_now(settings))
    try:
        if isinstance(row.target.mark, Providers):
            samples = _asked(row.target.mark, settings, seconds, watch)
            done |= {"unit": row.target.mark.unit, "is_rate": row.target.mark.is_rate}
        else:
            samples = _timed(row, rivals, settings, seconds, watch, done)
    except Exception as error:  # the other rows are still worth seeing; the exit status tells
        done |= {"correct": False, "problem": f"{type(error).__name__}: {error}".strip().split("\n")[0][:300]}
        return done
    done["samples"] = {name: [float(f"{t:.5g}") for t in times[:KEPT]] for name, times in samples.items()}
    done["noise"] = list(watch.noise())
    return done


def _timed(row: Plan, rivals: Rivals, settings: Settings, seconds: float, watch: Watch,
           done: dict[str, Any]) -> dict[str, list[float]]:
    place = settings.device if rivals.torch is not None else "numpy"
    case = row.target.make(row.size, row.dtype, settings.device if row.target.record is None else place)
    error = case.error()
    done |= {"bytes": case.bytes, "flops": case.flops, "bound": case.bound, "kind": case.kind, "error": error,
             "tolerance": case.tolerance, "correct": None if error is None else error <= case.tolerance}
    if done["correct"] is False:
        done["problem"] = f"off by {error:.1e}, more than {case.tolerance:.0e}"
        return {}
    others, done["problems"] = rivals.of(row.target, case, row.dtype)
    if settings.limits:
        done["limit"] = limit_of(case, settings.device)
    clock = DeviceClock(rivals.torch, case.bound == "memory") if settings.device == "cuda" else \
        HostClock(now=_now(settings))
    return measure({OURS: case.run, **others}, clock, seconds * (1 + len(others)) / 2, settings.iterations,
                   settings.warmup, watch.tick)


def _now(settings: Settings) -> Callable[[], float]:
    return time.thread_time if settings.processor_time else time.perf_counter


def limit_of(case: Case, device: str) -> float | None:
    """What the machine reaches of what bounds a case: bytes or operations a second."""
    if case.bound == "memory":
        return limits.bytes_per_second(device) if case.bytes else None
    return limits.flops_per_second(device, case.kind) if case.flops else None


def _asked(providers: Providers, settings: Settings, seconds: float, watch: Watch) -> dict[str, list[float]]:
    """Samples of functions that measure themselves: five of each, or as many as were asked for."""
    samples: dict[str, list[float]] = {name: [] for name in providers.names}
    order, end = list(samples), time.perf_counter() + seconds
    rounds = settings.iterations or 5
    while len(samples[order[0]]) < rounds and (len(samples[order[0]]) < 3 or time.perf_counter() < end):
        random.shuffle(order)
        for name in order:
            samples[name].append(providers.sample(name))
        watch.tick()
    return samples
