"""Time kernels, compare results, and report performance over a range of sizes.

    >>> import tritium as triton
    >>> times = triton.testing.do_bench(lambda: sum(range(100)), warmup=1, rep=2, return_mode="all")
    >>> min(times) > 0
    True

pandas and matplotlib are used where they are installed; without them `perf_report` prints and saves plain tables.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

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

    >>> len(_HostClock().time(lambda: None, 3, lambda: None))
    3
    """
    driver = _driver()
    return _HostClock() if driver.get_current_target().backend == "cpu" else _DeviceClock(driver)


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


def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none: Iterable | None = None,
             quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds that one call of `fn` takes; `warmup` and `rep` are milliseconds to spend.

    With `quantiles` the result is the list of these quantiles (a number if there is one); otherwise `return_mode` is
    "min", "max", "mean", "median" or "all". `ms, low, high = do_bench(f)` is short for quantiles [0.5, 0.2, 0.8]. On a
    GPU the cache is emptied before each call and the time is that of the stream; on the CPU it is wall-clock time with
    warm caches. Emptying the cache counts to what is spent, not to the result: however short `fn` is, measuring takes
    about as long as asked for.

    >>> do_bench(lambda: None, warmup=1, rep=1, quantiles=[0.5]) >= 0
    True
    """
    _check_mode(return_mode)
    timer = clock()

    def forget_gradients() -> None:
        for x in grad_to_none or ():
            x.grad = None

    def prepare() -> None:
        forget_gradients()
        timer.flush()

    fn()
    timer.synchronize()
    estimate = max(_with_flush(timer, fn), 1e-6)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    return _summary(timer.time(fn, max(1, int(rep / estimate)), prepare), quantiles, return_mode)


def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, grad_to_none: Iterable | None = None,
                       quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds of one call of `fn` without the cost of launching it: many calls are captured in a CUDA graph.

    On the CPU there is nothing to capture; the calls are timed in batches, back to back.

    >>> do_bench_cudagraph(lambda: None, rep=1) >= 0
    True
    """
    _check_mode(return_mode)
    tensors = list(grad_to_none or ())
    replay, calls = _batch(fn, rep, tensors) if _driver().get_current_target().backend == "cpu" else \
        _graph(fn, rep, tensors)
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
# Reports


class Benchmark:
    """What to run and how to draw it: one line per value of `line_arg`, one point per entry of `x_vals`.

    An entry of `x_vals` is one value given to every name in `x_names`, or a tuple with one value each.

    >>> Benchmark(["n"], [1, 2], "provider", ["a"], ["A"], "demo", args={}).x_names
    ['n']
    """

    def __init__(self, x_names: list[str], x_vals: list, line_arg: str, line_vals: list, line_names: list[str],
                 plot_name: str, args: dict[str, Any], xlabel: str = "", ylabel: str = "", x_log: bool = False,
                 y_log: bool = False, styles: list[tuple[str, str]] | None = None):
        self.x_names, self.x_vals = x_names, x_vals
        self.line_arg, self.line_vals, self.line_names = line_arg, line_vals, line_names
        self.plot_name, self.args = plot_name, args
        self.xlabel, self.ylabel, self.x_log, self.y_log, self.styles = xlabel, ylabel, x_log, y_log, styles

    def point(self, x: Any) -> tuple:
        """The value of each name in `x_names` for one entry of `x_vals`."""
        values = tuple(x) if isinstance(x, (list, tuple)) else (x,) * len(self.x_names)
        if len(values) != len(self.x_names):
            raise ValueError(f"{self.plot_name}: the entry {x!r} of x_vals has {len(values)} values "
                             f"for {len(self.x_names)} names {self.x_names}")
        return values


class Table:
    """Columns and rows, for where pandas is not installed.

    >>> print(Table(["n", "GB/s"], [(1, 2.5), (1024, 10.0)]))
          n       GB/s
    0     1   2.500000
    1  1024  10.000000
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence]):
        self.columns, self.rows = list(columns), [tuple(row) for row in rows]

    def __str__(self) -> str:
        cells = [["", *self.columns]] + [[str(i), *map(_cell, row)] for i, row in enumerate(self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns) + 1)]
        return "\n".join("  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in cells)

    def to_csv(self, path: str, float_format: str = "%.6f", index: bool = False) -> None:
        """Write the rows, floats in `float_format`."""
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["", *self.columns] if index else self.columns)
            for i, row in enumerate(self.rows):
                shown = [float_format % x if isinstance(x, float) else x for x in row]
                writer.writerow([i, *shown] if index else shown)


def _cell(x: Any) -> str:
    return f"{x:.6f}" if isinstance(x, float) else str(x)


def perf_report(benchmarks: Benchmark | list[Benchmark]) -> Callable[[Callable], Mark]:
    """Decorator: the function measures one point of a `Benchmark`; `.run()` on the result measures them all.

    >>> @perf_report(Benchmark(["n"], [1, 2], "who", ["me"], ["Me"], "powers", args={"p": 3}, ylabel="value"))
    ... def power(n, who, p):
    ...     return float(n**p)
    >>> power.run(print_data=True)
    powers:
         n  Me (value)
    0  ...
    """
    return lambda fn: Mark(fn, benchmarks)


class Mark:
    """A measuring function with its benchmarks.

    >>> bench = Benchmark(["n"], [1, 2], "how", ["fast"], ["Fast"], plot_name="steps", args={})
    >>> Mark(lambda n, how: 10.0 * n, bench).run(return_df=True).shape
    (2, 2)
    """

    def __init__(self, fn: Callable, benchmarks: Benchmark | list[Benchmark]):
        self.fn, self.benchmarks = fn, benchmarks

    def __call__(self, *args, **kwargs):
        return self.fn(*args, **kwargs)

    def run(self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False,
            diff_col: bool = False, save_precision: int = 6, **kwargs) -> Any:
        """Measure every point; print, draw and save as asked. `kwargs` go to the measuring function.

        With `save_path`, writes `<plot_name>.csv`, `<plot_name>.png` (given matplotlib) and `results.html` there.
        """
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        several = not isinstance(self.benchmarks, Benchmark)
        frames, pages = [], []
        for bench in [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks:
            means, spread = self._measure(bench, kwargs)
            picture = _draw(bench, means, spread, show_plots, save_path) if show_plots or save_path else None
            table = _with_difference(means) if diff_col and len(bench.line_names) == 2 else means
            frame = _frame(table)
            if print_data:
                print(f"{bench.plot_name}:")
                print(frame)
            if save_path:
                frame.to_csv(os.path.join(save_path, f"{bench.plot_name}.csv"),
                             float_format=f"%.{save_precision}f", index=False)
                pages.append(picture or f"{bench.plot_name}.csv")
            frames.append(frame)
        if save_path:
            _write_index(save_path, pages)
        return (frames if several else frames[0]) if return_df else None

    def _measure(self, bench: Benchmark, kwargs: dict) -> tuple[Table, dict[str, list[tuple[float, float]]]]:
        """The means as a table, and (min, max) per line."""
        titles = [f"{name} ({bench.ylabel})" if bench.ylabel else name for name in bench.line_names]
        spread: dict[str, list] = {title: [] for title in titles}
        rows = []
        for x in bench.x_vals:
            point = bench.point(x)
            row = list(point)
            for title, value in zip(titles, bench.line_vals):
                result = self.fn(**dict(zip(bench.x_names, point)), **{bench.line_arg: value}, **bench.args, **kwargs)
                mean, low, high = result if isinstance(result, (list, tuple)) else (result, result, result)
                row.append(mean)
                spread[title].append((low, high))
            rows.append(row)
        return Table([*bench.x_names, *titles], rows), spread


def _with_difference(table: Table) -> Table:
    return Table([*table.columns, "Diff"], [(*row, row[-1] - row[-2]) for row in table.rows])


def _frame(table: Table) -> Any:
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame(table.rows, columns=table.columns)


def _draw(bench: Benchmark, means: Table, spread: dict, show: bool, save_path: str) -> str | None:
    """Draw one line per provider with its band; the name of the file written, if one was."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        if show:
            print("matplotlib is not installed: no plots (pip install matplotlib)", file=sys.stderr)
        return None
    figure, axes = plt.subplots()
    n_names = len(bench.x_names)
    xs = [row[0] for row in means.rows]
    for i, title in enumerate(means.columns[n_names:]):
        colour, line = bench.styles[i] if bench.styles else (None, None)
        ys = [row[n_names + i] for row in means.rows]
        drawn, = axes.plot(xs, ys, label=title, color=colour, linestyle=line)
        low, high = zip(*spread[title])
        if list(low) != ys or list(high) != ys:
            axes.fill_between(xs, low, high, alpha=0.15, color=drawn.get_color())
    axes.legend()
    axes.set(xlabel=bench.xlabel or bench.x_names[0], ylabel=bench.ylabel,
             xscale="log" if bench.x_log else "linear", yscale="log" if bench.y_log else "linear")
    name = f"{bench.plot_name}.png" if save_path else None
    if name:
        figure.savefig(os.path.join(save_path, name))
    if show:
        plt.show()
    plt.close(figure)
    return name


def _write_index(save_path: str, names: list[str]) -> None:
    lines = [f'<img src="{name}"/>' if name.endswith(".png") else f'<a href="{name}">{name}</a>' for name in names]
    with open(os.path.join(save_path, "results.html"), "w") as page:
        page.write("<html><body>\n" + "\n".join(lines) + "\n</body></html>\n")


# ---------------------------------------------------------------------------------------------------------------------
# What the hardware could do


def _properties(device: int | None) -> tuple[dict[str, int], tuple[int, int]]:
    driver = _driver()
    device = driver.get_current_device() if device is None else device
    return driver.utils.get_device_properties(device), driver.get_device_capability(device)


def get_dram_gbps(device: int | None = None) -> float:
    """The device memory's peak bandwidth in GB/s: clock times bus width times two transfers per clock."""
    properties, _ = _properties(device)
    return properties["mem_clock_rate"] * properties["mem_bus_width"] * 2 / 1e6 / 8


# The names torch, NumPy and tl give to the types that have a peak rate.
_KINDS = {
    **dict.fromkeys(("float32", "fp32", "float"), ("float", 32)),
    **dict.fromkeys(("int32",), ("int", 32)),
    **dict.fromkeys(("float16", "fp16", "half"), ("float", 16)),
    **dict.fromkeys(("bfloat16", "bf16"), ("bfloat", 16)),
    **dict.fromkeys(("int16",), ("int", 16)),
    **dict.fromkeys(("int8", "uint8"), ("int", 8)),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "fp8e4nv", "fp8e5"), ("float", 8)),
}


def _kind(dtype: Any) -> tuple[str, int]:
    """Kind and width: ("float", 16), ("int", 8)."""
    name = str(dtype).rpartition(".")[2]
    if name not in _KINDS:
        raise RuntimeError(f"no peak rate is known for {dtype}")
    return _KINDS[name]


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Peak of the matrix units in TFLOP/s at `clock_rate` kHz: four sub-cores in each multiprocessor."""
    properties, capability = _properties(device)
    kind, bits = _kind(dtype)
    if capability[0] >= 8:
        operations = {32: 256, 16: 512, 8: 1024}[bits]
    elif (kind, bits) == ("float", 16):
        operations = 256
    else:
        raise AssertionError(f"before compute capability 8.0 the matrix units take float16 only, not {dtype}")
    return properties["multiprocessor_count"] * 4 * clock_rate * operations * 1e-9


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Peak of the ordinary units in TFLOP/s at `clock_rate` kHz."""
    properties, capability = _properties(device)
    rates = {("float", 32): 32, ("float", 16): 64}
    if capability[0] >= 8:
        rates["bfloat", 16] = 64
    operations = rates.get(_kind(dtype))
    if operations is None:
        raise RuntimeError(f"no figure for {dtype} on a device of compute capability {capability}")
    return properties["multiprocessor_count"] * 4 * clock_rate * operations * 1e-9


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Ask nvidia-smi for attributes of the first GPU, such as `["clocks.current.sm"]`."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(x) for x in answer.strip().split(",")]


@contextlib.contextmanager
def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> Iterator[tuple[float, float]]:
    """Hold the first GPU at fixed clocks (MHz) inside the block; yields (tflops, gbps) it can reach at them."""

    def smi(*arguments: str) -> None:
        subprocess.run(["nvidia-smi", "-i", "0", *arguments], check=True, stdout=subprocess.DEVNULL)

    try:
        smi("-pm", "1")
        smi(f"--lock-gpu-clocks={ref_sm_clock},{ref_sm_clock}")
        smi(f"--lock-memory-clocks={ref_mem_clock},{ref_mem_clock}")
        sm_clock, mem_clock = nvsmi(["clocks.current.sm", "clocks.current.memory"])
        if abs(sm_clock - ref_sm_clock) > 10 or abs(mem_clock - ref_mem_clock) > 10:
            raise RuntimeError(f"the GPU runs at {sm_clock} and {mem_clock} MHz instead of {ref_sm_clock} "
                               f"and {ref_mem_clock}: it may not support these clocks")
        yield get_max_tensorcore_tflops("float16", sm_clock * 1e3), get_dram_gbps()
    finally:
        smi("-pm", "0")
        smi("-rgc")
        smi("-rmc")


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
