"""Products by many tiles, warps and stages: Triton and tritium with the same configurations, side by side in one run on
an NVIDIA GPU. It finds the configurations that a list to choose the best from hides.

    python benchmarks/gpu_tiles.py [--rows four,eight,large] [--json out.json] [--rounds 3]

Timed as `gpu.py` does, each configuration in a row of its own: its tile, `/` its warps, and its stages.
"""

from __future__ import annotations

import itertools
import sys

import gpu
import torch

MOST_SHARED = 160_000  # bytes of all stages, in f16


def products(size, tiles, depths, warps, stages):
    """A row for each configuration whose stages find room."""
    for (m, n), k, s in itertools.product(tiles, depths, stages):
        if (m + n) * k * 2 * s > MOST_SHARED or k == 16 and s > 3:
            continue
        config = dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=warps, num_stages=s)
        name = f"{size}^3 f16 {m}x{n}x{k}/{warps}, {s} stages"
        yield gpu.matmul_row(name, size, size, size, torch.float16, configs=[config])


def four():
    tiles = ((64, 64), (64, 128), (128, 64), (64, 256), (128, 128), (32, 128), (32, 64), (128, 32), (64, 32))
    return products(2048, tiles, (16, 32, 64, 128), 4, (2, 3, 4))


def eight():
    return products(2048, ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256)), (32, 64), 8, (2, 3))


def large():
    yield from products(4096, ((128, 64), (64, 128), (128, 128)), (32, 64), 4, (2, 3))
    yield from products(4096, ((64, 128), (128, 128), (128, 256)), (32, 64), 8, (2, 3))


GROUPS = {"four": four, "eight": eight, "large": large}

if __name__ == "__main__":
    sys.exit(gpu.main(GROUPS, gpu.SIDES, __doc__))
