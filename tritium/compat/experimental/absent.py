"""Stand-ins for what tritium does not have: they can be imported and passed on, and explain themselves on use."""

from __future__ import annotations

from typing import Any, NoReturn


class Absent:
    """A name of something that is not part of tritium.

    >>> gluon_jit = Absent("gluon.jit", "write the kernel with triton.jit")
    >>> gluon_jit.anything
    <gluon.jit.anything: not part of tritium>
    >>> gluon_jit()
    Traceback (most recent call last):
    RuntimeError: gluon.jit is not part of tritium: write the kernel with triton.jit
    """

    def __init__(self, name: str, instead: str):
        self._name, self._instead = name, instead

    def _explain(self) -> NoReturn:
        raise RuntimeError(f"{self._name} is not part of tritium: {self._instead}")

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}", self._instead)

    def __call__(self, *args, **kwargs) -> NoReturn:
        self._explain()

    def __getitem__(self, index: Any) -> NoReturn:
        self._explain()

    def __enter__(self) -> NoReturn:
        self._explain()

    def __exit__(self, *exception) -> None:
        pass

    def __repr__(self) -> str:
        return f"<{self._name}: not part of tritium>"


class AbsentDecorator(Absent):
    """A decorator of something that is not part of tritium: what it decorates explains itself when launched.

    >>> jit = AbsentDecorator("gluon.jit", "write the kernel with triton.jit")
    >>> @jit
    ... def kernel(x): ...
    >>> @jit(noinline=True)
    ... def other(x): ...
    >>> kernel[(1,)](None)
    Traceback (most recent call last):
    RuntimeError: kernel, a gluon.jit function, is not part of tritium: write the kernel with triton.jit
    """

    def __call__(self, fn: Any = None, **options) -> Absent:
        if fn is None:
            return self
        return Absent(f"{getattr(fn, '__name__', fn)}, a {self._name} function,", self._instead)
