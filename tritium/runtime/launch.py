"""The way of a launch: `kernel[grid](x, y, n, BLOCK=64)`.

For each kernel a function with the kernel's own signature is generated, so that Python itself binds the arguments. It
asks a *guarded launch* of the driver whether these arguments fit the specialisation used last; if so they are already
on their way. Only when the guard refuses does Python specialise the arguments, look the kernel up and compile it.

A setting that changes, or a hook that is added, disarms every kernel: nothing is looked at on the hot path.
"""

from __future__ import annotations

import inspect
import operator
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from tritium import knobs
from tritium.errors import CompilationError, cut

# At most this many specialisations of a kernel, and grids, are kept at hand.
_RECENT, _GRIDS = 8, 1024


class Armed(NamedTuple):
    """A specialisation ready to be launched: `launch(record, gx, gy, gz, *args)` is None when the arguments fit it."""

    options: dict[str, Any] | None
    launch: Callable
    record: Any
    kernel: Any


UNARMED = Armed(None, lambda *args: NotImplemented, None, None)  # no call has options equal to None

_SOURCE = """
def _tt_make(_tt_armed, _tt_dims, _tt_slow, {defaults}):
    def _tt_arm(armed):
        nonlocal _tt_armed
        _tt_armed = armed

    def _tt_bind({parameters}**_tt_options):
        return ({names}), _tt_options

    def _tt_over(_tt_grid, _tt_gx, _tt_gy, _tt_gz):
        def {name}({parameters}**_tt_options):
            _tt_expected, _tt_launch, _tt_record, _tt_kernel = _tt_armed
            if _tt_options == _tt_expected and _tt_launch(_tt_record, _tt_gx, _tt_gy, _tt_gz, {names}) is None:
                return _tt_kernel
            return _tt_slow(_tt_grid, ({names}), _tt_options)
        return {name}

    def _tt_over_function(_tt_grid):
        def {name}({parameters}**_tt_options):
            _tt_sizes = _tt_grid({{{items}}})
            _tt_expected, _tt_launch, _tt_record, _tt_kernel = _tt_armed
            if _tt_options == _tt_expected:
                _tt_gx, _tt_gy, _tt_gz = _tt_dims(_tt_sizes)
                if _tt_launch(_tt_record, _tt_gx, _tt_gy, _tt_gz, {names}) is None:
                    return _tt_kernel
            return _tt_slow(_tt_sizes, ({names}), _tt_options)
        return {name}

    return _tt_arm, _tt_bind, _tt_over, _tt_over_function
"""


def _parameters(signature: inspect.Signature) -> tuple[str, dict[str, Any]]:
    """The parameter list of a function, with defaults by name, and those defaults."""
    parts, defaults, star = [], {}, False
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"a kernel cannot take {parameter}: give each parameter a name")
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if parameter.default is parameter.empty:
            parts.append(parameter.name)
        else:
            defaults[f"_tt_default_{parameter.name}"] = parameter.default
            parts.append(f"{parameter.name}=_tt_default_{parameter.name}")
    return "".join(f"{part}, " for part in parts), defaults


def grid_sizes(grid: Any) -> tuple[int, int, int]:
    """The three sizes of a grid given as one to three ints, or as one int.

    >>> grid_sizes(97), grid_sizes((4, 2)), grid_sizes([1, 2, 3])
    ((97, 1, 1), (4, 2, 1), (1, 2, 3))
    """
    if grid.__class__ is tuple and 0 < len(grid) <= 3:
        first = grid[0]
        if len(grid) == 1 and first.__class__ is int and first >= 0:
            return first, 1, 1
        for size in grid:
            if size.__class__ is not int or size < 0:
                break
        else:
            return (*grid, 1, 1)[:3]
    return _unusual_grid(grid)


def _unusual_grid(grid: Any) -> tuple[int, int, int]:
    """Sizes of a grid that is not simply a tuple of ints, or what is wrong with it."""
    try:
        sizes = tuple(map(operator.index, grid)) if isinstance(grid, tuple | list) else (operator.index(grid),)
    except TypeError:
        raise TypeError(f"a grid is one to three ints, or a function that returns them, not {grid!r}") from None
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three axes, not {len(sizes)}: {grid!r}")
    if min(sizes) < 0:
        raise ValueError(f"a grid cannot have negative sizes: {grid!r}")
    return (*sizes, 1, 1)[:3]


_launchers: weakref.WeakSet[Launcher] = weakref.WeakSet()


def disarm_all() -> None:
    """Have every kernel look at its arguments and the settings again.

    >>> disarm_all()
    """
    for launcher in list(_launchers):
        launcher.disarm()


knobs.listeners.append(disarm_all)


class Launcher:
    """The generated functions of one kernel, and the specialisations at hand.

    `slow(sizes, values, options)` is called with the bound arguments when no specialisation at hand fits.
    """

    def __init__(self, name: str, signature: inspect.Signature, slow: Callable):
        parameters, defaults = _parameters(signature)
        names = list(signature.parameters)
        source = _SOURCE.format(
            name=name, parameters=parameters, defaults=", ".join(defaults), names="".join(f"{n}, " for n in names),
            items=", ".join(f"{n!r}: {n}" for n in names))
        scope: dict[str, Any] = {}
        exec(compile(source, f"<launcher of {name}>", "exec"), scope)
        made = scope["_tt_make"](UNARMED, grid_sizes, self._refused, *defaults.values())
        self._arm, self.bind, self._over, self.over_function = made
        self._slow = slow
        self._recent: list[Armed] = []
        self._known: dict[Any, Armed | None] = {}
        self.grids: dict[tuple, Callable] = {}
        _launchers.add(self)

    def over(self, grid: Any) -> Callable:
        """A function that launches the kernel over `grid`."""
        if callable(grid):
            return self.over_function(grid)
        sizes = grid_sizes(grid)
        call = self._over(sizes, *sizes)
        if type(grid) is tuple:
            if len(self.grids) >= _GRIDS:
                self.grids.clear()
            self.grids[grid] = call
        return call

    def _refused(self, grid: Any, values: tuple, options: dict[str, Any]):
        """The last specialisation does not fit: perhaps another one at hand does."""
        try:
            return self.launch(grid_sizes(grid), values, options, skip=1)
        except CompilationError as error:
            raise cut(error) from error.__cause__  # the user's traceback ends at the launch

    def launch(self, sizes: tuple[int, int, int], values: tuple, options: dict[str, Any], skip: int = 0):
        """Launch with bound arguments, through a specialisation at hand or the slow way."""
        for armed in self._recent[skip:]:
            if options == armed.options and armed.launch(armed.record, *sizes, *values) is None:
                self.arm(armed)
                return armed.kernel
        return self._slow(sizes, values, options)

    def arm(self, armed: Armed) -> None:
        """Try this specialisation first from now on."""
        self._recent = [armed, *(other for other in self._recent if other is not armed)][:_RECENT]
        self._arm(armed)

    def arm_for(self, like: Any, make: Callable[[], Armed | None]) -> None:
        """Arm for launches `like` this one; what `make` gives is kept, also when it is None."""
        if like not in self._known:
            self._known[like] = make()
        if (armed := self._known[like]) is not None:
            self.arm(armed)

    def disarm(self) -> None:
        """Forget the specialisations at hand."""
        self._recent = []
        self._known.clear()
        self._arm(UNARMED)


def unchanged(launch: Callable, values: dict) -> Callable | None:
    """`launch` behind a check that captured variables are still the objects they are now.

    Where one can change without becoming another object there is no such check, and the result is None.

    >>> unchanged(print, {}) is print
    True
    """
    if not values:
        return launch
    held = tuple((scope, name, scope[name]) for (name, _), (_, scope) in values.items())
    if any(isinstance(value, list | dict | set) for _, _, value in held):
        return None

    def checked(record, *args):
        for scope, name, value in held:
            if scope.get(name) is not value:
                return NotImplemented
        return launch(record, *args)

    return checked
