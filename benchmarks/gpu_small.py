"""Every kernel of `gpu.py` once, small and odd-sized, without torch: for compute-sanitizer, which slows programs down.

    compute-sanitizer --tool memcheck python benchmarks/gpu_small.py
    compute-sanitizer --tool racecheck python benchmarks/gpu_small.py

Prints one line for each kernel with its largest error relative to NumPy; the exit status tells whether all are right.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from gpu_load import kernels  # noqa: E402

import tritium  # noqa: E402
import tritium.language  # noqa: E402
from tritium.runtime import memory  # noqa: E402

rng = np.random.default_rng(0)
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 3e-3, np.dtype(ml_dtypes.bfloat16): 2e-2}
K = kernels(tritium)
FAILED = []


def data(*shape, dtype=np.float32):
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


def check(name, kernel, grid, out, inputs, want, *rest, tolerance=None, **options):
    """Launch `kernel(out, *inputs, *rest)` (in the order it takes them) and compare the output with `want`."""
    order, arrays = kernel[1], {"out": memory.to_device(out)}
    arrays |= {k: memory.to_device(x) for k, x in inputs.items()}
    kernel[0][grid](*(arrays[k] for k in order), *rest, **options)
    got = arrays["out"].numpy().astype(np.float64)
    error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)
    right = error <= (tolerance or TOLERANCE[np.dtype(out.dtype)])
    FAILED.extend([] if right else [name])
    print(f"{name:40} {error:.1e} {'' if right else 'WRONG'}", flush=True)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def elementwise(n=5003):
    x, y, z = (data(n) for _ in range(3))
    nan, grid, options = np.full(n, np.nan, np.float32), (-(-n // 1024),), dict(BLOCK=1024)
    w = x.astype(np.float64)
    check("add", (K.add_kernel, "x y out".split()), grid, nan, dict(x=x, y=y), w + y, n, **options)
    check("add-relu-mul", (K.add_relu_mul_kernel, "x y z out".split()), grid, nan, dict(x=x, y=y, z=z),
          np.maximum(w + y, 0) * z, n, **options)  # fmt: skip
    check("silu", (K.silu_kernel, "x out".split()), grid, nan, dict(x=x), w / (1 + np.exp(-w)), n, **options)
    check("sum", (K.sum_kernel, "x out".split()), grid, np.zeros(1, np.float32), dict(x=x), w.sum()[None], n,
          tolerance=1e-4, **options)  # fmt: skip


def rows():
    for cols in (256, 781, 4096):
        x = data(33, cols)
        block = 1 << (cols - 1).bit_length()
        check(f"softmax {cols}", (K.softmax_kernel, "out x".split()), (33,), np.full_like(x, np.nan), dict(x=x),
              softmax(x.astype(np.float64)), cols, cols, BLOCK=block)  # fmt: skip
    for blocks in (2, 4):
        name, out = f"softmax {cols}, clusters of {blocks}", np.full_like(x, np.nan)
        check(name, (K.softmax_kernel, "out x".split()), (33,), out, dict(x=x), softmax(x.astype(np.float64)), cols,
              cols, BLOCK=block, num_ctas=blocks)  # fmt: skip
    x, w = data(17, 512, dtype=ml_dtypes.bfloat16), data(512, dtype=ml_dtypes.bfloat16)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * w.astype(np.float64)
    check("rms norm", (K.rms_norm_kernel, "out x w".split()), (17,), np.zeros_like(x), dict(x=x, w=w), want, 512, 512,
          1e-6, BLOCK=512)  # fmt: skip


def planes():
    x = data(130, 70)
    check("transpose", (K.transpose_kernel, "out x".split()), (3, 2), np.full((70, 130), np.nan, np.float32),
          dict(x=x), x.T.astype(np.float64), 130, 70, BLOCK_M=64, BLOCK_N=64, tolerance=1e-12)  # fmt: skip
    x = data(2, 33, 45)
    oh, ow = 16, 22
    want = np.max([x[:, dy : dy + 2 * oh : 2, dx : dx + 2 * ow : 2] for dy in range(3) for dx in range(3)], axis=0)
    check("max pool", (K.max_pool_kernel, "out x".split()), (1, oh, 2), np.full((2, oh, ow), np.nan, np.float32),
          dict(x=x), want.astype(np.float64), 33, 45, oh, ow, BLOCK=256, tolerance=1e-12)  # fmt: skip
    x, w = data(37, 150), data(3, 3)
    padded = np.pad(x.astype(np.float64), 1)
    want = sum(padded[dy : dy + 37, dx : dx + 150] * w[dy, dx] for dy in range(3) for dx in range(3))
    check("conv2d", (K.conv2d_kernel, "out x w".split()), (2, 10), np.full_like(x, np.nan), dict(x=x, w=w), want, 37,
          150, BLOCK_Y=4, BLOCK_X=128)  # fmt: skip


def matmul(name, m, n, k, dtype, blocks, turned=False, tolerance=None, **options):
    a, b = data(m, k, dtype=dtype), data(n, k, dtype=dtype) if turned else data(k, n, dtype=dtype)
    c = np.full((m, n), np.nan, np.float32 if dtype is np.float32 else np.float16)
    right = b.T if turned else b
    strides = (1, k) if turned else (n, 1)
    grid = (-(-m // blocks[0]) * -(-n // blocks[1]),)
    check(f"matmul {name}", (K.matmul_kernel, "a b out".split()), grid, c, dict(a=a, b=b),
          a.astype(np.float64) @ right.astype(np.float64), m, n, k, k, 1, *strides, n, 1, tolerance=tolerance,
          **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), blocks)), GROUP_M=8, **options)  # fmt: skip


def products():
    matmul("f16", 256, 512, 256, np.float16, (128, 256, 64), num_warps=8, num_stages=3)
    matmul("f16, 4 warps", 256, 256, 192, np.float16, (128, 128, 64), num_warps=4, num_stages=4)
    matmul("bf16", 256, 256, 256, ml_dtypes.bfloat16, (128, 128, 64), num_warps=8, num_stages=4)
    matmul("f16, b transposed", 256, 256, 256, np.float16, (128, 128, 64), turned=True, num_warps=8, num_stages=4)
    matmul("f16 ragged", 189, 203, 171, np.float16, (128, 128, 64), num_warps=8, num_stages=4)
    matmul("f16, clusters of 2", 300, 512, 192, np.float16, (256, 256, 64), num_warps=8, num_stages=4, num_ctas=2)
    matmul("tf32", 256, 256, 128, np.float32, (128, 128, 32), num_warps=8, num_stages=3, tolerance=3e-3)
    matmul("fp8", 256, 256, 256, ml_dtypes.float8_e4m3fn, (128, 128, 128), turned=True, num_warps=8, num_stages=3)


def attention():
    heads, length, d = 3, 512, 128
    q, k, v = (data(heads, length, d, dtype=np.float16) for _ in range(3))
    scores = softmax(np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) / np.sqrt(d))
    want, scale = scores @ v.astype(np.float64), 1.4426950408889634 / np.sqrt(d)
    for m, n, warps, stages in ((128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3)):
        check(f"attention {m}x{n}, {warps} warps", (K.attention_kernel, "q k v out".split()), (length // m, heads),
              np.full_like(q, np.nan), dict(q=q, k=k, v=v), want, float(scale), length, BLOCK_M=m, BLOCK_N=n, D=d,
              num_warps=warps, num_stages=stages)  # fmt: skip


if __name__ == "__main__":
    for part in (elementwise, rows, planes, products, attention):
        part()
    sys.exit(f"wrong: {', '.join(FAILED)}" if FAILED else 0)
