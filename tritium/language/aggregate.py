"""Users' own composite values: `@tl.core._aggregate` on a class whose annotations declare its fields."""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from typing import ClassVar

from tritium.errors import fail

from .calling import current
from .constants import constexpr, unwrap, wrap
from .source import ConstexprFunction, Source
from .values import tensor, tuple, type_of

__all__ = ["Aggregate", "_aggregate", "aggregate_type"]


class Aggregate:
    """Base of every aggregate: a fixed set of fields, which make up the value."""

    __triton_aggregate__ = True
    _declared: ClassVar[dict] = {}
    operator_hint = "define the operator as a @triton.jit method of the aggregate"

    def __setattr__(self, name, value):
        declared = type(self)._declared
        if name not in declared:
            raise fail(AttributeError, f"{type(self).__name__} has no attribute {name!r}",
                       hint=f"its annotations declare {', '.join(declared) or 'none'}")
        expected = declared[name]
        value = constexpr(value) if expected is constexpr and not _is_runtime(value) else value
        if not _fits(value, expected):
            raise fail(TypeError, f"Expected {getattr(expected, '__name__', expected)} for attribute {name!r} of "
                       f"{type(self).__name__}, got {type(value).__name__}")
        object.__setattr__(self, name, value)

    @property
    def type(self):
        """Its class and the types of its fields."""
        return aggregate_type(type(self), [type_of(part) for part in Aggregate.parts(self)])

    def parts(self):
        """The values of the fields."""
        return [getattr(self, name) for name in type(self)._declared]

    def remade(self, parts):
        """Another instance with these values."""
        made = object.__new__(type(self))
        for name, value in zip(type(self)._declared, parts):
            object.__setattr__(made, name, value)
        return made

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)}' for n in type(self)._declared)})"


class aggregate_type:
    """The type of an aggregate."""

    def __init__(self, cls, types):
        self.cls, self.types = cls, list(types)

    def is_tuple(self):
        """False."""
        return False

    def __eq__(self, other):
        return isinstance(other, aggregate_type) and self.cls is other.cls and self.types == other.types

    def __hash__(self):
        return hash(self.cls)

    def __repr__(self):
        return f"{self.cls.__name__}<{', '.join(map(str, self.types))}>"


def _is_runtime(value):
    return isinstance(value, tensor) or hasattr(value, "remade")


def _fits(value, expected):
    """Whether a field declared as `expected` may hold `value`."""
    if not isinstance(expected, type):  # an object that names a type, or text that could not be resolved
        return True
    if expected is tensor:
        return isinstance(value, tensor) or hasattr(value, "load_tile")  # block pointers count as tensors
    return isinstance(value, builtins.tuple if expected is tuple else expected)


def _aggregate(cls):
    """Make a class a composite value: its annotations are its fields, which `__init__` sets.

    An instance can be an argument of a jit function, be carried through loops and be returned.

        @tl.core._aggregate
        class Running:
            maximum: tl.tensor
            total: tl.tensor

            def __init__(self, maximum, total):
                self.maximum = maximum
                self.total = total

            @triton.jit
            def add(self, x):
                top = tl.maximum(self.maximum, x)
                return Running(top, self.total * tl.exp(self.maximum - top) + tl.exp(x - top))
    """
    if isinstance(cls.__init__, Source) and not isinstance(cls.__init__, ConstexprFunction):
        raise fail(ValueError, f"{cls.__name__}.__init__ cannot be a @triton.jit function",
                   hint="write it in plain Python, or as a @triton.constexpr_function")
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__", "__init__")}
    for name, value in body.items():
        if inspect.isfunction(value) and not name.startswith("__"):
            body[name] = _plain(value)
        elif isinstance(value, staticmethod | classmethod) and inspect.isfunction(value.__func__):
            body[name] = type(value)(_plain(value.__func__))
    bases = [base for base in cls.__bases__ if base is not object]
    made = type(cls.__name__, (Aggregate, *bases), body)
    made._declared = {name: _resolve(kind, cls) for name, kind in inspect.get_annotations(cls).items()}
    made.__init__ = _checked_init(cls.__init__)
    return functools.update_wrapper(made, cls, updated=())


def _resolve(kind, cls):
    """The class behind an annotation written as text, if the module knows it."""
    if not isinstance(kind, str):
        return kind
    try:
        return eval(kind, vars(sys.modules[cls.__module__]))
    except NameError:
        return kind


def _plain(fn):
    """Plain Python that runs while a kernel is compiled: constants arrive as constexprs, `_semantic` is filled in."""
    takes_semantic = "_semantic" in inspect.signature(fn).parameters

    @functools.wraps(fn)
    def run(*args, _semantic=None, _generator=None, **kwargs):
        if takes_semantic:
            from .semantic import TritonSemantic
            kwargs["_semantic"] = _semantic if _semantic is not None else TritonSemantic(current())
        return fn(*map(wrap, args), **{name: wrap(value) for name, value in kwargs.items()})
    vars(run)["__triton_aggregate__"] = True
    return run


def _checked_init(init):
    call = _plain(init) if not isinstance(init, ConstexprFunction) else \
        lambda self, *args, **kwargs: init.fn(self, *map(unwrap, args), **kwargs)

    @functools.wraps(init.fn if isinstance(init, ConstexprFunction) else init)
    def run(self, *args, **kwargs):
        call(self, *args, **kwargs)
        for name in type(self)._declared:
            if name not in vars(self):
                raise fail(AttributeError, f"constructor for {type(self).__name__} did not initialize attribute "
                           f"{name!r}")
    return run
