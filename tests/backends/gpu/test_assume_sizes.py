"""Kernels that count on rows of whole pieces in descriptors: wide accesses, and right for other rows too."""

import ctypes

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import binary
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu.rewrite.assume_sizes import assume_sizes
from tritium.backends.launcher.preconditions import Guard
from tritium.compiler import ASTSource
from tritium.insight import emulator
from tritium.interp.machine import interpret
from tritium.ir.preconditions import preconditions_of
from tritium.ir.text import parse_module

COPY = """kernel @f(%x: ptr<f32> {divisible=16}, %out: ptr<f32> {divisible=16}, %n: i32 {likely_divisible=4}) {
  %0 = arange {start=0, end=128} : tile<128xi32>
  %1 = splat %x {shape=(128,)} : tile<128xptr<f32>>
  %2 = addptr %1, %0 : tile<128xptr<f32>>
  %3 = splat %n {shape=(128,)} : tile<128xi32>
  %4 = lt %0, %3 : tile<128xi1>
  %5 = constant {value=0.0, type=f32} : f32
  %6 = splat %5 {shape=(128,)} : tile<128xf32>
  %7 = load %2, %4, %6 : tile<128xf32>
  %8 = splat %out {shape=(128,)} : tile<128xptr<f32>>
  %9 = addptr %8, %0 : tile<128xptr<f32>>
  store %9, %7
}"""
HOPPER = GPUTarget("cuda", 90, 32)


@pytest.mark.parametrize("n", [0, 1, 19, 20, 128])
def test_copies_of_any_size_are_right(n):
    module = parse_module(COPY)
    wanted, found = ([np.arange(1, 129, dtype=np.float32), np.zeros(128, np.float32), n] for _ in range(2))
    interpret(module, wanted, (1,))
    emulator.run(module, found, (1,), num_warps=1)
    np.testing.assert_array_equal(found[1], wanted[1])


def test_only_kernels_whose_launches_are_checked_count_on_sizes():
    assert "ld.global.v4" in emulator.llvm_of(parse_module(COPY), num_warps=1)[0]
    assert "ld.global.v4" not in emulator.llvm_of(parse_module(COPY), num_warps=1, launch_checks=False)[0]


def test_the_launcher_checks_the_size():
    _, metadata = binary(parse_module(COPY), HOPPER, num_warps=1)
    guard = Guard(preconditions_of(metadata))
    judged = {n: guard.hold((1, 1, 1), ctypes.addressof((ctypes.c_int64 * 3)(4096, 8192, n))) for n in (16, 18, 20, 21)}
    assert judged == {16: True, 18: False, 20: True, 21: False}


def test_what_is_known_needs_no_precondition():
    module = parse_module("kernel @f(%n: i32 {divisible=16, likely_divisible=8}) {launch_checks=True} { }")
    assert assume_sizes(module) is module


# A product by experts: rows of the left operand are gathered, so no producer warp loads the right one by TMA.
@triton.jit
def by_experts(a_ptr, rows_ptr, experts_ptr, b_desc, out_ptr, K, stride, BM: tl.constexpr, BN: tl.constexpr,
               BK: tl.constexpr):
    m, columns, k = tl.program_id(0), tl.arange(0, BN), tl.arange(0, BK)
    expert = tl.load(experts_ptr + m)
    a_ptrs = a_ptr + tl.load(rows_ptr + m * BM + tl.arange(0, BM))[:, None] * stride + k[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        a = tl.load(a_ptrs, mask=k[None, :] < K - at, other=0.0)
        total = tl.dot(a, b_desc.load([expert, 0, at]).reshape(BN, BK).T, total)
        a_ptrs += BK
    tl.store(out_ptr + (m * BM + tl.arange(0, BM))[:, None] * BN + columns[None, :], total)


def test_a_descriptor_in_a_loop_that_gathers_is_copied_asynchronously():
    signature = {"a_ptr": "*bf16", "rows_ptr": "*i32", "experts_ptr": "*i32", "b_desc": "tensordesc<bf16[1, 128, 64]>",
                 "out_ptr": "*fp32", "K": "i32", "stride": "i32"}
    constants = {"BM": 64, "BN": 128, "BK": 64}
    attrs = {(k,): [["tt.divisibility", 16]] for k in (0, 1, 2, 4, 5, 6)}
    made = triton.compile(ASTSource(by_experts, signature, constants, attrs), target=HOPPER)
    assert made.asm["ptx"].count("ld.global") < 20
    assert made.asm["ptx"].count("cp.async.cg") >= 24
