"""Products of tiles that have fewer elements than there are threads, without a GPU."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.compiler import ASTSource
from tritium.insight import emulator


@triton.jit
def product(a, b, c, M, K, lda, ldb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr):
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), OUT)
    for k in range(0, K, BK):
        left = (rows < M)[:, None] & (k + inner < K)[None, :]
        x = tl.load(a + rows[:, None] * lda + (k + inner)[None, :], left, other=0)
        y = tl.load(b + (k + inner)[:, None] * ldb + columns[None, :], (k + inner < K)[:, None], other=0)
        acc = tl.dot(x, y, acc, out_dtype=OUT)
    tl.store(c + rows[:, None] * BN + columns[None, :], acc, (rows < M)[:, None])


@pytest.mark.parametrize(("arch", "kind", "shape", "warps"), [
    (80, "fp16", (16, 16, 16), 16),
    (80, "fp16", (32, 32, 32), 32),
    (80, "i8", (16, 32, 32), 8),
    (90, "fp16", (64, 32, 16), 16),
    (90, "fp16", (16, 64, 64), 32),
])  # fmt: skip
def test_copies_are_never_shorter_than_the_hardware_makes_them(arch, kind, shape, warps):
    """Where 4 bytes for each thread are more than the tile has, several threads copy the same."""
    target, out = GPUTarget("cuda", arch, 32), tl.int32 if kind == "i8" else tl.float32
    constants = dict(zip(("BM", "BN", "BK"), shape), OUT=out)
    types = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{'i32' if kind == 'i8' else 'fp32'}",
             **dict.fromkeys(("M", "K", "lda", "ldb"), "i32")}  # fmt: skip
    aligned = {(k,): [["tt.divisibility", 16]] for k in (0, 1, 2, 4, 5, 6)}
    options = BaseBackend(target).parse_options({"num_warps": warps})
    module = ASTSource(product, types, constants, aligned).make_ir(target, options)
    text, _ = emulator.llvm_of(module, arch, warps)
    assert "cp.async" in text and not re.search(r"cp\.async\.c[ag]\.[^;]*\], [12]\b", text)

    rng, (rows, columns, inner) = np.random.default_rng(0), shape
    element = np.dtype("int8" if kind == "i8" else "float16")
    a, b = (rng.integers(-3, 4, size).astype(element) for size in ((rows, 3 * inner), (3 * inner, columns)))
    c = np.zeros((rows, columns), np.int32 if kind == "i8" else np.float32)
    emulator.run(module, [a, b, c, rows - 3, 3 * inner - 16 * (inner > 16), 3 * inner, columns], (1,), arch, warps)
    used = 3 * inner - 16 * (inner > 16)
    wanted = a[: rows - 3, :used].astype(np.int64) @ b[:used].astype(np.int64)
    np.testing.assert_array_equal(c[: rows - 3], wanted)
    assert not c[rows - 3:].any()
