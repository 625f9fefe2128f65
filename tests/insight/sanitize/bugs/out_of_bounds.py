"""Accesses outside of the elements of an argument."""

import torch

import tritium as triton
import tritium.language as tl
from tests.insight.sanitize.bugs.collection import bug


@triton.jit
def load_unmasked(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)  # BUG
    tl.store(y + i, v, mask=i < n)


@triton.jit
def store_unmasked(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v)  # BUG


for _dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool):
    bug("out of bounds", f"load_unmasked_{_dtype}")(lambda dtype=_dtype: load_unmasked[(4,)](
        torch.ones(1000).to(dtype), torch.zeros(1000).to(dtype), 1000, BLOCK=256))
    bug("out of bounds", f"store_unmasked_{_dtype}")(lambda dtype=_dtype: store_unmasked[(4,)](
        torch.ones(1000).to(dtype), torch.zeros(1000).to(dtype), 1000, BLOCK=256))


@bug("out of bounds")
def grid_too_large():
    load_unmasked[(5,)](torch.ones(1024), torch.zeros(1024), 1024, BLOCK=256)


@triton.jit
def wrong_mask(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i <= n)  # BUG
    tl.store(y + i, v, mask=i < n)


@bug("out of bounds")
def mask_off_by_one():
    wrong_mask[(4,)](torch.ones(1000), torch.zeros(1000), 1000, BLOCK=256)


@triton.jit
def before_start(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i - 1)  # BUG
    tl.store(y + i, v)


@bug("out of bounds")
def reads_before_the_start():
    before_start[(1,)](torch.ones(64), torch.zeros(64), BLOCK=64)


@bug("out of bounds")
def reads_before_a_view():
    before_start[(1,)](torch.ones(65)[1:], torch.zeros(64), BLOCK=64)


@triton.jit
def rows(x, y, stride, N: tl.constexpr, M: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    v = tl.load(x + r * stride + c)  # BUG
    tl.store(y + r * N + c, v)


@bug("out of bounds")
def stride_too_large():
    rows[(1,)](torch.ones(16, 32), torch.zeros(16, 32), 33, N=32, M=16)


@bug("out of bounds")
def stride_of_another_tensor():
    rows[(1,)](torch.ones(16, 32), torch.zeros(16, 32), 64, N=32, M=16)


@bug("out of bounds")
def stride_of_a_padded_view_forgotten():
    rows[(1,)](torch.ones(16, 48)[:, :32], torch.zeros(16, 32), 32, N=32, M=16)


@bug("out of bounds")
def shape_of_the_transpose():
    rows[(1,)](torch.ones(32, 16)[:16], torch.zeros(16, 32), 32, N=32, M=16)


@triton.jit
def one_element(x, y, at):
    v = tl.load(x + at)  # BUG
    tl.store(y, v)


@bug("out of bounds")
def scalar_load_past_the_end():
    one_element[(1,)](torch.ones(8), torch.zeros(1), 8)


@bug("out of bounds")
def scalar_load_far_away():
    one_element[(1,)](torch.ones(8), torch.zeros(1), 1 << 30)


@bug("out of bounds")
def empty_tensor():
    one_element[(1,)](torch.ones(4)[:0], torch.zeros(1), 0)


@triton.jit
def one_store(y, at):
    tl.store(y + at, 1.0)  # BUG


@bug("out of bounds")
def scalar_store_past_the_end():
    one_store[(1,)](torch.zeros(8), 9)


@bug("out of bounds")
def scalar_store_before_the_start():
    one_store[(1,)](torch.zeros(8), -3)


@triton.jit
def gather(x, index, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.load(index + i))  # BUG
    tl.store(y + i, v)


@bug("out of bounds")
def index_out_of_range():
    gather[(1,)](torch.ones(50), torch.arange(64), torch.zeros(64), BLOCK=64)


@bug("out of bounds")
def negative_index():
    gather[(1,)](torch.ones(64), torch.arange(64) - 1, torch.zeros(64), BLOCK=64)


@triton.jit
def scatter(x, index, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + tl.load(index + i), tl.load(x + i))  # BUG


@bug("out of bounds")
def scatter_out_of_range():
    scatter[(1,)](torch.ones(64), torch.arange(64) * 2, torch.zeros(64), BLOCK=64)


@triton.jit
def add_to_bins(x, bins, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i), 1)  # BUG


@bug("out of bounds")
def histogram_bin_missing():
    add_to_bins[(1,)](torch.arange(64, dtype=torch.int32), torch.zeros(60, dtype=torch.int32), BLOCK=64)


@triton.jit
def take_ticket(counter, at):
    tl.atomic_add(counter + at, 1)  # BUG


@bug("out of bounds")
def counter_past_the_end():
    take_ticket[(2,)](torch.zeros(2, dtype=torch.int32), 2)


@triton.jit
def lock_once(lock, at):
    tl.atomic_cas(lock + at, 0, 1)  # BUG


@bug("out of bounds")
def lock_past_the_end():
    lock_once[(2,)](torch.zeros(2, dtype=torch.int32), 5)


@triton.jit
def sum_loop(x, y, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x + start + tl.arange(0, BLOCK))  # BUG
    tl.store(y, tl.sum(total))


@bug("out of bounds")
def last_round_of_a_loop():
    sum_loop[(1,)](torch.ones(1000), torch.zeros(1), 1000, BLOCK=128)


@triton.jit
def advancing(x, y, n, BLOCK: tl.constexpr):
    p = x + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        total += tl.load(p)  # BUG
        p += BLOCK
    tl.store(y, tl.sum(total))


@bug("out of bounds")
def pointer_advanced_too_far():
    advancing[(1,)](torch.ones(512), torch.zeros(1), 5, BLOCK=128)


@triton.jit
def branch(x, y, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if flag > 0:
        v = tl.load(x + i + 8)  # BUG
        tl.store(y + i, v)


@bug("out of bounds")
def in_one_branch():
    branch[(1,)](torch.ones(64), torch.zeros(64), 2, BLOCK=64)


@triton.jit
def through_a_block_pointer(x, y, n, BLOCK: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    v = tl.load(p)  # BUG
    tl.store(y + tl.arange(0, BLOCK), v)


@bug("out of bounds")
def block_pointer_without_boundary_check():
    through_a_block_pointer[(1,)](torch.ones(50), torch.zeros(64), 50, BLOCK=64)


@triton.jit
def describes_too_much(x, y, n, BLOCK: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [n, BLOCK], [BLOCK, 1], [4, BLOCK])
    v = d.load([4, 0])  # BUG
    tl.store(y + tl.arange(0, 4)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], v)


@bug("out of bounds")
def descriptor_larger_than_its_tensor():
    describes_too_much[(1,)](torch.ones(6, 16), torch.zeros(4, 16), 8, BLOCK=16)


@triton.jit
def device_function(x, i):
    return tl.load(x + i)  # BUG


@triton.jit
def calls(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, device_function(x, i * 2))


@bug("out of bounds")
def in_a_device_function():
    calls[(1,)](torch.ones(64), torch.zeros(64), BLOCK=64)


@triton.jit
def two_tensors(x, y, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    w = tl.load(y + i)  # BUG
    tl.store(z + i, v + w)


@bug("out of bounds")
def one_of_two_is_shorter():
    x = torch.ones(128)
    two_tensors[(1,)](x[:64], x[100:], torch.zeros(64), BLOCK=64)


@triton.jit
def null(x, y):
    p = tl.cast(x, tl.pointer_type(tl.float32))
    v = tl.load(p + 4)  # BUG
    tl.store(y, v)


@bug("out of bounds")
def null_pointer():
    null[(1,)](0, torch.zeros(1))
