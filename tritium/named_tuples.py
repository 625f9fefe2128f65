"""`NamedTuple` as in `typing`, at a tenth of what a class costs there to make.

`typing.NamedTuple` compiles the annotation of each field and a constructor of the class. A process that launches one
kernel makes thirty such classes, a process that compiles one a hundred and fifty, and most are never called. Here
annotations stay text, and the constructor is compiled when the first tuple is made. Type checkers see `typing`'s.

    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int = 0
    >>> Point(3), Point(3)._replace(y=4).y, Point._fields
    (Point(x=3, y=0), 4, ('x', 'y'))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter as _field  # what `namedtuple` takes: faster than a property

    class _Kind(type):
        """The type of these classes: fields are the annotated names, their values in the class are defaults."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if any(isinstance(base, _Kind) and base is not NamedTuple for base in bases):
                return super().__new__(cls, name, bases, namespace)  # a subclass adds no fields
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            if fields[len(fields) - len(defaults):] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default follows one with a default")
            getters = {field: _field(number, f"field {number}") for number, field in enumerate(fields)}
            return super().__new__(cls, name, bases, {**namespace, **getters, "__slots__": (), "_fields": fields,
                                                      "_field_defaults": defaults, "__match_args__": fields})

    class NamedTuple(tuple, metaclass=_Kind):
        """The base of named tuples."""

        def __new__(cls, /, *args: Any, **kwargs: Any) -> NamedTuple:
            """Make the constructor of the class, which takes the place of this one, and the first tuple."""
            owner = next(base for base in cls.__mro__ if "_fields" in base.__dict__)
            names = ", ".join(owner._fields)
            made = eval(f"lambda _cls, {names}: _new(_cls, ({names}{',' if names else ''}))", {"_new": tuple.__new__})
            made.__defaults__ = tuple(owner._field_defaults.values())
            made.__name__, made.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
            owner.__new__ = staticmethod(made)
            return made(cls, *args, **kwargs)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> NamedTuple:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changed: Any) -> NamedTuple:
            made = self._make(map(changed.pop, self._fields, self))
            if changed:
                raise ValueError(f"Got unexpected field names: {list(changed)!r}")
            return made

        def _asdict(self) -> Mapping[str, Any]:
            return dict(zip(self._fields, self))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={x!r}' for name, x in zip(self._fields, self))})"

        def __getnewargs__(self) -> tuple:
            return tuple(self)
