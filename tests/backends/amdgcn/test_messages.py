"""What emulated AMD kernels print, and how their assertions fail."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tritium.backends.amdgcn.isa.target import AmdTarget
from tritium.insight import emulator


@triton.jit(noinline=True)
def told(n):
    tl.device_print("told", n + 1)
    return n


@triton.jit
def talking(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n)
    tl.device_print("v", v, hex=False)
    tl.device_print("n", n)
    tl.store(x + i, v + told(n), mask=i < n)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_each_element_is_printed_once(arch):
    """Of a tile by the thread that owns it, of a scalar by the first; functions print, too."""
    x = np.arange(16, dtype=np.float32) / 2
    module, args = module_of(talking, [x.copy(), 16, 16])
    said = emulator.run(module, args, (2,), arch, num_warps=2).splitlines()
    assert sorted(said) == sorted(
        [f"pid ({p}, 0, 0) idx ({i:2}) v: {i / 2 + 16 * p:f}" for p in range(2) for i in range(16)]
        + [f"pid ({p}, 0, 0) idx () {text}" for p in range(2) for text in ("n: 16", "told: 17")])  # fmt: skip
    assert (args[0] == x + 32).all() and AmdTarget.of(arch).warp_size > 16
