"""The script that `tuning.py` times: a matmul with 24 configurations, tuned and measured for two dtypes and some sizes.

    python benchmarks/tuning_kernels.py triton|tritium|everything cuda|cpu 512,1024

`everything` is tritium with each configuration measured to the end by `do_bench`, as Triton does. The last line is
JSON: seconds from the first tuned launch to the end, seconds of them that went into tuning, and the choices.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

WHO, DEVICE = sys.argv[1:3]
SIZES = [int(size) for size in sys.argv[3].split(",")]
DTYPES = {"cuda": ("float16", "float8_e5m2"), "cpu": ("float32", "float16")}[DEVICE]

if WHO != "triton":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import tritium

    tritium.install_as_triton()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

# Rows, columns and depth of a tile; warps; stages.
TILES = {
    "cuda": [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (256, 128, 64, 8, 4),
             (128, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4), (128, 128, 128, 8, 3),
             (128, 64, 64, 4, 4), (128, 64, 32, 4, 4), (64, 128, 64, 4, 4), (64, 128, 32, 4, 5),
             (64, 256, 32, 4, 4), (64, 256, 64, 8, 3), (256, 64, 32, 4, 4), (256, 64, 64, 8, 3),
             (128, 32, 32, 4, 4), (128, 32, 64, 4, 4), (64, 64, 64, 4, 4), (64, 64, 32, 4, 5),
             (64, 32, 32, 2, 5), (32, 64, 32, 2, 5), (32, 64, 64, 4, 4), (128, 256, 32, 8, 3)],
    "cpu": [(m, n, k, 4, 3) for m in (16, 32, 64, 128) for n in (32, 64, 128) for k in (32, 64)],
}[DEVICE]  # fmt: skip
CONFIGS = [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}, num_warps=warps, num_stages=stages)
           for m, n, k, warps, stages in TILES]
OWN = {}
if WHO == "everything":
    OWN["do_bench"] = lambda fn, quantiles: triton.testing.do_bench(fn, quantiles=quantiles)


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], **OWN)
@triton.jit
def matmul_kernel(a, b, c, M, N, K, a_row, a_column, b_row, b_column, c_row, c_column, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    # Programs that run at a time share rows of `a` and columns of `b`: they walk down groups of tiles.
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP * columns
    first = tl.program_id(0) // in_group * GROUP
    height = min(rows - first, GROUP)
    place = tl.program_id(0) % in_group
    row, column = first + place % height, place // height

    m = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    left = a + m[:, None] * a_row + k[None, :] * a_column
    right = b + k[:, None] * b_row + n[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for done in range(0, K, BLOCK_K):
        x = tl.load(left, mask=k[None, :] < K - done, other=0.0)
        y = tl.load(right, mask=k[:, None] < K - done, other=0.0)
        total = tl.dot(x, y, total)
        left += BLOCK_K * a_column
        right += BLOCK_K * b_row

    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * c_row + n[None, :] * c_column, total.to(c.dtype.element_ty), mask=inside)


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=torch.float16 if "float8" in str(a.dtype) else a.dtype)
    matmul_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride())
    return c


def main():
    if DEVICE == "cuda":
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    torch.manual_seed(0)
    tuning, rows = 0.0, []
    start = time.perf_counter()
    for dtype in DTYPES:
        for size in SIZES:
            a, b = (torch.randn(size, size, device=DEVICE).to(torch.float16) for _ in range(2))
            b = b.T.contiguous().T if "float8" in dtype else b
            a, b = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
            got = matmul(a, b)
            tuning += matmul_kernel.bench_time or 0.0
            best = matmul_kernel.best_config
            if size == min(SIZES):
                want = (a.float() @ b.float()).to(got.dtype)
                torch.testing.assert_close(got, want, atol=0.05 * size**0.5, rtol=0.01)
            ms = triton.testing.do_bench(lambda a=a, b=b: matmul(a, b), quantiles=[0.5])
            rows.append([dtype, size, 2e-9 * size**3 / ms, str(best)])
    print(json.dumps({"seconds": time.perf_counter() - start, "tuning": tuning, "rows": rows}))


if __name__ == "__main__":
    main()
