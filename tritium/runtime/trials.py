"""Timing one configuration of a tuner: as long as `do_bench` would, unless it is plain before that it is not the best.

A configuration is launched once, then timed in steps. After each it is compared with the best so far, and left where it
stands if it cannot come close. The times it has by then are its result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Stuck", "measure"]

WARMUP, REP = 25.0, 100.0  # milliseconds, as in `do_bench`
# Times the best: the faster of two long calls; the fastest of those in the first while; 20 % of a fifth of all calls.
_HOPELESS, _FAR, _BEHIND = 3.0, 1.5, 1.1
_LONG, _AWHILE = 20.0, 5.0  # milliseconds. Other programs may take the processor away for some, and all calls in them
_PATIENCE = 50  # times the best's first launch that another may take


class Stuck(Exception):
    """A launch that does not come to an end; `poisoned` if neither does anything that follows it on its device."""

    def __init__(self, seconds: float, poisoned: bool):
        super().__init__(f"a launch did not end within {seconds:g} seconds")
        self.poisoned = poisoned


def measure(trial: Callable[[], Any], best: float | None, quantiles: Sequence[float], warmup: float = WARMUP,
            rep: float = REP, limit: float = 0.0) -> list[float]:
    """Quantiles of the milliseconds that a trial takes; `best` is the median to beat, `limit` is in seconds.

    >>> measure(lambda: None, 1e-9, (0.5, 0.2, 0.8), rep=10_000)[0] > 0
    True
    """
    import numpy as np

    from tritium import testing

    clock = testing.clock()
    _first(trial, clock, _limit(best, limit))
    times, spent = _timed(trial, clock, 2)
    while len(times) < 5 or spent < min(_AWHILE, rep / 5):
        if min(times) > _LONG and _hopeless(min(times), best, _HOPELESS):
            break
        more, spent_more = _timed(trial, clock, 3)
        times, spent = times + more, spent + spent_more
    if not _hopeless(min(times), best, _FAR):
        times = _at_length(trial, clock, best, spent / len(times), warmup, rep)
    return [float(point) for point in np.quantile(times, list(quantiles))]


def _at_length(trial: Callable[[], Any], clock: Any, best: float | None, each: float, warmup: float,
               rep: float) -> list[float]:
    """The times of as many calls as `rep` milliseconds are enough for; of a fifth of them, if those say enough."""
    import numpy as np

    each = max(each, 1e-6)
    for _ in range(max(1, int(warmup / each))):
        trial()
    count = max(1, int(rep / each))
    part = max(1, count // 5)
    times = clock.time(trial, part, clock.flush)
    if part < count and not _hopeless(float(np.quantile(times, 0.2)), best, _BEHIND):
        times += clock.time(trial, count - part, clock.flush)
    return times


def _timed(trial: Callable[[], Any], clock: Any, count: int) -> tuple[list[float], float]:
    """(times of some calls, milliseconds they took with all that is done in between)."""
    start = time.perf_counter()
    times = clock.time(trial, count, clock.flush)
    return times, (time.perf_counter() - start) * 1e3


def _hopeless(time: float, best: float | None, factor: float) -> bool:
    return best is not None and time > factor * best


def _limit(best: float | None, limit: float) -> float:
    """Seconds the first launch may take: it loads the kernel, and no other has to be so much slower than the best."""
    return limit if best is None or not limit else min(limit, max(5.0, _PATIENCE * best * 1e-3))


def _first(trial: Callable[[], Any], clock: Any, limit: float) -> None:
    """Launch once and wait for the end, not longer than `limit` seconds where that can be helped.

    On a GPU nothing ends a kernel but the end of the process. On the CPU a launch of the main thread can be stopped.
    """
    if not limit:
        trial()
        clock.synchronize()
        return
    with _Alarm(limit if clock.on_host else 0.0):
        trial()
        if not clock.finishes(limit):
            raise Stuck(limit, poisoned=True)


class _Alarm:
    """Stops what the main thread does after some seconds, by what Ctrl-C does; then `Stuck` is raised.

    Other threads cannot be stopped, and where Ctrl-C means something else nothing is done.
    """

    def __init__(self, seconds: float):
        self._seconds, self._timer, self._rang = seconds, None, threading.Event()
        self._guard = threading.Lock()

    def __enter__(self) -> None:
        import signal

        main = threading.current_thread() is threading.main_thread() and hasattr(signal, "pthread_kill")
        if self._seconds and main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._timer = threading.Timer(self._seconds, self._ring)
            self._timer.daemon = True
            self._timer.start()

    def _ring(self) -> None:
        import signal

        with self._guard:
            if self._timer is not None:
                self._rang.set()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def __exit__(self, kind, error, traceback) -> None:
        if self._timer is None:
            return
        try:
            with self._guard:
                timer, self._timer = self._timer, None
                timer.cancel()
            if self._rang.is_set() and kind is not KeyboardInterrupt:
                time.sleep(1.0)  # the interrupt is on its way
        except KeyboardInterrupt:
            if not self._rang.is_set():
                raise
        if self._rang.is_set() and (kind is None or kind is KeyboardInterrupt):
            raise Stuck(self._seconds, poisoned=False) from None
