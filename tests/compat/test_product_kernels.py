"""Products of matrices in the style of public libraries, against torch; of quantised ones too."""

import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import HOST_ONLY, close
from tritium.language.extra import libdevice
from tritium.tools.tensor_descriptor import TensorDescriptor

torch.manual_seed(3)


# --- products ---------------------------------------------------------------------------------------------------------
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                  GROUP_SIZE_M: tl.constexpr, ACTIVATION: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    tl.assume(pid_m >= 0)
    tl.assume(stride_am > 0)
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(tl.float16)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_of_the_tutorials(run, activation, transposed):
    m, n, k = 50, 70, 45
    a = torch.randn(m, k).half()
    b = torch.randn(n, k).half().T if transposed else torch.randn(k, n).half()
    c = torch.empty(m, n, dtype=torch.float16)
    grid = lambda META: (triton.cdiv(m, META["BLOCK_SIZE_M"]) * triton.cdiv(n, META["BLOCK_SIZE_N"]),)
    run(matmul_kernel, grid, a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=32, BLOCK_SIZE_N=32,
        BLOCK_SIZE_K=16, GROUP_SIZE_M=2, ACTIVATION=activation)
    want = a.float() @ b.float()
    close(c, torch.nn.functional.leaky_relu(want) if activation else want, 1e-2)


@triton.jit
def grouped_matmul(a_ptrs, b_ptrs, c_ptrs, sizes_ptr, lds_ptr, groups, NUM_SM: tl.constexpr, BLOCK: tl.constexpr):
    """Problems of different sizes, their pointers read from memory."""
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(groups):
        gm = tl.load(sizes_ptr + g * 3)
        gn = tl.load(sizes_ptr + g * 3 + 1)
        gk = tl.load(sizes_ptr + g * 3 + 2)
        num_n_tiles = tl.cdiv(gn, BLOCK)
        num_tiles = tl.cdiv(gm, BLOCK) * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            k = gk
            lda = tl.load(lds_ptr + g * 3)
            ldb = tl.load(lds_ptr + g * 3 + 1)
            ldc = tl.load(lds_ptr + g * 3 + 2)
            a_ptr = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float16))
            tile = tile_idx - last_problem_end
            offs_m = tile // num_n_tiles * BLOCK + tl.arange(0, BLOCK)
            offs_n = tile % num_n_tiles * BLOCK + tl.arange(0, BLOCK)
            offs_k = tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for kk in range(0, tl.cdiv(k, BLOCK)):
                km = kk * BLOCK + offs_k
                a = tl.load(a_ptr + offs_m[:, None] * lda + km[None, :], (offs_m[:, None] < gm) & (km[None, :] < k), 0.)
                b = tl.load(b_ptr + km[:, None] * ldb + offs_n[None, :], (km[:, None] < k) & (offs_n[None, :] < gn), 0.)
                acc += tl.dot(a, b)
            tl.store(c_ptr + ldc * offs_m[:, None] + offs_n[None, :], acc.to(tl.float16),
                     (offs_m[:, None] < gm) & (offs_n[None, :] < gn))
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@HOST_ONLY
def test_grouped_matmul_with_pointers_in_memory(run):
    shapes = [(20, 40, 24), (64, 16, 16), (33, 17, 50)]
    a = [torch.randn(m, k).half() for m, n, k in shapes]
    b = [torch.randn(k, n).half() for m, n, k in shapes]
    c = [torch.zeros(m, n).half() for m, n, k in shapes]
    addresses = [torch.tensor([t.data_ptr() for t in ts]) for ts in (a, b, c)]
    sizes = torch.tensor([x for s in shapes for x in s], dtype=torch.int32)
    lds = torch.tensor([x for m, n, k in shapes for x in (k, n, n)], dtype=torch.int32)
    run(grouped_matmul, (3,), *addresses, sizes, lds, 3, NUM_SM=3, BLOCK=16)
    for x, y, z in zip(a, b, c):
        close(z, x.float() @ y.float(), 1e-2)


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, lock_ptr, M, N, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """Slices of K meet in an atomic counter: the last one to come finishes the tile."""
    pid, part = tl.program_id(0), tl.program_id(1)
    nn = tl.cdiv(N, BLOCK)
    offs_m = (pid // nn) * BLOCK + tl.arange(0, BLOCK)
    offs_n = (pid % nn) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(part * BLOCK, K, SPLIT * BLOCK):
        offs_k = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], (offs_m < M)[:, None] & (offs_k < K)[None, :], 0.)
        b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :], (offs_k < K)[:, None] & (offs_n < N)[None, :], 0.)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    tl.atomic_add(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=mask, sem="release")
    done = tl.atomic_add(lock_ptr + pid, 1, sem="acq_rel")
    if done == SPLIT - 1:
        c = tl.load(c_ptr + offs_m[:, None] * N + offs_n[None, :], mask=mask)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], c * 2, mask=mask)


def test_split_k(run):
    a, b = torch.randn(30, 100), torch.randn(100, 20)
    c, locks = torch.zeros(30, 20), torch.zeros(4, dtype=torch.int32)
    run(split_k, (4, 3), a, b, c, locks, 30, 20, 100, SPLIT=3, BLOCK=16)
    close(c, 2 * (a @ b), 1e-4)
    assert locks.tolist() == [3] * 4


@triton.jit
def matmul_descriptor(a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    off_m, off_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=False):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    c = acc.to(c_desc.dtype)
    c_desc.store([off_m, off_n], c)


def test_matmul_with_host_descriptors(run):
    m, n, k = 40, 48, 64
    a, b = torch.randn(m, k).half(), torch.randn(n, k).half()
    c = torch.empty(m, n).half()
    descs = [TensorDescriptor.from_tensor(a, [32, 16]), TensorDescriptor(b, b.shape, b.stride(), [16, 16]),
             TensorDescriptor.from_tensor(c, [32, 16])]
    run(matmul_descriptor, (2, 3), *descs, k, BLOCK_M=32, BLOCK_N=16, BLOCK_K=16)
    close(c, a.float() @ b.float().T, 1e-2)


@triton.jit
def persistent_descriptor(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, NUM_SMS: tl.constexpr,
                          SUBTILE: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1],
                                       block_shape=[BLOCK, BLOCK // 2 if SUBTILE else BLOCK])
    num_n = tl.cdiv(N, BLOCK)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK) * num_n, NUM_SMS, flatten=True):
        m, n = tile // num_n * BLOCK, tile % num_n * BLOCK
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(0, K, BLOCK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([n, k]).T, acc)
        if SUBTILE:
            halves = tl.reshape(acc, (BLOCK, 2, BLOCK // 2))
            halves = tl.permute(halves, (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([m, n], left.to(c_desc.dtype))
            c_desc.store([m, n + BLOCK // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([m, n], acc.to(c_desc.dtype))


@pytest.mark.parametrize("subtile", [False, True])
def test_persistent_matmul_with_device_descriptors(run, subtile):
    a, b = torch.randn(48, 32).half(), torch.randn(64, 32).half()
    c = torch.empty(48, 64).half()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
    run(persistent_descriptor, (2,), a, b, c, 48, 64, 32, BLOCK=32, NUM_SMS=2, SUBTILE=subtile)
    close(c, a.float() @ b.float().T, 1e-2)


# --- quantisation -----------------------------------------------------------------------------------------------------
@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, N, MAX: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    absmax = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-10)
    scale = absmax / MAX
    q = x / scale
    if q_ptr.dtype.element_ty == tl.int8:
        q = libdevice.rint(q)
    q = tl.clamp(q, -MAX, MAX).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + row * N + cols, q, mask=cols < N)
    tl.store(scale_ptr + row, scale)


@pytest.mark.parametrize("dtype, limit", [(torch.int8, 127.0), (torch.float8_e4m3fn, 448.0),
                                          (torch.float8_e5m2, 57344.0)])
def test_quantise(run, dtype, limit):
    x = torch.randn(4, 100)
    q, scale = torch.empty(4, 100, dtype=dtype), torch.empty(4)
    run(quantize_rows, (4,), x, q, scale, 100, MAX=limit, BLOCK=128)
    close(scale, x.abs().amax(1) / limit)
    close(q.float() * scale[:, None], x, 0.3)


@triton.jit
def int4_matmul(a_ptr, q_ptr, scales_ptr, zeros_ptr, c_ptr, N, K: tl.constexpr, GROUP: tl.constexpr,
                BLOCK: tl.constexpr):
    """Weights of four bits, eight in a word, with a scale and a zero for each group of rows."""
    offs_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_m = tl.arange(0, 16)
    acc = tl.zeros((16, BLOCK), tl.float32)
    for k in range(0, K, GROUP):
        offs_k = k + tl.arange(0, GROUP)
        shifter = (offs_k % 8) * 4
        packed = tl.load(q_ptr + (offs_k[:, None] // 8) * N + offs_n[None, :])
        scale = tl.load(scales_ptr + k // GROUP * N + offs_n)
        zero = (tl.load(zeros_ptr + k // GROUP * (N // 8) + offs_n // 8) >> (offs_n % 8) * 4) & 0xF
        w = ((packed >> shifter[:, None]) & 0xF) - (zero + 1)[None, :]
        w = w * scale[None, :]
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
        acc = tl.dot(a, w.to(a.dtype), acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def test_int4_weights(run):
    k, n, group = 64, 32, 32
    w = torch.randint(0, 16, (k, n), dtype=torch.int32)
    zeros = torch.randint(0, 15, (k // group, n), dtype=torch.int32)
    pack = lambda t, axis: sum((t.unflatten(axis, (-1, 8)).select(axis + 1, i).long() << 4 * i) for i in range(8))
    qw = pack(w, 0).to(torch.int64).to(torch.uint32).view(torch.int32).contiguous()
    qz = pack(zeros, 1).to(torch.uint32).view(torch.int32).contiguous()
    scales = torch.rand(k // group, n).half()
    a, c = torch.randn(16, k).half(), torch.empty(16, n)
    run(int4_matmul, (1,), a, qw, scales, qz, c, n, K=k, GROUP=group, BLOCK=32)
    dequant = (w.unflatten(0, (-1, group)) - (zeros + 1)[:, None]) * scales.float()[:, None]
    close(c, a.float() @ dequant.flatten(0, 1), 5e-2)
