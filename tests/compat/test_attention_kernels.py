"""Attention and recurrences in the style of public libraries, against torch."""

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import close
from tritium.language.extra import libdevice

torch.manual_seed(3)


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
