"""The Mandelbrot set: how many steps each point takes to leave. A loop that ends when the whole tile has."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


@triton.jit
def mandelbrot_kernel(out_ptr, WIDTH, HEIGHT, left, top, pixel, LIMIT, BLOCK: tl.constexpr):
    """BLOCK pixels of one line; points that have left stand still until the slowest is done."""
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1)
    cr = left + x * pixel
    ci = top + y * pixel
    zr = tl.zeros((BLOCK,), tl.float32)
    zi = tl.zeros((BLOCK,), tl.float32)
    steps = tl.zeros((BLOCK,), tl.int32)
    inside = x < WIDTH
    n = 0
    while (n < LIMIT) & (tl.sum(inside.to(tl.int32), axis=0) > 0):
        zr_next = zr * zr - zi * zi + cr
        zi_next = 2 * zr * zi + ci
        zr = tl.where(inside, zr_next, zr)
        zi = tl.where(inside, zi_next, zi)
        inside = inside & (zr * zr + zi * zi <= 4.0)
        steps += inside.to(tl.int32)
        n += 1
    tl.store(out_ptr + y * WIDTH + x, steps, mask=x < WIDTH)


def mandelbrot(width: int, height: int, like=None, centre=(-0.75, 0.0), span: float = 3.0, limit: int = 100,
               block: int = 64):
    """Step counts (height, width) of the region `span` wide around `centre`, an array of the kind of `like`.

    >>> int(mandelbrot(3, 3, centre=(0.0, 0.0), span=1.0)[1, 1])
    100
    """
    out = arrays.empty(np.empty(0) if like is None else like, (height, width), "int32")
    pixel = span / width
    left, top = centre[0] - pixel * (width - 1) / 2, centre[1] - pixel * (height - 1) / 2
    # Near the boundary every bit counts: without fused multiply-adds all machines draw the same picture.
    mandelbrot_kernel[(triton.cdiv(width, block), height)](out, width, height, left, top, pixel, limit, BLOCK=block,
                                                           enable_fp_fusion=False)
    return out


def reference(width, height, centre=(-0.75, 0.0), span=3.0, limit=100):
    """The same in NumPy, in float32 as well."""
    pixel = span / width
    left, top = np.float32(centre[0] - pixel * (width - 1) / 2), np.float32(centre[1] - pixel * (height - 1) / 2)
    cr = np.broadcast_to(left + np.arange(width, dtype=np.float32) * np.float32(pixel), (height, width))
    ci = np.broadcast_to((top + np.arange(height, dtype=np.float32) * np.float32(pixel))[:, None], (height, width))
    zr, zi, steps = np.zeros_like(cr), np.zeros_like(cr), np.zeros(cr.shape, np.int32)
    inside = np.ones(cr.shape, bool)
    for _ in range(limit):
        zr[...], zi[...] = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, 2 * zr * zi + ci, zi)
        inside &= zr * zr + zi * zi <= 4
        steps += inside
    return steps
