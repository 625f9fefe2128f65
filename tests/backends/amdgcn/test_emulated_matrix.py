"""AMD's matrix products in the emulator: where AMD's documents place elements, and products that NumPy makes, too."""

import re
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tritium.insight.emulator.amd import fragments, matrix
from tritium.insight.emulator.faults import Fault, Unknown

RNG = np.random.default_rng(5)


class Warp(SimpleNamespace):
    """As much of a machine as a matrix product needs: one warp."""

    def __init__(self, arch, threads, generation, active=True):
        super().__init__(arch=arch, threads=threads, warp_size=threads, generation=generation)
        self.active, self.lanes = np.full(threads, active), np.arange(threads)

    def warps_of(self, guard, what):
        if not guard.all():
            raise Fault(f"{what} that not all lanes of a warp reach")
        return [0]


CDNA2, CDNA3, CDNA4 = (Warp(arch, 64, 9) for arch in ("gfx90a", "gfx942", "gfx950"))
RDNA3, RDNA4 = Warp("gfx1100", 32, 11), Warp("gfx1201", 32, 12)


def call(m, name, result, *inputs):
    """What an intrinsic gives."""
    make, found = next((make, hit) for pattern, make in matrix.TABLE if (hit := re.fullmatch(pattern, name)))
    wide = [np.full(m.threads, x) if np.ndim(x) == 0 else x for x in inputs]
    return make(m, result, [lambda x=x: x for x in wide], *found.groups())()


def held(x, place):
    """[lane, element] of a matrix [outer, inner, block] that lies as `place` says."""
    return np.ascontiguousarray(x[place.outer, place.inner, place.block])


def random(shape, dtype):
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(-100, 100, shape).astype(dtype)
    return RNG.integers(-8, 8, shape).astype(np.float32).astype(dtype)  # sums are exact


F16, BF16, F32, F64, I8 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8
FNUZ, OCP, BF8 = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
MFMA = [  # machine, name, rows, K, blocks, types
    (CDNA2, "f32.32x32x8f16", 32, 8, 1, F16, F16),
    (CDNA2, "f32.16x16x16f16", 16, 16, 1, F16, F16),
    (CDNA2, "f32.32x32x4f16", 32, 4, 2, F16, F16),
    (CDNA2, "f32.16x16x4f16", 16, 4, 4, F16, F16),
    (CDNA2, "f32.4x4x4f16", 4, 4, 16, F16, F16),
    (CDNA2, "f32.32x32x8bf16.1k", 32, 8, 1, BF16, BF16),
    (CDNA2, "f32.16x16x8bf16", 16, 8, 1, BF16, BF16),
    (CDNA2, "f32.32x32x2f32", 32, 2, 1, F32, F32),
    (CDNA2, "f32.32x32x1f32", 32, 1, 2, F32, F32),
    (CDNA2, "f32.16x16x4f32", 16, 4, 1, F32, F32),
    (CDNA2, "i32.16x16x16i8", 16, 16, 1, I8, I8),
    (CDNA2, "f64.16x16x4f64", 16, 4, 1, F64, F64),
    (CDNA2, "f64.4x4x4f64", 4, 4, 4, F64, F64),
    (CDNA3, "f32.16x16x8.xf32", 16, 8, 1, F32, F32),
    (CDNA3, "i32.32x32x16.i8", 32, 16, 1, I8, I8),
    (CDNA3, "f32.32x32x16.fp8.bf8", 32, 16, 1, FNUZ, ml_dtypes.float8_e5m2fnuz),
    (CDNA4, "f32.16x16x32.fp8.fp8", 16, 32, 1, OCP, OCP),
    (CDNA4, "f32.32x32x16.bf16", 32, 16, 1, BF16, BF16),
    (CDNA4, "i32.16x16x64.i8", 16, 64, 1, I8, I8),
]


@pytest.mark.parametrize(("m", "name", "rows", "depth", "blocks", "of_a", "of_b"), MFMA, ids=[x[1] for x in MFMA])
def test_mfma(m, name, rows, depth, blocks, of_a, of_b):
    a, b = random((rows, depth, blocks), of_a), random((rows, depth, blocks), of_b)
    out = {"f32": F32, "i32": np.uint32, "f64": F64}[name[:3]]
    c = random((rows, rows, blocks), np.int32 if out == np.uint32 else out)
    side = fragments.mfma_operand(rows, depth, blocks)
    sums = fragments.mfma_accumulator(rows, blocks, out == F64)
    inputs = [held(a, side), held(b, side), held(c, sums)]
    made = call(m, f"llvm.amdgcn.mfma.{name}", "<4 x float>", *inputs, 0, 0, 0)
    wide = [x.astype(np.float64 if out != np.uint32 else np.int64) for x in (a, b, c)]
    wanted = np.einsum("ikb,jkb->ijb", *wide[:2]) + wide[2]
    got = np.zeros_like(wanted)
    got[sums.outer, sums.inner, sums.block] = made.view(np.int32) if out == np.uint32 else made
    np.testing.assert_array_equal(got, wanted)


def test_negated_operands_in_f64():
    """Of CDNA3 on, the bits of the last flag negate A, B and C."""
    inputs = np.ones((64, 1)), np.ones((64, 1)), np.ones((64, 4))
    name = "llvm.amdgcn.mfma.f64.16x16x4f64"
    assert (call(CDNA3, name, "<4 x double>", *inputs, 0, 0, 1) == -3).all()
    assert (call(CDNA3, name, "<4 x double>", *inputs, 0, 0, 4) == 3).all()
    with pytest.raises(Unknown):
        call(CDNA2, name, "<4 x double>", *inputs, 0, 0, 1)


def test_xf32_has_ten_bits_of_mantissa():
    one = np.full((64, 2), 1 + 2**-10 + 2**-14, F32)
    made = call(CDNA3, "llvm.amdgcn.mfma.f32.16x16x8.xf32", "<4 x float>", one, np.ones((64, 2), F32),
                np.zeros((64, 4), F32), 0, 0, 0)
    assert (made == 8 * (1 + 2**-10)).all()


@pytest.mark.parametrize(("rows", "depth"), [(32, 64), (16, 128)])
@pytest.mark.parametrize(("kinds", "types", "bits"), [
    ((0, 1), (OCP, BF8), (8, 8)),
    ((4, 0), (ml_dtypes.float4_e2m1fn, OCP), (4, 8)),
    ((2, 3), (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn), (6, 6)),
])
def test_scaled_mfma(rows, depth, kinds, types, bits):
    """Operands of 4, 6 and 8 bits, with a scale for each 32 along K."""
    operands = [RNG.integers(-2, 3, (rows, depth, 1)).astype(F32).astype(t) for t in types]
    powers = RNG.integers(125, 130, (2, rows, depth // 32))
    registers, scales = [], []
    for x, kind, n, power in zip(operands, kinds, bits, powers):
        codes = held(x, fragments.mfma_operand(rows, depth, 1, halves=kind < 2)).view(np.uint8)
        flat = np.unpackbits(codes[:, :, None], axis=2, bitorder="little")[:, :, :n].reshape(64, -1)
        registers.append(np.packbits(flat, axis=1, bitorder="little").view(np.uint32))
        lanes = np.zeros(64, np.uint32)
        lanes[fragments.mfma_scale(rows)] = power << 8  # the second byte is selected
        scales.append(lanes)
    sums = fragments.mfma_accumulator(rows)
    name = f"llvm.amdgcn.mfma.scale.f32.{rows}x{rows}x{depth}.f8f6f4.v8i32.v8i32"
    made = call(CDNA4, name, "<4 x float>", *registers, np.zeros((64, rows * rows // 64), F32), *kinds, 1,
                scales[0], 1, scales[1])
    wide = [x[:, :, 0].astype(np.float64) * np.repeat(2.0 ** (p - 127.0), 32, axis=1)
            for x, p in zip(operands, powers)]
    np.testing.assert_array_equal(made, (wide[0] @ wide[1].T)[sums.outer, sums.inner])


@pytest.mark.parametrize("m", [RDNA3, RDNA4], ids=["gfx11", "gfx12"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_wmma(m, kind):
    dtype = {"f16": F16, "bf16": BF16}[kind]
    a, b = random((16, 16, 1), dtype), random((16, 16, 1), dtype)
    side, sums = fragments.wmma_operand(16, m.generation), fragments.wmma_accumulator(m.generation)
    wanted = a[:, :, 0].astype(np.float64) @ b[:, :, 0].astype(np.float64).T + 1
    made = call(m, f"llvm.amdgcn.wmma.f32.16x16x16.{kind}.v8f32.v16f16", "<8 x float>", held(a, side), held(b, side),
                np.ones((32, 8), F32))
    np.testing.assert_array_equal(made, wanted[sums.outer, sums.inner])
    count = 16 if m is RDNA3 else 8  # of RDNA3, sums of 16 bits have a half of each register
    half = call(m, f"llvm.amdgcn.wmma.{kind}.16x16x16.{kind}.v16f16.v16f16", "<16 x half>", held(a, side),
                held(b, side), np.ones((32, count), dtype), m is RDNA3)
    kept = half[:, 1::2] if m is RDNA3 else half
    np.testing.assert_array_equal(kept, wanted.astype(dtype)[sums.outer, sums.inner])
    assert m is RDNA4 or (half[:, ::2] == 1).all()


def test_wmma_of_8_bit_floats():
    a, b = random((16, 16, 1), OCP), random((16, 16, 1), BF8)
    side, sums = fragments.wmma_operand(16, 12), fragments.wmma_accumulator(12)
    made = call(RDNA4, "llvm.amdgcn.wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32", "<8 x float>", held(a, side),
                held(b, side), np.zeros((32, 8), F32))
    wanted = a[:, :, 0].astype(np.float64) @ b[:, :, 0].astype(np.float64).T
    np.testing.assert_array_equal(made, wanted[sums.outer, sums.inner])


@pytest.mark.parametrize(("m", "depth", "bits"), [(RDNA3, 16, 8), (RDNA3, 16, 4), (RDNA4, 16, 8), (RDNA4, 32, 4)])
@pytest.mark.parametrize("signed", [True, False])
def test_wmma_of_integers(m, depth, bits, signed):
    low = -(1 << bits - 1) if signed else 0
    a, b = (RNG.integers(low, low + (1 << bits), (16, depth, 1)) for _ in range(2))
    side, sums = fragments.wmma_operand(depth, m.generation), fragments.wmma_accumulator(m.generation)
    registers = []
    for x in (a, b):
        codes = held(x, side).astype(np.uint8)
        registers.append(codes if bits == 8 else (codes[:, ::2] & 15 | codes[:, 1::2] << 4).astype(np.uint8))
    made = call(m, f"llvm.amdgcn.wmma.i32.16x16x{depth}.iu{bits}.v8i32.v4i32", "<8 x i32>", signed,
                registers[0].view(np.uint32), signed, registers[1].view(np.uint32), np.full((32, 8), 5, np.uint32),
                False)
    np.testing.assert_array_equal(made.view(np.int32), (a[:, :, 0] @ b[:, :, 0].T + 5)[sums.outer, sums.inner])


def test_rdna3_wants_operands_twice():
    a = np.ones((32, 16), F16)
    a[20, 3] = 2
    with pytest.raises(Fault, match="lanes 16 to 31"):
        call(RDNA3, "llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16", "<8 x float>", a, a, np.zeros((32, 8), F32))


def test_products_need_whole_warps():
    m = Warp("gfx942", 64, 9)
    m.active[3] = False
    with pytest.raises(Fault, match="not all lanes"):
        call(m, "llvm.amdgcn.mfma.f32.16x16x16f16", "<4 x float>", np.ones((64, 4), F16), np.ones((64, 4), F16),
             np.zeros((64, 4), F32), 0, 0, 0)


# As AMD's guide "Matrix Core Programming on CDNA3 and CDNA4", its lab notes and its guide to RDNA4 load and store them.
def test_places_in_the_documents():
    lane, k = np.arange(64)[:, None], np.arange(8)[None, :]
    a = fragments.mfma_operand(16, 16)  # v_mfma_f32_16x16x16_f16: A + 4 * (lane / 16) + 16 * (lane % 16)
    assert (16 * a.outer + a.inner == 4 * (lane // 16) + 16 * (lane % 16) + k[:, :4]).all()
    a = fragments.mfma_operand(32, 16)  # v_mfma_f32_32x32x16_fp8_fp8: A + 8 * (lane / 32) + 16 * (lane % 32)
    assert (16 * a.outer + a.inner == lane // 32 * 8 + lane % 32 * 16 + k).all()
    d = fragments.mfma_accumulator(32)  # rows 8 i + j + 4 * (lane / 32) for register 4 i + j
    e = np.arange(16)[None, :]
    assert (32 * d.outer + d.inner == lane % 32 + lane // 32 * 128 + e % 4 * 32 + e // 4 * 256).all()
    d = fragments.mfma_accumulator(16)
    assert (16 * d.outer + d.inner == k[:, :4] * 16 + lane % 16 + lane // 16 * 64).all()
    d = fragments.mfma_accumulator(16, 1, wide=True)  # consecutive registers skip 4 rows
    assert (16 * d.outer + d.inner == lane % 16 + 64 * k[:, :4] + 16 * (lane // 16)).all()
    a, e = fragments.mfma_operand(32, 64, 1, halves=True), np.arange(32)[None, :]  # v_mfma_scale_f32_32x32x64_f8f6f4
    assert (64 * a.outer + a.inner == lane % 32 * 64 + lane // 32 * 16 + e // 16 * 32 + e % 16).all()
    a, d, lane = fragments.wmma_operand(16, 12), fragments.wmma_accumulator(12), lane[:32]
    assert (a.outer == lane % 16).all() and (a.inner == lane // 16 * 8 + k).all()
    assert (d.inner == lane % 16).all() and (d.outer == lane // 16 * 8 + k).all()
    d = fragments.wmma_accumulator(11)  # D[2 v + lane / 16][lane % 16]
    assert (d.inner == lane % 16).all() and (d.outer == 2 * k + lane // 16).all()
