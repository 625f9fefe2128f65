"""torch.compile in its three modes, with tritium compiling what Inductor writes, on GPUs and on CPUs. Corrected: names
that the document's copy lost are filled in, and sizes are smaller. The modes differ on GPUs; on a CPU they give the
same kernel."""

import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import time

import torch

import tritium

tritium.install_as_triton()  # before the first torch.compile looks for Triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
synchronize = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
torch._inductor.config.cpu_backend = "triton"  # else Inductor writes C++ for CPUs


def my_model(x):
    x = x + 1.0
    x = x * 2.0
    x = torch.relu(x)
    return x


input = torch.randn(100, 1000, device=DEVICE)
for mode in ("default", "reduce-overhead", "max-autotune"):
    compiled = torch.compile(my_model, mode=mode)
    for _ in range(3):  # the first call compiles
        output = compiled(input)
    assert torch.equal(output, my_model(input))
    synchronize()
    start = time.perf_counter()
    for _ in range(10):
        compiled(input)
    synchronize()
    print(f"{mode:20s}: {(time.perf_counter() - start) * 100:.2f} ms/iter")
