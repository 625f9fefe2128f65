"""Operands of dots in loops that are not pipelined, without a GPU."""

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


def lowered(kernel, types, constants, warps):
    """(its module, its code for a GPU, the loop in it) of a kernel of one stage."""
    target = GPUTarget("cuda", 90, 32)
    options = BaseBackend(target).parse_options({"num_warps": warps, "num_stages": 1})
    aligned = {(k,): [["tt.divisibility", 16]] for k, word in enumerate(types.values()) if word.startswith("*")}
    module = ASTSource(kernel, types, constants, aligned).make_ir(target, options)
    module = module.replace(attrs={**module.attrs, "num_warps": warps, "num_stages": 1})
    text = print_module(run(module, pipeline(NvTarget.of(90))))
    (loop,) = re.findall(r"\n  %\S+ = for .*?\n  }", text, re.DOTALL)
    return module, text, loop


@pytest.mark.parametrize("rows, columns, warps", [(64, 64, 4), (128, 32, 8), (64, 128, 8)])
def test_they_are_written_to_shared_memory_once(rows, columns, warps):
    types = {"p": "*fp32", "k": "*fp16", "h": "*fp32", "out": "*fp32", "n": "i32"}
    module, text, loop = lowered(steps, types, {"M": rows, "N": columns}, warps)
    # An lhs that several warps need goes to shared memory as well: two before the first product, one before the second.
    written = 0 if rows // 16 == warps else 2
    assert (loop.count("= dot_shared "), text.count("= share ") - loop.count(" = share "), loop.count(" = share ")) == \
        (3, 2, written)

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


@triton.jit
def attention(q, k, v, out, n, stride, LATE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    x = (tl.load(q + i[:, None] * stride + d[None, :]) * 0.5).to(tl.float16)
    top, total, acc = tl.full((M,), -1e30, tl.float32), tl.zeros((M,), tl.float32), tl.zeros((M, D), tl.float32)
    for at in range(0, n, N):
        inside = (at + j)[:, None] < n
        y = tl.load(k + (at + j)[:, None] * stride + d[None, :], mask=inside, other=0.0)
        if not LATE:
            z = tl.load(v + (at + j)[:, None] * stride + d[None, :], mask=inside, other=0.0)
        s = tl.where((at + j)[None, :] < n, tl.dot(x, y.T), -1e30)
        higher = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp(s - higher[:, None]), tl.exp(top - higher)
        if LATE:
            z = tl.load(v + (at + j)[:, None] * stride + d[None, :], mask=inside, other=0.0)
        acc = tl.dot(p.to(tl.float16), z, acc * scale[:, None])
        total = total * scale + tl.sum(p, 1)
        top = higher
    tl.store(out + i[:, None] * D + d[None, :], acc / total[:, None])


@pytest.mark.parametrize("late", [False, True])
def test_attention_writes_its_queries_once_and_what_it_loads_at_once(late):
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp32", "n": "i32", "stride": "i32"}
    module, text, loop = lowered(attention, types, {"LATE": late, "M": 64, "N": 32, "D": 32}, 4)
    ops = re.findall(r"= (share|dot_shared|load|reduce) ", loop)
    staged = ["load", "share", "dot_shared"]
    assert [op for op in ops if op != "reduce"] == (staged * 2 if late else ["load", *staged, "dot_shared"])
    assert ops[-1] == "dot_shared"  # the sum does not keep its addends until the product is there
    assert text.count("= share ") - loop.count("= share ") == 1 and " dot " not in text

    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((70, 37)).astype(np.float16) for _ in range(3))
    out = np.zeros((64, 32), np.float32)
    emulator.run(module, [q, k, v, out, 70, 37], (1,), 90, 4)
    s = (q[:64, :32] * np.float16(0.5)).astype(np.float64) @ k[:, :32].T.astype(np.float64)
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(out, p @ v[:, :32].astype(np.float64) / p.sum(1, keepdims=True), atol=5e-3)


@triton.jit
def gradients(q, k, g, out, n, stride, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    y = tl.load(k + i[:, None] * stride + d[None, :])
    dk, dv = tl.zeros((M, D), tl.float32), tl.zeros((M, D), tl.float32)
    for at in range(0, n, N):
        x = tl.load(q + (at + j)[:, None] * stride + d[None, :])
        z = tl.load(g + (at + j)[:, None] * stride + d[None, :])
        p = tl.dot(y, x.T) * 0.0625
        dv = tl.dot(p.to(tl.float16), z, dv)
        ds = p * tl.dot(y, z.T)
        dk = tl.dot(ds.to(tl.float16), x, dk)
        tl.store(out + (at + j)[None, :] * M + i[:, None], ds)
    tl.store(k + i[:, None] * stride + d[None, :], dk.to(tl.float16))
    tl.store(g + i[:, None] * stride + d[None, :], dv.to(tl.float16))


def test_a_tile_and_its_transpose_share_a_buffer():
    types = {"q": "*fp16", "k": "*fp16", "g": "*fp16", "out": "*fp32", "n": "i32", "stride": "i32"}
    module, text, loop = lowered(gradients, types, {"M": 64, "N": 64, "D": 32}, 4)
    assert (loop.count("= dot_shared "), loop.count("= share "), text.count("= share ")) == (4, 1, 2)
    assert re.findall(r":2 = share .*axis=1", loop)

    rng = np.random.default_rng(1)
    q, k, g = (rng.integers(-2, 3, (128, 33)).astype(np.float16) for _ in range(3))
    x, y, z = (tile[:, :32].astype(np.float64) for tile in (q, k[:64], g))
    out = np.zeros((128, 64), np.float32)
    emulator.run(module, [q, k, g, out, 128, 33], (1,), 90, 4)
    p = y @ x.T * 0.0625
    np.testing.assert_allclose(out, (p * (y @ z.T)).T, atol=1e-2 * np.abs(out).max())
    np.testing.assert_allclose(g[:64, :32], p @ z, atol=1e-2 * np.abs(p @ z).max())
    ds = p * (y @ z.T)
    np.testing.assert_allclose(k[:64, :32], ds @ x, atol=1e-2 * np.abs(ds @ x).max())


@triton.jit
def wide_heads(q, g, k, out, n, N: tl.constexpr, D: tl.constexpr):
    """Gradients of 32 rows: `x` is multiplied as it is and transposed, `y` transposed."""
    i, j, d = tl.arange(0, 32), tl.arange(0, N), tl.arange(0, D)
    at = i[:, None] * D + d[None, :]
    x, y, acc = tl.load(q + at), tl.load(g + at), tl.zeros((N, D), tl.float32)
    for start in range(0, n, N):
        z = tl.load(k + (start + j)[:, None] * D + d[None, :], mask=(start + j)[:, None] < n, other=0.0)
        p = tl.dot(z, x.T) * tl.dot(z, y.T)
        acc = tl.dot(p.to(tl.float16), x, acc)
    tl.store(out + j[:, None] * D + d[None, :], acc)


@pytest.mark.parametrize("arch, warps", [(80, 4), (89, 1), (90, 2)])
def test_operands_that_registers_should_not_hold_are_shared_once(check, arch, warps):
    rng = np.random.default_rng(2)
    x, y, k = (rng.integers(-2, 3, (rows, 256)).astype(np.float16) / 8 for rows in (32, 32, 40))
    args = x, y, k, np.zeros((16, 256), np.float32), 40, 16, 256
    check(wide_heads, *args, arch=arch, warps=warps, stages=1, tolerance=1e-2)
    types = {"q": "*fp16", "g": "*fp16", "k": "*fp16", "out": "*fp32", "n": "i32"}
    _, text, loop = lowered(wide_heads, types, {"N": 16, "D": 256}, 2)
    read = re.findall(r"= (\w+) .*tile<(?:32x256|256x32)xf16>\n", loop)
    assert ":2 = share " in text.replace(loop, "") and sorted(read) == ["buffer_load"] * 3 + ["trans"] * 2
