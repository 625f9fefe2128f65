"""RMSNorm -> GELU -> Linear in one kernel: the normalised activations never reach memory.

A program owns BLOCK_M rows and BLOCK_N outputs. It first finds the scale of its rows, then walks over the features
once more, normalising and activating a tile right before it is multiplied.
"""

import math

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def gelu(x):
    """x times the normal distribution function of x."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def fused_mlp_kernel(x_ptr, gain_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K, eps, BLOCK_M: tl.constexpr,
                     BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """out = gelu(rms_norm(x) * gain) @ weight^T + bias; x is (M, K), weight (N, K), all contiguous."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    squares = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K),
                    other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=1) / K + eps)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K),
                    other=0.0).to(tl.float32)
        gain = tl.load(gain_ptr + k, mask=k < K, other=0.0).to(tl.float32)
        active = gelu(x * scale[:, None] * gain[None, :])
        weight = tl.load(weight_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        total = tl.dot(active.to(weight.dtype), weight, total, input_precision="ieee")
    bias = tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + m[:, None] * N + n[None, :], (total + bias[None, :]).to(out_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


def usual_tiles(x, outputs: int) -> tuple[tuple[int, int, int], dict[str, int]]:
    """Tiles and options that are seldom bad: wide ones, for activations are computed anew for each tile of outputs.

    >>> usual_tiles(np.zeros((4, 8)), 64)
    ((32, 64, 64), {})
    """
    rows, processors = x.shape[0], arrays.multiprocessors(x)
    if arrays.on_gpu(x):
        large = x.itemsize == 2 and rows * outputs >= 128 * 256 * processors // 2
        return ((128, 256, 64), {"num_warps": 8}) if large else ((32, 64, 64), {})
    wide = min(512, max(64, triton.next_power_of_2(outputs)))
    high = (h for h in (128, 64) if rows // h * triton.cdiv(outputs, wide) >= 2 * processors)
    return (next(high, 32), wide, 64), {}


def fused_mlp(x, gain, weight, bias, eps: float = 1e-6, blocks=None, **options):
    """`linear(gelu(rms_norm(x) * gain), weight, bias)`: x (M, K), gain (K), weight (N, K), bias (N).

    >>> one = np.ones((1, 1), np.float32)
    >>> fused_mlp(one, one[0], one, one[0], eps=0.0).round(4)
    array([[1.8413]], dtype=float32)
    """
    sizes = checks.arguments("fused_mlp", checks.FLOATS, ("gain", "bias"), x=(x, "M K"), gain=(gain, "K"),
                             weight=(weight, "N K"), bias=(bias, "N"))
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    checks.countable("fused_mlp", x=x, weight=weight)
    x, gain, weight, bias = map(arrays.contiguous, (x, gain, weight, bias))
    out = arrays.empty(x, (M, N))
    blocks, usual = usual_tiles(x, N) if blocks is None else (blocks, {})
    grid = (triton.cdiv(M, blocks[0]), triton.cdiv(N, blocks[1]))
    fused_mlp_kernel[grid](x, gain, weight, bias, out, M, N, K, eps, BLOCK_M=blocks[0], BLOCK_N=blocks[1],
                           BLOCK_K=blocks[2], **{**usual, **options})
    return out


def reference(x, gain, weight, bias, eps=1e-6):
    """The same in NumPy."""
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain
    active = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    return active @ weight.T + bias


def _make(size, dtype, device):
    return (normal((size, size), dtype, device), normal((size,), dtype, device, 1),
            normal((size, size), dtype, device, 2, max(size, 1) ** -0.5), normal((size,), dtype, device, 3))


def _torch(torch, x, gain, weight, bias):
    active = torch.nn.functional.gelu(torch.nn.functional.rms_norm(x, gain.shape, gain, 1e-6))
    return torch.nn.functional.linear(active, weight, bias)


KERNELS = (Kernel(
    "fused_mlp", fused_mlp, reference, _make,
    bytes=lambda x, g, w, b: nbytes(x, g, w, b) + x.itemsize * x.shape[0] * w.shape[0],
    flops=lambda x, g, w, b: 2 * x.shape[0] * x.shape[1] * w.shape[0], group="fused MLP",
    title="RMSNorm, GELU, linear", size_is="rows, features and outputs", scenario="S27",
    sizes={"cpu": 512, "cuda": 4096}, dtypes=("float16", "bfloat16", "float32"), bound="compute",
    jit=(fused_mlp_kernel,), rival=_torch, slack=2.0),)
