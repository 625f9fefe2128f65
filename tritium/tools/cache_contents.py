"""What the cache of compiled kernels holds, entry by entry: names, targets, sizes, and whether it is whole."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from tritium import cache, cache_limits
from tritium.named_tuples import NamedTuple

__all__ = ["Held", "contents", "root", "verify"]

KINDS = ("kernel", "tuning", "part")
_GROUP, _TUNED = "__grp__", ".autotune.json"


class Held(NamedTuple):
    """An entry: a compiled kernel, results of tuning, or a part that tritium made for itself."""

    kind: str  # one of KINDS
    name: str
    target: str  # "" for what is no kernel
    key: str  # the name of its folder
    used: float  # when, in seconds since 1970
    size: int
    entry: cache_limits.Used

    def facts(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {name: value for name, value in self._asdict().items() if name != "entry"}


def root() -> str:
    """The folder that the cache is in: what the settings say, or a private one where that is not to be trusted.

    >>> os.path.isabs(root())
    True
    """
    return os.path.dirname(cache.FileCacheManager("any").cache_dir)


def contents(folder: str) -> list[Held]:
    """All entries, what was used last first.

    >>> contents("/no/such/cache")
    []
    """
    return [_held(entry) for entry in reversed(cache_limits.entries(folder))]


def _held(entry: cache_limits.Used) -> Held:
    names = [os.path.basename(path) for path in entry.paths]
    groups = [name.removeprefix(_GROUP) for name in names if name.startswith(_GROUP)]
    key = os.path.basename(entry.folder) if entry.folder else "names"
    tuned = next((name for name in groups if name.endswith(_TUNED)), None)
    if tuned:
        return Held("tuning", tuned.removesuffix(_TUNED), "", key, entry.time, entry.size, entry)
    kernel = next((name for name in groups if name.endswith(".json")), None)
    if kernel and entry.folder:
        target = _target(os.path.join(entry.folder, kernel))
        if target:
            return Held("kernel", kernel.removesuffix(".json"), target, key, entry.time, entry.size, entry)
    name = next((name for name in groups or sorted(names)), "") if entry.folder else "names a kernel uses"
    return Held("part", name, "", key, entry.time, entry.size, entry)


def _target(path: str) -> str:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError), open(path) as file:
        found = json.load(file)["target"]
        return f"{found['backend']}:{found['arch']}"
    return ""


def matching(held: Iterable[Held], names: list[str], kind: str | None = None,
             before: float | None = None) -> Iterator[Held]:
    """Those whose name or key fits a pattern, that are of a kind, and that were used before a time.

    >>> list(matching([], ["add*"]))
    []
    """
    from fnmatch import fnmatchcase

    for one in held:
        fits = not names or any(fnmatchcase(one.name, name) or one.key == name for name in names)
        if fits and kind in (None, one.kind) and (before is None or one.used < before):
            yield one


def verify(one: Held, folder: str) -> str:
    """What is wrong with an entry, "" if it is whole and to be trusted: every file is read, as a launch would.

    >>> verify(Held("part", "x", "", "K", 0.0, 0, cache_limits.Used(0.0, 0, (), None)), "/no/such/cache")
    ''
    """
    before = cache.stats()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        manager = cache.FileCacheManager(one.key, directory=folder)
        whole = all(_whole(manager, path, one) for path in one.entry.paths)
    now = cache.stats()
    if now.refused > before.refused:
        return "not trusted: others could have written it"
    if now.damaged > before.damaged:
        return "damaged"
    return "" if whole else "incomplete"


def _whole(manager: cache.CacheManager, path: str, one: Held) -> bool:
    """Whether a file can be read, with all that belongs to it."""
    name = os.path.basename(path)
    names = {os.path.basename(path) for path in one.entry.paths}
    if name.startswith(_GROUP):
        files = cache.read_group(manager, name.removeprefix(_GROUP))
        return files is not None and all(files.read(part) is not None for part in files.paths)
    if any(other.startswith(_GROUP) for other in names) or name.startswith("."):
        return True  # its group tells
    return cache.read(manager, name) is not None
