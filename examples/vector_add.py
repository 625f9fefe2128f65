"""Add two vectors. Run me: python examples/vector_add.py"""

import numpy as np

import tritium as triton
import tritium.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    # This function runs once per program. Each program handles BLOCK elements ...
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # ... and the mask keeps the last program from going past the end.
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


n = 98_432
x = np.random.rand(n).astype(np.float32)  # torch tensors work the same way, on the CPU and on a GPU
y = np.random.rand(n).astype(np.float32)
z = np.empty_like(x)

# 97 programs of 1024 elements; the last one has 128 left to do.
grid = (triton.cdiv(n, 1024),)
kernel = add_kernel[grid](x, y, z, n, BLOCK=1024)

print("programs:", grid[0])
print("equal to NumPy:", np.array_equal(z, x + y))
print("stages you can read:", ", ".join(kernel.asm))
