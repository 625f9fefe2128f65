"""Directories of compiled kernels: where the files of a key lie, who may write them, whole files or none.

Files are written under a private name and renamed into place. `checked` reads a file that is to be trusted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tritium import knobs, locks, trusted_files
from tritium.cache_events import HOW_TO_SHARE, count, damaged, refused, silence, tell
from tritium.trusted_files import Damaged, Untrusted

__all__ = ["CacheManager", "FileCacheManager", "as_bytes", "base32", "checked", "key_in", "names_in",
           "signing_key"]  # fmt: skip


def signing_key() -> bytes:
    """The key files are signed with, empty if there is none: `knobs.cache.signing_key`, or what the key file holds.

    >>> signing_key()
    b''
    """
    text, path = knobs.cache.signing_key, knobs.cache.signing_key_file
    return _signing_key(text, path) if text or path else b""


def key_in(path: str) -> bytes:
    """The key that a file holds, which only its owner can write."""
    return _signing_key(None, path)


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
                damaged(path, error)
                continue
            reason = "" if self._anyone else trusted_files.fault(found)
            if not reason:
                return path
            refused(f"{path} {reason}")
        return None

    def has_file(self, filename: str) -> bool:
        """Whether a file is there."""
        return self.get_file(filename) is not None

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together: a cache that was moved is still whole, as only the names count."""
        path = self.get_file(f"__grp__{filename}")
        names = None if path is None else checked(path, names_in, self._anyone)
        if path is None or names is None:
            return None
        folder = os.path.dirname(path)
        try:
            whole = set(os.listdir(folder)).issuperset(names)
        except FileNotFoundError:  # removed meanwhile
            return None
        except OSError as error:
            damaged(folder, error)
            return None
        return {name: os.path.join(folder, name) for name in names} if whole else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together; written last, it makes them a cache entry."""
        text = json.dumps({"child_paths": dict(sorted(group.items()))})
        return self.put(text, f"__grp__{filename}", binary=False)

    def put(self, data, filename: str, binary: bool = True) -> str:
        """Write under a private name, then rename: other processes never see half a file."""
        path, content = os.path.join(self.cache_dir, filename), as_bytes(data)
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


def as_bytes(data) -> bytes:
    """Data to store: bytes as they are, everything else as text.

    >>> as_bytes("text"), as_bytes(bytearray(2))
    (b'text', b'\\x00\\x00')
    """
    return bytes(data) if isinstance(data, bytes | bytearray | memoryview) else str(data).encode()


def names_in(index: bytes) -> list[str]:
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
        if tell("refused", f"{reason}: compiled code is not loaded from there and is {place[0]}. {HOW_TO_SHARE}"):
            count("refused")
        return place[1]
    if os.path.isdir(directory):
        return directory
    above = directory
    while not os.path.lexists(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and not os.access(above, os.W_OK | os.X_OK):
        place = _private(directory)
        tell("home", f"{directory} cannot be made: compiled kernels are {place[0]}. Set TRITIUM_CACHE_DIR to a "
             "writable directory.")
        return place[1]
    if not knobs.has_home() and directory.startswith(knobs.private_dir()):
        tell("home", f"there is no home directory: compiled kernels are kept in {directory}. Set TRITIUM_CACHE_DIR to "
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
    silence("failures")  # that is what our callers say
    return "not kept", os.path.join(os.devnull, "cache")


def _trusted_layer(directory: str) -> bool:
    reason = trusted_files.exposed(directory)
    if reason:
        refused(reason)
    return not reason


def checked(path: str, check: Callable[[bytes], Any], anyone: bool) -> Any:
    """What `check` makes of a file; None if it is gone, damaged or not to be trusted."""
    try:
        return check(trusted_files.read(path, anyone))
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        return None
    except Untrusted as error:
        refused(str(error))
    except (OSError, ValueError) as error:
        damaged(path, error)
    return None
