"""Mistakes of habit: what other libraries, and Python itself, would have taken."""

# ruff: noqa: F841

import numpy as np

import tritium as triton
import tritium.language as tl

from .cases import mistake


@mistake(out="*fp32", BLOCK=16)
def arange_from_the_program(out, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out + tl.arange(pid * BLOCK, (pid + 1) * BLOCK), 0.0)


@mistake(x="*fp32")
def dtype_of_numpy(x):
    tl.store(x, tl.load(x).to(np.float16))


TABLE = np.ones(4, np.float32)


@mistake(x="*fp32")
def global_array(x):
    tl.store(x, TABLE[0])


@mistake(out="*fp32")
def loop_over_pairs(out):
    for k, v in enumerate((1.0, 2.0)):
        tl.store(out + k, v)


@mistake(out="*fp32")
def loop_up_to_a_block(out):
    for k in range(tl.arange(0, 16)):
        tl.store(out + k, 1.0)


@mistake(out="*fp32")
def loop_without_end(out):
    k = 0
    while True:
        tl.atomic_add(out + k, 1.0)
        k += 1


@mistake(x="*fp32")
def max_of_a_scalar(x):
    tl.store(x, tl.max(tl.load(x), 0))


@mistake(x="*fp32", BLOCK=16)
def dot_of_vectors(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(x, tl.dot(v, v))


@mistake(x="*fp32", BLOCK=16)
def reshape_to_what_is_left(x, BLOCK: tl.constexpr):
    v = tl.reshape(tl.load(x + tl.arange(0, BLOCK)), (-1, 4))


@mistake(x="*fp32", BLOCK=16)
def histogram_of_floats(x, BLOCK: tl.constexpr):
    counts = tl.histogram(tl.load(x + tl.arange(0, BLOCK)), 16)


@mistake(x="*fp32", BLOCK=16)
def gather_by_floats(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    w = tl.gather(v, v, 0)


@mistake(x="*fp32")
def store_with_its_sides_exchanged(x):
    v = tl.load(x)
    tl.store(v, x)


@mistake(x="*fp32", y="*fp16")
def dtype_of_a_pointer(x, y):
    tl.store(y, tl.load(x).to(y.dtype))


@mistake(x="*fp32", n="i32")
def tuple_as_a_number(x, n):
    sizes = (n, n)
    tl.store(x, 1.0, mask=tl.program_id(0) < sizes)


@mistake(x="*fp32")
def einsum_of_numpy(x):
    v = tl.einsum("i,i", tl.load(x), tl.load(x))


@triton.jit
def inner(x):
    tl.store(x, 1.0)


@mistake(x="*fp32")
def launch_of_a_kernel(x):
    inner[(1,)](x)
