"""Kernels over rows in the style of public libraries, against torch: norms, losses, activations, rotation."""

import math

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import close
from tritium.language.extra import libdevice

torch.manual_seed(3)


@triton.jit
def layer_norm_fwd(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr, HAS_BIAS: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        a = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.).to(tl.float32)
        y = (x - mean) * rstd * w
        if HAS_BIAS:
            y += tl.load(B + cols, mask=mask)
        tl.store(Y + cols, y.to(Y.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm(run, dtype, bias):
    x = torch.randn(5, 300).to(dtype)
    w, b = torch.randn(300).to(dtype), torch.randn(300).to(dtype) if bias else None
    y, mean, rstd = torch.empty_like(x), torch.empty(5), torch.empty(5)
    run(layer_norm_fwd, (5,), x, y, w, b, mean, rstd, x.stride(0), 300, 1e-5, BLOCK_SIZE=128, HAS_BIAS=bias)
    want = torch.nn.functional.layer_norm(x.float(), (300,), w.float(), b.float() if bias else None)
    close(y, want, {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype])
    close(mean, x.float().mean(1))


@triton.jit
def layer_norm_bwd_dwdb(DY, X, Mean, Rstd, DW, DB, Lock, stride, N, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Partial sums under a lock, as in tutorials: rows of one group share a buffer."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    lock_id = row % GROUP
    Lock += lock_id
    Count = Lock + GROUP
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = tl.load(X + row * stride + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + row * stride + cols, mask=mask, other=0).to(tl.float32)
    xhat = (x - tl.load(Mean + row)) * tl.load(Rstd + row)
    partial_dw = dy * xhat
    partial_db = dy
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


def test_layer_norm_backward_with_locks(run):
    rows, n, groups = 24, 100, 4
    x, dy = torch.randn(rows, n), torch.randn(rows, n)
    mean, rstd = x.mean(1), 1 / torch.sqrt(x.var(1, unbiased=False) + 1e-5)
    dw, db = torch.empty(groups, n), torch.empty(groups, n)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    run(layer_norm_bwd_dwdb, (rows,), dy, x, mean, rstd, dw, db, locks, x.stride(0), n, GROUP=groups, BLOCK=128)
    xhat = (x - mean[:, None]) * rstd[:, None]
    close(dw.sum(0), (dy * xhat).sum(0), 1e-4)
    close(db.sum(0), dy.sum(0), 1e-4)


@triton.jit
def _welford(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return mean_1 + delta * w2_over_w, m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w, new_weight


@triton.jit
def welford_kernel(x_ptr, mean_ptr, var_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + tl.program_id(0) * N + offs, mask, 0.0)
    m, m2, w = tl.reduce((x, tl.zeros_like(x), mask.to(tl.float32)), 0, _welford)
    tl.store(mean_ptr + tl.program_id(0), m)
    tl.store(var_ptr + tl.program_id(0), m2 / w)


def test_welford(run):
    x = torch.randn(3, 77) * 5 + 100
    mean, var = torch.empty(3), torch.empty(3)
    run(welford_kernel, (3,), x, mean, var, 77, BLOCK=128)
    close(mean, x.mean(1))
    close(var, x.var(1, unbiased=False), 1e-4)


@triton.jit
def cross_entropy(logits_ptr, labels_ptr, loss_ptr, lse_ptr, n_cols, smoothing, ignore_index, SPLIT: tl.constexpr,
                  HAS_SMOOTHING: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * n_cols
    label = tl.load(labels_ptr + row)
    if label == ignore_index:
        tl.store(loss_ptr + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    total = 0.0
    for start in tl.range(0, n_cols, BLOCK, num_stages=2):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=float("-inf")).cast(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
        if HAS_SMOOTHING:
            total += tl.sum(tl.where(cols < n_cols, x, 0.0))
    lse = m + tl.log(d)
    tl.store(lse_ptr + row, lse)
    loss = lse - tl.load(logits_ptr + label).to(tl.float32)
    if HAS_SMOOTHING:
        loss = loss * (1 - smoothing) + smoothing * (lse - total / n_cols)
    tl.store(loss_ptr + row, loss)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(run, smoothing):
    logits, labels = torch.randn(7, 130), torch.randint(0, 130, (7,))
    labels[2] = -100
    loss, lse = torch.empty(7), torch.zeros(7)
    run(cross_entropy, (7,), logits, labels, loss, lse, 130, smoothing, -100, SPLIT=False, HAS_SMOOTHING=smoothing > 0,
        BLOCK=64)
    close(loss, torch.nn.functional.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing))


@triton.jit
def tanh_gelu(x):
    k: tl.constexpr = math.sqrt(2 / math.pi)
    inner = k * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + libdevice.tanh(inner))


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def glu_kernel(gate_ptr, up_ptr, out_ptr, n, ACT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    gate = tl.load(gate_ptr + offs, mask, other=0).to(tl.float32)
    up = tl.load(up_ptr + offs, mask, other=0)
    if ACT == "gelu":
        gate = tanh_gelu(gate)
    elif ACT == "silu":
        gate = silu(gate)
    elif ACT == "relu2":
        gate = tl.maximum(gate, 0.0)
        gate *= gate
    else:
        tl.static_assert(False, "unknown activation")
    tl.store(out_ptr + offs, gate.to(up.dtype) * up, mask)


@pytest.mark.parametrize("act", ["gelu", "silu", "relu2"])
def test_gated_activations(run, act):
    gate, up = torch.randn(300).half(), torch.randn(300).half()
    out = torch.empty_like(up)
    run(glu_kernel, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), gate, up, out, 300, ACT=act, BLOCK=128)
    f = {"gelu": lambda v: torch.nn.functional.gelu(v, approximate="tanh"), "silu": torch.nn.functional.silu,
         "relu2": lambda v: torch.relu(v) ** 2}[act]
    close(out, f(gate.float()).half() * up, 2e-3)


@triton.jit
def rope_kernel(q_ptr, cos_ptr, sin_ptr, seq_len, n_heads: tl.constexpr, head_dim: tl.constexpr,
                HALF: tl.constexpr, BACKWARD: tl.constexpr = False):
    pid = tl.program_id(0)
    pos = pid % seq_len
    q_ptr += pid * n_heads * head_dim
    cos = tl.load(cos_ptr + pos * HALF + tl.arange(0, HALF))[None, :]
    sin = tl.load(sin_ptr + pos * HALF + tl.arange(0, HALF))[None, :]
    first = tl.arange(0, n_heads)[:, None] * head_dim + tl.arange(0, HALF)[None, :]
    x1 = tl.load(q_ptr + first)
    x2 = tl.load(q_ptr + first + HALF)
    if not BACKWARD:
        tl.store(q_ptr + first, x1 * cos - x2 * sin)
        tl.store(q_ptr + first + HALF, x2 * cos + x1 * sin)
    else:
        tl.store(q_ptr + first, x1 * cos + x2 * sin)
        tl.store(q_ptr + first + HALF, x2 * cos - x1 * sin)


def test_rotary_there_and_back(run):
    q = torch.randn(6, 4, 16)
    angle = torch.rand(6, 8)
    cos, sin = angle.cos(), angle.sin()
    want = torch.cat([q[..., :8] * cos[:, None] - q[..., 8:] * sin[:, None],
                      q[..., 8:] * cos[:, None] + q[..., :8] * sin[:, None]], -1)
    mine = q.clone()
    run(rope_kernel, (6,), mine, cos, sin, 6, n_heads=4, head_dim=16, HALF=8)
    close(mine, want)
    run(rope_kernel, (6,), mine, cos, sin, 6, 4, 16, 8, BACKWARD=True)
    close(mine, q)
