"""Kernels run as plain Python (S09): the types and values of compiled ones, and all that the language offers."""

from collections import namedtuple

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.interp.eager_kernels import eager, run
from tritium.errors import InterpreterError
from tritium.interp.eager import InterpretedFunction

SIZE = tl.constexpr(8)


# --- types as in compiled kernels -------------------------------------------------------------------------------------
NOTED = []


def note(value):
    """Called by kernels: the type of a tensor, a constant itself."""
    NOTED.append(str(value.dtype) if isinstance(value, tl.tensor) else value)


def noted(kernel, *args, **kwargs):
    NOTED.clear()
    run(kernel, *args, **kwargs)
    return list(NOTED)


@eager
def promotions(n, one, big, flag, half, ptr):
    x = tl.zeros((4,), tl.float16)
    a = 1.0
    note(x * 1.0)
    note(x * a)
    b = 4
    note(b)
    c, (d, e) = 1, (2.5, True)
    note(c)
    note(d)
    note(e)
    note(n)
    note(one)
    note(big)
    note(flag)
    note(half)
    note(ptr)
    for i in range(3):
        note(i)
        break
    for i in range(0, n.to(tl.int64)):
        note(i)
        break
    for k in tl.static_range(2):
        note(k)
    note(x / 2)
    f: tl.constexpr = 7
    note(f)
    f += 1
    note(f)


def test_types():
    seen = noted(promotions, 7, 1, 2**31, True, 0.5, np.zeros(1, np.int16))
    assert seen == ["fp16", "fp32", "int32", "int32", "fp32", "int1", "int32", 1, "int64", "int1", "fp32",
                    "pointer<int16>", "int32", "int64", 0, 1, "fp32", 7, "int32"]


def test_an_argument_of_one_may_stay_a_value():
    kernel = InterpretedFunction(promotions.fn, do_not_specialize=["one"])
    assert noted(kernel, 7, 1, 2**31, True, 0.5, np.zeros(1, np.int16))[7] == "int32"


@eager
def annotated(a: tl.int64, b: "u8", c: float, d: "*i8", e: tl.const, f: int):  # noqa: F722, F821
    note(a)
    note(b)
    note(c)
    note(d)
    note(e)
    note(f)


def test_annotations_force_types():
    x = np.zeros(4, np.float32)
    assert noted(annotated, 1, 300, 2, x, x, 1) == \
        ["int64", "uint8", "fp32", "pointer<int8>", "const_pointer<fp32>", "int32"]


@eager
def returning(out_ptr):
    pair = helper(3)
    note(pair[0])
    note(helper(3, flag=False)[1])


@eager
def helper(x, flag=True):
    return x, 2.5 if flag else 7


def test_returned_constants_are_tensors_once_they_are_assigned():
    assert noted(returning, None) == ["int32", 7]


@eager
def logic(x_ptr, none_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    both = (x > 0) and (x < 3)
    neither = not (x > 0)
    if none_ptr is not None and tl.load(none_ptr) > 0:
        both = neither
    if BLOCK == 4 or none_ptr + 1:
        tl.store(out_ptr + tl.arange(0, BLOCK), both.to(tl.int32) + 2 * (neither or x == 3).to(tl.int32))


def test_and_or_not():
    out = np.zeros(4, np.int32)
    run(logic, np.array([-1, 1, 2, 3], np.int32), None, out, 4)
    assert out.tolist() == [2, 1, 1, 2]


@eager
def extremes(out_ptr, n):
    note(max(n, 3))
    note(min(2, 3))
    note(max(n, 2.5))
    tl.store(out_ptr, max(n, 3))
    tl.store(out_ptr + 1, min(n, 3, tl.load(out_ptr)))


def test_min_and_max():
    out = np.zeros(2, np.int32)
    assert noted(extremes, out, 7) == ["int32", 2, "fp32"]
    assert out.tolist() == [7, 3]


@eager
def choosing(n, x_ptr):
    x = tl.load(x_ptr)
    note(x * (1.0 if n > 3 else 2.0))  # a run-time condition makes a tensor
    note(x * (1.0 if SIZE > 3 else 2.0))
    note(n if None is None else 1)


def test_conditional_expressions():
    assert noted(choosing, 5, np.zeros(1, np.float16)) == ["fp32", "fp16", "int32"]


@eager
def constants(out_ptr, BLOCK: tl.constexpr, DTYPE: tl.constexpr):
    note(BLOCK.value)
    note(SIZE.value + 1)
    note(isinstance(BLOCK.type, tl.constexpr_type))
    note(SIZE is None)
    note(DTYPE)
    tl.static_assert(BLOCK == 4)
    half: tl.constexpr = BLOCK // 2
    tl.store(out_ptr + tl.arange(0, half), tl.zeros((half,), DTYPE))


def test_constants():
    assert noted(constants, np.ones(2, np.float16), tl.constexpr(4), tl.float16) == [4, 9, True, False, tl.float16]


def test_static_assert_fails():
    with pytest.raises(InterpreterError, match="static assertion failed"):
        run(constants, np.ones(2, np.float16), 8, tl.float16)


# --- what the language offers -----------------------------------------------------------------------------------------
@triton.jit
def larger(a, ai, b, bi):
    if a > b:
        r, ri = a, ai
    else:
        r, ri = b, bi
    return r, ri


@triton.jit
def digits(n):
    count = 0
    while n > 0:
        n = n // 10
        count += 1
    return count


@eager
def library(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr, x.sum())
    tl.store(out_ptr + 1, tl.max(x, 0))
    tl.store(out_ptr + 2, tl.argmin(x, 0))
    best, where = tl.reduce((x, at), 0, larger)
    tl.store(out_ptr + 3, best)
    tl.store(out_ptr + 4, where)
    tl.store(out_ptr + 8 + at, tl.sort(x))
    tl.store(out_ptr + 16 + at, tl.cumsum(x, 0))
    tl.store(out_ptr + 24 + at, tl.map_elementwise(digits, x))
    tl.store(out_ptr + 5, tl.cdiv(x[0], 4))
    tl.store(out_ptr + 6, tl.sum(tl.where(x > 5, 1, 0)))


def test_functions_of_the_language():
    x = np.array([5, 12, 3, 100, 8, 1, 77, 2], np.int32)
    out = np.zeros(32, np.int32)
    run(library, x, out, 8)
    assert out[:7].tolist() == [208, 100, 5, 100, 3, 2, 4]
    assert out[8:16].tolist() == sorted(x.tolist())
    assert out[16:24].tolist() == np.cumsum(x).tolist()
    assert out[24:].tolist() == [len(str(v)) for v in x]


@eager
def matmul(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    rows, cols, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty))


def test_matmul():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 64)).astype(np.float16), rng.standard_normal((64, 32)).astype(np.float16)
    c = np.zeros((16, 32), np.float16)
    run(matmul, a, b, c, 16, 32, 64, 16)
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=0.02, rtol=2e-3)


@eager
def nan_rules(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 2))
    tl.store(out_ptr + tl.arange(0, 2), tl.maximum(x, 5.0))
    tl.store(out_ptr + 2, tl.max(x, 0))


def test_nan_loses():
    """The official interpreter lets it win."""
    out = np.zeros(3, np.float32)
    run(nan_rules, np.array([np.nan, 7], np.float32), out)
    assert out.tolist() == [5, 7, 7]


@eager
def spin(lock_ptr, count_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


def test_spin_lock():
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(spin, lock, count, grid=(5,))
    assert count[0] == 5 and lock[0] == 0


Pair = namedtuple("Pair", "x y")


@eager
def tuples(pair, nested, out_ptr):
    tl.store(out_ptr, pair.x + pair[1])
    ptr, (n, nothing) = nested
    tl.store(ptr, n)
    tl.static_assert(nothing is None)


def test_tuple_arguments():
    out, other = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(tuples, Pair(3, 4), (other, (5, None)), out)
    assert out[0] == 7 and other[0] == 5


@eager
def descriptor(desc, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tile = desc.load([tl.program_id(0) * BM, 0])
    out = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    out.store([tl.program_id(0) * BM, 0], tile * 2)


def test_descriptors():
    from tritium.tools.tensor_descriptor import TensorDescriptor
    x = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
    y = np.zeros_like(x)
    run(descriptor, TensorDescriptor.from_tensor(x, [4, 8]), y, 6, 8, 4, 8, grid=(2,))
    assert np.array_equal(y, 2 * x)


@eager
def block_pointer(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(0, n, BLOCK):
        total += tl.load(p, boundary_check=(0,), padding_option="zero")
        p = p.advance((BLOCK,))
    tl.store(out_ptr, tl.sum(total, 0))


def test_block_pointers():
    x, out = np.arange(10, dtype=np.float32), np.zeros(1, np.float32)
    run(block_pointer, x, out, 10, 4)
    assert out[0] == 45


@eager
def table_of_pointers(addresses, out_ptr, n):
    for i in range(n):
        p = tl.load(addresses + i).to(tl.pointer_type(tl.float16))
        tl.store(out_ptr + i, tl.load(p))


def test_pointers_from_integers():
    hidden = [np.array([k + 0.5], np.float16) for k in range(3)]
    out = np.zeros(3, np.float16)
    run(table_of_pointers, np.array([h.ctypes.data for h in hidden]), out, 3)
    assert out.tolist() == [0.5, 1.5, 2.5]


@eager
def library_math(x_ptr, out_ptr):
    from tritium.language.extra import libdevice
    x = tl.load(x_ptr)
    tl.store(out_ptr, libdevice.pow(x, x) + tl.exp(x))


def test_libdevice():
    out = np.zeros(1, np.float32)
    run(library_math, np.array([2.0], np.float32), out)
    assert out[0] == pytest.approx(4 + np.exp(2.0), rel=1e-6)


# --- random numbers: golden words -------------------------------------------------------------------------------------
PHILOX = [
    (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"), (0, 1, "f8e4cca4 5cb200db b1a574eb 097eff67"),
    (0, 2, "04faa329 51c732a6 241513ad 459135e4"), (0, -1, "c5b20a9d 4434ec4e 11bbe4fb 2a1ef7a5"),
    (0, 2**32 + 5, "ac2fbcca 3b76c518 fb062940 826df881"), (42, 0, "9ceaf053 77f5493b 12bf50ad 5742b3d7"),
    (42, 1, "fcdb2127 53ba6cfd 838f5a6e 744e06fb"), (42, 2, "d36c0225 a8875dcb 9a4d6d99 c609a559"),
    (42, 7, "5bbd83b1 68784c85 172067aa 2e6b75b7"), (-1, 0, "72a47709 15474739 9f41b01f 22799a5a"),
    (-1, 1, "19fed511 4b67e034 9d2c02e2 9fe857b4"), (0xFCAFEB0BA, 0, "f219fb5b be9182a4 f573a172 3952307c"),
    (0xFCAFEB0BA, 2**32 + 5, "d5bc9698 134f33d4 9dca0cb2 4442db4e"),
]


@InterpretedFunction
def words(seed, offset, out_ptr):
    a, b, c, d = tl.randint4x(seed, tl.zeros((1,), offset.dtype) + offset)
    at = tl.arange(0, 1)
    tl.store(out_ptr + at, a)
    tl.store(out_ptr + 1 + at, b)
    tl.store(out_ptr + 2 + at, c)
    tl.store(out_ptr + 3 + at, d)


@pytest.mark.parametrize("seed, offset, expected", PHILOX)
def test_philox(seed, offset, expected):
    out = np.zeros(4, np.uint32)
    run(InterpretedFunction(words.fn, do_not_specialize=["seed", "offset"]), seed, offset, out)
    assert " ".join(f"{w:08x}" for w in out) == expected


@eager
def uniform(seed, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.rand(seed, at))
    tl.store(out_ptr + N + at, tl.randn(seed, at))


def test_rand_and_randn():
    out = np.zeros(8, np.float32)
    run(uniform, 42, out, 4)
    golden = ["0x1.8c543cp-1", "0x1.926f6ap-6", "0x1.649fecp-2", "0x1.14e3ecp-1"]
    assert [float(v) for v in out[:4]] == [float.fromhex(v) for v in golden]
    assert out[4:] == pytest.approx([0.660613, -1.542714, -0.590464, -0.601625], abs=1e-5)
