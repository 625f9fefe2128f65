"""Kernels by name in torch's profiler, on the CPU: on GPUs it sees them itself.

While torch's profiler is on, launch hooks mark each launch as `torch.profiler.record_function` does. torch tells nobody
that it turns its profiler on, so its two functions that note it are wrapped: once, when a kernel is first given a
tensor of torch. Otherwise nothing is looked at, and no launch costs more.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

from tritium import knobs
from tritium.locks import lock, once
from tritium.runtime import tuning

__all__ = ["Names", "follow_torch"]


class Names:
    """The hooks, while they are wanted."""

    def __init__(self):
        self._guard, self._on = lock(), False
        self._open: dict[int, Any] = {}  # thread -> the mark of the launch it is in

    def turn(self, on: bool) -> None:
        """Set the hooks, or take them away."""
        with self._guard:
            if on == self._on:
                return
            self._on = on
            (self._hook if on else self._unhook)()
            (tuning.observers.append if on else tuning.observers.remove)(self.aside)

    def _hook(self) -> None:
        knobs.runtime.launch_enter_hook.add(self._enter)
        knobs.runtime.launch_exit_hook.add(self._leave)

    def _unhook(self) -> None:
        knobs.runtime.launch_enter_hook.remove(self._enter)
        knobs.runtime.launch_exit_hook.remove(self._leave)
        self._open.clear()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Mark nothing inside the `with`."""
        with self._guard:
            self._unhook()
        try:
            yield
        finally:
            with self._guard:
                if self._on:
                    self._hook()

    def _enter(self, told: Any) -> None:
        launch = getattr(told, "launch", None)
        if launch is None or launch[0].metadata.target.backend != "cpu":
            return
        import torch

        mark = torch.profiler.record_function(str(told.get()["name"]))
        mark.__enter__()
        self._open[get_ident()] = mark

    def _leave(self, told: Any) -> None:
        mark = self._open.pop(get_ident(), None)
        if mark is not None:
            mark.__exit__(None, None, None)


names = Names()


@once
def follow_torch() -> bool:
    """From now on kernels have names in torch's profiler. False where this torch does not say when that is on."""
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    found = [getattr(profiler, name, None) for name in ("_run_on_profiler_start", "_run_on_profiler_stop")]
    if not all(map(callable, found)):
        return False
    profiler._run_on_profiler_start = _then(found[0], True)
    profiler._run_on_profiler_stop = _then(found[1], False)
    names.turn(bool(getattr(profiler, "_is_profiler_enabled", False)))
    return True


def _then(told: Any, on: bool) -> Callable[[], None]:
    @functools.wraps(told)
    def tell() -> None:
        told()
        names.turn(on)

    return tell
