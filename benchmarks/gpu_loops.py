"""Rows in loops, with a reduction in each iteration, as people write them first: Triton and tritium with the same
configurations, side by side in one run on an NVIDIA GPU.

    python benchmarks/gpu_loops.py [--rows columns,matvec] [--json out.json] [--rounds 7]

Timed as `gpu.py` does, each configuration in a row of its own: its tile and `/` its warps.
"""

from __future__ import annotations

import sys

import gpu
import torch
import torch.nn.functional as F
from gpu import Row, rand

SIDES = gpu.sides("gpu_loop_kernels")
BF16 = torch.bfloat16
NARROW = ((512, 4), (1024, 4), (2048, 8))
WIDE = ((1024, 4), (2048, 4), (4096, 8), (8192, 8))


def rows(name, out, args, programs, reference, bytes_, tiles, tolerance=1e-3):
    """A row for each configuration: (BLOCK, warps), or (BLOCK_M, BLOCK_N, warps). `programs` of a configuration."""
    kernel = f"{name.split()[0].replace('-', '_')}_kernel"
    for *blocks, warps in tiles:
        config = dict(zip(("BLOCK",) if len(blocks) == 1 else ("BLOCK_M", "BLOCK_N"), blocks), num_warps=warps)

        def launch(k, **config):
            getattr(k, kernel)[(programs(config),)](out, *args, **config)
            return out

        tile = "x".join(map(str, blocks))
        yield Row(f"{name} {tile}/{warps}", launch, reference, bytes_, "GB/s", [config], tolerance)


def cross_entropy():
    for m, n in ((4096, 32000), (4096, 50257), (1024, 128256)):
        x, labels = rand(m, n, dtype=BF16), torch.randint(0, n, (m,), device="cuda")
        yield from rows(f"cross-entropy bf16 {m}x{n}", torch.empty(m, device="cuda"), (x, labels, n),
                        lambda c, m=m: m, lambda x=x, y=labels: F.cross_entropy(x.float(), y, reduction="none"),
                        2 * m * n, WIDE)  # fmt: skip


def rms_norm():
    for m, n in ((8192, 4096), (8192, 5000), (2048, 16384)):
        x, w = rand(m, n, dtype=BF16), rand(n, dtype=BF16)
        yield from rows(f"rms-norm bf16 {m}x{n}", torch.empty_like(x), (x, w, n, 1e-6), lambda c, m=m: m,
                        lambda x=x, w=w, n=n: F.rms_norm(x, (n,), w, 1e-6), 4 * m * n, NARROW, 2e-2)  # fmt: skip


def range_(m=4096, n=30000):
    x = rand(m, n)
    yield from rows(f"range f32 {m}x{n}", torch.empty(m, device="cuda"), (x, n), lambda c: m,
                    lambda: torch.sub(*reversed(x.aminmax(dim=1))), 4 * m * n, NARROW)  # fmt: skip


def matvec(n=8192):
    a, x = rand(n, n, dtype=BF16), rand(n, dtype=BF16)
    yield from rows(f"matvec bf16 {n}x{n}", torch.empty(n, device="cuda"), (a, x, n), lambda c: n // c["BLOCK_M"],
                    lambda: a @ x, 2 * n * n, ((1, 1024, 4), (4, 512, 4), (8, 256, 4), (16, 128, 4), (16, 256, 8)),
                    1e-2)  # fmt: skip


def columns(n=8192):
    x = rand(n, n, dtype=BF16)
    yield from rows(f"columns bf16 {n}x{n}", torch.empty(n, device="cuda"), (x, n, n), lambda c: n // c["BLOCK_N"],
                    lambda: x.sum(0), 2 * n * n, ((16, 64, 4), (32, 32, 4), (64, 64, 8), (32, 128, 4), (8, 128, 4)),
                    1e-2)  # fmt: skip


GROUPS = {"cross_entropy": cross_entropy, "rms_norm": rms_norm, "range": range_, "matvec": matvec, "columns": columns}

if __name__ == "__main__":
    sys.exit(gpu.main(GROUPS, SIDES, __doc__))
