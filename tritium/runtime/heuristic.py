"""Meta-parameters that are computed from the arguments of a launch.

    @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @triton.jit
    def kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr): ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tritium import knobs
from tritium.errors import cut
from tritium.language.builtins.grid import asked
from tritium.locks import once_property
from tritium.refusals import refusal, told_at_the_call
from tritium.runtime.forwarding import Armed, Wrapper, record_of_heuristics
from tritium.runtime.jit import JITFunction, KernelInterface, P, T
from tritium.runtime.tuning import check_kernel, name_of

if TYPE_CHECKING:
    from tritium.runtime.jit import Launch

__all__ = ["Heuristics", "heuristics"]

_FAILED: Any = object()


class Heuristics(Wrapper[T]):
    """A kernel some of whose meta-parameters are functions of its arguments.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> sized = heuristics({"BLOCK": lambda args: 1 << (args["n"] - 1).bit_length()})(add_kernel)
    >>> x, out = np.ones(100, np.float32), np.empty(100, np.float32)
    >>> _ = sized[(1,)](x, x, out, 100)
    >>> float(out.sum())
    200.0
    """

    def __init__(self, fn, arg_names: list[str], values: dict[str, Callable[[dict], Any]]):
        self.fn, self.arg_names, self.values = fn, arg_names, values
        self._places = {name: k for k, name in enumerate(arg_names)}

    _plain = True

    @once_property
    def _forms(self) -> dict[tuple, Armed]:  # ways to write a launch
        return {}

    def __getitem__(self: Heuristics[Callable[P, Any]], grid: Any) -> Launch[P]:
        launch: Any = self._native
        if launch is not None:
            return launch(grid)
        plain = self.__class__ is Heuristics and "run" not in self.__dict__
        launch = partial(self._launch, grid) if plain else partial(self.run, grid=grid, warmup=False)
        return launch

    def _launch(self, grid: Any, /, *args, **kwargs):
        """As `run`, without handing the grid on as a keyword."""
        try:
            fn = self.fn
            straight = "run" not in fn.__dict__ if fn.__class__ is JITFunction else (
                isinstance(fn, Wrapper) and fn._is_plain())
            if not straight or "run" in self.__dict__:
                return self.run(*args, grid=grid, warmup=False, **kwargs)
            given = {"grid": grid, "warmup": False, **dict(zip(self.arg_names, args)), **kwargs}
            form = (len(args), *kwargs)
            all_args, all_kwargs = self._computed(args, kwargs, given)
            done = fn[grid](*all_args, **all_kwargs)
            armed = self._forms.get(form) or self._forms.setdefault(form, Armed())
            self._arm(armed, lambda: record_of_heuristics(self, args, form[1:]))
            return done
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def _computed(self, args: tuple, kwargs: dict[str, Any], given: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments with the computed values in place; `given` are all of them by name."""
        count, several = len(args), len(self.values) > 1
        for name, compute in self.values.items():
            try:
                value = compute(dict(given) if several else given)
            except Exception:
                value = _FAILED
            if value is _FAILED:  # asked again, so that a name the launch does not have is said, without our frames
                value = asked(compute, name_of(self), given, f"the heuristic for {name}")
            given[name] = value
            place = self._places.get(name, count)
            if place < count:
                args = (*args[:place], value, *args[place + 1 :])
            else:
                kwargs[name] = value
        return args, kwargs

    def run(self, *args, **kwargs):
        """Launch with the computed values in place."""
        args, kwargs = self._computed(args, kwargs, {**dict(zip(self.arg_names, args)), **kwargs})
        return self.fn.run(*args, **kwargs)

    def warmup(self, *args, **kwargs):
        """Compile with the computed values in place."""
        args, kwargs = self._computed(args, kwargs, {**dict(zip(self.arg_names, args)), **kwargs})
        return self.fn.warmup(*args, **kwargs)


@told_at_the_call
def heuristics(values: dict[str, Callable[[dict], Any]]) -> Callable[[KernelInterface[T]], Heuristics[T]]:
    """Decorator: compute meta-parameters from the arguments at each launch, in the order given.

    >>> import tritium as triton
    >>> @triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
    ... @triton.jit
    ... def kernel(x, n, BLOCK: triton.language.constexpr):
    ...     pass
    >>> list(kernel.values)
    ['BLOCK']
    """
    if not isinstance(values, dict):
        raise refusal(TypeError, f"heuristics maps names of parameters to functions, not {values!r}",
                      "write @triton.heuristics({'BLOCK': lambda args: ...})")

    @told_at_the_call
    def decorate(fn: KernelInterface[T]) -> Heuristics[T]:
        check_kernel(fn, "heuristics")
        for name, compute in values.items():
            if not callable(compute):
                problem = f"the heuristic for {name} of kernel `{name_of(fn)}` is no function: {compute!r}"
                raise refusal(TypeError, problem, f"write {{{name!r}: lambda args: {compute!r}}}")
        return Heuristics(fn, fn.arg_names, values)

    return decorate
