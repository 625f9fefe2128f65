"""Vector add, timed in the documents' three ways: by the clock, by CUDA events, by torch's profiler. A launch returns
before the GPU is done; on a CPU it returns when the kernel is done. Corrected: sizes are smaller, and events and
`synchronize` are left out where there is no GPU."""

import time

import torch

import tritium as triton
import tritium.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
synchronize = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None


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


def vector_add_triton(X, Y):
    assert X.shape == Y.shape, "the inputs must have one shape"
    N = X.numel()
    Z = torch.empty_like(X)
    grid = lambda META: (triton.cdiv(N, META["BLOCK_SIZE"]),)
    vector_add_kernel[grid](X, Y, Z, N, BLOCK_SIZE=1024)
    return Z


N = 1_000_000
X = torch.randn(N, device=DEVICE, dtype=torch.float32)
Y = torch.randn(N, device=DEVICE, dtype=torch.float32)
for _ in range(10):  # warm up
    Z_triton = vector_add_triton(X, Y)

# By the clock, without and with waiting for the GPU.
start_time = time.time()
Z_triton = vector_add_triton(X, Y)
launch_time = time.time() - start_time
synchronize()
start_time = time.time()
Z_triton = vector_add_triton(X, Y)
synchronize()
triton_time = time.time() - start_time
start_time = time.time()
Z_pytorch = X + Y
synchronize()
pytorch_time = time.time() - start_time
assert torch.allclose(Z_triton, Z_pytorch)
print(f"launch: {launch_time * 1000:.2f} ms, kernel: {triton_time * 1000:.2f} ms, torch: {pytorch_time * 1000:.2f} ms")

# By events, and what that is in bytes.
if DEVICE == "cuda":
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(100):
        output = vector_add_triton(X, Y)
    end.record()
    torch.cuda.synchronize()
    per_iteration_time = start.elapsed_time(end) / 100
    bytes_processed = 3 * X.element_size() * X.numel()
    print(f"average time per iteration: {per_iteration_time:.3f} ms")
    print(f"bandwidth: {bytes_processed / (per_iteration_time / 1000) / 1e9:.2f} GB/s")

# By torch's profiler.
activities = [torch.profiler.ProfilerActivity.CPU]
activities += [torch.profiler.ProfilerActivity.CUDA] if DEVICE == "cuda" else []
with torch.profiler.profile(activities=activities, record_shapes=True, profile_memory=True,
                            schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2)) as prof:
    for _ in range(10):
        output = vector_add_triton(X, Y)
        prof.step()
assert "aten::empty_like" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=10)
