"""From a new process to the first result of a kernel: with a bundle, with a warm cache, with a cold one.

    python benchmarks/bundle_start.py                    # on the CPU, with NumPy
    python benchmarks/bundle_start.py --device cuda      # on a GPU, with torch

Each figure is the least of several processes, in milliseconds, and after a slash their median. `launch` is the first
`kernel[grid](...)`; `load` is `tritium.load_bundle`; `process` is everything from the start of Python to the end of the
launch. The columns `CPU` are the processor's time, of load and launch together and of the whole process: a busy machine
changes it less.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

KERNELS = '''
import tritium as triton
import tritium.language as tl


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def softmax_kernel(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, i < n, other=-float("inf"))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(z + tl.program_id(0) * n + i, e / tl.sum(e, 0), i < n)


@triton.jit
def product_kernel(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))
'''

MANIFEST = '''
targets = ["{target}"]

[[kernel]]
name = "kernels:add_kernel"
signature = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024"

[[kernel]]
name = "kernels:softmax_kernel"
signature = "*fp32:16, *fp32:16, i32:16, 1024"

[[kernel]]
name = "kernels:product_kernel"
signature = "*fp32:16, *fp32:16, *fp32:16, 32"
'''

PROGRAM = '''
import json, os, sys, time
device, kernel, bundle = sys.argv[1:4]
if device == "cuda":
    import torch
    x, z = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
else:
    import numpy as np
    x, z = np.ones(1024, np.float32), np.zeros(1024, np.float32)
import tritium
import kernels
now, used = time.perf_counter(), time.process_time()
if bundle:
    tritium.load_bundle(bundle, missing="error")
loaded = time.perf_counter()
if kernel == "add":
    kernels.add_kernel[(1,)](x, x, z, 1024, BLOCK=1024)
elif kernel == "softmax":
    kernels.softmax_kernel[(1,)](x, z, 1024, BLOCK=1024)
else:
    kernels.product_kernel[(1,)](x, x, z, N=32)
if device == "cuda":
    torch.cuda.synchronize()
end = time.perf_counter()
started = float(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
print(json.dumps({"load": loaded - now, "launch": end - loaded, "CPU": time.process_time() - used,
                  "process": time.clock_gettime(time.CLOCK_BOOTTIME) - started, "process CPU": time.process_time(),
                  "LLVM": "llvmlite.binding" in sys.modules}))
'''


def run(folder: Path, device: str, kernel: str, bundle: str, cache: Path) -> dict:
    """The figures of one process."""
    environment = {**os.environ, "TRITIUM_CACHE_DIR": str(cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
                   "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM, device, kernel, bundle], env=environment,
                          capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def measure(folder: Path, device: str, kernel: str, how: str, times: int) -> list[dict]:
    """The figures of several processes."""
    bundle, cache = str(folder / "kernels.tbundle") if "bundle" in how else "", folder / f"cache-{kernel}"
    found = []
    for _ in range(times + 1):  # the first one fills a warm cache, and writes bytecode
        if "cold" in how or how == "bundle, empty cache":
            shutil.rmtree(cache, ignore_errors=True)
        found.append(run(folder, device, kernel, bundle, cache))
    return found[1:]


def main() -> None:
    """Print a table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--times", type=int, default=5)
    p.add_argument("--kernels", nargs="+", default=["add", "softmax", "product"])
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernels.py").write_text(KERNELS)
        target = "cpu"
        if args.device == "cuda":
            from tritium.backends.driver import driver

            target = f"cuda:{driver.active.get_current_target().arch}"
        (folder / "kernels.toml").write_text(MANIFEST.format(target=target))
        subprocess.run([sys.executable, "-m", "tritium", "bundle", "build", folder / "kernels.toml", "-o",
                        folder / "kernels.tbundle"], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        columns = ("load", "launch", "CPU", "process", "process CPU")
        print(f"| kernel | | {' | '.join(columns)} | LLVM |\n|{'---|' * (len(columns) + 3)}")
        for kernel in args.kernels:
            for how in ("bundle", "bundle, empty cache", "warm cache", "cold cache"):
                rows = measure(folder, args.device, kernel, how, args.times)
                figures = " | ".join(_least_and_median([row[name] for row in rows]) for name in columns)
                print(f"| {kernel} | {how} | {figures} | {'yes' if rows[0]['LLVM'] else 'no'} |", flush=True)


def _least_and_median(seconds: list[float]) -> str:
    return f"{1e3 * min(seconds):.0f} / {1e3 * statistics.median(seconds):.0f}"


if __name__ == "__main__":
    main()
