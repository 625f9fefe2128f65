"""Two-dimensional convolution (in the sense of machine learning: the filter is not flipped), twice.

`filter2d` slides one small filter over planes: a few shifted loads per tile. `conv2d` mixes channels: seen as a matrix
product of (images x positions) by (channels x taps), whose left side is gathered while multiplying.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def filter_kernel(x_ptr, filter_ptr, out_ptr, H, W, OUT_H, OUT_W, KH: tl.constexpr, KW: tl.constexpr,
                  BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    """A tile of results per program, the taps unrolled: neighbouring taps read the same cache lines."""
    plane = tl.program_id(2).to(tl.int64)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    w = tl.program_id(0) * BLOCK_W + tl.arange(0, BLOCK_W)
    mask = (h[:, None] < OUT_H) & (w[None, :] < OUT_W)
    corner = x_ptr + plane * H * W + h[:, None] * W + w[None, :]
    total = tl.zeros((BLOCK_H, BLOCK_W), tl.float32)
    for i in tl.static_range(KH):
        for j in tl.static_range(KW):
            total += tl.load(corner + i * W + j, mask=mask, other=0.0) * tl.load(filter_ptr + i * KW + j)
    tl.store(out_ptr + plane * OUT_H * OUT_W + h[:, None] * OUT_W + w[None, :], total, mask=mask)


def filter2d(x, weight, blocks=(8, 128)):
    """Each plane of an array (..., height, width) under one filter; the result shrinks by its size less 1.

    >>> filter2d(np.ones((3, 3), np.float32), np.ones((2, 2), np.float32))
    array([[4., 4.],
           [4., 4.]], dtype=float32)
    """
    checks.arguments("filter2d", x=(x, "* H W"), weight=(weight, "h w"))
    (*planes, H, W), (KH, KW) = x.shape, weight.shape
    _check_window("filter2d", H, W, KH, KW, 0)
    checks.countable("filter2d", x=x)
    x = arrays.contiguous(x)
    out_h, out_w = H - KH + 1, W - KW + 1
    out = arrays.empty(x, (*planes, out_h, out_w))
    grid = (triton.cdiv(out_w, blocks[1]), triton.cdiv(out_h, blocks[0]), int(np.prod(planes, dtype=int)))
    filter_kernel[grid](x, arrays.contiguous(weight), out, H, W, out_h, out_w, KH=KH, KW=KW, BLOCK_H=blocks[0],
                        BLOCK_W=blocks[1])
    return out


def _check_window(function, H, W, KH, KW, pad):
    if min(KH, KW) < 1 or KH > H + 2 * pad or KW > W + 2 * pad:
        raise ValueError(f"{function}: weight has windows of {KH} x {KW}, x has planes of {H} x {W} and pad is {pad}; "
                         "a window must have elements and fit into a padded plane. Use a smaller weight or "
                         "a larger pad.")


@triton.jit
def conv_kernel(x_ptr, weight_ptr, out_ptr, IMAGES, C, H, W, OUT_C, OUT_H, OUT_W, STEP, PAD, KH: tl.constexpr,
                KW: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """BLOCK_M positions by BLOCK_N output channels; the sum runs over (channel, tap) in steps of BLOCK_K."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = m // (OUT_H * OUT_W)
    top = m // OUT_W % OUT_H * STEP - PAD
    left = m % OUT_W * STEP - PAD
    K = C * KH * KW
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        channel = k // (KH * KW)
        ih = top[:, None] + (k // KW % KH)[None, :]
        iw = left[:, None] + (k % KW)[None, :]
        inside = (image[:, None] < IMAGES) & (k[None, :] < K) & (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
        x = tl.load(x_ptr + ((image[:, None] * C + channel[None, :]) * H + ih) * W + iw, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < OUT_C) & (k[:, None] < K),
                         other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    position = m % (OUT_H * OUT_W)
    tl.store(out_ptr + (image[:, None] * OUT_C + n[None, :]) * (OUT_H * OUT_W) + position[:, None],
             total.to(out_ptr.dtype.element_ty), mask=(image[:, None] < IMAGES) & (n[None, :] < OUT_C))


def usual_blocks(positions: int, plane: int, channels: int, threads: int | None) -> tuple[int, int, int]:
    """Positions, output channels and terms of a tile. The `threads` of a CPU, of which a GPU has none, copy the input
    again for each tile of channels: where two large tiles are left for each thread, they take all of 64 channels and
    more terms at once, or more positions of fewer channels if planes have several tiles.

    >>> usual_blocks(392, 49, 64, 2), usual_blocks(6272, 3136, 32, 2), usual_blocks(6272, 3136, 32, 64)
    ((64, 64, 64), (128, 32, 32), (64, 32, 32))
    """
    blocks = (64, 64, 64) if channels > 32 else (128 if plane >= 1024 else 64, 32, 32)
    if threads is None or triton.cdiv(positions, blocks[0]) * triton.cdiv(channels, blocks[1]) < 2 * threads:
        return 64, 32, 32
    return blocks


def conv2d(x, weight, step: int = 1, pad: int = 0, blocks=None):
    """Convolution of images (N, C, H, W) with filters (OUT_C, C, KH, KW).

    >>> conv2d(np.ones((1, 2, 3, 3), np.float32), np.ones((1, 2, 3, 3), np.float32))
    array([[[[18.]]]], dtype=float32)
    """
    checks.arguments("conv2d", x=(x, "N C H W"), weight=(weight, "OUT_C C KH KW"))
    checks.positive("conv2d", step=step)
    (images, C, H, W), (out_c, _, KH, KW) = x.shape, weight.shape
    if pad < 0:
        raise ValueError(f"conv2d: pad is {pad}; it must be at least 0.")
    _check_window("conv2d", H, W, KH, KW, pad)
    checks.countable("conv2d", x=x)
    x = arrays.contiguous(x)
    out_h, out_w = (H + 2 * pad - KH) // step + 1, (W + 2 * pad - KW) // step + 1
    out = arrays.empty(x, (images, out_c, out_h, out_w))
    if blocks is None:
        threads = None if arrays.on_gpu(x) else arrays.multiprocessors(x)
        blocks = usual_blocks(images * out_h * out_w, out_h * out_w, out_c, threads)
    grid = (triton.cdiv(images * out_h * out_w, blocks[0]), triton.cdiv(out_c, blocks[1]))
    conv_kernel[grid](x, arrays.contiguous(weight), out, images, C, H, W, out_c, out_h, out_w, step, pad, KH=KH,
                      KW=KW, BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2])
    return out


def reference_filter(x, weight):
    """`filter2d` in NumPy."""
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape, axis=(-2, -1))
    return np.einsum("...ij,ij->...", windows, weight)


def reference(x, weight, step=1, pad=0):
    """`conv2d` in NumPy."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))[:, :, ::step, ::step]
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def _channels(size, dtype, device):
    return (normal((2, 16, size + 2, size + 2), dtype, device), normal((32, 16, 3, 3), dtype, device, 1, 1 / 12))


KERNELS = (
    Kernel("filter2d", filter2d, reference_filter,
           lambda size, dtype, device: (normal((size + 2, size + 2), dtype, device), normal((3, 3), dtype, device, 1)),
           bytes=lambda x, w: 2 * nbytes(x), flops=lambda x, w: 18 * arrays.numel(x), group="filter",
           title="filter 3x3 of one plane", size_is="height and width of a plane", scenario="S24",
           sizes={"cpu": 1024, "cuda": 8192}, jit=(filter_kernel,),
           rival=lambda torch, x, w: torch.nn.functional.conv2d(x[None, None], w[None, None])[0, 0], slack=2.0),
    Kernel("conv2d", lambda x, w: conv2d(x, w, 1, 1), lambda x, w: reference(x, w, 1, 1), _channels,
           bytes=lambda x, w: nbytes(x, w) + 2 * nbytes(x), flops=lambda x, w: 2 * 32 * 9 * arrays.numel(x),
           group="convolution", title="convolution 3x3, 16 to 32 channels",
           size_is="height and width of 2 images of 16 channels", scenario="S24", sizes={"cpu": 56, "cuda": 512},
           bound="compute", jit=(conv_kernel,),
           rival=lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1), slack=2.0),
)
