"""How builtins are called: `@builtin` hides the builder, `using` says which one plain Python code works with.

    @builtin
    def twice(b, x):                    # kernels write twice(x); the compiler calls twice.fn(b, x)
        return operators.binary(b, "+", x, x)
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ...errors import cut, explain
from ...locks import once, once_property
from ..types.constants import plain, unwrap, wrap

P = ParamSpec("P")
R = TypeVar("R")

_CURRENT: ContextVar = ContextVar("builder", default=None)


@contextmanager
def using(b):
    """Make `b` the builder that operators and builtins called from plain Python work with.

    >>> with using("a builder"):
    ...     current()
    'a builder'
    """
    token = _CURRENT.set(b)
    try:
        yield b
    finally:
        _CURRENT.reset(token)


def current():
    """The builder of the innermost `using`, or None."""
    return _CURRENT.get()


def require(name):
    """The current builder; without one the user called `name` outside of a kernel."""
    b = _CURRENT.get()
    if b is None:
        raise explain(ValueError(
            "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)\n"
            f"hint: {name} works inside a kernel only"), hint=None)
    return b


_LANGUAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_WARNED: dict[str, dict] = {}  # file -> what `warnings` remembers of it, so that a place warns once


def warn(b, message, category: type[Warning] = UserWarning):
    """Warn about the line of the kernel that builder `b` is at; of a function of the language, about its call."""
    loc = getattr(b, "loc", None)
    while loc is not None and loc.caller is not None and loc.file.startswith(_LANGUAGE):
        loc = loc.caller
    if loc is None:
        warnings.warn(message, category, stacklevel=3)
    else:
        warnings.warn_explicit(message, category, loc.file, loc.line, registry=_WARNED.setdefault(loc.file, {}))


def builder_of(semantic, name):
    """The builder that `_semantic` stands for; without one, the current builder."""
    return getattr(semantic, "builder", semantic) if semantic is not None else require(name)


class Builtin:
    """A function of the language that is written in Python: `fn(b, ...)` works through builder `b`.

    Called directly it takes the builder from `_semantic` or from `using`. As an attribute of a class it binds like a
    function.
    """

    _must_use_result: bool | str = False
    adapts = False  # whether the type of a number decides what it gives, as in operators

    def __init__(self, fn, name=None):
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = self.__name__ = name or fn.__name__

    @once_property
    def signature(self):
        """The parameters a kernel sees: all but the builder."""
        return inspect.Signature([*inspect.signature(self.fn).parameters.values()][1:])

    @property
    def __signature__(self):
        """What `inspect.signature` finds: libraries look for `_semantic` there to tell how builtins are called."""
        hidden = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)
        return self.signature.replace(parameters=[*self.signature.parameters.values(), hidden])

    def __call__(self, *args, _semantic=None, _generator=None, **kwargs):
        args, kwargs = [*map(unwrap, args)], {name: unwrap(value) for name, value in kwargs.items()}
        if not self.adapts:
            args, kwargs = [*map(plain, args)], {name: plain(value) for name, value in kwargs.items()}
        try:
            b = builder_of(_semantic, self.name)
        except ValueError as error:
            cut(error)
            raise
        return self.fn(b, *args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else MethodType(self, instance)

    def __repr__(self):
        return f"<builtin {self.__module__}.{self.name}{self.signature}>"


if TYPE_CHECKING:
    def builtin(fn: Callable[Concatenate[Any, P], R]) -> Callable[P, R]: ...
else:
    def builtin(fn):
        """Decorator: a function whose first parameter is the builder becomes one that kernels call without it."""
        return Builtin(fn)


def user_builtin(fn):
    """Decorator of a user's own builtin, written as `def f(x, ..., _semantic=None)`.

    It runs while a kernel is compiled, gets tensors and constexprs, and passes `_semantic` on to what it calls. A
    parameter called `_generator` gets an object whose `call_JitFunction(fn, args, kwargs)` calls a jit function.
    """
    parameters = inspect.signature(fn).parameters

    def run(b, *args, **kwargs):
        from ..semantic import Generator, TritonSemantic
        hidden = {"_semantic": TritonSemantic, "_generator": Generator}
        for name, make in hidden.items():
            if name in parameters:
                kwargs[name] = make(b)
        with using(b):
            return unwrap(fn(*map(wrap, args), **{k: v if k in hidden else wrap(v) for k, v in kwargs.items()}))

    visible = [p for name, p in parameters.items() if name not in ("_semantic", "_generator")]
    made = Builtin(run, fn.__name__)
    functools.update_wrapper(made, fn)
    made.fn, made.signature = run, inspect.Signature(visible)
    return made


def is_builtin(fn):
    """Whether `fn` is a builtin of the language, ours or a user's."""
    return isinstance(fn, Builtin) or (type(fn) is FunctionType and hasattr(fn, "__triton_builtin__"))


@once
def as_builtin(fn):
    """A builtin, also of a plain function that was marked by hand: `fn.__triton_builtin__ = True`."""
    return fn if isinstance(fn, Builtin) else user_builtin(fn)
