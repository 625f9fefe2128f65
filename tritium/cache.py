"""Compiled kernels on disk: content-addressed directories of files, safe for many processes at once.

A key names a directory; its files are written under a private name and renamed into place, so a reader sees a whole
file or none. Caches in `knobs.cache.read_only_dirs` are looked in as well, never written.

A cache costs time at worst, never correctness. What it holds is read through `read` and `read_group`, which compare it
with a checksum and look who could have written it: what is damaged or not trusted counts as not there, is made again
and replaced. What goes wrong on the disk, whatever it is, is told once and counted.

    >>> import tempfile
    >>> manager = FileCacheManager("k3y", directory=tempfile.mkdtemp())
    >>> path = manager.put("define void @f()", "f.llir", binary=False)
    >>> open(manager.get_file("f.llir")).read()
    'define void @f()'
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source

from tritium import knobs, locks
from tritium.cache_events import CacheStats, count, damaged, reset_stats, stats, tolerate
from tritium.cache_folders import CacheManager, FileCacheManager, as_bytes, base32, checked, key_in, signing_key
from tritium.cache_remote import RedisRemoteCacheBackend, RemoteCacheBackend, RemoteCacheManager
from tritium.trusted_files import Damaged, checksum, matches, seal, unseal

__all__ = [
    "CacheManager", "CacheStats", "FileCacheManager", "Files", "GroupWriter", "RedisRemoteCacheBackend",
    "RemoteCacheBackend", "RemoteCacheManager", "base32", "count", "fingerprint", "get_cache_manager",
    "get_dump_manager", "get_override_manager", "key_in", "read", "read_group", "reset_stats", "signing_key", "stats",
    "tolerate", "write",
]  # fmt: skip


def read(manager: CacheManager, filename: str) -> bytes | None:
    """What `write` stored; None if it is not there, not whole or not to be trusted.

    >>> import tempfile
    >>> manager = FileCacheManager("k3y", directory=tempfile.mkdtemp())
    >>> read(manager, "answer.txt")
    >>> write(manager, "answer.txt", b"42")
    >>> read(manager, "answer.txt")
    b'42'
    """
    try:
        path = manager.get_file(filename)
    except OSError as error:
        damaged(filename, error)
        return None
    if path is None:
        return None
    key = signing_key()
    return checked(path, lambda data: unseal(data, f"{manager.key}/{filename}", key), bool(key))


def write(manager: CacheManager, filename: str, data: bytes) -> None:
    """Store a file only we read, if the disk lets us."""
    try:
        manager.put(seal(data, f"{manager.key}/{filename}", signing_key()), filename)
    except OSError as error:
        tolerate(error)


_SUMS = ".sum"  # of a group's files: they are read by others too, so their checksums lie in a file beside them


class Files:
    """The files of a group: `paths` by name, and their content as far as it is what was stored."""

    def __init__(self, folder: str, paths: dict[str, str], sums: dict[str, str], key: bytes):
        self._folder, self.paths, self._sums, self._key = folder, paths, sums, key

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if it is not as it was stored."""
        def same(data: bytes) -> bytes:
            if not matches(self._sums[name], data, f"{self._folder}/{name}", self._key):
                raise Damaged("its checksum is wrong")
            return data

        return checked(self.paths[name], same, bool(self._key))


def read_group(manager: CacheManager, filename: str) -> Files | None:
    """The files a `GroupWriter` stored together, None if one is missing or their list is damaged.

    >>> import tempfile
    >>> manager = FileCacheManager("k3y", directory=tempfile.mkdtemp())
    >>> writer = GroupWriter(manager, "k.json")
    >>> writer.put("{}", "k.json"); writer.put(b"code", "k.obj"); writer.close()
    >>> files = read_group(manager, "k.json")
    >>> sorted(files.paths), files.read("k.obj")
    (['k.json', 'k.obj'], b'code')
    >>> with open(files.paths["k.obj"], "wb") as file: _ = file.write(b"other")
    >>> import warnings
    >>> with warnings.catch_warnings(): warnings.simplefilter("ignore"); files.read("k.obj")
    """
    sums_name = filename + _SUMS
    try:
        paths = manager.get_group(filename)
    except OSError as error:
        damaged(filename, error)
        return None
    if paths is None:
        return None
    key = signing_key()

    def listed(data: bytes) -> dict[str, str]:
        sums = json.loads(unseal(data, f"{manager.key}/{sums_name}", key))
        if sums.keys() != {name for name in paths if name != sums_name}:
            raise Damaged("it lists other files")
        return sums

    if sums_name not in paths:
        damaged(next(iter(paths.values()), filename), Damaged("there is no list of checksums"))
        return None
    sums = checked(paths[sums_name], listed, bool(key))
    if sums is None:
        return None
    return Files(manager.key, {name: path for name, path in paths.items() if name != sums_name}, sums, key)


class GroupWriter:
    """Stores files that belong together: `put` each of them, then `close`. The disk's errors are raised."""

    def __init__(self, manager: CacheManager, filename: str):
        self._manager, self._filename, self._key = manager, filename, signing_key()
        self.paths: dict[str, str] = {}
        self._sums: dict[str, str] = {}

    def put(self, data: str | bytes, name: str) -> None:
        """Store a file as it is."""
        content = as_bytes(data)
        self.paths[name] = self._manager.put(content, name)
        self._sums[name] = checksum(content, f"{self._manager.key}/{name}", self._key)

    def close(self) -> None:
        """Make the files an entry."""
        name = self._filename + _SUMS
        text = json.dumps(dict(sorted(self._sums.items()))).encode()
        sums = self._manager.put(seal(text, f"{self._manager.key}/{name}", self._key), name)
        self._manager.put_group(self._filename, {**self.paths, name: sums})


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


_NOT_COMPILING = frozenset(("__pycache__", "insight", "interp", "kernels", "runtime", "tools"))


def _sources(folder: str) -> Iterator[os.DirEntry]:
    """The files of a folder that decide what kernels compile to, in an order of their own."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith((".py", ".ll", ".bc")):
            yield entry
        elif entry.name not in _NOT_COMPILING and entry.is_dir():
            yield from _sources(entry.path)


@locks.once
def fingerprint() -> str:
    """A hash of tritium's own files: another version of the compiler never loads this one's kernels.

    Reading them all takes longer than looking whether they are as they were, so the answer is kept: with the bytecode
    of these files, so that a process with an empty cache has it too, or in the cache where Python keeps no bytecode.

    >>> len(fingerprint())
    64
    """
    try:
        files = [(entry, entry.stat()) for entry in _sources(os.path.dirname(os.path.abspath(__file__)))]
        seen = "\n".join(f"{entry.path} {stat.st_size} {stat.st_mtime_ns}" for entry, stat in files)
        state = hashlib.sha256(seen.encode()).hexdigest()
        note = None if sys.dont_write_bytecode else _Note(os.path.dirname(cache_from_source(os.path.abspath(__file__))))
        manager = get_cache_manager(state)
        kept = (note and note.read(state)) or read(manager, "fingerprint.txt")
        if kept is not None:
            return kept.decode()
        digest = hashlib.sha256()
        for entry, _ in files:
            with open(entry.path, "rb") as file:
                digest.update(entry.name.encode() + file.read())
    except OSError as error:  # nobody can tell which compiler this is: its kernels are its own
        tolerate(error)
        return os.urandom(32).hex()
    found = digest.hexdigest().encode()
    if note is None or not note.write(state, found):
        write(manager, "fingerprint.txt", found)
    return digest.hexdigest()


class _Note:
    """A file in a folder of bytecode, trusted as much as that is: the fingerprint of files in some state."""

    def __init__(self, folder: str):
        self.folder, self.path = folder, os.path.join(folder, "tritium.fingerprint")

    def read(self, state: str) -> bytes | None:
        """The fingerprint; None if the note is of another state, or damaged."""
        try:
            with open(self.path, "rb") as file:
                return unseal(file.read(), state)
        except (OSError, Damaged):
            return None

    def write(self, state: str, found: bytes) -> bool:
        """Whether the fingerprint could be noted."""
        import tempfile  # it brings in a dozen modules, and the note is written once

        try:
            os.makedirs(self.folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(seal(found, state))
            os.replace(file.name, self.path)
        except OSError:
            return False
        return True
