"""What the autotuner is made of: configurations, checks, saved tensors, what is shown."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import get_ident
from typing import Any

from tritium import knobs
from tritium.refusals import UnknownName, misnamed, refusal, told_at_the_call
from tritium.tensors import device_of

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

    @told_at_the_call
    def __init__(self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1,
                 maxnreg: int | None = None, pre_hook: Callable[[dict], Any] | None = None,
                 ir_override: str | None = None):
        if not isinstance(kwargs, dict):
            raise refusal(TypeError, "a Config maps names of parameters to values, such as {'BLOCK': 64}, not "
                          f"{kwargs!r}")
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
        if self.ir_override is not None:
            shown["ir_override"] = self.ir_override
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
    """`top_k` as a count: an int is one, a float up to 1.0 is a share of all that were not pruned, of one at least.

    >>> how_many(3, 10), how_many(0.25, 10), how_many(0.25, 2)
    (3, 2, 1)
    """
    if isinstance(top_k, float) and top_k <= 1.0:
        return max(1, int(total * top_k))
    if isinstance(top_k, int):
        return top_k
    raise TypeError(f"top_k must be an int, or a float up to 1.0 for a share of the configurations, not {top_k!r}")


def check_kernel(fn: Any, decorator: str) -> None:
    """Refuse what is no kernel, under a decorator of kernels.

    >>> check_kernel(print, "autotune")
    Traceback (most recent call last):
    TypeError: @triton.autotune takes a kernel, and print is none yet
    hint: write @triton.autotune(...) above @triton.jit
    """
    if not hasattr(fn, "arg_names"):
        name = getattr(fn, "__name__", type(fn).__name__)
        raise refusal(TypeError, f"@triton.{decorator} takes a kernel, and {name} is none yet",
                      f"write @triton.{decorator}(...) above @triton.jit")


def name_of(kernel: Any) -> str:
    """The name of the function that a kernel was made of, under any decorators.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> name_of(add_kernel)
    'add_kernel'
    """
    while not hasattr(kernel, "__name__"):
        kernel = kernel.fn
    return kernel.__name__


def check_conflict(config: Config, kwargs: dict[str, Any]) -> None:
    """A meta-parameter is either tuned or passed.

    >>> check_conflict(Config({"BLOCK": 64}), {"n": 3})
    """
    twice = sorted(config.all_kwargs().keys() & kwargs.keys())
    if twice:
        raise refusal(ValueError, f"Conflicting meta-parameters: {', '.join(twice)}. The autotuner chooses them: "
                      "do not pass them at the launch as well.")


def listed(kernel: str, key: Any, names: Sequence[str]) -> list[str]:
    """The `key` of an autotuner as a list. Text counts as its letters, as in Triton: warn if these name nothing.

    >>> listed("add", "MN", ["x", "M", "N"])
    ['M', 'N']
    """
    if key is None:
        raise refusal(TypeError, "the key of an autotuner is a list of parameters' names, not None",
                      "key=[] tunes once")
    if isinstance(key, str) and not set(key) <= set(names):
        warnings.warn(f"autotune of kernel `{kernel}`: the key {key!r} is text, whose letters name no parameters, so "
                      f"the kernel is tuned once\nhint: write key=[{key!r}]", stacklevel=4)
        return [name for name in key if name in names]
    return list(key)


def check_keys(kernel: str, keys: Iterable[str], names: Sequence[str], configs: Iterable[Config]) -> None:
    """Warn of a key that names nothing a launch has: new values of what was meant would not be tuned for.

    >>> check_keys("add", ["n"], ["x", "n"], [])
    """
    known = {*names, *(name for config in configs for name in config.kwargs)}
    for key in keys:
        if key not in known and key not in _KEYWORDS:
            warnings.warn(f"autotune of kernel `{kernel}`: the key {key!r} is no parameter, so it is ignored\n"
                          f"hint: {misnamed(kernel, str(key), names)}", stacklevel=4)


def check_arguments(kernel: str, wanted: Iterable[str], args: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse names in `reset_to_zero` and `restore_value` that no argument has.

    >>> check_arguments("add", ["out"], {"x": 1, "out": 2}, ["x", "out"])
    """
    for name in wanted:
        if name not in args:
            message = f"autotune of kernel `{kernel}`: reset_to_zero and restore_value name arguments, {name!r} is none"
            raise refusal(UnknownName, message, misnamed(kernel, str(name), names))


def pruned(prune: Callable, configs: list[Config], named: Any, kwargs: dict[str, Any]) -> list[Config]:
    """What a user's `early_config_prune` leaves of the configurations.

    >>> pruned(lambda configs, named_args, **kwargs: configs[:1], [Config({}), Config({"BLOCK": 64})], {}, {})
    [Config(num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None)]
    """
    try:
        left = prune(configs, named, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # it was not even entered
            raise refusal(TypeError, f"early_config_prune cannot be called: {error}",
                          "it is called with (configs, named_args, **kwargs)") from None
        raise
    if not isinstance(left, Iterable):
        raise refusal(TypeError, f"early_config_prune returned {left!r}, not a list of configurations",
                      "end it with `return [config for config in configs if ...]`")
    return list(left)


_RULES = ("perf_model", "top_k", "early_config_prune")


def check_rules(kernel: str, rules: Iterable[str]) -> None:
    """Warn of a key of `prune_configs_by` that means nothing: all configurations would be tried.

    >>> check_rules("add", {"top_k": 2})
    """
    for rule in rules:
        if rule not in _RULES:
            warnings.warn(f"autotune of kernel `{kernel}`: prune_configs_by has no rule {rule!r}, so it is ignored\n"
                          f"hint: the rules are {', '.join(_RULES)}", stacklevel=4)


_ACCUMULATES = r'= atomic .*how="(?:add|xor)"'


def check_updates(kernel: str, fn: Any, launch: Callable[[], Any]) -> None:
    """Warn of a kernel that adds to memory which nobody puts right between trials; `launch` gives it compiled."""
    if innermost(fn, lambda f: hasattr(f, "device_caches")) is None:
        return
    compiled = launch()
    if getattr(compiled.metadata, "sanitized", False) and compiled.metadata.target.backend == "cpu":
        from tritium.backends.cpu.checked import updated

        for found in updated(compiled):
            knobs.sanitizer(found)
        return
    text = compiled.asm["ttir"] if hasattr(compiled, "asm") and "ttir" in compiled.asm else ""
    if re.search(_ACCUMULATES, text):
        warnings.warn(f"autotune of kernel `{kernel}`: it updates memory atomically, and every trial does so again\n"
                      "hint: name what it adds to in reset_to_zero, or in restore_value", stacklevel=2)


def check_not_captured(name: str) -> None:
    """Refuse to measure launches that are only recorded, before anything is asked that would spoil the graph.

    >>> check_not_captured("kernel")
    """
    from tritium.backends.driver import driver

    capturing = getattr(driver.active.get_device_interface(), "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        raise RuntimeError(f"{name} cannot be tuned while its launches are captured into a graph\n"
                           "hint: launch it once with arguments like these before the capture")


def on_device_of(arguments: Iterable[Any]) -> contextlib.AbstractContextManager[None]:
    """Within it, the active driver is that of the arguments of a launch: tensors of the CPU are timed by the CPU's
    clock, where there is a GPU, too.

    >>> import numpy as np
    >>> from tritium.backends.driver import driver
    >>> with on_device_of([3, np.zeros(4)]):
    ...     driver.active.get_current_target().backend
    'cpu'
    """
    from tritium.backends.driver import driver

    devices = set(filter(None, map(device_of, arguments)))
    device = next(iter(devices - {"cpu"} or devices), None)
    try:
        return driver.acting(driver.of_device(device))
    except ValueError:  # the launch says what is wrong with them
        return contextlib.nullcontext()


def benchmarker(warmup: float | None, rep: float | None, use_cuda_graph: bool) -> Callable[..., Sequence[float]]:
    """What measures a trial: the driver's benchmarker, or what the deprecated arguments ask for.

    On an emulated GPU it is always the driver's, which runs each trial once.
    """
    from tritium import testing
    from tritium.backends.driver import driver

    if driver.active.emulates:
        return driver.active.get_benchmarker()
    if use_cuda_graph:
        return lambda fn, quantiles: testing.do_bench_cudagraph(fn, rep=rep or 100, quantiles=quantiles)
    if warmup is None and rep is None:
        return driver.active.get_benchmarker()
    return lambda fn, quantiles: testing.do_bench(
        fn, warmup=25 if warmup is None else warmup, rep=100 if rep is None else rep, quantiles=quantiles)


def is_ours(bench: Callable) -> bool:
    """Whether trials are measured by `testing.do_bench`, not by another clock a driver names.

    >>> is_ours(print)
    False
    """
    from tritium import testing

    return bench is testing.do_bench or getattr(bench, "__module__", None) == __name__


def device_is_lost() -> bool:
    """Whether nothing runs on the device any more: what has gone wrong on a GPU ends its context.

    >>> device_is_lost()
    False
    """
    from tritium.backends.driver import driver

    device: Any = driver.active.get_device_interface()
    try:
        if device is not None:
            device.synchronize()
    except Exception:  # of torch or of a driver: each has its own kind
        return True
    return False


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
# Measuring

# Context managers of those who watch launches: what watching costs is not to decide which configuration is the fastest.
observers: list[Callable[[], contextlib.AbstractContextManager]] = []


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Have those who watch launches step aside inside the `with`.

    >>> with unobserved():
    ...     pass
    """
    thread, outer = get_ident(), is_measuring()
    _measuring.add(thread)
    try:
        with contextlib.ExitStack() as stack:
            for aside in list(observers):
                stack.enter_context(aside())
            yield
    finally:
        if not outer:
            _measuring.discard(thread)


_measuring: set[int] = set()  # threads that measure configurations


def is_measuring() -> bool:
    """Whether this thread is measuring the configurations of a tuner.

    >>> with unobserved():
    ...     is_measuring()
    True
    """
    return get_ident() in _measuring


# ---------------------------------------------------------------------------------------------------------------------
# Showing


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
