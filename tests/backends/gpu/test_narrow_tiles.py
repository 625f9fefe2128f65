"""Tiles that are longer than what masks leave of them: computed as far as that, with the same results."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium import ops
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.ir.core import walk
from tritium.tools.pass_registry import steps

TARGET = GPUTarget("cuda", 90, 32)
PASSES = steps(TARGET, BaseBackend(TARGET).parse_options({}))


def stored(kernel, *args):
    """The shapes of what the kernel stores, once it is narrowed."""
    module = module_of(kernel, args)[0]
    for name in ("inline_for_gpu", "apply_hints", "simplify", "narrow_tiles"):
        module = PASSES[name].run(module, None)
    return [op.operands[0].type.shape for op in walk(module.body) if op.kind.writes]


@triton.jit
def softmax(x, total, out, rows, D: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, TWICE: tl.constexpr):
    d = tl.program_id(0).to(tl.int64) * BD + tl.arange(0, BD)
    largest, sums = tl.full((BC, BD), 0.0, tl.float32), tl.zeros((BC, BD), tl.float32)
    for start in range(0, rows, BC):
        c = start + tl.arange(0, BC)
        v = tl.load(x + c[:, None] * D + d[None, :], (c[:, None] < rows) & (d[None, :] < D), other=-float("inf"))
        new = tl.maximum(largest, v)
        sums = sums * tl.exp(largest - new) + tl.exp(v - new)
        largest = new
    most = tl.max(largest, 0)
    s = tl.sum(sums * tl.exp(largest - most[None, :]), 0)
    if TWICE:
        if tl.program_id(0) == 0:
            s = s * 2
        else:
            s = s + 1
    tl.store(total + d, s, d < D)
    for start in range(0, rows, BC):
        c = start + tl.arange(0, BC)
        inside = (c[:, None] < rows) & (d[None, :] < D)
        v = tl.load(x + c[:, None] * D + d[None, :], inside)
        tl.store(out + c[:, None] * D + d[None, :], tl.exp(v - most[None, :]) / s[None, :], inside)


@pytest.mark.parametrize(("columns", "kept"), [(1, 1), (2, 2), (3, 4), (5, 4)])
def test_columns_that_a_tensor_does_not_have(check, columns, kept):
    x = data("f4", 100, columns)
    for twice in (False, True):
        args = x, np.zeros(columns, "f4"), np.zeros_like(x), 100, columns, 64, 4, twice
        assert stored(softmax, *args) == [(kept,), (64, kept)]
        check(softmax, *args, grid=(2,), tolerance=1e-5)


@triton.jit
def squared(x, out, last, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr, WAY: tl.constexpr):
    i, n = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B), tl.arange(0, B)
    inside = (i < M)[:, None] & (n < N)[None, :]
    v = tl.load(x + i[:, None] * N + n[None, :], inside, other=0.0)
    if WAY == "sum":
        v = v + tl.sum(v, 0)[None, :]
    elif WAY == "scan":
        v = tl.cumsum(v, 0)
    elif WAY == "below":
        inside = (i + last < M)[:, None] & (n < N)[None, :]
    elif WAY == "over":
        inside = (i - 2 < M)[:, None] & (n < N)[None, :]
    elif WAY == "triangle":
        inside = i[:, None] < n[None, :]
    elif WAY == "turned":
        v = tl.trans(tl.trans(v) + 1)
    elif WAY == "joined":
        v = tl.sum(tl.join(v, v * 2), 2)
    elif WAY == "hinted":
        i = tl.max_contiguous(tl.multiple_of(i, B), B)
    if WAY == "atomic":
        tl.atomic_add(out + i[:, None] * B + n[None, :], v, inside)
    else:
        tl.store(out + i[:, None] * B + n[None, :], v, inside)
    if WAY == "all":
        tl.store(out + i * B, (i + 1).to(tl.float32))


@pytest.mark.parametrize(("way", "rows"), [
    ("", 1), ("turned", 1), ("joined", 1), ("atomic", 1),
    ("sum", 16), ("scan", 16), ("below", 16), ("over", 16), ("all", 16), ("hinted", 16),
    ("triangle", 16),
])  # fmt: skip
def test_an_axis_is_narrowed_unless_something_needs_the_rest(check, way, rows):
    x = np.concatenate([data("f4", 1, 16), np.zeros((15, 16), "f4")])
    args = x, np.zeros((16, 16), "f4"), -2 if way == "below" else 0, 1, 16, 16, way
    assert stored(squared, *args)[0] == (rows, 16)
    check(squared, *args, tolerance=1e-5)


@triton.jit
def powers(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < 1, other=2.0)
    k = 0
    while k < n:
        v = v * v
        k += 1
    tl.store(out + i, v, i < 1)


def test_what_a_while_loop_carries(check):
    args = data("f4", 8), np.zeros(8, "f4"), 3, 8
    assert stored(powers, *args) == [(1,)]
    check(powers, *args, tolerance=1e-5)


def test_a_kernel_without_such_masks_stays_as_it_is():
    module = module_of(squared, (data("f4", 16, 16), np.zeros((16, 16), "f4"), 0, 16, 16, 16, ""))[0]
    module = PASSES["simplify"].run(module, None)
    assert PASSES["narrow_tiles"].run(module, None) is module
    assert ops.store in module.kinds
