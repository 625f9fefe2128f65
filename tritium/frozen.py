"""Records that do not change, as frozen dataclasses are, without methods that must be generated.

`dataclasses` compiles six functions for a class: 2 ms for one of thirty fields, in every process. To its own functions,
such as `replace`, `fields` and `asdict`, these records are frozen dataclasses all the same.

    >>> class Point(Frozen):
    ...     x: int
    ...     y: int = 0
    >>> Point(x=1), Point(x=1) == Point(x=1, y=0)
    (Point(x=1, y=0), True)
    >>> import dataclasses
    >>> dataclasses.replace(Point(x=1), y=2)
    Point(x=1, y=2)
"""

from __future__ import annotations

import inspect
from typing import Any, NoReturn, dataclass_transform

__all__ = ["Frozen"]


class _Fields:
    """The fields of a record for those who ask `dataclasses`."""

    def __get__(self, instance: object, cls: type[Frozen]) -> dict[str, Any]:
        import dataclasses

        def field(name: str) -> Any:
            usual = cls._usual.get(name, dataclasses.MISSING)
            if type(usual).__hash__ is None:  # a dict, say, which nobody changes
                return dataclasses.field(default_factory=lambda: usual, kw_only=True)
            return dataclasses.field(default=usual, kw_only=True)

        rows = [(name, object, field(name)) for name in cls._names]
        return dataclasses.make_dataclass(cls.__name__, rows, frozen=True, eq=False).__dataclass_fields__


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Frozen:
    """A record whose fields are the annotated names of its class and of those above, with their values as defaults.

    It is made with keywords, and equal to records of its class with equal fields.
    """

    _names: tuple[str, ...] = ()
    _usual: dict[str, Any] = {}  # noqa: RUF012  each class gets its own
    __dataclass_fields__ = _Fields()

    def __init_subclass__(cls) -> None:
        own = inspect.get_annotations(cls)
        cls._names = (*cls._names, *own)
        cls._usual = {**cls._usual, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}

    def __init__(self, **given: Any):
        fields = {**self._usual, **given}
        if len(fields) != len(self._names) or not fields.keys() >= set(self._names):
            unknown, lacking = fields.keys() - {*self._names}, [name for name in self._names if name not in fields]
            wrong = f"takes no {', '.join(sorted(unknown))}" if unknown else f"needs {', '.join(lacking)}"
            raise TypeError(f"{type(self).__name__} {wrong}")
        vars(self).update((name, fields[name]) for name in self._names)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))
