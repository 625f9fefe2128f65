"""AMD's matrix products, of all lanes of a warp: D = A B + C."""

import re
from typing import Any

import ml_dtypes
import numpy as np

from tritium.insight.emulator.amd import fragments
from tritium.insight.emulator.faults import Fault, Unknown

_PLAIN = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "xf32": np.float32, "f64": np.float64,
          "i8": np.int8}  # fmt: skip
FINITE = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}  # of CDNA3
OPEN = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}  # of all later ones
_NARROW = {2: (6, ml_dtypes.float6_e2m3fn), 3: (6, ml_dtypes.float6_e3m2fn), 4: (4, ml_dtypes.float4_e2m1fn)}
_MFMA = re.compile(r"llvm\.amdgcn\.mfma\.(f32|i32|f64)\.(\d+)x\d+x(\d+)\.?(f16|bf16\.1k|bf16|f32|xf32|f64|i8|[fb]f?p?8"
                   r"(?:\.[fb]f?p?8)?)")  # fmt: skip
_BLOCKS = {32: 2, 16: 4, 4: 16}  # that instructions have which multiply several matrices, by rows


def float8(m):
    """The 8-bit floats of an architecture, by AMD's names."""
    return FINITE if m.arch == "gfx942" else OPEN


def values(x, kind, m):
    """Registers (last axis) as numbers to multiply; xf32 rounds the mantissa to 10 bits."""
    dtype = {**_PLAIN, **float8(m)}[kind]
    rows = np.ascontiguousarray(x.reshape(x.shape[0], -1)).view(dtype)
    if kind == "xf32":
        bits = rows.view(np.uint32)
        odd = bits >> np.uint32(13) & np.uint32(1)
        near = bits + np.uint32(0xFFF) + odd & np.uint32(0xFFFFE000)
        rows = np.where(np.isfinite(rows), near, bits).view(np.float32)
    return rows.astype(np.int64 if kind == "i8" else np.float64)


def multiplied(a, b, c, places):
    """The elements of D, [lane, element], of operands [lane, element] that lie as `places` (A, B, C) say."""
    pa, pb, pc = places
    shape = pa.outer.max() + 1, pa.inner.max() + 1, pa.block.max() + 1
    left, right = np.zeros(shape, a.dtype), np.zeros((pb.outer.max() + 1, *shape[1:]), b.dtype)
    left[pa.outer, pa.inner, pa.block] = a
    right[pb.outer, pb.inner, pb.block] = b
    with np.errstate(all="ignore"):
        product = np.einsum("ikb,jkb->ijb", left, right)
        return product[pc.outer, pc.inner, pc.block] + c.astype(product.dtype)


def in_warps(m, what, fn, kind):
    """[thread, element] of what fn(threads) makes of the operands of each warp; all its lanes must be there."""
    out: Any = None
    for warp in m.warps_of(m.active, what):
        threads = np.arange(m.warp_size * warp, m.warp_size * (warp + 1))
        made = fn(threads)
        out = np.zeros((m.threads, made.shape[1]), kind) if out is None else out
        with np.errstate(all="ignore"):
            out[threads] = _wrapped(made) if kind == np.uint32 else made.astype(kind)
    return out


def _wrapped(x):
    return (x & 0xFFFFFFFF).astype(np.uint32)


_RESULT = {"f32": np.float32, "f64": np.float64, "i32": np.uint32}


def _accumulator(x, kind):
    rows = x.reshape(x.shape[0], -1)
    return rows.view(np.int32) if kind == "i32" else rows


# --- MFMA -------------------------------------------------------------------------------------------------------------
def mfma(m, result, inputs, name):
    """v_mfma: 64 lanes, of CDNA."""
    found = _MFMA.fullmatch(name)
    if not found:
        raise Unknown(name)
    out, rows, depth, kinds = found[1], int(found[2]), int(found[3]), found[4].removesuffix(".1k")
    ka, kb = kinds.split(".") if "." in kinds else (kinds, kinds)
    a, b, c, *flags = inputs
    scalar = result in _RESULT or result == "double"

    def step():
        x, y, z = a(), b(), c()
        signs = _signs(m, out, [int(f()[0]) for f in flags])
        held = values(x, ka, m).shape[1]
        blocks = 64 * held // (rows * depth)
        if blocks not in (1, 4 if out == "f64" else _BLOCKS[rows]):
            raise Unknown(name)
        side = fragments.mfma_operand(rows, depth, blocks)
        places = side, side, fragments.mfma_accumulator(rows, blocks, out == "f64")

        def product(threads):
            left, right = values(x[threads], ka, m) * signs[0], values(y[threads], kb, m) * signs[1]
            return multiplied(left, right, _accumulator(z[threads], out) * signs[2], places)

        made = in_warps(m, "a matrix product", product, _RESULT[out])
        return made[:, 0] if scalar else made

    return step


def _signs(m, out, flags):
    """The signs that A, B and C are taken with: of CDNA3 on, the last flag of products in f64 can negate them."""
    if out == "f64" and m.arch != "gfx90a" and not any(flags[:2]):
        return [-1 if flags[2] >> k & 1 else 1 for k in range(3)]
    if any(flags):
        raise Unknown(f"a matrix product with the flags {flags}")
    return [1, 1, 1]


def scaled_mfma(m, result, inputs, rows, depth):
    """v_mfma_scale_f32_..._f8f6f4: operands of 4, 6 and 8 bits with a scale for each 32 along K, of CDNA4.

    LLVM selects the instruction without scales, which counts them as 1, where both are the constant 0.
    """
    a, b, c, of_a, of_b, select_a, scale_a, select_b, scale_b = inputs
    rows, depth = int(rows), int(depth)

    def step():
        kinds = [int(f()[0]) for f in (of_a, of_b)]
        operands, selected = (a(), b()), (int(select_a()[0]), int(select_b()[0]))
        scales, acc = (scale_a(), scale_b()), c()
        sides = [fragments.mfma_operand(rows, depth, 1, halves=kind < 2) for kind in kinds]
        places = *sides, fragments.mfma_accumulator(rows)
        unscaled = not (selected[0] or selected[1] or scales[0].any() or scales[1].any())

        def product(threads):
            both = []
            for x, kind, side, scale, select in zip(operands, kinds, sides, scales, selected):
                byte = (scale[threads] >> np.uint32(8 * select) & np.uint32(255)).astype(np.int64)
                power = byte[fragments.mfma_scale(rows)][side.outer, side.inner // 32]
                factor = 1 if unscaled else np.where(power == 255, np.nan, np.exp2(power.astype(np.float64) - 127))
                both.append(narrow(x[threads], kind) * factor)
            return multiplied(both[0], both[1], acc[threads], places)

        return in_warps(m, "a matrix product", product, np.float32)

    return step


def narrow(x, kind):
    """32 numbers of each lane, of registers that hold 8, 6 or 4 bits of each."""
    data = np.ascontiguousarray(x.reshape(x.shape[0], -1)).view(np.uint8)
    if kind < 2:
        return data[:, :32].copy().view(OPEN[("fp8", "bf8")[kind]]).astype(np.float64)
    bits, dtype = _NARROW[kind]
    each = np.unpackbits(data, axis=1, bitorder="little")[:, : 32 * bits].reshape(len(data), 32, bits)
    codes = np.packbits(each, axis=2, bitorder="little")[:, :, 0]
    return codes.view(dtype).astype(np.float64)


# --- WMMA -------------------------------------------------------------------------------------------------------------
def wmma(m, result, inputs, out, depth, kinds):
    """v_wmma with operands of floats: 32 lanes, of RDNA."""
    a, b, c, *select = inputs
    ka, kb = kinds.split(".") if "." in kinds else (kinds, kinds)
    places = _places(m, int(depth))
    dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[out]

    def step():
        x, y, z = a(), b(), c()
        z = np.ascontiguousarray(z.reshape(z.shape[0], -1)).view(dtype)
        half = int(select[0]()[0]) if select else 0
        spread = z.shape[1] // 8  # on RDNA3, 16-bit sums are the lower or the upper halves of registers

        def product(threads):
            _same_halves(m, (x, y), threads)
            acc = z[threads][:, half::spread].astype(np.float64)
            return multiplied(values(x[threads], ka, m), values(y[threads], kb, m), acc, places)

        made = in_warps(m, "a matrix product", product, dtype)
        whole = z.copy()
        whole[m.active, half::spread] = made[m.active]
        return whole if result.endswith((" float>", " half>", " bfloat>")) else whole.view(np.uint16)

    return step


def wmma_integers(m, result, inputs, depth, bits):
    """v_wmma with operands of 8 or 4 bits, signed or not."""
    sign_a, a, sign_b, b, c, clamp = inputs
    places = _places(m, int(depth))

    def step():
        x, y, z = a(), b(), c()
        signs, clamps = (bool(sign_a()[0]), bool(sign_b()[0])), bool(clamp()[0])

        def product(threads):
            _same_halves(m, (x, y), threads)
            both = [integers(v[threads], int(bits), sign) for v, sign in zip((x, y), signs)]
            made = multiplied(both[0], both[1], _accumulator(z[threads], "i32").astype(np.int64), places)
            return np.clip(made, -(1 << 31), (1 << 31) - 1) if clamps else made

        return in_warps(m, "a matrix product", product, np.uint32)

    return step


def integers(x, bits, sign):
    """[lane, element] of registers that hold integers of 8 or 4 bits."""
    data = np.ascontiguousarray(x.reshape(x.shape[0], -1)).view(np.uint8)
    if bits == 4:
        data = np.stack([data & 15, data >> 4], axis=-1).reshape(len(data), -1)
    wide = data.astype(np.int64)
    return np.where(wide >> bits - 1, wide - (1 << bits), wide) if sign else wide


def _places(m, depth):
    side = fragments.wmma_operand(depth, m.generation)
    return side, side, fragments.wmma_accumulator(m.generation)


def _same_halves(m, operands, threads):
    """On RDNA3, the second 16 lanes must have the operands of the first."""
    if m.generation == 11:
        for x in operands:
            rows = np.ascontiguousarray(x[threads].reshape(32, -1)).view(np.uint8)
            if np.any(rows[:16] != rows[16:]):
                raise Fault("lanes 16 to 31 have other operands of a matrix product than lanes 0 to 15",
                            "wrong operand", threads=threads[16:])


TABLE = [
    (r"(llvm\.amdgcn\.mfma\.[fi]\d+\.[\w.]*)", mfma),
    (r"llvm\.amdgcn\.mfma\.scale\.f32\.(\d+)x\d+x(\d+)\.f8f6f4[\w.]*", scaled_mfma),
    (r"llvm\.amdgcn\.wmma\.(f32|f16|bf16)\.16x16x(\d+)\.(f16|bf16|[fb]f?p?8\.[fb]f?p?8)\.v[\w.]*", wmma),
    (r"llvm\.amdgcn\.wmma\.i32\.16x16x(\d+)\.iu([48])\.v[\w.]*", wmma_integers),
]
