"""Attention of one query per sequence over a cache of keys and values: a step of text generation.

There is one query and the cache is long, so a program per head would leave the device idle: the cache is cut into
parts, each program reads one of them, and a second kernel joins the parts by their row logarithms. Heads that share
keys (grouped queries) are taken by one program, which reads the keys once for all of them.
"""

import math

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def part_kernel(q_ptr, k_ptr, v_ptr, lengths_ptr, work_ptr, lse_ptr, scale, N, part, KV_HEADS, GROUP: tl.constexpr,
                ROWS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """The GROUP queries of one head of keys over keys [p * part, (p + 1) * part); ROWS is GROUP rounded up."""
    head = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * part
    end = min(first + part, N if lengths_ptr is None else tl.load(lengths_ptr + head // KV_HEADS))
    g = tl.arange(0, ROWS)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + (head * GROUP + g[:, None]) * D + d[None, :], mask=g[:, None] < GROUP, other=0.0)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, D), tl.float32)
    for start in range(first, end, BLOCK):
        n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + (head * N + n[None, :]) * D + d[:, None], mask=n[None, :] < end, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * (scale * LOG2E)
        scores = tl.where(n[None, :] < end, scores, -float("inf"))
        grown = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp2(scores - grown[:, None])
        shrink = tl.exp2(top - grown)
        v = tl.load(v_ptr + (head * N + n[:, None]) * D + d[None, :], mask=n[:, None] < end, other=0.0)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None], input_precision="ieee")
        total = total * shrink + tl.sum(p, axis=1)
        top = grown
    seen = total > 0.0  # a part past the end of its sequence has seen no key
    out = tl.where(seen[:, None], out / tl.where(seen, total, 1.0)[:, None], 0.0)
    row = (head * GROUP + g) * tl.num_programs(1) + tl.program_id(1)
    tl.store(lse_ptr + row, tl.where(seen, top + tl.log2(total), -float("inf")), mask=g < GROUP)
    tl.store(work_ptr + row[:, None] * D + d[None, :], out, mask=g[:, None] < GROUP)


@triton.jit
def join_kernel(work_ptr, lse_ptr, out_ptr, parts, D: tl.constexpr, PARTS: tl.constexpr):
    """One query: the mean of its parts, weighted by how much of the softmax each holds."""
    row = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, PARTS)
    d = tl.arange(0, D)
    lse = tl.load(lse_ptr + row * parts + p, mask=p < parts, other=-float("inf"))
    top = tl.max(lse, axis=0)
    weight = tl.exp2(lse - tl.where(top == -float("inf"), 0.0, top))
    out = tl.load(work_ptr + (row * parts + p[:, None]) * D + d[None, :], mask=p[:, None] < parts, other=0.0)
    total = tl.sum(weight, axis=0)
    out = tl.sum(out * weight[:, None], axis=0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + row * D + d, out.to(out_ptr.dtype.element_ty))


def decode_attention(q, k, v, lengths=None, scale: float | None = None, parts: int | None = None,
                     block: int = 64):
    """softmax(q k^T * scale) v: q (batch, heads, D), k and v (batch, kv_heads, N, D); kv_heads divides heads.

    `lengths` (batch), int32, says how many keys each sequence has; the result for a sequence without keys is zero.

    >>> q = np.ones((1, 4, 16), np.float32)
    >>> k = v = np.ones((1, 2, 100, 16), np.float32)
    >>> bool(np.allclose(decode_attention(q, k, v), 1))
    True
    """
    batch, heads, D, kv_heads, N = _check(q, k, v, lengths)
    q, k, v = map(arrays.contiguous, (q, k, v))
    lengths = None if lengths is None else arrays.contiguous(lengths)
    scale = 1 / math.sqrt(D) if scale is None else scale
    if parts is None:
        parts = max(1, (4 if arrays.on_gpu(q) else 2) * arrays.multiprocessors(q) // max(1, batch * kv_heads))
    part = max(1, triton.cdiv(triton.cdiv(N, block), parts)) * block
    parts = max(1, triton.cdiv(N, part))
    group = heads // kv_heads
    out = arrays.empty(q)
    work, lse = arrays.empty(q, (batch, heads, parts, D), "float32"), arrays.empty(q, (batch, heads, parts), "float32")
    rows = triton.next_power_of_2(group)
    rows = max(16, rows) if arrays.on_gpu(q) else rows  # tensor cores multiply 16 at least
    part_kernel[(batch * kv_heads, parts)](q, k, v, lengths, work, lse, scale, N, part, kv_heads, GROUP=group,
                                           ROWS=rows, D=D, BLOCK=block)
    join_kernel[(batch * heads,)](work, lse, out, parts, D=D, PARTS=triton.next_power_of_2(parts))
    return out


def _check(q, k, v, lengths):
    name = "decode_attention"
    sizes = checks.arguments(name, q=(q, "BATCH HEADS D"), k=(k, "BATCH KV_HEADS N D"), v=(v, "BATCH KV_HEADS N D"))
    batch, heads, D, kv_heads, N = sizes.values()
    if D < 16 or D & (D - 1):
        raise ValueError(f"{name}: q has D = {D}; it must be a power of two and at least 16. Pad q, k and v with zeros "
                         f"and pass scale = {D}**-0.5.")
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"{name}: q has {heads} heads and k has {kv_heads}; the heads of k must divide those of q.")
    if lengths is not None:
        checks.alike(name, (*checks.FLOATS, "int32"), ("lengths",), q=q, lengths=lengths)
        checks.arguments(name, ("int32",), lengths=(lengths, "BATCH"))
        if tuple(lengths.shape) != (batch,):
            raise ValueError(f"{name}: lengths has the shape {tuple(lengths.shape)}; it must be ({batch},), as q has "
                             f"{batch} sequences.")
        if not arrays.on_gpu(q) and batch and not 0 <= int(lengths.min()) <= int(lengths.max()) <= N:
            raise ValueError(f"{name}: lengths are from {int(lengths.min())} to {int(lengths.max())}; they must be "
                             f"between 0 and the {N} keys of k.")
    return batch, heads, D, kv_heads, N


def reference(q, k, v, lengths=None, scale=None):
    """The same in NumPy."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, 1) for x in (k, v))
    scores = np.einsum("bhd,bhnd->bhn", q, k) * (q.shape[2] ** -0.5 if scale is None else scale)
    lengths = np.full(len(q), k.shape[2]) if lengths is None else lengths
    seen = (np.arange(k.shape[2]) < np.asarray(lengths)[:, None])[:, None]
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-1e300)
    p = np.exp(scores - top)
    return np.einsum("bhn,bhnd->bhd", p / np.maximum(p.sum(-1, keepdims=True), 1e-300), v)


def _make(size, dtype, device):
    return (normal((4, 32, 64), dtype, device), normal((4, 8, size, 64), dtype, device, 1),
            normal((4, 8, size, 64), dtype, device, 2))


KERNELS = (Kernel(
    "decode_attention", decode_attention, reference, _make,
    bytes=lambda q, k, v: nbytes(q, k, v, q), flops=lambda q, k, v: 4 * 4 * arrays.numel(k),
    group="decode attention", title="decode attention, 4 x 32 heads of 64", size_is="keys of each of 4 sequences",
    scenario="S27", sizes={"cpu": 1024, "cuda": 1 << 16}, dtypes=("float16", "bfloat16", "float32"),
    jit=(part_kernel, join_kernel), slack=2.0, rival=lambda torch, q, k, v:
    torch.nn.functional.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]),)
