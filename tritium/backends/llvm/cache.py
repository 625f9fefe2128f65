"""Object files on disk, addressed by what they were made from, for as many processes as like.

A file is written under another name and renamed, so a reader sees all of it or nothing; its first bytes are a checksum of
the rest, so what a full disk or a crash left behind is made anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import knobs

__all__ = ["cached_object"]

_SUM = 32  # bytes of the checksum


def _places() -> Iterator[Path]:
    """The cache's own folder, then those it only reads."""
    yield Path(knobs.cache.dir)
    yield from map(Path, filter(None, knobs.cache.read_only_dirs.split(os.pathsep)))


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:  # not there, or not for us to read
        return None
    body = data[_SUM:]
    return body if hashlib.sha256(body).digest() == data[:_SUM] else None


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def cached_object(name: str, key: str, build: Callable[[], bytes]) -> bytes:
    """What `build` returns, from disk if `key` was built before. `name` only helps people who look into the folder.

    >>> import tempfile
    >>> with knobs.cache.scope(), tempfile.TemporaryDirectory() as folder:
    ...     knobs.cache.dir = folder
    ...     [cached_object("x", "k", lambda: b"one"), cached_object("x", "k", lambda: b"two")]
    [b'one', b'one']
    """
    file = Path("cpu", f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.o")
    for place in _places():
        body = _read(place / file)
        if body is not None:
            return body
    body = build()
    try:
        _write(Path(knobs.cache.dir) / file, body)
    except OSError:
        pass  # a read-only or full disk costs the next process a compilation, and this one nothing
    return body
