"""How fast this machine copies memory and multiplies: measured for each device, in about a fifth of a second, and kept.

A machine that others use is slower than it can be. So the first few processes measure anew, and the best is kept.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from typing import Any, cast

import tritium as triton
import tritium.language as tl
from tritium import cache, knobs
from tritium.insight.profile.facts import Limit
from tritium.locks import once

__all__ = ["arithmetic_rate", "copy_bandwidth", "measured"]

ARRAY = 64 << 20  # bytes of one array: more than the caches of most machines hold
SECONDS, ROUNDS = 0.2, 5  # measure so long, and so often
PROCESSES = 5  # that measure anew
BLOCK = 4096


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    """Copy n elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def multiply_kernel(out, times, BLOCK: tl.constexpr):
    """Chains of multiply-adds in registers."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = i * 1e-9
    y = x * 0.5
    for _ in range(times):
        for _ in tl.static_range(8):
            x = tl.fma(x, 0.999, y)
    tl.store(out + i, x)


def arithmetic_rate() -> float:
    """Operations on f32 a second of this CPU, all threads together: as kept on disk, else measured.

    >>> arithmetic_rate() > 1e8
    True
    """
    _, identity = _identity("cpu")
    found = _best("arithmetic", "cpu", identity)
    assert found is not None
    return found


@once
def _best(what: str, backend: str, identity: str) -> float | None:
    """The largest of the figures that the first processes measured, kept on disk."""
    manager = cache.get_cache_manager(hashlib.sha256(f"{what} 2 {identity}".encode()).hexdigest())
    text = cache.read(manager, "rates.json")
    rates = [] if text is None else json.loads(text)
    if len(rates) < PROCESSES:
        rate = _multiplied() if what == "arithmetic" else measured(backend)
        rates += [] if rate is None else [rate]
        cache.write(manager, "rates.json", json.dumps(rates).encode())
    return max(rates, default=None)


def _multiplied(programs: int = 2048, times: int = 64, block: int = 64) -> float:
    """The fastest of some runs."""
    import numpy as np

    out = np.zeros(programs * block, np.float32)
    best, end = float("inf"), time.perf_counter() + SECONDS
    multiply_kernel[(programs,)](out, times, BLOCK=block)
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        multiply_kernel[(programs,)](out, times, BLOCK=block)
        best = min(best, time.perf_counter() - start)
    return 2 * 8 * times * programs * block / best


def copy_bandwidth(backend: str) -> Limit | None:
    """The limit of the current device of a backend: as kept on disk, else measured.

    >>> copy_bandwidth("cpu").bytes_per_second > 1e8
    True
    """
    device, identity = _identity(backend)
    rate = _best("copy bandwidth", backend, identity)
    return None if rate is None else Limit(device, rate)


def _identity(backend: str) -> tuple[str, str]:
    """(what the device is called, all that its bandwidth depends on)."""
    from tritium.backends.driver import driver

    found: Any = driver.named(backend)
    figures = found.utils.get_device_properties(found.get_current_device())
    if backend != "cpu":
        return f"{backend}:{found.get_current_device()}", str(sorted(figures.items()))
    return "cpu", f"{platform.node()} {platform.machine()} {platform.processor()} {knobs.num_threads}"


def measured(backend: str, nbytes: int = ARRAY) -> float | None:
    """Bytes per second that a copy reads and writes; the fastest of some.

    >>> measured("cpu", 1 << 16) > 0
    True
    """
    run = _on_cpu(nbytes) if backend == "cpu" else _on_gpu(nbytes)
    times, end = [run()], time.perf_counter() + SECONDS
    while len(times) < ROUNDS or time.perf_counter() < end and len(times) < 1000:
        times.append(run())
    best = min(times)
    return 2 * nbytes / best if best > 0 else None


def _on_cpu(nbytes: int) -> Any:
    import numpy as np

    n = nbytes // 4
    x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    grid = (triton.cdiv(n, BLOCK),)
    copy_kernel[grid](x, out, n, BLOCK=BLOCK)

    def run() -> float:
        start = time.perf_counter()
        copy_kernel[grid](x, out, n, BLOCK=BLOCK)
        return time.perf_counter() - start

    return run


def _on_gpu(nbytes: int) -> Any:
    import numpy as np

    from tritium.runtime import memory

    x, out = (memory.zeros(4 * nbytes, cast(Any, np.uint8)) for _ in range(2))  # more than the cache of a GPU holds
    start, end = (memory.Event(enable_timing=True) for _ in range(2))

    def run() -> float:
        start.record()
        memory.copy(out, x, blocking=False)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / 4

    return run
