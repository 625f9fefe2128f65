"""Which configuration of a kernel is the fastest: what is worth trying, how it is timed, what is left out and kept."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any

from tritium import knobs
from tritium.errors import AutotunerError, CompileTimeAssertionFailure, OutOfResources, PTXASError
from tritium.refusals import refusal
from tritium.runtime import distributed_tuning, kept, trials, tuning
from tritium.runtime.forwarding import Wrapper
from tritium.runtime.jit import JITFunction, T
from tritium.runtime.tuning import Config
from tritium.tensors import is_descriptor

__all__ = ["Measuring"]

# A configuration that fails in one of these ways is merely not the best one.
UNFIT = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
NEVER = [float("inf")] * 3


class Measuring(Wrapper[T]):
    """A kernel with several configurations, and what measures them; launching it is left to `Autotuner`.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> configs = [Config({"BLOCK": block}) for block in (16, 32, 64)]
    >>> best_two = {"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 2}
    >>> tuner = Measuring(add_kernel, add_kernel.arg_names, configs, ["n"], None, None, prune_configs_by=best_two)
    >>> tuner.nargs = {"n": 100}
    >>> [config.kwargs["BLOCK"] for config in tuner.prune_configs({})]
    [64, 32]
    """

    def __init__(self, fn, arg_names: list[str], configs: list[Config] | None, key: list[str],
                 reset_to_zero: list[str] | None, restore_value: list[str] | None,
                 pre_hook: Callable | None = None, post_hook: Callable | None = None,
                 prune_configs_by: dict | None = None, warmup: float | None = None, rep: float | None = None,
                 use_cuda_graph: bool = False, do_bench: Callable | None = None, cache_results: bool = False):
        self.fn, self.arg_names, self._known = fn, arg_names, frozenset(arg_names)
        if isinstance(configs, Config):
            raise refusal(TypeError, f"autotune takes a list of triton.Config, not one: {configs!r}",
                          "write [...] around it")
        self.configs = list(configs or [Config({})])
        if wrong := [config for config in self.configs if not isinstance(config, Config)]:
            raise refusal(TypeError, f"autotune takes a list of triton.Config, and {wrong[0]!r} is none",
                          "write triton.Config({'BLOCK': 64}, num_warps=4)")
        self.keys = list(key)
        self.cache: dict[tuple, Config] = {}
        self._launching: dict[int, dict[str, Any] | tuple] = {}  # the arguments of threads that launch, by name or not
        self.shipped: dict[tuple[str, ...], Config] = {}  # read by `load`, under keys as text
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, list[float]] = {}
        self.bench_time = 0.0
        self._race: trials.Race | None = None  # while our own clock measures
        self._records: dict[tuple[str, ...], dict[Config, list[float]]] = {}
        self._set_hooks(reset_to_zero, restore_value, pre_hook, post_hook)
        self._set_pruning(prune_configs_by or {})
        self._set_benchmark(do_bench, warmup, rep, use_cuda_graph)
        self.cache_results = bool(cache_results or knobs.autotuning.cache)
        self.base_fn = tuning.innermost(fn, inspect.isfunction)
        self.__name__ = getattr(self.base_fn, "__name__", type(fn).__name__)

    def _set_hooks(self, reset_to_zero, restore_value, pre_hook, post_hook) -> None:
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.restore_copies: dict[str, Any] = {}

        def reset_and_save(args: dict[str, Any], reset_only: bool = False) -> None:
            tuning.check_arguments(self.__name__, [*self.reset_to_zero, *self.restore_value], args, self.arg_names)
            for name in self.reset_to_zero:
                if args[name] is not None:  # an optional argument that was left out
                    tuning.zero(args[name])
            if not reset_only:
                given = [name for name in self.restore_value if args[name] is not None]
                self.restore_copies = {name: tuning.copy_of(args[name]) for name in given}

        def restore(args: dict[str, Any], exception: BaseException | None) -> None:
            for name, saved in self.restore_copies.items():
                tuning.put_back(args[name], saved)
            self.restore_copies = {}

        self.pre_hook, self.post_hook = pre_hook or reset_and_save, post_hook or restore

    def _set_pruning(self, rules: dict) -> None:
        if not isinstance(rules, dict):
            raise refusal(TypeError, "prune_configs_by maps names to functions, such as {'perf_model': f}, not "
                          f"{rules!r}")
        self.perf_model: Any = rules.get("perf_model")
        self.configs_top_k: int | float = rules.get("top_k", 1.0)
        self.early_config_prune: Callable | None = rules.get("early_config_prune")

    def _set_benchmark(self, do_bench, warmup, rep, use_cuda_graph) -> None:
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        if warmup is not None or rep is not None or use_cuda_graph:
            warnings.warn("autotune's warmup, rep and use_cuda_graph are deprecated: pass do_bench, a function of "
                          "(fn, quantiles)", DeprecationWarning, stacklevel=4)
        self._do_bench = do_bench  # the user's

    @property
    def do_bench(self) -> Callable[..., Sequence[float]]:
        """What measures one configuration: called with a function and `quantiles`."""
        return self._do_bench or tuning.benchmarker(self.num_warmups, self.num_reps, self.use_cuda_graph)

    @do_bench.setter
    def do_bench(self, value: Callable) -> None:
        self._do_bench = value

    @property
    def nargs(self) -> Any:
        """The positional arguments of the launch this thread is in, by name; None outside one."""
        found = self._launching.get(get_ident())
        return dict(zip(self.arg_names, found)) if isinstance(found, tuple) else found

    @nargs.setter
    def nargs(self, value: dict[str, Any] | None) -> None:
        if value is None:
            self._launching.pop(get_ident(), None)
        else:
            self._launching[get_ident()] = value

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations worth trying: `early_config_prune`, then the `top_k` best of `perf_model`."""
        configs = self.configs
        if self.early_config_prune is not None:
            configs = tuning.pruned(self.early_config_prune, configs, self.nargs, kwargs)
            if not configs:
                raise AutotunerError(
                    f"no configuration of {self.__name__} is left after early_config_prune: it must return at least "
                    f"one of the {len(self.configs)}")
        if self.perf_model is None:
            return configs
        keep = tuning.how_many(self.configs_top_k, len(configs))
        if len(configs) <= keep:
            return configs
        return sorted(configs, key=lambda config: self.perf_model(**self.nargs, **kwargs, **config.all_kwargs()))[:keep]

    # -----------------------------------------------------------------------------------------------------------------
    # Measuring

    def _tune(self, key: tuple, args: tuple, kwargs: dict[str, Any]) -> Config:
        """Measure, or read from disk, the timings for a new key; the fastest configuration."""
        start = time.perf_counter()
        configs = self.prune_configs(kwargs)
        if len(configs) == 1:  # nothing to choose
            tuning.check_conflict(configs[0], kwargs)
            return configs[0]
        store = self._store(key, configs, kwargs)
        timings = store.read() or store.shipped() if store else None
        known = timings is not None

        def measure(configs: list[Config]) -> dict[Config, list[float]]:
            tuning.check_not_captured(self.__name__)
            with tuning.unobserved():
                return self._measure(configs, args, kwargs, store)

        if (others := distributed_tuning.current) is not None:
            name = distributed_tuning.name_of(self.__name__, store, key, configs)
            timings = others.timings(name, configs, timings, measure)
        elif timings is None:
            timings = measure(configs)
        if store and not known and min(timings.values()) < NEVER:
            store.write(key, timings)
        self.bench_time = time.perf_counter() - start
        self.configs_timings = timings
        self._records[kept.key_text(key)] = timings
        best = _fastest(timings)
        if knobs.autotuning.print:
            print(f"Triton autotuning for function {self.__name__}: {len(timings)} configs, key {key}, "
                  f"{self.bench_time:.2f} s, best config selected: {best}")
        if knobs.autotuning.listener is not None:
            knobs.autotuning.listener(fn=self.fn, key=key, best_config=best, configs_timings=timings,
                                      duration=None if known else self.bench_time, cache_hit=known)
        return best

    def _store(self, key: tuple, configs: list[Config], kwargs: dict[str, Any]) -> kept.Store | None:
        """Where the results are kept, if they are: those of another clock than ours only where that is asked for."""
        if knobs.sanitize or not (self.cache_results or self._is_ours() and knobs.autotuning.cache is not False):
            return None
        return kept.Store.of(self.fn, self.__name__, key, configs, {**self.nargs, **kwargs},
                             f"{self.num_warmups}-{self.num_reps}")

    def _measure(self, configs: list[Config], args: tuple, kwargs: dict[str, Any],
                 store: kept.Store | None = None) -> dict[Config, list[float]]:
        from tritium.runtime.readiness import as_ready

        for config in configs:
            tuning.check_conflict(config, kwargs)
        timings = self._left_out(configs, store)
        twins: dict[Config, Config] = {}  # configuration -> one whose launches are the same
        prepare = partial(self._prepare, kwargs)
        self._race = self._new_race() if self._is_ours() else None

        def bench(config: Config) -> list[float]:
            try:
                return self._bench(*args, config=config, **kwargs)
            except Exception as error:
                raise self._failed(error, config, store) from error

        with tuning.progress(self.__name__, len(configs)) as step:
            wanted = [config for config in configs if config not in timings]
            for config, twin in as_ready(self.fn, wanted, args, kwargs, prepare, self._race is not None):
                if twin is None:
                    timings[config] = bench(config)
                else:
                    twins[config] = twin
                step(f"{config}", timings[twin or config][0])
        if self._race is not None:
            self._race.final = True
            for config in _finalists(timings):
                timings[config] = bench(config)
            self._race = None
        timings |= {config: list(timings[twin]) for config, twin in twins.items()}
        timings = {config: timings[config] for config in configs}
        best = _fastest(timings)
        if not (self.reset_to_zero or self.restore_value or self.user_defined_pre_hook or best.pre_hook):
            tuning.check_updates(self.__name__, self.fn, partial(self.fn.warmup, *args, **_without_warmup(kwargs),
                                                                 **best.all_kwargs()))
        if (kernel := tuning.innermost(self.fn, lambda fn: isinstance(fn, JITFunction))) is not None:
            kernel.launcher.disarm()  # so that the fastest is the first at hand, not the last of the trials
        # The trials left their traces: the real launch starts from zeros too.
        self.pre_hook({**self.nargs, **kwargs, **best.all_kwargs()}, reset_only=True)
        return timings

    def _prepare(self, kwargs: dict[str, Any], config: Config) -> None:
        """Have the blocks of descriptors set before compiling; other hooks run before launches alone."""
        given = {**self.nargs, **kwargs}
        if config.pre_hook is not None and any(map(is_descriptor, given.values())):
            config.pre_hook({**given, **config.all_kwargs()})

    def _bench(self, *args, config: Config, **kwargs) -> list[float]:
        """Measure one configuration; tuners derived from this one call it, too."""
        tuning.check_conflict(config, kwargs)
        launch = {**kwargs, **config.all_kwargs()}
        everything = {**self.nargs, **launch}

        def trial() -> None:
            if config.pre_hook is not None:
                config.pre_hook(everything)
            self.pre_hook(everything)
            try:
                self.fn.run(*args, **launch)
            except (Exception, KeyboardInterrupt) as error:
                self.post_hook(everything, exception=error)
                raise
            self.post_hook(everything, exception=None)

        try:
            return self._times(trial)
        except UNFIT as error:
            return self._leave_out(config, f"{type(error).__name__}: {error}")
        except trials.Stuck as error:
            if error.poisoned:
                raise
            return self._leave_out(config, str(error), aloud=True)

    def _times(self, trial: Callable[[], None]) -> list[float]:
        """How long trials take: by the user's clock, or by ours."""
        quantiles = (0.5, 0.2, 0.8)
        if self._race is not None:
            return self._race(trial, quantiles)
        if self._is_ours():  # one configuration by itself
            race = self._new_race()
            race(trial, quantiles)
            race.final = True
            return race(trial, quantiles)
        times = self.do_bench(trial, quantiles=quantiles)
        return [times] * 3 if isinstance(times, int | float) else list(times)

    def _is_ours(self) -> bool:
        """Whether our own clock measures, as we want it to."""
        plain = self._do_bench is None and not self.use_cuda_graph and not self._is_derived()
        return plain and tuning.is_ours(self.do_bench)

    def _is_derived(self) -> bool:
        """Whether a class derived from this one measures in a way of its own."""
        return self.__class__._bench is not Measuring._bench

    def _new_race(self) -> trials.Race:
        return trials.Race(self.num_warmups, self.num_reps, knobs.autotuning.timeout)

    # -----------------------------------------------------------------------------------------------------------------
    # Configurations that fail

    def _leave_out(self, config: Config, reason: str, aloud: bool = False) -> list[float]:
        """The timings of a configuration that is no choice; said aloud if that is nothing usual."""
        if knobs.autotuning.print:
            print(f"{config}: left out, {reason}")
        elif aloud:
            warnings.warn(f"autotune of kernel `{self.__name__}` leaves a configuration out: {config}: {reason}",
                          stacklevel=2)
        return list(NEVER)

    def _left_out(self, configs: list[Config], store: kept.Store | None) -> dict[Config, list[float]]:
        """Timings of those that brought the device down in an earlier run."""
        fatal = store.fatal() if store else {}
        found = {config: self._leave_out(config, f"{fatal[str(config)]}, in an earlier run", aloud=True)
                 for config in configs if str(config) in fatal}
        if len(found) == len(configs):
            raise AutotunerError(f"every configuration of {self.__name__} brought the device down in an earlier run\n"
                                 f"hint: change the kernel, or delete {store and store.folder} to try again")
        return found

    def _failed(self, error: Exception, config: Config, store: kept.Store | None) -> Exception:
        """What to raise for an error that ends the tuning: if the device is lost, which configuration did it."""
        if not isinstance(error, trials.Stuck) and not tuning.device_is_lost():
            return error
        reason = str(error).strip().split("\n")[0]
        if store is not None:
            store.note_fatal(config, reason)
        later = "later runs leave it out" if store is not None else "take it out of the list"
        return AutotunerError(f"a configuration of {self.__name__} brought the device down: {config}\n{reason}\n"
                              f"hint: this process cannot use the device any more; {later}")


def _fastest(timings: dict[Config, list[float]]) -> Config:
    return min(timings, key=timings.__getitem__)


def _finalists(timings: dict[Config, list[float]]) -> list[Config]:
    """Those that may be the best, by what a first look showed, the most likely first."""
    fit = [config for config in timings if timings[config] < NEVER]
    order = sorted(fit, key=lambda config: timings[config][1])
    return [config for config in order if timings[config][1] <= trials.FINALIST * timings[order[0]][1]]


def _without_warmup(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "warmup"}
