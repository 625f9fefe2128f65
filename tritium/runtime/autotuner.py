"""Choose among configurations of a kernel by running them (`measuring`), and launch the fastest.

    @triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 1024})], key=["n"])
    @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @triton.jit
    def kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr): ...

The first launch with new values of the `key` arguments compiles all configurations, in worker processes where the
machine has several processors, times them one by one, and remembers the fastest, on disk too: see `docs/tuning.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from tritium import knobs
from tritium.compiler import bundles
from tritium.errors import AutotunerError, OutOfResources, PTXASError, cut
from tritium.language.source import rehearsal
from tritium.locks import lock, once_property
from tritium.refusals import refusal, told_at_the_call
from tritium.runtime import kept, tuning
from tritium.runtime.choices import Choice, Choices
from tritium.runtime.forwarding import record_of_choice
from tritium.runtime.heuristic import Heuristics, heuristics
from tritium.runtime.jit import JITFunction, KernelInterface, P, T, get_full_name
from tritium.runtime.measuring import Measuring
from tritium.runtime.tuning import Config

if TYPE_CHECKING:
    from tritium.runtime.jit import Launch

__all__ = [
    "Autotuner", "AutotunerError", "Config", "Heuristics", "OutOfResources", "PTXASError", "autotune", "heuristics",
]  # fmt: skip

# Backward passes launch from threads of their own: each has its arguments, and they measure one after another.
_measuring = lock()


class Autotuner(Measuring[T]):
    """A kernel with several configurations; launching it launches the fastest.

    `cache` maps tuning keys to the configurations chosen, `configs_timings` holds the last measurements as
    {config: [median, 20 %, 80 %]} in milliseconds, and `bench_time` is how long they took in seconds.

    >>> import numpy as np
    >>> from tritium.kernels.vector_add import add_kernel
    >>> tuned = autotune([Config({"BLOCK": 16}), Config({"BLOCK": 64})], key=["n"])(add_kernel)
    >>> x = np.ones(100, np.float32)
    >>> _ = tuned[lambda meta: (-(-100 // meta["BLOCK"]),)](x, x, np.empty_like(x), 100)
    >>> len(tuned.configs_timings), tuned.best_config in tuned.configs
    (2, True)
    """

    _plain = True

    @once_property
    def _choices(self) -> Choices:
        return Choices(self.arg_names)

    def __getitem__(self: Autotuner[Callable[P, Any]], grid: Any) -> Launch[P]:
        launch: Any = self._native
        if launch is not None:
            return launch(grid)
        plain = self.__class__ is Autotuner and "run" not in self.__dict__
        launch = partial(self._launch, grid) if plain else partial(self.run, grid=grid, warmup=False)
        return launch

    def _launch(self, grid: Any, /, *args, **kwargs):
        """As `run`; what was chosen for such arguments before is found without making their tuning key."""
        try:
            own = self.__dict__
            if "run" in own:
                return self.run(*args, grid=grid, warmup=False, **kwargs)
            find, fn = self._choices.finders.get((len(args), *kwargs) if kwargs else len(args)), self.fn
            try:
                choice = find and find(args, kwargs)
            except (AttributeError, TypeError):  # an object without a dtype, a value that cannot be hashed
                choice = None
            if choice is None:
                return self._run_and_note(grid, args, kwargs)
            config, chosen = choice.config, self.configs[0] if len(self.configs) == 1 else self.cache.get(choice.key)
            if chosen is not config or config.__dict__ != choice.made_of or "run" in fn.__dict__:
                return self._run_and_note(grid, args, kwargs)
            own["best_config"] = config  # an attribute would be looked at first
            thread = get_ident()
            self._launching[thread] = args
            try:
                if config.pre_hook is not None:
                    config.pre_hook({**self.nargs, "grid": grid, "warmup": False, **kwargs, **config.all_kwargs()})
                done = choice.send(fn[grid], args, kwargs)
            finally:
                self._launching.pop(thread, None)
            if config.pre_hook is None:
                self._arm(choice, partial(record_of_choice, self, choice, args, kwargs))
            return done
        except Exception as error:
            cut(error, keep=knobs.compilation.front_end_debugging)
            raise

    def _run_and_note(self, grid: Any, args: tuple, kwargs: dict[str, Any]):
        for name in kwargs.keys() & {"grid", "warmup"}:
            raise refusal(TypeError, f"{self.__name__} is tuned, and a launch of it takes `{name}` for its own",
                          f"pass {name} by position, or give the parameter another name")
        if (tell := rehearsal.current.get()) is not None:
            return tell(self, grid, args, kwargs)
        done = self.run(*args, grid=grid, warmup=False, **kwargs)
        if self.fn.__class__ in (JITFunction, Heuristics):  # there, `fn[grid](...)` is `fn.run(..., grid=grid)`
            key = self._key({**dict(zip(self.arg_names, args)), **kwargs})
            config = self.configs[0] if len(self.configs) == 1 else self.cache.get(key)
            if config is not None:
                choice = Choice(key, config, args, kwargs)
                self._choices.note(args, kwargs, self.keys, choice)
                self._arm(choice, partial(record_of_choice, self, choice, args, kwargs))
        return done

    def run(self, *args, **kwargs):
        """Launch the fastest configuration for these arguments, finding it first if need be."""
        if (tell := rehearsal.current.get()) is not None:
            grid = kwargs.pop("grid", None)
            return tell(self, None if kwargs.pop("warmup", False) else grid, args, kwargs)
        self.nargs = dict(zip(self.arg_names, args))
        try:
            config = self.configs[0] if len(self.configs) == 1 else self._chosen(args, kwargs)
            self.best_config = config
            tuning.check_conflict(config, kwargs)
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            return self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            self.nargs = None

    def warmup(self, *args, **kwargs) -> list:
        """Compile every configuration that pruning leaves; the compiled kernels in that order."""
        if (tell := rehearsal.current.get()) is not None:
            kwargs.pop("grid", None)
            return [tell(self, None, args, kwargs)]
        self.nargs = dict(zip(self.arg_names, args))
        try:
            return [self.fn.warmup(*args, **kwargs, **config.all_kwargs()) for config in self.prune_configs(kwargs)]
        finally:
            self.nargs = None

    def tuning_key(self, kwargs: dict[str, Any]) -> tuple:
        """What a choice depends on: the values of the `key` arguments and the dtypes of all."""
        return self._key({**self.nargs, **kwargs})

    def _key(self, given: dict[str, Any]) -> tuple:  # with the launch's own keywords, which are no arguments
        known, dtypes = self._known, []
        for name, value in given.items():
            if name in known and (dtype := getattr(value, "dtype", None)) is not None:
                dtypes.append(str(dtype))
        return (*[given[name] for name in self.keys if name in given and name in known], *dtypes)

    def _is_derived(self) -> bool:  # a program may have exchanged `Autotuner._bench` itself
        return self.__class__._bench is not Autotuner._bench

    def _chosen(self, args: tuple, kwargs: dict[str, Any]) -> Config:
        key = self.tuning_key(kwargs)
        if key not in self.cache:
            with _measuring, tuning.on_device_of((*args, *kwargs.values())):
                if key not in self.cache:
                    known = self.shipped.get(kept.key_text(key)) or self._bundled(kept.key_text(key))
                    self.cache[key] = known or self._tune(key, args, kwargs)
        return self.cache[key]

    def _bundled(self, key: tuple[str, ...]) -> Config | None:
        """What was chosen for a key when a bundle was made, if it is loaded and the kernel still has that."""
        if not bundles.is_active():
            return None
        jitted = tuning.innermost(self.fn, lambda f: hasattr(f, "cache_key"))
        found = jitted and bundles.choice(get_full_name(jitted), jitted.cache_key, key)
        wanted = found and str(Config(**found))
        return next((config for config in self.configs if str(config) == wanted), None)

    # -----------------------------------------------------------------------------------------------------------------
    # Shipping results

    def save(self, path: str) -> None:
        """Write all measurements of this process to a JSON file that `load` reads on another machine."""
        kept.save(path, self.__name__, self._records)

    def load(self, *paths: str) -> None:
        """Use the results in these files, merged: for one key the faster choice counts, and nothing is measured."""
        self.shipped.update(kept.load(paths, self.__name__, self.configs))


@told_at_the_call
def autotune(configs: list[Config], key: Iterable[str], prune_configs_by: dict | None = None,
             reset_to_zero: list[str] | None = None, restore_value: list[str] | None = None,
             pre_hook: Callable | None = None, post_hook: Callable | None = None, warmup: float | None = None,
             rep: float | None = None, use_cuda_graph: bool = False, do_bench: Callable | None = None,
             cache_results: bool = False) -> Callable[[KernelInterface[T]], Autotuner[T]]:
    """Decorator: try `configs` whenever the arguments named in `key` have new values, and keep the fastest.

    The kernel runs many times while being tuned. One that updates memory in place needs `reset_to_zero` or
    `restore_value`, the names of the arguments to put right between trials. `prune_configs_by` may hold
    `early_config_prune(configs, named_args, **kwargs)`, `perf_model(**args)` and `top_k`. Timings are kept on disk;
    with `cache_results`, those of a `do_bench` of your own, too.

    >>> import tritium as triton
    >>> @triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
    ... @triton.jit
    ... def kernel(x, n, BLOCK: triton.language.constexpr):
    ...     pass
    >>> [str(config) for config in kernel.configs][0]
    'BLOCK: 64, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None'
    """
    @told_at_the_call
    def decorate(fn: KernelInterface[T]) -> Autotuner[T]:
        tuning.check_kernel(fn, "autotune")
        keys = tuning.listed(tuning.name_of(fn), key, fn.arg_names)
        tuner = Autotuner(fn, fn.arg_names, configs, keys, reset_to_zero, restore_value, pre_hook,
                          post_hook, prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results)
        tuning.check_keys(tuner.__name__, tuner.keys, tuner.arg_names, tuner.configs)
        tuning.check_rules(tuner.__name__, prune_configs_by or ())
        return tuner

    return decorate
