"""Watching launches, compilations and tuners: one pair of launch hooks for all who want to know.

    watch.add(listener)       from now on its `launched(sample)`, `compiled(fact)` and `tuned(fact)` are called
    watch.remove(listener)

The hooks are there only while somebody listens, so that launches cost what they cost when nobody does. They step aside
while a tuner measures: what they cost would be measured, too.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from threading import get_ident
from typing import Any

from tritium import knobs
from tritium.insight.profile.clocks import EventClock, HostClock, Sample
from tritium.insight.profile.facts import Compilation, Tuning
from tritium.locks import lock
from tritium.runtime import tuning
from tritium.tensors import is_descriptor, reader_of

__all__ = ["Watch", "tensors_of", "watch"]

CLOCKS = ("auto", "events", "cupti")


class Watch:
    """The hooks, and who listens."""

    def __init__(self):
        self._guard = lock()
        self._listeners: tuple[Any, ...] = ()
        self._open: dict[int, Sample] = {}  # thread -> the launch it is in
        self._before: tuple[Any, Any] = (None, None)  # listeners of compilations and tuners that were there
        self._paused = 0
        self.clocks: dict[str, Any] = {}
        self.wanted = "auto"

    def add(self, listener: Any) -> None:
        """Have a listener told of all that happens from now on."""
        with self._guard:
            if not self._listeners:
                self._start()
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: Any) -> None:
        """Tell it no more. Times that are still to come are there afterwards."""
        with self._guard:
            if listener not in self._listeners:
                return
            self.settle()
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            if not self._listeners:
                self._stop()

    def settle(self) -> None:
        """Wait for the times of all launches so far."""
        for clock in list(self.clocks.values()):
            clock.settle()

    # -- coming and going ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._before = knobs.compilation.listener, knobs.autotuning.listener
        knobs.compilation.listener, knobs.autotuning.listener = self._compiled, self._tuned
        tuning.observers.append(self.aside)
        self._hook()

    def _stop(self) -> None:
        self._unhook()
        tuning.observers.remove(self.aside)
        for clock in self.clocks.values():
            clock.close()
        self.clocks = {}
        ours = self._compiled, self._tuned
        for group, was, mine in zip((knobs.compilation, knobs.autotuning), self._before, ours):
            if group.listener == mine:
                group.listener = was
        self._before = (None, None)

    def _hook(self) -> None:
        knobs.runtime.launch_enter_hook.add(self._enter)
        knobs.runtime.launch_exit_hook.add(self._leave)

    def _unhook(self) -> None:
        knobs.runtime.launch_enter_hook.remove(self._enter)
        knobs.runtime.launch_exit_hook.remove(self._leave)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """No launch is watched inside the `with`, in any thread."""
        with self._guard:
            self._paused += 1
            self._unhook()
        try:
            yield
        finally:
            with self._guard:
                self._paused -= 1
                if self._listeners and not self._paused:
                    self._hook()

    # -- what is told --------------------------------------------------------------------------------------------------

    def _enter(self, told: Any) -> None:
        begun = time.perf_counter_ns()
        sample = Sample()
        sample.thread = thread = get_ident()
        if told is not None:  # a caller of `run` may have none
            found = told.get()
            sample.metrics, sample.name = found, str(found.get("name", ""))
            sample.stream = _handle(found.get("stream"))
            launch = getattr(told, "launch", None)
            if launch is not None:
                sample.kernel, sample.grid, args = launch
                sample.grid = (*sample.grid, 1, 1)[:3]
                sample.tensors = tensors_of(sample.kernel, args)
                sample.device = sample.kernel.metadata.target.backend
        self._open[thread] = sample
        clock = self.clocks.get(sample.device) or self._clock(sample.device)
        sample.spent = time.perf_counter_ns() - begun
        clock.begin(sample)

    def _leave(self, told: Any) -> None:
        sample = self._open.pop(get_ident(), None)
        if sample is None:
            return  # the hooks came while this launch was under way
        self.clocks[sample.device].end(sample)
        begun = time.perf_counter_ns()
        for listener in self._listeners:
            listener.launched(sample)
        sample.spent += time.perf_counter_ns() - begun

    def _clock(self, device: str) -> Any:
        with self._guard:
            if device not in self.clocks:
                self.clocks[device] = HostClock() if device == "cpu" else EventClock(self._cupti())
            return self.clocks[device]

    def _cupti(self) -> Any:
        if self.wanted == "events":
            return None
        from tritium.insight.profile import cupti

        return cupti.opened()

    def _compiled(self, **told: Any) -> None:
        if self._before[0] is not None:
            self._before[0](**told)
        metadata, times = told["metadata"], told["times"]
        spent, thread = times.total * 1000, get_ident()
        if (sample := self._open.get(thread)) is not None:
            sample.excluded += spent  # a launch that needs another variant of its kernel
        stages = (("frontend", times.ir_initialization * 1000),
                  *((ext, microseconds * 1000) for ext, microseconds in times.lowering_stages),
                  ("store", times.store_results * 1000))  # fmt: skip
        fact = Compilation(metadata["name"], metadata["target"].backend, metadata["hash"],
                           time.perf_counter_ns() - spent, spent, bool(told["cache_hit"]), stages, thread)
        for listener in self._listeners:
            listener.compiled(fact)

    def _tuned(self, **told: Any) -> None:
        if self._before[1] is not None:
            self._before[1](**told)
        spent, best = round((told["duration"] or 0) * 1e9), told["best_config"]
        name = str(getattr(told["fn"], "__name__", told["fn"]))
        options = {option: getattr(best, option, None) for option in ("num_warps", "num_stages", "num_ctas")}
        chosen = tuple((key, str(value)) for key, value in {**best.kwargs, **options}.items())
        fact = Tuning(name, str(told["key"]), str(best), chosen, len(told["configs_timings"]),
                      time.perf_counter_ns() - spent, spent, bool(told["cache_hit"]), get_ident())
        for listener in self._listeners:
            listener.tuned(fact)


def _handle(stream: Any) -> int:
    if stream is None or stream.__class__ is int:
        return stream or 0
    from tritium.backends.gpu_runtime.launch import handle_of

    return handle_of(stream)


def tensors_of(kernel: Any, args: tuple) -> tuple:
    """(number of the parameter, dtype, shape, bytes, identity) of each tensor among the arguments of a launch.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> x = np.ones(8, np.float32)
    >>> compiled = add_kernel.warmup(x, x, x, 8, BLOCK=8, grid=(1,))
    >>> [row[:4] for row in tensors_of(compiled, (x, x, x, 8, 8))][0]
    (0, 'fp32', (8,), 32)
    """
    found = []
    for number, (type_, x) in enumerate(zip(kernel.src.signature.values(), args)):
        if type_.__class__ is not str:
            found += [(number, *looks) for part in x if (looks := _looks(part)) is not None]
        elif type_[0] == "*" or type_.startswith("tensordesc"):
            looks = _looks(x.base if is_descriptor(x) else x)
            if looks is not None:
                found.append((number, *looks))
    return tuple(found)


def _looks(x: Any) -> tuple[str, tuple[int, ...], int, int] | None:
    reader = reader_of(x)
    shape = getattr(x, "shape", None)
    if reader is None or shape is None:
        return None
    element = reader.element(x)
    shape = tuple(shape)
    strides: Any = getattr(x, "stride", None) or getattr(x, "strides", None)
    strides = strides() if callable(strides) else strides
    count = 1
    for size, stride in zip(shape, strides if strides is not None and len(strides) == len(shape) else shape):
        count *= size if stride != 0 or size == 0 else 1  # what is broadcast is there once
    return element, shape, count * _size(element), id(x)


@functools.cache
def _size(element: str) -> int:
    """Bytes of an element type.

    >>> _size("fp32"), _size("fp8e4nv"), _size("i1"), _size("bf16")
    (4, 1, 1, 2)
    """
    digits = "".join(c if c.isdigit() else " " for c in element).split()
    return max(int(digits[0]) // 8, 1)


watch = Watch()
