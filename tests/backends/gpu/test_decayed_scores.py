"""Scores that decay: the slots of loops around products that read registers, and the layouts of weights."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium import passes
from tritium.backends.gpu.passes import pipeline
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.text import print_module


@triton.jit
def decayed(q_ptr, k_ptr, v_ptr, o_ptr, rate, C: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0)
    rows, d = tl.arange(0, C), tl.arange(0, D)
    mine = i * C + rows
    q = tl.load(q_ptr + mine[:, None] * D + d[None, :])
    acc = tl.zeros([C, D], tl.float32)
    for j in range(i + 1):
        other = j * C + rows
        k = tl.load(k_ptr + other[None, :] * D + d[:, None])
        v = tl.load(v_ptr + other[:, None] * D + d[None, :])
        distance = mine[:, None] - other[None, :]
        weight = tl.exp(tl.where(distance >= 0, -rate * distance, float("-inf")))
        scores = tl.dot(q, k, input_precision="tf32") * weight
        acc += tl.dot(scores, v, input_precision="tf32")
    tl.store(o_ptr + mine[:, None] * D + d[None, :], acc)


@triton.jit
def multiplied(a_ptr, b_ptr, c_ptr, n, C: tl.constexpr, D: tl.constexpr):
    rows, d = tl.arange(0, C), tl.arange(0, D)
    acc = tl.zeros([C, C], tl.float32)
    for start in range(0, n, D):
        a = tl.load(a_ptr + rows[:, None] * n + start + d[None, :])
        b = tl.load(b_ptr + rows[None, :] * n + start + d[:, None])
        acc += tl.dot(a, b, input_precision="tf32")
    tl.store(c_ptr + rows[:, None] * C + rows[None, :], acc)


def optimized(kernel, args, stages=3):
    """The text of a kernel for four warps."""
    module = passes.run(module_of(kernel, args)[0], passes.CLEANUP)
    module = module.replace(attrs={**module.attrs, "num_warps": 4, "num_stages": stages, "launch_checks": True})
    return print_module(passes.run(module, pipeline(NvTarget.of(90))))


def arguments(length, size):
    return (*(data("f4", length, size) for _ in range(3)), np.zeros((length, size), "f4"), 0.0, 32, size)


@pytest.mark.parametrize(("size", "slots"), [(64, 3), (128, 2)])
def test_a_slot_gives_way_to_a_second_program(check, size, slots):
    """Three slots of 32 kB and queries of 16 fill more than half of the multiprocessor's shared memory."""
    text = optimized(decayed, arguments(96, size))
    assert set(re.findall(r"slots=(\d+)", text)) == {str(slots)}
    check(decayed, *arguments(96, size), grid=(3,), stages=3, tolerance=1e-2)


def test_sums_of_products_keep_their_slots():
    """No thread waits for a product that the loop only adds to."""
    args = [data("f4", 32, 512), data("f4", 32, 512), np.zeros((32, 32), "f4"), 512, 32, 128]
    assert set(re.findall(r"slots=(\d+)", optimized(multiplied, args, stages=4))) == {"4"}


def test_weights_have_the_layout_of_the_product_that_they_scale():
    """A mask behind a branch can have any layout: only the weighted scores are converted, to be multiplied."""
    text = optimized(decayed, arguments(96, 128))
    body = text[text.index("= for ") : text.rindex("yield")]
    assert len(re.findall(r"= convert ", body)) == 1
    (product,) = re.findall(r"= dot .*layout=(\(.*\))} : tile<32x32xf32>", body)
    assert re.findall(r"= exp .*layout=(\(.*\))}", body) == [product]
    assert "= if " in body


@triton.jit
def scaled_scores(q_ptr, k_ptr, decay_ptr, scale_ptr, out_ptr, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    acc = tl.zeros([M, N], tl.float32)
    for start in range(0, n, D):
        q = tl.load(q_ptr + m[:, None] * n + start + d[None, :])
        k = tl.load(k_ptr + j[None, :] * n + start + d[:, None])
        decay = tl.load(decay_ptr + start + m)[:, None] - tl.load(decay_ptr + start + j)[None, :]
        scores = tl.dot(q, k) * tl.load(scale_ptr + start + j)[None, :]
        acc += scores * tl.exp(tl.minimum(decay, 0.0))
    tl.store(out_ptr + m[:, None] * N + j[None, :], acc)


def test_a_row_and_a_column_are_combined_in_the_layout_of_the_product_that_they_scale(check):
    """It was the layout of the loads, from which each tile of weights was converted."""
    args = *(data("f2", 64, 256) for _ in range(2)), data("f4", 256), data("f4", 256), np.zeros((64, 32), "f4")
    args = args[0], args[1][:32].copy(), *args[2:], 256, 64, 32, 64
    text = optimized(scaled_scores, args)
    assert "= convert " not in text[text.index("= for ") : text.rindex("yield")]
    check(scaled_scores, *args, tolerance=1e-3)
