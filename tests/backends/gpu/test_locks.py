"""Sections that a lock protects: what is done in them, while the programs that want the lock wait."""

import re

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.insight import emulator


@triton.jit
def added(a_ptr, b_ptr, out_ptr, lock_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.program_id(0) * K + tl.arange(0, K)
    product = tl.dot(tl.load(a_ptr + i * (2 * K) + k[None, :]), tl.load(b_ptr + k[:, None] * N + j))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    out_ptrs = out_ptr + i * N + j
    tl.store(out_ptrs, tl.load(out_ptrs) + product.to(tl.float16))
    tl.atomic_xchg(lock_ptr, 0)


def test_a_product_is_converted_before_its_lock(check):
    """Behind the lock nothing goes through shared memory but the old value of the lock."""
    args = data("f2", 64, 64), data("f2", 64, 64), data("f2", 64, 64), np.zeros(1, "i4"), 64, 64, 32
    text, _ = emulator.llvm_of(module_of(added, args)[0])
    behind = text[text.index("atom.") : text.rindex("atom.")]
    assert "stmatrix" not in behind
    assert len(re.findall(r"store .*addrspace\(3\)", behind)) == 1
    check(added, *args, grid=(2,))
