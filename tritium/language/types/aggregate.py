"""Users' own composite values: `@triton.aggregate` on a class whose annotations declare its fields.

`@tl.core._aggregate` is its older name: the class writes its own `__init__`, and plain Python methods may set fields.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from contextvars import ContextVar
from typing import Any, ClassVar

from tritium.errors import fail

from ..builtins.calling import builtin, current
from ..source.function import ConstexprFunction, Source
from .constants import constexpr, unwrap, wrap
from .values import tensor, tuple, type_of

__all__ = ["Aggregate", "_aggregate", "aggregate", "aggregate_replace", "aggregate_type"]


class Aggregate:
    """Base of every aggregate: a fixed set of fields, which make up the value."""

    __triton_aggregate__ = True
    _declared: ClassVar[dict] = {}
    _frozen: ClassVar[bool] = False  # whether fields stay what the constructor made them
    operator_hint = "define the operator as a @triton.jit method of the aggregate"

    def __setattr__(self, name, value):
        if type(self)._frozen and id(self) not in _being_made():
            raise fail(AttributeError, f"cannot assign to field {name!r} on immutable aggregate {type(self).__name__}; "
                       "use aggregate_replace()", hint=f"write x = tl.aggregate_replace(x, {name}=...)")
        self._put(name, value)

    def _put(self, name, value):
        """Set a field, checked against its declaration."""
        declared = type(self)._declared
        if name not in declared:
            raise fail(AttributeError, f"{type(self).__name__} has no attribute {name!r}",
                       hint=f"its annotations declare {', '.join(declared) or 'none'}")
        expected = declared[name]
        value = constexpr(value) if expected is constexpr and not _is_runtime(value) else value
        if type(value) is builtins.tuple and expected is tuple:
            value = tuple(value)
        if not _fits(value, expected):
            raise fail(TypeError, f"Expected {expected} for attribute {name!r}, got {type(value).__name__}",
                       hint=f"{name} is a field of {type(self).__name__}")
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


# The aggregates whose constructors run in this thread.
_MAKING: ContextVar[builtins.tuple[int, ...]] = ContextVar("making", default=())


def _being_made():
    return _MAKING.get()


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
    return _made(cls, inspect.get_annotations(cls))


def aggregate(cls):
    """Make a class a composite value: its annotations are its fields, in this order the constructor's parameters.

    Instances never change: `tl.aggregate_replace` makes others. Fields may have defaults, and a class may inherit from
    other aggregates. Operators are `@triton.jit` methods such as `__add__`.

    >>> from tritium.language import core as tl
    >>> @aggregate
    ... class Window:
    ...     start: tl.constexpr
    ...     size: tl.constexpr = 16
    >>> Window(3).size, Window(3, size=7).start
    (constexpr[16], constexpr[3])
    """
    bases = [base for base in cls.__bases__ if base is not object]
    for base in bases:
        if not getattr(base, "__triton_aggregate__", False):
            raise fail(TypeError, f"Aggregates can only inherit from other aggregates, {cls.__name__} inherits from "
                       f"{base.__name__}")
    own = inspect.get_annotations(cls)
    fields = {name: kind for base in reversed(bases) for name, kind in base._declared.items()} | own
    made: Any = _made(cls, fields, _constructor if "__init__" not in vars(cls) else None)
    made._frozen, made.__triton_since__ = True, "3.7"
    return made


def _constructor(cls, fields):
    """What sets the fields of a class without `__init__`, by place or by name; class attributes are defaults."""
    def __init__(self, *args, **kwargs):
        name = type(self).__name__
        if len(args) > len(fields):
            raise fail(TypeError, f"{name}() takes {len(fields)} positional arguments but {len(args)} were given")
        given = dict(zip(fields, args))
        for key, value in kwargs.items():
            if key not in fields:
                raise fail(TypeError, f"{name}() got an unexpected keyword argument {key!r}")
            if key in given:
                raise fail(TypeError, f"{name}() got multiple values for argument {key!r}")
            given[key] = value
        for key in fields:
            if key not in given and key not in type(self)._defaults:
                raise fail(TypeError, f"{name}() missing required argument: {key!r}")
            self._put(key, given[key] if key in given else wrap(type(self)._defaults[key]))
    return __init__


def _made(cls, annotations, constructor=None):
    """The class of aggregates that a user's class stands for."""
    if isinstance(cls.__init__, Source) and not isinstance(cls.__init__, ConstexprFunction):
        raise fail(ValueError, f"{cls.__name__}.__init__ cannot be a @triton.jit function",
                   hint="write it in plain Python, or as a @triton.constexpr_function")
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__", "__init__")}
    defaults = {name: body.pop(name) for name in annotations if name in body}
    for name, value in body.items():
        if inspect.isfunction(value) and not name.startswith("__"):
            body[name] = _plain(value)
        elif isinstance(value, staticmethod | classmethod) and inspect.isfunction(value.__func__):
            body[name] = type(value)(_plain(value.__func__))
    bases = [base for base in cls.__bases__ if base is not object]
    made = type(cls.__name__, builtins.tuple(bases) if any(issubclass(base, Aggregate) for base in bases)
                else (Aggregate, *bases), body)
    made._declared = {name: _resolve(kind, cls) for name, kind in annotations.items()}
    made._defaults = {**{k: v for base in reversed(bases) for k, v in getattr(base, "_defaults", {}).items()},
                      **defaults}
    made.__init__ = _checked_init(constructor(made, builtins.tuple(annotations)) if constructor else cls.__init__)
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
            from ..semantic import TritonSemantic
            kwargs["_semantic"] = _semantic if _semantic is not None else TritonSemantic(current())
        return fn(*map(wrap, args), **{name: wrap(value) for name, value in kwargs.items()})
    vars(run)["__triton_aggregate__"] = True
    return run


def _checked_init(init):
    call = _plain(init) if not isinstance(init, ConstexprFunction) else \
        lambda self, *args, **kwargs: init.fn(self, *map(unwrap, args), **kwargs)

    @functools.wraps(init.fn if isinstance(init, ConstexprFunction) else init)
    def run(self, *args, **kwargs):
        token = _MAKING.set((*_MAKING.get(), id(self)))
        try:
            call(self, *args, **kwargs)
        finally:
            _MAKING.reset(token)
        for name in type(self)._declared:
            if name not in vars(self):
                raise fail(AttributeError, f"constructor for {type(self).__name__} did not initialize attribute "
                           f"{name!r}")
    return run


@builtin
def aggregate_replace(b, obj, **changes):
    """A copy of an aggregate with other values in some of its fields.

        tile = tl.aggregate_replace(tile, ptr=tile.ptr + 16)
    """
    if not isinstance(obj, Aggregate):
        raise fail(TypeError, f"aggregate_replace expects an aggregate instance, got {type(obj).__name__}",
                   argument="obj")
    made = obj.remade(obj.parts())
    for name, value in changes.items():
        if name not in type(obj)._declared:
            raise fail(TypeError, f"{type(obj).__name__} has no field {name!r}",
                       hint=f"its annotations declare {', '.join(type(obj)._declared) or 'none'}")
        made._put(name, value)
    return made
