"""Python files run with one implementation of the language in the place of `triton`: ours, or the peer.

    >>> import tritium
    >>> ours = Loader(tritium)
    >>> ours.module("tritium.kernels.vector_add").add_kernel.__class__ is tritium.JITFunction
    True

Nothing is installed for that: a file gets an `__import__` of its own, which hands out the implementation where it
imports `triton` or `tritium`. So rivals run the same source in one process, each under its own compiler.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from tritium.tools.command import code_of

__all__ = ["Loader"]

# Modules of the collection without kernels: all rivals share them.
_SHARED = frozenset(("arrays", "checks", "registry"))
_NAMES = ("triton", "tritium")
_COLLECTION = "tritium.kernels"


class Loader:
    """Loads files for one implementation, each once."""

    def __init__(self, implementation: ModuleType):
        self.implementation = implementation
        self._loaded: dict[str, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    def module(self, name: str) -> ModuleType:
        """A module of the collection, as this implementation has it."""
        if name not in self._loaded:
            spec = importlib.util.find_spec(name)
            if spec is None or spec.origin is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            self._run(name, spec.origin)
        return self._loaded[name]

    def file(self, path: str, name: str = "") -> ModuleType:
        """A file of the user's."""
        key = name or path
        if key not in self._loaded:
            self._run(key, path)
        return self._loaded[key]

    def _run(self, name: str, path: str) -> None:
        own = f"{name}@{self.implementation.__name__}"
        module = ModuleType(own)
        module.__file__ = path
        module.__dict__["__builtins__"] = self._builtins
        self._loaded[name] = sys.modules[own] = module  # compilers look a kernel's module up
        try:
            exec(code_of(path), module.__dict__)
        except BaseException:
            del self._loaded[name], sys.modules[own]
            raise

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        head, _, rest = name.partition(".")
        if level or head not in _NAMES:
            return builtins.__import__(name, globals, locals, fromlist, level)
        if name.startswith(_COLLECTION):
            return self._from_collection(name, fromlist)
        if name.startswith("tritium.tools"):
            return builtins.__import__(name, globals, locals, fromlist, level)
        if not rest:
            for part in fromlist or ():
                self._submodule(part)
            return self.implementation
        found = importlib.import_module(f"{self.implementation.__name__}.{rest}")
        return found if fromlist else self.implementation

    def _submodule(self, name: str) -> None:
        """`from triton import language` imports a module, if that is one."""
        full = f"{self.implementation.__name__}.{name}"
        if not hasattr(self.implementation, name) and importlib.util.find_spec(full) is not None:
            importlib.import_module(full)

    def _from_collection(self, name: str, fromlist: Any) -> Any:
        if name != _COLLECTION:
            shared = name.rpartition(".")[2] in _SHARED
            return importlib.import_module(name) if shared else self.module(name)
        parts = {part: importlib.import_module(f"{name}.{part}") if part in _SHARED else self.module(f"{name}.{part}")
                 for part in fromlist or ()}
        return SimpleNamespace(**parts)
