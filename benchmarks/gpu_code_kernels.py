"""Products and attention as libraries write them, for `gpu_code.py`: strides of the run time, hints, block pointers.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton compile the same source.
"""
# ruff: noqa: F821


# --- products ---------------------------------------------------------------------------------------------------------
@triton.jit
def hinted_matmul(A, B, C, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """Hints on offsets as values, on strides as statements."""
    tl.multiple_of(stride_am, 8)
    tl.multiple_of(stride_bk, 8)
    tl.multiple_of(stride_cm, 8)
    pid = tl.program_id(0)
    grid_m, grid_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    width = GROUP_M * grid_n
    group = pid // width
    size = min(grid_m - group * GROUP_M, GROUP_M)
    pid_m, pid_n = group * GROUP_M + pid % size, pid % width // size
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ram = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    rbn = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    A = A + (ram[:, None] * stride_am + rk[None, :] * stride_ak)
    B = B + (rk[:, None] * stride_bk + rbn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(A, mask=rk[None, :] < left, other=0.0)
        b = tl.load(B, mask=rk[:, None] < left, other=0.0)
        acc += tl.dot(a, b)
        A += BLOCK_K * stride_ak
        B += BLOCK_K * stride_bk
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(C + (rm[:, None] * stride_cm + rn[None, :] * stride_cn), acc.to(C.dtype.element_ty), mask=mask)


@triton.jit
def block_pointer_matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    a = tl.make_block_ptr(a_ptr, (M, K), (stride_am, stride_ak), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a, boundary_check=(0, 1)), tl.load(b, boundary_check=(0, 1)), acc)
        a = tl.advance(a, (0, BLOCK_K))
        b = tl.advance(b, (BLOCK_K, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, stride_cn), (pid_m * BLOCK_M, pid_n * BLOCK_N),
                          (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def grouped_gemm(group_a_ptrs, group_b_ptrs, group_c_ptrs, group_sizes, leading, group_size, NUM_SM: tl.constexpr,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Pointers and sizes of every product come from memory."""
    tile = tl.program_id(0)
    last = 0
    for g in range(group_size):
        gm, gn, gk = tl.load(group_sizes + g * 3), tl.load(group_sizes + g * 3 + 1), tl.load(group_sizes + g * 3 + 2)
        tiles_n = tl.cdiv(gn, BLOCK_N)
        tiles = tl.cdiv(gm, BLOCK_M) * tiles_n
        while tile >= last and tile < last + tiles:
            lda, ldb, ldc = tl.load(leading + g * 3), tl.load(leading + g * 3 + 1), tl.load(leading + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float16))
            index = tile - last
            m = index // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            n = index % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + m[:, None] * lda + k[None, :]
            b_ptrs = b_ptr + k[:, None] * ldb + n[None, :]
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(0, tl.cdiv(gk, BLOCK_K)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * ldb
            tl.store(c_ptr + ldc * m[:, None] + n[None, :], acc.to(tl.float16))
            tile += NUM_SM
        last = last + tiles


@triton.jit
def strided_bmm(A, B, O, M, N, K, ab, am, ak, bb, bk, bn, ob, om, on, TILE_M: tl.constexpr, TILE_N: tl.constexpr,
                TILE_K: tl.constexpr):
    batch = tl.program_id(2)
    A += batch * ab
    B += batch * bb
    O += batch * ob
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    n = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    a_ptrs = A + m[:, None] * am + k[None, :] * ak
    b_ptrs = B + k[:, None] * bk + n[None, :] * bn
    acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, TILE_K)):
        inside = k < K - i * TILE_K
        a = tl.load(a_ptrs, mask=inside[None, :] & (m[:, None] < M), other=0.0)
        b = tl.load(b_ptrs, mask=inside[:, None] & (n[None, :] < N), other=0.0)
        a_ptrs += TILE_K * ak
        b_ptrs += TILE_K * bk
        acc += tl.dot(a, b, allow_tf32=False)
    tl.store(O + m[:, None] * om + n[None, :] * on, acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def linear_layer(C, saved, A, B, bias, M, N, K, stride_cm, stride_am, stride_bn, BLOCK_M: tl.constexpr,
                 BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SAVE: tl.constexpr):
    """gelu(A @ B.T + bias); rows have strides of the run time."""
    pid = tl.program_id(0)
    tiles = tl.cdiv(N, BLOCK_N)
    rm = pid // tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    ram, rbn = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M), rn % N
    rk = tl.arange(0, BLOCK_K)
    A = A + (ram[:, None] * stride_am + rk[None, :])
    B = B + (rk[:, None] + rbn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    acc += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    for k in range(K, 0, -BLOCK_K):
        a = tl.load(A, mask=rk[None, :] < k, other=0.0)
        b = tl.load(B, mask=rk[:, None] < k, other=0.0)
        acc += tl.dot(a, b)
        A += BLOCK_K
        B += BLOCK_K
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    at = rm[:, None] * stride_cm + rn[None, :]
    if SAVE:
        tl.store(saved + at, acc, mask=mask)
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.7071067811865476))
    tl.store(C + at, acc, mask=mask)


@triton.jit
def weight_gradient(dw_ptr, dy_ptr, x_ptr, M, N, K, stride_ym, stride_yn, stride_xm, stride_xk, stride_wn, stride_wk,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for start in range(0, M, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        dy = tl.load(dy_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn,
                     mask=(m[:, None] < M) & (n[None, :] < N), other=0.0)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk,
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        acc += tl.dot(tl.trans(dy), x)
    tl.store(dw_ptr + n[:, None] * stride_wn + k[None, :] * stride_wk, acc.to(dw_ptr.dtype.element_ty),
             mask=(n[:, None] < N) & (k[None, :] < K))


@triton.jit
def gated_mlp(x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_om,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """silu(x @ gate) * (x @ up): two products share one operand."""
    m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk
    g_ptrs = gate_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn
    u_ptrs = up_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn
    gate, up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32), tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_ptrs)
        gate += tl.dot(x, tl.load(g_ptrs))
        up += tl.dot(x, tl.load(u_ptrs))
        x_ptrs += BLOCK_K * stride_xk
        g_ptrs += BLOCK_K * stride_wk
        u_ptrs += BLOCK_K * stride_wk
    out = gate * tl.sigmoid(gate) * up
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(out_ptr + m[:, None] * stride_om + n[None, :], out.to(out_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def int8_weights(c_ptr, a_ptr, b_ptr, scale_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                 stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Weights of eight bits, with a scale for each column."""
    m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BLOCK_K, other=0)
        acc = tl.dot(a, b.to(a.dtype), acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    acc *= tl.load(scale_ptr + n)[None, :]
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, acc.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def gptq_matmul(c_ptr, a_ptr, b_ptr, scales_ptr, zeros_ptr, g_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                stride_cm, stride_cn, stride_scales, stride_zeros, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                BLOCK_K: tl.constexpr):
    """Weights of four bits, eight rows in a word; the group of each row comes from memory."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    a_mask = m[:, None] < M
    b_ptrs = b_ptr + (k[:, None] // 8) * stride_bk + n[None, :] * stride_bn
    g_ptrs = g_ptr + k
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        g = tl.load(g_ptrs)
        scales = tl.load(scales_ptr + n[None, :] + g[:, None] * stride_scales)
        zeros = tl.load(zeros_ptr + n[None, :] // 8 + g[:, None] * stride_zeros)
        zeros = (zeros >> (n % 8 * 4)[None, :]) & 0xF
        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b = (tl.load(b_ptrs) >> (k % 8 * 4)[:, None]) & 0xF
        acc += tl.dot(a, ((b - zeros - 1) * scales).to(a.dtype))
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += (BLOCK_K // 8) * stride_bk
        g_ptrs += BLOCK_K
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, acc.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def convolution(x_ptr, w_ptr, y_ptr, BATCH, C, H, W, K, P, Q, xn, xc, xh, xw, wk, wc, wr, ws, yn, yk, yp, yq,
                R: tl.constexpr, S: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A convolution of stride 1 as a product, tap by tap; every stride is of the run time."""
    npq = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    n, p, q = npq // (P * Q), npq // Q % P, npq % Q
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    blocks = tl.cdiv(C, BLOCK_K)
    for step in range(0, R * S * blocks):
        tap = step // blocks
        r, s = tap // S, tap % S
        c = step % blocks * BLOCK_K + tl.arange(0, BLOCK_K)
        h, w = p + r - R // 2, q + s - S // 2
        inside = (n < BATCH) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
        x = tl.load(x_ptr + (n * xn + h * xh + w * xw)[:, None] + (c * xc)[None, :],
                    mask=inside[:, None] & (c < C)[None, :], other=0.0)
        y = tl.load(w_ptr + (c * wc)[:, None] + (k * wk)[None, :] + r * wr + s * ws,
                    mask=(c < C)[:, None] & (k < K)[None, :], other=0.0)
        acc += tl.dot(x, y)
    tl.store(y_ptr + (n * yn + p * yp + q * yq)[:, None] + (k * yk)[None, :], acc.to(y_ptr.dtype.element_ty),
             mask=(n < BATCH)[:, None] & (k < K)[None, :])


@triton.jit
def lora_expand(x_ptr, w_ptr, y_ptr, index_ptr, start_ptr, length_ptr, N, K, stride_xm, stride_xk, stride_wl, stride_wn,
                stride_wk, stride_ym, stride_yn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Rows of each request with the low-rank matrix it names, added to what is there."""
    request = tl.program_id(1)
    length = tl.load(length_ptr + request)
    tiles = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    if pid_m * BLOCK_M >= length:
        return
    which = tl.load(index_ptr + request)
    if which == -1:
        return
    start = tl.load(start_ptr + request)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    rm = tl.max_contiguous(tl.multiple_of(m % length, BLOCK_M), BLOCK_M)
    rn = tl.max_contiguous(tl.multiple_of(n % N, BLOCK_N), BLOCK_N)
    a_ptr = x_ptr + start * stride_xm + rm[:, None] * stride_xm + k[None, :] * stride_xk
    b_ptr = w_ptr + which * stride_wl + k[:, None] * stride_wk + rn[None, :] * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptr, mask=k[None, :] < K - i * BLOCK_K, other=0)
        b = tl.load(b_ptr, mask=k[:, None] < K - i * BLOCK_K, other=0)
        acc += tl.dot(a.to(b.dtype), b)
        a_ptr += BLOCK_K * stride_xk
        b_ptr += BLOCK_K * stride_wk
    y = y_ptr + (start + m)[:, None] * stride_ym + n[None, :] * stride_yn
    mask = (m < length)[:, None] & (n[None, :] < N)
    tl.store(y, tl.load(y, mask=mask) + acc.to(y_ptr.dtype.element_ty), mask=mask)


# --- attention --------------------------------------------------------------------------------------------------------
@triton.jit
def block_pointer_attention(Q, K, V, Out, L, scale, qz, qm, qk, kz, kn, kk, vz, vk, vn, oz, om, on, N,
                            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0)
    z = tl.program_id(1)
    q_block = tl.make_block_ptr(Q + z * qz, (N, D), (qm, qk), (start * BLOCK_M, 0), (BLOCK_M, D), (1, 0))
    k_block = tl.make_block_ptr(K + z * kz, (D, N), (kk, kn), (0, 0), (D, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(V + z * vz, (N, D), (vk, vn), (0, 0), (BLOCK_N, D), (1, 0))
    m = start * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    q = tl.load(q_block)
    q = (q * (scale * 1.44269504)).to(tl.float16)
    end = (start + 1) * BLOCK_M if CAUSAL else N
    for n in range(0, end, BLOCK_N):
        s = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        if CAUSAL:
            s = tl.where(m[:, None] >= (n + tl.arange(0, BLOCK_N))[None, :], s, float("-inf"))
        s += tl.dot(q, tl.load(k_block))
        new = tl.maximum(top, tl.max(s, 1))
        shrink = tl.math.exp2(top - new)
        p = tl.math.exp2(s - new[:, None])
        acc *= shrink[:, None]
        acc += tl.dot(p.to(tl.float16), tl.load(v_block))
        total = total * shrink + tl.sum(p, 1)
        top = new
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    tl.store(L + z * N + m, top + tl.math.log2(total))
    o_block = tl.make_block_ptr(Out + z * oz, (N, D), (om, on), (start * BLOCK_M, 0), (BLOCK_M, D), (1, 0))
    tl.store(o_block, (acc / total[:, None]).to(tl.float16))


@triton.jit
def biased_attention(Q, K, V, Bias, Out, Lse, scale, qb, qh, qm, kb, kh, kn, vb, vh, vn, bb, bh, bm, ob, oh, om, heads,
                     seqlen_q, seqlen_k, D, EVEN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_D: tl.constexpr):
    """Attention with a bias for every pair; rows of the run time, columns of one element each."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)
    q_ptrs = Q + b * qb + h * qh + (m[:, None] * qm + d[None, :])
    k_ptrs = K + b * kb + h * kh + (n[:, None] * kn + d[None, :])
    v_ptrs = V + b * vb + h * vh + (n[:, None] * vn + d[None, :])
    b_ptrs = Bias + b * bb + h * bh + (m[:, None] * bm + n[None, :])
    lse = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    top = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    q = tl.load(q_ptrs, mask=(m[:, None] < seqlen_q) & (d[None, :] < D), other=0.0)
    for start in range(0, seqlen_k, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        if EVEN:
            k = tl.load(k_ptrs + start * kn)
        else:
            k = tl.load(k_ptrs + start * kn, mask=((start + n)[:, None] < seqlen_k) & (d[None, :] < D), other=0.0)
        s = tl.dot(q, tl.trans(k))
        if not EVEN:
            s += tl.where((start + n)[None, :] < seqlen_k, 0, float("-inf"))
        bias = tl.load(b_ptrs + start, mask=(m[:, None] < seqlen_q) & ((start + n)[None, :] < seqlen_k), other=0.0)
        s = s * scale + bias.to(tl.float32)
        new = tl.maximum(tl.max(s, 1), lse)
        p = tl.exp(s - new[:, None])
        acc = acc * tl.exp(top - new)[:, None]
        if EVEN:
            v = tl.load(v_ptrs + start * vn)
        else:
            v = tl.load(v_ptrs + start * vn, mask=((start + n)[:, None] < seqlen_k) & (d[None, :] < D), other=0.0)
        acc += tl.dot(p.to(v.dtype), v)
        lse = new + tl.log(tl.exp(lse - new) + tl.sum(p, 1))
        top = new
    acc = acc * tl.exp(top - lse)[:, None]
    tl.store(Lse + tl.program_id(1) * seqlen_q + m, lse, mask=m < seqlen_q)
    tl.store(Out + b * ob + h * oh + (m[:, None] * om + d[None, :]), acc.to(Out.dtype.element_ty),
             mask=(m[:, None] < seqlen_q) & (d[None, :] < D))


@triton.jit
def prefill_attention(Q, K, V, scale, starts, lengths, Out, qs, qh, ks, kh, vs, vh, os, oh, GROUP: tl.constexpr,
                      BLOCK_M: tl.constexpr, D: tl.constexpr, BLOCK_N: tl.constexpr):
    """Causal attention of sequences of different lengths, one behind the other."""
    batch, head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length, first = tl.load(lengths + batch), tl.load(starts + batch)
    n = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    q = tl.load(Q + (first + m[:, None]) * qs + head * qh + d[None, :], mask=m[:, None] < length, other=0.0)
    k_ptrs = K + n[None, :] * ks + head // GROUP * kh + d[:, None]
    v_ptrs = V + n[:, None] * vs + head // GROUP * vh + d[None, :]
    top = tl.zeros([BLOCK_M], tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    active = tl.where(block * BLOCK_M < length, 1, 0)
    for start in range(0, active * (block + 1) * BLOCK_M, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        k = tl.load(k_ptrs + (first + start) * ks, mask=(start + n[None, :]) < length, other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where(m[:, None] >= (start + n[None, :]), s, float("-inf"))
        new = tl.max(s, 1)
        p = tl.exp(s - new[:, None])
        now = tl.sum(p, 1)
        both = tl.maximum(top, new)
        alpha, beta = tl.exp(top - both), tl.exp(new - both)
        sum_ = alpha * total + beta * now
        p = p * (beta / sum_)[:, None]
        acc = acc * (total / sum_ * alpha)[:, None]
        v = tl.load(v_ptrs + (first + start) * vs, mask=(start + n[:, None]) < length, other=0.0)
        acc += tl.dot(p.to(v.dtype), v)
        total, top = sum_, both
    tl.store(Out + (first + m[:, None]) * os + head * oh + d[None, :], acc, mask=m[:, None] < length)


@triton.jit
def linear_attention_forward(q, k, v, o, h0, ht, s_qk_h, s_qk_t, s_vo_h, s_vo_t, T, scale, BT: tl.constexpr,
                             DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """Chunks of a sequence with the state of those before, by block pointers."""
    i_v, i_k, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.arange(0, BT)
    causal = i[:, None] >= i[None, :]
    state = tl.make_block_ptr(h0 + i_bh * DK * DV, (DK, DV), (DV, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
    h = tl.load(state, boundary_check=(0, 1)).to(tl.float32)
    for t in range(0, tl.cdiv(T, BT)):
        p_q = tl.make_block_ptr(q + i_bh * s_qk_h, (T, DK), (s_qk_t, 1), (t * BT, i_k * BK), (BT, BK), (1, 0))
        p_k = tl.make_block_ptr(k + i_bh * s_qk_h, (DK, T), (1, s_qk_t), (i_k * BK, t * BT), (BK, BT), (0, 1))
        p_v = tl.make_block_ptr(v + i_bh * s_vo_h, (T, DV), (s_vo_t, 1), (t * BT, i_v * BV), (BT, BV), (1, 0))
        p_o = tl.make_block_ptr(o + (i_bh + i_k * tl.num_programs(2)) * s_vo_h, (T, DV), (s_vo_t, 1),
                                (t * BT, i_v * BV), (BT, BV), (1, 0))
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_q = (b_q * scale).to(b_q.dtype)
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        s = tl.where(causal, tl.dot(b_q, b_k, allow_tf32=False), 0)
        b_o = tl.dot(s.to(b_q.dtype), b_v, allow_tf32=False) + tl.dot(b_q, h.to(b_q.dtype), allow_tf32=False)
        h = h + tl.dot(b_k, b_v, allow_tf32=False)
        tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))
    last = tl.make_block_ptr(ht + i_bh * DK * DV, (DK, DV), (DV, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
    tl.store(last, h.to(last.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def linear_attention_backward(q, k, v, do, dq, dk, dv, s_qk_h, s_qk_t, s_vo_h, s_vo_t, T, scale, BT: tl.constexpr,
                              DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """Gradients of chunks: of the queries from front to back, of keys and values from back to front."""
    i_v, i_k, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.arange(0, BT)
    causal = i[:, None] >= i[None, :]
    h = tl.zeros([BV, BK], tl.float32)
    for t in range(0, tl.cdiv(T, BT)):
        p_k = tl.make_block_ptr(k + i_bh * s_qk_h, (T, DK), (s_qk_t, 1), (t * BT, i_k * BK), (BT, BK), (1, 0))
        p_v = tl.make_block_ptr(v + i_bh * s_vo_h, (DV, T), (1, s_vo_t), (i_v * BV, t * BT), (BV, BT), (0, 1))
        p_do = tl.make_block_ptr(do + i_bh * s_vo_h, (T, DV), (s_vo_t, 1), (t * BT, i_v * BV), (BT, BV), (1, 0))
        p_dq = tl.make_block_ptr(dq + i_bh * s_qk_h, (T, DK), (s_qk_t, 1), (t * BT, i_k * BK), (BT, BK), (1, 0))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        b_do = tl.load(p_do, boundary_check=(0, 1))
        ds = tl.where(causal, tl.dot(b_do, b_v, allow_tf32=False), 0)
        b_dq = tl.dot(ds.to(b_k.dtype), b_k, allow_tf32=False) + tl.dot(b_do, h.to(b_do.dtype), allow_tf32=False)
        h += tl.dot(b_v, b_k, allow_tf32=False)
        tl.store(p_dq, (b_dq * scale).to(p_dq.dtype.element_ty), boundary_check=(0, 1))
    causal = i[:, None] <= i[None, :]
    dh = tl.zeros([BK, BV], tl.float32)
    for t in range(1, tl.cdiv(T, BT) + 1):
        p_q = tl.make_block_ptr(q + i_bh * s_qk_h, (DK, T), (1, s_qk_t), (i_k * BK, T - t * BT), (BK, BT), (0, 1))
        p_k = tl.make_block_ptr(k + i_bh * s_qk_h, (T, DK), (s_qk_t, 1), (T - t * BT, i_k * BK), (BT, BK), (1, 0))
        p_v = tl.make_block_ptr(v + i_bh * s_vo_h, (T, DV), (s_vo_t, 1), (T - t * BT, i_v * BV), (BT, BV), (1, 0))
        p_do = tl.make_block_ptr(do + i_bh * s_vo_h, (T, DV), (s_vo_t, 1), (T - t * BT, i_v * BV), (BT, BV), (1, 0))
        p_dk = tl.make_block_ptr(dk + i_bh * s_qk_h, (T, DK), (s_qk_t, 1), (T - t * BT, i_k * BK), (BT, BK), (1, 0))
        p_dv = tl.make_block_ptr(dv + i_bh * s_vo_h, (T, DV), (s_vo_t, 1), (T - t * BT, i_v * BV), (BT, BV), (1, 0))
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_q = (b_q * scale).to(b_q.dtype)
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        b_do = tl.load(p_do, boundary_check=(0, 1))
        ds = tl.where(causal, tl.dot(b_v, tl.trans(b_do), allow_tf32=False), 0).to(b_q.dtype)
        s = tl.where(causal, tl.dot(b_k, b_q, allow_tf32=False), 0).to(b_q.dtype)
        b_dk = tl.dot(ds, tl.trans(b_q), allow_tf32=False) + tl.dot(b_v, tl.trans(dh).to(b_v.dtype), allow_tf32=False)
        b_dv = tl.dot(s, b_do, allow_tf32=False) + tl.dot(b_k, dh.to(b_k.dtype), allow_tf32=False)
        dh += tl.dot(b_q, b_do, allow_tf32=False)
        tl.store(p_dk, b_dk.to(p_dk.dtype.element_ty), boundary_check=(0, 1))
        tl.store(p_dv, b_dv.to(p_dv.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def gated_chunk_output(q, k, v, g, h, o, scale, T, H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
                       BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """Outputs of one chunk of gated linear attention, from its state and its own keys."""
    i_v, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    b, head = i_bh // H, i_bh % H
    q += (b * T * H + head) * DK
    k += (b * T * H + head) * DK
    v += (b * T * H + head) * DV
    o += (b * T * H + head) * DV
    h += (i_bh * tl.cdiv(T, BT) + i_t).to(tl.int64) * DK * DV
    b_o = tl.zeros([BT, BV], tl.float32)
    b_a = tl.zeros([BT, BT], tl.float32)
    for i_k in range(tl.cdiv(DK, BK)):
        p_q = tl.make_block_ptr(q, (T, DK), (H * DK, 1), (i_t * BT, i_k * BK), (BT, BK), (1, 0))
        p_k = tl.make_block_ptr(k, (DK, T), (1, H * DK), (i_k * BK, i_t * BT), (BK, BT), (0, 1))
        p_h = tl.make_block_ptr(h, (DK, DV), (DV, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_o += tl.dot(b_q, tl.load(p_h, boundary_check=(0, 1)))
        b_a += tl.dot(b_q, tl.load(p_k, boundary_check=(0, 1)))
    t = i_t * BT + tl.arange(0, BT)
    b_g = tl.load(g + (b * T + t) * H + head, mask=t < T, other=0.0)
    b_o = b_o * tl.exp(b_g)[:, None]
    b_a = b_a * tl.exp(b_g[:, None] - b_g[None, :])
    inside = (t[:, None] >= t[None, :]) & ((t < T)[:, None] & (t < T))
    b_a = tl.where(inside, b_a, 0)
    p_v = tl.make_block_ptr(v, (T, DV), (H * DV, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
    p_o = tl.make_block_ptr(o, (T, DV), (H * DV, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
    b_v = tl.load(p_v, boundary_check=(0, 1))
    b_o = b_o * scale + tl.dot(b_a.to(b_v.dtype), b_v) * scale
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def chunk_state(x_ptr, b_ptr, states_ptr, dt_ptr, da_ptr, hdim, dstate, chunk_size, seqlen, heads_per_group, xs, xh, xd,
                bs, bg, bn, sc, sh, sd, sn, dc, dh, dl, ac, ah, al, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                BLOCK_K: tl.constexpr):
    """The state that each chunk of a state space model adds; all strides are of the run time."""
    chunk, head = tl.program_id(1), tl.program_id(2)
    tiles = tl.cdiv(dstate, BLOCK_N)
    m = tl.program_id(0) // tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + chunk * chunk_size * xs + head * xh + (m[:, None] * xd + k[None, :] * xs)
    b_ptrs = b_ptr + chunk * chunk_size * bs + head // heads_per_group * bg + (n[None, :] * bn + k[:, None] * bs)
    dt_ptrs = dt_ptr + chunk * dc + head * dh + k * dl
    da_ptrs = da_ptr + chunk * ac + head * ah + k * al
    last = tl.load(da_ptr + chunk * ac + head * ah + (chunk_size - 1) * al).to(tl.float32)
    limit = min(chunk_size, seqlen - chunk * chunk_size)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, limit, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m[:, None] < hdim) & (k[None, :] < limit - start), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < limit - start) & (n[None, :] < dstate), other=0.0).to(tl.float32)
        da = tl.load(da_ptrs, mask=k < limit - start, other=0.0).to(tl.float32)
        dt = tl.load(dt_ptrs, mask=k < limit - start, other=0.0).to(tl.float32)
        b *= (tl.exp(last - da) * dt)[:, None]
        acc += tl.dot(x, b.to(x_ptr.dtype.element_ty))
        x_ptrs += BLOCK_K * xs
        b_ptrs += BLOCK_K * bs
        dt_ptrs += BLOCK_K * dl
        da_ptrs += BLOCK_K * al
    tl.store(states_ptr + chunk * sc + head * sh + (m[:, None] * sd + n[None, :] * sn), acc,
             mask=(m[:, None] < hdim) & (n[None, :] < dstate))
