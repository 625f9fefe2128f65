"""Kernels in the style of public libraries, against torch: routing, optimisers, scattered updates."""

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import close
from tritium.language.extra import libdevice

torch.manual_seed(3)


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
