"""Copies straight to shared memory (gfx950) as those of software pipelines: where they are made, waits, results."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import assembly, compiled, tiles
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import agree
from tritium import knobs, ops
from tritium.backends.amdgcn.isa import direct_copies
from tritium.backends.gpu import ops as gpu_ops
from tritium.backends.gpu.layout.linear import image
from tritium.backends.gpu.layout.swizzle import lane_ordered, swizzled
from tritium.insight import emulator
from tritium.insight.emulator.faults import Fault
from tritium.interp.machine import interpret
from tritium.ir.core import walk

rng = np.random.default_rng(950)


@triton.jit
def product(a, b, c, K, rows, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, across: tl.constexpr):
    """a @ b.T, both contiguous along K; `across`: b is contiguous across it."""
    i, j, kk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + (k + kk)[None, :], mask=(i < rows)[:, None] & (k + kk < K)[None, :], other=0)
        if across:
            y = tl.load(b + j[None, :] + (k + kk)[:, None] * N, mask=(k + kk < K)[:, None], other=0)
        else:
            y = tl.load(b + j[None, :] * K + (k + kk)[:, None], mask=(k + kk < K)[:, None], other=0)
        total = tl.dot(x, y, total, out_dtype=tl.float32)
    tl.store(c + i[:, None] * N + j[None, :], total)


def arguments(M=64, N=64, K=208, BK=32, dtype=np.float16, rows=50, across=False):
    a, b = (rng.standard_normal(n * K).astype(dtype) for n in (M, N))
    return [a, b, np.zeros((M, N), np.float32), K, rows, M, N, BK, across]


def module(**given):
    return module_of(product, arguments(**given))[0]


def kinds(made):
    return [op.kind for op in walk(made.body)]


# --- results ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("given", "warps", "stages"), [
    ({}, 4, 2), ({}, 4, 3), ({}, 2, 4), ({"K": 16}, 4, 3), ({"K": 32, "BK": 64}, 1, 2), ({"dtype": np.float32}, 4, 3),
    ({"dtype": ml_dtypes.bfloat16, "BK": 64}, 8, 3), ({"dtype": ml_dtypes.float8_e4m3fn, "BK": 64}, 2, 3),
    ({"M": 16, "N": 128, "rows": 9}, 4, 3), ({"M": 16, "N": 16, "rows": 16}, 4, 4),
])  # fmt: skip
def test_results(given, warps, stages):
    """Of loops whose last iteration has fewer elements, of tiles with masked rows, and with idle warps."""
    made, args = module_of(product, arguments(**given))
    assert gpu_ops.async_load in kinds(tiles(made, "gfx950", num_warps=warps, num_stages=stages))
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
    emulator.run(made, mine, (1,), "gfx950", num_warps=warps, num_stages=stages)
    interpret(made, theirs, (1,))
    agree(theirs, mine, 1e-5)


# --- where they are made ----------------------------------------------------------------------------------------------
def body_of(text):
    """The instructions of the loop with matrix instructions."""
    for branch in re.finditer(r"s_(?:c)?branch\w* (\.LBB\d+_\d+)", text):
        start = text.find(f"{branch[1]}:")
        if 0 <= start < branch.start() and "v_mfma" in text[start : branch.start()]:
            return text[start : branch.start()]
    raise AssertionError("there is no such loop")


@pytest.mark.parametrize(("stages", "pending"), [(2, 0), (3, 2), (4, 4)])
def test_loads_go_to_shared_memory_and_later_ones_stay_under_way(stages, pending):
    """Two copies in each iteration, nothing written from registers, and one wait for loads."""
    loop = body_of(assembly(module(), "gfx950", num_stages=stages))
    assert loop.count(" lds\n") == 2 == loop.count("buffer_load_dwordx4") and "ds_write" not in loop
    assert re.findall(r"vmcnt\((\d+)\)", loop) == [str(pending)] and loop.count("s_barrier") == 1


def test_copies_that_some_warps_do_not_make_are_awaited():
    """Of 16 rows by 32 columns, one warp copies all: the others have fewer copies under way, so none may be."""
    text = assembly(module(M=16, N=128, rows=16), "gfx950", num_stages=3)
    assert set(re.findall(r"vmcnt\((\d+)\)", body_of(text))) == {"2"}  # of the other operand alone


@pytest.mark.parametrize(("arch", "given", "options"), [
    ("gfx942", {}, {}),  # it has copies of four bytes only
    ("gfx950", {"across": True}, {}),  # the operand is transposed in registers
    ("gfx950", {"K": 200}, {}),  # masks cut words
    ("gfx950", {}, {"launch_checks": False}),  # offsets may not fit into a buffer
])  # fmt: skip
def test_else_tiles_wait_in_registers(arch, given, options):
    made = tiles(module(**given), arch, num_stages=3, **options)
    assert gpu_ops.async_load not in kinds(made) and kinds(made).count(ops.load) == 4
    assert sum(op.kind is ops.load for op in made.body.ops) == 2  # those of the first iteration


def test_without_buffers_there_are_none():
    knobs.amd.use_buffer_ops = False
    assert "load.lds" not in compiled(module(), "gfx950")[0]["llir"]


def test_what_finds_no_room_in_shared_memory_is_prefetched():
    """Two stages of 128 by 512 elements twice would take 512 KiB."""
    made = tiles(module(M=128, N=128, K=1024, BK=512), "gfx950", num_warps=8, num_stages=2)
    assert gpu_ops.async_load not in kinds(made)


# --- how they are made ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("shape", "axis", "size"), [
    ((64, 64), 1, 2), ((32, 128), 0, 2), ((128, 32), 1, 4), ((256,), 0, 1),
])  # fmt: skip
def test_lanes_follow_each_other_in_the_buffer(shape, axis, size):
    images, _ = swizzled(shape, axis, size)
    layout = lane_ordered(shape, axis, size, 16 // size, 2, 64)
    place = lambda reg, lane, warp: image(images, layout.element(reg, lane, warp))
    bytes_ = np.prod(shape) * size
    for lane in range(min(64, bytes_ // 16)):
        assert [place(reg, lane, 0) for reg in range(16 // size)] == list(range(16 * lane, 16 * lane + 16, size))
    held = {place(reg, lane, warp) for reg in range(layout.registers) for lane in range(64) for warp in range(2)}
    assert len(held) == np.prod(shape)


def test_llvm_is_told_that_reads_are_of_other_tiles():
    text = compiled(module(), "gfx950", num_stages=3)[0]["llir"]
    reads = [line for line in text.splitlines() if re.search(r"\b(load|store) .*ptr addrspace\(3\)", line)]
    assert reads and all("!noalias !999997" in line for line in reads)
    copies = [line for line in text.splitlines() if "call void @llvm.amdgcn.raw.ptr.buffer.load.lds" in line]
    assert len(copies) == 6 and all("!alias.scope !999997" in line for line in copies)
    assert "999997" not in compiled(module(across=True), "gfx950")[0]["llir"]


@pytest.mark.parametrize("extra", [None, 1])
def test_the_emulator_sees_missing_waits(monkeypatch, extra):
    """None at all, and one for one copy too few."""
    wait = direct_copies.wait_for
    less = lambda g, loads: wait(g, loads=loads + extra) if extra else None
    monkeypatch.setattr(direct_copies, "wait_for", less)
    made, args = module_of(product, arguments())
    with pytest.raises(Fault, match="read while a copy into it is under way"):
        emulator.run(made, args, (1,), "gfx950", num_warps=4, num_stages=3)
