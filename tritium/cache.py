"""Compiled kernels on disk: content-addressed directories of files, safe for many processes at once.

A key names a directory; its files are written under a private name and renamed into place, so a reader sees a whole
file or none. Caches in `knobs.cache.read_only_dirs` are looked in as well, never written. A cache that cannot be
written costs time, not correctness: the kernel is compiled and stays in memory.

    >>> import tempfile
    >>> manager = FileCacheManager("k3y", directory=tempfile.mkdtemp())
    >>> path = manager.put("define void @f()", "f.llir", binary=False)
    >>> open(manager.get_file("f.llir")).read()
    'define void @f()'
"""

from __future__ import annotations

import base64
import errno
import functools
import hashlib
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from tritium import knobs

__all__ = [
    "CacheManager", "CacheStats", "FileCacheManager", "RedisRemoteCacheBackend", "RemoteCacheBackend",
    "RemoteCacheManager", "base32", "fingerprint", "get_cache_manager", "get_dump_manager", "get_override_manager",
    "reset_stats", "stats",
]  # fmt: skip


class CacheStats(NamedTuple):
    """What the disk cache did in this process: kernels found, kernels not found, kernels stored, stores refused."""

    hits: int = 0
    misses: int = 0
    stores: int = 0
    failures: int = 0


_counts = dict.fromkeys(CacheStats._fields, 0)


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
    """Set the counters to zero.

    >>> reset_stats(); stats()
    CacheStats(hits=0, misses=0, stores=0, failures=0)
    """
    _counts.update(dict.fromkeys(_counts, 0))


def base32(key: str) -> str:
    """A hexadecimal hash as a short directory name.

    >>> base32("00ff")
    'AD7Q'
    """
    return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")


class CacheManager(ABC):
    """Where the files of one key are kept; `knobs.cache.manager_class` may name another one."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self.key = key

    @abstractmethod
    def get_file(self, filename: str) -> str | None:
        """The path of a file, None where there is none."""

    @abstractmethod
    def put(self, data, filename: str, binary: bool = True) -> str:
        """Store a file, whole or not at all, and give its path."""

    @abstractmethod
    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together as `filename`: name -> path, None unless all are there."""

    @abstractmethod
    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store that the files of `group` belong together."""


class FileCacheManager(CacheManager):
    """The files of one key in a directory."""

    def __init__(self, key: str, override: bool = False, dump: bool = False, directory: str | None = None):
        super().__init__(key)
        layers = [d for d in knobs.cache.read_only_dirs.split(os.pathsep) if d]
        if override or dump:
            directory, layers = knobs.cache.override_dir if override else knobs.cache.dump_dir, []
        self.cache_dir = os.path.join(directory or knobs.cache.dir, key)
        self._layers = [self.cache_dir, *(os.path.join(layer, key) for layer in layers)]

    def get_file(self, filename: str) -> str | None:
        """The path of a file in the first cache that has it."""
        for layer in self._layers:
            path = os.path.join(layer, filename)
            if os.path.exists(path):
                return path
        return None

    def has_file(self, filename: str) -> bool:
        """Whether a file is there."""
        return self.get_file(filename) is not None

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together: a cache that was moved is still whole, as only the names count."""
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                names = json.loads(file.read().decode())["child_paths"]
            folder = os.path.dirname(path)
            whole = set(os.listdir(folder)).issuperset(names)
        except (OSError, ValueError, KeyError):  # being replaced, or cut short by a full disk
            return None
        return {name: os.path.join(folder, name) for name in names} if whole else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together; written last, it makes them a cache entry."""
        text = json.dumps({"child_paths": dict(sorted(group.items()))})
        return self.put(text, f"__grp__{filename}", binary=False)

    def put(self, data, filename: str, binary: bool = True) -> str:
        """Write under a private name, then rename: other processes never see half a file."""
        path = os.path.join(self.cache_dir, filename)
        private = os.path.join(self.cache_dir, f".tmp.{os.getpid()}.{os.urandom(8).hex()}")
        os.makedirs(self.cache_dir, exist_ok=True)
        try:
            with open(private, "wb") as file:
                file.write(data if isinstance(data, bytes | bytearray | memoryview) else str(data).encode())
            os.replace(private, path)
        except BaseException:
            if os.path.exists(private):
                os.unlink(private)
            raise
        return path


class RemoteCacheBackend(ABC):
    """Somewhere else to keep files: a server shared by machines.

    >>> class Kept(RemoteCacheBackend):
    ...     files = {}
    ...     def get(self, filenames): return {name: self.files[name] for name in filenames if name in self.files}
    ...     def put(self, filename, data): self.files[filename] = data
    >>> Kept("key").put("kernel.obj", b"code")
    >>> Kept("key").get(["kernel.obj", "kernel.ptx"])
    {'kernel.obj': b'code'}
    """

    def __init__(self, key: str):
        self.key = key

    @abstractmethod
    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """The content of those of the files that are there."""

    @abstractmethod
    def put(self, filename: str, data: bytes) -> None:
        """Store a file."""


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """Files in a Redis server; the settings are `knobs.redis`."""

    def __init__(self, key: str):
        import redis  # pyright: ignore[reportMissingImports]  (only users of such a server have it)

        super().__init__(key)
        self._redis = redis.Redis(host=knobs.redis.host, port=knobs.redis.port)

    def _name(self, filename: str) -> str:
        return knobs.redis.key_format.format(key=self.key, filename=filename)

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """The content of those of the files the server has."""
        values = self._redis.mget([self._name(name) for name in filenames])
        return {name: value for name, value in zip(filenames, values) if value is not None}

    def put(self, filename: str, data: bytes) -> None:
        """Store a file on the server."""
        self._redis.set(self._name(filename), data)


class RemoteCacheManager(CacheManager):
    """A remote cache with the local one in front of it."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        super().__init__(key)
        self._local = FileCacheManager(key, override, dump)
        self._remote: Any = None if override or dump else knobs.cache.remote_manager_class(key)
        self.cache_dir = self._local.cache_dir

    def _fetch(self, filenames: list[str]) -> dict[str, str]:
        return {name: self._local.put(data, name) for name, data in self._remote.get(filenames).items()}

    def get_file(self, filename: str) -> str | None:
        """The path of a file, fetched when only the server has it."""
        path = self._local.get_file(filename)
        return path if path or not self._remote else self._fetch([filename]).get(filename)

    def put(self, data, filename: str, binary: bool = True) -> str:
        """Store a file here and on the server."""
        if self._remote:
            self._remote.put(filename, data if isinstance(data, bytes) else str(data).encode())
        return self._local.put(data, filename, binary)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together, fetching those that are missing."""
        group = self._local.get_group(filename)
        index = None if group or not self._remote else self._fetch([f"__grp__{filename}"]).get(f"__grp__{filename}")
        if index is None:
            return group
        with open(index) as file:
            names = list(json.load(file)["child_paths"])
        found = self._fetch(names)
        return found if len(found) == len(names) else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together, here and on the server."""
        path = self._local.put_group(filename, group)
        if self._remote:
            with open(path, "rb") as file:
                self._remote.put(f"__grp__{filename}", file.read())
        return path


def _manager(key: str, **kind) -> CacheManager:
    cls = knobs.cache.manager_class or (RemoteCacheManager if knobs.cache.remote_manager_class else FileCacheManager)
    return cls(base32(key), **kind)


def get_cache_manager(key: str) -> CacheManager:
    """Where the files of a hexadecimal key are kept.

    >>> get_cache_manager("00ff").key
    'AD7Q'
    """
    return _manager(key)


def get_override_manager(key: str) -> CacheManager:
    """Where the user may put a stage of their own (TRITON_KERNEL_OVERRIDE).

    >>> get_override_manager("00ff").key
    'AD7Q'
    """
    return _manager(key, override=True)


def get_dump_manager(key: str) -> CacheManager:
    """Where all stages go when asked (TRITON_KERNEL_DUMP).

    >>> get_dump_manager("00ff").key
    'AD7Q'
    """
    return _manager(key, dump=True)


# A cache on a full, missing or read-only disk must not stop a kernel from running.
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR}


def tolerate(error: OSError) -> None:
    """Go on without the cache when it cannot be written, saying so once; raise what is another problem.

    >>> tolerate(OSError(errno.EROFS, "read-only"))
    """
    if error.errno not in _UNWRITABLE:
        raise error
    if not _counts["failures"]:
        warnings.warn(f"compiled kernels are not kept: {error}. Set TRITIUM_CACHE_DIR to a writable directory.",
                      stacklevel=2)
    count("failures")


_NOT_COMPILING = frozenset(("__pycache__", "interp", "kernels", "runtime", "tools"))


def _sources(folder: str) -> Iterator[os.DirEntry]:
    """The files of a folder that decide what kernels compile to, in an order of their own."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith((".py", ".ll", ".bc")):
            yield entry
        elif entry.name not in _NOT_COMPILING and entry.is_dir():
            yield from _sources(entry.path)


@functools.cache
def fingerprint() -> str:
    """A hash of tritium's own files: another version of the compiler never loads this one's kernels.

    Reading them all takes longer than looking whether they are as they were, so the answer is kept.

    >>> len(fingerprint())
    64
    """
    files = [(entry, entry.stat()) for entry in _sources(os.path.dirname(os.path.abspath(__file__)))]
    seen = "\n".join(f"{entry.path} {stat.st_size} {stat.st_mtime_ns}" for entry, stat in files)
    manager = get_cache_manager(hashlib.sha256(seen.encode()).hexdigest())
    kept = manager.get_file("fingerprint.txt")
    if kept is not None:
        with open(kept) as file:
            return file.read()
    digest = hashlib.sha256()
    for entry, _ in files:
        with open(entry.path, "rb") as file:
            digest.update(entry.name.encode() + file.read())
    try:
        manager.put(digest.hexdigest(), "fingerprint.txt", binary=False)
    except OSError as error:
        tolerate(error)
    return digest.hexdigest()
