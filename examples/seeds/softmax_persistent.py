"""Softmax on a grid sized from occupancy; the launch may name its constants or not. Corrected: `row_idx + row_idx *
stride` should start at `input_ptr`, `num_stages` was no parameter, `BLOCK_SIZE::`, a full-width parenthesis. A kernel
may use no shared memory, and a CPU counts no registers: the divisors are at least 1."""

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def softmax_kernel(input_ptr, output_ptr, input_row_stride, output_row_stride, n_rows, n_cols,
                   BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr):
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = tl.arange(0, BLOCK_SIZE)
        input_ptrs = row_start_ptr + col_offsets
        row = tl.load(input_ptrs, mask=col_offsets < n_cols, other=-float("inf"))
        row_minus_max = row - tl.max(row, axis=0)
        numerator = tl.exp(row_minus_max)
        denominator = tl.sum(numerator, axis=0)
        softmax_output = numerator / denominator
        out_row_start_ptr = output_ptr + row_idx * output_row_stride
        output_ptrs = out_row_start_ptr + col_offsets
        tl.store(output_ptrs, softmax_output, mask=col_offsets < n_cols)


driver = triton.runtime.driver
device = driver.active.get_current_device()
properties = driver.active.utils.get_device_properties(device)
NUM_SM = properties["multiprocessor_count"]
NUM_REGS = properties["max_num_regs"]
SIZE_SMEM = properties["max_shared_mem"]
WARP_SIZE = properties["warpSize"]
target = triton.runtime.driver.active.get_current_target()
kernels = {}


def is_hip():
    return triton.runtime.driver.active.get_current_target().backend == "hip"


def is_cdna():
    return is_hip() and triton.runtime.driver.active.get_current_target().arch in (
        "gfx940", "gfx941", "gfx942", "gfx90a", "gfx908")


def softmax(x, name_constants=False):
    n_rows, n_cols = x.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = 8
    num_stages = 4 if SIZE_SMEM > 200000 else 2
    y = torch.empty_like(x)
    kernel, num_programs = kernels.get(BLOCK_SIZE, (None, 0))
    if kernel is None:
        kernel = softmax_kernel.warmup(y, x, x.stride(0), y.stride(0), n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE,
                                       num_stages=num_stages, num_warps=num_warps, grid=(1,))
        kernel._init_handles()
        n_regs = kernel.n_regs
        size_smem = kernel.metadata.shared
        if is_hip():
            NUM_GPRS = NUM_REGS * 2 if is_cdna() else NUM_REGS
            max_num_waves = properties["max_threads_per_sm"] // WARP_SIZE
            occupancy = min(NUM_GPRS // WARP_SIZE // n_regs, max_num_waves) // num_warps
        else:
            occupancy = NUM_REGS // max(n_regs * WARP_SIZE * num_warps, 1)
        occupancy = min(occupancy, SIZE_SMEM // max(size_smem, 1))
        num_programs = NUM_SM * max(occupancy, 1)
        kernels[BLOCK_SIZE] = (kernel, num_programs)
    num_programs = min(num_programs, n_rows)
    constants = (BLOCK_SIZE, num_stages) if name_constants else ()
    kernel[(num_programs, 1, 1)](x, y, x.stride(0), y.stride(0), n_rows, n_cols, *constants)
    return y


x = torch.randn(1823, 781, device=DEVICE)
for name_constants in (False, True):  # as one of the documents launches it, and as the other does
    assert torch.allclose(softmax(x, name_constants), torch.softmax(x, 1), atol=1e-6)
print("programs:", min(kernels[1024][1], 1823))
