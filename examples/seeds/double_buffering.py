"""Double buffering by two variables that are swapped. Corrected: the document leaves offsets and masks open, and never
stores the last chunk."""

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def double_buffer_kernel(ptr_a, ptr_out, n, num_chunks, BLOCK_SIZE: tl.constexpr):
    buffer_a = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    buffer_b = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    offsets = tl.arange(0, BLOCK_SIZE)
    buffer_a = tl.load(ptr_a + offsets, mask=offsets < n)
    for _ in range(1, num_chunks):
        buffer_b = tl.load(ptr_a + offsets + BLOCK_SIZE, mask=offsets + BLOCK_SIZE < n)
        result_a = buffer_a * 2
        tl.store(ptr_out + offsets, result_a, mask=offsets < n)
        buffer_a, buffer_b = buffer_b, buffer_a
        offsets += BLOCK_SIZE
    tl.store(ptr_out + offsets, buffer_a * 2, mask=offsets < n)


x = torch.randn(1000, device=DEVICE)
out = torch.empty_like(x)
double_buffer_kernel[(1,)](x, out, 1000, triton.cdiv(1000, 128), BLOCK_SIZE=128)
assert torch.equal(out, 2 * x)
print("chunks:", triton.cdiv(1000, 128))
