"""Every kernel of the collection can be explained for every target, and none of them makes a false alarm."""

import functools

import numpy as np
import pytest

from tritium.insight.explain.capture import first_launch
from tritium.insight.explain.explanation import explained
from tritium.kernels import (
    add_relu_mul,
    attention,
    compaction,
    conv2d,
    cross_entropy,
    dropout,
    first_column,
    fused_mlp,
    grouped_matmul,
    histogram,
    layer_norm,
    mandelbrot,
    matmul,
    max_pool,
    persistent_matmul,
    rms_norm,
    rotary,
    silu,
    softmax,
    summation,
    topk,
    transpose,
    vector_add,
)

pytestmark = pytest.mark.sampled


def some(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def half(*shape):
    return some(*shape, dtype=np.float16)


PROGRAMS = {
    "vector add": lambda: vector_add.vector_add(some(3000), some(3000)),
    "add, ReLU, multiply": lambda: add_relu_mul.add_relu_mul(some(3000), some(3000), 0.5),
    "attention": lambda: attention.attention(half(2, 128, 64), half(2, 128, 64), half(2, 128, 64), causal=True),
    "compaction": lambda: compaction.compact(some(3000)),
    "filter": lambda: conv2d.filter2d(some(60, 200), some(3, 3)),
    "convolution": lambda: conv2d.conv2d(some(1, 8, 20, 20), some(8, 8, 3, 3), 1, 1),
    "cross entropy": lambda: cross_entropy.cross_entropy(some(8, 500), np.arange(8)),
    "dropout": lambda: dropout.dropout(some(3000), 0.3, 42),
    "first column": lambda: first_column.first_column(some(600, 16)),
    "fused MLP": lambda: fused_mlp.fused_mlp(half(64, 64), half(64), half(128, 64), half(128)),
    "grouped matmul": lambda: grouped_matmul.grouped_matmul([(half(64, 64), half(64, 32)), (half(9, 8), half(8, 64))]),
    "histogram": lambda: histogram.digit_histogram(np.arange(5000, dtype=np.int32)),
    "layer norm": lambda: layer_norm.layer_norm(some(16, 300), some(300), some(300)),
    "Mandelbrot set": lambda: mandelbrot.mandelbrot(64, 48),
    "matmul": lambda: matmul.matmul(half(128, 128), half(128, 128)),
    "matmul in f32": lambda: matmul.matmul_plain(some(100, 70), some(70, 90), "ieee"),
    "max pooling": lambda: max_pool.max_pool(some(2, 64, 64)),
    "persistent matmul": lambda: persistent_matmul.persistent_matmul(half(256, 128), half(128, 256)),
    "RMS norm": lambda: rms_norm.rms_norm(some(16, 300), some(300)),
    "rotary": lambda: rotary.rotary(half(2, 16, 4, 64), *rotary.angles(16, 64)),
    "SiLU": lambda: silu.silu(some(3000)),
    "softmax": lambda: softmax.softmax(some(16, 300)),
    "sum": lambda: summation.sum_of(some(20000)),
    "top k": lambda: topk.topk(some(16, 300), 5),
    "transpose": lambda: transpose.transpose(some(100, 120)),
}


@functools.cache
def launch(name):
    return first_launch(PROGRAMS[name])


@pytest.mark.parametrize("target", ["cpu", "cuda:80", "cuda:90a", "hip:gfx942"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kernel(name, target):
    found = explained(*launch(name)[:4], target, programs=24)
    page, report = found.html(), found.text()
    assert len(page) < 2_000_000 and found.name in page and found.name in report
    assert found.accesses.sites and [f for f in found.findings if f.kind == "error"] == []
    for r in found.requests:
        assert r.how == "removed" or r.sectors >= r.minimum > 0 and 1 <= r.vector <= r.widest, r
    if target != "cpu":
        assert found.requests and found.resources.occupancy.programs >= 1 and found.prediction.seconds > 0
        assert {r.how for r in found.requests} <= {"threads", "cp.async", "TMA"}
