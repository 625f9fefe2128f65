"""Operands of dots that a loop does not change, without a GPU."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.gpu.passes import pipeline
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.compiler import ASTSource
from tritium.insight import emulator
from tritium.ir.text import print_module
from tritium.passes import run


@triton.jit
def steps(p, k, h, out, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    at, inner = i[:, None] * N + j[None, :], j[:, None] * N + j[None, :]
    x, y, z = tl.load(p + at), tl.load(k + inner), tl.load(h + inner)
    for _ in range(n):
        s = tl.dot(x.to(tl.float16), y.T) * 0.125
        x = tl.dot(x, z, tl.dot(s.to(tl.float16), y)) * 0.125
    tl.store(out + at, x)


@pytest.mark.parametrize("rows, columns, warps", [(64, 64, 4), (128, 32, 8), (64, 128, 8)])
def test_they_are_written_to_shared_memory_once(rows, columns, warps):
    types = {"p": "*fp32", "k": "*fp16", "h": "*fp32", "out": "*fp32", "n": "i32"}
    target = GPUTarget("cuda", 90, 32)
    options = BaseBackend(target).parse_options({"num_warps": warps, "num_stages": 1})
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(4)}
    module = ASTSource(steps, types, {"M": rows, "N": columns}, aligned).make_ir(target, options)
    module = module.replace(attrs={**module.attrs, "num_warps": warps, "num_stages": 1})
    text = print_module(run(module, pipeline(NvTarget.of(90))))
    (loop,) = re.findall(r"\n  %\S+ = for .*?\n  }", text, re.DOTALL)
    in_buffers = loop.count("= dot_shared ")
    assert (in_buffers, text.count("= share ")) == ((3, 2) if rows // 16 == warps else (0, 0))

    rng = np.random.default_rng(0)
    p, h = (rng.integers(-2, 3, size).astype(np.float32) for size in ((rows, columns), (columns, columns)))
    k = rng.integers(-2, 3, (columns, columns)).astype(np.float16)
    out = np.zeros((rows, columns), np.float32)
    emulator.run(module, [p, k, h, out, 2], (1,), 90, warps)
    wanted = p.astype(np.float64)
    for _ in range(2):
        s = (wanted.astype(np.float16).astype(np.float64) @ k.T.astype(np.float64) * 0.125).astype(np.float16)
        wanted = (s.astype(np.float64) @ k.astype(np.float64) + wanted @ h) * 0.125
    np.testing.assert_allclose(out, wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max())
