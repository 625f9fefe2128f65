"""The instructions that AMD kernels are made of, family by family."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import TARGETS, assembly, compiled
from tests.backends.gpu.modules import module_of
from tritium import knobs, ops
from tritium.backends.amdgcn.isa.shuffles import controls
from tritium.backends.gpu import ops as gpu_ops
from tritium.ir.core import Arg, Op, walk
from tritium.ir.preconditions import preconditions_of
from tritium.kernels.vector_add import add_kernel

f32 = lambda n: np.zeros(n, np.float32)


def count(text, pattern):
    return len(re.findall(rf"^\s*{pattern}", text, re.MULTILINE))


# --- shuffles ---------------------------------------------------------------------------------------------------------
@triton.jit
def summed(x, y, N: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, N)), 0))


@pytest.mark.parametrize(("arch", "moves", "others"), [
    ("gfx90a", ["quad_perm:[1,0,3,2]", "quad_perm:[2,3,0,1]", "row_half_mirror", "row_ror:8"],
     ["ds_swizzle_b32", "ds_bpermute_b32"]),
    ("gfx950", ["quad_perm:[1,0,3,2]", "row_half_mirror", "row_ror:8"],
     ["v_permlane16_swap_b32", "v_permlane32_swap_b32"]),
    ("gfx1201", ["quad_perm:[2,3,0,1]", "row_xmask:4", "row_xmask:8"], ["v_permlanex16_b32"]),
])  # fmt: skip
def test_lanes_of_a_row_exchange_within_an_operation(arch, moves, others):
    module, _ = module_of(summed, [f32(64), f32(1), 64])
    text = assembly(module, arch, num_warps=1)
    assert all(move in text for move in moves) and all(count(text, name) == 1 for name in others)
    assert "v_add_f32_dpp" in text and count(text, "ds_") == sum(name.startswith("ds_") for name in others)


@pytest.mark.parametrize("mask", range(1, 16))
def test_moves_within_a_row_of_sixteen(mask):
    """What the controls say, one after the other, is the lane whose number differs by the mask."""
    reads = {0x140: lambda k: 15 - k, 0x141: lambda k: k ^ 7, 0x128: lambda k: (k - 8) % 16}
    for lane in range(16):
        at = lane
        for control in reversed(controls(mask)):
            at = reads[control](at) if control in reads else at & ~3 | control >> 2 * (at & 3) & 3
        assert at == lane ^ mask


# --- buffers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arch", TARGETS)
def test_masks_are_bounds_of_buffers(arch):
    module, _ = module_of(add_kernel, [f32(1000), f32(1000), f32(1000), 1000, 1024])
    text = assembly(module, arch)
    assert count(text, "buffer_load_") == 2 * count(text, "buffer_store_") > 0
    assert not count(text, "global_") and not count(text, "s_cbranch")


@triton.jit
def shifted(x, y, by, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i + by, mask=i + by < N, other=7), mask=i < N - 1)


@triton.jit
def unknown(x, index, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + tl.load(index + i), mask=i < N - 1))


def test_offsets_must_be_known_to_fit():
    """Offsets come from arguments and the grid, for the launcher to look at; else there are branches."""
    module, _ = module_of(shifted, [f32(64), f32(64), 3, 64])
    stages, metadata = compiled(module, "gfx942")
    assert stages["llir"].count("call i32 @llvm.amdgcn.raw.ptr.buffer.load") == 1
    assert preconditions_of(metadata).nonnegative
    assert "raw.ptr.buffer.load" not in compiled(module, "gfx942", launch_checks=False)[0]["llir"]
    module, _ = module_of(unknown, [f32(64), np.zeros(64, np.int32), f32(64), 64])
    text = assembly(module, "gfx942", num_warps=1)
    assert count(text, "buffer_load") == 1 == count(text, "global_load") and "s_and_saveexec" in text


def test_buffers_can_be_switched_off():
    module, _ = module_of(shifted, [f32(64), f32(64), 3, 64])
    knobs.amd.use_buffer_ops = False
    assert "raw.ptr.buffer" not in compiled(module, "gfx942")[0]["llir"]


@triton.jit
def hinted(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0.0, cache_modifier=".cg")
    tl.store(y + i, v, mask=i < n, eviction_policy="evict_first")


@pytest.mark.parametrize(("arch", "load", "store"), [
    ("gfx90a", "glc", "slc"), ("gfx942", "sc0", "nt"), ("gfx1100", "glc", "slc"),
    ("gfx1201", "scope:SCOPE_DEV", "th:TH_STORE_NT"),
])  # fmt: skip
def test_hints_for_caches_and_zeros_for_masked_elements(arch, load, store):
    """A buffer gives zeros by itself: nothing is selected after the load."""
    module, _ = module_of(hinted, [f32(64), f32(64), 50, 64])
    text = assembly(module, arch, num_warps=1)
    assert re.search(rf"buffer_load.* {load}$", text, re.MULTILINE), text
    assert re.search(rf"buffer_store.* {store}$", text, re.MULTILINE)
    assert "cndmask" not in text.rpartition("buffer_load")[2]


# --- atomics ----------------------------------------------------------------------------------------------------------
@triton.jit
def added(x, y, N: tl.constexpr, scope: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(y + i, tl.load(x + i), sem="relaxed", scope=scope)


@pytest.mark.parametrize(("arch", "dtype", "scope", "name"), [
    ("gfx90a", np.float32, "gpu", "add_f32"), ("gfx90a", np.float16, "gpu", "pk_add_f16"),
    ("gfx942", ml_dtypes.bfloat16, "gpu", "pk_add_bf16"), ("gfx1100", np.float32, "gpu", "add_f32"),
    ("gfx1201", np.float16, "gpu", "pk_add_f16"), ("gfx90a", np.float32, "sys", "cmpswap"),
])  # fmt: skip
def test_sums_are_one_instruction(arch, dtype, scope, name):
    """Memory that other devices see may be of a kind whose caches add no floats: there it is a loop."""
    module, _ = module_of(added, [np.zeros(128, dtype), np.zeros(128, dtype), 128, scope])
    text = assembly(module, arch, num_warps=1)
    assert set(re.findall(r"global_atomic_(\w+)", text)) == {name}


@triton.jit
def timed(x):
    tl.store(x, tl.extra.cuda.globaltimer())


def test_time_is_in_nanoseconds():
    """The counter has 100 MHz."""
    module, _ = module_of(timed, [np.zeros(1, np.int64)])
    assert "s_memrealtime" in assembly(module, "gfx942")
    assert re.search(r"mul i64 %\S+, 10\b", compiled(module, "gfx1201")[0]["llir"])


# --- functions and conversions ----------------------------------------------------------------------------------------
@triton.jit
def functions(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(y + i, tl.exp(v) + tl.exp2(v) + tl.log(v) + tl.log2(v) + tl.sqrt(v) + tl.rsqrt(v))


def test_functions_with_an_instruction():
    module, _ = module_of(functions, [f32(64), f32(64), 64])
    text = assembly(module, "gfx942", num_warps=1)
    found = {name: count(text, f"v_{name}_f32") for name in ("exp", "log", "sqrt", "rsq")}
    assert found == {"exp": 2, "log": 1, "sqrt": 1, "rsq": 1}  # both logarithms are of one number


@triton.jit
def there_and_back(x, y, N: tl.constexpr, to: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(to).to(tl.float32) + 1)


@pytest.mark.parametrize(("arch", "to", "name"), [
    ("gfx942", tl.float8e4b8, "fp8"), ("gfx942", tl.float8e5b16, "bf8"), ("gfx950", tl.float8e4nv, "fp8"),
    ("gfx1201", tl.float8e4nv, "fp8"), ("gfx942", tl.float8e4nv, None), ("gfx90a", tl.float8e5, None),
])  # fmt: skip
def test_8_bit_floats_convert_in_pairs(arch, to, name):
    module, _ = module_of(there_and_back, [f32(256), f32(256), 256, to])
    text = assembly(module, arch, num_warps=1)
    found = [count(text, "v_cvt_pk_f32_fp8|v_cvt_pk_f32_bf8"), count(text, "v_cvt_pk_fp8_f32|v_cvt_pk_bf8_f32")]
    assert all(found) if name else not any(found)
    if name:
        assert f"v_cvt_pk_f32_{name}" in text and f"v_cvt_pk_{name}_f32" in text


def test_two_floats_become_bf16_at_once():
    module, _ = module_of(there_and_back, [f32(256), f32(256), 256, tl.bfloat16])
    assert count(assembly(module, "gfx950", num_warps=1), "v_cvt_pk_bf16_f32") == 2


# --- barriers ---------------------------------------------------------------------------------------------------------
@triton.jit
def turned(x, y, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(y + j * N + i, tl.load(x + i * N + j))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201"])
def test_barriers_wait_for_shared_memory_alone(arch):
    """Loads from global memory may be under way: what they bring is awaited where it is used."""
    module, _ = module_of(turned, [f32(4096), f32(4096), 64])
    text = assembly(module, arch)
    assert count(text, "s_barrier") and not re.search(r"_gl0_inv|buffer_inv|global_inv", text)


# --- loops ------------------------------------------------------------------------------------------------------------
@triton.jit
def product(a, b, c, K, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for k in range(0, K, N):
        total = tl.dot(tl.load(a + i * K + k + j), tl.load(b + (k + i) * N + j), total)
    tl.store(c + i * N + j, total)


@pytest.mark.parametrize("stages", [1, 2])
def test_tiles_of_the_next_iteration_are_loaded_while_this_one_multiplies(stages):
    """Two loads stand before the loop; a dot's operands are what came an iteration ago."""
    f16 = lambda n: np.zeros(n, np.float16)
    module, _ = module_of(product, [f16(4096), f16(4096), f32(1024), 128, 32])
    body = compiled(module, "gfx942", num_stages=stages)[0]["ttgir"].body
    names = lambda block: [op.kind.name for op in block.ops]
    inside = names(next(op.regions[0] for op in body.ops if op.kind is ops.for_))
    assert names(body).count("load") == (2 if stages == 2 else 0) and inside.count("load") == 2
    (dot,) = (op for op in walk(body) if op.kind is ops.dot)
    tiles = [x.operands[0] if type(x) is Op and x.kind is gpu_ops.convert else x for x in dot.operands[:2]]
    assert all(type(x) is (Arg if stages == 2 else Op) for x in tiles)
