"""Rules of the language that few programs meet, the same on every backend."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


# --- split ------------------------------------------------------------------------------------------------------------
@triton.jit
def split_all(o):
    x = tl.load(o + tl.arange(0, 4)).reshape(2, 2)
    left, right = tl.split(x)
    a, b = left.split()
    c, d = tl.split(right)
    tl.store(o + 4, a * 216 + b * 36 + c * 6 + d)
    e, f = tl.split(tl.join(a, d))
    tl.store(o + 5, e - f)


@triton.jit
def split_others(o):
    first, second = tl.split(tl.load(o + tl.arange(0, 2)) > 3)
    if first:
        tl.store(o + 2, 7)
    if second:
        tl.store(o + 3, 7)
    p, q = tl.split(o + tl.arange(0, 2))
    tl.store(q, tl.load(p) + 1)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "i2"])
def test_split_down_to_scalars(anywhere, dtype):
    o = np.array([5, 3, 2, 4, 0, 0], dtype)
    anywhere(split_all, [o])
    assert o.tolist() == [5, 3, 2, 4, 1174, 1]


def test_split_bools_and_pointers(anywhere):
    o = np.array([5, 3, 0, 0], np.int32)
    anywhere(split_others, [o])
    assert o.tolist() == [5, 6, 7, 0]


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_split_assembles(arch):
    made = triton.compile(ASTSource(split_all, {"o": "*fp32"}), target=GPUTarget("cuda", arch, 32))
    assert made.asm["cubin"]


# --- if expressions ---------------------------------------------------------------------------------------------------
@triton.jit
def put(o, x):
    tl.store(o, x)


@triton.jit
def choose_calls(o, n):
    put(o, 1) if n > 3 else put(o, 2)
    tl.store(o + 1, 3) if n > 3 else None
    None if n > 3 else tl.store(o + 2, 4)
    nothing = put(o + 3, 5) if n > 3 else put(o + 3, 6)
    if nothing is None:
        tl.store(o + 4, 7)


@triton.jit
def one_value(o, n):
    tl.store(o, put(o, 1) if n > 3 else 2)


@pytest.mark.parametrize("n, expected", [(5, [1, 3, 0, 5, 7]), (2, [2, 0, 4, 6, 7])])
def test_an_if_expression_without_values(anywhere, n, expected):
    o = np.zeros(5, np.int32)
    anywhere(choose_calls, [o, n])
    assert o.tolist() == expected


def test_an_if_expression_with_a_value_on_one_side_only():
    with pytest.raises(triton.CompilationError, match="cannot convert None"):
        one_value[(1,)](np.zeros(1, np.int32), 5)


# --- an index of Nones ------------------------------------------------------------------------------------------------
@triton.jit
def add_axes(o, n, f, C: tl.constexpr):
    one, two = tl.arange(0, 1), tl.arange(0, 1)[:, None]
    tl.static_assert(n[None, None].shape == (1, 1))
    tl.store(o + one, n[None])
    tl.store(o + 1 + two, n[None, None] * 2)
    tl.store(o + 2 + one, (n > 2)[None])
    tl.store(o + 3 + one, tl.sum(tl.arange(0, 4), 0)[None])
    tl.store(o[None, None] + 4, f[None, None])
    tl.store(o + 5 + two, C[None, None])
    tl.store(o + 6 + one, tl.program_id(0)[None] + 9)


@pytest.mark.parametrize("n", [7, 1])  # an argument that equals 1 is a constant
def test_nones_index_scalars_and_numbers(anywhere, n):
    o = np.zeros(7, np.int32)
    anywhere(add_axes, [o, n, 2.5, 3])
    assert o.tolist() == [n, 2 * n, n > 2, 6, 2, 3, 9]


# --- the type of a constant tuple -------------------------------------------------------------------------------------
@triton.jit
def types_of_tuples(o, T: tl.constexpr, x):
    tl.static_assert(isinstance(T.type, tl.constexpr_type))
    tl.static_assert(T.type == tl.constexpr_type((3, 4)))
    tl.static_assert(T.type != tl.constexpr_type((3, 5)))
    tl.static_assert((3, 4).type == T.type)
    tl.static_assert(isinstance((o, x).type, tl.core.tuple_type))
    tl.store(o, T[0] + len(T))


def test_the_type_of_a_tuple_given_as_a_constant(anywhere):
    o = np.zeros(1, np.int32)
    anywhere(types_of_tuples, [o, (3, 4), 5])
    assert o.tolist() == [5]


# --- sums of bools ----------------------------------------------------------------------------------------------------
@triton.jit
def count(o, x, flags):
    i = tl.arange(0, 8)
    m = tl.load(x + i) > 2
    tl.static_assert(tl.sum(m).dtype == tl.uint32)
    tl.static_assert(tl.cumsum(m, 0).dtype == tl.uint32)
    tl.store(o, tl.sum(m))
    rows = tl.sum(m.reshape(2, 4), 1, keep_dims=True)
    tl.static_assert(rows.dtype == tl.uint32)
    tl.store(o + 1 + tl.arange(0, 2)[:, None], rows)
    tl.store(o + 3, m.sum(dtype=tl.int32))
    tl.store(o + 4, tl.sum(m, dtype=tl.float32))
    tl.store(o + 5, tl.sum(m, dtype=tl.int1))  # one bit: the parity
    tl.store(o + 6, tl.max(tl.cumsum(m, 0), 0))
    loaded = tl.load(flags + i)
    tl.static_assert(loaded.dtype == tl.int1)
    tl.store(o + 7, tl.sum(loaded, 0))


def test_the_sum_of_bools_counts_them(anywhere):
    o = np.zeros(8, np.int32)
    anywhere(count, [o, np.arange(8, dtype=np.int32), np.arange(8) % 3 == 0])
    assert o.tolist() == [5, 1, 4, 5, 5, 1, 5, 3]
