"""JIT linking: object files are linked into this process."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import InternalError
from ...locks import busy, lock, once
from .target import llvm


class Library:
    """A linked object. Its code is unmapped with the last reference: users of an address must hold one."""

    __slots__ = ("_addresses", "_engine", "_name", "_trackers")

    def __init__(self, engine: Any, name: str, tracker: Any, addresses: dict[str, int]):
        self._engine, self._name, self._addresses = engine, name, addresses
        self._trackers = [tracker]

    def address(self, name: str) -> int:
        """The address of the function or variable `name`.

        >>> from tritium.backends.llvm.target import compile_text, cpu_target
        >>> library = load(compile_text("define i32 @seven() { ret i32 7 }", cpu_target()))
        >>> ctypes.CFUNCTYPE(ctypes.c_int32)(library.address("seven"))()
        7
        """
        found = self._addresses.get(name)
        if found is None:
            with _lock, busy():
                try:
                    tracker = self._engine.lookup(self._name, name)
                except RuntimeError as error:
                    raise InternalError(f"linking {name}: {error}") from None
                self._trackers.append(tracker)
            found = self._addresses[name] = tracker[name]
        return found

    def unload(self) -> None:
        """Unmap the code now, regardless of other references."""
        self._trackers.clear()
        self._addresses.clear()

    def pin(self) -> Library:
        """Keep the code mapped until the process ends: threads may still run it while Python shuts down."""
        _immortal(self)
        return self


_lock = lock()
_names = itertools.count()
_OURS = re.compile(r"tt\.[\w.]+", re.ASCII)  # the runtime's symbols


def _immortal(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@once
def _engine():
    # Threads of the pool run in its memory, even while the interpreter tears modules down.
    # LLVM names the symbols it misses on stderr and nowhere else, so it may speak.
    engine = llvm().create_lljit_compiler(use_jit_link=True, suppress_errors=False)
    _immortal(engine)
    return engine


def load(object_code: bytes, symbols: Mapping[str, int] | None = None, exports: Iterable[str] = ()) -> Library:
    """Link an object file into this process.

    `symbols` gives the addresses of what it calls; what is not there is looked up among the process's own symbols
    (libc, libm, pthread). Addresses of `exports` are asked for at once, which is cheaper than one by one. Safe to call
    from several threads.

    >>> from tritium.backends.llvm.target import compile_text, cpu_target
    >>> text = "declare i32 @f() define i32 @g() { %x = call i32 @f() ret i32 %x }"
    >>> load(compile_text(text, cpu_target()), {"f": 4096}).address("g") > 0
    True
    """
    builder = llvm().JITLibraryBuilder().add_object_img(object_code).add_current_process()
    symbols = symbols or {}
    # Looking up an address may compile its part, so only symbols that the object mentions are looked up.
    text = object_code.decode("latin-1")
    ours = set(_OURS.findall(text))  # one search instead of one for each symbol
    exports = tuple(exports)
    ours -= {*exports}
    for name in [name for name in symbols if (name in ours if name.startswith("tt.") else name in text)]:
        builder.import_symbol(name, symbols[name])
    for name in exports:
        builder.export_symbol(name)
    name = f"tritium.{next(_names)}"
    with _lock, busy():
        engine = _engine()
        try:
            tracker = builder.link(engine, name)
        except RuntimeError as error:
            raise InternalError(f"linking: {error}") from None
    return Library(engine, name, tracker, {export: tracker[export] for export in exports})
