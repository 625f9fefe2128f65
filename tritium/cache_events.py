"""What the disk cache did in this process: counters, and warnings that are given once of each kind."""

from __future__ import annotations

import warnings

from tritium.named_tuples import NamedTuple
from tritium.trusted_files import Untrusted

__all__ = ["HOW_TO_SHARE", "CacheStats", "count", "damaged", "refused", "reset_stats", "silence", "stats", "tell",
           "tolerate"]  # fmt: skip


class CacheStats(NamedTuple):
    """What the disk cache did in this process.

    Kernels found, kernels not found, kernels stored, errors of the disk when storing; files that were damaged or could
    not be read, files and directories that others could have written.
    """

    hits: int = 0
    misses: int = 0
    stores: int = 0
    failures: int = 0
    damaged: int = 0
    refused: int = 0


_counts = dict.fromkeys(CacheStats._fields, 0)
_told: set[str] = set()


def count(event: str) -> None:
    """Note a hit, miss, store or failure.

    >>> count("hits")
    """
    _counts[event] += 1


def stats() -> CacheStats:
    """The counters of this process.

    >>> stats().hits >= 0
    True
    """
    return CacheStats(**_counts)


def reset_stats() -> None:
    """Set the counters to zero, and warn again of what was warned of before.

    >>> reset_stats(); stats()
    CacheStats(hits=0, misses=0, stores=0, failures=0, damaged=0, refused=0)
    """
    _counts.update(dict.fromkeys(_counts, 0))
    _told.clear()


def tell(kind: str, text: str) -> bool:
    """Warn, once of each kind in a process; whether it was the first time.

    >>> silence("example"); tell("example", "not shown")
    False
    """
    if kind in _told:
        return False
    _told.add(kind)
    warnings.warn(text, stacklevel=3)
    return True


def silence(kind: str) -> None:
    """Warn no more of one kind.

    >>> silence("example")
    """
    _told.add(kind)


def tolerate(error: Exception) -> None:
    """Go on without the cache when it cannot be written, whatever the reason, saying so once.

    >>> tolerate(OSError(30, "read-only"))
    """
    count("failures")
    if isinstance(error, Untrusted):
        refused(str(error))
    else:
        tell("failures", f"compiled kernels are not kept: {error}. Set TRITIUM_CACHE_DIR to a writable directory.")


def damaged(path: str, error: Exception) -> None:
    """Count a file that is not as it was stored, and warn of the first."""
    tell("damaged", f"{path} in the cache of compiled kernels is damaged or cannot be read: {error}. What is damaged "
                    "is made again.")
    count("damaged")


HOW_TO_SHARE = ("Take the right to write from others (chmod go-w), or set TRITIUM_CACHE_DIR to a directory that only "
                "this user can write, or TRITIUM_CACHE_KEY to a secret that signs the files of a shared cache.")


def refused(what: str) -> None:
    """Count a file or directory that others could have written, and warn of the first; `what` says which and why."""
    tell("refused", f"{what}, so it is not trusted with compiled code. {HOW_TO_SHARE}")
    count("refused")
