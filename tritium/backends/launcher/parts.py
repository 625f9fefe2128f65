"""Parts: native code of our own, compiled once for a machine and kept on disk, linked when first needed."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ... import cache
from ...locks import busy, lock, once_property
from ...named_tuples import NamedTuple
from . import image, launcher

# Takes builtins made by hand: CPython with its global lock. The launcher borrows references while it holds the lock.
# A free-threaded Python, whose objects have a longer head, has none to hold: there, launches go through ctypes.
NATIVE = sys.implementation.name == "cpython" and object.__basicsize__ == 2 * ctypes.sizeof(ctypes.c_void_p)


class Part(NamedTuple):
    """A piece of native code: the symbols it defines, the modules that write it, and how."""

    name: str
    symbols: tuple[str, ...]
    modules: tuple[ModuleType, ...]
    text: Callable[[Any], str]  # of the target
    effort: str = "all"  # of LLVM, see `_compiled`


@functools.cache
def _source(module: ModuleType) -> str:
    with open(module.__file__ or "", encoding="utf-8") as file:
        return file.read()


class Machine(NamedTuple):
    """A machine as LLVM calls it, of which no more need be known where a part was compiled elsewhere."""

    triple: str
    cpu: str
    features: str
    origin: Any = None  # who supplies parts for it


# Functions (symbol, machine) -> the object file of the part that defines it, and all symbols of that part, or None:
# what was compiled elsewhere is asked for first, and then no module that writes a part is imported.
supplies: list[Callable[[str, Any], tuple[bytes, Sequence[str]] | None]] = []
# Name of a part -> the machine it was compiled for elsewhere: where any of several would do, it is taken.
preferred: dict[str, Machine] = {}


def abi() -> list[Any]:
    """What parts depend on besides the machine: the kind of Python.

    >>> len(abi())
    2
    """
    return [NATIVE, object.__basicsize__]


def made(part: Part, target: Any) -> bytes:
    """The object file of `part`, from the disk if this or another process has made it before."""
    import llvmlite  # its version alone: LLVM itself is loaded by what is imported from it

    # Writing a part's text takes longer than reading its object: the key holds the sources of what writes it.
    made_from = (*map(_source, part.modules), *map(str, (part.name, part.effort, target, llvmlite.__version__, *abi())))
    manager = cache.get_cache_manager(hashlib.sha256("\n".join(made_from).encode()).hexdigest())
    name = f"{part.name}.o"
    kept = cache.read(manager, name)
    if kept is not None:
        return kept
    code = _compiled(part, target)
    cache.write(manager, name, code)
    return code


def _compiled(part: Part, target: Any) -> bytes:
    """A text that is written by hand as it should run needs no passes. "plain" takes half as long as that, and "quick",
    for what hardly ever runs, a quarter."""
    from ..llvm.target import PASSES, compile_text

    how: dict[str, Any] = {
        "all": {"passes": ("always-inline", *PASSES)}, "written": {"passes": ("always-inline",)},
        "plain": {"passes": (), "plain": True}, "quick": {"opt": 0},
    }[part.effort]  # fmt: skip
    return compile_text(part.text(target), target, **how)


def _load(code: bytes, exports: Sequence[str], symbols: Mapping[str, int]) -> dict[str, int]:
    """Where the exports of an object lie, once it is in memory: for good, as threads may be running it."""
    with contextlib.suppress(image.UnknownObject):
        return image.load(code, symbols, exports)
    from ..llvm import jit

    library = jit.load(code, symbols, exports).pin()
    return {name: library.address(name) for name in exports}


class Symbols(Mapping[str, int]):
    """Symbol -> address; asking for an address brings in the part that defines it, and those that this refers to.

    `parts` gives the parts there are, when the first symbol is asked for that nobody supplies. All their symbols begin
    with `tt.`. `known` are addresses the parts refer to, besides those of Python's objects and of the process.
    """

    def __init__(self, target: Any, parts: Callable[[], Sequence[Part]], known: Mapping[str, int] | None = None):
        self._target, self._parts, self._known = target, parts, dict(known or {})
        self._addresses: dict[str, int] = {}
        self._lock = lock()

    @once_property
    def _owner(self) -> dict[str, Part]:
        return {name: part for part in self._parts() for name in part.symbols}

    def __getitem__(self, name: str) -> int:
        found = self._addresses.get(name)
        if found is None:
            if not name.startswith("tt."):
                raise KeyError(name)
            with self._lock, busy():
                if name not in self._addresses:
                    self._bring(name)
            found = self._addresses[name]
        return found

    def _bring(self, name: str) -> None:
        objects = launcher.python_objects() | self._known if NATIVE else self._known
        both: Any = (objects, self)  # a part may call others
        self._addresses |= _load(*self._supplied(name), ChainMap(*both))

    def _supplied(self, name: str) -> tuple[bytes, Sequence[str]]:
        """The object file that defines a symbol, and its symbols: supplied, else made in this or another process."""
        for supply in supplies:
            if (found := supply(name, self._target)) is not None:
                return found
        part = self._owner[name]
        return made(part, self._target), part.symbols

    def __iter__(self) -> Iterator[str]:
        return iter(self._owner)

    def __len__(self) -> int:
        return len(self._owner)


def builtin(definition: int, *owner: Any) -> Callable[..., Any]:
    """The builtin of the PyMethodDef at an address; `owner` is what it gets as `self`."""
    return _maker(bool(owner))(definition, *(owner or (None,)), None)


@functools.cache  # ctypes makes a class of each prototype
def _maker(owned: bool) -> Callable[..., Any]:
    pointer = ctypes.c_void_p
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, pointer, ctypes.py_object if owned else pointer, pointer)
    return kind(("PyCFunction_NewEx", ctypes.pythonapi))
