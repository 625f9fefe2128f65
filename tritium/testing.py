"""Time kernels, compare results, and report performance over a range of sizes.

    >>> import tritium as triton
    >>> times = triton.testing.do_bench(lambda: sum(range(100)), warmup=1, rep=2, return_mode="all")
    >>> min(times) > 0
    True

Reports over a range of sizes are in `performance_reports`, peak rates of devices in `device_rates`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from tritium.device_rates import (
    get_dram_gbps,
    get_max_simd_tflops,
    get_max_tensorcore_tflops,
    nvsmi,
    set_gpu_clock,
)
from tritium.performance_reports import Benchmark, Mark, Table, perf_report
from tritium.refusals import refusal, told_at_the_call
from tritium.runtime.cublas import CublasLt

__all__ = [
    "Benchmark", "Mark", "Table", "assert_close", "cublas", "cuda_graph_without_gc", "cuda_memcheck", "do_bench",
    "do_bench_cudagraph",
    "do_bench_cudagraph_proton", "do_bench_proton", "get_dram_gbps", "get_max_simd_tflops",
    "get_max_tensorcore_tflops", "nvsmi", "perf_report", "set_gpu_clock",
]  # fmt: skip


def _driver():
    from tritium.runtime import driver

    return driver.active


# ---------------------------------------------------------------------------------------------------------------------
# Timing


class _HostClock:
    """Times calls that have finished when they return. Caches stay warm, as in a program that uses the data."""

    on_host = True

    def synchronize(self) -> None:
        pass

    def finishes(self, seconds: float) -> bool:
        return True

    def flush(self) -> None:
        pass

    def time(self, fn: Callable[[], Any], n: int, before: Callable[[], Any]) -> list[float]:
        times = []
        for _ in range(n):
            before()
            start = time.perf_counter_ns()
            fn()
            times.append((time.perf_counter_ns() - start) * 1e-6)
        return times


class _DeviceClock:
    """Times work on a GPU's stream with events; `flush` empties its second-level cache."""

    on_host = False

    def __init__(self, driver):
        self.driver, self.device = driver, driver.get_device_interface()
        self.buffer = driver.get_empty_cache_for_benchmark()

    def synchronize(self) -> None:
        self.device.synchronize()

    def finishes(self, seconds: float) -> bool:
        """Whether the stream comes to its end in time. What went wrong on the device is raised."""
        mark, end = self.device.Event(), time.monotonic() + seconds
        mark.record()
        while not mark.query():
            if time.monotonic() > end:
                return False
            time.sleep(5e-5)
        return True

    def flush(self) -> None:
        self.driver.clear_cache(self.buffer)

    def time(self, fn: Callable[[], Any], n: int, before: Callable[[], Any]) -> list[float]:
        pairs = [(self.device.Event(enable_timing=True), self.device.Event(enable_timing=True)) for _ in range(n)]
        for start, end in pairs:
            before()
            start.record()
            fn()
            end.record()
        self.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]


def clock() -> Any:
    """What times calls on the device that is active: events of its stream, or the host's clock.

    Launches on an emulated GPU end before they return, so that the host's clock times them too.

    >>> len(_HostClock().time(lambda: None, 3, lambda: None))
    3
    """
    driver = _driver()
    return _HostClock() if _runs_on_host(driver) else _DeviceClock(driver)


def _runs_on_host(driver: Any) -> bool:
    return driver.emulates or driver.get_current_target().backend == "cpu"


def _clock_of(fn: Callable[[], Any]) -> Any:
    """Call `fn` once; the clock that sees its work: the host's if it launched kernels on the CPU."""
    from tritium.backends.driver import driver

    if not callable(fn):
        raise refusal(TypeError, f"what is timed is a function without arguments, not {fn!r}",
                      "write do_bench(lambda: kernel[grid](...)): a launch that is written out has run already")

    timer, cpu = clock(), cast(Any, driver.named("cpu"))
    before = cpu.launches
    fn()
    timer.synchronize()
    return timer if cpu.launches == before else _HostClock()


_MODES = {"min": np.min, "max": np.max, "mean": np.mean, "median": np.median}


def _summary(times: list[float], quantiles: Sequence[float] | None, return_mode: str) -> Any:
    if quantiles is not None:
        points = [float(q) for q in np.quantile(times, list(quantiles))]
        return points[0] if len(points) == 1 else points
    return times if return_mode == "all" else Milliseconds(_MODES[return_mode](times), times)


class Milliseconds(float):
    """What `do_bench` gives without quantiles: a number, and three when it is unpacked.

    `ms, low, high = do_bench(f)` gives the median and the quantiles 0.2 and 0.8 of the calls: one call in five was
    faster than `low`, one in five slower than `high`. As a number it is what `return_mode` asks for, the mean.

    >>> ms, low, high = Milliseconds(2.5, [1.0, 2.0, 3.0, 4.0])
    >>> ms, round(low, 3), round(high, 3)
    (2.5, 1.6, 3.4)
    >>> Milliseconds(2.5, [1.0, 4.0]) * 2
    5.0
    """

    __slots__ = ("_times",)
    _times: list[float]

    def __new__(cls, value: float, times: list[float]) -> Milliseconds:
        made = super().__new__(cls, value)
        made._times = times
        return made

    def __iter__(self) -> Iterator[float]:
        return iter([float(q) for q in np.quantile(self._times, [0.5, 0.2, 0.8])])

    def __reduce__(self):
        return float, (float(self),)


def _check_mode(return_mode: str) -> None:
    if return_mode != "all" and return_mode not in _MODES:
        raise AssertionError(f"return_mode must be one of {', '.join([*_MODES, 'all'])}, not {return_mode!r}")


def _with_flush(timer, fn: Callable[[], Any]) -> float:
    """Milliseconds that a repetition takes, with all that is done in it."""
    def both() -> None:
        timer.flush()
        fn()

    return sum(timer.time(both, 5, lambda: None)) / 5


@told_at_the_call
def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none: Iterable | None = None,
             quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds that one call of `fn` takes; `warmup` and `rep` are milliseconds to spend.

    With `quantiles` the result is the list of these quantiles (a number if there is one); otherwise `return_mode` is
    "min", "max", "mean", "median" or "all". `ms, low, high = do_bench(f)` is short for quantiles [0.5, 0.2, 0.8]. On a
    GPU the cache is emptied before each call and the time is that of the stream; on the CPU it is wall-clock time with
    warm caches, and so it is for kernels that run on the CPU of a machine with a GPU. Emptying the cache counts to what
    is spent, not to the result: however short `fn` is, measuring takes about as long as asked for.

    >>> do_bench(lambda: None, warmup=1, rep=1, quantiles=[0.5]) >= 0
    True
    """
    _check_mode(return_mode)

    def forget_gradients() -> None:
        for x in grad_to_none or ():
            x.grad = None

    def prepare() -> None:
        forget_gradients()
        timer.flush()

    timer = _clock_of(fn)
    estimate = max(_with_flush(timer, fn), 1e-6)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    return _summary(timer.time(fn, max(1, int(rep / estimate)), prepare), quantiles, return_mode)


def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, grad_to_none: Iterable | None = None,
                       quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds of one call of `fn` without the cost of launching it: many calls are captured in a CUDA graph.

    On the CPU and an emulated GPU there is nothing to capture; the calls are timed in batches, back to back.

    >>> do_bench_cudagraph(lambda: None, rep=1) >= 0
    True
    """
    _check_mode(return_mode)
    tensors = list(grad_to_none or ())
    replay, calls = (_batch if _runs_on_host(_driver()) else _graph)(fn, rep, tensors)
    times = clock().time(replay, 10, lambda: None)
    return _summary([t / calls for t in times], quantiles, return_mode)


# Kernel time alone, as a profiler tells it: what is timed here already.
do_bench_proton, do_bench_cudagraph_proton = do_bench, do_bench_cudagraph


def _repeats(estimate: float, rep: float) -> int:
    return 1000 if estimate == 0 else max(1, int(rep / estimate))


def _batch(fn: Callable[[], Any], rep: float, tensors: list) -> tuple[Callable[[], None], int]:
    fn()
    calls = _repeats(sum(_HostClock().time(fn, 5, lambda: None)) / 5, rep)

    def replay() -> None:
        for _ in range(calls):
            for x in tensors:
                x.grad = None
            fn()

    return replay, calls


def _graph(fn: Callable[[], Any], rep: float, tensors: list) -> tuple[Callable[[], None], int]:
    try:
        import torch
    except ImportError:
        raise RuntimeError("do_bench_cudagraph captures the graph with torch: install torch, or use do_bench") from None
    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        for x in tensors:
            x.detach_()
            x.requires_grad_(True)
            x.grad = None
        clock = _DeviceClock(_driver())
        calls = _repeats(sum(clock.time(fn, 5, lambda: None)) / 5, rep)
        graph = torch.cuda.CUDAGraph()
        with cuda_graph_without_gc(graph):
            for _ in range(calls):
                for x in tensors:
                    x.grad = None
                fn()
        torch.cuda.synchronize()
    return graph.replay, calls


@contextlib.contextmanager
def cuda_graph_without_gc(*args: Any, **kwargs: Any) -> Iterator[Any]:
    """As `torch.cuda.graph`, with Python's garbage collector off: what it collects may do what ends a capture.

    Tensors of other libraries give their memory back, and modules of kernels are unloaded.

        graph = torch.cuda.CUDAGraph()
        with triton.testing.cuda_graph_without_gc(graph):
            kernel[grid](x, y)
        graph.replay()
    """
    import torch

    was_on = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(*args, **kwargs) as graph:
            yield graph
    finally:
        if was_on:
            gc.enable()


# ---------------------------------------------------------------------------------------------------------------------
# Comparing

cublas = CublasLt()  # `cublas.matmul(a, b, c)`: c = a times the transpose of b, as NVIDIA's library computes it


def _as_numpy(x: Any) -> np.ndarray:
    """`x` as an array NumPy can compute with: tensors come to the host, bfloat16 and fp8 become float32."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        name = str(x.dtype)
        x = (x.float() if "bfloat16" in name or "float8" in name else x).numpy()
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.kind == "V" or x.dtype.name.startswith(("bfloat16", "float8")) else x


def assert_close(x: Any, y: Any, atol: float | Callable | None = None, rtol: float | Callable | None = None,
                 err_msg: str = "") -> None:
    """Raise AssertionError unless `|x - y| <= atol + rtol * |y|` everywhere; two NaNs are equal.

    `atol` (1e-2 unless given) and `rtol` (0) may be functions of the dtype.

    >>> assert_close([1.0, float("nan")], [1.001, float("nan")])
    >>> assert_close(1.0, 1.1)
    Traceback (most recent call last):
    AssertionError: ...
    """
    dtype = getattr(x, "dtype", None)
    x, y = _as_numpy(x), _as_numpy(y)
    atol, rtol = (limit(dtype if dtype is not None else x.dtype) if callable(limit) else limit
                  for limit in (atol, rtol))
    np.testing.assert_allclose(x, y, atol=1e-2 if atol is None else atol, rtol=0.0 if rtol is None else rtol,
                               equal_nan=True, err_msg=err_msg)


# ---------------------------------------------------------------------------------------------------------------------
# Looking for invalid accesses


def cuda_memcheck(**target_kwargs: Any) -> Callable[[Callable], Callable]:
    """Decorator of a pytest test: run the cases whose arguments include `target_kwargs` under compute-sanitizer.

    The test needs the `request` fixture, which says how to start the one case again.

    >>> @cuda_memcheck(size=1)
    ... def test(size):
    ...     return size
    >>> test(size=2)
    2
    """

    def decorator(test: Callable) -> Callable:
        @functools.wraps(test)
        def wrapper(*args, **kwargs):
            inside = os.environ.get("TRITIUM_IN_MEMCHECK") == "1"
            if inside or not target_kwargs.items() <= kwargs.items():
                return test(*args, **kwargs)
            if "request" not in kwargs:
                raise AssertionError(f"{test.__name__} needs the `request` fixture to be run by cuda_memcheck")
            _under_sanitizer(kwargs["request"])

        return wrapper

    return decorator


def _under_sanitizer(request: Any) -> None:
    tool = shutil.which("compute-sanitizer") or shutil.which("cuda-memcheck")
    if tool is None:
        raise RuntimeError("compute-sanitizer is not on the PATH: install the CUDA toolkit to use cuda_memcheck")
    node = request.node
    command = [tool, sys.executable, "-m", "pytest", "-q", f"{node.fspath}::{node.name}"]
    environment = {**os.environ, "TRITIUM_IN_MEMCHECK": "1", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0 or "ERROR SUMMARY: 0 errors" not in done.stdout:
        raise AssertionError(f"memory errors in {node.name}:\n{done.stdout}")
