"""What a user waits for: import, cold compile, start from the disk cache, launch.

    python benchmarks/compile_time.py

Every figure is the least of several fresh processes. Cold compile is the CPU time of the first call after importing
tritium and NumPy, with an empty cache directory; the launch cost is host time of a 1-program kernel, beside torch.add.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Each makes `call`: a launch of one kernel on NumPy arrays.
CALLS = {
    "vector add": """
from tritium.kernels.vector_add import add_kernel
x = np.zeros(1024, np.float32)
call = lambda: add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
""",
    "softmax": """
from tritium.kernels.softmax import softmax_kernel
x = np.zeros((1, 1000), np.float32)
call = lambda: softmax_kernel[(1,)](x, x, 1000, 1000, 1000, BLOCK=1024)
""",
    "plain matmul": """
from tritium.kernels.matmul import plain_kernel
x = np.zeros((64, 64), np.float32)
call = lambda: plain_kernel[(1, 1)](x, x, x, 64, 64, 64, 64, 1, 64, 1, 64, 1, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64,
                                    PRECISION="ieee")
""",
    "matmul": """
from tritium.kernels.matmul import grouped_kernel
x = np.zeros((64, 64), np.float32)
call = lambda: grouped_kernel[(1,)](x, x, x, 64, 64, 64, 64, 1, 64, 1, 64, 1, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64,
                                    GROUP_M=8, ACTIVATION="", PRECISION="ieee")
""",
    "attention": """
from tritium.kernels.attention import forward_kernel
x, lse = np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
call = lambda: forward_kernel[(1, 1)](x, x, x, x, lse, 0.125, 64, 64 * 64, D=64, BLOCK_M=64, BLOCK_N=64, CAUSAL=False)
""",
    "layer norm": """
from tritium.kernels.layer_norm import forward_kernel
x, row, one = np.zeros((1, 1000), np.float32), np.zeros(1000, np.float32), np.zeros(1, np.float32)
call = lambda: forward_kernel[(1,)](x, row, row, x, one, one, 1000, 1000, 1e-5, BLOCK=1024)
""",
    "convolution": """
from tritium.kernels.conv2d import conv_kernel
x, w = np.zeros((1, 16, 8, 8), np.float32), np.zeros((16, 16, 3, 3), np.float32)
call = lambda: conv_kernel[(1, 1)](x, w, x, 1, 16, 8, 8, 16, 8, 8, 1, 1, KH=3, KW=3, BLOCK_M=64, BLOCK_N=16, BLOCK_K=16)
""",
}
FIRST_CALL = """
import time
import numpy as np
import tritium, tritium.language
{make}
start, wall = time.process_time(), time.perf_counter()
call()
print(time.process_time() - start, time.perf_counter() - wall)
"""
# The second kernel of a process: what is paid once (LLVM, the thread pool, the runtime's dot and tiles)
# is left out.
LATER_CALL = """
import time
import numpy as np
import tritium, tritium.language as tl
@tritium.jit
def first(x, n):
    i = tl.arange(0, 16)
    place = x + i[:, None] * 16 + i[None, :]
    tile = tl.load(place, mask=i[:, None] < n, other=0.0)
    tl.store(place, tl.dot(tile, tile), mask=i[:, None] < n)
first[(1,)](np.zeros(256, np.float32), 15)
{make}
start, wall = time.process_time(), time.perf_counter()
call()
print(time.process_time() - start, time.perf_counter() - wall)
"""
IMPORT = """
import time
start, wall = time.process_time(), time.perf_counter()
import tritium, tritium.language
print(time.process_time() - start, time.perf_counter() - wall)
"""
LAUNCH = """
import statistics, time
import torch
from tritium.kernels.vector_add import add_kernel
x, y, z = torch.randn(16), torch.randn(16), torch.empty(16)
run = add_kernel[(1,)]
def tritium(): run(x, y, z, 16, BLOCK=16)
def torch_add(): torch.add(x, y, out=z)
def time_of(fn, n=2000):
    start = time.perf_counter()
    for _ in range(n): fn()
    return (time.perf_counter() - start) / n
time_of(tritium), time_of(torch_add)
pairs = [(time_of(tritium), time_of(torch_add)) for _ in range(15)]
print(*map(statistics.median, zip(*pairs)))
"""


def fresh(code: str, cache: str, **environment: str) -> list[float]:
    """Run code in a new process; the numbers it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": cache, **environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules that are imported late would be compiled every time
    # A kernel's text is read from its file, so the code must be one.
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([sys.executable, file.name], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return [float(x) for x in done.stdout.split()]


def least(code: str, repeats: int, warm: bool) -> list[float]:
    """The least of several runs; with `warm` the cache of an earlier run is there."""
    with tempfile.TemporaryDirectory() as cache:
        if warm:
            fresh(code, cache)
        runs = []
        for i in range(repeats):
            runs.append(fresh(code, cache if warm else os.path.join(cache, str(i))))
    return [min(values) for values in zip(*runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", default=str(ROOT / "build" / "compile_time.json"))
    options = parser.parse_args()
    results = {"import": least(IMPORT, options.repeats, warm=True)}
    for name, make in CALLS.items():
        for label, code, warm in (("first kernel, cold", FIRST_CALL, False), ("cold", LATER_CALL, False),
                                  ("from disk cache", LATER_CALL, True)):
            results[f"{name}: {label}"] = least(code.format(make=make), options.repeats, warm)
    with tempfile.TemporaryDirectory() as cache:
        ours, torch_add = fresh(LAUNCH, cache, OMP_NUM_THREADS="1", TRITIUM_NUM_THREADS="1")
    show(results, ours, torch_add)
    Path(options.json).parent.mkdir(parents=True, exist_ok=True)
    content = {"cpu_and_wall_seconds": results, "launch_seconds": {"tritium": ours, "torch.add": torch_add}}
    Path(options.json).write_text(json.dumps(content, indent=1))
    print(f"written to {options.json}")


def show(results: dict[str, list[float]], ours: float, torch_add: float) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="milliseconds")
    for column in ("what", "CPU time", "wall time"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, (cpu, wall) in results.items():
        table.add_row(name, f"{cpu * 1e3:.1f}", f"{wall * 1e3:.1f}")
    console = Console()
    console.print(table)
    console.print(f"launch: {ours * 1e6:.2f} us, torch.add: {torch_add * 1e6:.2f} us, ratio {ours / torch_add:.2f}")


if __name__ == "__main__":
    main()
