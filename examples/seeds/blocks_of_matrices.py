"""Addresses of two-dimensional blocks: strides, views, grids of two axes, neighbours in memory and elements apart.
Corrected: the documents' snippets are completed to kernels."""

import numpy as np
import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def matrix_op_kernel(base_ptr, out_ptr, stride_row, stride_col, M: tl.constexpr, N: tl.constexpr,
                     BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    pid_m = tl.program_id(axis=0)  # Row block ID
    pid_n = tl.program_id(axis=1)  # Column block ID
    block_row_start = pid_m * BLOCK_SIZE_M
    block_col_start = pid_n * BLOCK_SIZE_N
    row_offsets = block_row_start + tl.arange(0, BLOCK_SIZE_M)
    col_offsets = block_col_start + tl.arange(0, BLOCK_SIZE_N)
    mask = (row_offsets[:, None] < M) & (col_offsets[None, :] < N)
    ptrs = base_ptr + row_offsets[:, None] * stride_row + col_offsets[None, :] * stride_col
    elements = tl.load(ptrs, mask=mask, other=1.0)
    result = tl.exp(elements) + tl.log(elements)
    tl.store(out_ptr + row_offsets[:, None] * N + col_offsets[None, :], result, mask=mask)


@triton.jit
def strided_kernel(ptr, out_ptr, n, stride, BLOCK_SIZE: tl.constexpr):
    block_start = tl.program_id(0) * BLOCK_SIZE
    # Good: contiguous memory access
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    near = tl.load(ptr + offsets, mask=mask, other=0.0)
    # Bad: strided memory access
    offsets = (block_start + tl.arange(0, BLOCK_SIZE)) * stride
    apart = tl.load(ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + block_start + tl.arange(0, BLOCK_SIZE), near + apart, mask=mask)


def matrix_op(x):
    M, N = x.shape
    out = torch.empty(M, N, device=DEVICE)
    grid = lambda meta: (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matrix_op_kernel[grid](x, out, x.stride(0), x.stride(1), M, N, BLOCK_SIZE_M=32, BLOCK_SIZE_N=32)
    return out


x = torch.rand(50, 70, device=DEVICE) + 1
assert x.stride() == (70, 1) and x.t().stride() == (1, 70)  # row-major, and a view of it
for view in (x, x.t()):
    values = view.cpu().numpy()  # on a busy machine, torch's first exp on several threads is wrong by 1e-4 now and then
    assert np.allclose(matrix_op(view).cpu().numpy(), np.exp(values) + np.log(values), atol=1e-5)

x = torch.rand(300, device=DEVICE)
out = torch.empty(100, device=DEVICE)
strided_kernel[(triton.cdiv(100, 64),)](x, out, 100, 3, BLOCK_SIZE=64)
assert torch.equal(out, x[:100] + x[::3])
print("blocks:", triton.cdiv(50, 32), "x", triton.cdiv(70, 32))
