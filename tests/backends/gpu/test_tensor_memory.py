"""Dots whose sums are in tensor memory (sm_100a, sm_103a), run by the emulator and compared with the interpreter."""

import re
import subprocess

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import binary, module_of
from tests.backends.gpu.samples import agree, data
from tests.backends.gpu.test_dots_in_flight import rounds_of
from tests.backends.gpu.test_plain_dots import along
from tritium.backends.compiler import GPUTarget
from tritium.backends.nvptx.assemble.ptxas import ptxas
from tritium.insight import emulator
from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.memory import SHARED_BASE
from tritium.insight.emulator.shared import Shared
from tritium.insight.emulator.tensor_memory import TensorMemory
from tritium.interp.machine import interpret


def assembles_for(arch):
    """Whether there is an assembler that knows an architecture."""
    return ptxas() is not None and f"sm_{arch}a" in subprocess.run([ptxas(), "--help"], capture_output=True,
                                                                  text=True).stdout  # fmt: skip


def assembled(module, arch, **options):
    """Machine code of a module; skips the test where no assembler knows the architecture."""
    if not assembles_for(arch):
        pytest.skip(f"no ptxas that knows sm_{arch}a")
    code, metadata = binary(module, GPUTarget("cuda", arch, 32), **options)
    assert code.startswith(b"\x7fELF")
    return metadata


def of_product(dtype, m, n, block, turned):
    k, out = 2 * block + block // 2, "i4" if dtype == "i1" else "f4"
    shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
    return *(data(dtype, *shape) for shape in shapes), np.zeros((m, n), out), k, m, n, block, *turned, "tf32"


CASES = [  # type, M, N, K of an iteration, turned, warps
    ("f2", 128, 64, 32, (0, 0), 4),
    ("f2", 64, 16, 32, (1, 1), 8),  # 64 rows are in half of the lanes
    ("f2", 256, 32, 16, (1, 0), 8),  # two products side by side, a warpgroup for each
    (ml_dtypes.bfloat16, 256, 32, 32, (0, 1), 4),
    ("f4", 128, 32, 16, (0, 1), 4),
    ("i1", 128, 32, 64, (0, 0), 4),
    (ml_dtypes.float8_e4m3fn, 64, 64, 64, (0, 0), 4),
    (ml_dtypes.float8_e5m2, 128, 32, 32, (0, 1), 8),
]


@pytest.mark.parametrize(("dtype", "m", "n", "block", "turned", "warps"), CASES)
def test_products(check, dtype, m, n, block, turned, warps):
    """In all types and shapes; the sums stay in tensor memory throughout the loop."""
    args = of_product(dtype, m, n, block, turned)
    check(along, *args, arch=100, warps=warps)
    text, _ = emulator.llvm_of(module_of(along, args)[0], 100, warps)
    before, *_, after = text.split("tcgen05.mma")
    assert text.count("tcgen05.st") == before.count("tcgen05.st")  # zeros, where the loop may have no iteration
    assert text.count("tcgen05.ld") == after.count("tcgen05.ld") > 0 and "br i1" in after.split("tcgen05.ld")[0]


@pytest.mark.parametrize(("checks", "how"), [(True, "cp.async.bulk.tensor"), (False, "cp.async.cg")])
def test_producer_warps_and_copies_by_threads(checks, how):
    """Both fill the buffers that one thread multiplies."""
    args = of_product("f2", 128, 32, 64, (0, 1))
    module, values = module_of(along, args)
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
    emulator.run(module, mine, arch=100, num_warps=8, launch_checks=checks)
    interpret(module, theirs, (1,))
    agree(theirs, mine)
    assert how in emulator.llvm_of(module, 100, 8, launch_checks=checks)[0]


@pytest.mark.parametrize(("arch", "dtype"), [(100, "f4"), (100, "i1"), (103, "f2"), (103, ml_dtypes.float8_e5m2)])
def test_products_assemble(arch, dtype):
    metadata = assembled(module_of(along, of_product(dtype, 128, 32, 64, (0, 0)))[0], arch)
    assert metadata["n_spills"] == 0


def test_128_columns_of_sums_assemble_where_warps_exchange_registers():
    """Four warps begin with 128 registers: one load of 128 columns would want more."""
    module, _ = module_of(along, of_product("f2", 128, 128, 32, (0, 0)))
    assert "tcgen05.ld.sync.aligned.32x32b.x64" in emulator.llvm_of(module, 100, 4)[0]
    assembled(module, 100, num_warps=4)


def test_what_does_not_fit_is_multiplied_by_warps():
    """Few rows or warps, architectures without tensor memory, and integers where it has none for them."""
    for arch, dtype, m, warps in ((100, "f2", 32, 4), (100, "f2", 128, 2), (120, "f2", 128, 4), (103, "i1", 128, 4)):
        module = module_of(along, of_product(dtype, m, 32, 32, (0, 0)))[0]
        text, _ = emulator.llvm_of(module, arch, warps)
        assert "mma.sync" in text and "tcgen05" not in text


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, N, M: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    """The lhs of the second product is computed, and its sums are scaled in between."""
    i, d = tl.arange(0, M), tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * D + d[None, :])
    acc, top = tl.zeros((M, D), tl.float32), tl.full((M,), -1e30, tl.float32)
    for s in range(0, N, BN):
        n = s + tl.arange(0, BN)
        k = tl.load(k_ptr + n[:, None] * D + d[None, :])
        v = tl.load(v_ptr + n[:, None] * D + d[None, :])
        x = tl.dot(q, k.T)
        new = tl.maximum(top, tl.max(x, 1))
        p = tl.exp2((x - new[:, None]) * 0.1)
        acc = acc * tl.exp2((top - new) * 0.1)[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new
    tl.store(out_ptr + i[:, None] * D + d[None, :], acc)


@pytest.mark.parametrize(("rows", "warps"), [(64, 4), (128, 8)])
def test_computed_operands_and_scaled_sums(check, rows, warps):
    args = data("f2", rows, 32), data("f2", 96, 32), data("f2", 96, 32), np.zeros((rows, 32), "f4"), 96, rows, 32, 32
    check(attention, *args, arch=100, warps=warps, tolerance=2e-3)


def test_attention_assembles():
    args = data("f2", 128, 64), data("f2", 64, 64), data("f2", 64, 64), np.zeros((128, 64), "f4"), 64, 128, 64, 64
    assert assembled(module_of(attention, args)[0], 100, num_warps=8)["n_spills"] == 0


@triton.jit
def sums_of_two(a_ptr, b_ptr, c_ptr, K, start, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Sums that do not begin with zeros, two loops that share them, and others beside."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    total, other = tl.load(c_ptr + at), tl.zeros((M, N), tl.float32)
    for s in range(start, K // 2, BK):
        k = s + tl.arange(0, BK)
        a, b = tl.load(a_ptr + i[:, None] * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j[None, :])
        total = tl.dot(a, b, total)
        other = tl.dot(a, b, other)
    for s in range(K // 2, K, BK):
        k = s + tl.arange(0, BK)
        a, b = tl.load(a_ptr + i[:, None] * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + at, total + 2 * other)


@pytest.mark.parametrize("start", [0, 64])
def test_loops_that_follow_each_other(check, start):
    """The first may have no iteration."""
    args = data("f2", 128, 128), data("f2", 128, 32), data("f4", 128, 32), 128, start, 128, 32, 32
    check(sums_of_two, *args, arch=100)


@pytest.mark.parametrize(("n", "columns"), [(32, 64), (512, 512)])
def test_sums_that_find_no_room_move(n, columns):
    """Tensor memory has 512 columns: where sums do not fit beside each other, they are read after each product."""
    args = data("f2", 128, 128), data("f2", 128, n), data("f4", 128, n), 128, 0, 128, n, 32
    text, _ = emulator.llvm_of(module_of(sums_of_two, args)[0], 100, 16, 2)
    assert re.findall(r"tcgen05.alloc\S* \[\$0\], (\d+)", text) == [str(columns)]
    assert ("tcgen05.ld" in text.split("tcgen05.commit")[1]) == (n == 512)


@pytest.mark.parametrize(("two", "x", "y", "y_first", "warps"), [(0, 1, 2, 1, 8), (1, 0, 1, 0, 4)])
def test_dots_in_flight(check, two, x, y, y_first, warps):
    """Sums that stay and sums that move share tensor memory; some products are waited for with later ones."""
    m, n, d = 64 * warps // 4, 96, 32
    args = data("f2", m, d), data("f2", n, d), data("f2", n, d), n, two, x, y, y_first, m, 32, d
    check(rounds_of, *(np.zeros((m, d), "f4") for _ in "xy"), *args, arch=100, warps=warps, tolerance=2e-3)


# --- the emulator itself ----------------------------------------------------------------------------------------------
LANES, FIRST = np.arange(32)[:, None], 448 + np.arange(4)[None, :]


def memory_with(*, waited=True, met=True, fenced=True):
    """Tensor memory of two warps, of which the first has written four columns."""
    shared = Shared(64, warps=2)
    memory = TensorMemory(shared)
    assert memory.alloc(64, 0) == 448
    memory.store(LANES, FIRST, np.uint32(7), 0)
    if waited:
        memory.wait_stores([0])
    if met:
        shared.barrier([0, 1])
    if fenced:
        memory.fence([0, 1])
    return memory


def test_what_was_written_is_seen_behind_a_wait_a_barrier_and_a_fence():
    assert (memory_with().load(LANES, FIRST, 1) == 7).all()
    for missing, message in (("waited", "was waited for"), ("met", "another warp wrote"), ("fenced", "a fence")):
        with pytest.raises(Fault, match=message):
            memory_with(**{missing: False}).load(LANES, FIRST, 1)


def test_products_under_way_are_noticed():
    memory = memory_with()
    memory.shared.start_phases(SHARED_BASE, 1, 0)
    memory.shared.fence_phases(0)
    memory.shared.barrier([0, 1])
    memory.put((0, LANES, FIRST), np.uint32(9), 0)
    with pytest.raises(Fault, match="while a product may change it"):
        memory.load(LANES, FIRST, 0)
    memory.commit(SHARED_BASE, 0)
    with pytest.raises(Fault, match="is freed while"):
        memory.dealloc(448, 64, 0)
    assert memory.finish() and memory.shared.phase_over(SHARED_BASE, 0, 32)
    with pytest.raises(Fault, match="a fence"):
        memory.load(LANES, FIRST, 1)
    memory.fence([1])
    assert (memory.load(LANES, FIRST, 1) == 9).all()


def test_accesses_outside_of_what_is_allocated_are_noticed():
    memory = memory_with()
    with pytest.raises(Fault, match="not allocated"):
        memory.load(LANES, FIRST - 4, 0)
    with pytest.raises(Fault, match="not freed"):
        memory.leave(0)
