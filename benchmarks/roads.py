"""Host time of every road to a launch, on the CPU and on an NVIDIA GPU: tritium beside Triton, where that is installed.

    python benchmarks/roads.py [--device cpu|cuda|all] [--rounds 41] [--json out.json] [--quick]

A launch has three tensors, an int and a constant, and one program. Rivals take turns; on a GPU each turn begins with an
empty queue, so that only the host's part is timed. Figures are the best of all rounds, in microseconds. The last table
is a softmax that sizes its grid by occupancy, and does so anew in each call: GB/s as `do_bench` sees them, beside
torch's.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

CALLS = 200  # fewer than the driver queues before it makes the host wait
ROWS, COLUMNS = 4096, (1024, 4096, 8192)

KERNELS = """
import {module} as triton, {module}.language as tl
from {module}.runtime import driver


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


tuned = triton.autotune([triton.Config({{"BLOCK": 1024}})], key=["n"])(add)
chosen = triton.heuristics({{"BLOCK": lambda args: 1024}})(add)


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr,
                   num_stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=num_stages):
        columns = tl.arange(0, BLOCK)
        mask = columns < n_cols
        x = tl.load(in_ptr + row * in_stride + columns, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + columns, e / tl.sum(e, axis=0), mask=mask)


def figures(device):
    found = device.utils.get_device_properties(device.get_current_device())
    return [found[name] for name in ("multiprocessor_count", "max_num_regs", "max_shared_mem", "warpSize")]


def softmax(x, y, limits, num_warps=8, num_stages=4):
    programs, registers, shared, warp = limits
    n_rows, n_cols = x.shape
    block = triton.next_power_of_2(n_cols)
    kernel = softmax_kernel.warmup(y, x, x.stride(0), y.stride(0), n_rows, n_cols, BLOCK=block,
                                   num_stages=num_stages, num_warps=num_warps, grid=(1,))
    kernel._init_handles()
    occupancy = registers // max(kernel.n_regs * warp * num_warps, 1)
    occupancy = max(1, min(occupancy, shared // max(kernel.metadata.shared, 1)))
    kernel[(min(programs * occupancy, n_rows), 1, 1)](y, x, x.stride(0), y.stride(0), n_rows, n_cols, block, num_stages)
    return y
"""


def load(module, folder):
    """The kernels as one implementation of the language reads them."""
    path = Path(folder) / f"kernels_of_{module}.py"
    path.write_text(KERNELS.format(module=module))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def modules(device):
    """The implementations that run on a device."""
    return [name for name in ("tritium", "triton")[: 2 if device == "cuda" else 1] if importlib.util.find_spec(name)]


def driver_of(kernels, device):
    """The driver that launches on a device."""
    return kernels.driver.active if kernels.triton.__name__ == "triton" else kernels.driver.named(device)


def roads(kernels, device):
    """Road -> a function without arguments that goes it once."""
    import torch

    add, n = kernels.add, 64
    x, y, z = (torch.zeros(n, device=device) for _ in range(3))
    small = torch.zeros(4, 64, device=device)
    out, limits = torch.empty_like(small), figures(kernels, device)
    compiled = add[(1,)](x, y, z, n, BLOCK=1024)
    compiled._init_handles()
    run, kept, packed, function = compiled.run, compiled[(1, 1, 1)], compiled.packed_metadata, compiled.function
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    grid = lambda meta: (kernels.triton.cdiv(meta["n"], meta["BLOCK"]),)

    def attributes():
        compiled._init_handles()
        return compiled.n_regs, compiled.n_spills, compiled.metadata.shared

    return {
        "kernel[grid](...)": lambda: add[(1,)](x, y, z, n, BLOCK=1024),
        "kernel[grid function](...)": lambda: add[grid](x, y, z, n, BLOCK=1024),
        "kernel.run(..., grid=, warmup=False)": lambda: add.run(x, y, z, n, BLOCK=1024, grid=(1,), warmup=False),
        "kernel.warmup(...)": lambda: add.warmup(x, y, z, n, BLOCK=1024, grid=(1,)),
        "compiled[grid](...)": lambda: compiled[(1, 1, 1)](x, y, z, n, 1024),
        "compiled[grid], kept": lambda: kept(x, y, z, n, 1024),
        "compiled.run(...)": lambda: run(1, 1, 1, stream, function, packed, None, None, None, x, y, z, n, 1024),
        "_init_handles(), figures": attributes,
        "autotuned, grid function": lambda: kernels.tuned[grid](x, y, z, n),
        "heuristics, grid function": lambda: kernels.chosen[grid](x, y, z, n),
        "softmax by occupancy, 4 x 64": lambda: kernels.softmax(small, out, limits),
    }


def figures(kernels, device):
    """What a grid is sized by."""
    return kernels.figures(driver_of(kernels, device))


def host_times(loaded, device, rounds):
    """Road -> module -> microseconds of one call."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    every = {(road, name): go for name, kernels in loaded.items() for road, go in roads(kernels, device).items()}
    best = dict.fromkeys(every, float("inf"))
    for go in every.values():
        for _ in range(20):
            go()
    for _ in range(rounds):
        for key in random.sample(list(every), len(every)):
            go = every[key]
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                go()
            best[key] = min(best[key], (time.perf_counter() - start) / CALLS * 1e6)
    wait()
    table: dict = {}
    for (road, name), us in best.items():
        table.setdefault(road, {})[name] = us
    return table


def softmax_rates(loaded, device, quick):
    """Columns -> rival -> GB/s."""
    import torch

    from tritium.testing import do_bench

    table: dict = {}
    for columns in COLUMNS[:1] if quick else COLUMNS:
        x = torch.randn(ROWS, columns, device=device)
        rivals = {name: partial(kernels.softmax, x, torch.empty_like(x), figures(kernels, device))
                  for name, kernels in loaded.items()}
        rivals["torch"] = partial(torch.softmax, x, -1)
        for go in rivals.values():
            torch.testing.assert_close(go(), torch.softmax(x, -1), rtol=1e-4, atol=1e-6)
        moved = 2 * x.numel() * x.element_size()
        table[columns] = {name: moved / do_bench(go) / 1e6 for name, go in rivals.items()}
    return table


def show(device, host, rates):
    """Print both tables of a device."""
    print(f"\n{device}: host time of a call, us{'':17} tritium   triton   ratio")
    for road, times in host.items():
        ours, theirs = times["tritium"], times.get("triton")
        rest = f"{theirs:9.2f} {ours / theirs:7.2f}" if theirs else f"{'-':>9} {'-':>7}"
        print(f"  {road:44} {ours:9.2f}{rest}")
    print(f"{device}: softmax by occupancy, {ROWS} rows, GB/s")
    for columns, found in rates.items():
        print(f"  {columns:6} columns   " + "   ".join(f"{name} {rate:8.1f}" for name, rate in found.items()))


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda", "all"), default="all")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="only the narrowest softmax")
    args = parser.parse_args()
    import torch

    there = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if args.device != "all" and args.device not in there:
        parser.error(f"torch finds no {args.device} device here")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for device in there if args.device == "all" else [args.device]:
            loaded = {name: load(name, folder) for name in modules(device)}
            host = host_times(loaded, device, args.rounds)
            rates = softmax_rates(loaded, device, args.quick)
            found[device] = {"host_us": host, "softmax_gb_s": rates}
            show(device, host, rates)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
