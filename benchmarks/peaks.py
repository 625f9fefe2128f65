"""What an NVIDIA GPU reaches: the measured figures of `tritium/insight/facts/devices.py`, in about half a minute.

    python benchmarks/peaks.py [--json peaks.json]

Each line is one figure. One that fails prints why, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import gpu
import torch

import tritium as triton
import tritium.language as tl


@triton.jit
def empty_kernel(x):
    """Do nothing."""


@triton.jit
def chase_kernel(x, out, n):
    """Load along a chain: each load needs the one before."""
    i = 0
    for _ in range(n):
        i = tl.load(x + i)
    tl.store(out, i)


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    """Copy."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def read_kernel(x, out, BLOCK: tl.constexpr):
    """Read, and store one number of each program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i)))


@triton.jit
def again_kernel(x, out, size, times, SHARED: tl.constexpr, BLOCK: tl.constexpr):
    """Read `size` elements many times over: all programs the same ones, or each some of its own."""
    total = tl.zeros((BLOCK,), tl.float32)
    first = 0 if SHARED else tl.program_id(0) * size
    for _ in range(times):
        for k in range(0, size, BLOCK):
            start = (k + tl.program_id(0) * BLOCK * 17) % size if SHARED else k
            total += tl.load(x + first + start + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def atomic_kernel(out):
    """Add to one place."""
    tl.atomic_add(out, 1.0)


@triton.jit
def compute_kernel(out, times, WHAT: tl.constexpr, BLOCK: tl.constexpr):
    """Chains of one operation in registers."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WHAT == "int":
        n = i
        for _ in range(times):
            for _ in tl.static_range(16):
                n = (n ^ i) + i
        tl.store(out + i, n.to(tl.float32))
    else:
        x = i * 1e-9
        for _ in range(times):
            for _ in tl.static_range(16):
                x = tl.math.exp2(x) if WHAT == "exp2" else x * 0.999 + 0.001
        tl.store(out + i, x)


def cold(run, count=15):
    """Seconds of one launch with a cold L2 cache, the median."""
    run()
    return statistics.median(gpu.cold(run) for _ in range(count)) / 1e3


def warm(run, count=50, rounds=9):
    """Seconds of a launch among many."""
    run()
    return statistics.median(gpu.timed(run, count) for _ in range(rounds)) / 1e3


def chain(length, stride):
    """Indices that lead around in steps of `stride` elements."""
    hops = length // stride
    order = torch.randperm(hops - 1, device="cuda") + 1
    order = torch.cat([torch.zeros(1, dtype=order.dtype, device="cuda"), order]) * stride
    x = torch.zeros(length, dtype=torch.int32, device="cuda")
    x[order] = torch.roll(order, -1).to(torch.int32)
    return x


def latency(nbytes, hops=2000):
    """Seconds of one dependent load in so much memory."""
    x, out = chain(nbytes // 4, 64), torch.zeros(1, dtype=torch.int32, device="cuda")
    run = lambda n: warm(lambda: chase_kernel[(1,)](x, out, n, num_warps=1), 1, 5)
    return (run(2 * hops) - run(hops)) / hops


def figures():
    """(name, function that gives the figure, unit) of each."""
    n = 1 << 28
    x, out = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
    sms = torch.cuda.get_device_properties(0).multi_processor_count

    def rate(run, amount, timer=warm, **how):
        return lambda: amount / timer(run, **how)

    yield "empty launch, cold", lambda: cold(lambda: empty_kernel[(1,)](x)), "s"
    yield "empty launch, one of many", lambda: warm(lambda: empty_kernel[(1,)](x), 500), "s"
    for programs in (sms * 16, sms * 160, sms * 1600):
        yield (f"empty launch of {programs} programs, one of many",
               lambda programs=programs: warm(lambda: empty_kernel[(programs,)](x), 200), "s")
    yield "latency of L2", lambda: latency(8 << 20), "s"
    yield "latency of DRAM", lambda: latency(1 << 30), "s"
    copy = lambda: copy_kernel[(n // 1024,)](x, out, n, BLOCK=1024)
    yield "copy, 1 GiB", rate(copy, 8 * n, cold), "B/s"
    for block, warps in ((4096, 4), (16384, 16)):
        read = lambda block=block, warps=warps: read_kernel[(n // block,)](x, out, BLOCK=block, num_warps=warps)
        yield f"read, 1 GiB in blocks of {block}", rate(read, 4 * n, cold), "B/s"
    for mib in (8, 32):
        size = mib << 18
        run = lambda size=size: again_kernel[(sms * 8,)](x, out, size, 2, SHARED=True, BLOCK=4096, num_warps=4)
        yield f"read from L2, {mib} MiB", rate(run, 2 * 4 * size * sms * 8, count=3), "B/s"
    run = lambda: again_kernel[(sms * 4,)](x, out, 4096, 400, SHARED=False, BLOCK=1024, num_warps=4)
    yield "read from L1, 16 KiB a program", rate(run, 400 * 4 * 4096 * sms * 4, count=5), "B/s"
    yield "atomic add to one place", rate(lambda: atomic_kernel[(1 << 18,)](out, num_warps=1), 1 << 18, count=3), "1/s"
    for what in ("fma", "exp2", "int"):
        run = lambda what=what: compute_kernel[(sms * 64,)](out, 64, WHAT=what, BLOCK=1024, num_warps=4)
        each = {"fma": 2, "exp2": 1, "int": 2}[what]
        yield f"{what}, in registers", rate(run, each * 16 * 64 * 1024 * sms * 64, count=10), "op/s"
    yield from products()


def products():
    """Products: one launch after a pause, a few, and as many as heat the device."""
    rows = {row.name: row for row in gpu.rows_matmul()}
    for name in ("matmul f16 4096", "matmul f16 8192", "matmul fp8 8192"):
        work = rows[name].work
        run = lambda row=rows[name]: row.launch(gpu.SIDES["tritium"], **row.configs[0])

        def alone(run=run, work=work):
            times = []
            run()
            for _ in range(7):
                torch.cuda.synchronize()
                time.sleep(0.2)
                times.append(gpu.cold(run) / 1e3)
            return work / statistics.median(times)

        yield f"{name}, one launch after a pause", alone, "op/s"
        yield f"{name}, 20 launches", lambda run=run, work=work: work / warm(run, 20), "op/s"
        yield f"{name}, for 2 s", lambda run=run, work=work: work / lasting(run, 2.0), "op/s"


def lasting(run, seconds):
    """Seconds of a launch at the end of a long run."""
    each = warm(run, 3, 3)
    gpu.timed(run, max(1, int(seconds / each)))
    return gpu.timed(run, max(1, int(seconds / each / 4))) / 1e3


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    out = {"device": torch.cuda.get_device_name(0)}
    for name, figure, unit in figures():
        try:
            out[name] = figure()
            print(f"{name:<48} {out[name]:12.4g} {unit}", flush=True)
        except Exception as problem:
            out[name] = f"{type(problem).__name__}: {problem}"[:300]
            print(f"{name:<48} {out[name]}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(out, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
