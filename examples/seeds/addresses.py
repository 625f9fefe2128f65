"""Padding and alignment. Corrected: the document's snippets are completed to kernels; `ptr + 15` moves by elements, so
rounding an address up by bytes needs a pointer to bytes; a list of scalars is summed, as a kernel cannot return it.
`tl.zeros((32, 33))` warns that it is no shared memory, which the language does not name: rows are padded apart in
memory, and what is on chip is placed by the compiler (docs/ladders.md, rung V4)."""

import warnings

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def shared_memory_kernel(input_ptr, output_ptr, rows, cols):
    # With padding to avoid bank conflicts
    BLOCK_SIZE = 32
    PADDED_SIZE = 33  # Add padding to avoid conflicts
    shared_mem = tl.zeros((BLOCK_SIZE, PADDED_SIZE), dtype=tl.float32)
    for i in range(rows):
        for j in range(cols):
            shared_mem[i, j] = tl.load(input_ptr + i * cols + j)
    for j in range(cols):
        for i in range(rows):
            tl.store(output_ptr + j * rows + i, shared_mem[i, j])

    # Without padding (may have bank conflicts)
    shared_mem = tl.zeros((BLOCK_SIZE, BLOCK_SIZE), dtype=tl.float32)
    tl.store(output_ptr + rows * cols, tl.sum(shared_mem))


@triton.jit
def padded_kernel(input_ptr, padded_ptr, stride_row, stride_col, BLOCK_SIZE: tl.constexpr, PAD: tl.constexpr):
    row_offs = tl.arange(0, BLOCK_SIZE)[:, None]
    col_offs = tl.arange(0, BLOCK_SIZE)[None, :]
    global_ptrs = input_ptr + row_offs * stride_row + col_offs * stride_col
    data = tl.load(global_ptrs)
    for i in range(BLOCK_SIZE):
        for j in range(BLOCK_SIZE):
            sm_idx = i * (BLOCK_SIZE + PAD) + j
            sm_ptr = padded_ptr + sm_idx
            tl.store(sm_ptr, data[i, j])


@triton.jit
def aligned_kernel(ptr, out_ptr, size: tl.constexpr):
    is_aligned = (ptr % 16) == 0
    aligned_start = (ptr + 15) // 16 * 16
    if is_aligned:
        total = tl.sum(tl.load(ptr + tl.arange(0, size)).to(tl.int32), axis=0)
    else:
        individual_data = [tl.load(ptr + i) for i in range(size)]
        total = individual_data[0].to(tl.int32)
        for i in tl.static_range(1, size):
            total += individual_data[i]
    first = tl.load(aligned_start.to(tl.pointer_type(tl.uint8)))
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, first.to(tl.int32))


x = torch.randn(4, 6, device=DEVICE)
turned = torch.ones(25, device=DEVICE)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    shared_memory_kernel[(1,)](x, turned, *x.shape)
assert torch.equal(turned[:24].view(6, 4), x.t()) and turned[24] == 0
print(*[warning.message for warning in found])  # when the kernel is compiled; not when it comes from the cache

x = torch.randn(8, 8, device=DEVICE)
padded = torch.zeros(8, 9, device=DEVICE)
padded_kernel[(1,)](x, padded, *x.stride(), BLOCK_SIZE=8, PAD=1)
assert torch.equal(padded[:, :8], x) and not padded[:, 8].any()

numbers = torch.arange(64, dtype=torch.uint8, device=DEVICE)  # torch aligns it to 64 bytes
out = torch.zeros(2, dtype=torch.int32, device=DEVICE)
for start in (0, 3):
    aligned_kernel[(1,)](numbers[start:], out, size=8)
    assert out.tolist() == [sum(range(start, start + 8)), 16 if start else 0]
print("the first aligned byte after 3 is", int(out[1]))
