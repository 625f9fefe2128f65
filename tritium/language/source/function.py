"""A Python function as the compiler sees it: its text, its syntax tree, what it captures, and a hash of all of that.

    @device                     a function that kernels call
    @constexpr_function         a function that runs while a kernel is compiled
    @must_use_result            whose result may not be dropped

Kernels themselves are `runtime.jit.JITFunction`, a `Source` that can be launched.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tritium import knobs
from tritium.errors import Span, cut, explain, fail, node_span, render
from tritium.language.builtins.calling import current
from tritium.language.source import dependencies, dialect, lines
from tritium.language.types.constants import unwrap
from tritium.locks import busy, lock, once_property

P = ParamSpec("P")
R = TypeVar("R")

# What a function captures is found by walking functions that others call too: one thread walks at a time.
_walking = lock()

_IN_PYTHON = {name: f"; in Python call triton.{name}" for name in ("cdiv", "next_power_of_2")}


class Cells(Mapping):
    """The closure of a function as a live mapping from name to value; names not bound yet are absent.

    >>> def outer():
    ...     block = 8
    ...     return lambda: block
    >>> dict(Cells(outer()))
    {'block': 8}
    """

    def __init__(self, fn: FunctionType):
        self._cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))

    def __getitem__(self, name: str):
        try:
            return self._cells[name].cell_contents
        except ValueError:  # the enclosing function has not bound the name yet
            raise KeyError(name) from None

    def __iter__(self):
        return (name for name in self._cells if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Source(dependencies.Compilable):
    """The source of one Python function.

    >>> from tritium.language.source.function import cdiv
    >>> cdiv.src.splitlines()[0]
    'def cdiv(x, y) -> int:'
    """

    noinline = False
    _must_use_result: bool | str = False
    __name__: str
    __qualname__: str
    __globals__: dict[str, Any]

    def __init__(self, fn: FunctionType):
        if not isinstance(fn, FunctionType):
            raise fail(TypeError, f"cannot compile {fn!r}: a kernel is a function written with `def`")
        self.fn: FunctionType = fn
        self.hash: str | None = None
        self._hashed_for: str | None = None  # the dialect that was set then
        self.used_global_vals: dict[tuple[str, int], tuple[Any, Any]]  # (name, scope's id) -> (value, scope)
        self._begin()
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__globals__"):
            setattr(self, name, getattr(fn, name))
        self.module = fn.__module__
        self.file = fn.__code__.co_filename

    # -- text ---------------------------------------------------------------------------------------------------------

    @once_property
    def _lines(self) -> tuple[list[str], int]:
        try:
            return lines.lines_of(self.fn)
        except (OSError, TypeError):
            hint = lines.ways_out(self.file)
            raise fail(ValueError, render(
                "@jit functions should be defined in a Python file: a kernel is compiled from its text, and that of "
                f"{self.__qualname__}, defined in {self.file}, cannot be read", hint=hint), hint=hint) from None

    @once_property
    def has_text(self) -> bool:
        """Whether there is text to compile: a function made by `exec` has none."""
        try:
            return bool(self._text)
        except ValueError:
            return False

    @property
    def raw_src(self) -> list[str]:
        """The lines as they stand in the file, decorators included."""
        return self._lines[0]

    @property
    def starting_line_number(self) -> int:
        """The line of the file on which `raw_src` starts."""
        return self._lines[1]

    @once_property
    def _text(self) -> tuple[str, int, int]:
        """The text from the `def` on, the file's line it starts on, and the indentation that was removed."""
        if self.__name__ == "<lambda>":
            raise fail(ValueError, "a lambda is no kernel: it should be defined with `def` in a Python file")
        raw = "".join(self.raw_src)
        text = textwrap.dedent(raw)
        start = re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE)
        if start is None:
            raise fail(ValueError, f"{self.__qualname__} should be defined with `def` in a Python file")
        above = text.count("\n", 0, start.start())
        indent = len(self.raw_src[above]) - len(self.raw_src[above].lstrip())
        return text[start.start():], self.starting_line_number + above, indent

    @property
    def src(self) -> str:
        """The text that is compiled: from the first `def`, without the function's own indentation."""
        return self._text[0]

    @property
    def def_line(self) -> int:
        """The file's line of the `def`."""
        return self._text[1]

    def _unsafe_update_src(self, text: str) -> None:
        """Compile `text` instead of what the file says."""
        self._text = (text, *self._text[1:])
        self.__dict__.pop("_tree", None)
        self.has_text = True
        self._captured = self.hash = None
        knobs.changed()  # kernels that call it must be looked up again

    # -- syntax -------------------------------------------------------------------------------------------------------

    @once_property
    def _tree(self) -> ast.Module:
        return ast.parse(self.src)

    def parse(self) -> ast.Module:
        """The syntax tree: a module holding the one function. It is shared, so do not change it."""
        return self._tree

    def span(self, node: ast.AST, label: str = "") -> Span:
        """Where a node of `parse()` stands in the file."""
        return node_span(
            node, self.src.split("\n"), file=self.file, first_line=self.def_line, function=self.__name__,
            indent=self._text[2], label=label)

    @once_property
    def signature(self) -> inspect.Signature:
        """The parameters, as `inspect` gives them."""
        return inspect.signature(self.fn)

    @property
    def __signature__(self) -> inspect.Signature:
        return self.signature

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return list(self.signature.parameters)

    # -- what it captures ---------------------------------------------------------------------------------------------

    @once_property
    def closure(self) -> Cells:
        """The variables of the enclosing functions."""
        return Cells(self.fn)

    def get_capture_scope(self) -> dict[str, object]:
        """Every name the body may use that it does not bind: globals, with closure variables over them."""
        return {**self.__globals__, **self.closure}

    @property
    def cache_key(self) -> str:
        """A hash of everything the compiled code depends on: text, place, callees, captured constants."""
        found = self.hash
        if found is None or self._hashed_for != dialect.setting() and self.fn is not None:
            with _walking, busy():
                found = self.hash if self.hash and self._hashed_for == dialect.setting() else self._walk()
        return found

    def _walk(self) -> str:
        """Find what the compiled code depends on, and its hash."""
        reached = dependencies.reach(self)
        self.used_global_vals = dependencies.merge_globals(reached)
        digest, setting = hashlib.sha256(), dialect.setting()
        digest.update(setting.encode())
        for source in reached:
            digest.update(source._captured.digest.encode())
        self.hash, self._hashed_for = digest.hexdigest(), setting
        return self.hash

    def check_globals(self) -> None:
        """Refuse to go on when a global the compiled code was built from has another value now."""
        for (name, _), (value, scope) in self.used_global_vals.items():
            now = scope.get(name, dependencies.MISSING)
            if not dependencies.same(value, now):
                raise RuntimeError(
                    f"Global variable {name} has changed since we compiled this kernel, from {value} to {now}\n"
                    "hint: pass it as a `tl.constexpr` argument instead")

    def __call__(self, *args, **kwargs):
        b = current()
        if b is not None:  # a kernel that runs eagerly, or a builtin written in Python
            return b.call(self, args, kwargs)
        hint = f"launch it over a grid of programs: {self.__name__}[grid](...)"
        if dependencies.is_language(self):
            hint = f"{self.__name__} works inside a kernel only{_IN_PYTHON.get(self.__name__, '')}"
        try:
            raise explain(RuntimeError(
                f"Cannot call @triton.jit'd outside of the scope of a kernel\nhint: {hint}"), hint=None)
        except RuntimeError as error:
            cut(error)
            raise

    def __get__(self, instance, owner=None):
        """A method of a value that kernels have: `x.sum(0)` is `sum(x, 0)`. In any other class, the kernel itself."""
        return MethodType(self, instance) if instance is not None and _are_values(type(instance)) else self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.module}:{self.__qualname__})"

    # A function is the one its module defines: copying gives itself, pickling names it. What has no function any more,
    # for frameworks take it away before they send a kernel on, is copied: it has a text, parameters and a hash.

    _own: tuple[str, ...] = ("fn", "__globals__", "used_global_vals", "_captured", "_function", "_tree", "closure",
                              "_hash_lock")

    def __copy__(self):
        return self if self.fn is not None else _restored(type(self), self._state())

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self) -> str | tuple:
        if self.fn is not None:
            steps = _steps_to(self)
            if steps == 0:
                return self.__qualname__
            if steps is not None:
                return _found, (self.__module__, self.__qualname__, steps)
            _ = self.cache_key, self.signature  # what they are made of stays behind
        return _restored, (type(self), self._state())

    def _state(self) -> dict[str, Any]:
        """What of it can be in another process: all but the function, and what belongs to launches."""
        return {name: value for name, value in vars(self).items() if name not in self._own}

    def _begin(self) -> None:
        """Set what every object has to itself."""
        self.used_global_vals = {}


def _steps_to(source: Source) -> int | None:
    """How many times `.fn` leads from what the module has under a function's name to it; None if it does not, or if
    other processes cannot import the module."""
    module = sys.modules.get(source.__module__)
    if source.__module__ != "__main__" and getattr(module, "__spec__", None) is None:  # made by hand, as Inductor does
        return None
    found = _named(source.__module__, source.__qualname__)
    for steps in range(8):  # tuners and heuristics
        if found is source:
            return steps
        found = getattr(found, "fn", None)
    return None


def _named(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _found(module: str, qualname: str, steps: int) -> Any:
    """The function some steps of `.fn` from what a module has under a name: what a pickle of it is read with."""
    importlib.import_module(module)
    found = _named(module, qualname)
    for _ in range(steps):
        found = found.fn
    return found


def _restored(kind: type, state: dict[str, Any]) -> Any:
    """A function as it came from another process, without what Python calls."""
    made = object.__new__(kind)
    made.__dict__.update(state, fn=None, __globals__={})
    made._begin()
    return made


@lru_cache(256)
def _are_values(kind: type) -> bool:
    """Whether objects of a class may be values in a kernel: tensors, tuples, aggregates."""
    return issubclass(kind, tuple) or hasattr(kind, "__triton_aggregate__") or dependencies.is_language(kind)


JITCallable = Source  # its name in Triton


class DeviceFunction(Source):
    """A function of the language that kernels call and nobody launches."""


if TYPE_CHECKING:
    def device(fn: Callable[P, R]) -> Callable[P, R]: ...
else:
    def device(fn):
        """Make `fn` callable from kernels; its text is read only when a kernel calls it.

        >>> device(cdiv.fn).__name__
        'cdiv'
        """
        return DeviceFunction(fn)


class ConstexprFunction(Source):
    """Plain Python that runs while a kernel is compiled; on the host it is the function itself."""

    runs_in_python = True

    def __call__(self, *args, **kwargs):
        for x in args:
            if not isinstance(x, _NUMBERS):  # Dynamo follows `isinstance` for sizes that are symbols
                return self._call(args, kwargs)
        return self.fn(*args, **kwargs) if not kwargs else self._call(args, kwargs)

    def __get__(self, instance, owner=None):
        """A method of any object: plain Python knows what to do with that."""
        return self if instance is None else MethodType(self, instance)

    def _call(self, args: tuple, kwargs: dict):
        return self.fn(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()})


_NUMBERS = (int, float, bool)  # what grids call these functions with, at every launch


if TYPE_CHECKING:
    def constexpr_function(fn: Callable[P, R]) -> Callable[P, R]: ...
else:
    def constexpr_function(fn):
        """Make `fn` usable in kernels on compile-time values.

        >>> cdiv(7, 2)
        4
        """
        return ConstexprFunction(fn)


def must_use_result(fn, message: str | bool = True):
    """Make dropping the result of `fn` an error; `@must_use_result("why")` adds a sentence to it.

    >>> must_use_result("it is costly")(device(cdiv.fn))._must_use_result
    'it is costly'
    """
    if isinstance(fn, str):
        return lambda decorated: must_use_result(decorated, fn)
    if not hasattr(fn, "_must_use_result"):
        raise fail(TypeError, f"must_use_result is for functions of kernels, not for {fn!r}",
                   hint="write it above @triton.jit")
    fn._must_use_result = message
    return fn


class _Division(ConstexprFunction):
    """`cdiv`, which most grids call at every launch: two ints need no function of their own."""

    def __call__(self, x, y):
        if isinstance(x, int) and isinstance(y, int):  # Dynamo follows it for sizes that are symbols
            return (x + y - 1) // y
        return self._call((x, y), {})

    __call__.__qualname__ = "cdiv"  # what Python says of a wrong call


if TYPE_CHECKING:
    def _division(fn: Callable[P, R]) -> Callable[P, R]: ...
else:
    _division = _Division


@_division
def cdiv(x, y) -> int:
    """The number of blocks of size `y` that cover `x`.

    >>> cdiv(98432, 1024), cdiv(-7, 2)
    (97, -3)
    """
    return (x + y - 1) // y


@constexpr_function
def next_power_of_2(n) -> int:
    """The smallest power of two that is not below `n`, for 64-bit `n`.

    >>> next_power_of_2(100), next_power_of_2(64), next_power_of_2(0)
    (128, 64, 0)
    """
    try:
        return 1 << (n - 1).bit_length() if n > 0 else 0
    except (AttributeError, TypeError):
        if not hasattr(n, "handle"):  # a tensor's error says what to do in a kernel
            raise fail(TypeError, f"next_power_of_2 takes an integer, not {n!r}") from None
        raise
