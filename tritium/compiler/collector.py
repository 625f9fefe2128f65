"""Python's garbage collector waits while kernels are compiled, or brought in from the disk.

The compiler makes many objects: collections would come often, and each may look through all that the program and its
frameworks hold. Beside torch that takes 90 ms, more than most kernels need. At the end the young objects alone are
collected, within a millisecond or two: the collector, finding so many, would take older ones along.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["paused"]

_lock = threading.Lock()
_inside = 0  # how many are compiling
_resume = False


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within it no collection starts; a collector that was off stays off.

    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    global _inside, _resume
    with _lock:
        if _inside == 0:
            _resume = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _resume:
                if gc.get_count()[0] > gc.get_threshold()[0]:
                    gc.collect(0)
                gc.enable()
