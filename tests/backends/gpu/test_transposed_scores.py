"""Scores of attention whose transposes are multiplied: they are computed in that order of axes."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of

pytestmark = pytest.mark.sampled


@triton.jit
def gradients(q_ptr, k_ptr, v_ptr, do_ptr, rows_ptr, dk_ptr, dv_ptr, dq_ptr, trips, stride, BIAS: tl.constexpr,
              CAUSAL: tl.constexpr, QUERIES: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Gradients of keys and values, perhaps of queries, by scores with a row for each query."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    at = n[:, None] * D + d[None, :]
    k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
    dk, dv = tl.zeros((N, D), tl.float32), tl.zeros((N, D), tl.float32)
    for start in range(0, trips * M, M):
        rows = (start + m)[:, None] * D + d[None, :]
        q, do = tl.load(q_ptr + rows), tl.load(do_ptr + rows)
        row = tl.load(rows_ptr + (start + m) * stride)
        s = tl.dot(q, k.T) * 0.125 - row[:, None]
        if BIAS:
            s += tl.load(rows_ptr + m[:, None] * N + n[None, :])
        if CAUSAL:
            s = tl.where((start + m)[:, None] >= n[None, :], s, 0.0)
        dv += tl.dot(s.to(do.dtype).T, do)
        ds = (s * (tl.dot(do, v.T) - row[:, None])).to(q.dtype)
        dk += tl.dot(ds.T, q)
        if QUERIES:
            tl.store(dq_ptr + rows, tl.dot(ds, k))
    tl.store(dk_ptr + at, dk)
    tl.store(dv_ptr + at, dv)


def args_of(m=32, n=128, d=64, trips=2, bias=False, causal=False, queries=False, stride=1):
    tiles = [data("f2", rows, d) for rows in (trips * m, n, n, trips * m)]
    sums = [np.zeros((rows, d), "f4") for rows in (n, n, trips * m)]
    return *tiles, data("f4", max(m * n, trips * m * stride)), *sums, trips, stride, bias, causal, queries, m, n, d


def dots(text):
    """The sizes of the asynchronous products of a loop, and those of other dots."""
    return re.findall(r"= dot_shared .*lhs=tile<(\w+)>", text), len(re.findall(r"= dot %", text))


def lies_along(text):
    """The contiguous axes of the lhs of asynchronous products."""
    return "".join(re.findall(r"= dot_shared .*a_axis=(\d)", text))


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("m, n, warps", [(32, 128, 8), (64, 64, 4), (64, 64, 8), (16, 64, 4)])
@pytest.mark.parametrize("causal, queries", [(False, False), (True, True)])
def test_they_agree(check, m, n, warps, stages, causal, queries):
    for trips in (0, 1, 3):
        check(gradients, *args_of(m, n, 64, trips, False, causal, queries), warps=warps, stages=stages, tolerance=1e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("m, n, warps", [(32, 128, 8), (64, 64, 4), (16, 64, 4)])
def test_their_transposes_stay_in_registers(m, n, warps, causal):
    text = ttgir_of(gradients, args_of(m, n, causal=causal), warps=warps, num_stages=1)
    loop = text[text.index(" = for "):text.index(" release ")]
    tall, wide = f"{n}x64xf16", f"{n}x{m}xf16"
    assert dots(text) == ([tall, wide, tall, wide], 0)
    assert (loop.count("= convert "), loop.count("= share ")) == (0, 1)  # queries and gradients, as they are loaded


def test_a_product_that_is_not_transposed_reads_them_from_shared_memory():
    text = ttgir_of(gradients, args_of(64, 64, queries=True), num_stages=1)
    loop = text[text.index(" = for "):text.index(" release ")]
    assert dots(text) == (["64x64xf16"] * 5, 0) and loop.count("= share ") == 2
    assert lies_along(text) == "11110"


def test_with_a_loaded_tile_they_stay_as_they_are():
    text = ttgir_of(gradients, args_of(64, 64, bias=True), num_stages=1)
    assert lies_along(text) == "1010"


def test_short_rows_are_loaded_once():
    """A thread needs 16 rows: from neighbours in memory it loads them, else it has them from the others."""
    assert [ttgir_of(gradients, args_of(64, 64, stride=stride), num_stages=1).count("= convert %") for stride in
            (1, 3)] == [2, 3]
