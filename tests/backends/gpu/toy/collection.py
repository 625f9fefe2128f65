"""The collection of kernels, on little data: name -> a function that gives what a kernel makes, and what it should."""

import inspect
from contextlib import contextmanager
from unittest import mock

import numpy as np

from tests.backends.gpu.modules import module_of
from tritium.kernels import (
    add_relu_mul,
    attention,
    compaction,
    conv2d,
    cross_entropy,
    decode_attention,
    descriptor_matmul,
    double_buffer,
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
    scaled_matmul,
    silu,
    softmax,
    split_k_matmul,
    summation,
    topk,
    transpose,
    vector_add,
)
from tritium.runtime.jit import JITFunction

rng = np.random.default_rng(3)
OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")
NOT_RUN = ("grouped_matmul_kernel",)  # its matrices are reached by addresses in memory, which an emulator moves


@contextmanager
def launches(take):
    """Launches of kernels go to take(name, module, values, grid, options)."""

    def launch(kernel, grid, args, kwargs):
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs and name not in kernel.arg_names}
        bound = inspect.signature(kernel.fn).bind(*args, **kwargs)
        bound.apply_defaults()
        module, values = module_of(kernel, list(bound.arguments.values()))
        take(kernel.fn.__name__, module, values, grid(bound.arguments) if callable(grid) else grid, options)

    taken = lambda self, grid: lambda *args, **kwargs: launch(self, grid, args, kwargs)
    with (mock.patch.object(JITFunction, "__getitem__", taken),
          mock.patch.object(JITFunction, "warmup", lambda self, *args, **kwargs: None)):  # fmt: skip
        yield


def check(name, run, compiled):
    """Run a case: run(module, values, grid, **options) launches a kernel, compiled(module, **options) only compiles it.

    What the kernels make must be what the reference gives.
    """
    names = []

    def take(kernel, module, values, grid, options):
        names.append(kernel)
        if kernel in NOT_RUN:
            compiled(module, **options)
        else:
            run(module, values, grid, **options)

    with launches(take):
        made, wanted = CASES[name]()
    assert names
    for x, y in zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]:
        tolerance = 1e-2 if x.dtype.itemsize < 4 else 2e-3
        np.testing.assert_allclose(x.astype(np.float64), y, rtol=tolerance, atol=2e-4)


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


def same(module, fn, *args, reference=None, **kwargs):
    """A function of the collection and its reference, on the same arguments."""
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in args]
    known = {name: x for name, x in kwargs.items() if name != "blocks"}
    return lambda: (fn(*args, **kwargs), (reference or module.reference)(*wide, **known))


def of_record(module, size, dtype):
    """What the first record of a module runs."""
    record = module.KERNELS[0]

    def run():
        arguments = record.make_arguments(size, dtype, "numpy")
        made, wanted = record.wrapper(*arguments), record.expected(*arguments)
        return (made if isinstance(made, tuple) else (made,)), wanted

    return run


def attention_and_gradients(causal):
    q, k, v, dout = (floats(1, 24, 16) for _ in range(4))
    out, lse = attention.attention(q, k, v, causal, blocks=(16, 16))
    gradients = attention.attention_backward(dout, q, k, v, out, lse, causal, blocks=(16, 16))
    wide = [x.astype(np.float64) for x in (dout, q, k, v)]
    return (out, *gradients), (attention.reference(*wide[1:], causal), *attention.reference_backward(*wide, causal))


def compact():
    x = floats(300)
    values, indices = compaction.compact(x, block=128)
    order = np.argsort(indices)
    return (values[order], indices[order]), compaction.reference(x)


def layer_norm_and_gradients(shares):
    x, dout = floats(9, 70), floats(9, 70)
    weight, bias = floats(70), floats(70)
    out, mean, rstd = layer_norm.layer_norm(x, weight, bias)
    gradients = layer_norm.layer_norm_backward(dout, x, weight, mean, rstd, groups=4, shares=shares)
    wide = [a.astype(np.float64) for a in (x, dout, weight, bias)]
    return (out, *gradients), (layer_norm.reference(wide[0], *wide[2:]), *layer_norm.reference_backward(
        wide[1], wide[0], wide[2]))  # fmt: skip


def products_of_groups():
    """Compiled alone: addresses in memory mean nothing to the emulator."""
    grouped_matmul.grouped_matmul([(floats(16, 16), floats(16, 16))], programs=1)
    return (), ()


_angles = rotary.angles(8, 16)
_images = floats(2, 3, 12, 12)
_labels = rng.integers(0, 90, 5)
_a, _b = floats(40, 33), floats(33, 50)
_half = [floats(64, 32, dtype=np.float16), floats(32, 64, dtype=np.float16)]
CASES = {
    "add_relu_mul": same(add_relu_mul, add_relu_mul.add_relu_mul, floats(300), floats(300), 2.0),
    "attention": lambda: attention_and_gradients(False),
    "attention, causal": lambda: attention_and_gradients(True),
    "compaction": compact,
    "conv2d, filter": same(conv2d, conv2d.filter2d, floats(20, 40), floats(3, 3), reference=conv2d.reference_filter),
    "conv2d": same(conv2d, conv2d.conv2d, _images, floats(8, 3, 3, 3), blocks=(32, 16, 16)),
    "cross_entropy": same(cross_entropy, lambda *x: cross_entropy.cross_entropy(*x, True), floats(5, 90), _labels),
    "decode_attention": of_record(decode_attention, 100, "float32"),
    "descriptor_matmul": of_record(descriptor_matmul, 32, "float16"),
    "double_buffer": of_record(double_buffer, 3000, "float32"),
    "dropout": same(dropout, dropout.dropout, floats(300), 0.5, 7),
    "first_column": same(first_column, first_column.first_column, floats(20, 7)),
    "fused_mlp": same(fused_mlp, fused_mlp.fused_mlp, floats(20, 40), floats(40), floats(30, 40), floats(30)),
    "grouped_matmul": products_of_groups,
    "histogram": same(histogram, histogram.digit_histogram, rng.integers(0, 1 << 20, 900, dtype=np.int32)),
    "layer_norm": lambda: layer_norm_and_gradients(False),
    "layer_norm, shares": lambda: layer_norm_and_gradients(True),
    "mandelbrot": lambda: (mandelbrot.mandelbrot(24, 16, limit=20), mandelbrot.reference(24, 16, limit=20)),
    "matmul": same(matmul, lambda a, b, **_: matmul.matmul(a, b, precision="ieee", blocks=(32, 32, 32)), _a, _b),
    "matmul, fp16": same(matmul, lambda a, b: matmul.matmul(a, b, blocks=(32, 32, 32), out_dtype="float32"), *_half),
    "matmul, plain": same(matmul, matmul.matmul_plain, _a, _b, blocks=(32, 32, 32)),
    "max_pool": same(max_pool, max_pool.max_pool, _images),
    "persistent_matmul": same(persistent_matmul, persistent_matmul.persistent_matmul, _a, _b, blocks=(32, 32, 32)),
    "rms_norm, vector": same(rms_norm, rms_norm.rms_norm_vector, floats(500), floats(500)),
    "rms_norm": same(rms_norm, rms_norm.rms_norm, floats(6, 100), floats(100)),
    "rotary": same(rotary, rotary.rotary, floats(2, 8, 4, 16), *(x.astype(np.float32) for x in _angles)),
    "scaled_matmul": of_record(scaled_matmul, 128, "float8_e4m3fn"),
    "silu": same(silu, silu.silu, floats(300)),
    "softmax": same(softmax, softmax.softmax, floats(6, 100)),
    "softmax, persistent": same(softmax, lambda x: softmax.persistent(x, shares=False), floats(6, 100)),
    "softmax, shares": same(softmax, softmax.persistent, floats(6, 100)),
    "split_k_matmul": of_record(split_k_matmul, 128, "float32"),
    "summation": same(summation, lambda x: summation.sum_of(x, shares=False), floats(3000)),
    "summation, shares": same(summation, lambda x: summation.sum_of(x, 512, programs=3), floats(3000)),
    "topk": same(topk, topk.topk, floats(5, 100), 4),
    "transpose": same(transpose, transpose.transpose, floats(40, 70)),
    "vector_add": same(vector_add, vector_add.vector_add, floats(300), floats(300)),
}
