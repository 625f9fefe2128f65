"""Matrix products by fragments: who holds which element, and how descriptors name operands in shared memory.

Written from the instruction set's tables, not from the compiler's layouts, so that each checks the other.
"""

import ml_dtypes
import numpy as np

from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.memory import SHARED_BASE

_TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
          "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8}  # fmt: skip
_FOUR_BITS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def values_of(raw, kind):
    """Bytes (last axis) as numbers; tf32 ignores the low bits of the mantissa, and 4-bit floats are pairs, the first in
    the low half."""
    if kind == "e2m1":
        return _FOUR_BITS[np.stack([raw & 15, raw >> 4], -1).reshape(*raw.shape[:-1], -1)]
    x = np.ascontiguousarray(raw).view(_TYPES[kind])
    if kind == "tf32":
        x = (np.ascontiguousarray(x).view(np.uint32) & 0xFFFFE000).view(np.float32)
    return x.astype(np.int64 if kind == "s8" else np.float64)


def scales_of(raw, kind):
    """Bytes as scales: exponents, or floats without a sign."""
    if kind == "ue8m0":
        return np.where(raw == 255, np.nan, np.exp2(raw.astype(np.float64) - 127))
    return np.ascontiguousarray(raw & 127).view(ml_dtypes.float8_e4m3fn).astype(np.float64)


def size_of(kind):
    """Bytes of an element, or of a pair of 4-bit ones."""
    return 1 if kind == "e2m1" else np.dtype(_TYPES[kind]).itemsize


def _words(s, names, threads):
    """32-bit registers as bytes: [thread, register, 4]."""
    columns = [np.ascontiguousarray(s.get(n)[threads]).view(np.uint32) for n in names]
    return np.stack(columns, axis=1).view(np.uint8).reshape(len(threads), len(names), 4)


def _left(words, rows, depth_bytes):
    """The A operand of one warp, [rows, bytes of K], out of the words of each lane: rows 8 further come first."""
    lane, i = np.arange(32)[:, None], np.arange(words.shape[1])[None, :]
    out = np.zeros((rows, depth_bytes), np.uint8)
    row, at = lane // 4 + 8 * (i % (rows // 8)), 4 * (lane % 4) + 16 * (i // (rows // 8))
    out[row[..., None], at[..., None] + np.arange(4)] = words
    return out


def _add_product(s, names, threads, rows, columns, product, integer):
    """Add product[rows, columns] to the accumulators `names` of some threads; rows and columns: [thread, register]."""
    kind = np.uint32 if integer else np.float32
    for k, name in enumerate(names):
        old = np.array(s.registers[name])
        mine = np.ascontiguousarray(old[threads]).view(np.int32 if integer else np.float32)
        new = mine + product[rows[:, k], columns[:, k]]
        old[threads] = new.astype(np.int32 if integer else np.float32).view(old.dtype) if integer else new.astype(kind)
        s.registers[name] = old


def mma(s, guard, operands, high, depth, ka, kb):
    """mma.sync m16n8 or m8n8 on the fragments of each warp."""
    outs, left, right, acc = operands
    for name, source in zip(outs, acc):
        s.registers[name] = np.array(s.get(source))
    high, depth_bytes = int(high), int(depth) * np.dtype(_TYPES[ka]).itemsize
    for warp in s.m.warps_of(guard, "a matrix product"):
        threads = np.arange(32 * warp, 32 * warp + 32)
        a = values_of(_left(_words(s, left, threads), high, depth_bytes), ka)
        product = a @ values_of(_left(_words(s, right, threads), 8, depth_bytes), kb).T  # B lies as A does, turned
        lane, i = np.arange(32)[:, None], np.arange(high // 4)[None, :]
        rows, columns = lane // 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)
        _add_product(s, outs, threads, rows, columns, product, ka == "s8")


def scaled_mma(s, guard, operands, kind, count, depth, ka, kb, scale):
    """mma.sync m16n8 with block scales: those of row r of A are in lane 4 (r % 8) + r / 8 of the warp, those of column
    c of B in lane 4 c; or in the lanes two, or one, further."""
    outs, left, right, acc, *selected = operands
    for name, source in zip(outs, acc):
        s.registers[name] = np.array(s.get(source))
    count, rows, group = int(count), np.arange(16), int(depth) // int(count)
    for warp in s.m.warps_of(guard, "a matrix product"):
        threads = np.arange(32 * warp, 32 * warp + 32)
        sides = []
        for words, high, kind_, ([name], [byte, thread]) in zip(
            (left, right), (16, 8), (ka, kb), (selected[:2], selected[2:])
        ):
            values = values_of(_left(_words(s, words, threads), high, 32), kind_)
            lanes = 4 * (rows % 8) + 2 * int(thread) + rows // 8 if high == 16 else 4 * rows[:8] + int(thread)
            found = _words(s, [name], threads)[lanes, 0, int(byte) : int(byte) + count]
            sides.append(values * np.repeat(scales_of(found, scale), group, axis=1))
        lane, i = np.arange(32)[:, None], np.arange(4)[None, :]
        _add_product(s, outs, threads, lane // 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1), sides[0] @ sides[1].T, False)


def _described(m, descriptor, outer, depth_bytes, size, k_major):
    """Byte addresses [outer, K, byte] of an operand that a descriptor names."""
    d = int(descriptor)
    start, leading, stride = (d & 0x3FFF) << 4, (d >> 16 & 0x3FFF) << 4, (d >> 32 & 0x3FFF) << 4
    width = {1: 128, 2: 64, 3: 32}[d >> 62]
    return addresses(start, leading, stride, width, outer, depth_bytes, size, k_major) - SHARED_BASE


def addresses(start, leading, stride, width, outer, depth_bytes, size, k_major):
    """Byte addresses [outer, K, byte] of an operand in swizzled rows of `width` bytes."""
    o = np.arange(outer)[:, None, None]
    k = np.arange(depth_bytes // size)[None, :, None]
    byte = np.arange(size)[None, None, :]
    if k_major:
        at = start + (o % 8) * width + (o // 8) * stride + k * size + byte
    else:
        along = o * size + byte
        at = start + (k % 8) * width + (k // 8) * stride + along % width + along // width * leading
    return at ^ ((at >> 7 & (width // 16 - 1)) << 4)


def wgmma(s, guard, operands, columns, depth, ka, kb):
    """wgmma m64nNk: four warps, B (and mostly A) out of shared memory."""
    outs, left, right, *flags = operands
    adds = s.get(flags[0]).astype(bool)
    zeros, lasting = np.zeros(adds.size, np.uint32 if ka == "s8" else np.float32), s.m.lasting
    for name in outs:  # where it does not add it need not be there
        old = lasting.get(name, s.registers.get(name, zeros)).view(zeros.dtype)
        s.registers[name] = np.where(adds, old, zeros)
    n, depth_bytes = int(columns), 32
    sizes = [np.dtype(_TYPES[k]).itemsize for k in (ka, kb)]
    turned = [f == "1" for f in flags[3:]]  # after scale-d, scale-a, scale-b
    in_registers = isinstance(left, list)
    turn_a, turn_b = (False, *turned) if in_registers and turned else (*turned, False, False)[:2]
    for group, threads in s.m.warpgroups(guard, "a matrix product"):
        s.m.shared.open_products[group][1].update(name for name in outs if name in lasting)
        if in_registers:
            s.m.shared.open_products[group][1].update(s.names[x] for x in left)
            words = _words(s, left, threads)
            a = np.concatenate([_left(words[32 * w : 32 * w + 32], 16, depth_bytes) for w in range(4)])
        else:
            a = _fetch(s, left, group, threads, 64, depth_bytes, sizes[0], not turn_a)
        b = _fetch(s, right, group, threads, n, depth_bytes, sizes[1], not turn_b)
        product = values_of(a, ka) @ values_of(b, kb).T
        lane, i = np.arange(128)[:, None], np.arange(n // 2)[None, :]
        rows = lane // 32 * 16 + lane % 32 // 4 + 8 * (i >> 1 & 1)
        cols = 2 * (lane % 4) + (i & 1) + 8 * (i >> 2)
        _add_product(s, outs, threads, rows, cols, product, ka == "s8")
    for name in (name for name in outs if name in lasting):
        lasting[name] = np.where(guard, s.registers.pop(name).view(np.uint32), lasting[name])


def _fetch(s, name, group, threads, outer, depth_bytes, size, k_major):
    described = s.get(name)[threads]
    if not (described == described[0]).all():
        raise Fault("the warps of a group name different operands")
    index = _described(s.m, described[0], outer, depth_bytes, size, k_major)
    return s.m.shared.operand(index, threads, group).reshape(outer, depth_bytes)
