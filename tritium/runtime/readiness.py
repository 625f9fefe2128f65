"""Compile the configurations of a tuner, and give them out as they become ready to be timed.

Worker processes compile (`tritium.compiler.pool`); this one compiles too while it has nothing to time, and everything
where there are no workers. On the CPU, timing waits until all are compiled: both need the same processors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tritium import knobs
from tritium.runtime.tuning import Config, innermost

__all__ = ["as_ready"]

_MANY_WORKERS = 3  # where starting them takes no processor that is needed elsewhere
_FEW = 3  # kernels: for these or fewer, workers are not started
_WORTH = 0.6  # seconds of compiling left for which workers are started on a machine with few processors


def as_ready(fn: Any, configs: list[Config], args: tuple, kwargs: dict[str, Any], prepare: Callable[[Config], None],
             share: bool = False) -> Iterator[tuple[Config, Config | None]]:
    """All configurations, each when its kernel is compiled; `prepare` does what has to be done before that.

    A configuration that cannot be compiled comes, too, and says so when it is launched. Interpreted kernels compile
    nothing, and what others compile in a mode of their own is theirs.

    With `share`, a configuration comes with an earlier one whose launch is the same, if there is one, and is not
    compiled: on CPUs the number of warps changes nothing.
    """
    from tritium.compiler.background import active_mode

    twins: dict[Config, Config] = {}
    promises: dict[Config, Any] = {}
    compiles = innermost(fn, lambda f: hasattr(f, "device_caches")) is not None
    if compiles and len(configs) > 1 and active_mode.get() is None:
        kernels = _kernels(fn, configs, args, kwargs, prepare)
        twins = _twins(fn, kernels, args, kwargs) if share else {}
        promises = _promises(kernels, twins)
    if not promises:
        yield from ((config, twins.get(config)) for config in configs)
        return
    crew = _Crew(promises)
    overlapping = not next(iter(promises.values())).target.startswith("cpu")
    done = [config for config in configs if config not in promises]
    if overlapping:
        yield from ((config, twins.get(config)) for config in done)
        yield from ((config, None) for config in crew.finished())
    else:
        for _ in crew.finished():
            pass
        yield from ((config, twins.get(config)) for config in configs)


def _kernels(fn: Any, configs: list[Config], args: tuple, kwargs: dict[str, Any],
             prepare: Callable[[Config], None]) -> dict[Config, Any]:
    """The kernels of configurations: compiled before, or promised, and then the frontend has run."""
    from tritium.compiler.elsewhere import Elsewhere

    options = {name: value for name, value in kwargs.items() if name != "warmup"}
    found = {}
    with Elsewhere():
        for config in configs:
            try:
                prepare(config)
                found[config] = fn.warmup(*args, **options, **config.all_kwargs())
            except Exception:  # the launch of this configuration meets the same error and reports it
                continue
    return found


def _promises(kernels: dict[Config, Any], twins: dict[Config, Config]) -> dict[Config, Any]:
    """The kernels that are to be compiled."""
    from tritium.compiler.elsewhere import Promise

    found = {config: kernel for config, kernel in kernels.items() if isinstance(kernel, Promise)}
    for config in twins.keys() & found.keys():
        found.pop(config).withdraw()
    return found


def _twins(fn: Any, kernels: dict[Config, Any], args: tuple, kwargs: dict[str, Any]) -> dict[Config, Config]:
    """Configuration -> an earlier one that launches the same code over the same grid."""
    alike: dict[tuple, list[Config]] = {}
    for config in kernels:
        alike.setdefault((str(config.kwargs), config.num_ctas, config.ir_override, config.pre_hook), []).append(config)
    twins: dict[Config, Config] = {}
    first: dict[tuple, Config] = {}
    for parameters, group in alike.items():
        for config in group if len(group) > 1 else ():
            launch = _launch(fn, config, kernels[config], args, kwargs)
            if launch is not None and first.setdefault((parameters, launch), config) is not config:
                twins[config] = first[parameters, launch]
    return twins


def _launch(fn: Any, config: Config, kernel: Any, args: tuple, kwargs: dict[str, Any]) -> tuple | None:
    """(code, grid) of a configuration's launch; None if they are not known beforehand."""
    from tritium.compiler.elsewhere import code_of

    grid = kwargs.get("grid")
    try:
        if callable(grid):
            grid = grid({**dict(zip(fn.arg_names, args)), **kwargs, **config.all_kwargs()})
        code = code_of(kernel)
    except Exception:  # a grid of what heuristics compute; a kernel whose launch meets the error and reports it
        return None
    return None if code is None else (code, str(grid))


class _Crew:
    """What compiles: the worker processes, if there are any, and this process."""

    def __init__(self, promises: dict[Config, Any]):
        self.promises, self.left = promises, list(promises)
        self.target = next(iter(promises.values())).target
        self.pool: Any = None
        self._ask(knobs.compile_workers >= _MANY_WORKERS and len(self.left) > _FEW)

    def _ask(self, start: bool) -> None:
        """Offer what is left to the workers, if there are some or they are to be started."""
        from tritium.compiler import pool

        self.pool = pool.current(self.target, start)
        if self.pool is not None:
            for config in self.left:
                self.promises[config].offer(self.pool)

    def finished(self) -> Iterator[Config]:
        """The configurations in the order in which their kernels are finished."""
        while self.left:
            ready = next((config for config in self.left if self.promises[config].ready), None)
            if ready is None:
                ready = self._compile_one()
            if ready is not None:
                self.left.remove(ready)
                self.promises[ready].result(ignore_errors=True)
                yield ready

    def _compile_one(self) -> Config | None:
        """Compile the last kernel that no worker has begun; if there is none, wait for a worker."""
        for config in reversed(self.left):
            task = self.promises[config].task
            if task is None or task.take():
                break
        else:
            self.pool.wait_for_any([self.promises[config].task for config in self.left])
            return None
        start = time.perf_counter()
        self.promises[config].result(ignore_errors=True)
        spent = time.perf_counter() - start
        others = len(self.left) - 1
        if self.pool is None and others > _FEW and others * spent > _WORTH:
            self._ask(start=True)
        return config
