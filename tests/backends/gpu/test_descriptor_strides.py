"""Descriptors that kernels make: what their strides promise."""

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


@triton.jit
def product_by_descriptors(a_ptr, b_ptr, o_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
    tl.store(o_ptr + rows[:, None] * N + columns[None, :], total, (rows < M)[:, None] & (columns < N)[None, :])


def test_strides_of_descriptors_are_aligned_as_the_language_demands():
    """Integers are specialized for multiples of 16 only: rows of 104 halves are as good."""
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "o_ptr": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    attrs = {(k,): [["tt.divisibility", 16]] for k in range(3)}
    source = ASTSource(product_by_descriptors, signature, {"BM": 64, "BN": 64, "BK": 64}, attrs)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert "cp.async.bulk.tensor" in made.asm["ptx"] and made.metadata.tensor_maps
