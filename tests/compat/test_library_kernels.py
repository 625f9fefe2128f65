"""Kernels in the style of public libraries, against torch: rows, attention, products, quantisation, routing."""

import math

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import HOST_ONLY
from tritium.language.extra import libdevice
from tritium.tools.tensor_descriptor import TensorDescriptor

torch.manual_seed(3)


def close(x, y, tol=2e-5):
    torch.testing.assert_close(x.float(), y.float(), rtol=tol, atol=tol)


# --- rows -------------------------------------------------------------------------------------------------------------
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


# --- attention --------------------------------------------------------------------------------------------------------
@triton.jit
def _attn_inner(acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale, N_CTX: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr, offs_m: tl.constexpr,
                offs_n: tl.constexpr):
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    K_block_ptr = tl.advance(K_block_ptr, (0, lo))
    V_block_ptr = tl.advance(V_block_ptr, (lo, 0))
    for start_n in range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = tl.load(K_block_ptr)
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = tl.load(V_block_ptr)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
        V_block_ptr = tl.advance(V_block_ptr, (BLOCK_N, 0))
        K_block_ptr = tl.advance(K_block_ptr, (0, BLOCK_N))
    return acc, l_i, m_i


@triton.jit
def attn_fwd(Q, K, V, sm_scale, M, Out, stride_z, stride_m, stride_k, Z, N_CTX, HEAD_DIM: tl.constexpr,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr):
    tl.static_assert(BLOCK_N <= HEAD_DIM)
    start_m = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * stride_z
    Q_block_ptr = tl.make_block_ptr(base=Q + base, shape=(N_CTX, HEAD_DIM), strides=(stride_m, stride_k),
                                    offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD_DIM), order=(1, 0))
    V_block_ptr = tl.make_block_ptr(base=V + base, shape=(N_CTX, HEAD_DIM), strides=(stride_m, stride_k),
                                    offsets=(0, 0), block_shape=(BLOCK_N, HEAD_DIM), order=(1, 0))
    K_block_ptr = tl.make_block_ptr(base=K + base, shape=(HEAD_DIM, N_CTX), strides=(stride_k, stride_m),
                                    offsets=(0, 0), block_shape=(HEAD_DIM, BLOCK_N), order=(0, 1))
    O_block_ptr = tl.make_block_ptr(base=Out + base, shape=(N_CTX, HEAD_DIM), strides=(stride_m, stride_k),
                                    offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD_DIM), order=(1, 0))
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = tl.load(Q_block_ptr)
    if STAGE & 1:
        acc, l_i, m_i = _attn_inner(acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale, N_CTX, BLOCK_M,
                                    BLOCK_N, 4 - STAGE, offs_m, offs_n)
    if STAGE & 2:
        acc, l_i, m_i = _attn_inner(acc, l_i, m_i, q, K_block_ptr, V_block_ptr, start_m, qk_scale, N_CTX, BLOCK_M,
                                    BLOCK_N, 2, offs_m, offs_n)
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + tl.program_id(1) * N_CTX + offs_m, m_i)
    tl.store(O_block_ptr, acc.to(Out.type.element_ty))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_block_pointers(run, causal):
    q, k, v = (torch.randn(2, 64, 32).half() * 0.5 for _ in range(3))
    out, m = torch.empty_like(q), torch.empty(2, 64)
    run(attn_fwd, (64 // 32, 2), q, k, v, 0.25, m, out, q.stride(0), q.stride(1), q.stride(2), 2, 64, HEAD_DIM=32,
        BLOCK_M=32, BLOCK_N=16, STAGE=3 if causal else 1)
    s = q.float() @ k.float().transpose(1, 2) * 0.25
    if causal:
        s = s.masked_fill(torch.ones(64, 64).triu(1).bool(), float("-inf"))
    close(out, s.softmax(-1) @ v.float(), 4e-3)


@triton.jit
def paged_decode(q_ptr, k_cache, v_cache, table_ptr, lens_ptr, out_ptr, scale, stride_table, GROUP: tl.constexpr,
                 PAGE: tl.constexpr, DIM: tl.constexpr, SOFTCAP: tl.constexpr):
    """One token of each sequence against keys that lie in pages; the heads of a group are padded to 16."""
    seq = tl.program_id(0)
    rows, dims, slots = tl.arange(0, 16), tl.arange(0, DIM), tl.arange(0, PAGE)
    valid = rows < GROUP
    q = tl.load(q_ptr + seq * GROUP * DIM + rows[:, None] * DIM + dims[None, :], mask=valid[:, None], other=0.0)
    n = tl.load(lens_ptr + seq)
    m_i = tl.full([16], float("-inf"), tl.float32)
    l_i = tl.zeros([16], tl.float32)
    acc = tl.zeros([16, DIM], tl.float32)
    for page in range(tl.cdiv(n, PAGE)):
        block = tl.load(table_ptr + seq * stride_table + page).to(tl.int64)
        k = tl.load(k_cache + block * PAGE * DIM + slots[None, :] * DIM + dims[:, None])
        s = tl.dot(q, k) * scale
        if SOFTCAP > 0:
            s = SOFTCAP * libdevice.tanh(s / SOFTCAP)
        s = tl.where((page * PAGE + slots < n)[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        v = tl.load(v_cache + block * PAGE * DIM + slots[:, None] * DIM + dims[None, :])
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    tl.store(out_ptr + seq * GROUP * DIM + rows[:, None] * DIM + dims[None, :], acc / l_i[:, None], mask=valid[:, None])


@pytest.mark.parametrize("softcap", [0.0, 20.0])
def test_paged_attention(run, softcap):
    group, page, dim, pages = 5, 16, 32, 7
    k, v = torch.randn(pages, page, dim).half(), torch.randn(pages, page, dim).half()
    q, table = torch.randn(2, group, dim).half(), torch.tensor([[3, 0, 6], [5, 1, 2]], dtype=torch.int32)
    lens = torch.tensor([37, 16], dtype=torch.int32)
    out = torch.empty(2, group, dim)
    run(paged_decode, (2,), q, k, v, table, lens, out, dim**-0.5, table.stride(0), GROUP=group, PAGE=page, DIM=dim,
        SOFTCAP=softcap)
    for b in range(2):
        keys = k[table[b].long()].reshape(-1, dim)[: lens[b]].float()
        vals = v[table[b].long()].reshape(-1, dim)[: lens[b]].float()
        s = q[b].float() @ keys.T * dim**-0.5
        s = softcap * torch.tanh(s / softcap) if softcap else s
        close(out[b], s.softmax(-1) @ vals, 3e-3)


# --- products ---------------------------------------------------------------------------------------------------------
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                  GROUP_SIZE_M: tl.constexpr, ACTIVATION: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    tl.assume(pid_m >= 0)
    tl.assume(stride_am > 0)
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(tl.float16)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_of_the_tutorials(run, activation, transposed):
    m, n, k = 50, 70, 45
    a = torch.randn(m, k).half()
    b = torch.randn(n, k).half().T if transposed else torch.randn(k, n).half()
    c = torch.empty(m, n, dtype=torch.float16)
    grid = lambda META: (triton.cdiv(m, META["BLOCK_SIZE_M"]) * triton.cdiv(n, META["BLOCK_SIZE_N"]),)
    run(matmul_kernel, grid, a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=32, BLOCK_SIZE_N=32,
        BLOCK_SIZE_K=16, GROUP_SIZE_M=2, ACTIVATION=activation)
    want = a.float() @ b.float()
    close(c, torch.nn.functional.leaky_relu(want) if activation else want, 1e-2)


@triton.jit
def grouped_matmul(a_ptrs, b_ptrs, c_ptrs, sizes_ptr, lds_ptr, groups, NUM_SM: tl.constexpr, BLOCK: tl.constexpr):
    """Problems of different sizes, their pointers read from memory."""
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(groups):
        gm = tl.load(sizes_ptr + g * 3)
        gn = tl.load(sizes_ptr + g * 3 + 1)
        gk = tl.load(sizes_ptr + g * 3 + 2)
        num_n_tiles = tl.cdiv(gn, BLOCK)
        num_tiles = tl.cdiv(gm, BLOCK) * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            k = gk
            lda = tl.load(lds_ptr + g * 3)
            ldb = tl.load(lds_ptr + g * 3 + 1)
            ldc = tl.load(lds_ptr + g * 3 + 2)
            a_ptr = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float16))
            tile = tile_idx - last_problem_end
            offs_m = tile // num_n_tiles * BLOCK + tl.arange(0, BLOCK)
            offs_n = tile % num_n_tiles * BLOCK + tl.arange(0, BLOCK)
            offs_k = tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for kk in range(0, tl.cdiv(k, BLOCK)):
                km = kk * BLOCK + offs_k
                a = tl.load(a_ptr + offs_m[:, None] * lda + km[None, :], (offs_m[:, None] < gm) & (km[None, :] < k), 0.)
                b = tl.load(b_ptr + km[:, None] * ldb + offs_n[None, :], (km[:, None] < k) & (offs_n[None, :] < gn), 0.)
                acc += tl.dot(a, b)
            tl.store(c_ptr + ldc * offs_m[:, None] + offs_n[None, :], acc.to(tl.float16),
                     (offs_m[:, None] < gm) & (offs_n[None, :] < gn))
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@HOST_ONLY
def test_grouped_matmul_with_pointers_in_memory(run):
    shapes = [(20, 40, 24), (64, 16, 16), (33, 17, 50)]
    a = [torch.randn(m, k).half() for m, n, k in shapes]
    b = [torch.randn(k, n).half() for m, n, k in shapes]
    c = [torch.zeros(m, n).half() for m, n, k in shapes]
    addresses = [torch.tensor([t.data_ptr() for t in ts]) for ts in (a, b, c)]
    sizes = torch.tensor([x for s in shapes for x in s], dtype=torch.int32)
    lds = torch.tensor([x for m, n, k in shapes for x in (k, n, n)], dtype=torch.int32)
    run(grouped_matmul, (3,), *addresses, sizes, lds, 3, NUM_SM=3, BLOCK=16)
    for x, y, z in zip(a, b, c):
        close(z, x.float() @ y.float(), 1e-2)


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, lock_ptr, M, N, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """Slices of K meet in an atomic counter: the last one to come finishes the tile."""
    pid, part = tl.program_id(0), tl.program_id(1)
    nn = tl.cdiv(N, BLOCK)
    offs_m = (pid // nn) * BLOCK + tl.arange(0, BLOCK)
    offs_n = (pid % nn) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(part * BLOCK, K, SPLIT * BLOCK):
        offs_k = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], (offs_m < M)[:, None] & (offs_k < K)[None, :], 0.)
        b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :], (offs_k < K)[:, None] & (offs_n < N)[None, :], 0.)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    tl.atomic_add(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=mask, sem="release")
    done = tl.atomic_add(lock_ptr + pid, 1, sem="acq_rel")
    if done == SPLIT - 1:
        c = tl.load(c_ptr + offs_m[:, None] * N + offs_n[None, :], mask=mask)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], c * 2, mask=mask)


def test_split_k(run):
    a, b = torch.randn(30, 100), torch.randn(100, 20)
    c, locks = torch.zeros(30, 20), torch.zeros(4, dtype=torch.int32)
    run(split_k, (4, 3), a, b, c, locks, 30, 20, 100, SPLIT=3, BLOCK=16)
    close(c, 2 * (a @ b), 1e-4)
    assert locks.tolist() == [3] * 4


@triton.jit
def matmul_descriptor(a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    off_m, off_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=False):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    c = acc.to(c_desc.dtype)
    c_desc.store([off_m, off_n], c)


def test_matmul_with_host_descriptors(run):
    m, n, k = 40, 48, 64
    a, b = torch.randn(m, k).half(), torch.randn(n, k).half()
    c = torch.empty(m, n).half()
    descs = [TensorDescriptor.from_tensor(a, [32, 16]), TensorDescriptor(b, b.shape, b.stride(), [16, 16]),
             TensorDescriptor.from_tensor(c, [32, 16])]
    run(matmul_descriptor, (2, 3), *descs, k, BLOCK_M=32, BLOCK_N=16, BLOCK_K=16)
    close(c, a.float() @ b.float().T, 1e-2)


@triton.jit
def persistent_descriptor(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, NUM_SMS: tl.constexpr,
                          SUBTILE: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1],
                                       block_shape=[BLOCK, BLOCK // 2 if SUBTILE else BLOCK])
    num_n = tl.cdiv(N, BLOCK)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK) * num_n, NUM_SMS, flatten=True):
        m, n = tile // num_n * BLOCK, tile % num_n * BLOCK
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(0, K, BLOCK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, acc)
        if SUBTILE:
            halves = tl.reshape(acc, (BLOCK, 2, BLOCK // 2))
            halves = tl.permute(halves, (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([m, n], left.to(c_desc.dtype))
            c_desc.store([m, n + BLOCK // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([m, n], acc.to(c_desc.dtype))


@pytest.mark.parametrize("subtile", [False, True])
def test_persistent_matmul_with_device_descriptors(run, subtile):
    a, b = torch.randn(48, 32).half(), torch.randn(64, 32).half()
    c = torch.empty(48, 64).half()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
    run(persistent_descriptor, (2,), a, b, c, 48, 64, 32, BLOCK=32, NUM_SMS=2, SUBTILE=subtile)
    close(c, a.float() @ b.float().T, 1e-2)


# --- quantisation -----------------------------------------------------------------------------------------------------
@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, N, MAX: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    absmax = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-10)
    scale = absmax / MAX
    q = x / scale
    if q_ptr.dtype.element_ty == tl.int8:
        q = libdevice.rint(q)
    q = tl.clamp(q, -MAX, MAX).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + row * N + cols, q, mask=cols < N)
    tl.store(scale_ptr + row, scale)


@pytest.mark.parametrize("dtype, limit", [(torch.int8, 127.0), (torch.float8_e4m3fn, 448.0),
                                          (torch.float8_e5m2, 57344.0)])
def test_quantise(run, dtype, limit):
    x = torch.randn(4, 100)
    q, scale = torch.empty(4, 100, dtype=dtype), torch.empty(4)
    run(quantize_rows, (4,), x, q, scale, 100, MAX=limit, BLOCK=128)
    close(scale, x.abs().amax(1) / limit)
    close(q.float() * scale[:, None], x, 0.3)


@triton.jit
def int4_matmul(a_ptr, q_ptr, scales_ptr, zeros_ptr, c_ptr, N, K: tl.constexpr, GROUP: tl.constexpr,
                BLOCK: tl.constexpr):
    """Weights of four bits, eight in a word, with a scale and a zero for each group of rows."""
    offs_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_m = tl.arange(0, 16)
    acc = tl.zeros((16, BLOCK), tl.float32)
    for k in range(0, K, GROUP):
        offs_k = k + tl.arange(0, GROUP)
        shifter = (offs_k % 8) * 4
        packed = tl.load(q_ptr + (offs_k[:, None] // 8) * N + offs_n[None, :])
        scale = tl.load(scales_ptr + k // GROUP * N + offs_n)
        zero = (tl.load(zeros_ptr + k // GROUP * (N // 8) + offs_n // 8) >> (offs_n % 8) * 4) & 0xF
        w = ((packed >> shifter[:, None]) & 0xF) - (zero + 1)[None, :]
        w = w * scale[None, :]
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
        acc = tl.dot(a, w.to(a.dtype), acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def test_int4_weights(run):
    k, n, group = 64, 32, 32
    w = torch.randint(0, 16, (k, n), dtype=torch.int32)
    zeros = torch.randint(0, 15, (k // group, n), dtype=torch.int32)
    pack = lambda t, axis: sum((t.unflatten(axis, (-1, 8)).select(axis + 1, i).long() << 4 * i) for i in range(8))
    qw = pack(w, 0).to(torch.int64).to(torch.uint32).view(torch.int32).contiguous()
    qz = pack(zeros, 1).to(torch.uint32).view(torch.int32).contiguous()
    scales = torch.rand(k // group, n).half()
    a, c = torch.randn(16, k).half(), torch.empty(16, n)
    run(int4_matmul, (1,), a, qw, scales, qz, c, n, K=k, GROUP=group, BLOCK=32)
    dequant = (w.unflatten(0, (-1, group)) - (zeros + 1)[:, None]) * scales.float()[:, None]
    close(c, a.float() @ dequant.flatten(0, 1), 5e-2)


# --- routing ----------------------------------------------------------------------------------------------------------
@triton.jit
def topk_gating(logits_ptr, ids_ptr, weights_ptr, counts_ptr, E: tl.constexpr, TOPK: tl.constexpr,
                RENORM: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, E)
    probs = tl.softmax(tl.load(logits_ptr + row * E + lanes))
    total = 0.0
    for k in tl.static_range(TOPK):
        best, at = tl.max(probs, 0, return_indices=True)
        tl.store(ids_ptr + row * TOPK + k, at)
        tl.store(weights_ptr + row * TOPK + k, best)
        tl.atomic_add(counts_ptr + at, 1, sem="relaxed")
        total += best
        probs = tl.where(lanes == at, -1.0, probs)
    if RENORM:
        slots = tl.arange(0, TOPK)
        w = tl.load(weights_ptr + row * TOPK + slots)
        tl.store(weights_ptr + row * TOPK + slots, w / total)


@pytest.mark.parametrize("renorm", [False, True])
def test_routing(run, renorm):
    logits = torch.randn(20, 16)
    ids, weights = torch.empty(20, 4, dtype=torch.int32), torch.empty(20, 4)
    counts = torch.zeros(16, dtype=torch.int32)
    run(topk_gating, (20,), logits, ids, weights, counts, E=16, TOPK=4, RENORM=renorm)
    w, at = logits.softmax(-1).topk(4)
    assert torch.equal(ids.long(), at) and torch.equal(counts, torch.bincount(at.ravel(), minlength=16).int())
    close(weights, w / w.sum(-1, keepdim=True) if renorm else w)


@triton.jit
def align_blocks(ids_ptr, sorted_ptr, offsets_ptr, numel, E: tl.constexpr, BLOCK: tl.constexpr):
    """Sort tokens by expert: counts by histogram, places by cumulative sums."""
    offs = tl.arange(0, BLOCK)
    mask = offs < numel
    ids = tl.load(ids_ptr + offs, mask=mask, other=0)
    counts = tl.histogram(ids, E, mask=mask)
    starts = tl.cumsum(counts, 0) - counts
    tl.store(offsets_ptr + tl.arange(0, E), starts)
    tl.debug_barrier()
    for e in tl.static_range(E):
        mine = (ids == e) & mask
        rank = tl.cumsum(mine.to(tl.int32), 0) - 1
        start = tl.sum(tl.where(tl.arange(0, E) == e, starts, 0))
        tl.store(sorted_ptr + start + rank, offs, mask=mine)


def test_sorting_tokens_by_expert(run):
    ids = torch.randint(0, 8, (50,), dtype=torch.int32)
    out, starts = torch.full((50,), -1, dtype=torch.int32), torch.empty(8, dtype=torch.int32)
    run(align_blocks, (1,), ids, out, starts, 50, E=8, BLOCK=64)
    assert torch.equal(out.long(), ids.argsort(stable=True))
    assert torch.equal(starts.long(), torch.bincount(ids, minlength=8).cumsum(0) - torch.bincount(ids, minlength=8))


@triton.jit
def keyed_sort(x_ptr, i_ptr, N: tl.constexpr):
    """Sort values with their positions packed into the low bits."""
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    bits = x.to(tl.uint32, bitcast=True)
    top = (bits >> 31) != 0
    key = bits ^ tl.where(top, 0xFFFFFFFF, 0x80000000).to(tl.uint32)
    packed = (key.to(tl.uint64) << 32) | offs.to(tl.uint64)
    packed = tl.sort(packed, descending=True)
    tl.store(i_ptr + offs, (packed & 0xFFFFFFFF).to(tl.int32))


def test_argsort_by_packed_keys(run):
    x = torch.randn(64)
    at = torch.empty(64, dtype=torch.int32)
    run(keyed_sort, (1,), x, at, N=64)
    assert torch.equal(at.long(), x.argsort(descending=True))


# --- sequences --------------------------------------------------------------------------------------------------------
@triton.jit
def _gated(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def linear_recurrence(a_ptr, b_ptr, h_ptr, L: tl.constexpr, D: tl.constexpr, REVERSE: tl.constexpr):
    offs = tl.arange(0, L)[:, None] * D + tl.arange(0, D)[None, :]
    _, h = tl.associative_scan((tl.load(a_ptr + offs), tl.load(b_ptr + offs)), axis=0, combine_fn=_gated,
                               reverse=REVERSE)
    tl.store(h_ptr + offs, h)


@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence(run, reverse):
    a, b = torch.rand(32, 8), torch.randn(32, 8)
    out = torch.empty_like(b)
    run(linear_recurrence, (1,), a, b, out, L=32, D=8, REVERSE=reverse)
    h, want = torch.zeros(8), torch.empty_like(b)
    for t in (reversed(range(32)) if reverse else range(32)):
        h = a[t] * h + b[t]
        want[t] = h
    close(out, want)


@triton.heuristics({"HAS_STATE": lambda args: args["h0"] is not None})
@triton.jit(do_not_specialize=["T"])
def chunk_linear_attention(q, k, v, h0, o, scale, T, D: tl.constexpr, BT: tl.constexpr, HAS_STATE: tl.constexpr):
    i_h = tl.program_id(0)
    o_i = tl.arange(0, BT)
    m_s = o_i[:, None] >= o_i[None, :]
    b_h = tl.zeros([D, D], dtype=tl.float32)
    if HAS_STATE:
        p_h = tl.make_block_ptr(h0 + i_h * D * D, (D, D), (D, 1), (0, 0), (D, D), (1, 0))
        b_h = tl.load(p_h, boundary_check=(0, 1)).to(tl.float32)
    for i in range(0, tl.cdiv(T, BT)):
        p_q = tl.make_block_ptr(q + i_h * T * D, (T, D), (D, 1), (i * BT, 0), (BT, D), (1, 0))
        p_k = tl.make_block_ptr(k + i_h * T * D, (D, T), (1, D), (0, i * BT), (D, BT), (0, 1))
        p_v = tl.make_block_ptr(v + i_h * T * D, (T, D), (D, 1), (i * BT, 0), (BT, D), (1, 0))
        p_o = tl.make_block_ptr(o + i_h * T * D, (T, D), (D, 1), (i * BT, 0), (BT, D), (1, 0))
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_q = (b_q * scale).to(b_q.dtype)
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        b_s = tl.where(m_s, tl.dot(b_q, b_k, allow_tf32=False), 0)
        b_o = tl.dot(b_s.to(b_q.dtype), b_v, allow_tf32=False)
        b_o += tl.dot(b_q, b_h.to(b_q.dtype), allow_tf32=False)
        b_h += tl.dot(b_k, b_v, allow_tf32=False)
        tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


@pytest.mark.parametrize("state", [False, True])
def test_chunked_linear_attention(state):
    q, k, v = (torch.randn(2, 50, 16) * 0.5 for _ in range(3))
    h0 = torch.randn(2, 16, 16) if state else None
    o = torch.empty_like(v)
    chunk_linear_attention[(2,)](q, k, v, h0, o, 0.25, 50, D=16, BT=16)
    s = (q * 0.25 @ k.transpose(1, 2)).tril()
    close(o, s @ v + (q * 0.25 @ h0 if state else 0), 1e-4)


# --- elementwise and memory -------------------------------------------------------------------------------------------
@triton.jit
def adam_step(p_ptr, g_ptr, m_ptr, v_ptr, lr, beta1, beta2, eps, step, n, ADAMW: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    p = tl.load(p_ptr + offs, mask=mask)
    g = tl.load(g_ptr + offs, mask=mask)
    if not ADAMW:
        g += 0.01 * p
    m = beta1 * tl.load(m_ptr + offs, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + offs, mask=mask) + (1 - beta2) * g * g
    m_hat = m / (1 - libdevice.pow(beta1, step.to(tl.float32)))
    v_hat = v / (1 - libdevice.pow(beta2, step.to(tl.float32)))
    p -= lr * m_hat / (tl.sqrt(v_hat) + eps)
    tl.store(p_ptr + offs, p, mask=mask)
    tl.store(m_ptr + offs, m, mask=mask)
    tl.store(v_ptr + offs, v, mask=mask)


def test_adam(run):
    p = torch.randn(100)
    reference = torch.nn.Parameter(p.clone())
    optimizer = torch.optim.Adam([reference], lr=0.1)
    m, v = torch.zeros(100), torch.zeros(100)
    for step in (2, 3):
        g = torch.randn(100)
        reference.grad = g.clone()
        optimizer.state[reference] = {"step": torch.tensor(float(step - 1)), "exp_avg": m.clone(),
                                      "exp_avg_sq": v.clone()}
        optimizer.step()
        run(adam_step, (2,), p, g, m, v, 0.1, 0.9, 0.999, 1e-8, step, 100, ADAMW=True, BLOCK=64)
        close(p, reference.detach(), 1e-5)


@triton.jit
def embedding_backward(ids_ptr, dy_ptr, dw_ptr, DIM: tl.constexpr):
    token = tl.load(ids_ptr + tl.program_id(0))
    offs = tl.arange(0, DIM)
    tl.atomic_add(dw_ptr + token * DIM + offs, tl.load(dy_ptr + tl.program_id(0) * DIM + offs), sem="relaxed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_scattered_atomics(run, dtype):
    ids = torch.randint(0, 5, (40,))
    dy = torch.randint(-4, 5, (40, 32)).to(dtype)
    dw = torch.zeros(5, 32, dtype=dtype)
    run(embedding_backward, (40,), ids, dy, dw, DIM=32)
    assert torch.equal(dw.float(), torch.zeros(5, 32).index_add(0, ids, dy.float()))


@triton.jit
def seeded_dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, offs) > p
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, tl.where(keep, x / (1 - p), 0.0), mask=offs < n)


def test_dropout_repeats_itself(run):
    x = torch.ones(1000)
    outs = [torch.empty(1000) for _ in range(3)]
    for out, seed in zip(outs, (7, 7, 8)):
        run(seeded_dropout, (8,), x, out, 1000, 0.25, seed, BLOCK=128)
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])
    assert set(outs[0].tolist()) == {0.0, torch.tensor(1 / 0.75).item()} and 0.15 < (outs[0] == 0).float().mean() < 0.35
