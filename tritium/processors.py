"""The processors of this process: how many threads can run at once."""

from __future__ import annotations

import os

__all__ = ["count", "quota"]


def count() -> int:
    """Those that the process may run on; in a container, no more than its share of them.

    >>> count() >= 1
    True
    """
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(here, quota() or here)


def quota(folder: str = "/sys/fs/cgroup") -> int | None:
    """The processors' worth of time that a container (cgroup) may use, rounded up; None if it is not limited.

    More threads than that would be stopped for part of each period, and the others would wait for them.

    >>> quota("no such folder") is None
    True
    """
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            granted, period = " ".join(_read(os.path.join(folder, file)) for file in files).split()
            return max(1, -(-int(granted) // int(period))) if int(granted) > 0 else None
        except (OSError, ValueError, ZeroDivisionError):  # not there, or "max"
            continue
    return None


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
