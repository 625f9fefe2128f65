"""Atomics of tiles with masks: bounds of buffers leave elements out, where a family has the instruction."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn.compiled import TARGETS, assembly, compiled
from tests.backends.gpu.modules import module_of

rng = np.random.default_rng(17)


@triton.jit
def updated(x, y, old, n, N: tl.constexpr, how: tl.constexpr, sem: tl.constexpr, scope: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i, mask=i < n)
    if how == "add":
        was = tl.atomic_add(y + i % 40, v, mask=i < n, sem=sem, scope=scope)
    elif how == "xchg":
        was = tl.atomic_xchg(y + i, v, mask=i < n, sem=sem, scope=scope)
    elif how == "max":
        was = tl.atomic_max(y + i % 40, v, mask=i < n, sem=sem, scope=scope)
    elif how == "min":
        was = tl.atomic_min(y + i % 40, v, mask=i < n, sem=sem, scope=scope)
    else:
        was = tl.atomic_xor(y + i % 40, v, mask=i < n, sem=sem, scope=scope)
    if how == "xchg":
        tl.store(old + i, was, mask=i < n)


def arguments(dtype, how, sem="relaxed", scope="gpu", n=200):
    values = (100 * rng.standard_normal(256)).astype(dtype)
    return [values, (50 * rng.standard_normal(256)).astype(dtype), np.zeros(256, dtype), n, 128, how, sem, scope]


DTYPES = [np.int32, np.uint32, np.int64, np.uint64]
CASES = [(dtype, how) for dtype in DTYPES for how in ("add", "xchg", "max", "min", "xor")]
CASES += [(dtype, how) for dtype in (np.float32, np.float64) for how in ("add", "xchg", "max", "min")]


@pytest.mark.parametrize(("dtype", "how"), CASES)
def test_results(check, dtype, how):
    """Two programs, the second of which has fewer elements; several update one place."""
    check(updated, *arguments(dtype, how), grid=(2,), warps=2, tolerance=1e-5)


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
def test_orders(check, sem):
    check(updated, *arguments(np.int32, "xchg", sem), grid=(2,), warps=2)


@triton.jit
def pairs(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(y + i, tl.load(x + i), mask=i < (n // 8) * 8, sem="relaxed")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_pairs(check, dtype):
    check(pairs, rng.standard_normal(512).astype(dtype), rng.standard_normal(512).astype(dtype), 400, 512, warps=2)


def instructions(dtype, how, arch, **given):
    module, _ = module_of(updated, arguments(dtype, how, **given))
    text = assembly(module, arch, num_warps=1)
    return re.findall(r"\b(buffer|global|flat)_atomic_(\w+)(.*)", text), text


@pytest.mark.parametrize(("arch", "dtype", "how", "name"), [
    ("gfx90a", np.int32, "add", "add"), ("gfx942", np.float32, "add", "add_f32"), ("gfx950", np.int32, "max", "smax"),
    ("gfx1100", np.uint32, "min", "min_u32"), ("gfx1201", np.float32, "add", "add_f32"),
    ("gfx942", np.int64, "xor", "xor_x2"), ("gfx1100", np.int64, "xchg", "swap_b64"),
    ("gfx90a", np.float64, "add", "add_f64"),
])  # fmt: skip
def test_masks_are_bounds(arch, dtype, how, name):
    """One instruction for each element of a thread, and no branch."""
    found, text = instructions(dtype, how, arch)
    assert {(where, what) for where, what, _ in found} == {("buffer", name)} and "s_cbranch" not in text
    assert "saveexec" not in text


@pytest.mark.parametrize(("arch", "dtype", "how", "given"), [
    ("gfx942", np.int32, "add", {"scope": "sys"}),  # memory that others see at once
    ("gfx1100", np.float64, "add", {}),  # no instruction: a loop
])  # fmt: skip
def test_what_has_no_buffer_instruction(arch, dtype, how, given):
    found, text = instructions(dtype, how, arch, **given)
    assert found and "buffer" not in {where for where, *_ in found} and "saveexec" in text


@pytest.mark.parametrize(("arch", "pair"), [("gfx90a", False), ("gfx942", False), ("gfx950", True), ("gfx1201", True)])
def test_pairs_of_bfloat16(arch, pair):
    """CDNA3 adds them in global memory alone."""
    zeros = np.zeros(512, ml_dtypes.bfloat16)
    text = assembly(module_of(pairs, [zeros, zeros, 400, 512])[0], arch, num_warps=1)
    assert ("buffer_atomic_pk_add_bf16" in text) == pair


def test_old_values_are_brought_if_somebody_reads_them():
    kept, _ = instructions(np.int32, "xchg", "gfx942")
    dropped, _ = instructions(np.int32, "add", "gfx942")
    assert all("sc0" in flags for *_, flags in kept) and not any("sc0" in flags for *_, flags in dropped)


@pytest.mark.parametrize("arch", TARGETS)
def test_fences_give_them_order(arch):
    """A fence before and one behind each, as LLVM puts around ordered instructions; none where it is relaxed."""
    fences = lambda sem: re.findall(r"fence (\S+) (acquire|release)\b", compiled(
        module_of(updated, arguments(np.int32, "add", sem))[0], arch, num_warps=1)[0]["llir"])  # fmt: skip
    ordered = fences("acq_rel")
    assert ordered and [how for _, how in ordered] == ["release", "acquire"] * (len(ordered) // 2)
    assert {scope for scope, _ in ordered} == {'syncscope("agent")'} and not fences("relaxed")


def test_the_whole_device_sees_them():
    """From generation 12 on an access says how far it must be seen."""
    found, _ = instructions(np.int32, "add", "gfx1201")
    assert all("scope:SCOPE_DEV" in flags for *_, flags in found)
