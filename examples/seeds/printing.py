"""A kernel that prints and asserts, run as plain Python: TRITON_INTERPRET is set before the kernel is decorated."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import torch

import tritium as triton
import tritium.language as tl

N = 50
BLOCK_SIZE = 32


@triton.jit
def vector_add_kernel(X_ptr, Y_ptr, Z_ptr, N, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    block_start = pid * BLOCK_SIZE
    offsets = tl.arange(0, BLOCK_SIZE)
    idx = block_start + offsets
    mask = idx < N
    x = tl.load(X_ptr + idx, mask=mask)
    y = tl.load(Y_ptr + idx, mask=mask)
    z = x + y
    tl.store(Z_ptr + idx, z, mask=mask)
    assert tl.num_programs(axis=0) == triton.cdiv(N, BLOCK_SIZE)
    print(f"the kernel runs {tl.num_programs(axis=0)} times (programs)")
    print("pid: ", pid)
    print("block_start: ", block_start)
    print("offsets: ", offsets)
    print("idx: ", idx)


X, Y = torch.randn(N), torch.randn(N)
Z = torch.empty_like(X)
vector_add_kernel[lambda META: (triton.cdiv(N, META["BLOCK_SIZE"]),)](X, Y, Z, N, BLOCK_SIZE=BLOCK_SIZE)
assert torch.allclose(Z, X + Y)
