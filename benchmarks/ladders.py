"""The ladders of docs/ladders.md: time of every rung, its part of the limit, and what explain says about it.

    python benchmarks/ladders.py                            # on the device that is there
    python benchmarks/ladders.py --device cpu --size 1024   # NumPy arrays or, with torch, tensors of the host
    python benchmarks/ladders.py --facts                    # explain's facts for an H100 or H200; no GPU is needed

The limit is measured: a copy by torch for the transpose, the framework's product (V0) for GEMM.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tritium as triton
from tritium.kernels.ladders import gemm, transpose

LADDERS = {"transpose": transpose.RUNGS, "gemm": gemm.RUNGS}


def device_there() -> str:
    """"cuda", "cpu" if torch has none, "numpy" without torch."""
    try:
        import torch
    except ImportError:
        return "numpy"
    return "cuda" if torch.cuda.is_available() else "cpu"


def milliseconds(fn) -> tuple[float, float, float]:
    """Median and the quantiles 0.2 and 0.8."""
    fn()
    ms, low, high = triton.testing.do_bench(fn, rep=400)
    return ms, low, high


def measured(name: str, device: str, size: int | None):
    """(rung, time, low, high, rate, unit, part of the limit) of each rung."""
    rungs, limit = LADDERS[name], None
    for rung in rungs:
        record = rung.record
        n = size or record.sizes["cuda" if device == "cuda" else "cpu"]
        if rung.name == "V1" and name == "gemm" and device != "cuda":
            n = min(n, 512)
        dtype = "float32" if name == "transpose" or device != "cuda" else "float16"
        arguments = record.make_arguments(n, dtype, device)
        work, unit = (record.bytes(*arguments) / 1e6, "GB/s") if record.bound == "memory" else (
            record.flops(*arguments) / 1e9, "TFLOP/s")  # fmt: skip
        if limit is None:
            copy = arguments[0].copy if device == "numpy" else arguments[0].clone
            best = milliseconds(copy if name == "transpose" else partial(record.wrapper, *arguments))
            limit = work / best[0]
        times = milliseconds(partial(record.wrapper, *arguments))
        rate = work / times[0]
        yield rung, *times, rate, unit, rate / limit


def facts(rung, dtype: type = np.float32, size: int = 256) -> dict:
    """What explain finds for an H100 or H200: sectors of a request and the fewest, bank passes, registers, bytes.

    `size` is small: the facts are of one request, one conversion, one thread.
    """
    record = rung.record
    arguments = record.make_arguments(size, np.dtype(dtype).name, "numpy")
    result = np.empty((size, size), dtype)
    grid, args, options = rung.launch(*arguments, result)
    kernel = rung.kernel
    if hasattr(kernel, "configs"):  # tuned: of its first configuration
        chosen = kernel.configs[0]
        options = {**options, **chosen.all_kwargs()}
        kernel, grid = kernel.fn, grid({**options})
    found = triton.explain(kernel, grid, *args, target="cuda:90a", programs=8, **options)
    return {
        "accesses": [(r.kind, "/".join(r.tensors), r.how, r.sectors / r.requests, r.minimum / r.requests)
                     for r in found.requests],
        "bank passes": [(s.side, s.passes, s.minimum) for s in found.shared],
        "registers": found.resources.registers, "shared": found.resources.shared,
    }  # fmt: skip


def show_facts(name: str) -> None:
    """Print the facts of a ladder."""
    for rung in LADDERS[name][1:]:
        known = facts(rung, np.float32 if name == "transpose" else np.float16)
        print(f"{name} {rung.name}: {rung.changed}")
        for kind, tensors, how, sectors, least in known["accesses"]:
            print(f"    {kind} {tensors} by {how}: {sectors:.0f} sectors in a request, {least:.0f} would do")
        for side, passes, least in known["bank passes"]:
            print(f"    shared memory, {side}: {passes} passes, {least} without bank conflicts")
        print(f"    {known['registers']} registers, {known['shared']} bytes of shared memory")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=device_there(), choices=["numpy", "cpu", "cuda"])
    parser.add_argument("--size", type=int)
    parser.add_argument("--only", choices=list(LADDERS))
    parser.add_argument("--facts", action="store_true")
    options = parser.parse_args()
    for name in [options.only] if options.only else LADDERS:
        if options.facts:
            show_facts(name)
            continue
        print(f"| {name} on {options.device} | ms (0.2 to 0.8) | rate | of the limit |\n|---|---|---|---|")
        for rung, ms, low, high, rate, unit, part in measured(name, options.device, options.size):
            print(f"| {rung.name}: {rung.changed} | {ms:.3f} ({low:.3f} to {high:.3f}) | {rate:.3g} {unit} | "
                  f"{part:.0%} |", flush=True)


if __name__ == "__main__":
    main()
