"""A program as users write them, for a type checker: it is read, never run."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice

WIDTH = tl.constexpr(32)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def softmax_kernel(out_ptr, x_ptr, stride: tl.int64, n_rows, n, BLOCK: tl.constexpr, NAME: tl.constexpr = "softmax"):
    start, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(start, n_rows, step, num_stages=2):
        columns = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
        shifted = x - tl.max(x, axis=0)
        value, position = tl.max(x, 0, return_indices=True)
        top = tl.exp(shifted.to(tl.float32))
        half: tl.constexpr = BLOCK // 2
        tl.static_assert(half > 1, "too small")
        if NAME == "softmax":
            top = top / tl.sum(top, axis=0)
        elif NAME is not None:
            top = libdevice.tanh(top) * libdevice.pow(value, 2.0) + position
        tl.store(out_ptr + row * stride + columns, top.to(out_ptr.dtype.element_ty), mask=columns < n)


@triton.autotune(
    configs=[triton.Config({"BM": 64, "BN": 64, "BK": 32, "GROUP": 8}, num_stages=3, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN_K: tl.constexpr,
                  ACTIVATION: tl.constexpr = ""):
    pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    num_pid_in_group = GROUP * num_pid_n
    first_pid_m = (pid // num_pid_in_group) * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_m, offs_n = (pid_m * BM + tl.arange(0, BM)) % M, (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION == "relu":
        acc = relu(acc)
    c = acc.to(tl.float16)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + stride_cm * offs_m[:, None] + stride_cn * offs_n[None, :], c, mask=mask)


@triton.jit
def combine(a, b):
    return tl.maximum(a, b)


@triton.jit(do_not_specialize=["seed"])
def many_things(x_ptr, out_ptr, seed, M, N, DTYPE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr):
    """Methods, block pointers, descriptors, scans, random numbers, atomics."""
    desc = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    tile = desc.load([0, 0]).to(DTYPE)
    block = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, 0), (BM, BN), order=(1, 0))
    tile += tl.load(block, boundary_check=(0, 1), padding_option="zero")
    block = tl.advance(block, (0, BN))
    best = tl.reduce(tile, 1, combine)
    prefix = tl.associative_scan(tile, 0, combine, reverse=True)
    noise = tl.randn(seed, tl.arange(0, BN)) + tl.rand(seed, tl.arange(0, BN))[None, :]
    u0, u1, _, _ = tl.rand4x(seed, tl.arange(0, BN))
    tile = tl.trans(tile).T.reshape(BM, BN).sum(axis=1, keep_dims=True) + prefix * noise + tl.cumsum(tile, 0)
    low, high = tl.split(tl.join(u0, u1))
    total = tile.sum().to(tl.int32) + best.max(0) + low.argmax(0) + tl.sort(high).max()
    if tile.dtype == tl.float32 and tile.shape[0] > 1 and tl.int8.primitive_bitwidth == 8:
        total = -total | ~total
    for step in tl.static_range(WIDTH):
        total += tl.full((), step, dtype=tl.int32)
    old = tl.atomic_add(out_ptr, total, sem="relaxed")
    tl.device_print("old", old)
    tl.store(out_ptr + 1, ACT(old))
    desc.store([0, 0], tile)


def launch(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Host code."""
    out, n = np.empty_like(x), x.size
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    compiled = add_kernel[grid](x, y, out, n, BLOCK=triton.next_power_of_2(1024), num_warps=8)
    softmax_kernel[(4, 1, 1)](out, x, 64, 4, n, 64)
    matmul_kernel[(16,)](x, y, out, 4, 4, 4, 1, 1, 1, 1, 1, 1)
    print(compiled.asm["tir"], add_kernel.fn.__name__, add_kernel.cache_key, matmul_kernel.best_config)
    add_kernel.warmup(x, y, out, n, BLOCK=64, grid=(1,))
    add_kernel.run(x, y, out, n, BLOCK=64, grid=(1,), warmup=False)
    milliseconds = triton.testing.do_bench(lambda: add_kernel[(1,)](x, y, out, n, 64), quantiles=[0.5])
    triton.testing.assert_close(x, y)
    print(milliseconds, triton.knobs.runtime.interpret, triton.knobs.cache.dir.upper())
    return out


@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["n"], x_vals=[2**k for k in range(4)], line_arg="provider", line_vals=["ours"], line_names=["Ours"],
    plot_name="add", args={}, ylabel="GB/s"))
def benchmark(n, provider):
    """A performance report."""
    return triton.testing.do_bench(lambda: n)
