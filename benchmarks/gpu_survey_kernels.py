"""The kernels `gpu_survey.py` times: what training and serving code is made of beside plain products and rows.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton run the same source.
"""
# ruff: noqa: F821


# --- one pass over memory ---------------------------------------------------------------------------------------------
@triton.jit
def swiglu_kernel(out_ptr, gate_ptr, up_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + i, mask=i < n).to(tl.float32)
    up = tl.load(up_ptr + i, mask=i < n).to(tl.float32)
    tl.store(out_ptr + i, gate * tl.sigmoid(gate) * up, mask=i < n)


@triton.jit
def gelu_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    tl.store(out_ptr + i, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=i < n)


@triton.jit
def dropout_kernel(out_ptr, x_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.where(tl.rand(seed, i) > p, x / (1 - p), 0.0), mask=i < n)


@triton.jit
def adamw_kernel(p_out, m_out, v_out, p_ptr, g_ptr, m_ptr, v_ptr, lr, beta1, beta2, eps, decay, fix1, fix2, n,
                 BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    g = tl.load(g_ptr + i, mask=mask).to(tl.float32)
    p = tl.load(p_ptr + i, mask=mask)
    m = beta1 * tl.load(m_ptr + i, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + i, mask=mask) + (1 - beta2) * g * g
    p = p * (1 - lr * decay) - lr * (m * fix1) / (tl.sqrt(v * fix2) + eps)
    tl.store(p_out + i, p, mask=mask)
    tl.store(m_out + i, m, mask=mask)
    tl.store(v_out + i, v, mask=mask)


@triton.jit
def rotary_kernel(out_ptr, q_ptr, cos_ptr, sin_ptr, L, HEADS: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + token % L * HALF + d)
    sin = tl.load(sin_ptr + token % L * HALF + d)
    at = (token * HEADS + tl.arange(0, HEADS)[:, None]) * (2 * HALF) + d[None, :]
    x, y = tl.load(q_ptr + at).to(tl.float32), tl.load(q_ptr + at + HALF).to(tl.float32)
    tl.store(out_ptr + at, x * cos[None, :] - y * sin[None, :])
    tl.store(out_ptr + at + HALF, y * cos[None, :] + x * sin[None, :])


@triton.jit
def permute_kernel(out_ptr, x_ptr, L, H, D: tl.constexpr, BLOCK: tl.constexpr):
    """[B, L, H, D] to [B, H, L, D]."""
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    x = tl.load(x_ptr + ((batch * L + row[:, None]) * H + head) * D + d[None, :], mask=row[:, None] < L)
    tl.store(out_ptr + ((batch * H + head) * L + row[:, None]) * D + d[None, :], x, mask=row[:, None] < L)


@triton.jit
def embedding_kernel(out_ptr, ids_ptr, w_ptr, n, D: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    token = tl.load(ids_ptr + row, mask=row < n, other=0)
    x = tl.load(w_ptr + token[:, None] * D + d[None, :], mask=row[:, None] < n)
    tl.store(out_ptr + row[:, None] * D + d[None, :], x, mask=row[:, None] < n)


@triton.jit
def scatter_add_kernel(out_ptr, ids_ptr, x_ptr, n, D: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    token = tl.load(ids_ptr + row, mask=row < n, other=0)
    x = tl.load(x_ptr + row[:, None] * D + d[None, :], mask=row[:, None] < n)
    tl.atomic_add(out_ptr + token[:, None] * D + d[None, :], x, mask=row[:, None] < n, sem="relaxed")


@triton.jit
def histogram_kernel(out_ptr, x_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + i), BINS)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts, sem="relaxed")


# --- rows -------------------------------------------------------------------------------------------------------------
@triton.jit
def layer_norm_kernel(out_ptr, mean_ptr, rstd_ptr, x_ptr, w_ptr, b_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / N
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.where(c < N, tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32) - mean, 0.0)
        total += x * x
    rstd = 1 / tl.sqrt(tl.sum(total, 0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * tl.load(w_ptr + c, mask=c < N) + tl.load(b_ptr + c, mask=c < N)
        tl.store(out_ptr + c, y, mask=c < N)


@triton.jit
def layer_norm_backward_kernel(dx_ptr, dw_ptr, db_ptr, dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, stride, M, N,
                               ROWS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    mask = c < N
    w = tl.load(w_ptr + c, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, min(first + ROWS, M)):
        x = tl.load(x_ptr + row * stride + c, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride + c, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        wdy = w * dy
        one, two = tl.sum(hat * wdy, 0) / N, tl.sum(wdy, 0) / N
        tl.store(dx_ptr + row * stride + c, (wdy - (hat * one + two)) * rstd, mask=mask)
        dw += dy * hat
        db += dy
    tl.store(dw_ptr + tl.program_id(0) * N + c, dw, mask=mask)
    tl.store(db_ptr + tl.program_id(0) * N + c, db, mask=mask)


@triton.jit
def quantize_kernel(q_ptr, scale_ptr, x_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-10) / 448.0
    tl.store(q_ptr + row * N + c, (x / scale).to(q_ptr.dtype.element_ty), mask=c < N)
    tl.store(scale_ptr + row, scale)


@triton.jit
def cumsum_kernel(out_ptr, x_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    tl.store(out_ptr + row * N + c, tl.cumsum(x, 0), mask=c < N)


@triton.jit
def argmax_kernel(out_ptr, x_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, 0))


@triton.jit
def sort_kernel(out_ptr, x_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def _welford(mean1, square1, count1, mean2, square2, count2):
    count = count1 + count2
    part = tl.where(count == 0, 0.0, count2 / count)
    delta = mean2 - mean1
    return mean1 + delta * part, square1 + square2 + delta * delta * count1 * part, count


@triton.jit
def group_norm_kernel(out_ptr, x_ptr, w_ptr, b_ptr, GROUPS, SPACE, eps, PER_GROUP: tl.constexpr, ROWS: tl.constexpr,
                      BLOCK: tl.constexpr):
    """[B, C, space]; a program norms one group of channels."""
    group = tl.program_id(0)
    base = group.to(tl.int64) * PER_GROUP * SPACE
    r = tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    mask = (r < PER_GROUP) & (c < SPACE)
    x = tl.load(x_ptr + base + r * SPACE + c, mask=mask, other=0.0).to(tl.float32)
    flat = tl.reshape(x, (ROWS * BLOCK,))
    inside = tl.reshape(mask.to(tl.float32) + tl.zeros((ROWS, BLOCK), tl.float32), (ROWS * BLOCK,))
    mean, square, count = tl.reduce((flat, tl.zeros_like(flat), inside), 0, _welford)
    rstd = tl.rsqrt(square / count + eps)
    channel = group % GROUPS * PER_GROUP + r
    w = tl.load(w_ptr + channel, mask=r < PER_GROUP, other=0.0)
    b = tl.load(b_ptr + channel, mask=r < PER_GROUP, other=0.0)
    tl.store(out_ptr + base + r * SPACE + c, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def _gated(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def recurrence_kernel(out_ptr, a_ptr, b_ptr, L, D, BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr):
    """h[t] = a[t] h[t-1] + b[t] along L of [B, L, D]."""
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    base = tl.program_id(1) * L * D
    h = tl.zeros((BLOCK_D,), tl.float32)
    for start in range(0, L, BLOCK_L):
        at = base + (start + tl.arange(0, BLOCK_L))[:, None] * D + d[None, :]
        a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
        a, b = tl.associative_scan((a, b), 0, _gated)
        out = a * h[None, :] + b
        tl.store(out_ptr + at, out)
        last = (tl.arange(0, BLOCK_L) == BLOCK_L - 1)[:, None]
        h = tl.sum(tl.where(last, out, 0.0), 0)


@triton.jit
def causal_conv_kernel(out_ptr, x_ptr, w_ptr, b_ptr, L, D, BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr):
    """Four taps along L of [B, L, D], then SiLU."""
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    t = tl.program_id(1) * BLOCK_L + tl.arange(0, BLOCK_L)
    base = tl.program_id(2) * L * D
    total = tl.zeros((BLOCK_L, BLOCK_D), tl.float32) + tl.load(b_ptr + d)[None, :]
    for k in tl.static_range(4):
        past = t - 3 + k
        x = tl.load(x_ptr + base + past[:, None] * D + d[None, :], mask=(past >= 0)[:, None] & (past < L)[:, None],
                    other=0.0)
        total += x.to(tl.float32) * tl.load(w_ptr + d * 4 + k)[None, :]
    tl.store(out_ptr + base + t[:, None] * D + d[None, :], total * tl.sigmoid(total), mask=(t < L)[:, None])


@triton.jit
def matvec_kernel(out_ptr, a_ptr, x_ptr, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        x = tl.load(x_ptr + k, mask=k < K, other=0.0)
        total += a.to(tl.float32) * x.to(tl.float32)[None, :]
    tl.store(out_ptr + m, tl.sum(total, 1), mask=m < M)


# --- products ---------------------------------------------------------------------------------------------------------
@triton.jit
def linear_kernel(out_ptr, x_ptr, w_ptr, b_ptr, r_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):
    """gelu(x @ w.T + b) + r; w is [N, K] as torch keeps it."""
    tiles = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        w = tl.load(w_ptrs, mask=(n[None, :] < N) & (k[:, None] < K - start), other=0.0)
        total = tl.dot(x, w, total)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    total += tl.load(b_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    total = 0.5 * total * (1 + tl.erf(total * 0.7071067811865476))
    mask = (m[:, None] < M) & (n[None, :] < N)
    total += tl.load(r_ptr + m[:, None] * N + n[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + m[:, None] * N + n[None, :], total, mask=mask)


@triton.jit
def batched_kernel(c_ptr, a_ptr, b_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * M * K + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + batch * K * N + k[:, None] * N + n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        total += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + batch * M * N + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty))


@triton.jit
def split_k_kernel(c_ptr, a_ptr, b_ptr, M, N, K, SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr):
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K * SPLIT)):
        left = K - step * BLOCK_K * SPLIT
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K * SPLIT
        b_ptrs += BLOCK_K * SPLIT * N
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], total, mask=m[:, None] < M, sem="relaxed")


@triton.jit
def int8_kernel(c_ptr, a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                BLOCK_K: tl.constexpr):
    """int8 a [M, K] and b [N, K], a scale for each row."""
    tiles = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + n[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for _ in range(0, tl.cdiv(K, BLOCK_K)):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total, out_dtype=tl.int32)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    scale = tl.load(a_scale_ptr + m)[:, None] * tl.load(b_scale_ptr + n)[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], (total * scale).to(c_ptr.dtype.element_ty))


@triton.jit
def block_scaled_kernel(c_ptr, a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, M, N, K, GROUP: tl.constexpr,
                        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """fp8 a [M, K] with a scale for 1x128 elements, b [N, K] with one for 128x128."""
    tiles = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + n[None, :] * K + k[:, None]
    groups = tl.cdiv(K, GROUP)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        a_scale = tl.load(a_scale_ptr + m * groups + step * BLOCK_K // GROUP)
        b_scale = tl.load(b_scale_ptr + n // GROUP * groups + step * BLOCK_K // GROUP)
        total += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty), mask=m[:, None] < M)


@triton.jit
def int4_kernel(c_ptr, a_ptr, q_ptr, scale_ptr, zero_ptr, M, N, K, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
                BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Weights of four bits, eight of a column in a word, with a scale and a zero for each group of rows."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    q_ptrs = q_ptr + (k[:, None] // 8) * N + n[None, :]
    shift = (k % 8) * 4
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=m[:, None] < M, other=0.0)
        group = step * BLOCK_K // GROUP
        scale = tl.load(scale_ptr + group * N + n)
        zero = tl.load(zero_ptr + group * N + n)
        w = (((tl.load(q_ptrs) >> shift[:, None]) & 0xF) - zero[None, :]) * scale[None, :]
        total = tl.dot(a, w.to(a.dtype), total)
        a_ptrs += BLOCK_K
        q_ptrs += BLOCK_K // 8 * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty), mask=m[:, None] < M)


@triton.jit
def grouped_kernel(c_ptr, a_ptr, b_ptr, ends_ptr, groups, N, K, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Rows of a up to ends[g] with the matrix b[g], all tiles shared out among a fixed number of programs."""
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    done, first = 0, 0
    for g in range(groups):
        end = tl.load(ends_ptr + g)
        count = tl.cdiv(end - first, BLOCK_M) * tiles_n
        while tile < done + count:
            m = first + (tile - done) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - done) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + m[:, None] * K + k[None, :]
            b_ptrs = b_ptr + g * K * N + k[:, None] * N + n[None, :]
            total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for _ in range(0, tl.cdiv(K, BLOCK_K)):
                total += tl.dot(tl.load(a_ptrs, mask=m[:, None] < end, other=0.0), tl.load(b_ptrs))
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * N
            tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty), mask=m[:, None] < end)
            tile += PROGRAMS
        done += count
        first = end


@triton.jit
def experts_kernel(c_ptr, a_ptr, b_ptr, order_ptr, expert_ptr, numel, N, K, TOP: tl.constexpr, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A mixture of experts: rows of a as `order` gives them, each block of rows with its expert's b [E, N, K]."""
    tiles = tl.cdiv(N, BLOCK_N)
    block = tl.program_id(0) // tiles
    token = tl.load(order_ptr + block * BLOCK_M + tl.arange(0, BLOCK_M))
    mask = token < numel
    expert = tl.load(expert_ptr + block).to(tl.int64)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + token[:, None] // TOP * K + k[None, :]
    b_ptrs = b_ptr + expert * N * K + n[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=mask[:, None] & (k[None, :] < K - step * BLOCK_K), other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        total += tl.dot(a, b)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    tl.store(c_ptr + token[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty), mask=mask[:, None])


@triton.jit
def descriptor_kernel(c_ptr, a_ptr, b_ptr, M, N, K, PROGRAMS: tl.constexpr, GROUP_M: tl.constexpr,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        first = tile // per_group * GROUP_M
        rows = min(tiles_m - first, GROUP_M)
        m = (first + tile % per_group % rows) * BLOCK_M
        n = tile % per_group // rows * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            total = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, total)
        c_desc.store([m, n], total.to(c_desc.dtype))


# --- attention --------------------------------------------------------------------------------------------------------
@triton.jit
def causal_attention_kernel(out_ptr, lse_ptr, q_ptr, k_ptr, v_ptr, scale, L, BLOCK_M: tl.constexpr,
                            BLOCK_N: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * L * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        s = tl.dot(q, k) * scale
        s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new
    tl.store(lse_ptr + tl.program_id(1) * L + m, top + tl.log2(total))
    tl.store(out_ptr + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def attention_dkdv_kernel(dk_ptr, dv_ptr, q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, scale, L,
                          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    """Gradients of the keys and values of one block; `scale` is in base 2, gradients are not yet scaled."""
    base = tl.program_id(1).to(tl.int64) * L * D
    row = tl.program_id(1) * L
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + base + n[:, None] * D + d[None, :])
    v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    for start in range(0, L, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        q_t = tl.load(q_ptr + base + m[None, :] * D + d[:, None])
        lse = tl.load(lse_ptr + row + m)
        p_t = tl.exp2(tl.dot(k, q_t) * scale - lse[None, :])
        do = tl.load(do_ptr + base + m[:, None] * D + d[None, :])
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        delta = tl.load(delta_ptr + row + m)
        ds_t = p_t * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds_t.to(do.dtype), tl.trans(q_t), dk)
    tl.store(dv_ptr + base + n[:, None] * D + d[None, :], dv.to(dv_ptr.dtype.element_ty))
    tl.store(dk_ptr + base + n[:, None] * D + d[None, :], dk.to(dk_ptr.dtype.element_ty))


@triton.jit
def attention_dq_kernel(dq_ptr, q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, scale, L, BLOCK_M: tl.constexpr,
                        BLOCK_N: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * L * D
    row = tl.program_id(1) * L
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    do = tl.load(do_ptr + base + m[:, None] * D + d[None, :])
    lse = tl.load(lse_ptr + row + m)
    delta = tl.load(delta_ptr + row + m)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, L, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k_t = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        v_t = tl.load(v_ptr + base + n[None, :] * D + d[:, None])
        p = tl.exp2(tl.dot(q, k_t) * scale - lse[:, None])
        ds = p * (tl.dot(do, v_t) - delta[:, None])
        dq = tl.dot(ds.to(k_t.dtype), tl.trans(k_t), dq)
    tl.store(dq_ptr + base + m[:, None] * D + d[None, :], dq.to(dq_ptr.dtype.element_ty))


@triton.jit
def decode_kernel(out_ptr, lse_ptr, q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, scale, PAGES, HEADS: tl.constexpr,
                  GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, SPLIT: tl.constexpr, BLOCK_N: tl.constexpr):
    """One query of each sequence against a part of its pages; `GROUP` heads of q share one of k and v."""
    sequence, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    g = tl.arange(0, 16)
    d = tl.arange(0, D)
    at = (sequence * HEADS + head) * GROUP + g
    q = tl.load(q_ptr + at[:, None] * D + d[None, :], mask=(g < GROUP)[:, None], other=0.0)
    length = tl.load(length_ptr + sequence)
    each = tl.cdiv(tl.cdiv(length, SPLIT), BLOCK_N) * BLOCK_N
    top = tl.full((16,), -float("inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, D), tl.float32)
    for start in range(part * each, min((part + 1) * each, length), BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        page = tl.load(table_ptr + sequence * PAGES + n // PAGE, mask=n < length, other=0).to(tl.int64)
        row = (page * PAGE + n % PAGE) * HEADS + head
        k = tl.load(k_ptr + row[None, :] * D + d[:, None], mask=(n < length)[None, :], other=0.0)
        s = tl.where((n < length)[None, :], tl.dot(q, k) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + row[:, None] * D + d[None, :], mask=(n < length)[:, None], other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        top = new
    at = at * SPLIT + part
    tl.store(out_ptr + at[:, None] * D + d[None, :], acc / total[:, None], mask=(g < GROUP)[:, None])
    tl.store(lse_ptr + at, top + tl.log2(total), mask=g < GROUP)


@triton.jit
def linear_attention_kernel(out_ptr, q_ptr, k_ptr, v_ptr, L, BLOCK: tl.constexpr, D: tl.constexpr):
    """Causal attention without softmax, chunk by chunk, with the state of the chunks before."""
    base = tl.program_id(0).to(tl.int64) * L * D
    t = tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, L, BLOCK):
        rows = base + (start + t[:, None]) * D + d[None, :]
        q = tl.load(q_ptr + rows)
        k = tl.load(k_ptr + rows)
        v = tl.load(v_ptr + rows)
        s = tl.where(t[:, None] >= t[None, :], tl.dot(q, tl.trans(k)), 0.0)
        out = tl.dot(s.to(v.dtype), v) + tl.dot(q, state.to(q.dtype))
        state += tl.dot(tl.trans(k), v)
        tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty))


# --- branches and loaded offsets in loops around dots -----------------------------------------------------------------
@triton.jit
def one_loop_kernel(c_ptr, a_ptr, b_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr):
    """A persistent product with one loop over all steps of all its tiles."""
    start, steps = tl.program_id(0), tl.cdiv(K, BLOCK_K)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    mine = rows * columns // PROGRAMS
    if start < rows * columns % PROGRAMS:
        mine += 1
    tile, step, row, column = start - PROGRAMS, -1, 0, 0
    m, n, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, steps * mine):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += PROGRAMS
            first = tile // (GROUP_M * columns) * GROUP_M
            size = min(rows - first, GROUP_M)
            row, column = first + tile % size, tile % (GROUP_M * columns) // size
            m, n = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
            m = tl.max_contiguous(tl.multiple_of(tl.where(m < M, m, 0), BLOCK_M), BLOCK_M)
            n = tl.max_contiguous(tl.multiple_of(tl.where(n < N, n, 0), BLOCK_N), BLOCK_N)
        at = step * BLOCK_K + k
        a = tl.load(a_ptr + m[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
        if step == steps - 1:
            i, j = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
            inside = (i[:, None] < M) & (j[None, :] < N)
            tl.store(c_ptr + i[:, None] * N + j[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)


@triton.jit
def biased_kernel(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, last, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):
    """A product; its first steps add a tile more."""
    columns = tl.cdiv(N, BLOCK_N)
    i = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + i[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + j[None, :])
        acc = tl.dot(a, b, acc)
        if start < last:
            acc += tl.load(bias_ptr + i[:, None] * N + j[None, :])
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def states_kernel(h_ptr, k_ptr, v_ptr, rows_ptr, chunks_ptr, H: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr,
                  BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr):
    """The states of linear attention before each chunk, of sequences of different lengths side by side."""
    head, n = tl.program_id(2) % H, tl.program_id(2) // H
    begin, end = tl.load(rows_ptr + n), tl.load(rows_ptr + n + 1)
    first = tl.load(chunks_ptr + n)
    i, j = tl.program_id(0) * BLOCK_K, tl.program_id(1) * BLOCK_V
    h = tl.zeros((BLOCK_K, BLOCK_V), tl.float32)
    for t in range(0, tl.cdiv(end - begin, CHUNK)):
        state = h_ptr + ((first + t) * H + head).to(tl.int64) * D * D
        to = tl.make_block_ptr(state, (D, D), (D, 1), (i, j), (BLOCK_K, BLOCK_V), (1, 0))
        tl.store(to, h.to(h_ptr.dtype.element_ty), boundary_check=(0, 1))
        ks = tl.make_block_ptr(k_ptr + (begin * H + head) * D, (D, end - begin), (1, H * D), (i, t * CHUNK),
                               (BLOCK_K, CHUNK), (0, 1))
        vs = tl.make_block_ptr(v_ptr + (begin * H + head) * D, (end - begin, D), (H * D, 1), (t * CHUNK, j),
                               (CHUNK, BLOCK_V), (1, 0))
        h += tl.dot(tl.load(ks, boundary_check=(0, 1)), tl.load(vs, boundary_check=(0, 1)))


@triton.jit
def window_kernel(out_ptr, q_ptr, k_ptr, v_ptr, scale, L, WINDOW, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  D: tl.constexpr):
    """Causal attention with a window: blocks outside of it are skipped by a branch."""
    base = tl.program_id(1).to(tl.int64) * L * D
    m, n, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top, total = tl.full([BLOCK_M], -1e6, tl.float32), tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        if start + BLOCK_N > tl.program_id(0) * BLOCK_M - WINDOW:
            at = start + n
            k = tl.load(k_ptr + base + at[None, :] * D + d[:, None])
            inside = (m[:, None] >= at[None, :]) & (m[:, None] - at[None, :] < WINDOW)
            s = tl.where(inside, tl.dot(q, k) * scale, -float("inf"))
            new = tl.maximum(top, tl.max(s, 1))
            p, factor = tl.exp2(s - new[:, None]), tl.exp2(top - new)
            total = total * factor + tl.sum(p, 1)
            v = tl.load(v_ptr + base + at[:, None] * D + d[None, :])
            acc = acc * factor[:, None] + tl.dot(p.to(v.dtype), v)
            top = new
    tl.store(out_ptr + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out_ptr.dtype.element_ty))
