"""Kernels as inference servers write them: programs that wait for each other, routing, ragged batches, state."""

import pytest
import torch
import torch.nn.functional as F

import tritium as triton
import tritium.language as tl

torch.manual_seed(5)


def close(x, y, tol=1e-4):
    torch.testing.assert_close(x.float(), y.float(), rtol=tol, atol=tol)


def zeros(*shape):
    return torch.zeros(shape, dtype=torch.int32)


# --- programs that wait for each other --------------------------------------------------------------------------------
@triton.jit
def look_back(x, out, ticket, flags, sums, prefixes, n, BLOCK: tl.constexpr):
    """One pass over memory: a program adds what its predecessors know already, sums or whole prefixes."""
    pid = tl.atomic_add(ticket, 1)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    total = tl.sum(value, 0)
    tl.store(sums + pid, total)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1, sem="release")
    before = total * 0
    j = pid - 1
    done = j < 0
    while not done:
        flag = tl.atomic_add(flags + j, 0, sem="acquire")
        if flag == 2:
            before += tl.load(prefixes + j, volatile=True)
            done = True
        elif flag == 1:
            before += tl.load(sums + j, volatile=True)
            j -= 1
            done = j < 0
    tl.store(prefixes + pid, before + total)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 2, sem="release")
    tl.store(out + i, tl.cumsum(value, 0) + before, mask=i < n)


def test_decoupled_look_back(run):
    n, block = 500, 32
    blocks = triton.cdiv(n, block)
    x = torch.randint(0, 10, (n,), dtype=torch.int32)
    out = torch.empty_like(x)
    run(look_back, (blocks,), x, out, zeros(1), zeros(blocks), zeros(blocks), zeros(blocks), n, BLOCK=block)
    assert torch.equal(out, x.cumsum(0).int())


# --- routing ----------------------------------------------------------------------------------------------------------
@triton.jit
def sort_by_expert(ids, sorted_ids, expert_of_block, padded_total, numel, E: tl.constexpr, BLOCK: tl.constexpr,
                   N: tl.constexpr):
    """Tokens of one expert together, each group padded to whole blocks."""
    i = tl.arange(0, N)
    expert = tl.load(ids + i, mask=i < numel, other=E)
    start = 0
    for e in range(E):
        mine = expert == e
        count = tl.sum(mine.to(tl.int32), 0)
        tl.store(sorted_ids + start + tl.cumsum(mine.to(tl.int32), 0) - 1, i, mask=mine)
        padded = tl.cdiv(count, BLOCK) * BLOCK
        for block in range(start // BLOCK, (start + padded) // BLOCK):
            tl.store(expert_of_block + block, e)
        start += padded
    tl.store(padded_total, start)


@triton.jit
def write_zeros(c, stride, token, mask, BLOCK_M, BLOCK_N, dtype):
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c + token[:, None] * stride + cols[None, :], tl.zeros((BLOCK_M, BLOCK_N), dtype=dtype), mask=mask[:, None])


@triton.jit
def expert_matmul(a, b, c, weights, sorted_ids, expert_of_block, padded_total, N, K, numel, stride_am, stride_be,
                  stride_bn, stride_cm, TOP_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr, dtype: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK_M >= tl.load(padded_total):
        return
    token = tl.load(sorted_ids + pid * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64))
    mask = token < numel
    expert = tl.load(expert_of_block + pid).to(tl.int64)
    if expert == -1:
        write_zeros(c, stride_cm, token, mask, BLOCK_M, BLOCK_N, dtype)
        return
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a + (token[:, None] // TOP_K * stride_am + k[None, :])
    b_ptrs = b + expert * stride_be + (k[:, None] + cols[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        acc += tl.dot(tl.load(a_ptrs, mask=mask[:, None] & (k[None, :] < left), other=0.0),
                      tl.load(b_ptrs, mask=k[:, None] < left, other=0.0))
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    acc *= tl.load(weights + token, mask=mask, other=0)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c + token[:, None] * stride_cm + cols[None, :], acc.to(dtype), mask=mask[:, None] & (cols[None, :] < N))


def test_mixture_of_experts(run):
    M, K, N, E, top, block = 7, 40, 24, 3, 2, 16
    a, w = torch.randn(M, K).half(), torch.randn(E, N, K).half()
    ids, weights = torch.randint(0, E, (M, top), dtype=torch.int32), torch.rand(M, top)
    numel, room = M * top, M * top + E * (block - 1)
    order, experts, total = torch.full((room,), numel, dtype=torch.int32), zeros(triton.cdiv(room, block)) - 1, zeros(1)
    run(sort_by_expert, (1,), ids, order, experts, total, numel, E=E, BLOCK=block, N=16)
    c = torch.empty(numel, N, dtype=torch.float16)
    run(expert_matmul, (triton.cdiv(room, block), 2), a, w, c, weights, order, experts, total, N, K, numel, K, N * K, K,
        N, TOP_K=top, BLOCK_M=block, BLOCK_N=16, BLOCK_K=16, dtype=tl.float16)
    close(c.view(M, top, N), torch.einsum("mk,mtnk->mtn", a.float(), w.float()[ids]) * weights[..., None], 1e-2)


# --- ragged batches ---------------------------------------------------------------------------------------------------
@triton.jit
def attend(acc, total, top, q, k_ptrs, v_ptrs, stride, length, first, last, rows, cols, scale, BLOCK_N: tl.constexpr,
           EDGE: tl.constexpr):
    for n in range(first, last, BLOCK_N):
        n = tl.multiple_of(n, BLOCK_N)
        inside = n + cols < length
        k = tl.load(k_ptrs + n * stride, mask=inside[None, :], other=0.0) if EDGE else tl.load(k_ptrs + n * stride)
        qk = tl.dot(q, k, input_precision="ieee") * scale
        if EDGE:
            qk = tl.where(inside[None, :] & (rows[:, None] >= (n + cols)[None, :]), qk, float("-inf"))
        new_top = tl.maximum(top, tl.max(qk, 1))
        p = tl.math.exp2(qk - new_top[:, None])
        old = tl.math.exp2(top - new_top)
        v = tl.load(v_ptrs + n * stride, mask=inside[:, None], other=0.0) if EDGE else tl.load(v_ptrs + n * stride)
        acc = acc * old[:, None] + tl.dot(p.to(v.type.element_ty), v, input_precision="ieee")
        total = total * old + tl.sum(p, 1)
        top = new_top
    return acc, total, top


@triton.jit
def ragged_attention(Q, K, V, Out, starts, scale, stride_q, stride_k, GROUP: tl.constexpr, D: tl.constexpr,
                     BLOCK: tl.constexpr):
    start, head, batch = tl.program_id(0) * BLOCK, tl.program_id(1), tl.program_id(2)
    begin, end = tl.load(starts + batch), tl.load(starts + batch + 1)
    length = end - begin
    if start >= length:
        return
    rows, cols, d = start + tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, D)
    at = (begin + rows)[:, None] * stride_q + head * D + d[None, :]
    q = tl.load(Q + at, mask=rows[:, None] < length, other=0.0)
    base = begin * stride_k + (head // GROUP) * D
    k_ptrs = K + base + cols[None, :] * stride_k + d[:, None]
    v_ptrs = V + base + cols[:, None] * stride_k + d[None, :]
    top = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    acc = tl.zeros([BLOCK, D], dtype=tl.float32)
    if start > 0:
        acc, total, top = attend(acc, total, top, q, k_ptrs, v_ptrs, stride_k, length, 0, start, rows, cols, scale,
                                 BLOCK, EDGE=False)
    tl.debug_barrier()
    acc, total, top = attend(acc, total, top, q, k_ptrs, v_ptrs, stride_k, length, start,
                             tl.minimum(length, start + BLOCK), rows, cols, scale, BLOCK, EDGE=True)
    tl.store(Out + at, (acc / total[:, None]).to(Out.dtype.element_ty), mask=rows[:, None] < length)


@pytest.mark.parametrize("dtype, tol", [(torch.float32, 1e-4), (torch.float16, 5e-3)])
def test_attention_over_sequences_of_many_lengths(run, dtype, tol):
    heads, groups, D, lengths = 4, 2, 16, [5, 37, 16]
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    q = torch.randn(sum(lengths), heads, D).to(dtype)
    k, v = (torch.randn(sum(lengths), heads // groups, D).to(dtype) for _ in range(2))
    out = torch.empty_like(q)
    run(ragged_attention, (3, heads, 3), q, k, v, out, starts, D**-0.5 * 1.44269504, heads * D, heads // groups * D,
        GROUP=groups, D=D, BLOCK=16)
    for begin, end in zip(starts.tolist(), starts.tolist()[1:]):
        rows = (x[begin:end].float().transpose(0, 1) for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
        close(out[begin:end], F.scaled_dot_product_attention(*rows, is_causal=True).transpose(0, 1), tol)


# --- state carried from token to token --------------------------------------------------------------------------------
@triton.jit
def causal_conv(x, w, bias, out, dim: tl.constexpr, length: tl.int32, WIDTH: tl.constexpr, SILU: tl.constexpr,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    feature = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = feature < dim
    first = BLOCK_M * tl.program_id(0)
    start = tl.load(bias + feature, mask=mask, other=0.0) if bias is not None else tl.zeros((BLOCK_N,), tl.float32)
    w0 = tl.load(w + feature * WIDTH, mask, other=0.0)
    w1 = tl.load(w + feature * WIDTH + 1, mask, other=0.0)
    w2 = tl.load(w + feature * WIDTH + 2, mask, other=0.0)
    x += feature * length
    x0 = tl.load(x + first - 2, mask & (first >= 2), 0.0)
    x1 = tl.load(x + first - 1, mask & (first >= 1), 0.0)
    for token in range(first, min(first + BLOCK_M, length)):
        acc = start
        weight, value = w0, x0
        for j in tl.static_range(WIDTH):
            if j == 1:
                weight = w1
                value = x1
            elif j == 2:
                weight = w2
                value = tl.load(x + token, mask=mask)
            acc += value * weight
        x0 = x1
        x1 = value
        if SILU:
            acc = acc / (1 + tl.exp(-acc))
        tl.store(out + feature * length + token, acc, mask=mask)


@pytest.mark.parametrize("biased", [True, False])
def test_causal_convolution(run, biased):
    dim, length = 20, 11
    x, w, bias = torch.randn(dim, length), torch.randn(dim, 3), torch.randn(dim) if biased else None
    out = torch.empty_like(x)
    run(causal_conv, (3, 2), x, w, bias, out, dim, length, WIDTH=3, SILU=True, BLOCK_M=4, BLOCK_N=16)
    close(out, F.silu(F.conv1d(F.pad(x[None], (2, 0)), w[:, None], bias, groups=dim)[0]))


# --- what host code passes along --------------------------------------------------------------------------------------
@triton.jit
def raise_to(x, shape: tl.constexpr, strides, factor_and_power):
    ptrs = x + tl.arange(0, shape[0])[:, None] * strides[0] + tl.arange(0, shape[1])[None, :] * strides[1]
    value = tl.load(ptrs)
    for _ in tl.range(0, factor_and_power[1]):
        value = factor_and_power[0] * value
    tl.store(ptrs, value)


@pytest.mark.parametrize("pair", [(3.0, 2), (tl.constexpr(3.0), tl.constexpr(2))])
def test_sizes_and_strides_as_torch_gives_them(run, pair):
    x = torch.randn(4, 8)
    expected = x * 9
    run(raise_to, (1,), x, x.shape, x.stride(), pair)
    close(x, expected)
