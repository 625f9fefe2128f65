"""How processes that compile for each other talk: pickles with their length in front, of nothing but our own types."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

__all__ = ["HEAD", "Foreign", "dumps", "loads", "receive", "send"]

HEAD = struct.Struct(">Q")  # the length of what follows
_ROOTS = ("tritium",)
_BUILTINS = frozenset(("set", "frozenset", "complex", "bytearray", "slice", "range"))


class Foreign(Exception):
    """A value of a type that the other process need not have.

    >>> loads(dumps(print))
    Traceback (most recent call last):
    tritium.compiler.frames.Foreign: builtins.print does not travel
    """


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in _ROOTS or module == "builtins" and name in _BUILTINS:
            return super().find_class(module, name)
        if module == "collections" and name == "OrderedDict":
            return super().find_class(module, name)
        raise Foreign(f"{module}.{name} does not travel")


def dumps(value: Any) -> bytes:
    """A value as bytes.

    >>> loads(dumps({"num_warps": 4}))
    {'num_warps': 4}
    """
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def loads(data: bytes | bytearray) -> Any:
    """The value again; `Foreign` if it is not made of plain data and our own types."""
    return _Reader(io.BytesIO(data)).load()


def send(connection: Any, data: bytes) -> None:
    """Write a frame to a socket."""
    connection.sendall(HEAD.pack(len(data)) + data)


def receive(connection: Any) -> bytes | None:
    """Read a frame from a socket; None at its end.

    >>> import socket
    >>> here, there = socket.socketpair()
    >>> send(here, b"work"); here.close()
    >>> receive(there), receive(there)
    (b'work', None)
    """
    head = _exactly(connection, HEAD.size)
    return None if head is None else _exactly(connection, HEAD.unpack(head)[0])


def _exactly(connection: Any, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)
