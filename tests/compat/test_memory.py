"""Loads, stores, masks, block pointers, descriptors and atomics in the forms public kernels use."""

import numpy as np
import pytest
import torch

import tritium as triton
import tritium.language as tl
from tests.compat.conftest import HOST_ONLY
from tritium.tools.tensor_descriptor import TensorDescriptor

DTYPES = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.float8_e5m2,
          torch.float8_e4m3fn]  # fmt: skip


def bits(x):
    return x.view(torch.uint8).tolist() if x.dtype != torch.bool else x.tolist()


def numbers(dtype, n):
    if dtype == torch.bool:
        return torch.arange(n) % 3 == 0
    return (torch.arange(n) % 100 - (0 if str(dtype).startswith("torch.u") else 50)).to(dtype)


@triton.jit
def copy_masked(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=1), mask=i < n + 3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masked_copies_of_every_dtype(run, dtype):
    x, out = numbers(dtype, 32), numbers(dtype, 32)
    want = out.clone()
    want[:20], want[20:23] = x[:20], torch.ones(3).to(dtype)
    run(copy_masked, (1,), x, out, 20, N=32)
    assert bits(out) == bits(want)


@triton.jit
def scalar_accesses(x, out, n, flag):
    v = tl.load(x + n)
    w = tl.load(x + 999, mask=flag, other=7.0)
    u = tl.load(x, mask=True)
    tl.store(out, v + w)
    tl.store(out + 1, u, mask=not flag)
    tl.store(out + 2, 5.0, flag)
    tl.store(out + 3, tl.load(x + 2, n > 2, 0))


def test_scalars(run):
    x, out = torch.arange(8.0), torch.zeros(4)
    run(scalar_accesses, (1,), x, out, 3, False)
    assert out.tolist() == [10, 0, 0, 2]


@triton.jit
def gather_rows(x, rows, out, stride, N: tl.constexpr, D: tl.constexpr):
    r = tl.load(rows + tl.arange(0, N))
    ok = r >= 0
    c = tl.arange(0, D)
    v = tl.load(x + r[:, None] * stride + c[None, :], mask=ok[:, None], other=-1.0)
    tl.store(out + tl.arange(0, N)[:, None] * D + c[None, :], v, eviction_policy="evict_first")


def test_rows_by_index(run):
    x, rows = torch.randn(10, 16), torch.tensor([3, -1, 9, 0], dtype=torch.int64)
    out = torch.zeros(4, 16)
    run(gather_rows, (1,), x, rows, out, x.stride(0), N=4, D=16)
    want = x[rows.clamp(min=0)]
    want[1] = -1
    assert torch.equal(out, want)


@triton.jit
def strided(x, out, sx0, sx1, so0, so1, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * sx0 + j[None, :] * sx1)
    tl.store(out + i[:, None] * so0 + j[None, :] * so1, v)


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.T.contiguous().T, lambda t: t.repeat(2, 2)[::2, ::2],
                                  lambda t: t[:1].expand(8, 16)])
def test_strides(run, make):
    x, out = make(torch.randn(8, 16)), torch.zeros(16, 8).T
    run(strided, (1,), x, out, *x.stride(), *out.stride(), M=8, N=16)
    assert torch.equal(out, x)


@triton.jit
def widened_mask(x, out, m, N: tl.constexpr):
    """A mask with more axes than the pointers makes the load as large as it is."""
    i = tl.arange(0, N)
    mask = (i[:, None] < m) & (i[None, :] < N)
    v = tl.load(x + i[None, :], mask=mask, other=0.0)
    tl.store(out + i[:, None] * N + i[None, :], v)


def test_masks_enlarge_loads(run):
    x, out = torch.randn(8), torch.zeros(8, 8)
    run(widened_mask, (1,), x, out, 3, N=8)
    assert torch.equal(out[:3], x.expand(3, 8)) and not out[3:].any()


@triton.jit
def addresses(table, out, N: tl.constexpr):
    """Pointers that are read from memory, compared with null, and cast."""
    for k in range(3):
        address = tl.load(table + k)
        p = address.to(tl.pointer_type(tl.float32))
        if address != 0:
            tl.store(out + k, tl.sum(tl.load(p + tl.arange(0, N)), 0))
        else:
            tl.store(out + k, -1.0)
    q = tl.load(table).to(tl.pointer_type(tl.uint8), bitcast=True)
    tl.store(out + 3, tl.load(q + 3))


@HOST_ONLY
def test_pointers_in_memory(run):
    a, b = torch.randn(8), torch.randn(8)
    table, out = torch.tensor([a.data_ptr(), 0, b.data_ptr()]), torch.zeros(4)
    run(addresses, (1,), table, out, N=8)
    torch.testing.assert_close(out, torch.stack([a.sum(), torch.tensor(-1.0), b.sum(),
                                                 a.view(torch.uint8)[3].float()]))


# --- block pointers ---------------------------------------------------------------------------------------------------
@triton.jit
def padded_blocks(x, out, M, N, stride, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    src = tl.make_block_ptr(x, shape=(M, N), strides=(stride, 1), offsets=(tl.program_id(0) * BM, 0),
                            block_shape=(BM, BN), order=(1, 0))
    dst = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0)).advance((tl.program_id(0) * BM, 0))
    for _ in range(0, N, BN):
        v = tl.load(src, boundary_check=(0, 1), padding_option=PAD)
        tl.store(dst, (v + 1).to(dst.type.element_ty.element_ty if False else v.dtype), boundary_check=(0, 1))
        src = tl.advance(src, [0, BN])
        dst = dst.advance([0, BN])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_block_pointers_over_edges(run, dtype):
    x = torch.randint(-9, 9, (13, 21)).to(dtype)
    out = torch.zeros(13, 21, dtype=dtype)
    run(padded_blocks, (4,), x, out, 13, 21, x.stride(0), PAD="zero", BM=4, BN=8)
    assert torch.equal(out, x + 1)


@triton.jit
def nan_padding(x, out, n, N: tl.constexpr, CHECK: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (-2,), (N,), (0,))
    v = tl.load(p, boundary_check=(0,), padding_option="nan" if CHECK else "zero")
    tl.store(out + tl.arange(0, N), v)


@pytest.mark.parametrize("nan", [True, False])
def test_padding(run, nan):
    x, out = torch.arange(1.0, 5.0), torch.zeros(8)
    run(nan_padding, (1,), x, out, 4, N=8, CHECK=nan)
    pad = float("nan") if nan else 0.0
    torch.testing.assert_close(out, torch.tensor([pad, pad, 1, 2, 3, 4, pad, pad]), equal_nan=True)


@triton.jit
def block_pointer_of_three_axes(x, out, A, B, C, BA: tl.constexpr, BB: tl.constexpr, BC: tl.constexpr):
    p = tl.make_block_ptr(x, (A, B, C), (B * C, C, 1), (0, 1, 2), (BA, BB, BC), (2, 1, 0))
    v = tl.load(p, boundary_check=(0, 1, 2))
    o = tl.make_block_ptr(out, (BA, BB, BC), (BB * BC, BC, 1), (0, 0, 0), (BA, BB, BC), (2, 1, 0))
    tl.store(o, v)


def test_block_pointer_of_three_axes(run):
    x, out = torch.randn(3, 4, 6), torch.zeros(4, 4, 8)
    run(block_pointer_of_three_axes, (1,), x, out, 3, 4, 6, BA=4, BB=4, BC=8)
    want = torch.zeros(4, 4, 8)
    want[:3, :3, :4] = x[:, 1:, 2:]
    assert torch.equal(out, want)


# --- descriptors ------------------------------------------------------------------------------------------------------
@triton.jit
def copy_by_descriptor(src, dst, M: tl.constexpr, N: tl.constexpr):
    tl.static_assert(isinstance(src, tl.tensor_descriptor))
    tl.static_assert(src.block_shape[0] == M)
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    dst.store(at, src.load(at) * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8])
def test_host_descriptors(run, dtype):
    x = torch.randint(-9, 9, (12, 32)).to(dtype)
    out = torch.full((12, 32), 7).to(dtype)
    run(copy_by_descriptor, (2, 1), TensorDescriptor.from_tensor(x, [8, 32]),
        TensorDescriptor.from_tensor(out, [8, 32]),
        M=8, N=32)
    assert torch.equal(out, x * 2)


@triton.jit
def sizes_of(desc, out):
    tl.store(out, desc.shape[0])
    tl.store(out + 1, desc.shape[1])
    tl.store(out + 2, desc.strides[0])
    tl.store(out + 3, desc.strides[1])
    tl.store(out + 4, desc.block_shape[1])
    v = tl.load_tensor_descriptor(desc, [0, 0])
    tl.store(out + 5, v.shape[0])
    tl.store(out + 6, desc.dtype.primitive_bitwidth)


def test_what_a_descriptor_knows(run):
    x, out = torch.randn(12, 32), torch.zeros(7, dtype=torch.int64)
    run(sizes_of, (1,), TensorDescriptor(x, [10, 32], [32, 1], [4, 16]), out)
    assert out.tolist() == [10, 32, 32, 1, 16, 4, 32]


@triton.jit
def device_descriptor(x, out, M, N, stride, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, shape=[M, N], strides=[stride, 1], block_shape=[BM, BN], padding_option=PAD)
    v = desc.load([2, 3])
    tl.store(out + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], v)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_device_descriptors(run, padding):
    x, out = torch.randn(5, 8), torch.zeros(4, 8)
    run(device_descriptor, (1,), x, out, 5, 8, 8, PAD=padding, BM=4, BN=8)
    want = torch.full((4, 8), float("nan") if padding == "nan" else 0.0)
    want[:3, :5] = x[2:, 3:]
    torch.testing.assert_close(out, want, equal_nan=True)


@triton.jit
def rows_by_descriptor(x, out, rows, M, BR: tl.constexpr, C: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [M, C * 2], [C * 2, 1], [1, C])
    into = tl.make_tensor_descriptor(out, [M, C * 2], [C * 2, 1], [1, C])
    r = tl.load(rows + tl.arange(0, BR))
    v = desc.gather(r, C)
    into.scatter(v + 1, r, 0)


def test_gather_and_scatter_by_descriptor(run):
    x, out = torch.randn(16, 32), torch.zeros(16, 32)
    rows = torch.randperm(16)[:8].int()
    run(rows_by_descriptor, (1,), x, out, rows, 16, BR=8, C=16)
    want = torch.zeros(16, 32)
    want[rows.long(), :16] = x[rows.long(), 16:] + 1
    assert torch.equal(out, want)


@triton.jit
def atomics_by_descriptor(desc, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    v = tl.full([M, N], 5, desc.dtype)
    if OP == "add":
        desc.atomic_add([tl.program_id(0) * 2, 0], v)
    elif OP == "max":
        desc.atomic_max([0, 0], v)
    elif OP == "min":
        desc.atomic_min([0, 0], v)
    elif OP == "and":
        desc.atomic_and([0, 0], v)
    elif OP == "or":
        desc.atomic_or([0, 0], v)
    else:
        desc.atomic_xor([0, 0], v)


@pytest.mark.parametrize("op", ["add", "max", "min", "and", "or", "xor"])
def test_atomics_by_descriptor(run, op):
    x = torch.randint(0, 20, (4, 8), dtype=torch.int32)
    want = x.clone()
    if op == "add":
        want += 5
        want[2:] += 5
    else:
        f = {"max": torch.maximum, "min": torch.minimum, "and": torch.bitwise_and, "or": torch.bitwise_or,
             "xor": torch.bitwise_xor}[op]
        want = f(want, torch.tensor(5, dtype=torch.int32))
    run(atomics_by_descriptor, (2 if op == "add" else 1,), TensorDescriptor.from_tensor(x, [4, 8]), OP=op, M=4, N=8)
    assert torch.equal(x, want)


def test_descriptors_are_checked():
    x = torch.zeros(16, 16)
    for bad in (lambda: TensorDescriptor.from_tensor(x, [3, 16]), lambda: TensorDescriptor.from_tensor(x.T, [16, 16]),
                lambda: TensorDescriptor(x, [16], [16, 1], [16, 16]),
                lambda: TensorDescriptor.from_tensor(x[:, 1:], [1, 8]),
                lambda: TensorDescriptor.from_tensor(x.int(), [4, 4], padding="nan")):
        with pytest.raises(AssertionError):
            bad()


# --- atomics ----------------------------------------------------------------------------------------------------------
@triton.jit
def count_lanes(out, x, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    tl.atomic_add(out + v, 1, mask=v >= 0, sem="relaxed")


def test_many_programs_count(run):
    x = torch.randint(-1, 10, (50, 64), dtype=torch.int32)
    out = torch.zeros(10, dtype=torch.int32)
    run(count_lanes, (50,), out, x, N=64)
    assert torch.equal(out.long(), torch.bincount(x[x >= 0].ravel(), minlength=10))


@triton.jit
def tickets(counter, out):
    t = tl.atomic_add(counter, 1)
    tl.store(out + t, tl.program_id(0))


def test_every_program_draws_one_ticket(run):
    counter, out = torch.zeros(1, dtype=torch.int32), torch.full((64,), -1, dtype=torch.int32)
    run(tickets, (64,), counter, out)
    assert counter.item() == 64 and sorted(out.tolist()) == list(range(64))


@triton.jit
def extremes(x, big, small, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    tl.atomic_max(big, tl.max(v, 0))
    tl.atomic_min(small, tl.min(v, 0), scope="cta")
    tl.atomic_max(big + 1 + tl.arange(0, N), v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint32])
def test_extremes(run, dtype):
    x = torch.randn(20, 16) * 1000
    x = (x.abs() if dtype == torch.uint32 else x).to(dtype)
    low = 0 if dtype == torch.uint32 else -10**9
    big = torch.full((17,), low).to(dtype)
    small = torch.full((1,), 10**9).to(dtype)
    run(extremes, (20,), x, big, small, N=16)
    values = x.to(torch.float64)
    assert big[0].item() == values.max() and small.item() == values.min()
    assert torch.equal(big[1:].to(torch.float64), values.amax(0))


@triton.jit
def take_turns(lock, shared, rounds):
    for _ in range(rounds):
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(shared, tl.load(shared) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)


def test_spin_locks(run):
    lock, shared = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    run(take_turns, (16,), lock, shared, 10)
    assert shared.item() == 160 and lock.item() == 0


@triton.jit
def chained(flags, out):
    """Program p waits for p - 1: every started program must make progress."""
    pid = tl.program_id(0)
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0, sem="acquire") == 0:
            pass
    tl.store(out + pid, tl.load(out + pid - 1, mask=pid > 0, other=0) + pid)
    tl.debug_barrier()
    tl.atomic_xchg(flags + pid, 1, sem="release")


def test_programs_wait_for_earlier_ones(run):
    flags, out = torch.zeros(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
    run(chained, (40,), flags, out)
    assert out.tolist() == np.cumsum(np.arange(40)).tolist()


@triton.jit
def swap_blocks(p, out, expected, N: tl.constexpr):
    i = tl.arange(0, N)
    old = tl.atomic_cas(p + i, tl.load(expected + i), i.to(p.dtype.element_ty))
    tl.store(out + i, old)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint64, torch.int16])
def test_compare_and_swap_of_blocks(run, dtype):
    p, expected = torch.tensor([5, 6, 7, 8]).to(dtype), torch.tensor([5, 0, 7, 0]).to(dtype)
    before, out = p.clone(), torch.zeros(4).to(dtype)
    run(swap_blocks, (1,), p, out, expected, N=4)
    assert p.tolist() == [0, 6, 2, 8] and out.tolist() == before.tolist()
