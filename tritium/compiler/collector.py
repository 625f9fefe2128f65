"""Python's garbage collector waits while kernels are compiled, or brought in from the disk.

The compiler makes many objects: collections would come often, and each may look through all that the program and its
frameworks hold. Beside torch that takes 90 ms, more than most kernels need. At the end the young objects alone are
collected, within a millisecond or two: the collector, finding so many, would take older ones along.

The collector waits because its threshold is 0. Whether it is switched on is the program's choice, and stays as it is.
"""

from __future__ import annotations

import gc
import os
from threading import get_ident

from tritium.locks import lock

__all__ = ["paused"]

_lock = lock()
_inside: dict[int, int] = {}  # id of each pause -> its thread
_threshold = 0  # what the program had set; 0 where it had stopped the collector itself


class paused:
    """Within it no collection starts.

    >>> with paused():
    ...     gc.get_threshold()[0], gc.isenabled()
    (0, True)
    >>> gc.get_threshold()[0] > 0
    True
    """

    __slots__ = ()

    def __enter__(self) -> None:
        global _threshold
        with _lock:
            now = gc.get_threshold()[0]
            if now or not _inside:
                _threshold = now
            _inside[id(self)] = get_ident()
            gc.set_threshold(0)

    def __exit__(self, *error) -> None:
        with _lock:
            if len(_inside) == 1 and id(self) in _inside and gc.isenabled() and 0 < _threshold < gc.get_count()[0]:
                gc.collect(0)
            if _inside.pop(id(self), None) is not None and not _inside:
                _go_on()

    # An interrupt may come at the first instruction of `__exit__`, or at the last of `__enter__`.
    def __del__(self) -> None:
        if id(self) in _inside:
            self.__exit__()


def _go_on() -> None:
    if gc.get_threshold()[0] == 0:  # else the program has set another
        gc.set_threshold(_threshold)


def _forget_other_threads() -> None:
    """A forked child has one thread: the pauses of the others never end there."""
    for pause, thread in list(_inside.items()):
        if thread != get_ident():
            del _inside[pause]
            if not _inside:
                _go_on()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
