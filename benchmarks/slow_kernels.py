"""The kernels of docs/tutorial-slow-kernel.md on an NVIDIA GPU: each step measured, predicted, and the device's limit.

    python benchmarks/slow_kernels.py [--device H200]

A step that fails prints why. The limit is the time of DRAM or of the tensor cores alone.
"""

from __future__ import annotations

import argparse
import runpy
import statistics
import sys
from pathlib import Path

import gpu
import torch

from tritium.insight.explain.explanation import explained

KERNELS = runpy.run_path(str(Path(__file__).resolve().parents[1] / "examples" / "slow_kernels.py"))


def steps():
    """(step, kernel, grid, arguments, keywords) of each line of the table."""
    n = 8192
    x, out = (torch.zeros(n, n, device="cuda") for _ in range(2))
    yield ("transpose by columns", "transpose_by_columns", (n, n // 1024), (out, x, n, n), dict(BLOCK=1024))
    yield ("transpose by tiles", "transpose_by_tiles", (n // 64, n // 64), (out, x, n, n), dict(TILE=64))
    m = 4096
    a, b, c = (torch.randn(m, m, device="cuda").half() for _ in range(3))
    small, large = dict(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32), dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8)
    for step, k, blocks in (("product 32x32x32, num_stages=1", m, dict(small, num_stages=1)),
                            ("product 128x256x64, num_stages=1", m, dict(large, num_stages=1)),
                            ("product 128x256x64, num_stages=3", m, dict(large, num_stages=3)),
                            ("the same with rows of 4095", m - 1, dict(large, num_stages=3))):  # fmt: skip
        left = a if k == m else torch.randn(m, k, device="cuda").half()
        grid = m // blocks["BLOCK_M"], m // blocks["BLOCK_N"]
        yield step, "product", grid, (left, b, c, m, m, k, k, m, m), blocks
    rows = 16384
    x, out = (torch.zeros(rows, n, device="cuda") for _ in range(2))
    yield ("softmax in three passes", "softmax_in_passes", (rows,), (out, x, n), dict(BLOCK=256))
    yield ("softmax at once", "softmax_at_once", (rows,), (out, x, n), dict(BLOCK=n, num_warps=8))


def line(step, name, grid, args, meta, device):
    """One line of the table."""
    kernel = KERNELS[name]
    run = lambda: kernel[grid](*args, **meta)
    run()
    torch.cuda.synchronize()
    real = statistics.median(gpu.cold(run) for _ in range(9))
    found = explained(kernel, grid, args, meta, "cuda:90a", programs=16, devices=[device]).prediction
    limit = max(found.parts.get("DRAM", 0.0), found.parts.get("tensor cores", 0.0)) * 1e3
    return f"| {step} | {real:.4f} | {found.seconds * 1e3:.4f} | {limit:.4f} | {limit / real:.0%} | {found.bound} |"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="H200")
    args = parser.parse_args()
    print("| step | measured, ms | predicted, ms | limit, ms | of the limit | bound |\n|---|---|---|---|---|---|")
    for step in steps():
        try:
            print(line(*step, args.device), flush=True)
        except Exception as problem:
            print(f"| {step[0]} | {type(problem).__name__}: {problem}"[:300], flush=True)


if __name__ == "__main__":
    sys.exit(main())
