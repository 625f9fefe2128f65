"""Four slow kernels and what they become: docs/tutorial-slow-kernel.md takes them apart.

    python examples/slow_kernels.py        # check them on the CPU
"""

import numpy as np

import tritium as triton
import tritium.language as tl


@triton.jit
def transpose_by_columns(out_ptr, x_ptr, M, N, BLOCK: tl.constexpr):
    """One program moves a piece of a column: neighbouring lanes load from different rows."""
    column = tl.program_id(0)
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows * N + column, mask=rows < M)
    tl.store(out_ptr + column * M + rows, x, mask=rows < M)


@triton.jit
def transpose_by_tiles(out_ptr, x_ptr, M, N, TILE: tl.constexpr):
    """One program moves a tile: it loads along rows and stores along rows of the result."""
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=(n[:, None] < N) & (m[None, :] < M))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """One tile of a product."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * stride_a + (start + k)[None, :], mask=(start + k)[None, :] < K, other=0.0)
        b = tl.load(b_ptr + (start + k)[:, None] * stride_b + n[None, :], mask=(start + k)[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def softmax_in_passes(out_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    """One program reads its row three times: for the maximum, for the sum, for the result."""
    row = tl.program_id(0)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf")))
    top = tl.max(best, 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf")) - top)
    whole = tl.sum(total, 0)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf"))
        tl.store(out_ptr + row * columns + i, tl.exp(x - top) / whole, mask=i < columns)


@triton.jit
def softmax_at_once(out_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    """One program holds its row in registers."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.jit
def gradients(dk_ptr, dv_ptr, q_ptr, k_ptr, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Two sums over products with the same rows: each program holds both, and what it multiplies."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    k = tl.load(k_ptr + rows[:, None] * WIDTH + columns[None, :])
    dk = tl.zeros((BLOCK, WIDTH), tl.float32)
    dv = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        q = tl.load(q_ptr + at[:, None] * WIDTH + columns[None, :])
        scores = tl.dot(k, tl.trans(q))
        weights = tl.exp(scores - tl.max(scores, 1)[:, None])
        dv = tl.dot(weights.to(q.dtype), q, dv)
        dk = tl.dot((weights * scores).to(q.dtype), q, dk)
    tl.store(dk_ptr + rows[:, None] * WIDTH + columns[None, :], dk)
    tl.store(dv_ptr + rows[:, None] * WIDTH + columns[None, :], dv)


def main():
    """Check each kernel against NumPy."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 70)).astype(np.float32)
    for kernel, grid, meta in ((transpose_by_columns, (70, 1), {"BLOCK": 128}),
                               (transpose_by_tiles, (4, 3), {"TILE": 32})):  # fmt: skip
        out = np.zeros((70, 100), np.float32)
        kernel[grid](out, x, 100, 70, **meta)
        assert (out == x.T).all()
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    product[(2, 2)](a, b, c, 64, 64, 64, 64, 64, 64, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)
    want = np.exp(x - x.max(1, keepdims=True))
    for kernel, block in ((softmax_in_passes, 32), (softmax_at_once, 128)):
        out = np.zeros_like(x)
        kernel[(100,)](out, x, 70, BLOCK=block)
        np.testing.assert_allclose(out, want / want.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    q, k = (rng.standard_normal((64, 32)).astype(np.float16) for _ in range(2))
    dk, dv = np.zeros((64, 32), np.float32), np.zeros((64, 32), np.float32)
    gradients[(2,)](dk, dv, q, k, 64, WIDTH=32, BLOCK=32)
    scores = (k.astype(np.float32) @ q.astype(np.float32).T).reshape(64, 2, 32)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    rows = q.astype(np.float32)
    np.testing.assert_allclose(dv, weights.reshape(64, 64) @ rows, rtol=1e-2, atol=2e-2)
    np.testing.assert_allclose(dk, (weights * scores).reshape(64, 64) @ rows, rtol=1e-2, atol=1e-1)
    print("all kernels give what NumPy gives")


if __name__ == "__main__":
    main()
