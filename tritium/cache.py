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

import base64
import hashlib
import json
import os
import stat
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tritium import knobs, locks, trusted_files
from tritium.trusted_files import Damaged, Untrusted, checksum, matches, seal, unseal

__all__ = [
    "CacheManager", "CacheStats", "FileCacheManager", "Files", "GroupWriter", "RedisRemoteCacheBackend",
    "RemoteCacheBackend", "RemoteCacheManager", "base32", "fingerprint", "get_cache_manager", "get_dump_manager",
    "get_override_manager", "read", "read_group", "reset_stats", "stats", "tolerate", "write",
]  # fmt: skip


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


def _tell(kind: str, text: str) -> bool:
    """Warn, once of each kind in a process; whether it was the first time."""
    if kind in _told:
        return False
    _told.add(kind)
    warnings.warn(text, stacklevel=3)
    return True


def tolerate(error: Exception) -> None:
    """Go on without the cache when it cannot be written, whatever the reason, saying so once.

    >>> tolerate(OSError(30, "read-only"))
    """
    count("failures")
    if isinstance(error, Untrusted):
        _refused(str(error))
    else:
        _tell("failures", f"compiled kernels are not kept: {error}. Set TRITIUM_CACHE_DIR to a writable directory.")


def _damaged(path: str, error: Exception) -> None:
    _tell("damaged", f"{path} in the cache of compiled kernels is damaged or cannot be read: {error}. What is damaged "
                     "is made again.")
    count("damaged")


_HOW_TO_SHARE = ("Take the right to write from others (chmod go-w), or set TRITIUM_CACHE_DIR to a directory that only "
                 "this user can write, or TRITIUM_CACHE_KEY to a secret that signs the files of a shared cache.")


def _refused(what: str) -> None:
    _tell("refused", f"{what}, so it is not trusted with compiled code. {_HOW_TO_SHARE}")
    count("refused")


def signing_key() -> bytes:
    """The key files are signed with, empty if there is none: `knobs.cache.signing_key`, or what the key file holds.

    >>> signing_key()
    b''
    """
    text, path = knobs.cache.signing_key, knobs.cache.signing_key_file
    return _signing_key(text, path) if text or path else b""


@locks.once
def _signing_key(text: str | None, path: str | None) -> bytes:
    if text:
        found = text.encode()
    else:
        try:
            found = trusted_files.read(os.path.realpath(path or "")).strip()
        except OSError as error:
            raise ValueError(f"the key of the cache cannot be read: {error}\nhint: TRITIUM_CACHE_KEY_FILE names a file "
                             "that only its owner can write") from None
    if len(found) < 16:
        raise ValueError(f"a key of {len(found)} bytes signs nothing: TRITIUM_CACHE_KEY has at least 16, from "
                         "`openssl rand -hex 32` for example")
    return hashlib.blake2b(found).digest()


def base32(key: str) -> str:
    """A hexadecimal hash as a short directory name.

    >>> base32("00ff")
    'AD7Q'
    """
    return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")


class CacheManager(ABC):
    """Where the files of one key are kept; `knobs.cache.manager_class` may name another one."""

    key = ""

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
    """The files of one key in a directory.

    Directories are made for this user alone; with a key, by which files are known wherever they lie, others may read
    them as far as the umask lets them.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False, directory: str | None = None):
        super().__init__(key)
        signed = bool(signing_key())
        # What the user puts there by hand, or is to read, is no cache.
        self._cache = not (override or dump)
        self._anyone = signed or not self._cache
        self._modes = (0o777, 0o666) if self._anyone else (0o700, 0o600)
        if self._cache:
            root = os.path.abspath(directory or knobs.cache.dir)
            self._root = root if signed else _usable(root)
            layers = [os.path.abspath(layer) for layer in knobs.cache.read_only_dirs.split(os.pathsep) if layer]
            layers = [layer for layer in layers if signed or _trusted_layer(layer)]
        else:
            self._root, layers = os.path.abspath(knobs.cache.override_dir if override else knobs.cache.dump_dir), []
        self.cache_dir = os.path.join(self._root, key)
        self._layers = [self.cache_dir, *(os.path.join(layer, key) for layer in layers)]

    def get_file(self, filename: str) -> str | None:
        """The path of a file in the first cache that has it and that is to be trusted."""
        for layer in self._layers:
            path = os.path.join(layer, filename)
            try:
                found = os.stat(path) if self._anyone else os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                _damaged(path, error)
                continue
            reason = "" if self._anyone else trusted_files.fault(found)
            if not reason:
                return path
            _refused(f"{path} {reason}")
        return None

    def has_file(self, filename: str) -> bool:
        """Whether a file is there."""
        return self.get_file(filename) is not None

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together: a cache that was moved is still whole, as only the names count."""
        path = self.get_file(f"__grp__{filename}")
        names = None if path is None else _checked(path, _names, self._anyone)
        if path is None or names is None:
            return None
        folder = os.path.dirname(path)
        try:
            whole = set(os.listdir(folder)).issuperset(names)
        except FileNotFoundError:  # removed meanwhile
            return None
        except OSError as error:
            _damaged(folder, error)
            return None
        return {name: os.path.join(folder, name) for name in names} if whole else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together; written last, it makes them a cache entry."""
        text = json.dumps({"child_paths": dict(sorted(group.items()))})
        return self.put(text, f"__grp__{filename}", binary=False)

    def put(self, data, filename: str, binary: bool = True) -> str:
        """Write under a private name, then rename: other processes never see half a file."""
        path, content = os.path.join(self.cache_dir, filename), _bytes(data)
        try:
            self._write(path, content)
        except FileNotFoundError:  # somebody removed the directory meanwhile
            self._write(path, content)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            self._move_aside(path)
            self._write(path, content)
        if self._cache:
            from tritium import cache_limits  # not needed by those who only read

            cache_limits.stored(self._root, len(content))
        return path

    def _write(self, path: str, content: bytes) -> None:
        folder, file = self._modes
        look = os.lstat if self._cache else os.stat
        try:
            found = look(self.cache_dir)
        except FileNotFoundError:
            trusted_files.make_dirs(self.cache_dir, folder)
            found = look(self.cache_dir)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(20, "not a directory", self.cache_dir)
        # What another user reads or writes there is theirs to replace.
        if not self._anyone and (reason := trusted_files.fault(found)):
            raise Untrusted(f"{self.cache_dir} {reason}")
        trusted_files.write(path, content, file)

    def _move_aside(self, path: str) -> None:
        """Make way for a file where a directory is, and for a directory where something else is."""
        if not os.path.lexists(self.cache_dir):
            return
        if os.path.islink(self.cache_dir) or not os.path.isdir(self.cache_dir):
            os.unlink(self.cache_dir)
        elif os.path.isdir(path):
            import shutil

            aside = trusted_files.private_name(path)
            os.rename(path, aside)
            shutil.rmtree(aside, ignore_errors=True)


def _bytes(data) -> bytes:
    return bytes(data) if isinstance(data, bytes | bytearray | memoryview) else str(data).encode()


def _names(index: bytes) -> list[str]:
    """The files a group consists of; each lies in the directory of the group."""
    try:
        names = list(json.loads(index.decode())["child_paths"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Damaged("it is no list of files") from None
    if not all(isinstance(name, str) and name and os.path.basename(name) == name and "\0" not in name
               and name not in (".", "..") for name in names):  # fmt: skip
        raise Damaged("it names files in other directories")
    return names


# ---------------------------------------------------------------------------------------------------------------------
# Directories


def _usable(directory: str) -> str:
    """`directory`, or one of this user's own if others could change it, or if it is not there and cannot be made."""
    reason = trusted_files.exposed(directory)
    if reason:
        place = _private(directory)
        if _tell("refused", f"{reason}: compiled code is not loaded from there and is {place[0]}. {_HOW_TO_SHARE}"):
            count("refused")
        return place[1]
    if os.path.isdir(directory):
        return directory
    above = directory
    while not os.path.lexists(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and not os.access(above, os.W_OK | os.X_OK):
        place = _private(directory)
        _tell("home", f"{directory} cannot be made: compiled kernels are {place[0]}. Set TRITIUM_CACHE_DIR to a "
                      "writable directory.")
        return place[1]
    if not knobs.has_home() and directory.startswith(knobs.private_dir()):
        _tell("home", f"there is no home directory: compiled kernels are kept in {directory}. Set TRITIUM_CACHE_DIR to "
                      "a directory that lasts.")
    return directory


def _private(instead_of: str) -> tuple[str, str]:
    """(what happens to files, where) if a directory cannot be used."""
    folder = knobs.private_dir()
    try:
        trusted_files.make_dirs(folder, 0o700)
        found = os.lstat(folder)
        safe = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
        safe = safe and not trusted_files.exposed(folder)
    except OSError:
        safe = False
    if safe and not instead_of.startswith(folder):
        return f"kept in {folder}", os.path.join(folder, "cache")
    _told.add("failures")  # that is what our callers say
    return "not kept", os.path.join(os.devnull, "cache")


def _trusted_layer(directory: str) -> bool:
    reason = trusted_files.exposed(directory)
    if reason:
        _refused(reason)
    return not reason


# ---------------------------------------------------------------------------------------------------------------------
# Reading and writing what is checked


def _checked(path: str, check: Callable[[bytes], Any], anyone: bool) -> Any:
    """What `check` makes of a file; None if it is gone, damaged or not to be trusted."""
    try:
        return check(trusted_files.read(path, anyone))
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        return None
    except Untrusted as error:
        _refused(str(error))
    except (OSError, ValueError) as error:
        _damaged(path, error)
    return None


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
        _damaged(filename, error)
        return None
    if path is None:
        return None
    key = signing_key()
    return _checked(path, lambda data: unseal(data, f"{manager.key}/{filename}", key), bool(key))


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

        return _checked(self.paths[name], same, bool(self._key))


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
        _damaged(filename, error)
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
        _damaged(next(iter(paths.values()), filename), Damaged("there is no list of checksums"))
        return None
    sums = _checked(paths[sums_name], listed, bool(key))
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
        content = _bytes(data)
        self.paths[name] = self._manager.put(content, name)
        self._sums[name] = checksum(content, f"{self._manager.key}/{name}", self._key)

    def close(self) -> None:
        """Make the files an entry."""
        name = self._filename + _SUMS
        text = json.dumps(dict(sorted(self._sums.items()))).encode()
        sums = self._manager.put(seal(text, f"{self._manager.key}/{name}", self._key), name)
        self._manager.put_group(self._filename, {**self.paths, name: sums})


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
    """A remote cache with the local one in front of it.

    A server that does not answer is one that has nothing. What it sends is checked like everything else, so without a
    key (TRITIUM_CACHE_KEY) everyone who can write to the server is trusted with the code this process runs.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        super().__init__(key)
        self._local = FileCacheManager(key, override, dump)
        self._remote: Any = None
        if not (override or dump):
            try:
                self._remote = knobs.cache.remote_manager_class(key)
            except OSError as error:
                tolerate(error)
        self.cache_dir = self._local.cache_dir

    def _fetch(self, filenames: list[str]) -> dict[str, str]:
        """Name -> path of those files the server has, once they are here."""
        try:
            found = self._remote.get(filenames)
            return {name: self._local.put(found[name], name) for name in filenames if name in found}
        except Exception as error:  # of the server's library
            tolerate(error)
            return {}

    def _send(self, filename: str, data: bytes) -> None:
        try:
            self._remote.put(filename, data)
        except Exception as error:  # of the server's library
            tolerate(error)

    def get_file(self, filename: str) -> str | None:
        """The path of a file, fetched when only the server has it."""
        path = self._local.get_file(filename)
        return path if path or not self._remote else self._fetch([filename]).get(filename)

    def put(self, data, filename: str, binary: bool = True) -> str:
        """Store a file here and on the server."""
        content = _bytes(data)
        if self._remote:
            self._send(filename, content)
        return self._local.put(content, filename, binary)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together, fetching those that are missing."""
        group, index = self._local.get_group(filename), f"__grp__{filename}"
        path = None if group or not self._remote else self._fetch([index]).get(index)
        if path is None:
            return group
        names = _checked(path, _names, bool(signing_key()))
        found = self._fetch(names) if names else {}
        return found if names and len(found) == len(names) else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together, here and on the server."""
        path = self._local.put_group(filename, group)
        if self._remote:
            self._send(f"__grp__{filename}", json.dumps({"child_paths": dict(sorted(group.items()))}).encode())
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


_NOT_COMPILING = frozenset(("__pycache__", "interp", "kernels", "runtime", "tools"))


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

    Reading them all takes longer than looking whether they are as they were, so the answer is kept.

    >>> len(fingerprint())
    64
    """
    try:
        files = [(entry, entry.stat()) for entry in _sources(os.path.dirname(os.path.abspath(__file__)))]
        seen = "\n".join(f"{entry.path} {stat.st_size} {stat.st_mtime_ns}" for entry, stat in files)
        manager = get_cache_manager(hashlib.sha256(seen.encode()).hexdigest())
        kept = read(manager, "fingerprint.txt")
        if kept is not None:
            return kept.decode()
        digest = hashlib.sha256()
        for entry, _ in files:
            with open(entry.path, "rb") as file:
                digest.update(entry.name.encode() + file.read())
    except OSError as error:  # nobody can tell which compiler this is: its kernels are its own
        tolerate(error)
        return os.urandom(32).hex()
    write(manager, "fingerprint.txt", digest.hexdigest().encode())
    return digest.hexdigest()
