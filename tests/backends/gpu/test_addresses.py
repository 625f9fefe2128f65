"""Addresses of a tile's registers: what registers share is added once, what they differ in takes 32 bits in loops."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import numbers
from tritium.backends.compiler import GPUTarget
from tritium.kernels.attention import backward_q_kernel


@triton.jit
def strided_rows(x, o, first, xm, xn, step, steps, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    p = x + first + m[:, None] * xm + n[None, :] * xn
    for _ in range(steps):
        total += tl.load(p)
        p += step
    tl.store(o + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize(("first", "xm", "xn", "step"), [
    (0, 32, 1, 1), (0, 1, 64, 2), (0, 3, 97, 1), (63 * 32 + 31, -32, -1, 0), (7, 0, 0, 5), (2048, -5, 33, -3),
])  # fmt: skip
@pytest.mark.parametrize("warps", [1, 4])
def test_strides_of_the_run_time(check, first, xm, xn, step, warps):
    check(strided_rows, numbers("f4", 4096), np.zeros((64, 32), "f4"), first, xm, xn, step, 3, 64, 32, warps=warps)


@triton.jit
def strided_blocks(x, o, M, xm, xn, BLOCK_M: tl.constexpr, N: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N), (xm, xn), (0, 0), (BLOCK_M, N), (1, 0))
    total = tl.zeros((BLOCK_M, N), tl.float32)
    for _ in range(0, M, BLOCK_M):
        total += tl.load(p, boundary_check=(0,), padding_option="zero")
        p = tl.advance(p, (BLOCK_M, 0))
    tl.store(o + tl.arange(0, BLOCK_M)[:, None] * N + tl.arange(0, N)[None, :], total)


@pytest.mark.parametrize(("rows", "xm", "xn"), [(100, 32, 1), (64, 1, 100), (70, 3, 119)])
def test_strides_of_64_bits(check, rows, xm, xn):
    check(strided_blocks, numbers("f4", 4096), np.zeros((32, 32), "f4"), rows, xm, xn, 32, 32, warps=2)


def test_loops_keep_no_pointer_for_each_register():
    types = {"x": "*fp32", "o": "*fp32", **dict.fromkeys(("first", "xm", "xn", "step", "steps"), "i32")}
    source = triton.compiler.ASTSource(strided_rows, types, {"M": 64, "N": 32})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    before, loop, _ = re.split(r"^(?=body|done)", made.asm["llir"], flags=re.M)
    assert len(re.findall(r"= load ", loop)) == 64
    assert before.count("getelementptr") < 8 and before.count("sext") < 8


@triton.jit
def masked_rows(x, o, M, N, xm, steps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N) & (m[:, None] + n[None, :] != 7)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(steps):
        total += tl.load(x + i + m[:, None] * xm + n[None, :], mask=inside, other=1.0)
    tl.store(o + m[:, None] * BLOCK_N + n[None, :], tl.where(inside, total, -1.0))


@pytest.mark.parametrize(("rows", "columns"), [(128, 32), (100, 31), (3, 0)])
def test_masks_of_many_rows(check, rows, columns):
    check(masked_rows, numbers("f4", 8192), np.zeros((128, 32), "f4"), rows, columns, 40, 3, 64, 32, grid=(2,), warps=1)


def test_loops_keep_no_mask_for_each_register():
    types = {"x": "*fp32", "o": "*fp32", **dict.fromkeys(("M", "N", "xm", "steps"), "i32")}
    source = triton.compiler.ASTSource(masked_rows, types, {"BLOCK_M": 64, "BLOCK_N": 32})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    before, loop, _ = re.split(r"^(?=body|done)", made.asm["llir"], flags=re.M)
    assert loop.count("icmp slt") > 60 and before.count("icmp") < 8


@triton.jit
def combined_rows(x, o, best, sums, xm, xn, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * xm + n[None, :] * xn)
    tl.store(best + m, tl.argmax(v, 1))
    tl.store(sums + m[:, None] * N + n[None, :], tl.cumsum(v, 1))
    tl.store(o + m, tl.max(v, 1))


@pytest.mark.parametrize(("xm", "xn"), [(128, 1), (1, 32), (3, 35)])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_strided_rows_are_combined_within_warps(check, xm, xn, warps):
    outputs = np.zeros(32, "f4"), np.zeros(32, "i4"), np.zeros((32, 128), "i4")
    check(combined_rows, numbers("i4", 8192), *outputs, xm, xn, 32, 128, warps=warps)


@triton.jit
def turned(x, o, N: tl.constexpr):
    n = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + n, tl.load(x + (n % 64 * 64 + n // 64)))


def test_an_index_of_32_bits_is_widened_and_scaled_at_once():
    source = triton.compiler.ASTSource(turned, {"x": "*fp32", "o": "*fp32"}, {"N": 1024})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert len(re.findall(r"mul\.wide\.[su]32", ptx)) >= 8 and not re.search(r"shl\.b64", ptx)


@triton.jit
def halfway(x, o, N: tl.constexpr, W: tl.constexpr):
    """As Inductor writes an image that is twice as wide."""
    n = tl.program_id(0) * N + tl.arange(0, N)
    at = ((n % (2 * W)).to(tl.float32) + 0.5) * 0.5 - 0.5
    mask = at > 0.0
    mask |= at != at
    at = tl.where(mask, at, 0.0)
    left = at.to(tl.int32)
    right = left + tl.full([1], 1, tl.int64)
    right = tl.where(right < W - 1, right, tl.full([1], W - 1, tl.int64))
    row = n // (2 * W) * W
    low, high = tl.load(x + left + row), tl.load(x + right + row)
    tl.store(o + n, low + (high - low) * (at - left.to(tl.float32)))


def test_an_image_is_resized_with_indices_of_32_bits(check):
    check(halfway, numbers("f4", 16, 32), np.zeros((16, 64), "f4"), 256, 32, grid=(4,), tolerance=1e-6)
    source = triton.compiler.ASTSource(halfway, {"x": "*fp32", "o": "*fp32"}, {"N": 256, "W": 32})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert not re.search(r"setp\.nan|min\.s64|setp\.lt\.s64", ptx)


@triton.jit
def resized(x, o, WIDE: tl.constexpr, N: tl.constexpr):
    """Indices of 64 bits, as generated kernels have them: bounded at once, or as large as they look."""
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    at = tl.maximum((i % N + 0.5) * 0.5 - 0.5, 0.0)
    low = at.to(tl.int32)
    high = tl.minimum(low + tl.full([1], 1, tl.int64), tl.full([1], N // 2 - 1, tl.int64))
    far = (low.to(tl.int64) * WIDE) // WIDE
    part = at - low
    other = tl.load(x + high + i // N * (N // 2), mask=high != 3, other=2.0)
    tl.store(o + i, tl.load(x + far) * (1 - part) + other * part)


@pytest.mark.parametrize("wide", [1, 3 << 40])
def test_indices_of_64_bits(check, wide):
    check(resized, numbers("f4", 128), np.zeros(256, "f4"), wide, 64, grid=(2,), warps=1)


def test_a_loop_does_not_keep_sums_that_stand_before_it():
    """The loop's comparison is the first to ask for the rows, the store behind the loop the second."""
    pointers = ("q_ptr", "k_ptr", "v_ptr", "dout_ptr", "lse_ptr", "delta_ptr", "dq_ptr")
    types = {**dict.fromkeys(pointers, "*fp32"), "scale": "fp32", "N": "i32", "stride_head": "i32"}
    aligned = {(place,): [["tt.divisibility", 16]] for place in (0, 1, 2, 3, 4, 5, 6, 9)}
    numbers = {"D": 64, "BLOCK_M": 32, "BLOCK_N": 64, "CAUSAL": True}
    source = triton.compiler.ASTSource(backward_q_kernel, types, numbers, aligned)
    assert "st.global" in triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["llir"]


@triton.jit
def beside(x, o, N, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = n + 1
    after = tl.load(x + i, mask=(i >= 0) & (N > i), other=0)
    tl.store(o + n, after + tl.load(x + n - 2, mask=(n > 1) & (n < N), other=3))


@pytest.mark.parametrize("n", [1024, 1000, 1023, 1, 0])
def test_neighbours_of_aligned_runs(check, n):
    check(beside, numbers("i4", 1024), np.zeros(1024, "i4"), n, 512, grid=(2,), warps=1)


def test_runs_that_no_bound_parts_have_one_mask_and_one_address():
    """i + 1 of four neighbours: three of them share an aligned group of four, with its address and its mask."""
    signature = {"x": "*i32", "o": "*i32", "N": "i32", "BLOCK": "constexpr"}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(3)}
    source = triton.compiler.ASTSource(beside, signature, {"BLOCK": 512}, aligned)
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert len(re.findall(r"ld\.global\S* %r\d+, \[%rd\d+\+", ptx)) >= 4
