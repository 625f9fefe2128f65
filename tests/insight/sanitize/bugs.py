"""Kernels with one mistake each. The line at fault ends in `# BUG`; `bug(kind)` says what the sanitizer calls it."""

import mmap

import numpy as np
import torch

import tritium as triton
import tritium.language as tl

BUGS = []


def bug(kind, name=None):
    """Register a function that launches a kernel with a mistake of this kind."""
    def register(run):
        BUGS.append((name or run.__name__, kind, run))
        return run
    return register


# --- out of bounds ----------------------------------------------------------------------------------------------------
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


# --- read-only memory -------------------------------------------------------------------------------------------------
@bug("read-only")
def store_to_read_only_array():
    y = np.zeros(8, np.float32)
    y.flags.writeable = False
    one_store_to_fixed[(1,)](y)


@triton.jit
def one_store_to_fixed(y):
    tl.store(y + tl.arange(0, 8), 1.0)  # BUG


@triton.jit
def add_to_fixed(y):
    tl.atomic_add(y + tl.arange(0, 8), 1.0)  # BUG


@bug("read-only")
def atomic_on_bytes():
    add_to_fixed[(1,)](np.frombuffer(bytes(32), np.float32))


# --- uninitialised memory ---------------------------------------------------------------------------------------------
@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)  # BUG
    tl.store(y + i, v, mask=i < n)


for _make in ("torch.empty(1000)", "torch.empty_like(torch.ones(1000))", "torch.ones(1).new_empty(1000)",
              "np.empty(1000, np.float32)", "np.empty_like(np.ones(1000))",
              "torch.empty(1000, dtype=torch.float16)", "torch.empty(1000, dtype=torch.int8)"):
    @bug("uninitialised", f"reads {_make}")
    def _reads(make=_make):
        x = eval(make)
        copy[(4,)](x, np.zeros(1000, x.dtype) if isinstance(x, np.ndarray) else torch.zeros(1000, dtype=x.dtype), 1000,
                   BLOCK=256)


@bug("uninitialised")
def half_is_filled():
    x = torch.empty(1000)
    x[:600] = 1
    copy[(4,)](x, torch.zeros(1000), 1000, BLOCK=256)


@triton.jit
def accumulate(x, out, BLOCK: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.atomic_add(out + tl.arange(0, 2), v)  # BUG


@bug("uninitialised")
def accumulator_not_zeroed():
    accumulate[(4,)](torch.ones(1024), torch.empty(2), BLOCK=256)


# --- integer overflow -------------------------------------------------------------------------------------------------
def sparse(elements, dtype):
    """An array that takes address space but no memory."""
    size = elements * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    return np.frombuffer(memory, dtype)


@triton.jit
def far_row(x, y, row, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i)  # BUG
    tl.store(y + i, v)


@bug("overflow")
def row_times_stride():
    far_row[(1,)](sparse((1 << 31) + 65536, np.int8), np.zeros(64, np.int8), 1 << 15, 1 << 16, BLOCK=64)


@triton.jit
def many_programs(x, y, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    i = (tl.program_id(0) + SHIFT) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)  # BUG
    tl.store(y + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), v)


@bug("overflow")
def program_times_block():
    many_programs[(4,)](sparse((1 << 31) + 4096, np.int8), np.zeros(4096, np.int8), BLOCK=1024, SHIFT=(1 << 21) - 1)


@triton.jit
def far_element(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i * n)  # BUG
    tl.store(y + i, v)


@bug("overflow")
def lane_times_stride():
    far_element[(1,)](sparse((1 << 31) + 8192, np.int8), np.zeros(16, np.int8), 1 << 28, BLOCK=16)


@triton.jit
def table_of_rows(x, index, y, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.load(index + i) * stride)  # BUG
    tl.store(y + i, v)


@bug("overflow")
def loaded_index_times_stride():
    rows = np.arange(16, dtype=np.int32) + (1 << 15) - 8
    table_of_rows[(1,)](sparse((1 << 31) + (1 << 20), np.int8), rows, np.zeros(16, np.int8), 1 << 16, BLOCK=16)


# --- races between programs -------------------------------------------------------------------------------------------
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


# --- descriptors, tuning, waiting -------------------------------------------------------------------------------------
@triton.jit
def describes(x, y, n, BLOCK: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [4, n], [n, 1], [4, BLOCK])  # BUG
    v = d.load([0, 0])
    tl.store(y + tl.arange(0, 4)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], v)


@bug("misaligned")
def stride_of_a_descriptor():
    describes[(1,)](torch.ones(4, 30), torch.zeros(4, 16), 30, BLOCK=16)


@bug("misaligned")
def base_of_a_descriptor():
    describes[(1,)](torch.ones(129)[1:], torch.zeros(4, 16), 32, BLOCK=16)


@triton.jit
def tuned_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n)))  # BUG


@triton.jit
def tuned_in_place(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)  # BUG


def _tuned(kernel):
    configs = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]
    return triton.autotune(configs, key=["n"], do_bench=lambda fn, quantiles: [fn() or 1.0] * 3)(kernel)


@bug("missing reset")
def sum_without_reset_to_zero():
    _tuned(tuned_sum)[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](torch.ones(256), torch.zeros(1), 256)


@bug("missing reset")
def update_without_restore_value():
    _tuned(tuned_in_place)[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](torch.ones(256), 256)


@triton.jit
def waits_for_nobody(flag, y):
    while tl.atomic_add(flag, 0) == 0:  # BUG
        pass
    tl.store(y, 1)


@bug("endless wait")
def nobody_sets_the_flag():
    waits_for_nobody[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))


@triton.jit
def never_unlocked(lock, y):
    while tl.atomic_cas(lock, 0, 1) == 1:  # BUG
        pass
    tl.store(y + tl.program_id(0), 1)


@bug("endless wait")
def lock_is_never_released():
    never_unlocked[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32))
