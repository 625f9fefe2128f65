"""tl.multiple_of and its kin count for the value they name, as a statement too."""

import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


@triton.jit
def assigned(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    offsets = tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def stated(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def stated_late(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.multiple_of(stride, 16)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def unstated(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))


@pytest.mark.parametrize("kernel, vectors", [(assigned, True), (stated, True), (stated_late, True), (unstated, False)])
def test_a_hint_makes_vector_accesses(kernel, vectors):
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "stride": "i32", "BLOCK": "constexpr"}
    aligned = {(at,): [["tt.divisibility", 16]] for at in (0, 1)}
    source = ASTSource(kernel, signature, {"BLOCK": 1024}, aligned)
    text = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert (".v4.b32" in text) == vectors, text
