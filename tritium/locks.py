"""Locks, what is made once for all threads, and what happens to both when the process forks.

    _making = lock()                        a lock that a forked child finds free
    with _making, busy(): ...               work that a fork of another thread waits for
    @once                                   like `functools.cache`, but one thread computes and the others wait
    @once_property                          the same for an attribute

A forked child has one thread. What the others were doing is never finished there: their locks stay taken, the modules
they imported stay half initialised, and LLVM stays in the middle of something. So a fork waits until no other thread is
`busy`, for some seconds at most, and the child gets new locks in any case. `docs/threads.md` says what may be called
from several threads.

A module takes no lock, and asks for nothing that is made once, while it is imported: its own lock, Python's, is held.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

__all__ = ["busy", "hold_at_fork", "imported", "lock", "once", "once_property"]

T = TypeVar("T")

PATIENCE = 10.0  # seconds a fork waits for threads that are busy: one of them may wait for the thread that forks

_registry: Any = threading.RLock()  # guards the two sets, and is held from before a fork until after it
_locks: weakref.WeakSet[Any] = weakref.WeakSet()  # all of them: a child gets them free
_held_at_fork: weakref.WeakSet[Any] = weakref.WeakSet()  # those a fork takes


def lock() -> Any:
    """A reentrant lock. A forked child finds it free, unless the thread that forked holds it.

    >>> guard = lock()
    >>> with guard, guard:
    ...     print("once more")
    once more
    """
    made = threading.RLock()
    with _registry:
        _locks.add(made)
    return made


def hold_at_fork(lock: Any) -> None:
    """Have forks wait for a reentrant lock, too: one that guards state which cannot be renewed.

    >>> hold_at_fork(threading.RLock())
    """
    with _registry:
        _locks.add(lock)
        _held_at_fork.add(lock)


class _Own(threading.local):
    def __init__(self):
        self.lock = threading.RLock()
        hold_at_fork(self.lock)


_own = _Own()


def busy() -> Any:
    """The lock of this thread: a fork takes those of all threads, so `with busy():` keeps forks waiting.

    Only for work that ends by itself: not while a kernel runs. A lock that others want is taken before, not within.

    >>> with busy(), busy():
    ...     busy() is busy()
    True
    """
    return _own.lock


# -- once --------------------------------------------------------------------------------------------------------------


class _Info:
    """How many results are kept, under the name `functools.cache` gives it."""

    def __init__(self, currsize: int):
        self.currsize = currsize


def once(fn: Callable[..., T]) -> Any:
    """As `functools.cache`, but a thread that calls while another computes waits for that result.

    There is one result for each tuple of arguments, also for what compares results by identity. Where `fn` raises,
    nothing is kept.

    >>> @once
    ... def root(n):
    ...     print("computing")
    ...     return n ** 0.5
    >>> root(4), root(4)
    computing
    (2.0, 2.0)
    """
    known: dict[tuple, T] = {}
    guard = lock()

    @functools.wraps(fn)
    def call(*args: Any) -> T:
        try:
            return known[args]
        except KeyError:
            pass
        with guard, busy():
            if args not in known:
                known[args] = fn(*args)
            return known[args]

    made: Any = call
    made.cache_clear, made.cache_info = known.clear, lambda: _Info(len(known))
    return made


class once_property(Generic[T]):
    """As `functools.cached_property`: an attribute that is computed when first read, by one thread.

    >>> class Circle:
    ...     @once_property
    ...     def area(self):
    ...         print("computing")
    ...         return 3
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (3, 3)
    """

    def __init__(self, fn: Callable[[Any], T]):
        self._fn, self._name, self._guard = fn, fn.__name__, lock()
        self.__doc__ = fn.__doc__

    if TYPE_CHECKING:  # code that knows the value may assign it

        def __set__(self, instance: object, value: T) -> None: ...

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> once_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        found = instance.__dict__
        if self._name not in found:
            with self._guard, busy():
                if self._name not in found:
                    found[self._name] = self._fn(instance)
        return found[self._name]


# -- imports -----------------------------------------------------------------------------------------------------------

_importing = lock()


def imported(name: str) -> Any:
    """A module of ours, imported if it is not yet, by one thread at a time.

    Python has a lock for each module: two threads, one of which imports a package and one a part of it, may each wait
    for the other, or get to see half a module.

    >>> imported("tritium.locks").__name__
    'tritium.locks'
    """
    with _importing, busy():
        return importlib.import_module(name)


# -- fork --------------------------------------------------------------------------------------------------------------

_forking: Any = threading.RLock()  # threads fork one after another
_taken: list[Any] = []  # by the thread that forks


def _wanted() -> set[Any]:
    with _registry:
        return set(_held_at_fork)


def _give_back(locks: list[Any]) -> None:
    while locks:
        locks.pop().release()


def _take(wanted: Iterable[Any], first: Any, timeout: float) -> Any:
    """Take all locks, waiting for `first` alone; the one that was not to be had, with none taken, or None.

    Nobody is kept waiting while this thread waits: so it does not matter who takes which locks in which order.
    """
    if first is not None:
        if not first.acquire(timeout=timeout):
            return first
        _taken.append(first)
    for one in wanted:
        if one is not first:
            if not one.acquire(blocking=False):
                _give_back(_taken)
                return one
            _taken.append(one)
    return None


def _before() -> None:
    """Wait until no other thread is busy, and let none begin."""
    _forking.acquire()
    end, missing = time.monotonic() + PATIENCE, None
    while True:
        wanted = _wanted()
        left = end - time.monotonic()
        missing = _take(wanted, missing, max(left, 0.0))
        if missing is None:
            _registry.acquire()
            if _wanted() <= wanted:
                return
            _registry.release()  # another thread began meanwhile
            _give_back(_taken)
        elif left <= 0:  # the child gets what state there is
            _registry.acquire()
            return


def _after() -> None:
    _give_back(_taken)
    for one in (_registry, _forking):
        if one._is_owned():  # an interrupt may have come before it was taken
            one.release()


def _in_child() -> None:
    """The other threads do not exist in a child, so nothing will release the locks they held."""
    _after()
    for one in list(_locks):
        if not one._is_owned():
            one._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
