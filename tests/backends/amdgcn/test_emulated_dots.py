"""Dots of all types on emulated AMD GPUs: the interpreter computes the same."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.amdgcn import compiled
from tests.backends.gpu import modules, test_block_scaled
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import agree
from tritium import ops
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu import ops as gpu_ops
from tritium.frontend.lower import lower
from tritium.insight import emulator
from tritium.insight.emulator.memory import Memory
from tritium.interp.machine import interpret
from tritium.ir.core import walk


@triton.jit
def product(a_ptr, b_ptr, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, how: tl.constexpr):
    """c += a @ b, both in `steps` parts along K; the sums have the type of c."""
    rows, cols, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    at = c_ptr + rows[:, None] * N + cols[None, :]
    acc = tl.load(at)
    for step in range(steps):
        k = step * K + inner
        a = tl.load(a_ptr + rows[:, None] * (K * steps) + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc, input_precision=how, out_dtype=acc.dtype)
    tl.store(at, acc)


def codes(rng, shape, dtype):
    """Random codes of an 8-bit float, without NaN and infinities."""
    x = rng.integers(0, 256, shape, dtype=np.uint8).view(dtype)
    return np.where(np.isfinite(x.astype(np.float32)), x, np.zeros((), dtype))


def numbers(rng, shape, dtype):
    if dtype == np.int8:
        return rng.integers(-100, 100, shape).astype(dtype)
    return codes(rng, shape, dtype) if dtype.itemsize == 1 else rng.standard_normal(shape).astype(dtype)


def launched(module, args, arch, warps, **options):
    """Run a kernel of one program on an emulated GPU; returns its LLVM text."""
    text, metadata = emulator.llvm_of(module, arch, warps, **options)
    assert emulator.fit(metadata, args, (1, 1, 1))
    target, memory = emulator.target_of(arch), Memory(args)
    threads, machine = target.warp_size * warps, emulator.machine_of(target)
    emulator.execute(text, memory, (1, 1, 1), threads, metadata["shared"], make=machine)
    return text


def instructions(text):
    """The matrix instructions that a kernel calls."""
    return {*re.findall(r"call .*@llvm\.amdgcn\.((?:mfma|wmma)[\w.]+)\(", text)}


def compare(arch, kinds, shape=(32, 32, 32), warps=4, steps=2, how="ieee", tolerance=1e-5, **options):
    """Run a product of these types on an emulated GPU and on the interpreter; returns the matrix instructions."""
    rng, (m, n, k) = np.random.default_rng(1), shape
    a, b = (numbers(rng, size, np.dtype(kind)) for size, kind in zip(((m, steps * k), (steps * k, n)), kinds))
    out = {np.dtype(np.int8): np.int32, np.dtype(np.float64): np.float64}.get(a.dtype, np.float32)
    c = rng.integers(-9, 9, (m, n)).astype(out)
    module, values = module_of(product, (a, b, c, steps, m, n, k, how))
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
    text = launched(module, mine, arch, warps, **options)
    interpret(module, theirs, (1,))
    largest = max(1.0, float(np.abs(theirs[2].astype(np.float64)).max()))
    agree([theirs[2] / largest], [mine[2] / largest], tolerance)
    return instructions(text)


F16, BF16, F32, F64, I8 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8
E4, E5 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
E4Z, E5Z = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz
CASES = [
    ("gfx90a", (F16, F16), "mfma.f32.16x16x16f16"),
    ("gfx90a", (BF16, BF16), "mfma.f32.16x16x16bf16.1k"),
    ("gfx90a", (E4, E4), "mfma.f32.16x16x16f16"),
    ("gfx90a", (E4, E5), "mfma.f32.16x16x16bf16.1k"),
    ("gfx90a", (I8, I8), "mfma.i32.16x16x16i8"),
    ("gfx90a", (F32, F32), "mfma.f32.16x16x4f32"),
    ("gfx90a", (F64, F64), "mfma.f64.16x16x4f64"),
    ("gfx942", (F16, F16), "mfma.f32.16x16x16f16"),
    ("gfx942", (E4Z, E5Z), "mfma.f32.16x16x32.bf8.fp8"),
    ("gfx942", (E5, E4), "mfma.f32.16x16x16f16"),
    ("gfx942", (E4Z, E4), "mfma.f32.16x16x16f16"),
    ("gfx942", (I8, I8), "mfma.i32.16x16x32.i8"),
    ("gfx950", (F16, F16), "mfma.f32.16x16x32.f16"),
    ("gfx950", (BF16, BF16), "mfma.f32.16x16x32.bf16"),
    ("gfx950", (E4, E5), "mfma.f32.16x16x32.bf8.fp8"),
    ("gfx950", (E4Z, E5Z), "mfma.f32.16x16x32.f16"),
    ("gfx1100", (F16, F16), "wmma.f32.16x16x16.f16.v8f32.v16f16"),
    ("gfx1100", (BF16, BF16), "wmma.f32.16x16x16.bf16.v8f32.v16i16"),
    ("gfx1100", (E5Z, E5Z), "wmma.f32.16x16x16.f16.v8f32.v16f16"),
    ("gfx1100", (I8, I8), "wmma.i32.16x16x16.iu8.v8i32.v4i32"),
    ("gfx1201", (F16, F16), "wmma.f32.16x16x16.f16.v8f32.v8f16"),
    ("gfx1201", (BF16, BF16), "wmma.f32.16x16x16.bf16.v8f32.v8i16"),
    ("gfx1201", (E5, E4), "wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32"),
    ("gfx1201", (I8, I8), "wmma.i32.16x16x16.iu8.v8i32.v2i32"),
]


@pytest.mark.parametrize(("arch", "kinds", "name"), CASES,
                         ids=lambda x: x if isinstance(x, str) else "-".join(np.dtype(t).name for t in x))  # fmt: skip
def test_a_product_of_each_type(arch, kinds, name):
    assert compare(arch, kinds) == {name}


def test_wide_instructions_of_gfx950():
    assert compare("gfx950", (E4, E5), (32, 32, 128), steps=1) == {"mfma.scale.f32.16x16x128.f8f6f4.v8i32.v8i32"}
    assert compare("gfx950", (I8, I8), (64, 64, 64), steps=1) == {"mfma.i32.32x32x32.i8"}


def test_tf32_and_its_split_on_gfx942():
    assert compare("gfx942", (F32, F32), how="tf32", tolerance=4e-3) == {"mfma.f32.16x16x8.xf32"}
    assert compare("gfx942", (F32, F32), how="bf16x3", tolerance=1e-4) == {"mfma.f32.16x16x16bf16.1k"}


@pytest.mark.parametrize("options", [{"matrix_instr_nonkdim": 16}, {"matrix_instr_nonkdim": 32, "kpack": 2}])
def test_launch_options(options):
    size = options["matrix_instr_nonkdim"]
    shape = {16: "16x16x16", 32: "32x32x8"}[size]
    assert compare("gfx942", (F16, F16), (32, 64, 32), warps=2, **options) == {f"mfma.f32.{shape}f16"}


@pytest.mark.parametrize(("arch", "kinds"), [("gfx942", (F16, F16)), ("gfx1100", (E5Z, E4)), ("gfx942", (E5Z, E5Z))])
def test_threads_multiply_small_tiles(arch, kinds):
    assert compare(arch, kinds, (8, 16, 16)) == set()


@triton.jit
def chained(a_ptr, b_ptr, d_ptr, c_ptr, M: tl.constexpr, K: tl.constexpr):
    """c = (a @ b) @ d, rounded to f16 between."""
    rows, inner = tl.arange(0, M), tl.arange(0, K)
    at, square = rows[:, None] * K + inner[None, :], inner[:, None] * K + inner[None, :]
    first = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + square))
    tl.store(c_ptr + at, tl.dot(first.to(tl.float16), tl.load(d_ptr + square)))


@pytest.mark.parametrize(("arch", "nonkdim", "exchanged"), [
    ("gfx942", 16, ()), ("gfx942", 32, ()), ("gfx950", 16, (16, 32)), ("gfx950", 32, (32,)), ("gfx1201", 0, ()),
])  # fmt: skip
def test_a_dot_of_a_dot_needs_no_shared_memory_between(arch, nonkdim, exchanged):
    """Where the fragments are wider than the result's, the two halves of lanes exchange registers."""
    rng = np.random.default_rng(2)
    a, b, d = (rng.integers(-3, 4, shape).astype(F16) for shape in ((64, 32), (32, 32), (32, 32)))
    module, values = module_of(chained, (a, b, d, np.zeros((64, 32), F32), 64, 32))
    mine, theirs = ([x.copy() for x in values] for _ in range(2))
    text = launched(module, mine, arch, 2, matrix_instr_nonkdim=nonkdim)
    interpret(module, theirs, (1,))
    np.testing.assert_array_equal(mine[3], theirs[3])
    assert {int(x) for x in re.findall(r"call .*permlane(\d+)\.swap", text)} == {*exchanged}
    found = compiled.tiles(module, arch, num_warps=2, matrix_instr_nonkdim=nonkdim)
    staged = [op.operands[0].kind for op in walk(found.body) if op.kind is gpu_ops.convert and "shared" in op.attrs]
    assert ops.load in staged and ops.cast not in staged


# --- block scales -----------------------------------------------------------------------------------------------------
def scaled(monkeypatch, arch, formats, m, n, block, warps, **options):
    """Run a `dot_scaled` in a loop on an emulated GPU and on the interpreter; returns the matrix instructions."""
    args = test_block_scaled.of_scaled(*formats, 32, m, n, block)
    plain, values = module_of(test_block_scaled.scaled, args)
    target = GPUTarget.parse(f"hip:{arch}")
    monkeypatch.setattr(modules, "lower", lambda *parts: lower(*parts, target=target))
    module, _ = module_of(test_block_scaled.scaled, args)
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
    text = launched(module, mine, arch, warps, **options)
    interpret(plain, theirs, (1,))
    agree(theirs, mine)
    return instructions(text)


@pytest.mark.parametrize(("formats", "m", "n", "block", "warps", "nonkdim", "name"), [
    (("e4m3", "e5m2"), 32, 32, 128, 2, 0, "16x16x128.f8f6f4.v8i32.v8i32"),
    (("e2m1", "e2m1"), 64, 32, 256, 1, 16, "16x16x128.f8f6f4.v4i32.v4i32"),  # two steps, two pieces
    (("e2m1", "e2m1"), 64, 64, 128, 4, 0, "32x32x64.f8f6f4.v4i32.v4i32"),
    (("e4m3", "e2m1"), 64, 64, 64, 2, 0, "32x32x64.f8f6f4.v4i32.v8i32"),
])  # fmt: skip
def test_operands_with_block_scales(monkeypatch, formats, m, n, block, warps, nonkdim, name):
    found = scaled(monkeypatch, "gfx950", formats, m, n, block, warps, matrix_instr_nonkdim=nonkdim)
    assert found == {f"mfma.scale.f32.{name}"}


def test_block_scales_that_no_instruction_takes_are_multiplied_first(monkeypatch):
    assert scaled(monkeypatch, "gfx942", ("e4m3", "e2m1"), 32, 32, 64, 4) == {"mfma.f32.16x16x16bf16.1k"}
    assert scaled(monkeypatch, "gfx950", ("e4m3", "e4m3"), 16, 32, 64, 2) == {"mfma.f32.16x16x32.bf16"}
