"""Launches of a compiled kernel without Python code: `kernel.run(...)` as frameworks call it, and `kernel[grid](...)`.

Both go by records, as launches of the function do (see `record`), except that a compiled kernel fits or does not: there
is no other to look for. What a record does not cover is left to Python, which checks the arguments against what the
kernel was compiled for, launches it, and makes the record of launches like this one.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ... import knobs
from ...ir import types as T
from ...language.builtins.grid import check_sizes
from ...language.types.constants import unwrap
from ...language.types.signature import SCALARS
from ...locks import lock, once_property
from ...refusals import of_argument, refusal
from ...tensors import constant_value, hold, reader_of, scalar
from . import calls
from .parts import builtin

_RECENT, _KNOWN = 8, 64  # records at hand, kinds of arguments that are known
_RANGES = {"i32": (-(1 << 31), 1 << 31), "i64": (-(1 << 63), 1 << 63), "u64": (0, 1 << 64)}
_HINT = "launch the function, kernel[grid](...), which compiles for these arguments, or warm up with them"


class Demands:
    """What a compiled kernel demands of its arguments: the types, constants and multiples it was compiled for.

    `aligned` says whether the addresses of tensors count among the latter: code for CPUs reads at any address.

    >>> class Source:
    ...     signature, constants, attrs = {"n": "i32", "B": "constexpr"}, {(1,): 64}, {(0,): [["tt.divisibility", 16]]}
    >>> Demands("add", Source).check((32, 64))
    [32, 64]
    >>> Demands("add", Source).check((33, 64))
    Traceback (most recent call last):
    ValueError: argument `n` of kernel `add`: it is 33, and the kernel was compiled for multiples of 16
    hint: launch the function, kernel[grid](...), which compiles for these arguments, or warm up with them
    """

    def __init__(self, name: str, src: Any, aligned: bool = False):
        self.name, self.names, self.types = name, tuple(src.signature), tuple(src.signature.values())
        self._constants = dict(src.constants)
        self._multiples, self._ones = ({path: n for path, rows in src.attrs.items() for what, n in rows if what == told}
                                       for told in ("tt.divisibility", "tt.equal"))
        self._aligned = aligned

    def check(self, args: tuple) -> list:
        """The arguments with their memory held (see `tensors.hold`); raises where one is not what is demanded."""
        held: list[Any] = []
        try:
            for k, (type_, x) in enumerate(zip(self.types, args, strict=True)):
                x = x if type_ == "constexpr" else hold(x)
                self._check(type_, x, (k,))
                held.append(x)
        except Exception as error:
            named = of_argument(error, self.name, self.names[len(held)])
            raise named from named.__cause__
        return held

    def _check(self, type_: Any, x: Any, path: tuple[int, ...]) -> None:
        if type_.__class__ is not str:
            for k, (part, item) in enumerate(zip(type_, x)):
                self._check(part, item, (*path, k))
        elif type_ == "constexpr":
            self._check_constant(constant_value(unwrap(x)), path)
        elif type_[0] == "*":
            self._check_pointer(type_, x, path)
        elif type_ in _RANGES:
            self._check_integer(type_, x, path)

    def _check_constant(self, x: Any, path: tuple[int, ...]) -> None:
        """None may stand for any constant; those are compared that are plain values."""
        was = self._constants.get(path, x)
        if was is x or x is None or was.__class__ not in calls.PLAIN:
            return
        if reader_of(x) is not None:
            raise refusal(ValueError, f"it is a {type(x).__name__}, and the kernel was compiled for {was!r}", _HINT)
        if x != was and (was == was or x == x):  # a nan is as good as another
            raise refusal(ValueError, f"it is {x!r}, and the kernel was compiled for {was!r}", _HINT)

    def _check_integer(self, type_: str, x: Any, path: tuple[int, ...]) -> None:
        x = x if isinstance(x, int | float) else scalar(x)
        if isinstance(x, float):
            raise refusal(TypeError, f"it is {x!r}, and the kernel was compiled for {type_}", _HINT)
        if x is None:  # no number: what packs it says so
            return
        least, end = _RANGES[type_]
        if not least <= x < end:
            raise refusal(OverflowError, f"{x} does not fit {type_}, for which the kernel was compiled", _HINT)
        n = self._multiples.get(path, 1)
        if x % n:
            raise refusal(ValueError, f"it is {x}, and the kernel was compiled for multiples of {n}", _HINT)
        if x != self._ones.get(path, x):
            raise refusal(ValueError, f"it is {x}, and the kernel was compiled for {self._ones[path]}", _HINT)

    def _check_pointer(self, type_: str, x: Any, path: tuple[int, ...]) -> None:
        reader = reader_of(x)
        if reader is not None:
            self._check_elements(type_[1:].removeprefix("k"), reader.element, x)
        n = self._multiples.get(path, 1)
        if n == 1 or not self._aligned or (reader is None and not isinstance(x, int)):
            return
        address = x if reader is None else reader.address(x)
        if address % n:
            raise refusal(ValueError, f"its address {address:#x} is no multiple of {n}, and the kernel was compiled "
                          "for such addresses", _HINT)

    def _check_elements(self, wanted: str, element: Callable[[Any], str], x: Any) -> None:
        """Elements may be taken for others of their size."""
        try:
            found = element(x)
        except (TypeError, AttributeError):  # a dtype that kernels do not have: they use only the address
            return
        if found != wanted and found in SCALARS and wanted in SCALARS and _bytes(found) != _bytes(wanted):
            raise refusal(TypeError, f"its elements are {found}, and the kernel was compiled for {wanted}", _HINT)

    def form(self, args: tuple, tensor: calls.TensorGuard, stores: Any = ()) -> dict[str, Any] | None:
        """What `record.record` wants to know of launches with arguments such as these, which were found to fit."""
        multiples = [self._multiples.get((k,), 1) for k in range(len(self.types))]
        compared = {path[0] for path, was in self._constants.items() if len(path) == 1 and was.__class__ in calls.PLAIN}
        ones = {path[0] for path in self._ones}
        return calls.form_of_compiled(self.types, multiples, compared, args, tensor, self._aligned, stores, ones)


def _bytes(element: str) -> int:
    return max(T.SCALARS[SCALARS[element]].bits, 8) // 8


# -- records -----------------------------------------------------------------------------------------------------------

_arming = lock()
_armed: weakref.WeakSet[Roads] = weakref.WeakSet()  # those with records
_UNKNOWN: Any = object()


def _disarm_all() -> None:
    """A hook may have come: launches must see whether there is one, and what it is to be told."""
    with _arming:
        for roads in list(_armed):
            del roads.overs[1:], roads.runs[1:]
        _armed.clear()


knobs.listeners.append(_disarm_all)


class Roads:
    """The ways to launch a compiled kernel that is loaded: `run` and `over(grid)`.

    `make(form)` gives the record of a form; `symbols` has the native builtins, None where there are none.
    `slow(grid, *args)` is called for launches over a grid that no record covers.
    """

    def __init__(self, kernel: Any, demands: Demands, form: Callable[[tuple], dict[str, Any] | None],
                 make: Callable[[dict[str, Any]], Any], symbols: Mapping[str, int] | None, slow: Callable):
        self._kernel, self._demands, self._form, self._make = kernel, demands, form, make
        self._known: dict[Any, Any] = {}
        self._symbols = symbols
        self.runs: list[Any] = [self.launch]
        self.overs: list[Any] = [slow]
        self.over: Callable = (lambda grid: functools.partial(slow, grid)) if symbols is None else (
            builtin(symbols["tt.def.bind"], self.overs))

    @once_property
    def run(self) -> Callable:
        """The native launch, which frameworks alone use; that in Python where there is none."""
        return self.launch if self._symbols is None else builtin(self._symbols["tt.def.run"], self.runs)

    def launch(self, gx: int, gy: int, gz: int, stream: int, function: int, packed_metadata: Any, told: Any, enter: Any,
               leave: Any, *args: Any) -> None:
        """Check the arguments and launch; later launches like this one need no Python."""
        self._kernel.check_count(args)
        check_sizes((gx, gy, gz))
        held = self._demands.check(args)
        # A framework may have made up its mind to tell hooks nothing while there were none.
        untold = told is None and any(isinstance(hook, knobs.HookChain) and hook for hook in (enter, leave))
        if untold:
            told = self._kernel.launch_metadata((gx, gy, gz), stream, *args)
        self._kernel.launcher(gx, gy, gz, stream, function, packed_metadata, told, enter, leave, *held)
        if self._symbols is not None and function == self._kernel.function and not untold and not knobs.sanitize:
            self._arm(args)

    def _arm(self, args: tuple) -> None:
        try:
            like = tuple([(x.__class__, getattr(x, "dtype", None)) for x in args])
            made = self._known.get(like, _UNKNOWN)
        except Exception:  # a property of a foreign class, a dtype without a hash: such calls stay on the slow path
            return
        if made is _UNKNOWN:
            form = self._form(args)
            made = None if form is None else self._make(form)
        with _arming:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[like] = made
            if made is None:
                return
            _armed.add(self)
            _put(self.runs, made)
            if not (knobs.runtime.launch_enter_hook or knobs.runtime.launch_exit_hook):  # they see every launch
                _put(self.overs, made)


def _put(records: list[Any], made: Any) -> None:
    records[1:] = [made, *(other for other in records[1:] if other is not made)][:_RECENT]
