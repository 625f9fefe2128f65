"""Scopes and states: names for regions of a program, under which its kernels stand in a profile."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["cpu_timed_scope", "enter_scope", "enter_state", "exit_scope", "exit_state", "path", "scope", "state"]


class _Own(threading.local):
    def __init__(self):
        self.scopes: list[str] = []
        self.states: list[str] = []


_own = _Own()
listeners: list[Any] = []  # sessions that take scopes' metrics: `counted(path, metrics)`


def path() -> tuple[str, ...]:
    """The scopes this thread is in, outermost first; the innermost state comes last.

    >>> with scope("test"), state("warm"), scope("inner"):
    ...     path()
    ('test', 'inner', 'warm')
    """
    return (*_own.scopes, *_own.states[-1:])


def _numbers(metrics: dict[str, Any] | None) -> dict[str, Any]:
    found = {}
    for name, value in (metrics or {}).items():
        value = value.item() if hasattr(value, "item") else value
        if not isinstance(value, int | float):
            raise TypeError(f"the metric {name!r} of a scope is a number, not {value!r}")
        found[str(name)] = value
    return found


def _count(metrics: dict[str, Any]) -> None:
    for listener in list(listeners):
        listener.counted(tuple(_own.scopes), metrics)


def enter_scope(name: str, *, metrics: dict[str, Any] | None = None, **_: Any) -> None:
    """Begin a scope; `exit_scope` ends it.

    >>> enter_scope("a"); enter_scope("b"); path()
    ('a', 'b')
    >>> exit_scope(); exit_scope()
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a scope is a text, not {name!r}")
    counted = _numbers(metrics)
    _own.scopes.append(name)
    _count(counted)


def exit_scope(name: str | None = None, *, metrics: dict[str, Any] | None = None, **_: Any) -> None:
    """End the innermost scope."""
    if not _own.scopes:
        raise RuntimeError("no scope is open in this thread: exit_scope has no enter_scope before it")
    if name is not None and _own.scopes[-1] != name:
        raise RuntimeError(f"the innermost scope is {_own.scopes[-1]!r}, not {name!r}: scopes end in turn")
    if metrics:
        _count(_numbers(metrics))
    _own.scopes.pop()


def enter_state(name: str) -> None:
    """Begin a state: kernels stand under its name, below all scopes.

    >>> enter_state("decode"); path()
    ('decode',)
    >>> exit_state()
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a state is a text, not {name!r}")
    _own.states.append(name)


def exit_state() -> None:
    """End the innermost state."""
    if not _own.states:
        raise RuntimeError("no state is open in this thread: exit_state has no enter_state before it")
    _own.states.pop()


class _Region:
    """A `with`, or a decorator of a function."""

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def inside(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)

        return inside

    def __enter__(self) -> Any:
        self.begin()
        return self

    def __exit__(self, *_) -> None:
        self.end()

    def begin(self) -> None:
        """Enter."""

    def end(self) -> None:
        """Leave."""


class scope(_Region):
    """A region by name; `metrics` are numbers that are added up at its place in the profile.

    >>> with scope("forward", {"bytes": 4096}):
    ...     path()
    ('forward',)
    """

    def __init__(self, name: str, metrics: dict[str, Any] | None = None):
        self.name, self.metrics = name, metrics

    def begin(self) -> None:
        """Enter."""
        enter_scope(self.name, metrics=self.metrics)

    def end(self) -> None:
        """Leave."""
        exit_scope(self.name)


class cpu_timed_scope(scope):
    """A scope that also takes its own time on the host, as the metric `cpu_time (ns)`.

    >>> with cpu_timed_scope("load"):
    ...     path()
    ('load',)
    """

    def __init__(self, name: str, metrics: dict[str, Any] | None = None):
        super().__init__(name, metrics)
        if metrics and "cpu_time (ns)" in metrics:
            raise ValueError("the metric cpu_time (ns) of a cpu_timed_scope is measured, not given")
        self._begun: list[int] = []

    def begin(self) -> None:
        """Enter."""
        super().begin()
        self._begun.append(time.perf_counter_ns())

    def end(self) -> None:
        """Leave."""
        spent = time.perf_counter_ns() - self._begun.pop()
        exit_scope(self.name, metrics={"cpu_time (ns)": spent})


class state(_Region):
    """A state by name: unlike scopes, only the innermost counts, and it stands last.

    >>> with state("warm"), state("hot"):
    ...     path()
    ('hot',)
    """

    def __init__(self, name: str):
        self.name = name

    def begin(self) -> None:
        """Enter."""
        enter_state(self.name)

    def end(self) -> None:
        """Leave."""
        exit_state()
