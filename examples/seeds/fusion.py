"""Add, ReLU and multiply in one pass. Corrected: names that the document's copy lost are filled in."""

import time

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def fused_add_relu_mul_kernel(x_ptr, bias_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    bias = tl.load(bias_ptr + offsets, mask=mask)
    y = x + bias
    y = tl.where(y > 0, y, 0)
    y = y * scale
    tl.store(out_ptr + offsets, y, mask=mask)


def fused_add_relu_mul(x, bias, scale):
    output = torch.empty_like(x)
    n_elements = x.numel()
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    fused_add_relu_mul_kernel[grid](x, bias, output, scale, n_elements, BLOCK_SIZE=1024)
    return output


x, bias = torch.randn(1_000_000, device=DEVICE), torch.randn(1_000_000, device=DEVICE)
assert torch.equal(fused_add_relu_mul(x, bias, 2.0), torch.relu(x + bias) * 2.0)
synchronize = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
for name, run in (("unfused", lambda: torch.relu(x + bias) * 2.0), ("fused", lambda: fused_add_relu_mul(x, bias, 2.0))):
    synchronize()
    start = time.time()
    run()
    synchronize()
    print(f"{name}: {(time.time() - start) * 1000:.2f} ms")
