"""From a launch of what wraps a kernel to one of the kernel, without Python code: records of autotuners and heuristics.

A wrapper has a list of records as a kernel has (see `launch`). They lead on to the list of what it wraps, over the same
grid, with more arguments (`backends/launcher/wrappers.py`). Who looks at a launch is always the kernel's own record, so
a record here holds only what the wrapper's answer depends on: values, dtypes, its own state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tritium.errors import cut
from tritium.language.source.fingerprints import COMMON
from tritium.locks import imported, lock
from tritium.named_tuples import NamedTuple
from tritium.runtime.jit import JITFunction, KernelInterface, T

if TYPE_CHECKING:
    from tritium.runtime.choices import Choice

__all__ = ["Armed", "Wrapper", "record_of_choice", "record_of_heuristics"]

_RECENT = 32  # records of a wrapper that are at hand: most are passed over after one comparison
_MOST = 8  # how often a record is made anew for launches that the last one was not right for
_PATIENCE = 8  # launches that are made by Python meanwhile: where there are more choices than room, some stay

# Attributes that records of a wrapper do not look at: setting one drops them all.
_DECISIVE = frozenset(("fn", "run", "arg_names", "cache", "configs", "keys", "values"))

_OWN = frozenset(("_native", "_road", "_binder", "_choices", "_forms"))  # what a copy does not get

_arming = lock()


class Armed:
    """What launches may be armed for: its record, and how often one was made.

    >>> Armed().made
    0
    """

    __slots__ = ("change", "made", "missed", "record")

    def __init__(self):
        self.record, self.made, self.change = None, 0, -1  # how many changes the wrapper had seen then
        self.missed = 0  # launches that came to Python although there is a record


class Wrapper(KernelInterface[T]):
    """A kernel with something around it, whose launches may lead to the kernel's own without Python code.

    A subclass defines `_launch(grid, *args, **kwargs)`, which launches in any case and may arm for such launches, and
    has `_plain` among its own attributes: its `run` does the same.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> from tritium.runtime.heuristic import heuristics
    >>> heuristics({"BLOCK": lambda args: 64})(add_kernel)._is_plain()
    True
    """

    fn: Any
    _native: Callable[[Any], Callable] | None = None  # from a grid to what launches over it
    _road: list[Any] | None = None  # `_launch`, and the records that are tried before
    _binder: Callable[[list], Callable] | None = None
    _changes = 0  # of attributes that decide
    _launch: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a launch without a grid, as a kernel does."""
        try:
            return self.fn(*args, **kwargs)
        except Exception as error:
            cut(error)
            raise

    def _is_plain(self) -> bool:
        """Whether nobody has put another `run` in the place of the class's."""
        return "_plain" in self.__class__.__dict__ and "run" not in self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in _DECISIVE:
            self._disarm()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in _DECISIVE:
            self._disarm()

    def __getstate__(self) -> dict[str, Any]:  # a copy arms for itself
        return {name: x for name, x in self.__dict__.items() if name not in _OWN}

    def _arm(self, armed: Armed, make: Callable[[], tuple[Callable, Any] | None]) -> None:
        """Arm for launches that come here: with the record there is, if it had to make room, else with another."""
        change, out = self._changes, armed.record
        if armed.change == change:
            armed.missed += 1
            if armed.missed % _PATIENCE:
                return
        kept = armed.change == change and not any(x is out for x in self._road or ())
        made = out if kept else self._new_record(armed, make)
        with _arming:
            if made is None or change != self._changes:
                return
            road: Any = self._road
            road[1:] = [made, *(x for x in road[1:] if x is not made and x is not out)][:_RECENT]
            armed.record, armed.change = made, change

    def _new_record(self, armed: Armed, make: Callable[[], tuple[Callable, Any] | None]) -> Any:
        try:
            found = make() if armed.made < _MOST else None
        except Exception:  # a property of a foreign class, a dtype without a hash: Python goes on launching such
            armed.made = _MOST
            return None
        if found is None:
            return None
        armed.made += 1
        binder, made = found
        with _arming:
            if self._road is None:
                road = [self._launch]
                self._road, self._binder, self._native = road, binder, binder(road)
        return made

    def _disarm(self) -> None:
        """Forget all records."""
        with _arming:
            self._changes += 1
            if self._road is not None:
                del self._road[1:]


class _Inner(NamedTuple):
    """What a wrapper wraps, as a record needs it: its list, and what must stay so for that to be the right one."""

    records: list[Any]
    binder: Any  # a method of a runtime
    captured: list[tuple]
    alike: list[tuple]
    absent: list[tuple]


def _inner(fn: Any) -> _Inner | None:
    """None where launches of `fn` have no records, or none yet."""
    native, own = getattr(fn, "_native", None), vars(fn)
    if native is None or "run" in own or not imported("tritium.backends.launcher.parts").NATIVE:
        return None
    if fn.__class__ is JITFunction:
        records, binder, hooks = fn.launcher.records, fn.launcher.binder, fn.pre_run_hooks
        captured, alike = [(own, ("pre_run_hooks", hooks))], [(hooks, [])]
    elif isinstance(fn, Wrapper):
        records, binder, captured, alike = fn._road, fn._binder, [], []
    else:
        return None
    if binder is None or records is None or alike and alike[0][0]:
        return None
    return _Inner(records, binder, [(own, ("_native", native)), *captured], alike, [(own, "run")])


def _made(inner: _Inner, wrapper: Wrapper, args: tuple, keywords: Iterable[str], guards: list, way: dict[str, Any],
          captured: list[tuple], alike: list[tuple], functions: bool = False,
          defaults: dict[str, Any] | None = None) -> tuple[Callable, Any]:
    """(binder, record) of launches that go on by `way`."""
    from tritium.backends.launcher.record import keyword_names, record
    from tritium.backends.launcher.wrappers import Way

    names = keyword_names(way.pop("names"))
    return inner.binder, record(
        inner.binder.__self__.forward, 0, int(functions), guards, wrapper, keywords=tuple(keywords),
        names=tuple(wrapper.arg_names[:len(args)]), defaults=defaults, captured=[*captured, *inner.captured],
        alike=[*alike, *inner.alike], absent=inner.absent, way=Way(inner.records, names, **way))


def record_of_choice(tuner: Any, choice: Choice, args: tuple, kwargs: dict[str, Any]) -> tuple[Callable, Any] | None:
    """(binder, record) of launches for which a tuner has made this choice; None where the launcher cannot tell."""
    config, inner = choice.config, None if choice.config.pre_hook is not None else _inner(tuner.fn)
    if inner is None:
        return None
    named = [*zip(tuner.arg_names, args), *kwargs.items()]
    straight = tuner.fn.__class__ is JITFunction  # then the kernel's record looks at dtypes
    guards = [_guard(x, name in tuner.keys, straight) if name in tuner.arg_names else _record().SKIP
              for name, x in named]  # fmt: skip
    if None in guards or len(named) != len(args) + len(kwargs):
        return None
    own, chosen = vars(tuner), config.all_kwargs()
    captured: list[tuple] = []
    alike: list[tuple] = [(vars(config), choice.made_of)]
    if len(tuner.configs) == 1:
        alike.append((tuner.configs, [config]))
    else:
        captured.append((tuner.cache, (choice.key, config)))
    way = {"names": (*kwargs, *chosen), "added": tuple(chosen.values()), "noted": (own, config, tuner._launching)}
    if straight:
        values = (*args, *kwargs.values(), *chosen.values())
        way["kinds"] = _record().shared(tuple(map(_record().kind_of, values)))
    return _made(inner, tuner, args, kwargs, guards, way, captured, alike, not straight)


def _record():
    return imported("tritium.backends.launcher.record")


def _guard(x: Any, keyed: bool, straight: bool) -> Any:
    """The guard of one argument of a tuner: its value if that is part of the tuning key, else what dtype it has."""
    if keyed:
        return _record().constant(x)
    if straight:
        return _record().SKIP
    if x.__class__ in COMMON:
        return _record().kind(x)
    if getattr(x, "dtype", None) is not None:
        return _record().dtyped(x)
    return _record().constant(x)


def record_of_heuristics(wrapper: Any, args: tuple, keywords: Iterable[str]) -> tuple[Callable, Any] | None:
    """(binder, record) of launches of heuristics that are written like this one; None where there is none."""
    inner = _inner(wrapper.fn)
    if inner is None:
        return None
    order = [*wrapper.arg_names[:len(args)], *keywords]
    given = len(order)
    if len(args) > len(wrapper.arg_names):
        return None
    order += [name for name in wrapper.values if name not in order]
    computed = tuple([(name, function, order.index(name)) for name, function in wrapper.values.items()])
    alike = [(wrapper.values, dict(wrapper.values))]
    return _made(inner, wrapper, args, keywords, [_record().SKIP] * given, {"names": tuple(order[len(args):]),
                 "computed": computed}, [], alike, defaults={"grid": None, "warmup": False})
