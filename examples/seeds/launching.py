"""Grids, cdiv and masks: 98,432 elements in 97 programs. Corrected: 98,432 - 96 * 1024 is 128, not 432."""

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    output = x + y
    tl.store(output_ptr + offsets, output, mask=mask)


n_elements = 98432
x, y = torch.rand(n_elements, device=DEVICE), torch.rand(n_elements, device=DEVICE)
output = torch.empty_like(x)
grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=1024)
assert torch.equal(output, x + y)
add_kernel.__getitem__(grid)(x, y, output, n_elements, BLOCK_SIZE=1024)  # what the brackets mean
assert triton.cdiv(98432, 1024) == 97 and 98432 // 1024 == 96 and 98432 - 96 * 1024 == 128
print("programs:", triton.cdiv(n_elements, 1024))
