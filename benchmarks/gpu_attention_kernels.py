"""Attention in the styles of public code, for `gpu_attention.py`.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton run the same source. Matrices are (heads, length, D),
with contiguous rows of D; `scale` is for base 2.
"""
# ruff: noqa: F821


@triton.jit
def scores_of(q, k, scale, seen, MASKED: tl.constexpr):
    """Scores of one block of keys; `k` is (D, keys)."""
    s = tl.dot(q, k) * scale
    if MASKED:
        s = tl.where(seen, s, -float("inf"))
    return s


@triton.jit
def online_softmax(s, v, acc, total, top):
    """One block of scores and values joins the running softmax."""
    new = tl.maximum(top, tl.max(s, 1))
    p = tl.exp2(s - new[:, None])
    shrink = tl.exp2(top - new)
    total = total * shrink + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
    return acc, total, new


@triton.jit
def pointer_kernel(out_ptr, q_ptr, k_ptr, v_ptr, scale, L, D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
                   V_ALONG_KEYS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Plain pointers, one loop; `GROUP` heads of queries share one of keys and values."""
    base, shared = tl.program_id(1).to(tl.int64) * L * D, (tl.program_id(1) // GROUP).to(tl.int64) * L * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = (tl.program_id(0) + 1) * BLOCK_M if CAUSAL else L
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + shared + n[None, :] * D + d[:, None])
        if V_ALONG_KEYS:
            v = tl.load(v_ptr + shared + d[None, :] * L + n[:, None])
        else:
            v = tl.load(v_ptr + shared + n[:, None] * D + d[None, :])
        s = scores_of(q, k, scale, m[:, None] >= n[None, :], CAUSAL)
        acc, total, top = online_softmax(s, v, acc, total, top)
    tl.store(out_ptr + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def descriptor_kernel(out_ptr, q_ptr, k_ptr, v_ptr, scale, L, D: tl.constexpr, GROUP: tl.constexpr,
                      CAUSAL: tl.constexpr, V_ALONG_KEYS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Descriptors; blocks before the diagonal and on it have a loop each."""
    heads = tl.num_programs(1)
    rows, first = tl.program_id(1) * L, (tl.program_id(1) // GROUP) * L
    q_desc = tl.make_tensor_descriptor(q_ptr, [heads * L, D], [D, 1], [BLOCK_M, D])
    k_desc = tl.make_tensor_descriptor(k_ptr, [heads // GROUP * L, D], [D, 1], [BLOCK_N, D])
    if V_ALONG_KEYS:
        v_desc = tl.make_tensor_descriptor(v_ptr, [heads // GROUP * D, L], [L, 1], [D, BLOCK_N])
    else:
        v_desc = tl.make_tensor_descriptor(v_ptr, [heads // GROUP * L, D], [D, 1], [BLOCK_N, D])
    out_desc = tl.make_tensor_descriptor(out_ptr, [heads * L, D], [D, 1], [BLOCK_M, D])
    at = tl.program_id(0) * BLOCK_M
    m = at + tl.arange(0, BLOCK_M)
    q = q_desc.load([rows + at, 0])
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for part in tl.static_range(1 + CAUSAL):
        low = at if part else 0
        high = at + BLOCK_M * part if CAUSAL else L
        for start in tl.range(low, high, BLOCK_N):
            start = tl.multiple_of(start, BLOCK_N)
            k = k_desc.load([first + start, 0]).T
            if V_ALONG_KEYS:
                v = v_desc.load([tl.program_id(1) // GROUP * D, start]).T
            else:
                v = v_desc.load([first + start, 0])
            seen = m[:, None] >= start + tl.arange(0, BLOCK_N)[None, :]
            s = scores_of(q, k, scale, seen, part)
            acc, total, top = online_softmax(s, v, acc, total, top)
    out_desc.store([rows + at, 0], (acc / total[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def block_pointer_kernel(out_ptr, q_ptr, k_ptr, v_ptr, scale, L, D: tl.constexpr, GROUP: tl.constexpr,
                         CAUSAL: tl.constexpr, V_ALONG_KEYS: tl.constexpr, BLOCK_M: tl.constexpr,
                         BLOCK_N: tl.constexpr):
    """Block pointers that advance; one loop."""
    base, shared = tl.program_id(1).to(tl.int64) * L * D, (tl.program_id(1) // GROUP).to(tl.int64) * L * D
    at = tl.program_id(0) * BLOCK_M
    m = at + tl.arange(0, BLOCK_M)
    q = tl.load(tl.make_block_ptr(q_ptr + base, (L, D), (D, 1), (at, 0), (BLOCK_M, D), (1, 0)))
    k_block = tl.make_block_ptr(k_ptr + shared, (D, L), (1, D), (0, 0), (D, BLOCK_N), (0, 1))
    if V_ALONG_KEYS:
        v_block = tl.make_block_ptr(v_ptr + shared, (L, D), (1, L), (0, 0), (BLOCK_N, D), (0, 1))
    else:
        v_block = tl.make_block_ptr(v_ptr + shared, (L, D), (D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = at + BLOCK_M if CAUSAL else L
    for start in range(0, end, BLOCK_N):
        seen = m[:, None] >= start + tl.arange(0, BLOCK_N)[None, :]
        s = scores_of(q, tl.load(k_block), scale, seen, CAUSAL)
        acc, total, top = online_softmax(s, tl.load(v_block), acc, total, top)
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    made = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(tl.make_block_ptr(out_ptr + base, (L, D), (D, 1), (at, 0), (BLOCK_M, D), (1, 0)), made)


@triton.jit
def score_kernel(out_ptr, q_ptr, k_ptr, v_ptr, slope_ptr, scale, L, window, D: tl.constexpr, KIND: tl.constexpr,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Scores that the kernel changes: slopes by distance, a soft limit, or a window of keys."""
    base = tl.program_id(1).to(tl.int64) * L * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    slope = tl.load(slope_ptr + tl.program_id(1))
    low = 0
    if KIND == "window":
        low = tl.maximum(tl.program_id(0) * BLOCK_M - window, 0) // BLOCK_N * BLOCK_N
    for start in range(low, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        s = tl.dot(q, k) * scale
        if KIND == "slopes":
            s = s + slope * (n[None, :] - m[:, None])
        if KIND == "softcap":
            s = 30.0 * (1 - 2 / (tl.exp2(s * (2 * 1.4426950408889634 / 30.0)) + 1))
        seen = m[:, None] >= n[None, :]
        if KIND == "window":
            seen = seen & (m[:, None] - n[None, :] <= window)
        s = tl.where(seen, s, -1e6)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        acc, total, top = online_softmax(s, v, acc, total, top)
    tl.store(out_ptr + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def ragged_kernel(out_ptr, q_ptr, k_ptr, v_ptr, starts_ptr, scale, HEADS, D: tl.constexpr, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr):
    """Causal attention of sequences of different lengths; rows are (tokens, heads, D)."""
    first = tl.load(starts_ptr + tl.program_id(2))
    length = tl.load(starts_ptr + tl.program_id(2) + 1) - first
    if tl.program_id(0) * BLOCK_M >= length:
        return
    base = first.to(tl.int64) * HEADS * D + tl.program_id(1) * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * (HEADS * D) + d[None, :], mask=m[:, None] < length, other=0.0)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, length), BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * (HEADS * D) + d[:, None], mask=n[None, :] < length, other=0.0)
        v = tl.load(v_ptr + base + n[:, None] * (HEADS * D) + d[None, :], mask=n[:, None] < length, other=0.0)
        seen = (m[:, None] >= n[None, :]) & (n[None, :] < length)
        acc, total, top = online_softmax(scores_of(q, k, scale, seen, True), v, acc, total, top)
    made = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + base + m[:, None] * (HEADS * D) + d[None, :], made, mask=m[:, None] < length)


@triton.jit
def delta_kernel(delta_ptr, out_ptr, do_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Row sums of out * dout, which the softmax's gradient subtracts."""
    m = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    at = m[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(delta_ptr + m, tl.sum(tl.load(out_ptr + at).to(tl.float32) * tl.load(do_ptr + at), 1))


@triton.jit
def keys_kernel(dq_ptr, dk_ptr, dv_ptr, q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, scale, L, D: tl.constexpr,
                CAUSAL: tl.constexpr, TOGETHER: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Gradients of one block of keys and values, and `TOGETHER` with what they add to those of the queries."""
    base, row = tl.program_id(1).to(tl.int64) * L * D, tl.program_id(1) * L
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + base + n[:, None] * D + d[None, :])
    v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    for start in range(tl.program_id(0) * BLOCK_N // BLOCK_M * BLOCK_M if CAUSAL else 0, L, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        q_t = tl.load(q_ptr + base + m[None, :] * D + d[:, None])
        p_t = tl.exp2(tl.dot(k, q_t) * scale - tl.load(lse_ptr + row + m)[None, :])
        if CAUSAL:
            p_t = tl.where(m[None, :] >= n[:, None], p_t, 0.0)
        do = tl.load(do_ptr + base + m[:, None] * D + d[None, :])
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        ds_t = (p_t * (tl.dot(v, tl.trans(do)) - tl.load(delta_ptr + row + m)[None, :])).to(do.dtype)
        dk = tl.dot(ds_t, tl.trans(q_t), dk)
        if TOGETHER:
            dq = tl.dot(tl.trans(ds_t), k)
            tl.atomic_add(dq_ptr + base + m[:, None] * D + d[None, :], dq, sem="relaxed")
    tl.store(dv_ptr + base + n[:, None] * D + d[None, :], dv.to(dv_ptr.dtype.element_ty))
    dk = dk * (scale * 0.6931471805599453)
    tl.store(dk_ptr + base + n[:, None] * D + d[None, :], dk.to(dk_ptr.dtype.element_ty))


@triton.jit
def queries_kernel(dq_ptr, q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, scale, L, D: tl.constexpr,
                   CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Gradients of one block of queries."""
    base, row = tl.program_id(1).to(tl.int64) * L * D, tl.program_id(1) * L
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :])
    do = tl.load(do_ptr + base + m[:, None] * D + d[None, :])
    lse, delta = tl.load(lse_ptr + row + m), tl.load(delta_ptr + row + m)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M if CAUSAL else L, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k_t = tl.load(k_ptr + base + n[None, :] * D + d[:, None])
        v_t = tl.load(v_ptr + base + n[None, :] * D + d[:, None])
        p = tl.exp2(tl.dot(q, k_t) * scale - lse[:, None])
        if CAUSAL:
            p = tl.where(m[:, None] >= n[None, :], p, 0.0)
        ds = p * (tl.dot(do, v_t) - delta[:, None])
        dq = tl.dot(ds.to(k_t.dtype), tl.trans(k_t), dq)
    dq = dq * (scale * 0.6931471805599453)
    tl.store(dq_ptr + base + m[:, None] * D + d[None, :], dq.to(dq_ptr.dtype.element_ty))
