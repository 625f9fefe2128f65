"""Kernels of serving, of linear recurrences and of code generators, as libraries write them, for `gpu_code.py`.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton compile the same source.
"""
# ruff: noqa: F821


@triton.jit
def while_matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn, BLOCK_M: tl.constexpr,
                 BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """The loop over K is a `while`."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    at = 0
    while at < K:
        a = tl.load(a_ptr + m[:, None] * sam + (at + k)[None, :] * sak)
        b = tl.load(b_ptr + (at + k)[:, None] * sbk + n[None, :] * sbn)
        acc += tl.dot(a, b)
        at += BLOCK_K
    tl.store(c_ptr + m[:, None] * scm + n[None, :] * scn, acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def window_attention(Q, K, V, Out, scale, N, WINDOW, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    """Blocks outside of a window are skipped by a branch."""
    start_m, z = tl.program_id(0), tl.program_id(1)
    m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q = tl.load(Q + z * N * D + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, (start_m + 1) * BLOCK_M, BLOCK_N):
        if start + BLOCK_N > start_m * BLOCK_M - WINDOW:
            cols = start + n
            k = tl.load(K + z * N * D + cols[None, :] * D + d[:, None], mask=cols[None, :] < N, other=0.0)
            s = tl.dot(q, k) * scale
            s = tl.where((m[:, None] >= cols[None, :]) & (m[:, None] - cols[None, :] < WINDOW), s, float("-inf"))
            new = tl.maximum(top, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
            alpha = tl.exp2(top - new)
            total = total * alpha + tl.sum(p, 1)
            v = tl.load(V + z * N * D + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)
            acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
            top = new
    tl.store(Out + z * N * D + m[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16), mask=m[:, None] < N)


@triton.jit
def packed_bytes(c_ptr, a_ptr, b_ptr, scale_ptr, M, N, K, sam, sbk, scm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                 BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    """Two weights of four bits in a byte, along K; even and odd rows of K multiply on their own."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    half = tl.arange(0, BLOCK_K // 2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        packed = tl.load(b_ptr + (k // 2 + half)[:, None] * sbk + n[None, :])
        scale = tl.load(scale_ptr + (k // GROUP) * N + n)
        low = ((packed & 0xF).to(tl.int8) - 8).to(tl.float16) * scale[None, :]
        high = ((packed >> 4).to(tl.int8) - 8).to(tl.float16) * scale[None, :]
        b = tl.interleave(low.trans(), high.trans()).trans()
        a = tl.load(a_ptr + m[:, None] * sam + (k + tl.arange(0, BLOCK_K))[None, :], mask=m[:, None] < M, other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * scm + n[None, :], acc.to(tl.float16), mask=m[:, None] < M)


@triton.jit
def delta_state(k, v, w, v_new, g, h, h0, ht, T, H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
                BT: tl.constexpr, BV: tl.constexpr):
    """States of the gated delta rule: a state is stored and then updated in every chunk."""
    i_v, i_nh = tl.program_id(0), tl.program_id(1)
    i_n, i_h = i_nh // H, i_nh % H
    NT = tl.cdiv(T, BT)
    h += (i_n * NT * H + i_h).to(tl.int64) * DK * DV
    v += (i_n * T * H + i_h) * DV
    k += (i_n * T * H + i_h) * DK
    w += (i_n * T * H + i_h) * DK
    v_new += (i_n * T * H + i_h) * DV
    b_h1 = tl.zeros([64, BV], tl.float32)
    b_h2 = tl.zeros([64, BV], tl.float32)
    p_0 = tl.make_block_ptr(h0 + i_nh * DK * DV, (DK, DV), (DV, 1), (0, i_v * BV), (64, BV), (1, 0))
    b_h1 += tl.load(p_0, boundary_check=(0, 1)).to(tl.float32)
    p_0 = tl.make_block_ptr(h0 + i_nh * DK * DV, (DK, DV), (DV, 1), (64, i_v * BV), (64, BV), (1, 0))
    b_h2 += tl.load(p_0, boundary_check=(0, 1)).to(tl.float32)
    for i_t in range(NT):
        p_h1 = tl.make_block_ptr(h + i_t.to(tl.int64) * H * DK * DV, (DK, DV), (DV, 1), (0, i_v * BV), (64, BV), (1, 0))
        tl.store(p_h1, b_h1.to(p_h1.dtype.element_ty), boundary_check=(0, 1))
        p_h2 = tl.make_block_ptr(h + i_t.to(tl.int64) * H * DK * DV, (DK, DV), (DV, 1), (64, i_v * BV), (64, BV), (1,
                                 0))
        tl.store(p_h2, b_h2.to(p_h2.dtype.element_ty), boundary_check=(0, 1))
        p_w = tl.make_block_ptr(w, (T, DK), (H * DK, 1), (i_t * BT, 0), (BT, 64), (1, 0))
        b_w = tl.load(p_w, boundary_check=(0, 1))
        b_v = tl.dot(b_w, b_h1.to(b_w.dtype))
        p_w = tl.make_block_ptr(w, (T, DK), (H * DK, 1), (i_t * BT, 64), (BT, 64), (1, 0))
        b_w = tl.load(p_w, boundary_check=(0, 1))
        b_v += tl.dot(b_w, b_h2.to(b_w.dtype))
        p_v = tl.make_block_ptr(v, (T, DV), (H * DV, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
        b_v = tl.load(p_v, boundary_check=(0, 1)) - b_v
        p_v = tl.make_block_ptr(v_new, (T, DV), (H * DV, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
        tl.store(p_v, b_v.to(p_v.dtype.element_ty), boundary_check=(0, 1))
        last = min((i_t + 1) * BT, T) - 1
        inside = i_t * BT + tl.arange(0, BT) < T
        b_last = tl.load(g + i_n * T * H + last * H + i_h)
        p_g = tl.make_block_ptr(g + i_n * T * H + i_h, (T,), (H,), (i_t * BT,), (BT,), (0,))
        b_g = tl.load(p_g, boundary_check=(0,))
        b_v = b_v * tl.where(inside, tl.exp(b_last - b_g), 0)[:, None]
        b_last = tl.exp(b_last)
        b_h1 *= b_last
        b_h2 *= b_last
        b_v = b_v.to(k.dtype.element_ty)
        p_k = tl.make_block_ptr(k, (DK, T), (1, H * DK), (0, i_t * BT), (64, BT), (0, 1))
        b_h1 += tl.dot(tl.load(p_k, boundary_check=(0, 1)), b_v)
        p_k = tl.make_block_ptr(k, (DK, T), (1, H * DK), (64, i_t * BT), (64, BT), (0, 1))
        b_h2 += tl.dot(tl.load(p_k, boundary_check=(0, 1)), b_v)
    p_t = tl.make_block_ptr(ht + i_nh * DK * DV, (DK, DV), (DV, 1), (0, i_v * BV), (64, BV), (1, 0))
    tl.store(p_t, b_h1.to(p_t.dtype.element_ty), boundary_check=(0, 1))
    p_t = tl.make_block_ptr(ht + i_nh * DK * DV, (DK, DV), (DV, 1), (64, i_v * BV), (64, BV), (1, 0))
    tl.store(p_t, b_h2.to(p_t.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def unified_attention(out_ptr, q_ptr, k_ptr, v_ptr, tables_ptr, lens_ptr, starts_ptr, scale, k_scale, v_scale,
                      table_stride, qs0, qs1, os0, os1,
                      ks0, ks1, ks2, vs0, vs1, vs2, PAGE: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr,
                      GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_Q: tl.constexpr):
    """Paged attention: rows of a tile are found through a table of pages; a cache of eight bits is widened."""
    block, kv_head, seq = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = tl.load(starts_ptr + seq)
    q_len = tl.load(starts_ptr + seq + 1) - start
    if block * BLOCK_Q >= q_len:
        return
    m = tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    t = tl.arange(0, TILE)
    pos = block * BLOCK_Q + m // GROUP
    head = kv_head * GROUP + m % GROUP
    q_off = (start + pos)[:, None] * qs0 + head[:, None] * qs1 + d[None, :]
    qmask = (pos < q_len)[:, None]
    q = tl.load(q_ptr + q_off, mask=qmask, other=0.0)
    total_len = tl.load(lens_ptr + seq)
    context = total_len - q_len
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.full([BLOCK_M], 1.0, tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    longest = tl.minimum(context + block * BLOCK_Q + (BLOCK_M - 1) // GROUP + 1, total_len)
    for j in range(0, tl.cdiv(longest, TILE)):
        at = j * TILE + t
        tmask = at < longest
        page = tl.load(tables_ptr + seq * table_stride + at // PAGE).to(tl.int64)
        k = tl.load(k_ptr + page[None, :] * ks0 + kv_head * ks2 + d[:, None] + (at % PAGE)[None, :] * ks1,
                    mask=tmask[None, :], other=0.0)
        v = tl.load(v_ptr + page[:, None] * vs0 + kv_head * vs2 + d[None, :] + (at % PAGE)[:, None] * vs1,
                    mask=tmask[:, None], other=0.0)
        if k.dtype.is_fp8():
            k = (k.to(tl.float32) * k_scale).to(q.dtype)
            v = (v.to(tl.float32) * v_scale).to(q.dtype)
        s = scale * tl.dot(q, k)
        s = tl.where(qmask & (at[None, :] <= context + pos[:, None]), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        new = tl.where(new > float("-inf"), new, 0.0)
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        acc = acc * alpha[:, None]
        total = total * alpha + tl.sum(p, 1)
        top = new
        acc += tl.dot(p.to(v.dtype), v)
    acc = acc / total[:, None]
    tl.store(out_ptr + (start + pos)[:, None] * os0 + head[:, None] * os1 + d[None, :], acc.to(tl.float16), mask=qmask)


@triton.jit
def decode_stage1(Q, K, V, scale, req_ptr, pages_ptr, lens_ptr, Out, qs0, qs1, ks0, ks1, vs0, vs1, os0, os1, os2,
                  GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_H: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr):
    """One query to a sequence, grouped heads; the row of every key comes from a table."""
    b, hb, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    h = hb * BLOCK_H + tl.arange(0, BLOCK_H)
    kv = hb // tl.cdiv(GROUP, BLOCK_H)
    hmask = h < HEADS
    d = tl.arange(0, D)
    dv = tl.arange(0, DV)
    length = tl.load(lens_ptr + b)
    q = tl.load(Q + b * qs0 + h[:, None] * qs1 + d[None, :], mask=hmask[:, None], other=0.0)
    per = tl.cdiv(length, SPLITS)
    lo = per * split
    hi = tl.minimum(lo + per, length)
    top = tl.zeros([BLOCK_H], tl.float32) - float("inf")
    total = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, DV], tl.float32)
    if hi > lo:
        for start in range(lo, hi, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N)
            row = tl.load(req_ptr + tl.load(pages_ptr + b) + n, mask=n < hi, other=0)
            k = tl.load(K + row[None, :] * ks0 + kv * ks1 + d[:, None], mask=(n[None, :] < hi) & (d[:, None] < D),
                        other=0.0)
            s = tl.dot(q, k.to(q.dtype)) * scale
            s = tl.where(hmask[:, None] & (n[None, :] < hi), s, float("-inf"))
            v = tl.load(V + row[:, None] * vs0 + kv * vs1 + dv[None, :], mask=(n[:, None] < hi) & (dv[None, :] < DV),
                        other=0.0)
            new = tl.maximum(tl.max(s, 1), top)
            alpha = tl.exp(top - new)
            p = tl.exp(s - new[:, None])
            acc *= alpha[:, None]
            acc += tl.dot(p.to(v.dtype), v)
            total = total * alpha + tl.sum(p, 1)
            top = new
        tl.store(Out + b * os0 + h[:, None] * os1 + split * os2 + dv[None, :], acc / total[:, None], mask=hmask[:,
                 None])


@triton.jit
def inductor_conv(X, W, out_ptr, BATCH, C, H, WID, OUT_C, OH, OW, KH: tl.constexpr, KW: tl.constexpr,
                  STRIDE: tl.constexpr, PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):
    """Channels last, kernel unrolled into one loop."""
    nhw = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    out_w = nhw % OW
    nh = nhw // OW
    out_h = nh % OH
    n = nh // OH
    out_c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_base = X + (n * C * H * WID)[:, None]
    w_base = W + (out_c * C * KH * KW)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    blocks = tl.cdiv(C, BLOCK_K)
    for ijk in range(KH * KW * blocks):
        k = (ijk % blocks) * BLOCK_K
        ij = ijk // blocks
        i, j = ij // KW, ij % KW
        xh = i - PAD + out_h * STRIDE
        xw = j - PAD + out_w * STRIDE
        xc = k + tl.arange(0, BLOCK_K)
        inside = (n < BATCH) & (xh >= 0) & (xh < H) & (xw >= 0) & (xw < WID)
        x = tl.load(x_base + (xh * WID * C)[:, None] + (xw * C)[:, None] + xc[None, :],
                    mask=inside[:, None] & (xc < C)[None, :], other=0.0)
        wc = k + tl.arange(0, BLOCK_K)
        w = tl.load(w_base + wc[:, None] + i * KW * C + j * C, mask=(wc[:, None] < C) & (out_c[None, :] < OUT_C),
                    other=0.0)
        acc += tl.dot(x, w)
    mask = (n < BATCH)[:, None] & (out_c < OUT_C)[None, :]
    tl.store(out_ptr + nhw[:, None] * OUT_C + out_c[None, :], acc.to(tl.float16), mask=mask)


@triton.jit
def _place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile, in groups of rows."""
    group = tile // (GROUP_M * tiles_n)
    rows = min(tiles_m - group * GROUP_M, GROUP_M)
    return group * GROUP_M + tile % rows, tile % (GROUP_M * tiles_n) // rows


@triton.jit
def persistent_matmul(a_ptr, b_ptr, c_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                      stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                      GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr):
    """Programs stride over tiles and count those they store apart; rows behind the end are row 0."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    stored = tl.program_id(0) - PROGRAMS
    k = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        i, j = _place(tile, tiles_m, tiles_n, GROUP_M)
        m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
        m, n = tl.where(m < M, m, 0), tl.where(n < N, n, 0)
        m = tl.max_contiguous(tl.multiple_of(m, BLOCK_M), BLOCK_M)
        n = tl.max_contiguous(tl.multiple_of(n, BLOCK_N), BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            at, left = step * BLOCK_K + k, K - step * BLOCK_K
            a = tl.load(a_ptr + (m[:, None] * stride_am + at[None, :] * stride_ak), mask=k[None, :] < left, other=0.0)
            b = tl.load(b_ptr + (at[:, None] * stride_bk + n[None, :] * stride_bn), mask=k[:, None] < left, other=0.0)
            acc = tl.dot(a, b, acc)
        stored += PROGRAMS
        i, j = _place(stored, tiles_m, tiles_n, GROUP_M)
        m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
        acc += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)
        tl.store(c_ptr + stride_cm * m[:, None] + stride_cn * n[None, :], acc.to(c_ptr.dtype.element_ty),
                 mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def scan_output(cb_ptr, x_ptr, dt_ptr, da_ptr, c_ptr, prev_ptr, d_ptr, out_ptr, chunk, hdim, dstate, seqlen, ratio,
                cbs, xs, xh, cs, ps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                BLOCK_S: tl.constexpr):
    """Outputs of a chunk of a state space model: scores are scaled by factors of rows and columns."""
    pid_c, pid_h = tl.program_id(1), tl.program_id(2)
    tiles = tl.cdiv(hdim, BLOCK_N)
    pid_m, pid_n = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    limit = min(chunk, seqlen - pid_c * chunk)
    da_m = tl.load(da_ptr + pid_c * chunk + pid_h * seqlen + m, mask=m < chunk, other=0.0).to(tl.float32)
    s = tl.arange(0, BLOCK_S)
    c = tl.load(c_ptr + pid_c * chunk * cs + pid_h // ratio * dstate + m[:, None] * cs + s[None, :], mask=(m[:,
                None] < limit) & (s[None, :] < dstate), other=0.0)
    prev = tl.load(prev_ptr + pid_c * ps + pid_h * hdim * dstate + n[None, :] * dstate + s[:, None], mask=(s[:,
                   None] < dstate) & (n[None, :] < hdim), other=0.0)
    acc = tl.dot(c, prev.to(c_ptr.dtype.element_ty)) * tl.exp(da_m)[:, None]
    k = tl.arange(0, BLOCK_K)
    cb_ptrs = cb_ptr + pid_c * chunk * chunk + pid_h // ratio * cbs + (m[:, None] * chunk + k[None, :])
    x_ptrs = x_ptr + pid_c * chunk * xs + pid_h * xh + (k[:, None] * xs + n[None, :])
    dt_ptrs = dt_ptr + pid_c * chunk + pid_h * seqlen + k
    da_ptrs = da_ptr + pid_c * chunk + pid_h * seqlen + k
    end = min((pid_m + 1) * BLOCK_M, limit)
    for start in range(0, end, BLOCK_K):
        cb = tl.load(cb_ptrs, mask=(m[:, None] < chunk) & (k[None, :] < chunk - start), other=0.0).to(tl.float32)
        da_k = tl.load(da_ptrs, mask=k < chunk - start, other=0.0).to(tl.float32)
        cb *= tl.exp(da_m[:, None] - da_k[None, :])
        dt = tl.load(dt_ptrs, mask=k < chunk - start, other=0.0).to(tl.float32)
        cb *= dt
        cb = tl.where(m[:, None] >= start + k[None, :], cb, 0.0)
        cb = cb.to(x_ptr.dtype.element_ty)
        x = tl.load(x_ptrs, mask=(k[:, None] < limit - start) & (n[None, :] < hdim), other=0.0)
        acc += tl.dot(cb, x)
        cb_ptrs += BLOCK_K
        x_ptrs += BLOCK_K * xs
        dt_ptrs += BLOCK_K
        da_ptrs += BLOCK_K
    tl.store(out_ptr + (pid_c * chunk + m[:, None]) * xs + pid_h * xh + n[None, :], acc.to(tl.bfloat16), mask=(m[:,
             None] < limit) & (n[None, :] < hdim))


@triton.jit
def cut_cross_entropy(E, C, LSE, Inds, B, V, D, seb, sed, scv, scd, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
                      BLOCK_D: tl.constexpr):
    """The log-sum-exp of logits that are never stored; rows through a list."""
    pid_b, pid_v = tl.program_id(0), tl.program_id(1)
    b = (pid_b * BLOCK_B + tl.arange(0, BLOCK_B)) % B
    b = tl.load(Inds + b)
    v = (pid_v * BLOCK_V + tl.arange(0, BLOCK_V)) % V
    d = tl.arange(0, BLOCK_D)
    e_ptrs = E + (b[:, None] * seb + d[None, :] * sed)
    c_ptrs = C + (v[None, :] * scv + d[:, None] * scd)
    acc = tl.zeros((BLOCK_B, BLOCK_V), tl.float32)
    for i in range(0, tl.cdiv(D, BLOCK_D)):
        e = tl.load(e_ptrs, mask=d[None, :] < D - i * BLOCK_D, other=0.0)
        c = tl.load(c_ptrs, mask=d[:, None] < D - i * BLOCK_D, other=0.0)
        acc = tl.dot(e, c, acc)
        e_ptrs += BLOCK_D * sed
        c_ptrs += BLOCK_D * scd
    vv = pid_v * BLOCK_V + tl.arange(0, BLOCK_V)
    logits = tl.where(vv[None, :] < V, acc, float("-inf"))
    top = tl.max(logits, 1)
    lse = top + tl.log(tl.sum(tl.exp(logits - top[:, None]), 1))
    bb = pid_b * BLOCK_B + tl.arange(0, BLOCK_B)
    tl.store(LSE + bb * tl.num_programs(1) + pid_v, lse, mask=bb < B)


@triton.jit
def attention_backward(Q, K, V, DO, DQ, DK, DV, L, Delta, scale, stride_z, stride_n, N, D: tl.constexpr,
                       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Keys and values of one block, queries in a loop that adds to gradients in memory."""
    z = tl.program_id(0)
    Q += z * stride_z
    K += z * stride_z
    V += z * stride_z
    DO += z * stride_z
    DQ += z * stride_z
    DK += z * stride_z
    DV += z * stride_z
    d = tl.arange(0, D)
    for start_n in range(0, tl.cdiv(N, BLOCK_N)):
        lo = start_n * BLOCK_N
        qm = lo + tl.arange(0, BLOCK_M)
        n = start_n * BLOCK_N + tl.arange(0, BLOCK_N)
        mm = tl.arange(0, BLOCK_M)
        q_ptrs = Q + qm[:, None] * stride_n + d[None, :]
        k_ptrs = K + n[:, None] * stride_n + d[None, :]
        v_ptrs = V + n[:, None] * stride_n + d[None, :]
        do_ptrs = DO + qm[:, None] * stride_n + d[None, :]
        dq_ptrs = DQ + qm[:, None] * stride_n + d[None, :]
        dv = tl.zeros([BLOCK_N, D], tl.float32)
        dk = tl.zeros([BLOCK_N, D], tl.float32)
        k = tl.load(k_ptrs)
        v = tl.load(v_ptrs)
        for start_m in range(lo, N, BLOCK_M):
            cur = start_m + mm
            q = tl.load(q_ptrs)
            qk = tl.where(cur[:, None] >= n[None, :], tl.dot(q, tl.trans(k)), float("-inf"))
            l = tl.load(L + z * N + cur)
            p = tl.exp2(qk * scale - l[:, None])
            do = tl.load(do_ptrs)
            dv += tl.dot(tl.trans(p.to(tl.float16)), do)
            delta = tl.load(Delta + z * N + cur)
            dp = tl.dot(do, tl.trans(v)) - delta[:, None]
            ds = (p * dp * scale).to(tl.float16)
            dk += tl.dot(tl.trans(ds), q)
            dq = tl.load(dq_ptrs)
            dq += tl.dot(ds, k)
            tl.store(dq_ptrs, dq)
            dq_ptrs += BLOCK_M * stride_n
            q_ptrs += BLOCK_M * stride_n
            do_ptrs += BLOCK_M * stride_n
        tl.store(DV + n[:, None] * stride_n + d[None, :], dv.to(tl.float16))
        tl.store(DK + n[:, None] * stride_n + d[None, :], dk.to(tl.float16))


@triton.jit
def inductor_upsample(in_out_ptr0, in_ptr0, xnumel, XBLOCK: tl.constexpr):
    """Bilinear and nearest by two, as Inductor writes them: indices of 64 bits, sizes in the source."""
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    x1 = (xindex // 64) % 64
    x0 = xindex % 64
    x2 = xindex // 4096
    x3 = xindex
    tmp1 = x1.to(tl.float32)
    tmp2 = 0.5
    tmp4 = (tmp1 + tmp2) * tmp2
    tmp7 = tl.maximum(tmp4 - tmp2, 0.0)
    tmp8 = tmp7.to(tl.int32)
    tmp9 = x0.to(tl.float32)
    tmp13 = tl.maximum((tmp9 + tmp2) * tmp2 - tmp2, 0.0)
    tmp14 = tmp13.to(tl.int32)
    tmp15 = tl.load(in_ptr0 + (tmp14 + 32 * tmp8 + 1024 * x2), None, eviction_policy="evict_last")
    tmp16 = tl.full([1], 1, tl.int64)
    tmp17 = tmp14 + tmp16
    tmp18 = tl.full([1], 31, tl.int64)
    tmp19 = tl.minimum(tmp17, tmp18)
    tmp20 = tl.load(in_ptr0 + (tmp19 + 32 * tmp8 + 1024 * x2), None, eviction_policy="evict_last")
    tmp23 = tmp13 - tmp14.to(tl.float32)
    tmp25 = tl.minimum(tl.maximum(tmp23, 0.0), 1.0)
    tmp27 = tmp15 + (tmp20 - tmp15) * tmp25
    tmp28 = tmp8 + tmp16
    tmp29 = tl.minimum(tmp28, tmp18)
    tmp30 = tl.load(in_ptr0 + (tmp14 + 32 * tmp29 + 1024 * x2), None, eviction_policy="evict_last")
    tmp31 = tl.load(in_ptr0 + (tmp19 + 32 * tmp29 + 1024 * x2), None, eviction_policy="evict_last")
    tmp34 = tmp30 + (tmp31 - tmp30) * tmp25
    tmp36 = tmp7 - tmp8.to(tl.float32)
    tmp38 = tl.minimum(tl.maximum(tmp36, 0.0), 1.0)
    tmp40 = tmp27 + (tmp34 - tmp27) * tmp38
    tmp42 = (tmp1 * tmp2).to(tl.int32)
    tmp43 = (tmp9 * tmp2).to(tl.int32)
    tmp44 = tl.load(in_ptr0 + (tmp43 + 32 * tmp42 + 1024 * x2), None, eviction_policy="evict_last")
    tl.store(in_out_ptr0 + x3, tmp40 + tmp44, None)


@triton.jit
def selected_attention(q, k, v, blocks, o, scale, T, ROWS: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
                       SELECTED: tl.constexpr, BLOCK: tl.constexpr):
    """Sparse attention: each row has blocks of keys of its own, so that products are batches of small matrices."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    head, d, n = tl.arange(0, HEADS), tl.arange(0, D), tl.arange(0, BLOCK)
    at = (row[:, None, None] * HEADS + head[None, :, None]) * D + d[None, None, :]
    x = tl.load(q + at, mask=row[:, None, None] < T, other=0.0)
    top, total = tl.full((ROWS, HEADS), -1e30, tl.float32), tl.zeros((ROWS, HEADS), tl.float32)
    acc = tl.zeros((ROWS, HEADS, D), tl.float32)
    for s in range(SELECTED):
        first = tl.load(blocks + row * SELECTED + s, mask=row < T, other=0) * BLOCK
        key = first[:, None] + n[None, :]
        inside = (key < T) & (key <= row[:, None])
        y = tl.load(k + key[:, :, None] * D + d[None, None, :], mask=inside[:, :, None], other=0.0)
        scores = tl.where(inside[:, None, :], tl.dot(x, tl.permute(y, (0, 2, 1))) * scale, -1e30)
        higher = tl.maximum(top, tl.max(scores, 2))
        p, less = tl.exp(scores - higher[:, :, None]), tl.exp(top - higher)
        z = tl.load(v + key[:, :, None] * D + d[None, None, :], mask=inside[:, :, None], other=0.0)
        acc = acc * less[:, :, None] + tl.dot(p.to(z.dtype), z)
        total, top = total * less + tl.sum(p, 2), higher
    tl.store(o + at, (acc / total[:, :, None]).to(o.dtype.element_ty), mask=row[:, None, None] < T)


@triton.jit
def wide_head_gradients(q, k, v, do, dk, dv, lse, delta, scale, T, stride, D: tl.constexpr, BLOCK_M: tl.constexpr,
                        BLOCK_N: tl.constexpr):
    """Gradients of keys and values whose heads fill the registers, without pipelining."""
    m, d = tl.arange(0, BLOCK_M), tl.arange(0, D)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    at, inside = n[:, None] * stride + d[None, :], (n < T)[:, None]
    key, value = tl.load(k + at, mask=inside, other=0.0), tl.load(v + at, mask=inside, other=0.0)
    sum_k, sum_v = tl.zeros((BLOCK_N, D), tl.float32), tl.zeros((BLOCK_N, D), tl.float32)
    for start in range(0, T, BLOCK_M):
        row = start + m
        there = row < T
        x = tl.load(q + row[:, None] * stride + d[None, :], mask=there[:, None], other=0.0)
        g = tl.load(do + row[:, None] * stride + d[None, :], mask=there[:, None], other=0.0)
        high, less = tl.load(lse + row, mask=there, other=0.0), tl.load(delta + row, mask=there, other=0.0)
        p = tl.exp2(tl.dot(x, tl.trans(key)) * scale - high[:, None])
        sum_v = tl.dot(tl.trans(p).to(g.dtype), g, sum_v)
        ds = p * (tl.dot(g, tl.trans(value)) - less[:, None])
        sum_k = tl.dot(tl.trans(ds).to(x.dtype), x, sum_k)
    tl.store(dk + at, sum_k.to(dk.dtype.element_ty), mask=inside)
    tl.store(dv + at, sum_v.to(dv.dtype.element_ty), mask=inside)


@triton.jit
def widened_chunk_gradients(q, k, v, do, dq, dk, dv, decay, T, D: tl.constexpr, DV: tl.constexpr, BLOCK: tl.constexpr):
    """Gradients within a chunk of decayed linear attention: all is widened to f32 as it is loaded."""
    t, i, d, e = tl.program_id(0) * BLOCK, tl.arange(0, BLOCK), tl.arange(0, D), tl.arange(0, DV)
    row = t + i
    narrow, wide, inside = row[:, None] * D + d[None, :], row[:, None] * DV + e[None, :], (row < T)[:, None]
    x, y = (tl.load(q + narrow, mask=inside, other=0.0).to(tl.float32),
            tl.load(k + narrow, mask=inside, other=0.0).to(tl.float32))  # fmt: skip
    z, g = (tl.load(v + wide, mask=inside, other=0.0).to(tl.float32),
            tl.load(do + wide, mask=inside, other=0.0).to(tl.float32))  # fmt: skip
    apart = (i[:, None] - i[None, :]) * tl.load(decay)
    weight = tl.where(i[:, None] >= i[None, :], tl.exp(-apart), 0.0)
    ds = tl.dot(g, tl.trans(z)) * weight
    s = tl.dot(x, tl.trans(y)) * weight
    tl.store(dq + narrow, tl.dot(ds, y).to(dq.dtype.element_ty), mask=inside)
    tl.store(dk + narrow, tl.dot(tl.trans(ds), x).to(dk.dtype.element_ty), mask=inside)
    tl.store(dv + wide, tl.dot(tl.trans(s), g).to(dv.dtype.element_ty), mask=inside)
