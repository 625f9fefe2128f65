"""The kernels `gpu_loops.py` times: a row in a loop, with a reduction in each iteration.

`gpu_load.py` puts `triton` and `tl` here, so tritium and Triton run the same source.
"""
# ruff: noqa: F821


@triton.jit
def cross_entropy_kernel(loss_ptr, x_ptr, label_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * N
    top, total = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new))
        top = new
    label = tl.load(label_ptr + row)
    tl.store(loss_ptr + row, top + tl.log(total) - tl.load(x_ptr + label).to(tl.float32))


@triton.jit
def rms_norm_kernel(out_ptr, x_ptr, w_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * N
    out_ptr += row * N
    squares = 0.0
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        squares += tl.sum(x * x)
    scale = tl.rsqrt(squares / N + eps)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + c, (x * scale * w).to(out_ptr.dtype.element_ty), mask=c < N)


@triton.jit
def range_kernel(range_ptr, x_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    least, most = float("inf"), -float("inf")
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
        least = tl.minimum(least, tl.min(x))
        most = tl.maximum(most, tl.max(x))
    tl.store(range_ptr + row, most - least)


@triton.jit
def matvec_kernel(y_ptr, a_ptr, x_ptr, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, N, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        a = tl.load(a_ptr + m[:, None] * N + c[None, :], mask=c[None, :] < N, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        total += tl.sum(a * x[None, :], axis=1)
    tl.store(y_ptr + m, total)


@triton.jit
def columns_kernel(out_ptr, x_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, M, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=m[:, None] < M, other=0.0).to(tl.float32)
        total += tl.sum(x, axis=0)
    tl.store(out_ptr + n, total)
