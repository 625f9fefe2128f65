"""A product of fp8 matrices, and a load with a cache hint. Corrected: names that the document's copy lost are
filled in. The hint is no TMA: tritium.kernels.descriptor_matmul shows descriptors."""

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def matmul_fp8_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + offs_am[:, None] * stride_cm + offs_bn[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(tl.float16))


@triton.jit
def tma_load_kernel(input_ptr, output_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    data = tl.load(input_ptr + offs_m[:, None] * N + offs_n[None, :], eviction_policy="evict_last")
    result = data * 2.0
    tl.store(output_ptr + offs_m[:, None] * N + offs_n[None, :], result)


a, b = (torch.randn(shape, device=DEVICE).to(torch.float8_e4m3fn) for shape in ((50, 100), (100, 40)))
c = torch.empty(50, 40, dtype=torch.float16, device=DEVICE)
matmul_fp8_kernel[(triton.cdiv(50, 32), triton.cdiv(40, 32))](a, b, c, 50, 40, 100, *a.stride(), *b.stride(),
                                                              *c.stride(), BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
assert torch.allclose(c.float(), a.float() @ b.float(), atol=5e-2, rtol=1e-2)

x = torch.randn(64, 128, device=DEVICE)
doubled = torch.empty_like(x)
tma_load_kernel[(4, 4)](x, doubled, 64, 128, BLOCK_M=16, BLOCK_N=32)
assert torch.equal(doubled, 2 * x)
print("largest value of the product:", float(c.abs().max()))
