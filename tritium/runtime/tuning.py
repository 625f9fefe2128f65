"""What the autotuner is made of: configurations, saved tensors, results on disk, compiling side by side."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tritium import cache, knobs
from tritium.compiler.names import safe_name
from tritium.refusals import misnamed

# The launch options a Config carries beside its meta-parameters.
OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg")
_KEYWORDS = (*OPTIONS, "ir_override")


class Config:
    """One set of meta-parameters and launch options to try.

    >>> print(Config({"BLOCK": 128}, num_warps=8))
    BLOCK: 128, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: None
    >>> Config({"BLOCK": 128}) == Config({"BLOCK": 128}, num_warps=4)
    True
    """

    def __init__(self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1,
                 maxnreg: int | None = None, pre_hook: Callable[[dict], Any] | None = None,
                 ir_override: str | None = None):
        if not isinstance(kwargs, dict):
            raise TypeError(f"a Config maps names of parameters to values, such as {{'BLOCK': 64}}, not {kwargs!r}")
        self.kwargs, self.num_warps, self.num_stages, self.num_ctas = kwargs, num_warps, num_stages, num_ctas
        self.maxnreg, self.pre_hook, self.ir_override = maxnreg, pre_hook, ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """The meta-parameters and the options that are not None, as launch keywords.

        >>> Config({"BLOCK": 64}).all_kwargs()
        {'BLOCK': 64, 'num_warps': 4, 'num_ctas': 1, 'num_stages': 3}
        """
        warps, ctas, stages = self.num_warps, self.num_ctas, self.num_stages
        out = {**self.kwargs, "num_warps": warps, "num_ctas": ctas, "num_stages": stages}  # at once: every launch asks
        if warps is None or ctas is None or stages is None or self.maxnreg is not None or self.ir_override is not None:
            options = {name: getattr(self, name) for name in _KEYWORDS}
            return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}
        return out

    def __str__(self) -> str:
        shown = {**self.kwargs, **{name: getattr(self, name) for name in OPTIONS}}
        return ", ".join(f"{name}: {value}" for name, value in shown.items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def _identity(self) -> tuple:
        return (*self.all_kwargs().items(), self.pre_hook)

    def __eq__(self, other) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


# ---------------------------------------------------------------------------------------------------------------------
# Small pieces


def innermost(fn: Any, wanted: Callable[[Any], bool]) -> Any:
    """Unwrap decorators until `wanted` holds; None when it never does.

    >>> class Wrapped: fn = len
    >>> innermost(Wrapped, callable) is Wrapped, innermost(Wrapped, lambda f: f is len) is len
    (True, True)
    """
    while fn is not None and not wanted(fn):
        fn = getattr(fn, "fn", None)
    return fn


def how_many(top_k: Any, total: int) -> int:
    """`top_k` as a count: an int is one, a float up to 1.0 is a share of all.

    >>> how_many(3, 10), how_many(0.25, 10)
    (3, 2)
    """
    if isinstance(top_k, float) and top_k <= 1.0:
        return int(total * top_k)
    if isinstance(top_k, int):
        return top_k
    raise TypeError(f"top_k must be an int, or a float up to 1.0 for a share of the configurations, not {top_k!r}")


def check_conflict(config: Config, kwargs: dict[str, Any]) -> None:
    """A meta-parameter is either tuned or passed.

    >>> check_conflict(Config({"BLOCK": 64}), {"n": 3})
    """
    twice = sorted(config.kwargs.keys() & kwargs.keys())
    if twice:
        raise ValueError(f"Conflicting meta-parameters: {', '.join(twice)}. The autotuner chooses them: "
                         "do not pass them at the launch as well.")


def check_keys(kernel: str, keys: Iterable[str], names: Sequence[str], configs: Iterable[Config]) -> None:
    """Warn of a key that names nothing a launch has: new values of what was meant would not be tuned for.

    >>> check_keys("add", ["n"], ["x", "n"], [])
    """
    known = {*names, *(name for config in configs for name in config.kwargs)}
    for key in keys:
        if key not in known and key not in _KEYWORDS:
            warnings.warn(f"autotune of kernel `{kernel}`: the key {key!r} is no parameter, so it is ignored\n"
                          f"hint: {misnamed(kernel, str(key), names)}", stacklevel=3)


def check_not_captured(name: str) -> None:
    """Refuse to measure launches that are only recorded, before anything is asked that would spoil the graph.

    >>> check_not_captured("kernel")
    """
    from tritium.backends.driver import driver

    capturing = getattr(driver.active.get_device_interface(), "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        raise RuntimeError(f"{name} cannot be tuned while its launches are captured into a graph\n"
                           "hint: launch it once with arguments like these before the capture")


def benchmarker(warmup: float | None, rep: float | None, use_cuda_graph: bool) -> Callable[..., Sequence[float]]:
    """What measures a trial: the driver's benchmarker, or what the deprecated arguments ask for."""
    from tritium import testing
    from tritium.backends.driver import driver

    if use_cuda_graph:
        return lambda fn, quantiles: testing.do_bench_cudagraph(fn, rep=rep or 100, quantiles=quantiles)
    if warmup is None and rep is None:
        return driver.active.get_benchmarker()
    return lambda fn, quantiles: testing.do_bench(
        fn, warmup=25 if warmup is None else warmup, rep=100 if rep is None else rep, quantiles=quantiles)


def _storage(x: Any) -> Any:
    """The array behind a tensor descriptor or a reinterpreted tensor."""
    return getattr(x, "base", None) if hasattr(x, "block_shape") or type(x).__name__ == "TensorWrapper" else x


def zero(x: Any) -> None:
    """Fill a tensor or an array with zeros.

    >>> import numpy as np
    >>> x = np.ones(2); zero(x); x
    array([0., 0.])
    """
    x = _storage(x)
    if hasattr(x, "zero_"):
        x.zero_()
    else:
        x[...] = 0


def copy_of(x: Any) -> Any:
    """A copy to be given to `put_back`."""
    x = _storage(x)
    return x.clone() if hasattr(x, "clone") else x.copy()


def put_back(x: Any, saved: Any) -> None:
    """Give a tensor or an array the values it had.

    >>> import numpy as np
    >>> x = np.ones(2); saved = copy_of(x); zero(x); put_back(x, saved); x
    array([1., 1.])
    """
    x = _storage(x)
    if hasattr(x, "copy_"):
        x.copy_(saved)
    else:
        x[...] = saved


# ---------------------------------------------------------------------------------------------------------------------
# Compiling and showing


def compile_together(fn: Any, configs: list[Config], args: tuple, kwargs: dict[str, Any]) -> None:
    """Compile all configurations on several threads before the first is timed.

    A configuration that cannot be compiled says so when its turn to be timed comes. Hooks of a configuration may change
    what is compiled, and interpreted kernels compile nothing: then this does nothing.
    """
    compiles = innermost(fn, lambda f: hasattr(f, "device_caches")) is not None
    if not compiles or knobs.num_threads < 2 or any(config.pre_hook for config in configs):
        return
    from concurrent.futures import ThreadPoolExecutor

    from tritium.compiler.background import AsyncCompileMode, active_mode

    if active_mode.get() is not None:
        return
    with ThreadPoolExecutor(min(knobs.num_threads, len(configs))) as pool, AsyncCompileMode(pool, ignore_errors=True):
        for config in configs:
            fn.warmup(*args, **{name: value for name, value in kwargs.items() if name != "warmup"},
                      **config.all_kwargs())


@contextlib.contextmanager
def progress(name: str, total: int) -> Iterator[Callable[..., None]]:
    """A step function `step(text, milliseconds)`: a bar on a terminal, lines with TRITON_PRINT_AUTOTUNING, else silent.

    >>> with progress("kernel", 2) as step:
    ...     step("BLOCK: 64", 0.5)
    """
    if knobs.autotuning.print:
        yield lambda text, milliseconds: print(f"autotuning {name}: {text}: {milliseconds:.4f} ms")
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"autotuning {name}", total=total)
            yield lambda text, milliseconds: bar.update(task, advance=1, description=f"autotuning {name}: {text}")
    else:
        yield lambda text, milliseconds: None


# ---------------------------------------------------------------------------------------------------------------------
# Results that outlive the process


def key_text(key: Iterable) -> tuple[str, ...]:
    """A tuning key as it stands in a file.

    >>> key_text((1024, "torch.float32"))
    ('1024', 'torch.float32')
    """
    return tuple(map(str, key))


def _config_dict(config: Config) -> dict[str, Any]:
    return {"kwargs": config.kwargs, **{name: getattr(config, name) for name in OPTIONS}}


class Store(NamedTuple):
    """Where the timings for one key of one function stand in the disk cache."""

    manager: cache.CacheManager
    filename: str
    configs: list[Config]

    @classmethod
    def of(cls, fn: Any, name: str, key: tuple, configs: list[Config]) -> Store | None:
        """The place for these results; None for what has no lasting identity (hooks, interpreted kernels)."""
        jitted = innermost(fn, lambda f: hasattr(f, "cache_key"))
        if jitted is None or any(config.pre_hook for config in configs):
            return None
        from tritium.backends.compiler import BaseBackend
        from tritium.backends.driver import driver

        parts = [cache.fingerprint(), BaseBackend(driver.active.get_current_target()).hash(), jitted.cache_key,
                 str(sorted(knobs.cache_invalidating_env().items())), str(key_text(key)), *map(str, configs)]
        manager = cache.get_cache_manager(hashlib.sha256("-".join(parts).encode()).hexdigest())
        return cls(manager, f"{safe_name(name)}.autotune.json", configs)

    def read(self) -> dict[Config, list[float]] | None:
        """The timings, if all configurations have one."""
        files = cache.read_group(self.manager, self.filename)
        text = files.read(self.filename) if files and self.filename in files.paths else None
        if text is None:
            return None
        rows = json.loads(text)["configs_timings"]
        by_text = {str(Config(**config)): timings for config, timings in rows}
        found = {config: by_text[str(config)] for config in self.configs if str(config) in by_text}
        return found if len(found) == len(self.configs) else None

    def write(self, key: tuple, timings: dict[Config, list[float]]) -> None:
        """Keep the timings; a configuration JSON cannot hold stays out of the cache."""
        rows = [[_config_dict(config), times] for config, times in timings.items()]
        try:
            text = json.dumps({"key": key_text(key), "configs_timings": rows})
        except TypeError:
            return
        try:
            writer = cache.GroupWriter(self.manager, self.filename)
            writer.put(text, self.filename)
            writer.close()
        except OSError as error:
            cache.tolerate(error)


def save(path: str, name: str, records: dict[tuple[str, ...], dict[Config, list[float]]]) -> None:
    """Write measurements of one function as JSON.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "k.json")
    >>> save(path, "k", {("8",): {Config({"B": 1}): [1.0, 1.0, 1.0], Config({"B": 2}): [0.5, 0.5, 0.5]}})
    >>> load([path], "k", [Config({"B": 1}), Config({"B": 2})])
    {('8',): Config(B: 2, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None)}
    """
    results = [{"key": list(key), "configs_timings": [[_config_dict(c), t] for c, t in timings.items()]}
               for key, timings in records.items()]
    with open(path, "w") as file:
        json.dump({"function": name, "results": results}, file, indent=1)


def load(paths: Iterable[str], name: str, configs: list[Config]) -> dict[tuple[str, ...], Config]:
    """The fastest known configuration per key over several files; those the kernel no longer has are passed over."""
    known = {str(config): config for config in configs}
    best: dict[tuple[str, ...], tuple[list[float], str]] = {}
    for path in paths:
        with open(path) as file:
            content = json.load(file)
        if content["function"] != name:
            raise ValueError(f"{path} holds results of {content['function']}, not of {name}")
        for result in content["results"]:
            key = tuple(result["key"])
            for config, timings in result["configs_timings"]:
                text = str(Config(**config))
                if text in known:
                    best[key] = min(best.get(key, (timings, text)), (timings, text))
    return {key: known[text] for key, (_, text) in best.items()}
