"""The way of a launch: `kernel[grid](x, y, n, BLOCK=64)`.

A driver may have a *guarded launch*: native code that is given the grid and the arguments as they were written, finds
among the specialisations at hand the one they fit, and launches it. Only when none fits does Python bind the arguments,
specialise them, look the kernel up and compile it.

A setting that changes, or a hook that is added, disarms every kernel: nothing is looked at on the hot path.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from functools import partial
from inspect import Parameter
from threading import get_ident
from typing import Any

from tritium import knobs
from tritium.errors import InternalError, cut
from tritium.language.builtins.grid import asked, grid_sizes
from tritium.language.source import rehearsal
from tritium.language.source.fingerprints import is_fixed
from tritium.locks import lock
from tritium.named_tuples import NamedTuple
from tritium.refusals import misnamed, refusal

# At most this many specialisations of a kernel, and grids, are kept at hand.
_RECENT, _GRIDS = 8, 1024
VAR_POSITIONAL = Parameter.VAR_POSITIONAL


class Form(NamedTuple):
    """How a call was written: the number of positional arguments and the names of keywords; `written` are the
    positional arguments as the caller gave them, where others were made of them."""

    positional: int
    keywords: tuple[str, ...]
    written: tuple = ()


def _mismatch(kernel: str, signature: inspect.Signature, args: tuple, kwargs: dict[str, Any]) -> TypeError:
    """What Python says when a function of this name and signature, which takes further keywords, is called so."""
    name = kernel if kernel.isidentifier() else "kernel"
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    bare = [p if p.default is p.empty else p.replace(default=None) for p in bare]
    more = inspect.Parameter("_tt_options", inspect.Parameter.VAR_KEYWORD)
    scope: dict[str, Any] = {}
    exec(f"def {name}{inspect.Signature([*bare, more])}: pass", scope)
    try:
        scope[name](*args, **kwargs)
    except TypeError as error:
        from tritium.backends.compiler import NAMES  # needed only here: loading a kernel needs no backend

        unknown = [key for key in kwargs if key not in signature.parameters and key not in NAMES]
        nearest = misnamed(kernel, unknown[0] if unknown else "", list(signature.parameters))
        return refusal(TypeError, str(error), f"{unknown[0]} is no parameter: {nearest}" if unknown else nearest)
    raise InternalError(f"{name}: a call that fits was taken for one that does not")


_arming = lock()
_armed: weakref.WeakSet[Launcher] = weakref.WeakSet()  # those with specialisations at hand
_changes = 0  # of settings and the like


def disarm_all() -> None:
    """Have every kernel look at its arguments and the settings again.

    >>> disarm_all()
    """
    with _arming:
        _forget(list(_armed))
        _armed.clear()


def _forget(launchers: list[Launcher]) -> None:
    """Have them forget the specialisations at hand; launches that have begun, of whatever kernel, arm for nothing."""
    global _changes
    _changes += 1
    for launcher in launchers:
        del launcher.records[1:], launcher._found[1:]
        launcher._known.clear()


knobs.listeners.append(disarm_all)


_UNKNOWN: Any = object()
_ONCE: Any = object()


class Launcher:
    """The function that binds one kernel's arguments, and the specialisations at hand.

    `slow(sizes, values, options, form)` is called with the bound arguments when no specialisation at hand fits;
    `options` are names of parameters that, given by keyword, set the option of that name too.
    """

    def __init__(self, name: str, signature: inspect.Signature, slow: Callable, options: tuple[str, ...] = ()):
        parameters = signature.parameters
        kinds = [parameter.kind for parameter in parameters.values()]
        # The place of `*args`, which is one tuple from here on. Such launches are not written as the parameters are.
        self._rest = kinds.index(VAR_POSITIONAL) if VAR_POSITIONAL in kinds else None
        self._name, self._signature, self._names = name, signature, list(parameters)
        self._positional = sum(p.kind is not p.KEYWORD_ONLY for p in parameters.values())
        self._defaults = {n: () if p.kind is VAR_POSITIONAL else p.default for n, p in parameters.items()
                          if p.default is not p.empty or p.kind is VAR_POSITIONAL}
        self._slow, self._options = slow, options
        self._known: dict[Any, Any] = {}
        self.records: list[Any] = [self.call]
        self._found: list[Any] = [self.warmup]
        # As `over` and `warmup`, without Python code; there is none before the first launch or warm-up.
        self.native: Callable[[Any], Callable] | None = None
        self.binder: Callable[[list], Callable] | None = None  # what made it, if it knows records of wrappers too
        self.lookup: Callable | None = None
        self.grids: dict[tuple, Callable] = {}
        self._begun: dict[int, int] = {}  # thread -> how many changes there had been when its launch began

    def over(self, grid: Any) -> Callable:
        """A function that launches the kernel over `grid`."""
        if rehearsal.current.get() is not None:
            return partial(self.call, grid)
        if self.native is None:
            return self._first(grid)
        call = self.native(grid)
        if type(grid) is tuple and all(hasattr(size, "__index__") for size in grid):  # not (1.0,), which equals (1,)
            if len(self.grids) >= _GRIDS:
                self.grids.clear()
            self.grids[grid] = call
        return call

    def _first(self, grid: Any) -> Callable:
        """What `over` gives before there is a native function. It may be kept, and calls that one once there is."""
        native: Callable | None = None

        def launch(*args, **kwargs) -> Any:
            nonlocal native
            try:
                if native is None:
                    if self.native is None:
                        return self.call(grid, *args, **kwargs)
                    native = self.native(grid)
                return native(*args, **kwargs)
            except Exception as error:
                cut(error, keep=knobs.compilation.front_end_debugging)
                raise

        return launch

    def call(self, grid: Any, /, *args, **kwargs):
        """Launch the slow way; a traceback ends with the user's line."""
        if (tell := rehearsal.current.get()) is not None:
            return tell(self._kernel(), grid, args, kwargs)
        self._begun[get_ident()] = _changes
        try:
            values, options = self._bind(args, kwargs)
            if callable(grid):
                grid = asked(grid, self._name, dict(zip(self._names, values)))
            form = Form(len(args), tuple(kwargs)) if self._rest is None else None
            return self._slow(grid_sizes(grid), values, options, form)
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def warmup(self, /, *args, **kwargs):
        """Only compile; a `torch.dtype` stands for a tensor of it."""
        from tritium.tensors import MockTensor  # loading a kernel needs no tensors

        if (tell := rehearsal.current.get()) is not None:
            return tell(self._kernel(), None, args, kwargs)
        self._begun[get_ident()] = _changes
        try:
            values, options = self._bind(tuple(map(MockTensor.wrap_dtype, args)), kwargs)
            return self._slow(None, values, options, Form(len(args), tuple(kwargs), args))
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def _kernel(self) -> Any:
        """The kernel whose launcher it is."""
        return getattr(self._slow, "__self__", None)

    def bind(self, /, *args, **kwargs) -> tuple[tuple, dict[str, Any]]:
        """The arguments in the order of the parameters, and the keywords that are no parameters."""
        if self._rest is not None and len(args) > self._rest:
            args = (*args[:self._rest], args[self._rest:])
        given, named = len(args), {**self._defaults, **kwargs}
        first, rest = self._names[:given], self._names[given:]
        if given > self._positional or not kwargs.keys().isdisjoint(first) or not named.keys() >= set(rest):
            raise _mismatch(self._name, self._signature, args, kwargs)
        return (*args, *map(named.__getitem__, rest)), {n: x for n, x in kwargs.items() if n not in self._names}

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        values, options = self.bind(*args, **kwargs)
        options.update((name, kwargs[name]) for name in self._options if name in kwargs)
        return values, options

    def arm_for(self, like: Any, make: Callable[[], tuple[Callable, Any] | None], launches: bool = True) -> None:
        """Arm for launches, or warm-ups, `like` this one; what `make` gives is kept, also when it is None.

        Warm-ups are armed for when they are repeated: many processes only compile, and launch nothing.
        """
        found = self._known.get(like, _UNKNOWN if launches else _ONCE)
        armed = _UNKNOWN if found is _ONCE else make() if found is _UNKNOWN else found
        with _arming:
            if self._begun.pop(get_ident(), None) != _changes:
                return  # another thread changed a setting during the launch
            self._known[like] = armed
            _armed.add(self)
            if armed is None or armed is _UNKNOWN:
                return
            binder, record = armed
            records = self.records if launches else self._found
            if launches and self.native is None:
                self.native = binder(records)
                self.binder = binder if isinstance(record, bytes) else None
            if not launches and self.lookup is None:
                self.lookup = binder(records)
            records[1:] = [record, *(other for other in records[1:] if other is not record)][:_RECENT]

    def disarm(self) -> None:
        """Forget the specialisations at hand."""
        with _arming:
            _forget([self])


def captured(values: dict) -> list[tuple] | None:
    """(scope, (name, value)) of each captured variable: what must still be the same object in another launch.

    Where one can change without becoming another object the result is None.

    >>> captured({("SCALE", 0): (3, {"SCALE": 3})})
    [({'SCALE': 3}, ('SCALE', 3))]
    """
    held = [(scope, (name, scope[name])) for (name, _), (_, scope) in values.items()]
    return held if all(is_fixed(value) for _, (_, value) in held) else None
