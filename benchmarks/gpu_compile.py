"""How long the first launch of a kernel takes with empty caches, and from a warm disk cache in a new process.

    python benchmarks/gpu_compile.py [--rounds 5] [--json out.json]

Triton and tritium run the same kernels in processes of their own, taking turns in random order, on the same machine.
Times are wall-clock milliseconds of compile, load and launch after torch and the language were imported and the GPU was
woken. Shown are medians of several processes, and how the medians and the fastest compare: some processes take half as
long again as others on the same machine. Both have run once before, so that files and Python's bytecode are at hand;
the driver keeps no machine code.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
WORKER = """
import sys, time
sys.path[:0] = [{here!r}, {root!r}]
import torch
torch.zeros(1, device="cuda"); torch.cuda.synchronize()
import gpu
k = gpu.SIDES[sys.argv[1]]
x, y, z = (torch.rand(1 << 20, device="cuda") for _ in range(3))
a, b, c = (torch.rand(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(3))
big = [torch.rand(1 << 20, device="cuda") for _ in range(3)]
launches = {{
    "add": lambda: k.add_kernel[(1024,)](x, y, z, 1 << 20, BLOCK=1024),
    "softmax": lambda: k.softmax_kernel[(1024,)](z, x, 1024, 1024, BLOCK=1024),
    "matmul": lambda: k.matmul_kernel[(64,)](a, b, c, 1024, 1024, 1024, 1024, 1, 1024, 1, 1024, 1, BLOCK_M=128,
                                             BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3),
    "add of 65536 elements a program": lambda: k.add_kernel[(16,)](*big, 1 << 20, BLOCK=65536),
}}
for name, launch in launches.items():
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    print(name, (time.perf_counter() - start) * 1e3, sep="=")
"""


def fresh(folder):
    """The environment of a process that begins with what a folder holds: Python's bytecode, and nothing else."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"), "CUDA_CACHE_DISABLE": "1"}


def measure(who, folder, state):
    """Milliseconds of each first launch in a new process, with the kernels that earlier ones of this state left."""
    cache = str(Path(folder) / state / who)
    env = {**fresh(folder), "TRITON_CACHE_DIR": cache, "TRITIUM_CACHE_DIR": cache}
    code = WORKER.format(here=str(HERE), root=str(HERE.parent))
    done = subprocess.run([sys.executable, "-c", code, who], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {name: float(ms) for name, ms in (line.rsplit("=", 1) for line in done.stdout.splitlines() if "=" in line)}


def of_each(choose, runs):
    """One figure for each kernel, of those of several runs."""
    return {name: choose(run[name] for run in runs) for name in runs[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    rivals, states, runs = ("triton", "tritium"), ("cold", "from disk"), {}
    with tempfile.TemporaryDirectory() as folder:
        for who in rivals:
            measure(who, folder, "thrown away")
        for number in range(options.rounds):
            for state in states:
                for who in random.sample(rivals, len(rivals)):
                    runs.setdefault((state, who), []).append(measure(who, folder, str(number)))
    figures = {f"{who}, {state}": of_each(statistics.median, runs[state, who]) for state in states for who in rivals}
    fastest = {who: of_each(min, runs["cold", who]) for who in rivals}
    print("| kernel | " + " | ".join(figures) + " | cold, tritium / Triton | of the fastest |")
    print("|---" * (len(figures) + 3) + "|")
    for name in figures["tritium, cold"]:
        ratio = figures["tritium, cold"][name] / figures["triton, cold"][name]
        best = fastest["tritium"][name] / fastest["triton"][name]
        times = " | ".join(f"{times[name]:.0f} ms" for times in figures.values())
        print(f"| {name} | {times} | {ratio:.2f} | {best:.2f} |")
    if options.json:
        Path(options.json).write_text(json.dumps({f"{who}, {state}": times for (state, who), times in runs.items()}))


if __name__ == "__main__":
    main()
