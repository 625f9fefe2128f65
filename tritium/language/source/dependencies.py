"""What a function's compiled code depends on besides its own text: callees and captured values, found by its names.

`reach` lists a function and all it calls, `merge_globals` the values they captured. A function's hash covers the text
of every function reached, so recursion needs no special case and editing any of them changes the hash.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tritium import knobs
from tritium.errors import Span, fail, render
from tritium.language.source import dialect, spelling_hints
from tritium.language.source.fingerprints import Keyed, fingerprint, is_fixed
from tritium.language.source.names import Names, find
from tritium.language.types.constants import constexpr, unwrap
from tritium.language.types.dtypes import dtype
from tritium.named_tuples import NamedTuple

_LANGUAGE = "tritium.language"


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


class Captured(NamedTuple):
    """What one function, callees not included, takes from around it."""

    digest: str
    callees: tuple[Compilable, ...]
    values: dict[tuple[str, int], tuple[object, object]]  # (name, id of scope) -> (value when seen, scope)


class Snapshot(NamedTuple):
    """A captured object as it was: its fingerprint, and the compiled functions that it holds."""

    text: str
    callees: tuple[Keyed, ...]
    value: object

    @classmethod
    def of(cls, value: object) -> Snapshot:
        """The object as it is now."""
        callees: list[Keyed] = []
        return cls(fingerprint(value, callees), tuple(callees), value)

    def holds(self, value: object) -> bool:
        """Whether an object is as the captured one was."""
        text, callees, _ = value if type(value) is Snapshot else Snapshot.of(value)
        return text == self.text and len(callees) == len(self.callees) and \
            all(one is other for one, other in zip(callees, self.callees))

    def __str__(self) -> str:
        return str(self.value)


class Compilable(Keyed):
    """Base of `Source`: a function whose text is compiled, so that what it captures can be found."""

    runs_in_python = False  # while a kernel is compiled
    _captured: Any = None  # a Captured, once `reach` has come here
    __name__: str
    __globals__: dict[str, Any]
    fn: FunctionType
    closure: Mapping[str, Any]
    src: str
    starting_line_number: int
    noinline: bool
    parse: Callable[[], ast.Module]
    span: Callable[..., Span]


def reach(source: Compilable) -> list[Compilable]:
    """`source` and every function its compiled code may contain, each once, callers first."""
    source._captured = None  # its globals may have changed; a callee's are compared in merge_globals
    names, reached, waiting = Names(source), [], [source]
    while waiting:
        function = waiting.pop()
        if function not in reached:
            if function._captured is None:
                function._captured = _capture(function, names.of(function))
            reached.append(function)
            waiting.extend(reversed(function._captured.callees))
    names.keep()
    return reached


def merge_globals(sources: list[Compilable]) -> dict[tuple[str, int], tuple[object, object]]:
    """All values the functions captured; two of them must not have seen different values of one variable."""
    merged: dict[tuple[str, int], tuple[object, object]] = {}
    for source in sources:
        for key, (value, scope) in source._captured.values.items():
            seen = merged.setdefault(key, (value, scope))[0]
            if not same(seen, value):
                raise RuntimeError(
                    f"Global variable {key[0]} has value {seen} when compiling {sources[0].__name__}, but inner kernel "
                    f"{source.__name__} has conflicting value {value} from when it was first compiled.  "
                    "This is not allowed.")
    return merged


# ---------------------------------------------------------------------------------------------------------------------
# Values


def is_language(value: object) -> bool:
    """Whether `value` is part of the language itself (a builtin, a type, a library function), so never a dependency.

    >>> from tritium.language.source.function import cdiv
    >>> is_language(cdiv), is_language(3)
    (True, False)
    """
    if isinstance(value, FunctionType) and hasattr(value, "__triton_builtin__"):
        return True  # a user's builtin, marked by hand
    if _is_of_language(getattr(value, "__module__", None)):
        return True
    return not isinstance(value, Compilable) and _is_of_language(type(value).__module__)


def _is_of_language(module: object) -> bool:
    return isinstance(module, str) and module.startswith(_LANGUAGE)


def _home(value: object) -> str:
    """Where an object of the language is defined; one without a name is known by what it is."""
    return f"{value.__module__}.{getattr(value, '__qualname__', repr(value))}"


def _is_fixed(module: ModuleType) -> bool:
    """Whether a module's content is fixed: the standard library, and the language itself."""
    name = module.__name__
    return name.partition(".")[0] in sys.stdlib_module_names or name.startswith(_LANGUAGE)


_ATOMS = (int, float, complex, str, bytes, type(None), type(Ellipsis), enum.Enum, dtype)


def is_data(value: object) -> bool:
    """Whether `value` is plain data, whose meaning its text gives.

    >>> is_data((1, "relu", None)), is_data(object())
    (True, False)
    """
    value = unwrap(value)
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(is_data, value))
    if isinstance(value, dict):
        return all(map(is_data, value)) and all(map(is_data, value.values()))
    return isinstance(value, _ATOMS)


def same(old: object, new: object) -> bool:
    """Whether a captured variable still means what it meant: `1`, `True` and `1.0` differ, and so do `0.0` and `-0.0`.

    >>> same([1, 2], [1, 2]), same(1, True)
    (True, False)
    """
    if type(old) is Snapshot:
        return old.holds(new)
    if old is new:
        return True
    return is_data(old) and is_data(new) and fingerprint(old) == fingerprint(new)


# ---------------------------------------------------------------------------------------------------------------------
# Names


def _capture(source: Compilable, names: list[str]) -> Captured:
    found = _Meanings(source)
    for name in names:
        found.look_up(name)
    function: Any = inspect.unwrap(source.fn)  # an `inspect.Signature` takes longer to make than all of this
    given = (*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items())
    defaults = [(place, found.key_of(value)) for place, value in given]
    if source.runs_in_python:
        found.others.append(found.key_of(function))
    marker = source.__globals__.get(dialect.MARKER)
    if marker is not None:
        found.values[dialect.MARKER, id(source.__globals__)] = (marker, source.__globals__)
    constants = [(name, fingerprint(value)) for (name, _), (value, _) in found.values.items() if is_data(value)]
    parts = (source.src, source.starting_line_number, source.noinline, defaults, constants, found.others)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return Captured(digest, tuple(found.callees), found.values)


class _Meanings:
    """What a function's outer names stand for at this moment, and which of them its code depends on."""

    def __init__(self, source: Compilable):
        self.source = source
        self.callees: list[Compilable] = []
        self.values: dict[tuple[str, int], tuple[object, object]] = {}
        self.others: list[str] = []  # names of the language, and classes
        self._known: dict[str, object] = {}

    def look_up(self, name: str) -> None:
        """Note what `name` stands for; the owner of an attribute was looked up before."""
        owner, _, last = name.rpartition(".")
        self._known[name] = self._attribute(name, self._known[owner], last) if owner else self._variable(name)

    def _variable(self, name: str) -> object:
        for scope in (self.source.closure, self.source.__globals__):
            if name in scope:
                value = scope[name]
                if is_language(value) and not isinstance(value, constexpr):
                    self.others.append(f"{name}={_home(value)}")
                return self._record(name, name, value, scope)
        return MISSING  # a Python builtin, or a name the frontend will not find either

    def _attribute(self, path: str, owner: object, name: str) -> object:
        if owner is MISSING:
            return MISSING
        value = getattr(owner, name, MISSING)
        if isinstance(owner, ModuleType):
            return self._record(path, name, value, None if _is_fixed(owner) else vars(owner))
        self._depend(value)  # a method of an aggregate, say
        return MISSING

    def _record(self, path: str, name: str, value: object, scope) -> object:
        """Note that the function depends on `value`, the content of `scope[name]` (None: it cannot change)."""
        if isinstance(value, constexpr | dtype):
            self._remember(name, value, scope)
        elif isinstance(value, Compilable):
            self._depend(value)
        elif value is None or value is MISSING or isinstance(value, ModuleType) or is_language(value):
            pass
        elif isinstance(value, type):
            self._record_class(value)
        elif callable(value):
            self._check_callable(path, value)
        else:
            self._remember(name, value, scope)
        # A function that returns kernels may bind its variables anew, those that hold functions or None as well.
        if scope is self.source.closure and is_fixed(value):
            self.values.setdefault((name, id(scope)), (value, scope))
        return value

    def _depend(self, value: object) -> None:
        if isinstance(value, Compilable) and not is_language(value):
            self.callees.append(value)

    def _remember(self, name: str, value: object, scope) -> None:
        """Keep a copy to compare with at each launch; constants that are functions are callees as well."""
        inner, data = unwrap(value), is_data(value)
        kept = copy.deepcopy(inner) if data else value
        # An object that is no constant is only seen by code that runs in Python.
        if not data and (isinstance(value, constexpr) or self.source.runs_in_python
                         or knobs.compilation.allow_non_constexpr_globals):
            kept = Snapshot.of(inner)
            self.others.append(f"{name}={kept.text}")
            for callee in kept.callees:
                self._depend(callee)
        if scope is None:
            return
        # In a library's namespace only plain data can be told apart from its machinery.
        if data or scope is self.source.__globals__ or scope is self.source.closure:
            self.values[name, id(scope)] = (kept, scope)

    def key_of(self, value: object) -> str:
        """The text of a value that the code uses; the functions it holds are callees."""
        text, callees, _ = Snapshot.of(value)
        for callee in callees:
            self._depend(callee)
        return text

    def _record_class(self, cls: type) -> None:
        if hasattr(cls, "_fields"):
            self.others.append(f"{cls.__qualname__}{cls._fields}")
        if not getattr(cls, "__triton_aggregate__", False):
            return
        self.others.append(f"{cls.__qualname__}{self.key_of(getattr(cls, '_defaults', {}))}{list(cls._declared)}")
        for name, method in [item for base in cls.__mro__ if not is_language(base) for item in vars(base).items()]:
            function = getattr(method, "__func__", method)  # of static methods and those of the class
            self._depend(function)
            python = inspect.unwrap(function) if isinstance(function, FunctionType) else None
            if isinstance(python, FunctionType):  # plain Python runs while kernels are compiled
                self.others.append(f"{cls.__qualname__}.{name}={self.key_of(python)}")

    def _check_callable(self, path: str, value: object) -> None:
        """Python code that is not compiled cannot be called: it may change without the kernel's text changing."""
        module = getattr(value, "__module__", None) or ""
        in_c = isinstance(value, BuiltinFunctionType) and module.partition(".")[0] in sys.stdlib_module_names
        if in_c or module == "math" or value is getattr(builtins, getattr(value, "__name__", ""), MISSING):
            return
        root = self._known.get(path.partition(".")[0], value)
        home = root.__name__ if isinstance(root, ModuleType) else module or type(value).__module__
        hint = spelling_hints.of_callable(getattr(value, "__name__", path.rpartition(".")[2]), home)
        raise fail(RuntimeError, render(f"Unsupported function referenced: {_named(value, path)}",
                                        [self.source.span(find(self.source)[path])], hint=hint), hint=hint)


def _named(value: object, path: str) -> str:
    """A Python function's own name; that of one from a library as the user wrote it."""
    return str(value) if isinstance(value, FunctionType) else path
