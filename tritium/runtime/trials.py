"""Timing the configurations of a tuner: a look at each, then those that may be the best as long as `do_bench` would.

The finalists are measured in the order of the first look. After a fifth of its time a finalist that is behind the
leader is left where it stands. The times a configuration has by then are its result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Race", "Stuck"]

WARMUP, REP = 25.0, 100.0  # milliseconds, as in `do_bench`
FINALIST = 1.25  # times the best of the first look
_HOPELESS, _BEHIND = 3.0, 1.1  # times the best so far: the faster of two long calls; 20 % of a fifth of the calls
_LONG, _LOOK = 20.0, 5.0  # milliseconds. Other programs may take the processor away for some, and all calls in them
_SETTLED, _SHORT = 40, 0.5  # calls on a CPU, if they take fewer milliseconds than that: see `_enough`
_AGAIN = 5.0  # milliseconds of calls that are not timed, for all finalists but the first: the device is warm
_PATIENCE = 50  # times the best that a first launch may take


class Stuck(Exception):
    """A launch that does not come to an end; `poisoned` if neither does anything that follows it on its device."""

    def __init__(self, seconds: float, poisoned: bool):
        super().__init__(f"a launch did not end within {seconds:g} seconds")
        self.poisoned = poisoned


class Race:
    """Measures trials: by a look while `final` is False, at length when it is True.

    `warmup` and `rep` are milliseconds for a finalist, `limit` is seconds for a first launch.

    >>> race = Race(rep=1)
    >>> race(lambda: None, (0.5,))[0] > 0
    True
    """

    def __init__(self, warmup: float | None = None, rep: float | None = None, limit: float = 0.0):
        from tritium import testing

        self._warmup, self._rep = WARMUP if warmup is None else warmup, REP if rep is None else rep
        self._limit, self._clock, self.final = limit, testing.clock(), False
        self._fastest: float | None = None  # of the first looks
        self._leader: float | None = None  # the median of the best finalist

    def __call__(self, trial: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
        """Quantiles of the milliseconds that a trial takes."""
        import numpy as np

        times = (self._at_length if self.final else self._look)(trial)
        points = [float(point) for point in np.quantile(times, (*quantiles, 0.5, 0.2))]
        if self.final:
            self._leader = min(filter(None, (self._leader, points[-2])))
        else:
            self._fastest = min(filter(None, (self._fastest, points[-1])))
        return points[:-2]

    def _look(self, trial: Callable[[], Any]) -> list[float]:
        """The times of some calls; of two, if they are long and say enough."""
        clock, best = self._clock, self._fastest
        _first(trial, clock, _limit(best, self._limit))
        times, spent = _timed(trial, clock, 2)
        while not self._enough(times, spent):
            if min(times) > _LONG and _behind(min(times), best, _HOPELESS):
                break
            more, spent_more = _timed(trial, clock, 3)
            times, spent = times + more, spent + spent_more
        return times

    def _enough(self, times: list[float], spent: float) -> bool:
        """Whether calls that took so long tell enough. How many threads run a short launch on a CPU is found out by
        launching it (`cpu.runtime.launch_times`), and one launch in which a thread comes late takes milliseconds."""
        if len(times) < 5 or spent < min(_LOOK, self._rep / 5):
            return False
        settled = len(times) >= _SETTLED or min(times) >= _SHORT or spent >= self._rep
        return settled or not self._clock.on_host

    def _at_length(self, trial: Callable[[], Any]) -> list[float]:
        """The times of as many calls as `rep` is enough for; of a fifth of them, if those say enough."""
        import numpy as np

        clock, leader = self._clock, self._leader
        each = max(_timed(trial, clock, 2)[1] / 2, 1e-6)
        for _ in range(max(1, int((self._warmup if leader is None else min(self._warmup, _AGAIN)) / each))):
            trial()
        count = max(1, int(self._rep / each))
        part = max(1, count // 5)
        times = clock.time(trial, part, clock.flush)
        if part < count and not _behind(float(np.quantile(times, 0.2)), leader, _BEHIND):
            times += clock.time(trial, count - part, clock.flush)
        return times


def _timed(trial: Callable[[], Any], clock: Any, count: int) -> tuple[list[float], float]:
    """(times of some calls, milliseconds they took with all that is done in between)."""
    start = time.perf_counter()
    times = clock.time(trial, count, clock.flush)
    return times, (time.perf_counter() - start) * 1e3


def _behind(time: float, best: float | None, factor: float) -> bool:
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
