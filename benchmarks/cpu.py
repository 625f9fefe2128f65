"""The CPU figures: tritium beside torch (and numba where it is installed), in one run, taking turns.

    python benchmarks/cpu.py                 # one thread, then two; a table and cpu.json
    python benchmarks/cpu.py --only softmax --threads 1 --seconds 2
    python benchmarks/cpu.py --threads 1 --processor-time        # beside other work: what the processor spends
    python benchmarks/cpu.py --threads 16 --beside-torch         # calls between operations of torch
    python benchmarks/cpu.py --own-caches    # each sample after calls of the same rival, not of the other

Absolute times depend on the machine and its neighbours; the ratios are taken in one run and are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


class Row(NamedTuple):
    """One line of the table; `make()` returns the functions that compete, by name."""

    name: str
    make: Callable[[], dict[str, Callable]]
    work: float = 0.0
    unit: str = ""
    goal: str = ""


def vector_add(n):
    import torch

    from tritium.kernels.vector_add import add_kernel

    x, y, out = torch.randn(n), torch.randn(n), torch.empty(n)
    block = 4096 if n >= 1 << 20 else 1024
    grid = (-(-n // block),)
    rivals = {"tritium": lambda: add_kernel[grid](x, y, out, n, BLOCK=block), "torch": lambda: torch.add(x, y, out=out)}
    return with_numba(rivals, lambda numba: numba_add(numba, x, y, out))


def numba_add(numba, x, y, out):
    @numba.njit(fastmath=True)
    def add(x, y, out):
        for i in range(x.size):
            out[i] = x[i] + y[i]

    arrays = (x.numpy(), y.numpy(), out.numpy())
    return lambda: add(*arrays)


def with_numba(rivals, make):
    """The rivals, and numba's version where numba is installed."""
    try:
        import numba
    except ImportError:
        return rivals
    return {**rivals, "numba": make(numba)}


def softmax(rows, cols):
    import torch

    import tritium as triton
    from tritium.kernels.softmax import softmax_kernel

    x, out = torch.randn(rows, cols), torch.empty(rows, cols)
    block = triton.next_power_of_2(cols)
    rivals = {"tritium": lambda: softmax_kernel[(rows,)](out, x, cols, cols, cols, BLOCK=block),
              "torch": lambda: torch.softmax(x, 1, out=out)}
    return with_numba(rivals, lambda numba: numba_softmax(numba, x, out))


def numba_softmax(numba, x, out):
    import math

    @numba.njit(fastmath=True)
    def run(x, out):
        for i in range(x.shape[0]):
            top = -math.inf
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            total = 0.0
            for j in range(x.shape[1]):
                out[i, j] = math.exp(x[i, j] - top)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total

    arrays = (x.numpy(), out.numpy())
    return lambda: run(*arrays)


def layer_norm(rows, cols):
    import torch

    import tritium as triton
    from tritium.kernels.layer_norm import forward_kernel

    x, out = torch.randn(rows, cols), torch.empty(rows, cols)
    weight, bias, mean, rstd = torch.randn(cols), torch.randn(cols), torch.empty(rows), torch.empty(rows)
    block = triton.next_power_of_2(cols)
    return {"tritium": lambda: forward_kernel[(rows,)](x, weight, bias, out, mean, rstd, cols, cols, 1e-5, BLOCK=block),
            "torch": lambda: torch.native_layer_norm(x, [cols], weight, bias, 1e-5)}


def matmul(n, dtype):
    import torch

    import tritium as triton
    from tritium.kernels.matmul import CPU_CONFIGS, grouped_kernel

    a, b = (torch.randn(n, n).to(getattr(torch, dtype)) for _ in range(2))
    out = torch.empty(n, n, dtype=a.dtype)
    tuned = triton.autotune(CPU_CONFIGS, key=["M", "N", "K"])(grouped_kernel)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)
    args = (a, b, out, n, n, n, n, 1, n, 1, n, 1)
    return {"tritium": lambda: tuned[grid](*args, ACTIVATION="", PRECISION="ieee"),
            "torch": lambda: torch.mm(a, b, out=out)}


def matmul_bytes(n):
    import cpu_kernels
    import torch

    a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8) for _ in range(2))
    out, rows, columns = torch.empty(n, n, dtype=torch.int32), min(n, 256), min(n, 256)
    while rows > 64 and (n // rows) * (n // columns) < torch.get_num_threads():  # a tile for each thread
        rows, columns = (rows // 2, columns) if columns < rows else (rows, columns // 2)
    run = cpu_kernels.bytes_kernel[(n // rows, n // columns)]
    return {"tritium": lambda: run(a, b, out, n, n, BLOCK_M=rows, BLOCK_N=columns, BLOCK_K=min(n, 512)),
            "torch": lambda: torch._int_mm(a, b, out=out)}


def weights_of_bytes(m, n):
    import cpu_kernels
    import torch

    x, scale, out = torch.randn(m, n), torch.rand(n), torch.empty(m, n)
    weight = torch.randint(-128, 128, (n, n), dtype=torch.int8)
    # torch._weight_int8pack_mm takes tens of times as long for float32 as this does
    columns = 128 if torch.get_num_threads() <= n // 128 else 64
    run = cpu_kernels.weights_kernel[(1, n // columns)]
    return {"tritium": lambda: run(x, weight, scale, out, n, n, BLOCK_M=m, BLOCK_N=columns, BLOCK_K=128),
            "torch": lambda: torch.mm(x, weight.float(), out=out).mul_(scale)}


def collected(name, size):
    """A function of the collection, with what it allocates and checks in each call."""
    import torch

    from tritium.kernels.registry import find

    kernel = find(name)
    arguments = kernel.make_arguments(size, "float32", "cpu")
    return {"tritium": lambda: kernel.wrapper(*arguments), "torch": lambda: kernel.rival(torch, *arguments)}


def attention(heads, n, d, dtype):
    import torch

    from tritium.kernels.attention import forward_kernel

    q, k, v = (torch.randn(heads, n, d).to(getattr(torch, dtype)) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(heads, n)
    run = forward_kernel[(n // 64, heads)]
    return {"tritium": lambda: run(q, k, v, out, lse, d**-0.5, n, n * d, D=d, BLOCK_M=64, BLOCK_N=64, CAUSAL=False),
            "torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)}


def launch():
    import torch

    from tritium.kernels.vector_add import add_kernel

    x, y, out = torch.randn(1), torch.randn(1), torch.empty(1)
    run = add_kernel[(1,)]
    return {"tritium": lambda: run(x, y, out, 1, BLOCK=16), "torch": lambda: torch.add(x, y, out=out)}


ROWS = [
    Row("vector add 16K", lambda: vector_add(1 << 14), 12 << 14, "GB/s", "> torch"),
    Row("vector add 4M", lambda: vector_add(1 << 22), 12 << 22, "GB/s", "within 10 % of memory"),
    Row("softmax 64x1024", lambda: softmax(64, 1024), 8 * 64 * 1024, "GB/s", ">= 1.25x torch"),
    Row("softmax 64x1000", lambda: softmax(64, 1000), 8 * 64 * 1000, "GB/s", ">= 1.25x torch"),
    Row("softmax 64x781", lambda: softmax(64, 781), 8 * 64 * 781, "GB/s", ">= 1.25x torch"),
    Row("layer norm 64x1024", lambda: layer_norm(64, 1024), 8 * 64 * 1024, "GB/s", ">= 1.4x torch"),
    *(Row(f"matmul {n}^3 float32", lambda n=n: matmul(n, "float32"), 2 * n**3, "GFLOP/s", ">= torch")
      for n in (64, 128, 256, 512, 1024, 2048)),
    Row("matmul 256^3 float16", lambda: matmul(256, "float16"), 2 * 256**3, "GFLOP/s", ">= 100x torch"),
    Row("matmul 256^3 bfloat16", lambda: matmul(256, "bfloat16"), 2 * 256**3, "GFLOP/s", ">= 100x torch"),
    *(Row(f"matmul {n}^3 int8", lambda n=n: matmul_bytes(n), 2 * n**3, "GOP/s", ">= torch")
      for n in (64, 128, 256, 512, 1024, 2048)),
    *(Row(f"int8 weights {m}x1024x1024", lambda m=m: weights_of_bytes(m, 1024), 2 * m * 1024**2, "GFLOP/s", ">= torch")
      for m in (16, 128)),
    Row("convolution 3x3, 16 channels", lambda: collected("conv2d", 56), goal=">= torch"),
    Row("softmax 1024x1024, persistent", lambda: collected("softmax_persistent", 1024), 8 << 20, "GB/s", ">= torch"),
    Row("layer norm 1024x1024, backward", lambda: collected("layer_norm_backward", 1024), goal=">= torch"),
    Row("sum 1M", lambda: collected("sum", 1 << 20), 4 << 20, "GB/s", ">= torch"),
    Row("attention 2x512x64 float32", lambda: attention(2, 512, 64, "float32"), 4 * 2 * 512 * 512 * 64, "GFLOP/s",
        ">= 1.6x torch"),
    Row("attention 2x512x64 float16", lambda: attention(2, 512, 64, "float16"), 4 * 2 * 512 * 512 * 64, "GFLOP/s",
        ">= 3x torch"),
    Row("launch, 3 tensors", launch, goal="<= torch.add"),
]


def clock_of(processor_time: bool, beside_torch: bool, own_caches: bool = False):
    """What times calls: the processor's time, or the time that passes; with an operation of torch before each call, or
    with calls before each sample.
    """
    import time

    import torch

    from tritium.tools.bench.measuring import HostClock

    class BetweenOperations(HostClock):
        """Each call follows an operation of torch, which is not timed."""

        def sample(self, fn, calls):
            spent = 0.0
            for _ in range(calls):
                torch.exp(x)
                start = self.now()
                fn()
                spent += self.now() - start
            return spent / calls

    class AfterItself(HostClock):
        """Each sample follows 20 ms of calls that are not timed: a rival finds in the caches what it left itself."""

        def sample(self, fn, calls):
            end = time.perf_counter() + 20e-3
            while time.perf_counter() < end:
                fn()
            return super().sample(fn, calls)

    x = torch.randn(1 << 18)
    kind = BetweenOperations if beside_torch else AfterItself if own_caches else HostClock
    return kind(now=time.thread_time if processor_time else time.perf_counter)


def measure(threads: int, only: str, seconds: float, clock) -> list[dict]:
    """Every row with `threads` threads, in this process."""
    import statistics

    import torch

    import tritium
    from tritium.tools.bench.measuring import measure as take_turns

    torch.set_num_threads(threads)
    tritium.set_num_threads(threads)
    results = []
    for row in ROWS:
        if only in row.name:
            samples = take_turns(row.make(), clock, seconds)
            times = {name: statistics.quantiles(found, n=4)[0] for name, found in samples.items()}
            results.append({"name": row.name, "threads": threads, "goal": row.goal, "unit": row.unit,
                            "seconds": times, "rate": row.work / times["tritium"] / 1e9 if row.work else None})
            print(f"{threads} thread(s): {row.name}", file=sys.stderr)
    return results


def in_fresh_process(threads: int, options: argparse.Namespace) -> list[dict]:
    """Thread counts are settled when libraries start, so each has a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TRITIUM_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--worker", str(threads), "--only", options.only, "--seconds",
               str(options.seconds), *(["--processor-time"] if options.processor_time else []),
               *(["--beside-torch"] if options.beside_torch else []),
               *(["--own-caches"] if options.own_caches else [])]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True, text=True)
    return json.loads(done.stdout)


def show(results: list[dict]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    rivals = list(dict.fromkeys(name for result in results for name in result["seconds"]))
    table = Table(title="CPU: time of one call, and how many times faster than torch")
    for column in ("work", "threads", *rivals, "vs torch", "rate", "goal"):
        table.add_column(column, justify="left" if column in ("work", "goal") else "right")
    for result in results:
        times = result["seconds"]
        cells = [f"{times[name] * 1e6:.1f} us" if name in times else "" for name in rivals]
        rate = f"{result['rate']:.1f} {result['unit']}" if result["rate"] else ""
        table.add_row(result["name"], str(result["threads"]), *cells, f"{times['torch'] / times['tritium']:.2f}x", rate,
                      result["goal"])
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent on each row")
    parser.add_argument("--beside-torch", action="store_true", help="time calls between operations of torch")
    parser.add_argument("--own-caches", action="store_true", help="untimed calls of the same rival before each sample")
    parser.add_argument("--processor-time", action="store_true", help="what the processor spends on one thread")
    parser.add_argument("--json", default=str(ROOT / "build" / "cpu.json"), help="where to write the results")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        clock = clock_of(options.processor_time, options.beside_torch, options.own_caches)
        print(json.dumps(measure(options.worker, options.only, options.seconds, clock)))
        return
    results = [result for threads in options.threads for result in in_fresh_process(threads, options)]
    show(results)
    Path(options.json).parent.mkdir(parents=True, exist_ok=True)
    machine = {"machine": platform.machine(), "processors": os.cpu_count(), "python": platform.python_version()}
    Path(options.json).write_text(json.dumps({**machine, "results": results}, indent=1))
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
