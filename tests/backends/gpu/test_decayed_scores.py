"""Scores that decay with the distance, by products that read registers: the slots of their loop, and their layouts."""

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
