"""Products of matrices, compiled for this CPU and compared with the interpreter."""

import ctypes
import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import F, check, floats, rng
from tritium import ops
from tritium.backends.cpu.library import dot
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.llvm.target import assembly, cpu_target
from tritium.ir import types as T


@pytest.mark.parametrize(
    "t, acc",
    [(T.f32, T.f32), (T.f16, T.f32), (T.bf16, T.f32), (T.f64, T.f64), (T.i8, T.i32), (T.f16, T.f16), (T.f8e5, T.f32),
     (T.f8e4nv, T.f32), (T.f8e4b15, T.f32)],
    ids=str,
)
@pytest.mark.parametrize("depth", [16, 64])  # with 64, tile units take the types that they know
def test_dot(t, acc, depth):
    from tritium.ops.meaning import np_dtype

    def build(b, x, y, z, o):
        v, w = b.get(x, (32, depth)), b.get(y, (depth, 64))
        c = ops.dot(b, v, w, b.get(z, (32, 64)), precision="ieee", imprecise=0)
        b.put(o, ops.dot(b, v, w, c, precision="ieee", imprecise=0))

    kinds = [t, t, acc, acc]
    args = [
        rng.integers(-5, 6, s).astype(np.float32).astype(np_dtype(k))
        for k, s in zip(kinds, ((32, depth), (depth, 64), (32, 64), (32, 64)), strict=True)
    ]
    check(build, [T.Ptr(k) for k in kinds], args, tolerance=1e-5)


def test_dot_batched_and_transposed():
    def build(b, x, y, o, p):
        v, w = b.get(x, (2, 16, 32)), b.get(y, (2, 16, 32))
        zero = b.full(0.0, (2, 16, 16), T.f32)
        d = ops.dot(b, v, ops.trans(b, w, order=(0, 2, 1)), zero, precision="ieee", imprecise=0)
        b.put(o, d)
        b.put(p, ops.add(b, d, ops.trans(b, d, order=(0, 2, 1))))

    check(
        build,
        [F, F, F, F],
        [floats(2, 16, 32), floats(2, 16, 32), *np.zeros((2, 2, 16, 16), np.float32)],
        tolerance=1e-4,
    )


@pytest.mark.parametrize("size", [(64, 64, 64), (50, 37, 90)], ids=str)
@pytest.mark.parametrize("across", [False, True])
def test_matmul(size, across):
    m, n, k = size
    BM, BN, BK = 32, 16, 32

    def build(b, x, y, z, m, n, k, sy0, sy1):
        i, j = (ops.mul(b, ops.program_id(b, axis=a), b.c(s)) for a, s in ((0, BM), (1, BN)))
        rows = ops.add(b, b.full(i, (BM,)), b.range(BM))
        cols = ops.add(b, b.full(j, (BN,)), b.range(BN))
        depth = b.range(BK)

        def two(v, axis, shape):
            return ops.broadcast(b, ops.expand_dims(b, v, axis=axis), shape=shape)

        def at(p, r, s0, c, s1, shape):
            offset = ops.add(
                b, ops.mul(b, two(r, 1, shape), b.full(s0, shape)), ops.mul(b, two(c, 0, shape), b.full(s1, shape))
            )
            return ops.addptr(b, b.full(p, shape), offset)

        pa = at(x, rows, k, depth, 1, (BM, BK))
        pb = at(y, depth, sy0, cols, sy1, (BK, BN))
        zero = b.full(0.0, (BM, BN), T.f32)
        lo, hi, one = b.c(0), ops.div(b, ops.add(b, k, b.c(BK - 1)), b.c(BK)), b.c(1)
        with b.region([T.i32, zero.type, pa.type, pb.type]) as r:
            step, acc, qa, qb = r.args
            left = ops.sub(b, k, ops.mul(b, step, b.c(BK)))
            inside = ops.lt(b, depth, b.full(left, (BK,)))
            fa, fb = b.full(0.0, (BM, BK), T.f32), b.full(0.0, (BK, BN), T.f32)
            ma = ops.and_(b, two(inside, 0, (BM, BK)), two(ops.lt(b, rows, b.full(m, (BM,))), 1, (BM, BK)))
            mb = ops.and_(b, two(inside, 1, (BK, BN)), two(ops.lt(b, cols, b.full(n, (BN,))), 0, (BK, BN)))
            out = ops.dot(b, ops.load(b, qa, ma, fa), ops.load(b, qb, mb, fb), acc, precision="ieee", imprecise=0)
            ops.yield_(
                b,
                out,
                ops.addptr(b, qa, b.full(BK, (BM, BK))),
                ops.addptr(b, qb, b.full(ops.mul(b, sy0, b.c(BK)), (BK, BN))),
            )
        acc, *_ = ops.for_(b, lo, hi, one, zero, pa, pb, regions=[r.block])
        shape = (BM, BN)
        m_out = ops.and_(
            b, two(ops.lt(b, rows, b.full(m, (BM,))), 1, shape), two(ops.lt(b, cols, b.full(n, (BN,))), 0, shape)
        )
        ops.store(b, at(z, rows, n, cols, 1, shape), acc, m_out)

    strides = (1, k) if across else (n, 1)
    args = [floats(m, k), floats(k * n), np.zeros((m, n), np.float32), m, n, k, *strides]
    check(build, [F, F, F, *[T.i32] * 5], args, (-(-m // BM), -(-n // BN)), tolerance=1e-4)


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_operands_overwritten(when):
    """Operands are read where they lie only as long as nobody writes there."""
    def build(b, x, y, o):
        v, w = b.get(x, (32, 32)), b.get(y, (32, 32))
        zero = b.full(0.0, (32, 32), T.f32)
        if when == "before":
            b.put(x, zero)
        d = ops.dot(b, v, w, zero, precision="ieee", imprecise=0)
        if when == "between":
            b.put(x, zero)
            b.put(y, zero)
        d = ops.dot(b, w, v, d, precision="ieee", imprecise=0)
        b.put(o, d)
        if when == "after":
            b.put(x, d)

    check(build, [F, F, F], [floats(32, 32), floats(32, 32), np.zeros((32, 32), np.float32)], tolerance=1e-4)


@pytest.mark.parametrize("rows", [32, 40, 5])
def test_operands_that_wrap(rows):
    """(start + arange) % n numbers the rows of A and the columns of B: in one piece, or wrapped somewhere."""
    def build(b, x, y, o, n):
        i = ops.rem(b, ops.add(b, b.range(32), b.full(ops.mul(b, ops.program_id(b, axis=0), b.c(8)), (32,))),
                    b.full(n, (32,)))
        shape = (32, 32)
        down = ops.broadcast(b, ops.expand_dims(b, i, axis=1), shape=shape)
        along = ops.broadcast(b, ops.expand_dims(b, i, axis=0), shape=shape)
        k, wide = b.range(32, 1, 2, shape), b.full(32, shape)
        a = ops.load(b, ops.addptr(b, b.full(x, shape), ops.add(b, ops.mul(b, down, wide), k)))
        deep = ops.mul(b, b.range(32, 0, 2, shape), b.full(n, shape))
        c = ops.load(b, ops.addptr(b, b.full(y, shape), ops.add(b, deep, along)))
        d = ops.dot(b, a, c, b.full(0.0, shape, T.f32), precision="ieee", imprecise=0)
        start = ops.addptr(b, o, ops.mul(b, ops.program_id(b, axis=0), b.c(1024)))
        b.put(start, d)

    args = [floats(rows, 32), floats(32, rows), np.zeros((3, 32, 32), np.float32), rows]
    check(build, [F, F, F, T.i32], args, (3,), tolerance=1e-4)


@pytest.mark.parametrize("other", [0.0, 1.0])
@pytest.mark.parametrize("size", [(64, 64), (40, 37), (5, 70)], ids=str)
@pytest.mark.parametrize("across", [False, True])
def test_operands_that_wrap_and_end(size, across, other):
    """Rows of A wrap and its columns end, rows of B end and its columns wrap, from the beginning to beyond the end.

    With `across`, A lies the other way and its row numbers are wanted one by one.
    """
    m, n = size
    shape, ends = (32, 32), 20

    def build(b, x, y, o, m, n, m_stride, k_stride):
        start = ops.mul(b, ops.program_id(b, axis=0), b.c(23))
        i, j = (ops.rem(b, ops.add(b, b.range(32), b.full(start, (32,))), b.full(size, (32,))) for size in (m, n))
        down = ops.broadcast(b, ops.expand_dims(b, i, axis=1), shape=shape)
        along = ops.broadcast(b, ops.expand_dims(b, j, axis=0), shape=shape)
        row, column = b.range(32, 0, 2, shape), b.range(32, 1, 2, shape)
        filler = b.full(other, shape, T.f32)
        rows, columns = (ops.mul(b, x, b.full(s, shape)) for x, s in ((down, m_stride), (column, k_stride)))
        at = ops.add(b, down, columns) if across else ops.add(b, rows, column)
        a = ops.load(b, ops.addptr(b, b.full(x, shape), at), ops.lt(b, column, b.full(b.c(ends), shape)), filler)
        at = ops.add(b, ops.mul(b, row, b.full(n, shape)), along)
        c = ops.load(b, ops.addptr(b, b.full(y, shape), at), ops.lt(b, row, b.full(b.c(ends), shape)), filler)
        d = ops.dot(b, a, c, b.full(0.0, shape, T.f32), precision="ieee", imprecise=0)
        out = ops.addptr(b, o, ops.mul(b, ops.program_id(b, axis=0), b.c(32 * 40)))
        at = ops.addptr(b, b.full(out, shape), ops.add(b, ops.mul(b, row, b.full(b.c(40), shape)), column))
        inside = ops.and_(b, ops.lt(b, row, b.full(m, shape)), ops.lt(b, column, b.full(n, shape)))
        ops.store(b, at, d, inside)

    a, strides = (floats(32, m), (1, m)) if across else (floats(m, 32), (32, 1))
    args = [a, floats(32, n), np.zeros((4, 32, 40), np.float32), m, n, *strides]
    check(build, [F, F, F, *[T.i32] * 4], args, (4,), tolerance=1e-4)


@pytest.mark.parametrize("seen", [False, True], ids=["only added to", "also stored"])
@pytest.mark.parametrize("down", [False, True])
def test_sums_from_zero(seen, down):
    """Loops of zero, one and three iterations, entered repeatedly: each starts from zeros, whatever its buffer held."""
    shape = (32, 32)

    def build(b, x, y, z, o, n):
        zero, one = b.full(0.0, shape, T.f32), b.c(1)
        with b.region([T.i32]) as outer:
            (again,) = outer.args
            with b.region([T.i32, zero.type]) as inner:
                _, acc = inner.args
                if seen:
                    b.put(o, acc)
                ops.yield_(b, ops.dot(b, b.get(x, shape), b.get(y, shape), acc, precision="ieee", imprecise=0))
            start, stop, by = (ops.mul(b, n, again), b.c(0), b.c(-1)) if down else (b.c(0), ops.mul(b, n, again), one)
            total = ops.for_(b, start, stop, by, zero, regions=[inner.block])
            b.put(ops.addptr(b, z, ops.mul(b, again, b.c(32 * 32))), total)
            ops.yield_(b)
        ops.for_(b, b.c(0), b.c(3), one, regions=[outer.block])

    for n in (1, 2):
        args = [floats(*shape), floats(*shape), np.ones((3, *shape), np.float32), np.zeros(shape, np.float32), n]
        check(build, [F, F, F, F, T.i32], args, tolerance=1e-4)


@pytest.mark.parametrize("kind, dtype", [("i8", np.int8), ("u8", np.uint8)])
@pytest.mark.parametrize("size", [(1, 16, 4), (4, 16, 16), (5, 32, 20), (7, 48, 64), (3, 19, 36), (9, 15, 32),
                                  (6, 33, 7), (64, 64, 128), (96, 160, 2112)], ids=str)  # fmt: skip
@pytest.mark.parametrize("fresh", [False, True])
def test_products_of_bytes_of_any_size(kind, dtype, size, fresh):
    """The runtime's function, with rows apart, all values, and sums that wrap."""
    m, n, k = size
    bounds = np.iinfo(dtype)
    a, b = (rng.integers(bounds.min, bounds.max + 1, s).astype(dtype) for s in ((m, k + 3), (k, n + 5)))
    a[0], b[:, 0] = bounds.min, bounds.min
    c = rng.integers(-(1 << 31), 1 << 31, (m, n + 2)).astype(np.int32)
    expected = c.copy()
    expected[:, :n] = a[:, :k].astype(np.int32) @ b[:, :n].astype(np.int32) + (0 if fresh else c[:, :n])
    panel = np.zeros((k + 1, dot.panel_width(cpu_target(), kind, m, n) + 16), np.int32)
    numbers = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 6 + [ctypes.c_void_p, ctypes.c_bool]
    function = ctypes.CFUNCTYPE(None, *numbers)(Runtime.get().symbols[f"tt.dot.{kind}"])
    function(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k + 3, n + 5, n + 2, panel.ctypes.data, fresh)
    np.testing.assert_array_equal(c, expected)


def test_bytes_are_multiplied_four_at_a_time_on_arm():
    cpu = cpu_target("aarch64")
    code = assembly(dot.dot(cpu, "i8"), cpu)
    assert len(re.findall(r"sdot\tv\d+\.4s, v\d+\.16b, v\d+\.4b\[\d\]", code)) >= 64  # a register tile, 16 ks
    assert "sdot" not in assembly(dot.dot(cpu_target("aarch64,-dotprod"), "i8"), cpu_target("aarch64,-dotprod"))


@triton.jit
def ends_kernel(a_ptr, b_ptr, c_ptr, d_ptr, ends_ptr, rows, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                HOW: tl.constexpr):
    """a @ b for an `a` that ends in column ends[0] and in row `rows`, and a `b` that ends in row ends[1]."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a_end = tl.load(ends_ptr)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(k[None, :] < a_end) & (m[:, None] < rows), other=0.0)
    b_end = a_end if HOW == "same" else tl.load(ends_ptr + 1)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=k[:, None] < b_end, other=0.0)
    c = tl.dot(a, b, input_precision="ieee", out_dtype=a.dtype)
    at = m[:, None] * N + n[None, :]
    if HOW == "shared":
        whole = tl.load(b_ptr + k[:, None] * N + n[None, :])
        tl.store(d_ptr + at, tl.dot(a, whole, input_precision="ieee", out_dtype=a.dtype))
    elif HOW == "squared":
        tl.store(d_ptr + at, tl.dot(a, a, input_precision="ieee", out_dtype=a.dtype))
    elif HOW == "stored":
        tl.store(d_ptr + at, a)
    tl.store(c_ptr + at, c)


@pytest.mark.parametrize("how", ["same", "loaded", "shared", "squared", "stored"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("rows", [32, 7])
def test_what_lies_behind_masks_is_not_multiplied(how, dtype, rows):
    """Operands are read where they lie, as far as their masks go: what follows is zero, whatever it is in memory."""
    size = 32
    for a_end, b_end in ((32, 32), (17, 17), (16, 16), (1, 1), (0, 0), (-3, -3), (50, 50), (16, 20), (20, 16), (0, 40)):
        if how == "same" and a_end != b_end:
            continue
        a, b = (rng.integers(-4, 5, (size, size)).astype(dtype) for _ in range(2))
        whole, a_last, b_last = b.copy(), max(a_end, 0), max(b_end, 0)
        if how != "shared":
            b[b_last:] = np.nan
        a[:, a_last:] = np.nan
        a[rows:] = np.nan
        c, d = np.zeros((2, size, size), dtype)
        ends_kernel[(1,)](a, b, c, d, np.int32([a_end, b_end]), rows, M=size, N=size, K=size, HOW=how)
        a[:, a_last:] = a[rows:] = b[b_last:] = 0
        np.testing.assert_array_equal(c, a @ b)
        other = {"shared": a @ whole, "squared": a @ a, "stored": a}.get(how)
        if other is not None:
            np.testing.assert_array_equal(d, other)


def test_zero_times_what_is_not_finite_is_not_zero():
    """An operand that ends before the other one is zero there, and is multiplied."""
    a, b, c = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)
    b[18] = np.inf
    for a_end, b_end, expected in ((16, 20, np.nan), (16, 18, 16.0), (20, 18, 18.0), (20, 19, np.inf)):
        ends_kernel[(1,)](a, b, c, c, np.int32([a_end, b_end]), 32, M=32, N=32, K=32, HOW="loaded")
        np.testing.assert_array_equal(c, expected)


def test_a_last_step_that_is_short_is_read_in_place():
    """Whether rows and columns wrap is all that is left to test before the loop."""
    from tritium.backends.compiler import GPUTarget
    from tritium.kernels.matmul import grouped_kernel

    names = "M N K stride_am stride_ak stride_bk stride_bn stride_cm stride_cn".split()
    ones = dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32"), **dict.fromkeys(names, "i32"),
                 **dict.fromkeys(ones, "constexpr")}
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "ACTIVATION": "", "PRECISION": "ieee"}
    source = triton.compiler.ASTSource(grouped_kernel, signature, {**ones, **blocks})
    text = triton.compile(source, target=GPUTarget("cpu", "x86-64-v4", 1)).asm["llir"]
    tests = re.findall(r"br i1 (%\S+), label %or\.\d+\.0", text)
    loop = text.index("call void @tt.poll", text.index("call void @llvm.memset"))
    assert len(tests) == 2 and all(text.index(f"{x} = and") < loop for x in tests)
