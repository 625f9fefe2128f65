"""Reductions, norms, scans, gathers and pointwise work as libraries write them, for `gpu_code.py`.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton compile the same source.
"""
# ruff: noqa: F821


# --- reductions along an axis with strides of the run time ------------------------------------------------------------
@triton.jit
def strided_argmax(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    best = tl.full([BLOCK_M], value=-float("inf"), dtype=tl.float32)
    where = tl.full([BLOCK_M], value=0, dtype=tl.int64)
    for start in range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        mask = (m[:, None] < M) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=mask, other=-float("inf"))
        x = x.to(tl.float32)
        value, index = tl.max(x, 1), tl.argmax(x, 1)
        better = value > best
        best = tl.where(better, value, best)
        where = tl.where(better, start + index, where)
    tl.store(out_ptr + m, where, mask=m < M)


@triton.jit
def middle_max(x_ptr, values_ptr, index_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Largest of the middle axis of [M, N, K] and where it is."""
    k = tl.program_id(1)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    mask = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N * K + n[None, :] * K + k, mask=mask, other=-float("inf"))
    value, index = tl.max(x, axis=1, return_indices=True)
    tl.store(values_ptr + m * K + k, value, mask=m < M)
    tl.store(index_ptr + m * K + k, index, mask=m < M)


@triton.jit
def strided_sum(x_ptr, out_ptr, M, N, stride_m, stride_n, AXIS: tl.constexpr, BLOCK_M: tl.constexpr,
                BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=(m[:, None] < M) & (n[None, :] < N),
                other=0.0).to(tl.float32)
    if AXIS == 1:
        tl.atomic_add(out_ptr + m, tl.sum(x, 1), mask=m < M)
    else:
        tl.atomic_add(out_ptr + n, tl.sum(x, 0), mask=n < N)


@triton.jit
def _merge(mean1, m1, weight1, mean2, m2, weight2):
    delta = mean2 - mean1
    weight = weight1 + weight2
    part = tl.where(weight == 0.0, 0.0, weight2 / weight)
    return mean1 + delta * part, m1 + m2 + delta * delta * weight1 * part, weight


@triton.jit
def strided_variance(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    mean = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    square = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    count = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        x = tl.load(x_ptr + m * stride_m + n * stride_n, mask=mask, other=0.0).to(tl.float32)
        fresh = tl.maximum(count + mask, 1.0)
        delta = x - mean
        mean += tl.where(mask, delta / fresh, 0.0)
        square += tl.where(mask, delta * (x - mean), 0.0)
        count += mask
    mean, square, count = tl.reduce((mean, square, count), 1, _merge)
    tl.store(out_ptr + m, (square / count)[:, None], mask=m < M)


@triton.jit
def middle_softmax(out_ptr, x_ptr, N, K, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    """Softmax along the middle axis of [M, N, K]."""
    k = tl.program_id(0) * TILE_K + tl.arange(0, TILE_K)
    base = tl.program_id(1) * N * K
    top = tl.full([TILE_N, TILE_K], value=float("-inf"), dtype=tl.float32)
    total = tl.full([TILE_N, TILE_K], value=0.0, dtype=tl.float32)
    for start in range(0, N, TILE_N):
        n = start + tl.arange(0, TILE_N)
        mask = (n[:, None] < N) & (k < K)
        x = tl.load(x_ptr + base + n[:, None] * K + k, mask=mask, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, x)
        dead = new == float("-inf")
        total = tl.where(dead, total, total * tl.exp(top - new) + tl.exp(x - new))
        top = new
    best = tl.max(top, 0)
    total = tl.sum(total * tl.exp(top - best[None, :]), 0)
    for start in range(0, N, TILE_N):
        n = start + tl.arange(0, TILE_N)
        mask = (n[:, None] < N) & (k < K)
        x = tl.load(x_ptr + base + n[:, None] * K + k, mask=mask, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + base + n[:, None] * K + k, tl.exp(x - best[None, :]) / total[None, :], mask=mask)


@triton.jit
def log_softmax_backward(dx_ptr, dy_ptr, y_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    k = tl.program_id(1)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    at = m[:, None] * N * K + n[None, :] * K + k
    mask = (m[:, None] < M) & (n[None, :] < N)
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx_ptr + at, dy - tl.exp(y) * tl.sum(dy, 1)[:, None], mask=mask)


@triton.jit
def running_max(x_ptr, out_ptr, index_ptr, M, N, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    mask = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * stride_m + n[None, :] * stride_n
    x = tl.load(x_ptr + at, mask=mask, other=-float("inf"))
    where = tl.broadcast_to(n[None, :], (BLOCK_M, BLOCK_N))
    values, index = tl.associative_scan((x, where), 1, _larger)
    tl.store(out_ptr + at, values, mask=mask)
    tl.store(index_ptr + at, index, mask=mask)


@triton.jit
def _larger(x, i, y, j):
    take = (y > x) | ((y == x) & (j > i))
    return tl.where(take, y, x), tl.where(take, j, i)


# --- norms ------------------------------------------------------------------------------------------------------------
@triton.jit
def layer_norm_backward_locked(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUPS: tl.constexpr,
                               BLOCK: tl.constexpr):
    """Gradients of the weights are summed under locks, a group of rows each."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    which = row % GROUPS
    Lock += which
    Count = Lock + GROUPS
    DW = DW + which * N + c
    DB = DB + which * N + c
    x = tl.load(X + c, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + c, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + c, mask=mask).to(tl.float32)
    mean, rstd = tl.load(Mean + row), tl.load(Rstd + row)
    hat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    one, two = tl.sum(hat * wdy, axis=0) / N, tl.sum(wdy, axis=0) / N
    tl.store(DX + c, (wdy - (hat * one + two)) * rstd, mask=mask)
    dw, db = (dy * hat).to(w.dtype), dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        dw += tl.load(DW, mask=mask)
        db += tl.load(DB, mask=mask)
    tl.store(DW, dw, mask=mask)
    tl.store(DB, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def weight_sums(DW, DB, OUT_W, OUT_B, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, M, BLOCK_M):
        r = start + tl.arange(0, BLOCK_M)
        mask = (r[:, None] < M) & (c[None, :] < N)
        dw += tl.load(DW + r[:, None] * N + c[None, :], mask=mask, other=0.0)
        db += tl.load(DB + r[:, None] * N + c[None, :], mask=mask, other=0.0)
    tl.store(OUT_W + c, tl.sum(dw, axis=0), mask=c < N)
    tl.store(OUT_B + c, tl.sum(db, axis=0), mask=c < N)


@triton.jit
def rms_norm_backward(dy_ptr, dx_ptr, x_ptr, w_ptr, rstd_ptr, dw_ptr, stride_y, stride_x, rows, N, per_program,
                      BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    mask = c < N
    first = tl.program_id(0) * per_program
    dw = tl.zeros((BLOCK,), tl.float32)
    w = tl.load(w_ptr + c, mask=mask, other=0.0).to(tl.float32)
    for row in range(first, min(first + per_program, rows)):
        dy = tl.load(dy_ptr + row * stride_y + c, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * stride_x + c, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        m = dy * w
        dx = rstd * m - rstd * rstd * rstd / N * tl.sum(m * x, axis=0) * x
        dw += dy * x * rstd
        tl.store(dx_ptr + row * stride_x + c, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(dw_ptr + tl.program_id(0) * N + c, dw, mask=mask)


@triton.jit
def inductor_layer_norm(in_out, x_ptr, w_ptr, b_ptr, out_ptr, xnumel, rnumel, XBLOCK: tl.constexpr,
                        RBLOCK: tl.constexpr):
    """As a graph compiler writes a reduction in a loop."""
    x_index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    x_mask = x_index < xnumel
    r_base = tl.arange(0, RBLOCK)[None, :]
    mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    square = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    count = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for start in range(0, rnumel, RBLOCK):
        r = start + r_base
        mask = (r < rnumel) & x_mask
        x = tl.load(x_ptr + (r + rnumel * x_index), mask, eviction_policy="evict_last", other=0.0).to(tl.float32)
        fresh = count + 1
        delta = x - mean
        mean = tl.where(mask, mean + delta / fresh, mean)
        square = tl.where(mask, square + delta * (x - mean), square)
        count = tl.where(mask, fresh, count)
    mean, square, count = tl.reduce((mean, square, count), 1, _merge)
    mean, square = mean[:, None], square[:, None]
    rstd = tl.rsqrt(square / rnumel + 1e-05)
    tl.debug_barrier()
    tl.store(in_out + x_index, rstd, x_mask)
    for start in range(0, rnumel, RBLOCK):
        r = start + r_base
        mask = (r < rnumel) & x_mask
        x = tl.load(x_ptr + (r + rnumel * x_index), mask, eviction_policy="evict_first", other=0.0).to(tl.float32)
        w = tl.load(w_ptr + r, r < rnumel, eviction_policy="evict_last", other=0.0).to(tl.float32)
        b = tl.load(b_ptr + r, r < rnumel, eviction_policy="evict_last", other=0.0).to(tl.float32)
        tl.store(out_ptr + (r + rnumel * x_index), (x - mean) * rstd * w + b, mask)


# --- losses and sampling ----------------------------------------------------------------------------------------------
@triton.jit
def cross_entropy_in_place(x_ptr, stride_x, label_ptr, loss_ptr, N, total, ignore, smoothing, BLOCK: tl.constexpr):
    """The loss of a row, and its gradient where the row was."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(label_ptr + row)
    x_ptr += row * stride_x
    if label == ignore:
        for i in range(0, N, BLOCK):
            c = i + tl.arange(0, BLOCK)
            tl.store(x_ptr + c, 0.0, mask=c < N)
        return
    top, below, smooth = float("-inf"), 0.0, 0.0
    eps = smoothing / N
    for i in range(0, N, BLOCK):
        c = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=float("-inf")).to(tl.float32)
        block = tl.max(x)
        smooth += tl.sum(tl.where(c < N, -eps * x, 0.0))
        new = tl.maximum(top, block)
        below = below * tl.exp(top - new) + tl.sum(tl.exp(x - new))
        top = new
    lse = top + tl.log(below)
    hit = tl.load(x_ptr + label).to(tl.float32)
    for i in range(0, N, BLOCK):
        c = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=float("-inf")).to(tl.float32)
        x = tl.where(c != label, tl.exp(x - top) / below - eps, tl.exp(x - top) / below - eps - (1 - smoothing))
        tl.store(x_ptr + c, x / total, mask=c < N)
    tl.debug_barrier()
    tl.store(loss_ptr + row, ((1 - smoothing) * (lse - hit) + smooth + smoothing * lse) / total)


@triton.jit
def penalties(x_ptr, presence_ptr, frequency_ptr, id_ptr, count_ptr, start_ptr, stride_b, stride_v,
              BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    presence, frequency = tl.load(presence_ptr + batch), tl.load(frequency_ptr + batch)
    first, last = tl.load(start_ptr + batch), tl.load(start_ptr + batch + 1)
    i = first + tl.arange(0, BLOCK)
    ids = tl.load(id_ptr + i, mask=i < last, other=0)
    counts = tl.load(count_ptr + i, mask=i < last, other=0)
    at = x_ptr + batch * stride_b + ids * stride_v
    x = tl.load(at, mask=i < last, other=0.0)
    tl.store(at, x - counts * frequency - presence, mask=i < last)


@triton.jit
def chunk_topk(values_ptr, index_ptr, x_ptr, N, K: tl.constexpr, BLOCK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    c = chunk * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf")).to(tl.float32)
    for k in range(K):
        value, index = tl.max(x, 0), tl.argmax(x, 0)
        tl.store(values_ptr + (row * tl.num_programs(1) + chunk) * K + k, value)
        tl.store(index_ptr + (row * tl.num_programs(1) + chunk) * K + k, index + chunk * BLOCK)
        x = tl.where(tl.arange(0, BLOCK) == index, -float("inf"), x)


# --- scans ------------------------------------------------------------------------------------------------------------
@triton.jit
def chunk_cumsum(s, o, T, S: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """Sums along the chunks of a sequence, by a triangular product."""
    i_s, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.arange(0, BT)
    lower = tl.where(i[:, None] >= i[None, :], 1.0, 0.0)
    p_s = tl.make_block_ptr(s + i_bh * T * S, (T, S), (S, 1), (i_t * BT, i_s * BS), (BT, BS), (1, 0))
    p_o = tl.make_block_ptr(o + i_bh * T * S, (T, S), (S, 1), (i_t * BT, i_s * BS), (BT, BS), (1, 0))
    x = tl.load(p_s, boundary_check=(0, 1)).to(tl.float32)
    tl.store(p_o, tl.dot(lower, x, allow_tf32=False).to(p_o.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def strided_cumsum(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    carry = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        mask = (m[:, None] < M) & (n[None, :] < N)
        at = m[:, None] * stride_m + n[None, :] * stride_n
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, tl.cumsum(x, 1) + carry[:, None], mask=mask)
        carry += tl.sum(x, 1)


@triton.jit
def time_recurrence(k_ptr, v_ptr, w_ptr, u_ptr, out_ptr, T, C, BLOCK: tl.constexpr):
    """A weighted mean of the past that fades, step by step."""
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = c < C
    base = tl.program_id(0) * T * C
    w = -tl.exp(tl.load(w_ptr + c, mask=mask).to(tl.float32))
    u = tl.load(u_ptr + c, mask=mask).to(tl.float32)
    over, under = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    top = tl.full([BLOCK], -1e38, tl.float32)
    for t in range(T):
        k = tl.load(k_ptr + base + t * C + c, mask=mask).to(tl.float32)
        v = tl.load(v_ptr + base + t * C + c, mask=mask).to(tl.float32)
        new = tl.maximum(top, u + k)
        old, now = tl.exp(top - new), tl.exp(u + k - new)
        tl.store(out_ptr + base + t * C + c, (old * over + now * v) / (old * under + now), mask=mask)
        new = tl.maximum(w + top, k)
        old, now = tl.exp(w + top - new), tl.exp(k - new)
        over, under, top = old * over + now * v, old * under + now, new


# --- pointwise, gathers and windows -----------------------------------------------------------------------------------
@triton.jit
def broadcast_add(x_ptr, y_ptr, out_ptr, n, size1, size2, size3, x0, x1, x2, x3, y0, y1, y2, y3, BLOCK: tl.constexpr):
    """Four axes from a flat index; both operands have strides of their own."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    d, rest = i % size3, i // size3
    c, rest = rest % size2, rest // size2
    b, a = rest % size1, rest // size1
    x = tl.load(x_ptr + a * x0 + b * x1 + c * x2 + d * x3, mask=mask)
    y = tl.load(y_ptr + a * y0 + b * y1 + c * y2 + d * y3, mask=mask)
    tl.store(out_ptr + i, x + y, mask=mask)


@triton.jit
def max_pool_flat(in_ptr, out_ptr, xnumel, SIDE: tl.constexpr, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x, y, plane = i % SIDE, i // SIDE % SIDE, i // (SIDE * SIDE)
    best = tl.full([XBLOCK], float("-inf"), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            h, w = 2 * y - 1 + dy, 2 * x - 1 + dx
            inside = (h >= 0) & (h < 2 * SIDE) & (w >= 0) & (w < 2 * SIDE)
            value = tl.load(in_ptr + plane * 4 * SIDE * SIDE + h * 2 * SIDE + w, inside & (i < xnumel),
                            other=float("-inf"))
            best = tl.maximum(best, value)
    tl.store(out_ptr + i, best, i < xnumel)


@triton.jit
def upsample(out_ptr, x_ptr, n, H, W, OH, OW, scale_h, scale_w, BLOCK: tl.constexpr):
    """Bilinear, four gathers for an element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x, y, plane = i % OW, i // OW % OH, i // (OW * OH)
    fy, fx = (y + 0.5) * scale_h - 0.5, (x + 0.5) * scale_w - 0.5
    fy, fx = tl.maximum(fy, 0.0), tl.maximum(fx, 0.0)
    y0, x0 = fy.to(tl.int32), fx.to(tl.int32)
    y1, x1 = tl.minimum(y0 + 1, H - 1), tl.minimum(x0 + 1, W - 1)
    wy, wx = fy - y0, fx - x0
    base = x_ptr + plane * H * W
    a, b = tl.load(base + y0 * W + x0, mask=mask), tl.load(base + y0 * W + x1, mask=mask)
    c, d = tl.load(base + y1 * W + x0, mask=mask), tl.load(base + y1 * W + x1, mask=mask)
    tl.store(out_ptr + i, (a * (1 - wx) + b * wx) * (1 - wy) + (c * (1 - wx) + d * wx) * wy, mask=mask)


@triton.jit
def rotary_in_place(q_ptr, k_ptr, cos_ptr, sin_ptr, qs, qh, qd, ks, kh, kd, cs, tokens, HEADS: tl.constexpr,
                    KV_HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Queries and keys turned where they are; strides of the run time."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D // 2)
    mask = (t < tokens)[:, None]
    cos = tl.load(cos_ptr + t[:, None] * cs + d[None, :], mask=mask, other=0.0)
    sin = tl.load(sin_ptr + t[:, None] * cs + d[None, :], mask=mask, other=0.0)
    for h in range(HEADS):
        at = t[:, None] * qs + h * qh + d[None, :] * qd
        x, y = tl.load(q_ptr + at, mask=mask), tl.load(q_ptr + at + D // 2 * qd, mask=mask)
        tl.store(q_ptr + at, x * cos - y * sin, mask=mask)
        tl.store(q_ptr + at + D // 2 * qd, x * sin + y * cos, mask=mask)
    for h in range(KV_HEADS):
        at = t[:, None] * ks + h * kh + d[None, :] * kd
        x, y = tl.load(k_ptr + at, mask=mask), tl.load(k_ptr + at + D // 2 * kd, mask=mask)
        tl.store(k_ptr + at, x * cos - y * sin, mask=mask)
        tl.store(k_ptr + at + D // 2 * kd, x * sin + y * cos, mask=mask)


@triton.jit
def cache_write(k_ptr, v_ptr, k_cache, v_cache, slot_ptr, stride_k, stride_v, cb, ch, cd, cp, HEADS: tl.constexpr,
                D: tl.constexpr, PAGE: tl.constexpr):
    """Keys and values of one token to the page that has its slot."""
    token = tl.program_id(0)
    slot = tl.load(slot_ptr + token)
    page, place = slot // PAGE, slot % PAGE
    h, d = tl.arange(0, HEADS), tl.arange(0, D)
    source = h[:, None] * D + d[None, :]
    target = page * cb + h[:, None] * ch + d[None, :] * cd + place * cp
    tl.store(k_cache + target, tl.load(k_ptr + token * stride_k + source))
    tl.store(v_cache + target, tl.load(v_ptr + token * stride_v + source))


@triton.jit
def quantize_groups(x_ptr, q_ptr, s_ptr, stride_m, stride_n, M, N, GROUP: tl.constexpr, BLOCK_M: tl.constexpr):
    """To eight bits, with a scale for each group of columns."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    mask = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=mask, other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(x), 1) / 448.0 + 1e-10
    tl.store(q_ptr + m[:, None] * N + n[None, :], (x / scale[:, None]).to(q_ptr.dtype.element_ty), mask=mask)
    tl.store(s_ptr + m * tl.cdiv(N, GROUP) + tl.program_id(1), scale, mask=m < M)


@triton.jit
def strided_copy(out_ptr, x_ptr, M, N, xm, xn, om, on, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * xm + n[None, :] * xn, mask=mask)
    tl.store(out_ptr + m[:, None] * om + n[None, :] * on, x, mask=mask)


@triton.jit
def index_rows(out_ptr, x_ptr, index_ptr, M, N, stride_x, stride_o, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row = tl.load(index_ptr + m, mask=m < M, other=0)
    mask = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + row[:, None] * stride_x + n[None, :], mask=mask)
    tl.store(out_ptr + m[:, None] * stride_o + n[None, :], x, mask=mask)
