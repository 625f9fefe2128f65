"""Chains of values that are each used twice: compiling takes as many steps as there are values, not as there are paths.

There are 2^40 paths, so a walk that forgets where it has been does not end.
"""

import pytest

import tritium as triton
import tritium.language as tl
from tritium.compiler import ASTSource

LENGTH = 40


@triton.jit
def mixed(x, LENGTH: tl.constexpr):
    for _ in tl.static_range(LENGTH):
        x ^= x * 3
    return x


@triton.jit
def doubled(x, LENGTH: tl.constexpr):
    for _ in tl.static_range(LENGTH):
        x += x * 2
    return x


@triton.jit
def branch(p, q, n, N: tl.constexpr, LENGTH: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i, mask=i < n, other=0)
    if n > 3:
        x = mixed(x, LENGTH)
    tl.store(q + i, x)


@triton.jit
def mask(p, q, n, N: tl.constexpr, LENGTH: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(q + i, i, mask=(doubled(tl.load(p + i), LENGTH) > 5) & (i < n))


@triton.jit
def operand(p, q, n, N: tl.constexpr, LENGTH: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, total = tl.load(p + at).to(tl.float16), tl.zeros((N, N), tl.float32)
    for k in range(n):
        total = tl.dot(a, mixed(tl.load(p + at + k * N), LENGTH).to(tl.float16), total)
    tl.store(q + at, total.to(tl.int32))


@pytest.mark.parametrize("target", ["cpu", "cuda:90a", "gfx942"])
@pytest.mark.parametrize("kernel", [branch, mask, operand], ids=lambda kernel: kernel.__name__)
def test_compiles(kernel, target):
    signature = {"p": "*i32", "q": "*i32", "n": "i32", "N": "constexpr", "LENGTH": "constexpr"}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(2)}
    source = ASTSource(kernel, signature, {"N": 32, "LENGTH": LENGTH}, aligned)
    assert "llir" in triton.compile(source, target=target).asm
