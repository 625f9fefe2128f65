"""Host time of a launch on an NVIDIA GPU: tritium beside torch.add(out=) and Triton, and the first kernel of a process.

    python benchmarks/gpu_launch.py [--json out.json] [--rounds 41]

A launch has four arguments and one program. Rivals take turns in random order; each turn launches 200 times with an
empty queue, so that only the host's part is timed. Figures are medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

LAUNCHES = 200  # fewer than the driver queues before it makes the host wait

FIRST = """
import sys, time
sys.path.insert(0, {root!r})
import torch
x, y, z = (torch.zeros(64, device="cuda") for _ in range(3))
torch.cuda.synchronize()
start = time.perf_counter()
import {module} as triton, {module}.language as tl
imported = time.perf_counter()

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)

begin = time.perf_counter()
add[(1,)](x, y, z, 64, BLOCK=1024)
torch.cuda.synchronize()
print("TIMES", 1e3 * (imported - start), 1e3 * (time.perf_counter() - begin))
"""

KERNEL = """
import {module} as triton, {module}.language as tl

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)
"""


def kernel(module, folder):
    """The kernel as one implementation of the language reads it."""
    import importlib.util

    path = Path(folder) / f"kernel_of_{module}.py"
    path.write_text(KERNEL.format(module=module))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.add, loaded.triton.cdiv


def present(module):
    """Whether an implementation can be imported."""
    from importlib.util import find_spec

    return find_spec(module) is not None


def rivals(folder):
    """Name -> a function of a count that launches so often."""
    import torch

    x, y, z = (torch.zeros(64, device="cuda") for _ in range(3))
    n = 64

    def torch_add(count):
        for _ in range(count):
            torch.add(x, y, out=z)

    found = {"torch.add(out=)": torch_add}
    for module in filter(present, ("tritium", "triton")):
        add, cdiv = kernel(module, folder)

        def over_tuple(count, add=add):
            for _ in range(count):
                add[(1,)](x, y, z, n, BLOCK=1024)

        def over_function(count, add=add, cdiv=cdiv):
            for _ in range(count):
                add[lambda meta: (cdiv(meta["n"], meta["BLOCK"]),)](x, y, z, n, BLOCK=1024)

        found[f"{module}, tuple grid"], found[f"{module}, grid function"] = over_tuple, over_function
    if present("tritium"):
        found["driver alone (ctypes)"] = driver_alone(kernel("tritium", folder)[0], x, y, z, n)
    return found


def driver_alone(add, x, y, z, n):
    """cuLaunchKernel with everything prepared: what no launcher can be faster than, and 0.7 us of ctypes."""
    import ctypes

    from tritium.backends.nvptx.runtime import cuda

    compiled = add[(1,)](x, y, z, n, BLOCK=1024)
    slots = [ctypes.c_uint64(v) for v in (x.data_ptr(), y.data_ptr(), z.data_ptr(), n)]
    pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, slots))
    launch, function = cuda.function("cuLaunchKernel"), ctypes.c_void_p(compiled.function)
    threads, shared = 32 * compiled.metadata.num_warps, compiled.metadata.shared

    def run(count, kept=(slots, compiled)):  # the pointers alone do not keep what they point to
        for _ in range(count):
            launch(function, 1, 1, 1, threads, 1, 1, shared, None, pointers, None)

    return run


def host_times(rounds):
    """Name -> median microseconds of one launch."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        runs = rivals(folder)
        times = {name: [] for name in runs}
        for run in runs.values():
            run(LAUNCHES)
        for _ in range(rounds):
            for name in random.sample(list(runs), len(runs)):
                torch.cuda.synchronize()
                start = time.perf_counter()
                runs[name](LAUNCHES)
                times[name].append((time.perf_counter() - start) / LAUNCHES * 1e6)
    torch.cuda.synchronize()
    return {name: statistics.median(found) for name, found in times.items()}


def first_times():
    """Module -> milliseconds: import, then compiling the first kernel, then the same from the disk in new processes."""
    found = {}
    for module in filter(present, ("tritium", "triton")):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "first.py"
            script.write_text(FIRST.format(module=module, root=str(HERE.parent)))
            _first(script, folder, "thrown away")  # leaves Python's bytecode
            runs = [_first(script, folder, "kept") for _ in range(6)]
        found[module] = {"import": statistics.median(run[0] for run in runs[1:]), "cold": runs[0][1],
                         "from disk": statistics.median(run[1] for run in runs[1:])}  # fmt: skip
    return found


def _first(script, folder, cache):
    from gpu_compile import fresh

    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                          env={**fresh(folder), "TRITON_CACHE_DIR": str(Path(folder) / cache)})  # fmt: skip
    line = next((line for line in done.stdout.splitlines() if line.startswith("TIMES")), None)
    if line is None:
        raise RuntimeError(f"the first launch failed:\n{done.stderr}")
    return tuple(map(float, line.split()[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=41)
    args = parser.parse_args()
    host, first = host_times(args.rounds), first_times()
    base = host["torch.add(out=)"]
    print("host time of a launch, us (ratio to torch.add)")
    for name, us in sorted(host.items(), key=lambda item: item[1]):
        print(f"  {name:28} {us:7.2f}  {us / base:5.2f}")
    print("first kernel of a process, ms          import     cold  from disk")
    for module, ms in first.items():
        print(f"  {module:34} {ms['import']:8.1f} {ms['cold']:8.1f} {ms['from disk']:10.1f}")
    if args.json:
        Path(args.json).write_text(json.dumps({"host_us": host, "first_ms": first}, indent=1))


if __name__ == "__main__":
    main()
