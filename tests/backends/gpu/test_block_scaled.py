"""`dot_scaled` on tensor cores that multiply with scales (sm_100a, sm_103a, sm_120a), run by the emulator and compared
with the interpreter, which upcasts."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import agree
from tests.backends.gpu.test_tensor_memory import assembled
from tritium.backends.compiler import GPUTarget
from tritium.frontend.lower import lower
from tritium.insight import emulator
from tritium.interp.machine import interpret


@triton.jit
def scaled(a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr,
           G: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr):  # fmt: skip
    PA: tl.constexpr = 2 if FA == "e2m1" else 1
    PB: tl.constexpr = 2 if FB == "e2m1" else 1
    i, j = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for s in range(0, K, BK):
        ka, kb, g = s // PA + tl.arange(0, BK // PA), s // PB + tl.arange(0, BK // PB), s // G + tl.arange(0, BK // G)
        a = tl.load(a_ptr + i[:, None] * (K // PA) + ka[None, :])
        b = tl.load(b_ptr + kb[:, None] * N + j[None, :])
        sa = tl.load(sa_ptr + i[:, None] * (K // G) + g[None, :])
        sb = tl.load(sb_ptr + j[:, None] * (K // G) + g[None, :])
        total = tl.dot_scaled(a, sa, FA, b, sb, FB, total)
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


rng = np.random.default_rng(3)


def operand(form, shape, axis):
    if form == "e2m1":
        return rng.integers(0, 256, [n // 2 if k == axis else n for k, n in enumerate(shape)]).astype(np.uint8)
    return rng.integers(-4, 4, shape).astype({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[form])


def scales(rows, count, group):
    if group == 16:
        return rng.choice([0.5, 1, 1.5, 2], (rows, count)).astype(ml_dtypes.float8_e4m3fn)
    return rng.integers(125, 130, (rows, count)).astype(np.uint8)


def of_scaled(fa, fb, group, m, n, block):
    k = 2 * block
    return (operand(fa, (m, k), 1), scales(m, k // group, group), operand(fb, (k, n), 0), scales(n, k // group, group),
            np.zeros((m, n), "f4"), k, m, n, block, group, fa, fb)  # fmt: skip


def module_for(args, arch, monkeypatch):
    """The module of the kernel for an architecture."""
    with monkeypatch.context() as patched:
        target = GPUTarget("cuda", arch, 32)
        patched.setattr("tests.backends.gpu.modules.lower", lambda *parts: lower(*parts, target=target))
        return module_of(scaled, args)[0]


MX8, MX4, NV4, MIXED = ("e4m3", "e5m2", 32), ("e2m1", "e2m1", 32), ("e2m1", "e2m1", 16), ("e4m3", "e2m1", 32)
CASES = [  # formats and group, M, N, K of an iteration, architecture, warps
    (MX8, 128, 16, 64, 100, 4),  # of a word of scales, two are there
    (MX8, 256, 32, 256, 103, 8),  # two words of scales
    (MX4, 128, 32, 128, 100, 4),
    (NV4, 128, 32, 128, 100, 4),
    (MIXED, 128, 32, 64, 100, 4),
    (MX8, 32, 16, 64, 120, 2),
    (MX4, 32, 32, 128, 120, 4),
    (NV4, 16, 32, 64, 120, 1),
]


@pytest.mark.parametrize(("formats", "m", "n", "block", "arch", "warps"), CASES)
def test_products(formats, m, n, block, arch, warps, monkeypatch):
    args = of_scaled(*formats, m, n, block)
    module, (plain, values) = module_for(args, arch, monkeypatch), module_of(scaled, args)
    mine, same, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(3))
    emulator.run(module, mine, arch=arch, num_warps=warps)
    interpret(plain, theirs, (1,))
    interpret(module, same, (1,))
    agree(theirs, mine)
    agree(theirs, same)
    text, _ = emulator.llvm_of(module, arch, warps)
    unit = "mma.sync.aligned" if arch == 120 else "tcgen05.mma.cta_group::1"
    name = {MX8: "mxf8f6f4.block_scale.scale_vec::1X", MX4: "mxf4.block_scale.scale_vec::2X",
            NV4: "mxf4nvf4.block_scale.scale_vec::4X"}.get(formats, "mxf8f6f4.block_scale.scale_vec::1X")  # fmt: skip
    assert f"{unit}.kind::{name}" in text and ("tcgen05.cp" in text) == (arch != 120)


@pytest.mark.parametrize("arch", [100, 120])
@pytest.mark.parametrize("formats", [MX8, MX4, NV4])
def test_products_assemble(arch, formats, monkeypatch):
    assert assembled(module_for(of_scaled(*formats, 128, 32, 64), arch, monkeypatch), arch)["n_spills"] == 0


def test_others_are_upcast(monkeypatch):
    """Few rows for tensor memory, architectures without scales, groups of 16 with exponents."""
    for arch, (fa, fb, group), m in ((100, MX8, 64), (90, MX8, 128), (120, ("e4m3", "e4m3", 16), 128)):
        args = list(of_scaled(fa, fb, group, m, 32, 64))
        args[1], args[3] = (np.full(x.shape, 127, np.uint8) for x in (args[1], args[3]))
        text, _ = emulator.llvm_of(module_for(tuple(args), arch, monkeypatch), arch)
        assert ".block_scale." not in text and "mma" in text
