"""Tiles of the next iteration wait in registers while a loop multiplies: results, and how they are carried."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import compiled
from tests.backends.gpu.modules import module_of
from tritium import ops
from tritium.backends.amdgcn.isa.target import AmdTarget
from tritium.backends.gpu.pipeline.prefetch import prefetch_loads
from tritium.insight import emulator

rng = np.random.default_rng(2)


@triton.jit
def product(a, b, c, K, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for k in range(0, K, N):
        x = tl.load(a + i * K + k + j, mask=k + j < K, other=0.0)
        y = tl.load(b + (k + i) * N + j, mask=k + i < K, other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + i * N + j, total)


@pytest.mark.parametrize(("arch", "size", "warps"), [("gfx90a", 16, 1), ("gfx942", 32, 4), ("gfx1201", 32, 2)])
def test_results(arch, size, warps):
    """Of five iterations, the last of which has fewer elements."""
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((size, 4 * size + 8), (4 * size + 8, size)))
    module, args = module_of(product, [a, b, np.zeros((size, size), np.float32), 4 * size + 8, size])
    emulator.run(module, args, (1,), arch, num_warps=warps, num_stages=2)
    np.testing.assert_allclose(args[2], a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)


def test_halves_are_carried_in_the_words_they_came_in():
    module, _ = module_of(product, [np.zeros((64, 128), np.float16), np.zeros((128, 64), np.float16),
                                    np.zeros((64, 64), np.float32), 128, 64])  # fmt: skip
    text = compiled(module, "gfx942")[0]["llir"]
    assert "phi <8 x half>" in text and "phi half" not in text


@pytest.mark.parametrize(("warps", "prefetched"), [(1, 0), (8, 2)])
def test_sums_leave_room_or_nothing_is_prefetched(warps, prefetched):
    """64 x 64 sums take half of the registers of a warp of RDNA, and an eighth of that with eight."""
    module, _ = module_of(product, [np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16),
                                    np.zeros((64, 64), np.float32), 64, 64])  # fmt: skip
    attrs = {**module.attrs, "num_warps": warps, "num_stages": 2}
    made = prefetch_loads(module.replace(attrs=attrs), AmdTarget.of("gfx1201"))
    assert sum(op.kind is ops.load for op in made.body.ops) == prefetched
