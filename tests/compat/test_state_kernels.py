"""Kernels that carry state along a sequence, turn pairs, convolve, draw, normalise: as layers of models are written."""

import pytest
import torch
import torch.nn.functional as F

import tritium as triton
import tritium.language as tl

torch.manual_seed(17)


def close(x, y, tol=1e-4):
    torch.testing.assert_close(x.double(), y.double(), rtol=tol, atol=tol)


# --- state ------------------------------------------------------------------------------------------------------------
@triton.jit
def compose(a, x, b, y):
    """h -> a h + x, then h -> b h + y."""
    return a * b, y + b * x


@triton.jit
def selective_scan(u, delta, a, b, c, skip, out, T, D, CHUNK: tl.constexpr, N: tl.constexpr):
    """A chunk at a time: a scan inside the chunk, and the state of the last step carried over."""
    batch, d = tl.program_id(0), tl.program_id(1)
    n, t = tl.arange(0, N), tl.arange(0, CHUNK)
    decay = tl.load(a + d * N + n)
    state = tl.zeros((N,), tl.float32)
    for start in range(0, T, CHUNK):
        inside = start + t < T
        row = batch * T + start + t
        x = tl.load(u + row * D + d, mask=inside, other=0.0)
        dt = tl.load(delta + row * D + d, mask=inside, other=0.0)
        dt = tl.where(inside, tl.log(1 + tl.exp(dt)), 0.0)
        bs = tl.load(b + row[:, None] * N + n, mask=inside[:, None], other=0.0)
        cs = tl.load(c + row[:, None] * N + n, mask=inside[:, None], other=0.0)
        gates = tl.exp(dt[:, None] * decay[None, :])
        products, sums = tl.associative_scan((gates, (dt * x)[:, None] * bs), 0, compose)
        h = products * state[None, :] + sums
        state = tl.sum(tl.where(t[:, None] == CHUNK - 1, h, 0.0), 0)
        y = tl.sum(h * cs, 1) + tl.load(skip + d) * x
        tl.store(out + row * D + d, y, mask=inside)


def test_selective_scan(run):
    B, T, D, N = 2, 21, 3, 4
    u, delta = torch.randn(2, B, T, D)
    a, skip = -torch.rand(D, N), torch.randn(D)
    b, c = torch.randn(2, B, T, N)
    out = torch.empty(B, T, D)
    run(selective_scan, (B, D), u, delta, a, b, c, skip, out, T, D, CHUNK=8, N=N)
    h, want, dt = torch.zeros(B, D, N).double(), [], F.softplus(delta.double())
    for t in range(T):
        h = torch.exp(dt[:, t, :, None] * a) * h + (dt[:, t] * u[:, t])[..., None] * b[:, t, None]
        want.append((h * c[:, t, None]).sum(-1) + skip * u[:, t])
    close(out, torch.stack(want, 1))


@triton.jit
def gated_linear_attention(q, k, v, g, out, final, T, DK: tl.constexpr, DV: tl.constexpr, REVERSE: tl.constexpr):
    """One step at a time; the state is a matrix, its rows decay by gates."""
    head = tl.program_id(0)
    i, j = tl.arange(0, DK), tl.arange(0, DV)
    first = (T - 1) if REVERSE else 0
    q += (head * T + first) * DK
    k += (head * T + first) * DK
    g += (head * T + first) * DK
    v += (head * T + first) * DV
    out += (head * T + first) * DV
    step = -1 if REVERSE else 1
    state = tl.zeros((DK, DV), tl.float32)
    for _ in range(0, T):
        gate = tl.exp(tl.load(g + i).to(tl.float32))
        state = state * gate[:, None] + tl.load(k + i)[:, None].to(tl.float32) * tl.load(v + j)[None, :]
        tl.store(out + j, tl.sum(state * tl.load(q + i)[:, None], 0).to(out.dtype.element_ty))
        q += step * DK
        k += step * DK
        g += step * DK
        v += step * DV
        out += step * DV
    tl.store(final + head * DK * DV + i[:, None] * DV + j, state)


@pytest.mark.parametrize("reverse", [False, True])
def test_gated_linear_attention(run, reverse):
    H, T, DK, DV = 2, 9, 8, 16
    q, k = torch.randn(2, H, T, DK).half()
    g, v = -torch.rand(H, T, DK).half(), torch.randn(H, T, DV).half()
    out, final = torch.empty(H, T, DV), torch.empty(H, DK, DV)
    run(gated_linear_attention, (H,), q, k, v, g, out, final, T, DK=DK, DV=DV, REVERSE=reverse)
    state, want = torch.zeros(H, DK, DV).double(), torch.empty(H, T, DV).double()
    for t in reversed(range(T)) if reverse else range(T):
        state = state * g[:, t, :, None].double().exp() + k[:, t, :, None].double() * v[:, t, None].double()
        want[:, t] = (state * q[:, t, :, None].double()).sum(1)
    close(out, want)
    close(final, state)


@triton.jit
def wkv(w, u, k, v, out, T, C, BLOCK: tl.constexpr):
    """Sums with their exponent kept aside: nothing overflows."""
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < C
    decay, bonus = tl.load(w + c, mask=inside), tl.load(u + c, mask=inside)
    num = tl.zeros((BLOCK,), tl.float32)
    den = tl.zeros((BLOCK,), tl.float32)
    top = tl.full((BLOCK,), -1e38, tl.float32)
    for t in range(T):
        at = (tl.program_id(0) * T + t) * C + c
        kt, vt = tl.load(k + at, mask=inside), tl.load(v + at, mask=inside)
        m = tl.maximum(top, bonus + kt)
        e1, e2 = tl.exp(top - m), tl.exp(bonus + kt - m)
        tl.store(out + at, (e1 * num + e2 * vt) / (e1 * den + e2), mask=inside)
        m = tl.maximum(top + decay, kt)
        e1, e2 = tl.exp(top + decay - m), tl.exp(kt - m)
        num, den, top = e1 * num + e2 * vt, e1 * den + e2, m


def test_wkv(run):
    B, T, C = 2, 7, 10
    w, u = -torch.rand(C) * 3, torch.randn(C)
    k, v = torch.randn(2, B, T, C)
    k *= 30
    out = torch.empty(B, T, C)
    run(wkv, (B, 2), w, u, k, v, out, T, C, BLOCK=8)
    want = torch.empty(B, T, C).double()
    for t in range(T):
        powers = [k[:, s].double() + (t - 1 - s) * w.double() for s in range(t)] + [u + k[:, t].double()]
        weights = torch.stack(powers).softmax(0)
        want[:, t] = (weights * v[:, :t + 1].double().movedim(1, 0)).sum(0)
    close(out, want)


# --- pairs ------------------------------------------------------------------------------------------------------------
@triton.jit
def rotate_pairs(x, cos, sin, positions, heads, D: tl.constexpr, ROT: tl.constexpr, INVERSE: tl.constexpr = False):
    """Neighbours are a pair; the tail of the head stays. In place."""
    token, head = tl.program_id(0), tl.program_id(1)
    p = tl.load(positions + token)
    i = tl.arange(0, ROT)
    at = x + (token * heads + head) * D + i
    even, odd = tl.split(tl.reshape(tl.load(at), (ROT // 2, 2)))
    half = tl.arange(0, ROT // 2)
    c, s = tl.load(cos + p * (ROT // 2) + half), tl.load(sin + p * (ROT // 2) + half)
    if INVERSE:
        s = -s
    tl.store(at, tl.interleave(even * c - odd * s, even * s + odd * c))


@pytest.mark.parametrize("inverse", [False, True])
def test_rotary_of_interleaved_pairs(run, inverse):
    tokens, heads, D, rot = 5, 3, 16, 8
    x = torch.randn(tokens, heads, D)
    positions = torch.tensor([0, 3, 1, 9, 2])
    angle = torch.arange(10)[:, None] * (10000.0 ** (-torch.arange(rot // 2) / 4))
    pairs = torch.view_as_complex(x[..., :rot].double().reshape(tokens, heads, rot // 2, 2))
    turn = torch.polar(torch.ones(10, 4).double(), angle.double() * (-1 if inverse else 1))[positions][:, None]
    want = torch.cat([torch.view_as_real(pairs * turn).flatten(2), x[..., rot:].double()], -1)
    run(rotate_pairs, (tokens, heads), x, angle.cos(), angle.sin(), positions, heads, D=D, ROT=rot, INVERSE=inverse)
    close(x, want, 1e-5)


# --- convolutions -----------------------------------------------------------------------------------------------------
@triton.jit
def conv3d(x, w, bias, y, N, C, D, H, W, K, OD, OH, OW, stride: tl.constexpr, pad: tl.constexpr,
           KS: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr):
    """An output point is a row: its coordinates by division, a product for every tap and channel."""
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    ow, oh, od, n = p % OW, p // OW % OH, p // (OW * OH) % OD, p // (OW * OH * OD)
    acc = tl.zeros((BP, BK), tl.float32)
    for a in tl.static_range(KS):
        for b in tl.static_range(KS):
            for c in tl.static_range(KS):
                z, i, j = od * stride + a - pad, oh * stride + b - pad, ow * stride + c - pad
                inside = (n < N) & (z >= 0) & (z < D) & (i >= 0) & (i < H) & (j >= 0) & (j < W)
                for ch in range(C):
                    v = tl.load(x + (((n * C + ch) * D + z) * H + i) * W + j, mask=inside, other=0.0)
                    f = tl.load(w + (((k * C + ch) * KS + a) * KS + b) * KS + c, mask=k < K, other=0.0)
                    acc += v[:, None] * f[None, :]
    if bias is not None:
        acc += tl.load(bias + k, mask=k < K)[None, :]
    points = OD * OH * OW
    tl.store(y + (p // points)[:, None] * K * points + k[None, :] * points + (p % points)[:, None], acc,
             mask=(k < K)[None, :] & (n < N)[:, None])


@pytest.mark.parametrize("stride, pad, biased", [(1, 1, True), (2, 0, False)])
def test_convolution_in_three_dimensions(run, stride, pad, biased):
    x, w = torch.randn(2, 2, 5, 4, 6), torch.randn(3, 2, 3, 3, 3)
    bias = torch.randn(3) if biased else None
    want = F.conv3d(x.double(), w.double(), bias.double() if biased else None, stride, pad)
    y = torch.empty(want.shape)
    points = want[:, 0].numel()
    run(conv3d, (triton.cdiv(points, 32), 1), x, w, bias, y, *x.shape, 3, *y.shape[2:], stride, pad, KS=3, BP=32,
        BK=4)
    close(y, want)


# --- norms ------------------------------------------------------------------------------------------------------------
@triton.jit
def merge(mean, m2, n, mean_b, m2_b, n_b):
    """Two sets of samples as one (Chan's formula)."""
    total = n + n_b
    share = tl.where(total > 0, n_b / tl.maximum(total, 1.0), 0.0)
    delta = mean_b - mean
    return mean + delta * share, m2 + m2_b + delta * delta * n * share, total


@triton.jit
def group_norm(x, weight, bias, y, C, HW, GROUP: tl.constexpr, BLOCK: tl.constexpr, eps: tl.constexpr = 1e-5):
    """Channels of a group are one run of memory; each lane counts its own samples."""
    n, g = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, BLOCK)
    x += (n * C + g * GROUP) * HW
    y += (n * C + g * GROUP) * HW
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, GROUP * HW, BLOCK):
        inside = start + i < GROUP * HW
        v = tl.load(x + start + i, mask=inside, other=0.0).to(tl.float32)
        count += inside.to(tl.float32)
        delta = tl.where(inside, v - mean, 0.0)
        mean += delta / tl.maximum(count, 1.0)
        m2 += delta * tl.where(inside, v - mean, 0.0)
    mean, m2, count = tl.reduce((mean, m2, count), 0, merge)
    rstd = 1.0 / tl.sqrt(m2 / count + eps)
    for start in range(0, GROUP * HW, BLOCK):
        inside = start + i < GROUP * HW
        channel = g * GROUP + (start + i) // HW
        v = tl.load(x + start + i, mask=inside).to(tl.float32)
        w, b = tl.load(weight + channel, mask=inside), tl.load(bias + channel, mask=inside)
        tl.store(y + start + i, (v - mean) * rstd * w + b, mask=inside)


@pytest.mark.parametrize("dtype, tol", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_group_norm_by_welford(run, dtype, tol):
    x = (torch.randn(2, 6, 5, 3) * 3 + 100).to(dtype)
    w, b = torch.randn(2, 6)
    y = torch.empty_like(x)
    run(group_norm, (2, 2), x, w, b, y, 6, 15, GROUP=3, BLOCK=16)
    torch.testing.assert_close(y.double(), F.group_norm(x.double(), 2, w.double(), b.double()), rtol=tol, atol=10 * tol)


# --- drawing ----------------------------------------------------------------------------------------------------------
@triton.jit
def drop_and_add(x, residual, out, mask_out, p, seed, n, BLOCK: tl.constexpr):
    """Four numbers of one counter for four parts of the block; the mask is kept as bits."""
    base = tl.program_id(0) * BLOCK * 4
    i = tl.arange(0, BLOCK)
    r0, r1, r2, r3 = tl.rand4x(seed, base + i)
    draws = (r0, r1, r2, r3)
    bits = tl.zeros((BLOCK,), tl.uint8)
    for part in tl.static_range(4):
        at = base + part * BLOCK + i
        keep = draws[part] >= p
        v = tl.load(x + at, mask=at < n, other=0.0)
        r = tl.load(residual + at, mask=at < n, other=0.0)
        tl.store(out + at, tl.where(keep, v / (1 - p), 0.0) + r, mask=at < n)
        bits |= keep.to(tl.uint8) << part
    tl.store(mask_out + tl.program_id(0) * BLOCK + i, bits)


def test_dropout_with_a_mask_of_bits(run):
    n, block = 900, 64
    x, residual = torch.rand(n) + 1, torch.randn(n)
    out = torch.empty(n)
    bits = torch.zeros(4 * block, dtype=torch.uint8)
    run(drop_and_add, (4,), x, residual, out, bits, 0.3, 123, n, BLOCK=block)
    keep = torch.stack([(bits.reshape(4, block) >> k) & 1 for k in range(4)], 1).flatten()[:n].bool()
    close(out, torch.where(keep, x.double() / 0.7, 0.0) + residual, 1e-5)
    assert 0.62 < keep.float().mean() < 0.78


# --- experts ----------------------------------------------------------------------------------------------------------
@triton.jit
def route(logits, bias, weights, ids, E: tl.constexpr, GROUPS: tl.constexpr, KEPT: tl.constexpr, K: tl.constexpr,
          SCALE: tl.constexpr):
    """Sigmoid scores; groups of experts by their two best, then experts among the groups that are kept."""
    row = tl.program_id(0)
    e = tl.arange(0, E)
    score = tl.sigmoid(tl.load(logits + row * E + e))
    biased = score + tl.load(bias + e)
    table = tl.reshape(biased, (GROUPS, E // GROUPS))
    first = tl.max(table, 1)
    place = tl.argmax(table, 1)
    rest = tl.where(tl.arange(0, E // GROUPS)[None, :] == place[:, None], float("-inf"), table)
    of_group = first + tl.max(rest, 1)
    g = tl.arange(0, GROUPS)
    mine, others = of_group[:, None], of_group[None, :]
    better = (others > mine) | ((others == mine) & (g[None, :] < g[:, None]))
    kept = tl.sum(better.to(tl.int32), 1) < KEPT
    biased = tl.ravel(tl.where(kept[:, None], table, float("-inf")))
    total = 0.0
    for k in tl.static_range(K):
        best = tl.argmax(biased, 0)
        w = tl.sum(tl.where(e == best, score, 0.0), 0)
        tl.store(ids + row * K + k, best)
        tl.store(weights + row * K + k, w)
        total += w
        biased = tl.where(e == best, float("-inf"), biased)
    tl.debug_barrier()
    k = tl.arange(0, K)
    tl.store(weights + row * K + k, tl.load(weights + row * K + k) * (SCALE / total))


def test_routing_by_groups(run):
    rows, E, groups, kept, K = 12, 16, 4, 2, 4
    logits, bias = torch.randn(rows, E), torch.randn(E) / 4
    weights, ids = torch.empty(rows, K), torch.empty(rows, K, dtype=torch.int32)
    run(route, (rows,), logits, bias, weights, ids, E=E, GROUPS=groups, KEPT=kept, K=K, SCALE=2.5)
    score = logits.double().sigmoid()
    table = (score + bias).reshape(rows, groups, -1)
    chosen = table.topk(2).values.sum(-1).topk(kept).indices
    allowed = torch.full((rows, groups, 1), float("-inf")).double().scatter(1, chosen[..., None], 0.0)
    at = (table + allowed).flatten(1).topk(K).indices
    assert torch.equal(ids.long(), at)
    want = score.gather(1, at)
    close(weights, want / want.sum(-1, keepdim=True) * 2.5, 1e-5)
