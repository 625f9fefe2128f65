"""Reductions of tiles that registers do not hold are loops over chunks, and only where nothing else needs the tile."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tritium import ops
from tritium.backends.gpu.rewrite.reduce_in_chunks import CHUNK, MOST, reduce_in_chunks
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir import types as T
from tritium.ir.core import walk
from tritium.ir.verify import verify

N = 2 * MOST * 32  # elements that one warp does not hold


@triton.jit
def first_of_the_largest(out, p, q, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i, mask=i < n, other=0)
    y = tl.load(q + i, mask=i < n, other=float("-inf"))
    tl.store(out, tl.argmax(x / y, axis=0))


@triton.jit
def log_of_sum(out, p, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i, mask=i < n, other=float("-inf"))
    top = tl.max(x, axis=0)
    tl.store(out, top + tl.log(tl.sum(tl.exp(x - top), axis=0)))


@triton.jit
def _at_least(a, b):
    return tl.maximum(tl.maximum(a, b), 3)


@triton.jit
def by_a_function_with_a_constant(out, p, N: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(p + 8 + tl.arange(0, N)) & 1, 0, _at_least))


@triton.jit
def in_a_loop(out, p, rows, N: tl.constexpr):
    total = 0.0
    for k in range(rows):
        total += tl.sum(tl.load(p + k * N + tl.arange(0, N)), axis=0)
        tl.store(out + k, total)


@triton.jit
def four_sums(out, p, q, w, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i, mask=i < n, other=0.0)
    y = tl.load(q + i, mask=i < n, other=0.0)
    tl.store(out, tl.sum(x * y, axis=0) + 2 * tl.sum(y, axis=0) + 3 * tl.max(w * y, axis=0) + tl.min(x * y * w, axis=0))


@triton.jit
def kept(out, p, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i)
    tl.store(out + i, x / tl.sum(x, axis=0))


@triton.jit
def changed_in_between(out, p, N: tl.constexpr):
    x = tl.load(p + tl.arange(0, N))
    tl.store(p + 1, 100.0)
    tl.store(out, tl.sum(x, axis=0))


@triton.jit
def one_element_is_used(out, p, N: tl.constexpr):
    x = tl.load(p + tl.arange(0, N))
    tl.store(out, tl.sum(x, axis=0) + tl.sum(tl.cumsum(x, 0), axis=0))


def _values(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


CHUNKED = {
    "argmax": (first_of_the_largest, [np.zeros(1, np.int32), _values(N), 1 + _values(N, 1) ** 2, N - 37]),
    "twice": (log_of_sum, [np.zeros(1, np.float32), _values(N), N - 37]),
    "function": (by_a_function_with_a_constant, [np.zeros(1, np.int32), np.arange(N + 8, dtype=np.int32)]),
    "together": (four_sums, [np.zeros(1, np.float32), np.round(_values(N)), np.round(_values(N, 1)), 2.0, N - 37]),
    "loop": (in_a_loop, [np.zeros(3, np.float32), np.round(_values(3 * N)), 3]),
}
AT_ONCE = {
    "kept": (kept, [np.zeros(N, np.float32), 1 + _values(N) ** 2]),
    "changed": (changed_in_between, [np.zeros(1, np.float32), np.round(_values(N))]),
    "used": (one_element_is_used, [np.zeros(1, np.float32), np.round(_values(N))]),
}


LOOPS = {"twice": 2, "loop": 2}  # others have one


def _rewritten(kernel, args):
    """The ops of a kernel for one warp."""
    module = module_of(kernel, [*args, N])[0]
    module = module.replace(attrs={**module.attrs, "num_warps": 1, "num_ctas": 1})
    return [*walk(verify(reduce_in_chunks(module, NvTarget.of(90))).body)]


def _largest(kernel, args):
    """How many elements the largest tile has that is reduced."""
    return max(T.numel(op.operands[0].type) for op in _rewritten(kernel, args) if op.kind is ops.reduce)


@pytest.mark.parametrize("name", CHUNKED)
def test_a_chunk_at_a_time(check, name):
    kernel, args = CHUNKED[name]
    assert _largest(kernel, args) == 32 * (CHUNK // 2 if name == "together" else CHUNK)
    assert sum(op.kind is ops.for_ for op in _rewritten(kernel, args)) == LOOPS.get(name, 1)
    check(kernel, *args, N, warps=1, tolerance=1e-5)


@pytest.mark.parametrize("name", AT_ONCE)
def test_tiles_that_something_else_needs_stay(name):
    assert _largest(*AT_ONCE[name]) == N


def test_what_a_store_changes_is_loaded_before(check):
    check(changed_in_between, *AT_ONCE["changed"][1], N, warps=1)


def test_tiles_that_fit_stay():
    kernel, args = CHUNKED["argmax"]
    module = module_of(kernel, [*args, N])[0]
    module = module.replace(attrs={**module.attrs, "num_warps": 2, "num_ctas": 1})
    assert reduce_in_chunks(module, NvTarget.of(90)) is module
