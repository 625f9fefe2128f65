"""Two versions of tritium side by side. On the CPU: launch cost, kernels, cold compile, start from the disk cache.

    git worktree add ../before main~1
    python benchmarks/checkouts.py ../before . --rounds 7
    python benchmarks/checkouts.py ../before . --device cuda     # the rows of gpu.py, on an NVIDIA GPU
    python benchmarks/checkouts.py ../before . --compile         # import, and compiling every kernel of compile_time.py

Every round runs each checkout in fresh processes, in turns; a figure is the least of all rounds, of `--compile` their
median. Rows within a few per cent of 1.00 are noise: `before` against itself shows how much.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from compile_time import CALLS, FIRST_CALL, IMPORT, LATER_CALL

# `rows_of` maps a name to the function that is timed.
MEASURE = """
import json, time, timeit
import numpy as np
import tritium as triton, tritium.language as tl
from tritium.kernels.vector_add import add_kernel
from tritium.kernels.softmax import softmax_kernel
from tritium.kernels.matmul import grouped_kernel
from tritium.kernels.attention import forward_kernel

@triton.jit
def row_sums(x, y, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        total += tl.load(x + tl.program_id(0) * n + i + tl.arange(0, BLOCK))
    tl.store(y + tl.program_id(0), tl.sum(total, 0))

@triton.jit
def halvings(x, y):
    n, steps = tl.load(x + tl.program_id(0)), 0
    while n > 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    tl.store(y + tl.program_id(0), steps)

f = lambda *shape: np.random.default_rng(0).standard_normal(shape, np.float32)
small, x, y, z = np.zeros(64, np.float32), f(1 << 20), f(1 << 20), f(1 << 20)
rows, s = f(512, 1000), np.zeros((512, 1000), np.float32)
a, b, c = f(512, 512), f(512, 512), np.zeros((512, 512), np.float32)
q, o, lse = f(2, 512, 64), np.zeros((2, 512, 64), np.float32), np.zeros(1024, np.float32)
wide, sums = f(256, 8192), np.zeros(256, np.float32)
odd, steps = np.arange(1, 4097), np.zeros(4096, np.int64)
mm = lambda block: grouped_kernel[(512 // block * (512 // block),)](
    a, b, c, 512, 512, 512, 512, 1, 512, 1, 512, 1, BLOCK_M=block, BLOCK_N=block, BLOCK_K=32, GROUP_M=8,
    ACTIVATION="", PRECISION="ieee")
rows_of = {
    "launch, NumPy": lambda: add_kernel[(1,)](small, small, small, 64, BLOCK=64),
    "vector add 2^20": lambda: add_kernel[(256,)](x, y, z, 1 << 20, BLOCK=4096),
    "softmax 512x1000": lambda: softmax_kernel[(512,)](rows, s, 1000, 1000, 1000, BLOCK=1024),
    "matmul 512, blocks of 32": lambda: mm(32),
    "matmul 512, blocks of 64": lambda: mm(64),
    "attention 2x512x64": lambda: forward_kernel[(8, 2)](q, q, q, o, lse, 0.125, 512, 512 * 64, D=64, BLOCK_M=64,
                                                         BLOCK_N=64, CAUSAL=False),
    "sums of rows, blocks of 16": lambda: row_sums[(256,)](wide, sums, 8192, BLOCK=16),
    "sums of rows, blocks of 128": lambda: row_sums[(256,)](wide, sums, 8192, BLOCK=128),
    "while, one number": lambda: halvings[(4096,)](odd, steps),
}
try:
    import torch
    t = torch.zeros(64)
    rows_of["launch, torch"] = lambda: add_kernel[(1,)](t, t, t, 64, BLOCK=64)
except ImportError:
    pass
found = {}
for name, run in rows_of.items():
    run(); run()
    once = timeit.timeit(run, number=3) / 3
    n = max(1, int(0.01 / once))
    found[name] = min(timeit.repeat(run, number=n, repeat=12)) / n * 1e6
print(json.dumps(found))
"""

# The rows of this folder's gpu.py, each in the best of its configurations.
ON_GPU = """
import json, statistics, sys
sys.modules["triton"] = None
import tritium
sys.path.insert(0, {here!r})
import gpu
side, found = gpu.SIDES["tritium"], {{}}
for make in gpu.GROUPS.values():
    for row in make():
        config, problems = gpu.best_config(row, side)
        call = lambda: row.launch(side, **config)
        found[row.name] = 1e3 * statistics.median(gpu.timed(call, 20) if row.long else gpu.cold(call) for _ in range(9))
print(json.dumps(found))
"""


def run(checkout: str, code: str, cache: str, **more: str) -> str:
    """What a program prints with the tritium of a checkout."""
    env = {**os.environ, "PYTHONPATH": os.path.abspath(checkout), "TRITIUM_CACHE_DIR": cache, **more}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # modules that are imported late would be compiled every time
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:  # a kernel is compiled from the text of its file
        file.write(code)
        file.flush()
        return subprocess.run([sys.executable, file.name], env=env, capture_output=True, text=True, check=True).stdout


def on_gpu(checkout: str, kept: str) -> dict[str, float]:
    """Microseconds of every row on a GPU, of one round."""
    cache = os.path.join(kept, os.path.abspath(checkout).strip(os.sep).replace(os.sep, "-"))
    return json.loads(run(checkout, ON_GPU.format(here=os.path.dirname(os.path.abspath(__file__))), cache))


def on_cpu(checkout: str, kept: str, threads: int) -> dict[str, float]:
    """Microseconds of every row on the CPU, of one round."""
    settings = {"TRITIUM_BACKEND": "cpu", "TRITIUM_NUM_THREADS": str(threads)}
    found = json.loads(run(checkout, MEASURE, kept, **settings))
    return {**found, **_compiling(checkout, ("vector add", "matmul"), settings)}


def compiling(checkout: str) -> dict[str, float]:
    """Microseconds of importing, and of compiling every kernel, of one round."""
    settings = {"TRITIUM_BACKEND": "cpu", "TRITIUM_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as empty:
        found = _two_times("import", run(checkout, IMPORT, empty))
    return {**found, **_compiling(checkout, tuple(CALLS), settings)}


def _compiling(checkout: str, names: tuple[str, ...], settings: dict[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as empty:  # FIRST_CALL twice: the second finds what the first has kept
            calls = ("second kernel", LATER_CALL), ("first ever", FIRST_CALL), ("from the cache", FIRST_CALL)
            for what, code in calls:
                cache = tempfile.mkdtemp(dir=empty) if what == "second kernel" else empty
                found |= _two_times(f"{what}, {name}", run(checkout, code.format(make=CALLS[name]), cache, **settings))
    return found


def _two_times(what: str, printed: str) -> dict[str, float]:
    processor, clock = (float(x) * 1e6 for x in printed.split())
    return {f"{what}, processor time": processor, f"{what}, clock": clock}


def main() -> None:
    """Measure in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    times: dict[str, dict[str, list[float]]] = {args.before: {}, args.after: {}}
    with tempfile.TemporaryDirectory() as kept:
        for k in range(args.rounds):
            for checkout in (args.before, args.after)[:: 1 if k % 2 else -1]:
                found = (compiling(checkout) if args.compile else on_gpu(checkout, kept) if args.device == "cuda"
                         else on_cpu(checkout, kept, args.threads))
                for name, time in found.items():
                    times[checkout].setdefault(name, []).append(time)
    figure, word = (statistics.median, "median") if args.compile else (min, "least")
    print(f"{args.device}, {args.threads} thread(s), {word} of {args.rounds} rounds, us\n")
    print(f"{'':44}{'before':>12}{'after':>12}{'ratio':>8}")
    for name in times[args.before]:
        before, after = (figure(times[checkout][name]) for checkout in (args.before, args.after))
        print(f"{name:44}{before:12.2f}{after:12.2f}{after / before:8.2f}")


if __name__ == "__main__":
    main()
