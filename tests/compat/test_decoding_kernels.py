"""Kernels of decoders: caches in pages, quantised weights, samplers, ragged batches, locks."""

import pytest
import torch
import torch.nn.functional as F

import tritium as triton
import tritium.language as tl

torch.manual_seed(11)


def close(x, y, tol=1e-4):
    torch.testing.assert_close(x.double(), y.double(), rtol=tol, atol=tol)


# --- attention over pages ---------------------------------------------------------------------------------------------
@triton.jit
def decode_partial(q, k_cache, v_cache, pages, lengths, part, lse, scale, stride_page, stride_slot, stride_head,
                   stride_pages, stride_part, PAGE: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr,
                   SPLITS: tl.constexpr):
    """One split of one sequence: a group of query heads shares one head of the cache."""
    seq, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + seq)
    blocks = tl.cdiv(length, PAGE)
    per_split = tl.cdiv(blocks, SPLITS)
    first = split * per_split
    last = tl.minimum(first + per_split, blocks)
    g, d, s = tl.arange(0, GROUP), tl.arange(0, D), tl.arange(0, PAGE)
    heads = head * GROUP + g
    at = ((seq * tl.num_programs(1) * GROUP + heads) * SPLITS + split)
    if first >= last:
        tl.store(lse + at, float("-inf"))
        return
    query = tl.load(q + (seq * tl.num_programs(1) * GROUP + heads)[:, None] * D + d[None, :])
    m = tl.full((GROUP,), float("-inf"), tl.float32)
    l = tl.zeros((GROUP,), tl.float32)
    acc = tl.zeros((GROUP, D), tl.float32)
    for b in tl.range(first, last, num_stages=2):
        page = tl.load(pages + seq * stride_pages + b).to(tl.int64)
        where = page * stride_page + s[:, None] * stride_slot + head * stride_head + d[None, :]
        valid = b * PAGE + s < length
        k = tl.load(k_cache + where, mask=valid[:, None], other=0.0)
        v = tl.load(v_cache + where, mask=valid[:, None], other=0.0)
        scores = tl.sum(query[:, None, :] * k[None, :, :], 2) * scale
        scores = tl.where(valid[None, :], scores, float("-inf"))
        new = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        old = tl.exp(m - new)
        l = l * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.sum(p[:, :, None] * v[None, :, :], 1)
        m = new
    tl.store(part + at[:, None] * stride_part + d[None, :], acc / l[:, None])
    tl.store(lse + at, m + tl.log(l))


@triton.jit
def decode_combine(part, lse, out, D: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    s, d = tl.arange(0, SPLITS), tl.arange(0, D)
    weights = tl.load(lse + row * SPLITS + s)
    top = tl.max(weights, 0)
    weights = tl.exp(weights - top)
    values = tl.load(part + (row * SPLITS + s)[:, None] * D + d, mask=weights[:, None] > 0, other=0.0)
    tl.store(out + row * D + d, tl.sum(values * weights[:, None], 0) / tl.sum(weights, 0))


def test_split_decoding_over_pages(run):
    seqs, kv_heads, group, d, page, splits = 3, 2, 4, 16, 8, 4
    lengths = torch.tensor([5, 40, 17], dtype=torch.int32)
    pages = torch.randperm(24, dtype=torch.int32).reshape(3, 8)
    k, v = torch.randn(2, 24, page, kv_heads, d)
    q = torch.randn(seqs, kv_heads * group, d)
    part = torch.full((seqs, kv_heads * group, splits, d), float("nan"))
    lse, out = torch.empty(seqs, kv_heads * group, splits), torch.empty(seqs, kv_heads * group, d)
    run(decode_partial, (seqs, kv_heads, splits), q, k, v, pages, lengths, part, lse, d ** -0.5, k.stride(0),
        k.stride(1), k.stride(2), pages.stride(0), d, PAGE=page, D=d, GROUP=group, SPLITS=splits)
    run(decode_combine, (seqs * kv_heads * group,), part, lse, out, D=d, SPLITS=splits)
    for i, n in enumerate(lengths.tolist()):
        ks = k[pages[i].long()].reshape(-1, kv_heads, d)[:n].double().repeat_interleave(group, 1)
        vs = v[pages[i].long()].reshape(-1, kv_heads, d)[:n].double().repeat_interleave(group, 1)
        w = torch.einsum("hd,nhd->hn", q[i].double(), ks).mul(d ** -0.5).softmax(-1)
        close(out[i], torch.einsum("hn,nhd->hd", w, vs))


@triton.jit
def append_to_pages(new, cache, slots, D: tl.constexpr, PAGE: tl.constexpr):
    """Slot -1 means that the token is not kept."""
    slot = tl.load(slots + tl.program_id(0))
    if slot < 0:
        return
    page = slot // PAGE
    d = tl.arange(0, D)
    x = tl.load(new + tl.program_id(0) * D + d)
    tl.store(cache + page * PAGE * D + d * PAGE + slot % PAGE, x)


def test_appending_to_pages(run):
    new, cache = torch.randn(6, 8), torch.zeros(3, 8, 4)
    slots = torch.tensor([0, 5, -1, 11, 3, -1])
    want = cache.clone()
    for i, s in enumerate(slots.tolist()):
        if s >= 0:
            want[s // 4, :, s % 4] = new[i]
    run(append_to_pages, (6,), new, cache, slots, D=8, PAGE=4)
    assert torch.equal(cache, want)


# --- quantised weights ------------------------------------------------------------------------------------------------
@triton.jit
def gptq_matmul(a, packed, scales, zeros, groups, c, M, N, K, stride_am, stride_w, stride_s, stride_z, stride_c,
                BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Eight int4 weights in an int32 along K, zero points packed along N, a table of groups (act order)."""
    pm, pn = tl.program_id(0), tl.program_id(1)
    m, n, k = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        ks = start + k
        w = tl.load(packed + (ks // 8)[:, None] * stride_w + n[None, :])
        w = (w >> ((ks % 8) * 4)[:, None]) & 0xF
        g = tl.load(groups + ks)
        scale = tl.load(scales + g[:, None] * stride_s + n[None, :])
        zero = tl.load(zeros + g[:, None] * stride_z + (n // 8)[None, :])
        zero = ((zero >> ((n % 8) * 4)[None, :]) & 0xF) + 1
        weight = ((w - zero) * scale).to(tl.float16)
        x = tl.load(a + m[:, None] * stride_am + ks[None, :], mask=m[:, None] < M, other=0.0)
        acc = tl.dot(x, weight, acc)
    tl.store(c + m[:, None] * stride_c + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


def pack(x, axis):
    """Eight nibbles along an axis in one int32."""
    x = x.movedim(axis, -1).reshape(*x.movedim(axis, -1).shape[:-1], -1, 8).long()
    words = sum(x[..., i] << (4 * i) for i in range(8))
    return torch.where(words >= 2 ** 31, words - 2 ** 32, words).int().movedim(-1, axis).contiguous()


def test_int4_weights_with_groups_in_any_order(run):
    M, N, K, groups = 10, 32, 64, 4
    w, z = torch.randint(0, 16, (K, N)), torch.randint(0, 16, (groups, N))
    scales = (torch.rand(groups, N) / 8).half()
    group = torch.randint(0, groups, (K,), dtype=torch.int32)
    a = (torch.randn(M, K) / 4).half()
    c = torch.empty(M, N, dtype=torch.float16)
    packed, zeros = pack(w, 0), pack(z, 1)
    run(gptq_matmul, (1, 2), a, packed, scales, zeros, group, c, M, N, K, K, N, N, N // 8, N, BM=16, BN=16, BK=32)
    weight = ((w - z[group.long()] - 1) * scales[group.long()].double()).half().double()
    close(c, a.double() @ weight, 4e-3)


@triton.jit
def block_scaled_matmul(a, b, a_scale, b_scale, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """fp8 with a scale for each row and 32 columns of `a`, and each tile of `b`."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    blocks = tl.cdiv(K, BK)
    for i in range(blocks):
        x = tl.load(a + m[:, None] * K + (i * BK + k)[None, :])
        w = tl.load(b + n[None, :] * K + (i * BK + k)[:, None])
        sa = tl.load(a_scale + m * blocks + i)
        sb = tl.load(b_scale + tl.program_id(1) * blocks + i)
        acc += tl.dot(x, w) * (sa[:, None] * sb)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


def test_fp8_with_scales_of_blocks(run):
    M, N, K = 32, 32, 64
    a, b = (torch.randn(M, K)).to(torch.float8_e4m3fn), (torch.randn(N, K)).to(torch.float8_e4m3fn)
    sa, sb = torch.rand(M, 2), torch.rand(2, 2)
    c = torch.empty(M, N, dtype=torch.bfloat16)
    run(block_scaled_matmul, (1, 2), a, b, sa, sb, c, M, N, K, BM=32, BN=16, BK=32)
    x = a.double() * sa.double().repeat_interleave(32, 1)
    w = b.double() * sb.double().repeat_interleave(16, 0).repeat_interleave(32, 1)
    close(c, x @ w.T, 2e-2)


@triton.jit
def nf4_dequantise(packed, code, absmax, out, n, BLOCK: tl.constexpr, PER: tl.constexpr):
    """Two codes in a byte, high one first; a table of sixteen values by gather."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bytes_ = tl.load(packed + i, mask=i < n // 2, other=0)
    table = tl.load(code + tl.arange(0, 16))
    high = tl.gather(table, (bytes_ >> 4).to(tl.int32), 0)
    low = tl.gather(table, (bytes_ & 0xF).to(tl.int32), 0)
    both = tl.interleave(high, low)
    j = tl.program_id(0) * BLOCK * 2 + tl.arange(0, 2 * BLOCK)
    scale = tl.load(absmax + j // PER, mask=j < n, other=0.0)
    tl.store(out + j, (both * scale).to(out.dtype.element_ty), mask=j < n)


def test_dequantising_by_a_table(run):
    n = 200
    packed = torch.randint(0, 256, (n // 2,), dtype=torch.uint8)
    code, absmax = torch.randn(16), torch.rand(n // 8)
    out = torch.empty(n, dtype=torch.bfloat16)
    run(nf4_dequantise, (4,), packed, code, absmax, out, n, BLOCK=32, PER=8)
    nibbles = torch.stack([packed >> 4, packed & 15], 1).ravel().long()
    assert torch.equal(out, (code[nibbles] * absmax.repeat_interleave(8)).bfloat16())


# --- samplers ---------------------------------------------------------------------------------------------------------
@triton.jit
def top_p(logits, out, p, temperature, seed, V, BLOCK: tl.constexpr):
    """Sort with positions in the low bits, keep the smallest set whose mass reaches `p`, draw one of it."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(logits + row * V + i, mask=i < V, other=float("-inf")) / temperature
    x = tl.exp(x - tl.max(x, 0))
    probs = x / tl.sum(x, 0)
    key = (probs.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | i
    key = tl.sort(key, descending=True)
    probs = (key >> 32).to(tl.uint32).to(tl.float32, bitcast=True)
    order = (key & 0xFFFFFFFF).to(tl.int32)
    mass = tl.cumsum(probs, 0)
    kept = tl.where(mass - probs < p, probs, 0.0)
    kept = tl.cumsum(kept, 0)
    u = tl.rand(seed, row) * tl.max(kept, 0)
    place = tl.sum((kept <= u).to(tl.int32), 0)
    tl.store(out + row, tl.sum(tl.where(i == place, order, 0), 0))


def test_top_p(run):
    V = 50
    logits = torch.randn(40, V) * 2
    out = torch.empty(40, dtype=torch.int32)
    run(top_p, (40,), logits, out, 0.5, 0.7, 7, V, BLOCK=64)
    probs, order = (logits.double() / 0.7).softmax(-1).sort(descending=True)
    for row in range(40):
        n = int((probs[row].cumsum(0) - probs[row] < 0.5).sum())
        assert int(out[row]) in order[row, :n].tolist()
    assert len({int((order[r] == out[r]).nonzero()) for r in range(40)}) > 1


@triton.jit
def better(a, i, b, j):
    """The larger value; of equal ones the earlier place."""
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def gumbel_argmax(logits, out, seed, V, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for start in tl.range(0, V, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * V + i, mask=i < V, other=float("-inf"))
        u = tl.maximum(tl.rand(seed, row * V + i), 1e-10)
        best, place = better(best, place, x - tl.log(-tl.log(u)), i)
    _, at = tl.reduce((best, place), 0, better)
    tl.store(out + row, at)


def test_gumbel_sampler(run):
    logits = torch.tensor([[0.0, 30, 0, 0, 0], [0, 0, 0, 0, 40]])
    out = torch.empty(2, dtype=torch.int32)
    run(gumbel_argmax, (2,), logits, out, 3, 5, BLOCK=4)
    assert out.tolist() == [1, 4]


@triton.jit
def penalise(logits, seen, lengths, presence, frequency, repetition, V, L: tl.constexpr, BLOCK: tl.constexpr):
    """Counts of earlier tokens by histogram, in blocks of the vocabulary."""
    row, block = tl.program_id(0), tl.program_id(1)
    j = tl.arange(0, L)
    n = tl.load(lengths + row)
    tokens = tl.load(seen + row * L + j, mask=j < n, other=-1)
    mine = (tokens >= block * BLOCK) & (tokens < (block + 1) * BLOCK)
    counts = tl.histogram(tl.where(mine, tokens - block * BLOCK, 0), BLOCK, mask=mine)
    i = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * V + i, mask=i < V)
    there = counts > 0
    x = tl.where(there & (x > 0), x / repetition, tl.where(there, x * repetition, x))
    x -= frequency * counts + presence * there
    tl.store(logits + row * V + i, x, mask=i < V)


def test_penalties(run):
    V, L = 40, 16
    logits = torch.randn(3, V)
    seen, lengths = torch.randint(0, V, (3, L), dtype=torch.int32), torch.tensor([0, 7, 16], dtype=torch.int32)
    want = logits.double()
    for r in range(3):
        counts = torch.bincount(seen[r, :int(lengths[r])], minlength=V)
        there = counts > 0
        x = torch.where(there & (want[r] > 0), want[r] / 1.2, torch.where(there, want[r] * 1.2, want[r]))
        want[r] = x - 0.3 * counts - 0.1 * there
    run(penalise, (3, 3), logits, seen, lengths, 0.1, 0.3, 1.2, V, L=L, BLOCK=16)
    close(logits, want)


@triton.jit
def bitonic_top(x, values, places, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * N + i)
    key = (v.to(tl.int32) << 16) | (0xFFFF - i)
    best = tl.topk(key, K)
    k = tl.arange(0, K)
    tl.store(values + tl.program_id(0) * K + k, (best >> 16).to(tl.int16))
    tl.store(places + tl.program_id(0) * K + k, 0xFFFF - (best & 0xFFFF))


def test_top_k_with_places(run):
    x = torch.randint(-100, 100, (5, 64), dtype=torch.int16)
    values, places = torch.empty(5, 8, dtype=torch.int16), torch.empty(5, 8, dtype=torch.int32)
    run(bitonic_top, (5,), x, values, places, N=64, K=8)
    order = (-x.int()).argsort(stable=True, dim=1)[:, :8]
    assert torch.equal(places.long(), order) and torch.equal(values, x.gather(1, order))


# --- many products ----------------------------------------------------------------------------------------------------
@triton.jit
def group_of_tile(starts, tile, GROUPS: tl.constexpr):
    """The last group whose first tile is not after `tile`: bisection in memory."""
    low = 0
    high = GROUPS
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(starts + middle) <= tile:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def grouped_rows(x, w, out, first_tiles, first_rows, N, K, GROUPS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                 BK: tl.constexpr):
    """A fixed number of programs walks the tiles of all groups."""
    tiles = tl.load(first_tiles + GROUPS)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        g = group_of_tile(first_tiles, tile, GROUPS)
        row = tl.load(first_rows + g) + (tile - tl.load(first_tiles + g)) * BM
        m, n, k = row + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
        inside = m < tl.load(first_rows + g + 1)
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            a = tl.load(x + m[:, None] * K + start + k[None, :], mask=inside[:, None], other=0.0)
            b = tl.load(w + g * K * N + (start + k)[:, None] * N + n[None, :])
            acc = tl.dot(a, b, acc, input_precision="ieee")
        tl.store(out + m[:, None] * N + n[None, :], acc, mask=inside[:, None])


def test_groups_by_a_table_on_the_device(run):
    rows, K, N, BM = [5, 0, 33, 16], 32, 16, 16
    x, w = torch.randn(sum(rows), K), torch.randn(4, K, N)
    first_rows = torch.tensor([0, 5, 5, 38, 54], dtype=torch.int32)
    tiles = torch.tensor([triton.cdiv(r, BM) for r in rows])
    first_tiles = torch.cat([torch.zeros(1), tiles.cumsum(0)]).int()
    out = torch.empty(sum(rows), N)
    run(grouped_rows, (2,), x, w, out, first_tiles, first_rows, N, K, GROUPS=4, BM=BM, BN=16, BK=16)
    want = torch.cat([part.double() @ w[g].double() for g, part in enumerate(x.split(rows))])
    close(out, want)


@triton.jit
def stream_k(a, b, c, partial, flags, N, K, TILES: tl.constexpr, ITERS: tl.constexpr, BM: tl.constexpr,
             BN: tl.constexpr, BK: tl.constexpr):
    """Work is cut in equal shares of the loop over K; who finishes a tile waits for the shares before it."""
    pid = tl.program_id(0)
    total = TILES * ITERS
    share = tl.cdiv(total, tl.num_programs(0))
    at = pid * share
    end = tl.minimum(at + share, total)
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    cell = m[:, None] * BN + n[None, :]
    while at < end:
        tile = at // ITERS
        first = at % ITERS
        last = tl.minimum(ITERS, first + end - at)
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(first, last):
            x = tl.load(a + m[:, None] * K + (i * BK + k)[None, :])
            y = tl.load(b + (i * BK + k)[:, None] * N + (tile * BN + n)[None, :])
            acc = tl.dot(x, y, acc, input_precision="ieee")
        if last < ITERS:
            tl.store(partial + pid * BM * BN + cell, acc)
            tl.debug_barrier()
            tl.atomic_xchg(flags + pid, 1, sem="release")
        else:
            have = first
            giver = pid - 1
            while have > 0:
                while tl.atomic_cas(flags + giver, 1, 1, sem="acquire") != 1:
                    pass
                acc += tl.load(partial + giver * BM * BN + cell, cache_modifier=".cv")
                have -= tl.minimum(share, have)
                giver -= 1
            tl.store(c + m[:, None] * N + (tile * BN + n)[None, :], acc)
        at += last - first


@pytest.mark.parametrize("programs", [1, 3, 6])
def test_stream_k(run, programs):
    a, b, c = torch.randn(16, 80), torch.randn(80, 48), torch.empty(16, 48)
    partial, flags = torch.empty(programs, 16, 16), torch.zeros(programs, dtype=torch.int32)
    run(stream_k, (programs,), a, b, c, partial, flags, 48, 80, TILES=3, ITERS=5, BM=16, BN=16, BK=16)
    close(c, a.double() @ b.double())


# --- segments ---------------------------------------------------------------------------------------------------------
@triton.jit
def carry(flag_a, a, flag_b, b):
    """A flag starts a segment: sums do not cross it."""
    return flag_a | flag_b, tl.where(flag_b, b, a + b)


@triton.jit
def segment_sums(values, segments, out, n, BLOCK: tl.constexpr):
    """Sorted segments: a segmented scan, and one atomic for the last element of each run."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(values + i, mask=inside, other=0.0)
    seg = tl.load(segments + i, mask=inside, other=-1)
    before = tl.load(segments + i - 1, mask=inside & (i > 0), other=-1)
    after = tl.load(segments + i + 1, mask=i + 1 < n, other=-1)
    starts = (seg != before).to(tl.int1)
    _, sums = tl.associative_scan((starts, v), 0, carry)
    ends = inside & ((seg != after) | (tl.arange(0, BLOCK) == BLOCK - 1))
    tl.atomic_add(out + seg, sums, mask=ends, sem="relaxed")


def test_segment_sums(run):
    n = 150
    segments = torch.randint(0, 9, (n,)).sort().values.int()
    values = torch.randint(-5, 6, (n,)).float()
    out = torch.zeros(9)
    run(segment_sums, (triton.cdiv(n, 32),), values, segments, out, n, BLOCK=32)
    assert torch.equal(out, torch.zeros(9).index_add(0, segments.long(), values))


@triton.jit
def jagged_to_padded(values, offsets, out, longest, fill, D: tl.constexpr, BLOCK: tl.constexpr):
    seq = tl.program_id(1)
    begin, end = tl.load(offsets + seq), tl.load(offsets + seq + 1)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    row = begin + t
    x = tl.load(values + row[:, None] * D + d, mask=(row < end)[:, None], other=0.0)
    x = tl.where((row < end)[:, None], x, fill)
    tl.store(out + (seq * longest + t)[:, None] * D + d, x, mask=(t < longest)[:, None])


def test_jagged_rows(run):
    lengths = [3, 0, 9, 1]
    offsets = torch.tensor([0, 3, 3, 12, 13])
    values = torch.randn(13, 8)
    out = torch.empty(4, 9, 8)
    run(jagged_to_padded, (3, 4), values, offsets, out, 9, -1.5, D=8, BLOCK=4)
    assert torch.equal(out, torch.nn.utils.rnn.pad_sequence(list(values.split(lengths)), True, -1.5))


@triton.jit
def ragged_softmax(x, offsets, out, BLOCK: tl.constexpr):
    """Rows of any length, twice over memory."""
    begin = tl.load(offsets + tl.program_id(0)).to(tl.int32)
    end = tl.load(offsets + tl.program_id(0) + 1).to(tl.int32)
    m = float("-inf")
    total = 0.0
    i = tl.arange(0, BLOCK)
    for at in range(begin, end, BLOCK):
        v = tl.load(x + at + i, mask=at + i < end, other=float("-inf"))
        new = tl.maximum(m, tl.max(v, 0))
        total = total * tl.exp(m - new) + tl.sum(tl.exp(v - new), 0)
        m = new
    for at in range(begin, end, BLOCK):
        v = tl.load(x + at + i, mask=at + i < end)
        tl.store(out + at + i, tl.exp(v - m) / total, mask=at + i < end)


def test_softmax_of_rows_of_any_length(run):
    offsets = torch.tensor([0, 1, 1, 30, 46])
    x, out = torch.randn(46), torch.empty(46)
    run(ragged_softmax, (4,), x, offsets, out, BLOCK=16)
    close(out, torch.cat([part.double().softmax(0) for part in x.split([1, 0, 29, 16])]), 1e-5)


# --- losses -----------------------------------------------------------------------------------------------------------
@triton.jit
def fused_cross_entropy(logits, targets, losses, count, stride, V, ignore, smoothing, softcap, HAS_CAP: tl.constexpr,
                        BLOCK: tl.constexpr):
    """The loss of a row, and its gradient in place of the logits."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    target = tl.load(targets + row)
    i = tl.arange(0, BLOCK)
    if target == ignore:
        for start in range(0, V, BLOCK):
            tl.store(logits + start + i, 0.0, mask=start + i < V)
        return
    m, d, total, own = float("-inf"), 0.0, 0.0, 0.0
    for start in range(0, V, BLOCK):
        x = tl.load(logits + start + i, mask=start + i < V, other=float("-inf")).to(tl.float32)
        if HAS_CAP:
            e = tl.exp(2 * tl.minimum(x / softcap, 40.0))
            x = tl.where(start + i < V, softcap * (e - 1) / (e + 1), float("-inf"))
        own += tl.sum(tl.where(start + i == target, x, 0.0), 0)
        total += tl.sum(tl.where(start + i < V, x, 0.0), 0)
        new = tl.maximum(m, tl.max(x, 0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new), 0)
        m = new
    lse = m + tl.log(d)
    tl.store(losses + row, (1 - smoothing) * (lse - own) + smoothing * (lse - total / V))
    n = tl.load(count)
    for start in range(0, V, BLOCK):
        raw = tl.load(logits + start + i, mask=start + i < V, other=0.0).to(tl.float32)
        x = raw
        slope = tl.full((BLOCK,), 1.0, tl.float32)
        if HAS_CAP:
            e = tl.exp(2 * tl.minimum(raw / softcap, 40.0))
            tanh = (e - 1) / (e + 1)
            x = softcap * tanh
            slope = 1 - tanh * tanh
        g = tl.exp(x - lse) - smoothing / V - tl.where(start + i == target, 1 - smoothing, 0.0)
        tl.store(logits + start + i, (g * slope / n), mask=start + i < V)


@pytest.mark.parametrize("cap", [None, 5.0])
def test_cross_entropy_ignores_rows(run, cap):
    rows, V = 6, 37
    logits = torch.randn(rows, V + 3)[:, :V]
    targets = torch.tensor([3, -100, 0, 36, -100, 11])
    reference = logits.double().requires_grad_()
    capped = reference if cap is None else cap * torch.tanh(reference / cap)
    loss = F.cross_entropy(capped, targets, ignore_index=-100, label_smoothing=0.1)
    loss.backward()
    losses, count = torch.zeros(rows), (targets != -100).sum().int()
    run(fused_cross_entropy, (rows,), logits, targets, losses, count, logits.stride(0), V, -100, 0.1, cap or 0.0,
        HAS_CAP=cap is not None, BLOCK=16)
    close(losses.sum() / count, loss.detach(), 1e-5)
    close(logits, reference.grad, 1e-5)
