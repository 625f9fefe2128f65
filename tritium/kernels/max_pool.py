"""Max pooling of planes: the maximum over a window that moves in steps."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def max_pool_kernel(x_ptr, out_ptr, H, W, OUT_H, OUT_W, WINDOW: tl.constexpr, STEP: tl.constexpr, PAD: tl.constexpr,
                    BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    """A tile of results per program; each tap of the window is one shifted, strided load."""
    plane = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    w = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)
    best = tl.full((BLOCK_H, BLOCK_W), -float("inf"), tl.float32)
    for dh in tl.static_range(WINDOW):
        for dw in tl.static_range(WINDOW):
            ih = (h * STEP + dh - PAD)[:, None]
            iw = (w * STEP + dw - PAD)[None, :]
            inside = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
            x = tl.load(x_ptr + plane * H * W + ih * W + iw, mask=inside, other=-float("inf"))
            best = tl.maximum(best, x.to(tl.float32))
    tl.store(out_ptr + plane * OUT_H * OUT_W + h[:, None] * OUT_W + w[None, :], best,
             mask=(h[:, None] < OUT_H) & (w[None, :] < OUT_W))


def max_pool(x, window: int = 3, step: int = 2, pad: int = 0, blocks=None):
    """Max pooling of an array (..., height, width); `pad` is at most half the window.

    >>> max_pool(np.arange(16, dtype=np.float32).reshape(4, 4), window=2, step=2)
    array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    """
    checks.arguments("max_pool", x=(x, "* H W"))
    checks.positive("max_pool", window=window, step=step)
    *planes, H, W = x.shape
    if not 0 <= pad <= window // 2:
        raise ValueError(f"max_pool: pad is {pad}; it must be between 0 and half the window of {window}.")
    if min(H, W) + 2 * pad < window:
        raise ValueError(f"max_pool: x has planes of {H} x {W}; with pad {pad} a window of {window} must fit. Use a "
                         "smaller window.")
    checks.countable("max_pool", x=x)
    x = arrays.contiguous(x)
    out_h, out_w = ((n + 2 * pad - window) // step + 1 for n in (H, W))
    out = arrays.empty(x, (*planes, out_h, out_w))
    if blocks is None:
        blocks = (8, 32) if arrays.on_gpu(x) else (8, 64)
    grid = (triton.cdiv(out_w, blocks[1]), triton.cdiv(out_h, blocks[0]), int(np.prod(planes, dtype=int)))
    max_pool_kernel[grid](x, out, H, W, out_h, out_w, WINDOW=window, STEP=step, PAD=pad, BLOCK_H=blocks[0],
                          BLOCK_W=blocks[1])
    return out


def reference(x, window=3, step=2, pad=0):
    """The same in NumPy."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(pad, pad)] * 2, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(-2, -1))
    return windows[..., ::step, ::step, :, :].max((-2, -1))


KERNELS = (Kernel(
    "max_pool", max_pool, reference, lambda size, dtype, device: (normal((8, size + 2, size + 2), dtype, device),),
    bytes=lambda x: nbytes(x) + nbytes(x) // 4, flops=lambda x: 9 * arrays.numel(x) // 4, group="max pooling",
    title="max pooling 3x3 by 2", size_is="height and width of 8 planes", scenario="S24",
    sizes={"cpu": 256, "cuda": 4096}, jit=(max_pool_kernel,),
    rival=lambda torch, x: torch.nn.functional.max_pool2d(x, 3, 2)),)
