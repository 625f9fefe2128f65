"""Room in the cache: what killed processes left is swept, and what was used longest ago goes when there is too much.

All of it happens when files are stored, and rarely: the total is kept in the time and the text of a stamp file, so the
directories are looked through once an hour at most, or when this process has written enough to reach the limit. Other
processes may do the same meanwhile: a process that finds a file gone has a cache miss.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator

from tritium import knobs, trusted_files
from tritium.named_tuples import NamedTuple

__all__ = ["Used", "count_again", "entries", "make_room", "remove", "stored", "sweep"]

STAMP = ".size"
_HOUR, _DAY = 3600, 86400
_JUST_NOW = 600  # seconds in which nothing is removed that was written or used
# Nothing else is ever removed: the directory may be one in which a user keeps other things too.
_ENTRY = re.compile(r"[A-Z2-7]{52}")
_NAMES = re.compile(r"[0-9a-f]{64}")
_PRIVATE = re.compile(r"\.tmp\.(\d+)\.[0-9a-f]{16}")


class Used(NamedTuple):
    """Files that go together: when one was last used, their size, where they lie; no folder if it is one file of many.

    >>> Used(0.0, 12, ("/cache/names/ab",), None).size
    12
    """

    time: float
    size: int
    paths: tuple[str, ...]
    folder: str | None


# Directory -> [bytes as far as known, bytes at which to count again].
_known: dict[str, list[int]] = {}


def stored(root: str, size: int) -> None:
    """Note that files of `size` bytes were written in the cache `root`, and tidy up if it is time to.

    >>> import tempfile
    >>> stored(tempfile.mkdtemp(), 4096)
    """
    limit = knobs.cache.max_size
    if root not in _known:
        _known[root] = [_stamped(root), limit]
    total = _known[root]
    total[0] += size
    if total[0] < 0 or (limit and total[0] > max(limit, total[1])):
        total[:] = 0, limit  # before the work, so that no other thread begins it too
        left = make_room(root, limit)
        # What is in use stays even if it is too much: then the next count waits until there is more.
        total[:] = left, max(limit, left + limit // 8)
        with contextlib.suppress(OSError):
            trusted_files.write(os.path.join(root, STAMP), str(left).encode(), 0o644)


def _stamped(root: str) -> int:
    """The size another process has counted within the hour; far below zero if none has."""
    path = os.path.join(root, STAMP)
    with contextlib.suppress(OSError, ValueError):
        if 0 <= time.time() - os.stat(path).st_mtime < _HOUR:
            return max(0, int(trusted_files.read(path, anyone=True)))  # a number can do no harm
    return -1 << 62


def count_again(root: str) -> None:
    """Have the size be counted anew: somebody removed files.

    >>> count_again("/no/such/cache")
    """
    _known.pop(root, None)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(root, STAMP))


def entries(root: str) -> list[Used]:
    """What the cache holds, what was used longest ago first; nothing where there is none.

    >>> entries("/no/such/cache")
    []
    """
    try:
        return sorted(_entries(root, []))
    except OSError:
        return []


def remove(entry: Used) -> None:
    """Remove an entry, the index first: without it the rest is no entry."""
    for path in sorted(entry.paths, key=lambda path: "__grp__" not in path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    if entry.folder is not None:
        with contextlib.suppress(OSError):
            os.rmdir(entry.folder)


def sweep(root: str) -> int:
    """Remove the files that processes wrote and never finished; how many.

    >>> import tempfile
    >>> sweep(tempfile.mkdtemp())
    0
    """
    swept: list[str] = []
    with contextlib.suppress(OSError):
        list(_entries(root, swept))
    return len(swept)


def _unfinished(process: int, age: float) -> bool:
    """Whether nobody will finish a file.

    It goes after ten minutes if its process is gone, after a day in any case: a process on another machine cannot be
    seen, and its number may have been given to another one.
    """
    return age > _DAY or (age > _JUST_NOW and not _alive(process))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        return True
    return True


def _entries(root: str, swept: list[str]) -> Iterator[Used]:
    """What the cache holds; unfinished files that are met on the way are removed and noted."""
    with os.scandir(root) as found:
        folders = [entry for entry in found if entry.is_dir(follow_symlinks=False)]
    list(_files(root, swept))
    for folder in folders:
        with contextlib.suppress(OSError):
            if _ENTRY.fullmatch(folder.name):
                files = list(_files(folder.path, swept))
                yield Used(max((file.time for file in files), default=folder.stat(follow_symlinks=False).st_mtime),
                            sum(file.size for file in files), tuple(p for file in files for p in file.paths),
                            folder.path)  # fmt: skip
            elif folder.name == "names":
                found = list(_files(folder.path, swept))
                yield from (file for file in found if _NAMES.fullmatch(os.path.basename(file.paths[0])))


def _files(folder: str, swept: list[str]) -> Iterator[Used]:
    with os.scandir(folder) as entries:
        for entry in entries:
            private = _PRIVATE.fullmatch(entry.name)
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if private and _unfinished(int(private[1]), time.time() - found.st_mtime):
                    os.unlink(entry.path)
                    swept.append(entry.path)
                elif not private and not stat.S_ISDIR(found.st_mode):
                    yield Used(found.st_mtime, found.st_size, (entry.path,), None)


def make_room(root: str, limit: int) -> int:
    """Sweep, then remove what was used longest ago until three quarters of the limit are taken; the bytes left.

    >>> make_room("/no/such/cache", 1 << 20)
    0
    """
    found = entries(root)
    left, recent = sum(entry.size for entry in found), time.time() - _JUST_NOW
    if not limit or left <= limit:
        return left
    for entry in found:
        if left <= limit * 3 // 4 or entry.time > recent:
            break
        remove(entry)
        left -= entry.size
    return left
