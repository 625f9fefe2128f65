"""Rotary position embedding: pairs (i, i + D/2) of each head's vector turn by an angle that grows with the position."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def rotary_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, SEQ, HEADS, HALF, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr):
    """All heads of one position: the angles are loaded once for them."""
    position = tl.program_id(0) % SEQ
    d = tl.arange(0, BLOCK_D)
    cos = tl.load(cos_ptr + position * HALF + d, mask=d < HALF, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + position * HALF + d, mask=d < HALF, other=0.0).to(tl.float32)[None, :]
    token = tl.program_id(0).to(tl.int64) * HEADS * HALF * 2
    for start in range(0, HEADS, BLOCK_H):
        head = start + tl.arange(0, BLOCK_H)
        offsets = token + head[:, None] * HALF * 2 + d[None, :]
        mask = (head[:, None] < HEADS) & (d[None, :] < HALF)
        a = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
        b = tl.load(x_ptr + offsets + HALF, mask=mask).to(tl.float32)
        tl.store(out_ptr + offsets, a * cos - b * sin, mask=mask)
        tl.store(out_ptr + offsets + HALF, b * cos + a * sin, mask=mask)


def rotary(x, cos, sin):
    """Turn x (batch, sequence, heads, D) by cos and sin (sequence, D/2).

    >>> x = np.float32([[[[1, 0]]]])
    >>> rotary(x, np.float32([[0]]), np.float32([[1]]))
    array([[[[0., 1.]]]], dtype=float32)
    """
    checks.arguments("rotary", checks.FLOATS, ("cos", "sin"), x=(x, "BATCH SEQ HEADS D"), cos=(cos, "SEQ D/2"),
                     sin=(sin, "SEQ D/2"))
    batch, seq, heads, D = x.shape
    if D % 2 or cos.shape[1] != D // 2:
        raise ValueError(f"rotary: x has D = {D} and cos has {cos.shape[1]} columns; D must be twice as many. "
                         "angles(SEQ, D) makes cos and sin.")
    x, cos, sin = map(arrays.contiguous, (x, cos, sin))
    if arrays.numel(x) == 0:
        return arrays.empty(x)
    out = arrays.empty(x)
    rotary_kernel[(batch * seq,)](x, cos, sin, out, seq, heads, D // 2, BLOCK_H=min(8, triton.next_power_of_2(heads)),
                                  BLOCK_D=triton.next_power_of_2(D // 2))
    return out


def angles(seq: int, D: int, base: float = 10000.0) -> tuple[np.ndarray, np.ndarray]:
    """The usual cos and sin tables.

    >>> angles(2, 4)[0].shape
    (2, 2)
    """
    turn = np.arange(seq)[:, None] / base ** (np.arange(D // 2) * 2 / D)[None, :]
    return np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)


def reference(x, cos, sin):
    """The same in NumPy."""
    a, b = np.split(x, 2, axis=-1)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _make(size, dtype, device):
    return (normal((1, size, 8, 64), dtype, device), *(arrays.like_device(x, device) for x in angles(size, 64)))


KERNELS = (Kernel(
    "rotary", rotary, reference, _make, bytes=lambda x, cos, sin: 2 * nbytes(x) + nbytes(cos, sin),
    flops=lambda x, cos, sin: 3 * arrays.numel(x), group="rotary", title="rotary embedding, 8 heads of 64",
    size_is="positions", scenario="S27", sizes={"cpu": 1024, "cuda": 1 << 16}, jit=(rotary_kernel,)),)
