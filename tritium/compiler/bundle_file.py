"""The file of a bundle: an index of compiled kernels, and their binaries.

    tritium bundle 1\\n | length of the index | index, sealed | blobs

The index is JSON. It has a row for each kernel, the checksum of every blob, and a checksum of its own, which with a key
is a signature: `trusted_files`. It is read and checked when a bundle is opened, a blob when it is used.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "k.tbundle")
    >>> writer = Writer()
    >>> rows = [{"kernel": "m:k", "binary": writer.add(b"code")}]
    >>> writer.write(path, {"kernels": rows})
    >>> file = BundleFile(path)
    >>> file.index["kernels"][0]["kernel"], file.blob(rows[0]["binary"])
    ('m:k', b'code')
"""

from __future__ import annotations

import json
import os
from typing import Any

from tritium import trusted_files
from tritium.trusted_files import Damaged, Untrusted, checksum, seal, unseal

__all__ = ["BundleError", "BundleFile", "Writer"]

_MAGIC = b"tritium bundle 1\n"
_NAME = "tritium bundle"  # what the checksums are of
_LARGEST = 1 << 30  # bytes of an index


class BundleError(ValueError):
    """A bundle that cannot be used: damaged, not trusted, of another version, or without what is wanted.

    >>> raise BundleError("kernels.tbundle is cut short")
    Traceback (most recent call last):
    tritium.compiler.bundle_file.BundleError: kernels.tbundle is cut short
    """


class Writer:
    """Collects blobs; `write` makes the file. A blob that is there already is not stored again.

    >>> writer = Writer()
    >>> writer.add(b"code"), writer.add(b"more"), writer.add(b"code")
    (0, 1, 0)
    """

    def __init__(self):
        self._numbers: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """The number of a blob."""
        return self._numbers.setdefault(data, len(self._numbers))

    def write(self, path: str, index: dict[str, Any], key: bytes = b"") -> None:
        """Write the file, whole or not at all; with a key it is signed."""
        blobs = [[len(data), checksum(data, _NAME)] for data in self._numbers]
        text = seal(json.dumps({**index, "blobs": blobs}).encode(), _NAME, key)
        parts = (_MAGIC, len(text).to_bytes(8, "little"), text, *self._numbers)
        trusted_files.write(os.path.abspath(path), b"".join(parts), 0o644)


class BundleFile:
    """A bundle that is open: its `index`, and its blobs. Raises BundleError for what is damaged or not trusted."""

    def __init__(self, path: str, key: bytes = b""):
        self.path = path
        self._file = -1
        real = os.path.realpath(path)
        try:
            # A link in a directory that others write leads where they want.
            if not key and (reason := trusted_files.exposed(os.path.dirname(os.path.abspath(path)))):
                raise Untrusted(f"{path}: {reason}")
            self._file, found = trusted_files.opened(real, anyone=bool(key))
            self.size = found.st_size
            self.index = self._read_index(key)
        except Untrusted as error:
            raise BundleError(f"{error}, so it is not trusted with compiled code\nhint: take the right to write from "
                              "others (chmod go-w), or sign bundles: `tritium bundle build --key-file`") from None
        except Damaged as error:
            raise BundleError(f"{path} is refused: {error}{_about_keys(error)}") from None
        except OSError as error:
            raise BundleError(f"cannot open the bundle {path!r}: {error.strerror or error}") from None

    def _read_index(self, key: bytes) -> dict[str, Any]:
        head = os.pread(self._file, len(_MAGIC) + 8, 0)
        if not head.startswith(_MAGIC[:-2]):
            raise Damaged("it is no bundle")
        if not head.startswith(_MAGIC):
            raise Damaged("another version of tritium wrote it, in another form")
        length = int.from_bytes(head[len(_MAGIC):], "little")
        if length > min(self.size, _LARGEST):
            raise Damaged("it is cut short")
        text = os.pread(self._file, length, len(head))
        index = json.loads(unseal(text, _NAME, key))
        at, self._places = len(head) + length, []
        for size, _ in index["blobs"]:
            self._places.append(at)
            at += size
        if at != self.size:
            raise Damaged("it is cut short" if at > self.size else "there is something behind its end")
        return index

    def blob(self, number: int) -> bytes:
        """The content of a blob; BundleError if it is not what was written."""
        size, wanted = self.index["blobs"][number]
        try:
            data = os.pread(self._file, size, self._places[number])
        except OSError as error:
            raise BundleError(f"{self.path} cannot be read: {error}") from None
        if len(data) != size or not trusted_files.matches(wanted, data, _NAME):
            raise BundleError(f"{self.path} is damaged: the checksum of part {number} is wrong")
        return data

    def verify(self) -> None:
        """Read everything."""
        for number in range(len(self.index["blobs"])):
            self.blob(number)

    def close(self) -> None:
        """Close the file; blobs cannot be read any more."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    __del__ = close


def _about_keys(error: Exception) -> str:
    if "is signed with a key" in str(error):
        return "\nhint: give the key it is signed with: load_bundle(path, key_file=...), --key-file, or " \
               "TRITIUM_CACHE_KEY_FILE"
    if "not signed with the key" in str(error):
        return "\nhint: it was signed with another key, or with none: build it again with --key-file"
    return ""
