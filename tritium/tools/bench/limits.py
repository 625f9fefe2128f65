"""What this machine reaches: bytes a second of a copy, and operations a second, measured once and kept.

Bytes: a copy larger than the caches. Operations: on a CPU, multiply-adds that stay in registers; on a GPU, the product
of two large matrices by torch. A figure is of one device, one number of threads and one kind of number.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import tritium as triton
import tritium.language as tl
from tritium import cache

__all__ = ["bytes_per_second", "flops_per_second"]

SECONDS = 0.2
_BLOCK, _ROUNDS = 256, 20_000


@triton.jit
def multiply_add_kernel(out, a, b, n, BLOCK: tl.constexpr):
    """Multiply and add n times, in registers; the operands are not known before, so nothing can be left out."""
    lanes = tl.arange(0, BLOCK)
    x, factor, term = lanes.to(tl.float32), tl.load(a), tl.load(b)
    for _ in range(n):
        x = x * factor + term
    tl.store(out + tl.program_id(0) * BLOCK + lanes, x)


def bytes_per_second(device: str) -> float | None:
    """Bytes that a copy reads and writes in a second.

    >>> bytes_per_second("cpu") > 1e8
    True
    """
    from tritium.insight.profile.limits import copy_bandwidth

    found = copy_bandwidth(device)
    return None if found is None else found.bytes_per_second


def flops_per_second(device: str, kind: str) -> float | None:
    """Operations in a second on numbers of a kind: a dtype, or "tf32"; None where this is not measured.

    >>> flops_per_second("cpu", "int8") is None
    True
    """
    if device == "cpu" and kind != "float32":
        return None
    from tritium.tools.bench.machine import Watch, device_name

    identity = f"flops 1 {device} {device_name(device)} {triton.get_num_threads()} {kind} {cache.fingerprint()}"
    manager = cache.get_cache_manager(hashlib.sha256(identity.encode()).hexdigest())
    kept = cache.read(manager, "flops.json")
    if kept is not None:
        return json.loads(kept)["flops_per_second"]
    watch = Watch()
    rate = _on_cpu() if device == "cpu" else _on_gpu(kind)
    if rate is not None and not watch.noise().reasons:  # what a busy machine reaches is no limit to remember
        cache.write(manager, "flops.json", json.dumps({"flops_per_second": rate}).encode())
    return rate


def _on_cpu() -> float:
    import numpy as np

    programs = 4 * triton.get_num_threads()
    out, a, b = np.empty(programs * _BLOCK, np.float32), np.full(1, 0.999, np.float32), np.full(1, 0.001, np.float32)

    def run() -> float:
        start = time.perf_counter()
        multiply_add_kernel[(programs,)](out, a, b, _ROUNDS, BLOCK=_BLOCK)
        return time.perf_counter() - start

    run()
    return 2 * programs * _BLOCK * _ROUNDS / _best(run)


def _on_gpu(kind: str) -> float | None:
    import torch

    from tritium.tools.bench.measuring import DeviceClock

    multiply = _product(torch, kind, 8192)
    if multiply is None:
        return None
    clock = DeviceClock(torch, cold=False)
    multiply()
    calls = clock.calls(multiply)
    return 2 * 8192**3 / _best(lambda: clock.sample(multiply, calls))


def _product(torch: Any, kind: str, n: int) -> Any:
    """A function that multiplies two matrices of numbers of a kind."""
    name = "float32" if kind == "tf32" else kind
    a, b = (torch.randn(n, n, device="cuda").to(getattr(torch, name, torch.float32)) for _ in range(2))
    if name.startswith("float8"):
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.float16, use_fast_accum=True)
    if not hasattr(torch, name) or not a.is_floating_point():
        return None

    def multiply() -> None:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        try:
            torch.mm(a, b)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return multiply


def _best(run: Any) -> float:
    times, end = [run()], time.perf_counter() + SECONDS
    while len(times) < 5 or time.perf_counter() < end and len(times) < 200:
        times.append(run())
    return min(times)
