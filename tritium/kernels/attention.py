"""Fused attention, softmax(Q K^T * scale) V, forward and backward, without ever storing the score matrix.

Forward: a program owns BLOCK_M queries and walks over the keys. It keeps the running maximum and sum of each row, and
rescales what it has so far when the maximum grows. exp2 is cheaper than exp, so scores are scaled by log2(e).
Backward: the scores are computed again from Q, K and the stored row logarithms; one kernel gathers dK and dV for a
block of keys, the other dQ for a block of queries, so neither needs atomics.
"""

import math

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def forward_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, N, stride_head, D: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """BLOCK_M queries of one head; all four matrices are (heads, N, D) with contiguous rows of D."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    out = tl.zeros((BLOCK_M, D), tl.float32)
    end = N
    if CAUSAL:
        end = min(N, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * (scale * LOG2E)
        seen = n[None, :] < N
        if CAUSAL:
            seen = seen & (m[:, None] >= n[None, :])
        scores = tl.where(seen, scores, -float("inf"))
        grown = tl.maximum(top, tl.max(scores, axis=1))
        p = tl.exp2(scores - grown[:, None])
        shrink = tl.exp2(top - grown)
        v = tl.load(v_ptr + head + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None], input_precision="ieee")
        total = total * shrink + tl.sum(p, axis=1)
        top = grown
    tl.store(lse_ptr + tl.program_id(1) * N + m, top + tl.log2(total), mask=m < N)
    out = out / total[:, None]
    tl.store(out_ptr + head + m[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty), mask=m[:, None] < N)


@triton.jit
def probabilities(q, k, lse, scale, m, n, N, CAUSAL: tl.constexpr):
    """softmax(Q K^T) again, from the stored logarithm (base 2) of each row's sum; `k` is (D, keys)."""
    p = tl.exp2(tl.dot(q, k, input_precision="ieee") * (scale * LOG2E) - lse[:, None])
    seen = (n[None, :] < N) & (m[:, None] < N)
    if CAUSAL:
        seen = seen & (m[:, None] >= n[None, :])
    return tl.where(seen, p, 0.0)


@triton.jit
def delta_kernel(out_ptr, dout_ptr, delta_ptr, N, stride_head, D: tl.constexpr, BLOCK: tl.constexpr):
    """delta = rowsum(out * dout): what the softmax's own gradient subtracts."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offsets = head + m[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + offsets, mask=m[:, None] < N, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offsets, mask=m[:, None] < N, other=0.0).to(tl.float32)
    tl.store(delta_ptr + tl.program_id(1) * N + m, tl.sum(out * dout, axis=1), mask=m < N)


@triton.jit
def backward_kv_kernel(q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, N, stride_head,
                       D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """dK and dV of BLOCK_N keys: walk over the queries that saw them."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    row = tl.program_id(1) * N
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    kT = tl.load(k_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
    vT = tl.load(v_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    first = 0
    if CAUSAL:
        first = tl.program_id(0) * BLOCK_N // BLOCK_M * BLOCK_M
    for start in range(first, N, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
        dout = tl.load(dout_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
        lse = tl.load(lse_ptr + row + m, mask=m < N, other=0.0)
        delta = tl.load(delta_ptr + row + m, mask=m < N, other=0.0)
        p = probabilities(q, kT, lse, scale, m, n, N, CAUSAL)
        dv = tl.dot(tl.trans(p).to(dout.dtype), dout, dv, input_precision="ieee")
        ds = p * (tl.dot(dout, vT, input_precision="ieee") - delta[:, None])
        dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk, input_precision="ieee")
    offsets = head + n[:, None] * D + d[None, :]
    tl.store(dk_ptr + offsets, (dk * scale).to(dk_ptr.dtype.element_ty), mask=n[:, None] < N)
    tl.store(dv_ptr + offsets, dv.to(dv_ptr.dtype.element_ty), mask=n[:, None] < N)


@triton.jit
def backward_q_kernel(q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr, scale, N, stride_head,
                      D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """dQ of BLOCK_M queries: walk over the keys they saw."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    row = tl.program_id(1) * N
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
    dout = tl.load(dout_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
    lse = tl.load(lse_ptr + row + m, mask=m < N, other=0.0)
    delta = tl.load(delta_ptr + row + m, mask=m < N, other=0.0)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    end = N
    if CAUSAL:
        end = min(N, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        kT = tl.load(k_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
        vT = tl.load(v_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
        p = probabilities(q, kT, lse, scale, m, n, N, CAUSAL)
        ds = p * (tl.dot(dout, vT, input_precision="ieee") - delta[:, None])
        dq = tl.dot(ds.to(kT.dtype), tl.trans(kT), dq, input_precision="ieee")
    tl.store(dq_ptr + head + m[:, None] * D + d[None, :], (dq * scale).to(dq_ptr.dtype.element_ty),
             mask=m[:, None] < N)


def attention(q, k, v, causal: bool = False, scale: float | None = None, blocks=None, **options):
    """Attention over (..., sequence, D) arrays of one shape, D a power of two; also the base-2 row logarithms.

    `decode_attention` takes fewer queries than keys.

    >>> q = k = v = np.ones((1, 4, 16), np.float32)
    >>> bool(np.allclose(attention(q, k, v)[0], v))
    True
    """
    _check("attention", q=q, k=k, v=v)
    q, k, v = map(arrays.contiguous, (q, k, v))
    *heads, N, D = q.shape
    scale = 1 / math.sqrt(D) if scale is None else scale
    out, lse = arrays.empty(q), arrays.empty(q, (*heads, N), "float32")
    if blocks is None:
        large = arrays.on_gpu(q) and q.itemsize == 2 and D <= 128
        blocks, options = ((128, 128), {"num_warps": 8, **options}) if large else ((64, 64), options)
    forward_kernel[(triton.cdiv(N, blocks[0]), math.prod(heads))](
        q, k, v, out, lse, scale, N, N * D, D=D, BLOCK_M=blocks[0], BLOCK_N=blocks[1], CAUSAL=causal, **options)
    return out, lse


def attention_backward(dout, q, k, v, out, lse, causal: bool = False, scale: float | None = None, blocks=None):
    """The gradients (dq, dk, dv) for the gradient `dout`, given arguments and results of `attention`.

    >>> q = k = v = np.ones((1, 4, 16), np.float32)
    >>> dq, dk, dv = attention_backward(v, q, k, v, *attention(q, k, v))
    >>> bool(np.allclose(dv, 1))
    True
    """
    _check("attention_backward", q=q, k=k, v=v, dout=dout, out=out)
    checks.arguments("attention_backward", (*checks.FLOATS,), ("lse",), q=(q, "* N D"), lse=(lse, "* N"))
    dout, q, k, v, out, lse = map(arrays.contiguous, (dout, q, k, v, out, lse))
    *heads, N, D = q.shape
    scale = 1 / math.sqrt(D) if scale is None else scale
    delta = arrays.empty(lse)
    dq, dk, dv = arrays.empty(q), arrays.empty(k), arrays.empty(v)
    if blocks is None:
        blocks = (64, 64) if arrays.on_gpu(q) and q.itemsize == 2 and D <= 128 else (32, 32)
    tiles = {"D": D, "BLOCK_M": blocks[0], "BLOCK_N": blocks[1], "CAUSAL": causal}
    delta_kernel[(triton.cdiv(N, 64), math.prod(heads))](out, dout, delta, N, N * D, D=D, BLOCK=64)
    saved = (q, k, v, dout, lse, delta)
    backward_kv_kernel[(triton.cdiv(N, blocks[1]), math.prod(heads))](*saved, dk, dv, scale, N, N * D, **tiles)
    backward_q_kernel[(triton.cdiv(N, blocks[0]), math.prod(heads))](*saved, dq, scale, N, N * D, **tiles)
    return dq, dk, dv


def _check(function, **named):
    D = checks.arguments(function, **{name: (x, "* N D") for name, x in named.items()})["D"]
    if D < 16 or D & (D - 1):
        raise ValueError(f"{function}: q has D = {D}; it must be a power of two and at least 16. Pad q, k and v with "
                         f"zeros to {max(16, triton.next_power_of_2(D))}, and pass scale = {D}**-0.5.")
    checks.countable(function, **named)


def _softmax_scores(q, k, causal, scale):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True), scale


def reference(q, k, v, causal=False, scale=None):
    """The forward pass in NumPy."""
    return _softmax_scores(q, k, causal, scale)[0] @ v


def reference_backward(dout, q, k, v, causal=False, scale=None):
    """The backward pass in NumPy: (dq, dk, dv)."""
    p, scale = _softmax_scores(q, k, causal, scale)
    dp = dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


HEADS, DEPTH = 8, 64


def _arguments(size, dtype, device):
    return *(normal((HEADS, size, DEPTH), dtype, device, seed) for seed in range(3)), True


def _backward_arguments(size, dtype, device):
    q, k, v, causal = _arguments(size, dtype, device)
    out, lse = attention(q, k, v, causal)
    return normal((HEADS, size, DEPTH), dtype, device, 3), q, k, v, out, lse, causal


def _torch_forward(torch, q, k, v, causal):
    """As a batch of one: torch has no fast kernel for three axes."""
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]


def _torch_backward(torch, dout, q, k, v, out, lse, causal):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return torch.autograd.grad(_torch_forward(torch, q, k, v, causal), (q, k, v), dout)


def _products(q, n) -> int:
    """Operations of n products of queries with keys, half of which are masked."""
    return n * 2 * q.shape[0] * q.shape[1] ** 2 * q.shape[2] // 2


KERNELS = (
    Kernel("attention", attention, lambda q, k, v, causal: reference(q, k, v, causal), _arguments,
           bytes=lambda q, k, v, causal: nbytes(q, k, v, q), flops=lambda q, *_: _products(q, 2), group="attention",
           title="causal attention, 8 heads of 64", size_is="queries and keys", scenario="S27",
           sizes={"cpu": 512, "cuda": 8192}, dtypes=("float16", "bfloat16", "float32"), bound="compute",
           jit=(forward_kernel,), main=0, slack=2.0, rival=_torch_forward),
    Kernel("attention_backward", attention_backward,
           lambda dout, q, k, v, out, lse, causal: reference_backward(dout, q, k, v, causal), _backward_arguments,
           bytes=lambda dout, q, *_: 8 * nbytes(q), flops=lambda dout, q, *_: _products(q, 7),
           group="attention, backward", title="causal attention, backward", size_is="queries and keys",
           scenario="S27", sizes={"cpu": 256, "cuda": 4096}, dtypes=("float16", "bfloat16", "float32"),
           bound="compute", jit=(delta_kernel, backward_kv_kernel, backward_q_kernel), slack=10.0,
           rival=_torch_backward),
)
