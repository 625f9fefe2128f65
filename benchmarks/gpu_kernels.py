"""The kernels `gpu.py` times and `gpu_small.py` checks.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton run the same source.
"""
# ruff: noqa: F821


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def add_relu_mul_kernel(x_ptr, y_ptr, z_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    z = tl.load(z_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x + y, 0.0) * z, mask=mask)


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x), mask=mask)


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))


@triton.jit
def softmax_kernel(out_ptr, x_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def rms_norm_kernel(out_ptr, x_ptr, w_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(out_ptr + row * stride + columns, x * scale * w, mask=mask)


@triton.jit
def transpose_kernel(out_ptr, x_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=mask)
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=tl.trans(mask))


@triton.jit
def max_pool_kernel(out_ptr, x_ptr, H, W, OH, OW, BLOCK: tl.constexpr):
    channel = tl.program_id(2)
    row = tl.program_id(1)
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            y = row * 2 + dy
            x = col * 2 + dx
            inside = (x < W) & (y < H) & (col < OW)
            value = tl.load(x_ptr + channel * H * W + y * W + x, mask=inside, other=-float("inf"))
            best = tl.maximum(best, value)
    tl.store(out_ptr + channel * OH * OW + row * OW + col, best, mask=col < OW)


@triton.jit
def conv2d_kernel(out_ptr, x_ptr, w_ptr, H, W, BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr):
    y = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)
    x = tl.program_id(0) * BLOCK_X + tl.arange(0, BLOCK_X)
    total = tl.zeros((BLOCK_Y, BLOCK_X), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            yy = y[:, None] + (dy - 1)
            xx = x[None, :] + (dx - 1)
            inside = (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W)
            total += tl.load(x_ptr + yy * W + xx, mask=inside, other=0.0) * tl.load(w_ptr + dy * 3 + dx)
    tl.store(out_ptr + y[:, None] * W + x[None, :], total, mask=(y[:, None] < H) & (x[None, :] < W))


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    i = first_m + pid % per_group % rows
    j = pid % per_group // rows
    m = (i * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (j * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)
    c = total.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, c, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, scale, L, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     D: tl.constexpr):
    start = tl.program_id(1).to(tl.int64) * L * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + start + m[:, None] * D + d[None, :])
    k_ptrs = k_ptr + start + n[None, :] * D + d[:, None]
    v_ptrs = v_ptr + start + n[:, None] * D + d[None, :]
    best = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for _ in range(0, L, BLOCK_N):
        k = tl.load(k_ptrs)
        s = tl.dot(q, k) * scale
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        shrink = tl.math.exp2(best - new)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptrs)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        best = new
        k_ptrs += BLOCK_N * D
        v_ptrs += BLOCK_N * D
    tl.store(out_ptr + start + m[:, None] * D + d[None, :], (acc / total[:, None]).to(out_ptr.dtype.element_ty))
