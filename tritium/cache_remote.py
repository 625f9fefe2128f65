"""A cache of compiled kernels on a server that machines share, with the local one in front of it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from tritium import knobs
from tritium.cache_events import tolerate
from tritium.cache_folders import CacheManager, FileCacheManager, as_bytes, checked, names_in, signing_key

__all__ = ["RedisRemoteCacheBackend", "RemoteCacheBackend", "RemoteCacheManager"]


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
        content = as_bytes(data)
        if self._remote:
            self._send(filename, content)
        return self._local.put(content, filename, binary)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored together, fetching those that are missing."""
        group, index = self._local.get_group(filename), f"__grp__{filename}"
        path = None if group or not self._remote else self._fetch([index]).get(index)
        if path is None:
            return group
        names = checked(path, names_in, bool(signing_key()))
        found = self._fetch(names) if names else {}
        return found if names and len(found) == len(names) else None

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together, here and on the server."""
        path = self._local.put_group(filename, group)
        if self._remote:
            self._send(f"__grp__{filename}", json.dumps({"child_paths": dict(sorted(group.items()))}).encode())
        return path
