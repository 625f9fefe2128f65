"""Races between programs, and between the lanes of one."""

import torch

import tritium as triton
import tritium.language as tl
from tests.insight.sanitize.bugs.collection import bug


@triton.jit
def split_k(a, b, c, K, SPLIT: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    r, k = tl.arange(0, N), tl.program_id(0) * BK + tl.arange(0, BK)
    acc = tl.dot(tl.load(a + r[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + r[None, :]))
    at = c + r[:, None] * N + r[None, :]
    tl.store(at, tl.load(at) + acc)  # BUG


@bug("race")
def split_k_without_atomics():
    split_k[(4,)](torch.randn(16, 128), torch.randn(128, 16), torch.zeros(16, 16), 128, SPLIT=4, N=16, BK=32)


@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i)))  # BUG


@bug("race")
def sum_without_atomics():
    total[(4,)](torch.randn(1024), torch.zeros(1), BLOCK=256)


@triton.jit
def overlapping(x, y, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) + tl.program_id(0))  # BUG


@bug("race")
def blocks_overlap():
    overlapping[(4,)](torch.randn(1024), torch.zeros(1024), STEP=192, BLOCK=256)


@triton.jit
def program_id_of_the_wrong_axis(y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, i + tl.program_id(1))  # BUG


@bug("race")
def second_axis_forgotten():
    program_id_of_the_wrong_axis[(2, 3)](torch.zeros(128, dtype=torch.int32), BLOCK=64)


@triton.jit
def shift_in_place(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i + 1 < n)  # BUG
    tl.store(x + i, v, mask=i + 1 < n)  # BUG


@bug("race")
def neighbours_in_place():
    shift_in_place[(4,)](torch.randn(1024), 1024, BLOCK=256)


@bug("race")
def output_is_the_input_moved():
    x = torch.randn(1280)
    moved[(4,)](x[:1024], x[128:1152], BLOCK=256)


@triton.jit
def moved(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)  # BUG
    tl.store(y + i, v)  # BUG


@triton.jit
def count_plainly(x, bins, BLOCK: tl.constexpr):
    bin = tl.load(x + tl.program_id(0))
    n = tl.load(bins + bin)  # BUG
    tl.store(bins + bin, n + 1)  # BUG


@bug("race")
def histogram_without_atomics():
    count_plainly[(64,)](torch.arange(64, dtype=torch.int32) % 8, torch.zeros(8, dtype=torch.int32), BLOCK=1)


@triton.jit
def store_beside_atomics(out, x, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(out + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))  # BUG
    tl.atomic_add(out + tl.arange(0, BLOCK), tl.load(x + pid * BLOCK + tl.arange(0, BLOCK)))  # BUG


@bug("race")
def first_program_clears():
    store_beside_atomics[(4,)](torch.ones(64), torch.ones(256), BLOCK=64)


@triton.jit
def reads_a_neighbours_sum(x, sums, out, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(sums + pid, tl.sum(tl.load(x + pid * BLOCK + tl.arange(0, BLOCK))))  # BUG
    tl.debug_barrier()
    before = tl.load(sums + tl.arange(0, 8))  # BUG
    tl.store(out + pid, tl.sum(before))


@bug("race")
def no_wait_for_the_other_programs():
    reads_a_neighbours_sum[(8,)](torch.randn(512), torch.zeros(8), torch.zeros(8), BLOCK=64)


@triton.jit
def persistent(x, y, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), n // BLOCK, PROGRAMS - 1):
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i) * tl.program_id(0))  # BUG


@bug("race")
def wrong_step_of_a_persistent_loop():
    persistent[(4,)](torch.randn(1024), torch.zeros(1024), 1024, PROGRAMS=4, BLOCK=64)


# --- within one program -----------------------------------------------------------------------------------------------
@triton.jit
def turn_round(x, tmp, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(tmp + i, tl.load(x + i))
    v = tl.load(tmp + BLOCK - 1 - i)  # BUG
    tl.store(y + i, v)


@bug("race in program")
def exchange_without_a_barrier():
    turn_round[(1,)](torch.randn(128), torch.zeros(128), torch.zeros(128), BLOCK=128)


@triton.jit
def scatter_twice(x, index, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + tl.load(index + i), tl.load(x + i))  # BUG


@bug("double store")
def two_lanes_one_element():
    scatter_twice[(1,)](torch.randn(64), torch.arange(64) // 2, torch.zeros(64), BLOCK=64)


@triton.jit
def store_rows(y, stride, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(y + r * stride + c, r * N + c)  # BUG


@bug("double store")
def row_stride_of_one():
    store_rows[(1,)](torch.zeros(16, 32, dtype=torch.int32), 2, M=16, N=32)


@bug("double store")
def row_stride_of_nothing():
    store_rows[(1,)](torch.zeros(16, 32, dtype=torch.int32), 0, M=16, N=32)
