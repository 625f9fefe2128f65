"""Kernels written in tile IR, compiled for this CPU and compared with the interpreter."""

import dataclasses
import struct

import ml_dtypes
import numpy as np
import pytest

from tritium import ops, passes
from tritium.backends.cpu import table
from tritium.backends.cpu.compile import prepare
from tritium.backends.cpu.lower import lower
from tritium.backends.cpu.runtime import Runtime
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.opdef import OpKind
from tritium.ir.verify import verify

rng = np.random.default_rng(0)


def slot(t, x):
    """A kernel argument as its 8 bytes."""
    if isinstance(x, np.ndarray):
        return struct.pack("<Q", x.ctypes.data)
    return struct.pack({T.f32: "<fxxxx", T.f64: "<d"}.get(t, "<q"), x)


class B(Builder):
    """A builder with the few words the kernels below repeat."""

    def c(self, x, t=T.i32):
        return ops.constant(self, value=x, type=t)

    def full(self, x, shape, t=T.i32):
        return ops.splat(self, x if not isinstance(x, (int, float)) else self.c(x, t), shape=tuple(shape))

    def range(self, n, axis=0, rank=1, shape=None):
        x = ops.arange(self, start=0, end=n)
        for k in range(rank):
            if k != axis:
                x = ops.expand_dims(self, x, axis=k)
        return x if shape is None else ops.broadcast(self, x, shape=tuple(shape))

    def at(self, p, *strides, shape):
        """Pointers p + sum(stride * index)."""
        shape = tuple(shape)
        total = None
        for axis, stride in enumerate(strides):
            i = self.range(shape[axis], axis, len(shape), shape)
            s = self.full(stride, shape)
            term = ops.mul(self, i, s)
            total = term if total is None else ops.add(self, total, term)
        return ops.addptr(self, self.full(p, shape), total)

    def rows(self, p, shape):
        """Pointers to a row-major array."""
        strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        return self.at(p, *strides, shape=shape)

    def get(self, p, shape):
        return ops.load(self, self.rows(p, shape))

    def put(self, p, x):
        ops.store(self, self.rows(p, T.shape(x.type)) if T.shape(x.type) else p, x)

    def fold(self, kind, *types):
        with self.region([*types, *types]) as r:
            out = kind(self, *r.args) if callable(kind) else None
            ops.yield_(self, *(out if isinstance(out, tuple) else (out,)))
        return r.block


def module(build, *arg_types, name="kernel"):
    b = B()
    args = [b.argument(t, f"a{k}") for k, t in enumerate(arg_types)]
    build(b, *args)
    return verify(Module(name, b.finish(), {}))


def launch(m, args, grid=(1,), opt=2):
    cpu = cpu_target()
    m = prepare(passes.run(m, passes.CLEANUP), cpu)
    text, name, arena = lower(m, cpu)
    library = Runtime.get().load(compile_text(text, cpu, opt=opt))
    slots = b"".join(slot(a.type, x) for a, x in zip(m.args, args, strict=True))
    Runtime.get().launch_raw(library.address(name), arena, *(*grid, 1, 1)[:3], slots)
    return text


def check(build, arg_types, args, grid=(1,), tolerance=0.0, opt=2):
    """Run on the interpreter and on the CPU; all arrays must agree."""
    m = module(build, *arg_types)
    theirs, mine = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
    interpret(m, theirs, grid)
    text = launch(m, mine, grid, opt)
    for k, (x, y) in enumerate(zip(theirs, mine, strict=True)):
        if isinstance(x, np.ndarray):
            if x.dtype.kind in "iub" or tolerance == 0:
                np.testing.assert_array_equal(y, x, err_msg=f"argument {k}")
            else:
                np.testing.assert_allclose(
                    y.astype(np.float64), x.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=f"argument {k}"
                )
    return text


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


F, I = T.Ptr(T.f32), T.Ptr(T.i32)


def test_every_op_has_a_lowering():
    from tritium.backends.cpu import lower_atomics, lower_control, lower_dot, lower_program, lower_shape  # noqa: F401

    kinds = [k for k in vars(ops).values() if isinstance(k, OpKind)]
    assert len(kinds) > 80
    missing = [k.name for k in kinds if table.puller(k) is None and k not in table.STEP]
    assert not missing


# --- loads, stores, masks -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 63, 64, 100, 255, 256])
def test_masked_copy(n):
    def build(b, x, y, n):
        shape = (256,)
        m = ops.lt(b, b.range(256), b.full(n, shape))
        other = b.full(-1.0, shape, T.f32)
        ops.store(b, b.rows(y, shape), ops.load(b, b.rows(x, shape), m, other), m)

    check(build, [F, F, T.i32], [floats(max(n, 1)), np.zeros(max(n, 1), np.float32), n])


def test_masked_off_lanes_get_other():
    def build(b, x, y, n):
        m = ops.lt(b, b.range(64), b.full(n, (64,)))
        b.put(y, ops.load(b, b.rows(x, (64,)), m, b.full(7.0, (64,), T.f32)))

    check(build, [F, F, T.i32], [floats(10), np.zeros(64, np.float32), 10])


@pytest.mark.parametrize("rows, columns", [(3, 5), (16, 16), (9, 31), (0, 4), (12, 32)])
def test_masked_2d(rows, columns):
    shape = (16, 32)

    def build(b, x, y, m, n, stride):
        mask = ops.and_(
            b,
            ops.lt(b, b.range(16, 0, 2, shape), b.full(m, shape)),
            ops.lt(b, b.range(32, 1, 2, shape), b.full(n, shape)),
        )
        v = ops.load(b, b.at(x, stride, 1, shape=shape), mask)
        ops.store(b, b.at(y, stride, 1, shape=shape), ops.add(b, v, v), mask)

    x = floats(16 * 40)
    check(build, [F, F, T.i32, T.i32, T.i32], [x, np.zeros_like(x), rows, columns, 40])


def test_lower_and_upper_bounds():
    shape = (64,)

    def build(b, x, y, base, n):
        offset = ops.add(b, b.full(base, shape), b.range(64))
        m = ops.and_(b, ops.ge(b, offset, b.full(0, shape)), ops.lt(b, offset, b.full(n, shape)))
        v = ops.load(b, ops.addptr(b, b.full(x, shape), offset), m, b.full(3.0, shape, T.f32))
        b.put(y, v)

    for base in (-70, -33, -3, 0, 20, 99):
        check(build, [F, F, T.i32, T.i32], [floats(50), np.zeros(64, np.float32), base, 50], opt=0)


def test_mask_from_data_and_reversed_bound():
    shape = (48,)

    def build(b, x, y, n):
        v = b.get(x, shape)
        m = ops.and_(b, ops.gt(b, v, b.full(0.0, shape, T.f32)), ops.gt(b, b.full(n, shape), b.range(48)))
        ops.store(b, b.rows(y, shape), v, m)

    check(build, [F, F, T.i32], [floats(48), np.zeros(48, np.float32), 37])


@pytest.mark.parametrize("s0, s1", [(1, 16), (16, 1), (-16, 1), (2, 40), (0, 1), (1, 0)])
def test_strides(s0, s1):
    shape = (16, 16)

    def build(b, x, y):
        base = ops.addptr(b, x, b.c(300))
        b.put(y, ops.load(b, b.at(base, s0, s1, shape=shape)))

    check(build, [F, F], [floats(1000), np.zeros(256, np.float32)])


def test_strides_at_run_time_and_transposed_store():
    shape = (32, 16)

    def build(b, x, y, s0, s1, t0, t1):
        v = ops.load(b, b.at(x, s0, s1, shape=shape))
        ops.store(b, b.at(y, t0, t1, shape=shape), ops.mul(b, v, v))

    for s in ((16, 1, 1, 32), (1, 40, 16, 1), (2, 70, 3, 100)):
        check(build, [F, F, *[T.i32] * 4], [floats(4000), np.zeros(4000, np.float32), *s], opt=0)


def test_transpose():
    def build(b, x, y):
        b.put(y, ops.trans(b, ops.add(b, b.get(x, (32, 64)), b.full(1.0, (32, 64), T.f32)), order=(1, 0)))

    check(build, [F, F], [floats(32, 64), np.zeros((64, 32), np.float32)])


def test_transposed_store_of_contiguous_load():
    def build(b, x, y):
        ops.store(b, b.at(y, 1, 32, shape=(32, 64)), b.get(x, (32, 64)))

    check(build, [F, F], [floats(32, 64), np.zeros((64, 32), np.float32)])


def test_gathered_rows_and_scattered_lanes():
    shape = (8, 32)

    def build(b, x, index, y, z):
        rows = ops.expand_dims(b, ops.load(b, b.rows(index, (8,))), axis=1)
        at = ops.add(b, ops.mul(b, ops.broadcast(b, rows, shape=shape), b.full(32, shape)), b.range(32, 1, 2, shape))
        b.put(y, ops.load(b, ops.addptr(b, b.full(x, shape), at)))
        lanes = ops.load(b, b.rows(index, (8,)))
        ops.store(b, ops.addptr(b, b.full(z, (8,)), lanes), ops.cast(b, lanes, to=T.f32))

    check(
        build,
        [F, I, F, F],
        [
            floats(20, 32),
            rng.permutation(20)[:8].astype(np.int32),
            np.zeros(shape, np.float32),
            np.zeros(20, np.float32),
        ],
    )


@pytest.mark.parametrize("n", [5, 16, 50, 64, 100])
def test_wrapped_index(n):
    shape = (8, 64)

    def build(b, x, y, base, n):
        column = ops.rem(b, ops.add(b, b.full(base, (64,)), b.range(64)), b.full(n, (64,)))
        row = ops.rem(b, ops.add(b, b.full(3, (8,)), b.range(8)), b.full(5, (8,)))
        at = ops.add(
            b,
            ops.broadcast(b, ops.expand_dims(b, column, axis=0), shape=shape),
            ops.mul(b, ops.broadcast(b, ops.expand_dims(b, row, axis=1), shape=shape), b.full(n, shape)),
        )
        b.put(y, ops.load(b, ops.addptr(b, b.full(x, shape), at)))

    check(build, [F, F, T.i32, T.i32], [floats(5 * n), np.zeros(shape, np.float32), 37, n])


def test_uniform_loads_and_scalars():
    shape = (4, 32)

    def build(b, x, bias, scale, y):
        rows = ops.broadcast(b, ops.expand_dims(b, ops.load(b, b.rows(bias, (4,))), axis=1), shape=shape)
        b.put(y, ops.add(b, ops.mul(b, b.get(x, shape), b.full(ops.load(b, scale), shape)), rows))

    check(build, [F, F, F, F], [floats(*shape), floats(4), floats(1), np.zeros(shape, np.float32)], tolerance=1e-6)


def test_masked_uniform_load():
    shape = (8, 16)

    def build(b, x, bias, y, n):
        inside = ops.lt(b, b.range(8), b.full(n, (8,)))
        v = ops.load(b, b.rows(bias, (8,)), inside, b.full(5.0, (8,), T.f32))
        b.put(y, ops.mul(b, b.get(x, shape), ops.broadcast(b, ops.expand_dims(b, v, axis=1), shape=shape)))

    check(build, [F, F, F, T.i32], [floats(*shape), floats(3), np.zeros(shape, np.float32), 3])


def test_in_place_with_later_use():
    def build(b, x, y):
        v = b.get(x, (64,))
        b.put(x, ops.add(b, v, v))
        b.put(y, ops.mul(b, v, v))  # what was loaded before the store
        w = b.get(x, (64,))
        b.put(y, ops.add(b, w, b.get(y, (64,))))

    check(build, [F, F], [floats(64), np.zeros(64, np.float32)])


def test_load_waits_for_barrier_and_store_elsewhere():
    def build(b, x, y):
        v = b.get(x, (64,))
        reverse = ops.sub(b, b.full(63, (64,)), b.range(64))
        ops.barrier(b)
        ops.store(b, ops.addptr(b, b.full(x, (64,)), reverse), v)
        b.put(y, v)

    check(build, [F, F], [floats(64), np.zeros(64, np.float32)])


def test_bools_in_memory():
    P = T.Ptr(T.i1)

    def build(b, x, y, z):
        m = ops.load(b, b.rows(x, (32,)))
        b.put(y, ops.xor(b, m, b.full(True, (32,), T.i1)))
        ops.store(b, b.rows(z, (32,)), b.range(32), m)

    check(build, [P, P, I], [rng.integers(0, 2, 32).astype(bool), np.zeros(32, bool), np.zeros(32, np.int32)])


# --- elementwise ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("t", [T.i8, T.i16, T.i32, T.i64, T.u8, T.u16, T.u32, T.u64], ids=str)
def test_integer_arithmetic(t):
    info = np.iinfo(t.name.replace("i", "int").replace("u", "u") if t.signed else f"uint{t.bits}")
    values = np.array([info.min, info.max, 0, 1, 2, 3, 5, 7, -1 & info.max, info.max // 2], dtype=info.dtype)
    x, y = (
        np.concatenate([v, rng.integers(info.min, info.max, 28, dtype=info.dtype)])[:128].copy()
        for v in (np.repeat(values, 10), np.tile(values, 10))
    )
    kinds = [
        ops.add,
        ops.sub,
        ops.mul,
        ops.div,
        ops.rem,
        ops.and_,
        ops.or_,
        ops.xor,
        ops.shl,
        ops.shr,
        ops.min_,
        ops.max_,
    ]

    def build(b, x, y, out):
        v, w = b.get(x, (128,)), b.get(y, (128,))
        for k, kind in enumerate(kinds):
            b.put(ops.addptr(b, out, b.c(128 * k)), kind(b, v, w))

    P = T.Ptr(t)
    check(build, [P, P, P], [x, y, np.zeros(128 * len(kinds), info.dtype)], opt=0)


def test_casts():
    kinds = [T.i8, T.i32, T.i64, T.u8, T.u32, T.f16, T.bf16, T.f32, T.f64, T.f8e5, T.f8e4nv]
    dtypes = {
        T.f16: np.float16,
        T.bf16: ml_dtypes.bfloat16,
        T.f32: np.float32,
        T.f64: np.float64,
        T.f8e5: ml_dtypes.float8_e5m2,
        T.f8e4nv: ml_dtypes.float8_e4m3fn,
    }
    for source in kinds:
        targets = [
            t
            for t in kinds
            if t is not source
            and not {source, t} & {T.f8e5, T.f8e4nv} & set(kinds)
            or t.is_float
            and source.is_float
            and t is not source
        ]

        def build(b, x, *outs, targets=targets):
            v = b.get(x, (64,))
            for t, out in zip(targets, outs, strict=True):
                b.put(out, ops.cast(b, v, to=t))

        def dtype(t):
            return dtypes.get(t) or np.dtype(t.name.replace("u", "uint") if not t.signed else f"int{t.bits}")

        x = (rng.standard_normal(64) * 40).astype(np.float32)
        x = (
            x.astype(dtype(source))
            if source.is_float
            else np.clip(x, 0 if not source.signed else -100, 100).astype(dtype(source))
        )
        check(build, [T.Ptr(source), *map(T.Ptr, targets)], [x, *[np.zeros(64, dtype(t)) for t in targets]], opt=0)


@pytest.mark.parametrize("t, dtype", [(T.f16, np.float16), (T.bf16, ml_dtypes.bfloat16), (T.f64, np.float64)], ids=str)
def test_narrow_and_wide_floats(t, dtype):
    def build(b, x, y, z):
        v, w = b.get(x, (96,)), b.get(y, (96,))
        out = ops.add(b, ops.mul(b, v, w), ops.div(b, v, b.full(3.0, (96,), t)))
        b.put(z, ops.select(b, ops.lt(b, v, w), out, ops.max_(b, v, w)))

    P = T.Ptr(t)
    check(build, [P, P, P], [floats(96, dtype=dtype), floats(96, dtype=dtype), np.zeros(96, dtype)], tolerance=0.02)


def test_loaded_pointers_carried_by_a_loop():
    def build(b, table, out):
        start = ops.load(b, b.rows(table, (4,)))
        with b.region([T.i32, start.type, T.Tile((4,), T.f32)]) as r:
            _, p, total = r.args
            ops.yield_(b, ops.addptr(b, p, b.full(1, (4,))), ops.add(b, total, ops.load(b, p)))
        zero = b.full(0.0, (4,), T.f32)
        _, total = ops.for_(b, b.c(0), b.c(3), b.c(1), start, zero, regions=[r.block])
        b.put(out, total)

    x, out = floats(16), np.zeros(4, np.float32)
    launch(module(build, T.Ptr(F), F), [np.array([x.ctypes.data + 4 * k for k in (2, 0, 9, 5)], np.uint64), out])
    np.testing.assert_allclose(out, [x[k : k + 3].sum() for k in (2, 0, 9, 5)], rtol=1e-6)


def test_kept_in_one_branch_only():
    def build(b, x, y, n):
        v = ops.mul(b, b.get(x, (64,)), b.full(3.0, (64,), T.f32))
        blocks = []
        for twice in (True, False):
            with b.region() as r:
                top = ops.reduce(b, v, axis=0, regions=[b.fold(ops.max_, T.f32)])
                b.put(y, ops.sub(b, v, b.full(top, (64,)))) if twice else ops.store(b, y, top)
                ops.yield_(b)
            blocks.append(r.block)
        ops.if_(b, ops.gt(b, n, b.c(0)), regions=blocks)

    for n in (0, 1):
        check(build, [F, F, T.i32], [floats(64), np.zeros(64, np.float32), n])


@pytest.mark.parametrize("name", ["memset", "größe", "main"])
def test_names_of_kernels(name):
    m = module(lambda b, x: b.put(x, b.full(0, (4096,))), I, name=name)
    x = np.ones(4096, np.int32)
    launch(m, [x])
    assert not x.any()


def test_rare_path():
    def build(b, x, y, z):
        v = b.get(x, (256,))
        b.put(y, ops.sin(b, v))
        b.put(z, ops.reduce(b, ops.reshape(b, ops.cos(b, v), shape=(4, 64)), axis=0, regions=[b.fold(ops.max_, T.f32)]))

    x = floats(256)
    x[[17, 200]] = 1e20, -3e35
    check(build, [F, F, F], [x, np.zeros(256, np.float32), np.zeros(64, np.float32)], tolerance=1e-6)


def test_pointers_as_data():
    P = T.Ptr(F)

    def build(b, table, x, y, out):
        ps = ops.load(b, b.rows(table, (4,)))  # addresses
        b.put(out, ops.load(b, ps))
        here, there = b.rows(x, (4,)), b.rows(y, (4,))
        odd = ops.eq(b, ops.rem(b, b.range(4), b.full(2, (4,))), b.full(1, (4,)))
        picked = ops.select(b, odd, here, there)
        ops.store(b, ops.addptr(b, b.full(out, (4,)), ops.add(b, b.range(4), b.full(4, (4,)))), ops.load(b, picked))

    x, y = floats(4), floats(4)
    m = module(build, T.Ptr(F), F, F, F)
    del P
    out = np.zeros(8, np.float32)
    launch(m, [np.array([x.ctypes.data + 4 * k for k in (2, 0, 3, 1)], np.uint64), x, y, out])
    np.testing.assert_array_equal(out, [*x[[2, 0, 3, 1]], y[0], x[1], y[2], x[3]])


# --- reductions and scans ---------------------------------------------------------------------------------------
def argmax(b, v1, i1, v2, i2):
    first = ops.or_(b, ops.gt(b, v1, v2), ops.and_(b, ops.eq(b, v1, v2), ops.lt(b, i1, i2)))
    return ops.select(b, first, v1, v2), ops.select(b, first, i1, i2)


@pytest.mark.parametrize(
    "shape", [(64,), (1,), (4,), (8, 64), (64, 8), (16, 2), (2, 4, 32), (4, 1, 16), (1, 64), (64, 1)], ids=str
)
def test_reduce(shape):
    for axis in range(len(shape)):
        rest = shape[:axis] + shape[axis + 1 :]

        def build(b, x, total, top, where, axis=axis, rest=rest):
            v = b.get(x, shape)
            index = b.range(shape[axis], axis, len(shape), shape)
            s = ops.reduce(b, v, axis=axis, regions=[b.fold(ops.add, T.f32)])
            m, i = ops.reduce(b, v, index, axis=axis, regions=[b.fold(argmax, T.f32, T.i32)])
            for p, y in ((total, s), (top, m), (where, i)):
                b.put(p, y)

        x = floats(*shape)
        outs = [np.zeros(rest or 1, d) for d in (np.float32, np.float32, np.int32)]
        check(build, [F, F, F, I], [x, *outs], tolerance=1e-5, opt=0)


KINDS_OF_SUM = [
    (ops.add, T.i32),
    (ops.max_, T.i64),
    (ops.min_, T.u32),
    (ops.and_, T.i8),
    (ops.or_, T.i1),
    (ops.xor, T.u16),
    (ops.mul, T.f64),
    (ops.max_, T.f32),
    (ops.min_, T.f16),
    (ops.max_nan, T.f32),
    (ops.max_, T.i1),
]


@pytest.mark.parametrize("kind, t", KINDS_OF_SUM, ids=lambda x: getattr(x, "name", None))
def test_reduce_kinds(kind, t):
    from tritium.ops.meaning import np_dtype

    d = np_dtype(t)

    def build(b, x, y, z):
        v = b.get(x, (8, 32))
        b.put(y, ops.reduce(b, v, axis=1, regions=[b.fold(kind, t)]))
        b.put(z, ops.reduce(b, v, axis=0, regions=[b.fold(kind, t)]))

    x = (
        rng.standard_normal((8, 32)).astype(d)
        if d.kind == "f"
        else rng.integers(0, 2 if d.kind == "b" else 100, (8, 32)).astype(d)
    )
    if d.kind == "f":
        x[3, 5] = np.nan
    P = T.Ptr(t)
    check(build, [P, P, P], [x, np.zeros(8, d), np.zeros(32, d)], tolerance=1e-6, opt=0)


def test_softmax_and_layernorm():
    def build(b, x, y, z, n):
        shape, row = (128,), ops.mul(b, ops.program_id(b, axis=0), n)
        inside = ops.lt(b, b.range(128), b.full(n, shape))
        at = [ops.addptr(b, b.full(ops.addptr(b, p, row), shape), b.range(128)) for p in (x, y, z)]
        v = ops.load(b, at[0], inside, b.full(float("-inf"), shape, T.f32))
        top = ops.reduce(b, v, axis=0, regions=[b.fold(ops.max_, T.f32)])
        e = ops.exp(b, ops.sub(b, v, b.full(top, shape)))
        ops.store(
            b, at[1], ops.div(b, e, b.full(ops.reduce(b, e, axis=0, regions=[b.fold(ops.add, T.f32)]), shape)), inside
        )
        w = ops.load(b, at[0], inside)
        count = ops.cast(b, n, to=T.f32)
        mean = ops.div(b, ops.reduce(b, w, axis=0, regions=[b.fold(ops.add, T.f32)]), count)
        d = ops.select(b, inside, ops.sub(b, w, b.full(mean, shape)), b.full(0.0, shape, T.f32))
        variance = ops.div(b, ops.reduce(b, ops.mul(b, d, d), axis=0, regions=[b.fold(ops.add, T.f32)]), count)
        scale = ops.rsqrt(b, ops.add(b, variance, b.c(1e-5, T.f32)))
        ops.store(b, at[2], ops.mul(b, d, b.full(scale, shape)), inside)

    for n in (128, 100, 17):
        check(build, [F, F, F, T.i32], [floats(6, n), *np.zeros((2, 6, n), np.float32), n], (6,), tolerance=1e-5)


@pytest.mark.parametrize("lanes", [8, 32])
@pytest.mark.parametrize("shape", [(16, 16), (64, 16), (32, 64), (6, 24)], ids=str)
def test_strips_of_other_widths(monkeypatch, lanes, shape):
    """What runs along rows stays inside them, however wide strips are."""
    wide = dataclasses.replace(cpu_target(), W=lanes)
    monkeypatch.setitem(globals(), "cpu_target", lambda: wide)

    def build(b, x, y, z, u):
        v = b.get(x, shape)
        sums = ops.reduce(b, v, axis=1, regions=[b.fold(ops.add, T.i32)])
        b.put(y, ops.scan(b, v, axis=1, reverse=False, regions=[b.fold(ops.add, T.i32)]))
        b.put(z, sums)
        b.put(u, ops.sub(b, v, ops.broadcast(b, ops.expand_dims(b, sums, axis=1), shape=shape)))

    x = rng.integers(0, 100, shape).astype(np.int32)
    check(build, [I, I, I, I], [x, np.zeros_like(x), np.zeros(shape[0], np.int32), np.zeros_like(x)])


def test_sum_and_sum_of_squares_share_a_loop():
    def build(b, x, y):
        v = b.get(x, (256,))
        s = ops.reduce(b, v, axis=0, regions=[b.fold(ops.add, T.f32)])
        mean = ops.mul(b, s, b.c(1 / 256, T.f32))
        q = ops.reduce(b, ops.mul(b, v, v), axis=0, regions=[b.fold(ops.add, T.f32)])
        ops.store(b, y, ops.sub(b, ops.mul(b, q, b.c(1 / 256, T.f32)), ops.mul(b, mean, mean)))

    text = check(build, [F, F], [floats(256), np.zeros(1, np.float32)], tolerance=1e-5)
    strip = f"<{cpu_target().W} x float>"
    assert text.count(f"phi {strip}") == 4  # two carried accumulators and their results
    assert text.count(f"load {strip}") == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(64,), (8,), (4, 32), (32, 4), (2, 16, 8)], ids=str)
def test_scan(shape, reverse):
    for axis in range(len(shape)):

        def build(b, x, y, p, q, axis=axis):
            v = b.get(x, shape)
            b.put(y, ops.scan(b, v, axis=axis, reverse=reverse, regions=[b.fold(ops.add, T.i32)]))

            def linear(b, a1, b1, a2, b2):  # x -> a x + b, not commutative
                return ops.mul(b, a1, a2), ops.add(b, ops.mul(b, a2, b1), b2)

            small = ops.rem(b, v, b.full(3, shape))
            one, two = ops.scan(b, small, v, axis=axis, reverse=reverse, regions=[b.fold(linear, T.i32, T.i32)])
            b.put(p, one)
            b.put(q, two)

        x = rng.integers(0, 100, shape).astype(np.int32)
        check(build, [I, I, I, I], [x, *[np.zeros(shape, np.int32) for _ in range(3)]], opt=0)


def with_branch(b, x, y):
    """A combination with control flow: the larger, by a branch."""
    with b.region() as yes:
        ops.yield_(b, x)
    with b.region() as no:
        ops.yield_(b, y)
    return ops.if_(b, ops.gt(b, x, y), regions=[yes.block, no.block])


def with_loop(b, x, y):
    """The greatest common divisor, by a loop."""
    with b.region([T.i32, T.i32]) as test:
        ops.yield_(b, ops.ne(b, test.args[1], b.c(0)))
    with b.region([T.i32, T.i32]) as body:
        p, q = body.args
        ops.yield_(b, q, ops.rem(b, p, q))
    return ops.while_(b, x, y, regions=[test.block, body.block])[0]


@pytest.mark.parametrize("combination", [with_branch, with_loop])
def test_combination_with_control_flow(combination):
    def build(b, x, y, z, u):
        v = b.get(x, (4, 32))
        b.put(y, ops.reduce(b, v, axis=1, regions=[b.fold(combination, T.i32)]))
        b.put(z, ops.reduce(b, v, axis=0, regions=[b.fold(combination, T.i32)]))
        b.put(u, ops.scan(b, v, axis=1, regions=[b.fold(combination, T.i32)]))

    x = (rng.integers(1, 30, (4, 32)) * 6).astype(np.int32)
    check(build, [I, I, I, I], [x, np.zeros(4, np.int32), np.zeros(32, np.int32), np.zeros((4, 32), np.int32)])


def test_map():
    def build(b, x, y, z):
        v = b.get(x, (4, 16))
        with b.region([T.i32, T.i32]) as simple:
            ops.yield_(b, ops.max_(b, *simple.args))
        b.put(y, ops.map_(b, v, b.range(16, 1, 2, (4, 16)), regions=[simple.block]))
        with b.region([T.i32] * 2) as pair:
            p, q = pair.args
            ops.yield_(b, ops.add(b, p, q), with_loop(b, p, q))
        b.put(z, ops.map_(b, v, pack=2, regions=[pair.block]))

    check(build, [I, I, I], [rng.integers(1, 50, (4, 16)).astype(np.int32), *np.zeros((2, 4, 16), np.int32)])


# --- shapes -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "source, target",
    [
        ((64,), (4, 16)),
        ((4, 16), (64,)),
        ((8, 8), (2, 4, 8)),
        ((2, 32), (32, 2)),
        ((4, 2, 8), (8, 8)),
        ((3, 8), (6, 4)),
        ((1, 64), (64,)),
        ((16,), (2, 2, 2, 2)),
    ],
    ids=str,
)
def test_reshape(source, target):
    def build(b, x, y, z):
        v = b.get(x, source)
        b.put(y, ops.reshape(b, ops.add(b, v, v), shape=target))
        order = tuple(reversed(range(len(target))))
        b.put(z, ops.trans(b, ops.reshape(b, v, shape=target), order=order))

    n = int(np.prod(source))
    check(build, [F, F, F], [floats(*source), np.zeros(n, np.float32), np.zeros(n, np.float32)], opt=0)


def test_reshape_of_indices():
    def build(b, x, y):
        i = ops.reshape(b, b.range(64), shape=(8, 8))
        b.put(y, ops.load(b, ops.addptr(b, b.full(x, (8, 8)), ops.trans(b, i, order=(1, 0)))))

    check(build, [F, F], [floats(64), np.zeros((8, 8), np.float32)])


def test_join_split_cat():
    def build(b, x, y, z, u, s):
        v, w = b.get(x, (4, 16)), b.get(y, (4, 16))
        both = ops.join(b, v, w)
        b.put(z, ops.reshape(b, both, shape=(4, 32)))
        one, two = ops.split(b, both)
        b.put(u, ops.cat(b, ops.sub(b, one, two), w, axis=1))
        b.put(ops.addptr(b, u, b.c(128)), ops.cat(b, one, two, axis=0))
        pair = ops.join(b, ops.load(b, x), ops.load(b, y))
        p, q = ops.split(b, pair)
        ops.store(b, s, ops.sub(b, p, q))
        ops.store(b, ops.addptr(b, s, b.c(1)), ops.reshape(b, b.full(p, (1,)), shape=()))

    check(
        build,
        [F, F, F, F, F],
        [floats(4, 16), floats(4, 16), np.zeros(128, np.float32), np.zeros(256, np.float32), np.zeros(2, np.float32)],
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(axis):
    def build(b, x, i, y):
        b.put(
            y,
            ops.gather(b, ops.mul(b, b.get(x, (16, 16)), b.full(2.0, (16, 16), T.f32)), b.get(i, (16, 16)), axis=axis),
        )

    check(
        build,
        [F, I, F],
        [floats(16, 16), rng.integers(-1, 17, (16, 16)).astype(np.int32), np.zeros((16, 16), np.float32)],
    )


def test_extract_insert():
    def build(b, x, y, s, k):
        v = b.get(x, (8, 8))
        e = ops.extract(b, v, k, b.c(3))
        ops.store(b, s, e)
        w = ops.insert(b, v, b.c(9.0, T.f32), b.c(1), k)
        w = ops.insert(b, w, e, k, k)
        b.put(y, ops.add(b, w, v))

    check(build, [F, F, F, T.i32], [floats(8, 8), np.zeros((8, 8), np.float32), np.zeros(1, np.float32), 5])


@pytest.mark.parametrize("t", [T.f32, T.i16, T.u8, T.f16, T.i64], ids=str)
def test_sort(t):
    from tritium.ops.meaning import np_dtype

    def build(b, x, y, z):
        v = b.get(x, (4, 32))
        b.put(y, ops.sort(b, v, descending=False))
        b.put(z, ops.sort(b, ops.add(b, v, v), descending=True))

    x = rng.integers(0, 100, (4, 32)).astype(np_dtype(t))
    check(build, [T.Ptr(t)] * 3, [x, np.zeros_like(x), np.zeros_like(x)])


def test_histogram():
    def build(b, x, y, z):
        v = b.get(x, (128,))
        b.put(y, ops.histogram(b, v, bins=16))
        b.put(z, ops.histogram(b, v, ops.lt(b, b.range(128), b.full(50, (128,))), bins=8))

    check(build, [I, I, I], [rng.integers(-2, 18, 128).astype(np.int32), np.zeros(16, np.int32), np.zeros(8, np.int32)])


# --- dot --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "t, acc",
    [(T.f32, T.f32), (T.f16, T.f32), (T.bf16, T.f32), (T.f64, T.f64), (T.i8, T.i32), (T.f16, T.f16), (T.f8e5, T.f32)],
    ids=str,
)
def test_dot(t, acc):
    from tritium.ops.meaning import np_dtype

    def build(b, x, y, z, o):
        v, w = b.get(x, (32, 16)), b.get(y, (16, 64))
        c = ops.dot(b, v, w, b.get(z, (32, 64)), precision="ieee", imprecise=0)
        b.put(o, ops.dot(b, v, w, c, precision="ieee", imprecise=0))

    kinds = [t, t, acc, acc]
    args = [
        rng.integers(-5, 6, s).astype(np.float32).astype(np_dtype(k))
        for k, s in zip(kinds, ((32, 16), (16, 64), (32, 64), (32, 64)), strict=True)
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


# --- control ----------------------------------------------------------------------------------------------------
def test_loop_carries_scalars_tiles_and_pointers():
    def build(b, x, y, s, n):
        shape = (64,)
        zero, p = b.full(0.0, shape, T.f32), b.rows(x, shape)
        with b.region([T.i32, T.f32, T.Tile(shape, T.f32), p.type, T.Tile(shape, T.i32)]) as r:
            _, total, acc, q, offset = r.args
            v = ops.load(b, q)
            w = ops.load(b, ops.addptr(b, b.full(x, shape), offset))
            total = ops.add(b, total, ops.reduce(b, v, axis=0, regions=[b.fold(ops.max_, T.f32)]))
            acc = ops.add(b, ops.mul(b, acc, b.full(0.5, shape, T.f32)), ops.add(b, v, w))
            ops.yield_(b, total, acc, ops.addptr(b, q, b.full(64, shape)), ops.sub(b, offset, b.full(64, shape)))
        last = ops.add(b, b.range(64), b.full(ops.mul(b, ops.sub(b, n, b.c(1)), b.c(64)), shape))
        total, acc, q, offset = ops.for_(b, b.c(0), n, b.c(1), b.c(0.0, T.f32), zero, p, last, regions=[r.block])
        ops.store(b, s, total)
        b.put(y, acc)
        ops.store(b, ops.addptr(b, q, b.full(0, shape)), acc)  # pointers after the loop
        b.put(ops.addptr(b, y, b.c(64)), ops.cast(b, offset, to=T.f32))

    for n in (0, 1, 4):
        check(
            build,
            [F, F, F, T.i32],
            [floats(5 * 64), np.zeros(128, np.float32), np.zeros(1, np.float32), n],
            tolerance=1e-5,
        )


@pytest.mark.parametrize("lo, hi, by", [(0, 10, 3), (10, 0, -1), (5, 5, 1), (-4, 4, 2)])
def test_loop_bounds(lo, hi, by):
    def build(b, y):
        with b.region([T.i32, T.i32]) as r:
            i, at = r.args
            ops.store(b, ops.addptr(b, y, at), i)
            ops.yield_(b, ops.add(b, at, b.c(1)))
        count = ops.for_(b, b.c(lo), b.c(hi), b.c(by), b.c(0), regions=[r.block])
        ops.store(b, ops.addptr(b, y, b.c(15)), count)

    check(build, [I], [np.zeros(16, np.int32)])


def test_swapped_and_shifted_tiles():
    """Fibonacci on tiles, and a tile that becomes its own transpose: no value may be overwritten too early."""
    shape = (16, 16)
    t = T.Tile(shape, T.i32)

    def build(b, x, y, z, u):
        v = b.get(x, shape)
        row = T.Tile((16,), T.i32)
        with b.region([T.i32, t, t, t, row, row]) as r:
            _, p, q, m, s, c = r.args
            total = ops.reduce(b, p, axis=1, regions=[b.fold(ops.add, T.i32)])
            spread = ops.broadcast(b, ops.expand_dims(b, s, axis=1), shape=shape)
            ops.yield_(
                b, q, ops.add(b, p, q), ops.add(b, ops.trans(b, m, order=(1, 0)), spread), c, ops.xor(b, total, s)
            )
        inits = [v, ops.add(b, v, b.full(1, shape)), v, b.range(16), b.full(3, (16,))]
        p, q, m, s, c = ops.for_(b, b.c(0), b.c(5), b.c(1), *inits, regions=[r.block])
        b.put(y, ops.sub(b, q, p))
        b.put(z, m)
        b.put(u, ops.sub(b, s, c))

    check(
        build,
        [I, I, I, I],
        [rng.integers(0, 9, shape).astype(np.int32), *np.zeros((2, *shape), np.int32), np.zeros(16, np.int32)],
    )


def test_nested_loops_update_in_place():
    shape = (32, 32)

    def build(b, x, y):
        t = T.Tile(shape, T.f32)
        half = b.full(0.5, shape, T.f32)
        with b.region([T.i32, t]) as outer:
            _, acc = outer.args
            with b.region([T.i32, t]) as inner:
                j, sum_ = inner.args
                v = b.get(ops.addptr(b, x, ops.mul(b, j, b.c(7))), shape)
                ops.yield_(b, ops.dot(b, v, half, ops.mul(b, sum_, half), precision="ieee", imprecise=0))
            ops.yield_(b, ops.for_(b, b.c(0), b.c(3), b.c(1), acc, regions=[inner.block]))
        b.put(y, ops.for_(b, b.c(0), b.c(2), b.c(1), b.full(1.0, shape, T.f32), regions=[outer.block]))

    text = check(build, [F, F], [floats(1100), np.zeros(shape, np.float32)], tolerance=1e-4)
    assert text.count("zeroinitializer") == 0


def test_while_and_if_with_tiles():
    shape = (32,)

    def build(b, x, y, n):
        t = T.Tile(shape, T.i32)
        with b.region([T.i32, t]) as test:
            ops.yield_(b, ops.gt(b, test.args[0], b.c(1)))
        with b.region([T.i32, t]) as body:
            k, v = body.args
            with b.region() as even:
                ops.yield_(b, ops.div(b, k, b.c(2)), ops.add(b, v, b.range(32)))
            with b.region() as odd:
                ops.store(b, b.rows(ops.addptr(b, y, b.c(32)), shape), v)
                ops.yield_(b, ops.add(b, ops.mul(b, k, b.c(3)), b.c(1)), ops.mul(b, v, b.full(3, shape)))
            k, v = ops.if_(b, ops.eq(b, ops.and_(b, k, b.c(1)), b.c(0)), regions=[even.block, odd.block])
            ops.yield_(b, k, v)
        _, v = ops.while_(b, n, b.get(x, shape), regions=[test.block, body.block])
        b.put(y, v)

    for n in (1, 7):
        check(build, [I, I, T.i32], [np.arange(32, dtype=np.int32), np.zeros(64, np.int32), n])


def test_branch_uses_load_from_outside_after_store():
    shape = (64,)

    def build(b, x, y, n):
        v = b.get(x, shape)
        with b.region() as yes:
            b.put(x, b.full(1.0, shape, T.f32))
            total = ops.reduce(b, v, axis=0, regions=[b.fold(ops.add, T.f32)])
            ops.yield_(b, ops.mul(b, v, b.full(total, shape)))
        with b.region() as no:
            ops.yield_(b, b.full(2.0, shape, T.f32))
        b.put(y, ops.if_(b, ops.gt(b, n, b.c(0)), regions=[yes.block, no.block]))

    for n in (0, 1):
        check(build, [F, F, T.i32], [floats(64), np.zeros(64, np.float32), n], tolerance=1e-5)


def test_loop_with_stores_reads_what_was_loaded_before():
    shape = (32,)

    def build(b, x):
        v = b.get(x, shape)
        with b.region([T.i32]) as r:
            w = b.get(x, shape)
            b.put(x, ops.add(b, w, v))
            ops.yield_(b)
        ops.for_(b, b.c(0), b.c(3), b.c(1), regions=[r.block])

    check(build, [F], [floats(32)])


def test_long_chains_are_cut():
    def build(b, x, y):
        v = w = b.get(x, (32,))
        for k in range(700):
            w = ops.add(b, ops.mul(b, w, b.full(0.5, (32,), T.f32)), v)
            if k % 3 == 0:
                w = ops.sub(b, w, b.full(1.0, (32,), T.f32))
        b.put(y, w)

    check(build, [F, F], [floats(32), np.zeros(32, np.float32)], tolerance=1e-4, opt=0)


def test_large_tiles_stay_small_code():
    def build(b, *ps):
        xs = [b.get(p, (65536,)) for p in ps[:4]]
        b.put(ps[4], ops.add(b, ops.add(b, xs[0], xs[1]), ops.mul(b, xs[2], xs[3])))

    text = check(build, [F] * 5, [*[floats(65536) for _ in range(4)], np.zeros(65536, np.float32)], tolerance=1e-5)
    assert len(text.splitlines()) < 60


# --- atomics, programs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "how, t",
    [
        ("add", T.f32),
        ("add", T.i32),
        ("max", T.i64),
        ("min", T.u32),
        ("add", T.f16),
        ("add", T.bf16),
        ("max", T.f32),
        ("and", T.i32),
        ("or", T.u64),
        ("xor", T.i32),
    ],
    ids=str,
)
def test_atomics_from_several_threads(how, t):
    from tritium.ops.meaning import np_dtype

    d = np_dtype(t)

    def build(b, x, y, n):
        pid = ops.program_id(b, axis=0)
        v = b.get(ops.addptr(b, x, ops.mul(b, pid, b.c(32))), (32,))
        at = ops.addptr(b, b.full(y, (32,)), ops.rem(b, b.range(32), b.full(8, (32,))))
        ops.atomic(b, at, v, ops.lt(b, b.range(32), b.full(n, (32,))), how=how)
        ops.atomic(b, ops.addptr(b, y, b.c(8)), ops.cast(b, b.c(1), to=t), how=how)

    x = rng.integers(0, 4 if d.itemsize == 2 else 100, 64 * 32).astype(d)
    check(build, [T.Ptr(t), T.Ptr(t), T.i32], [x, np.ones(9, d), 29], (64,))


def test_atomic_results_and_locks():
    def build(b, x, y, lock, count):
        old = ops.atomic(b, b.rows(x, (16,)), b.range(16), how="xchg")
        b.put(y, old)
        with b.region([T.i32]) as test:
            ops.yield_(b, ops.eq(b, test.args[0], b.c(1)))
        with b.region([T.i32]) as body:
            ops.yield_(b, ops.atomic_cas(b, lock, b.c(0), b.c(1)))
        ops.while_(b, b.c(1), regions=[test.block, body.block])
        ops.store(b, count, ops.add(b, ops.load(b, count), b.c(1)))
        ops.atomic(b, lock, b.c(0), how="xchg")

    m = module(build, I, I, I, I)
    x, y, lock, count = np.full(16, 7, np.int32), np.zeros(16, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(m, [x, y, lock, count], (1000,))
    assert count[0] == 1000 and lock[0] == 0 and (x == np.arange(16)).all()


def test_grid():
    def build(b, y):
        x, u, v = (ops.program_id(b, axis=k) for k in range(3))
        nx, ny, nz = (ops.num_programs(b, axis=k) for k in range(3))
        at = ops.add(b, x, ops.mul(b, nx, ops.add(b, u, ops.mul(b, ny, v))))
        ops.store(
            b,
            ops.addptr(b, y, at),
            ops.add(b, ops.mul(b, x, b.c(100)), ops.add(b, ops.mul(b, u, b.c(10)), ops.mul(b, v, nz))),
        )

    check(build, [I], [np.zeros(60, np.int32)], (3, 4, 5))


def test_print_and_clock(capfd):
    def build(b, x):
        ops.print_(b, b.get(x, (2, 2)), prefix=" x: ")
        ops.print_(b, b.c(255), b.c(1.5, T.f32), prefix=" two: ", hex=False)
        ops.print_(b, prefix=" here")
        ops.print_(b, b.c(255), prefix=" h: ", hex=True)
        ops.assume(b, ops.gt(b, ops.clock(b, what="globaltimer"), b.c(0, T.i64)))
        ops.hint(b, ops.clock(b, what="smid"), divisible=1)

    m, x = module(build, I), np.arange(4, dtype=np.int32)
    interpret(m, [x.copy()])
    expected = capfd.readouterr().out
    launch(m, [x])
    assert capfd.readouterr().out == expected


def test_assert():
    def build(b, x, n):
        ops.assert_(
            b,
            ops.gt(b, b.get(x, (40,)), b.full(0, (40,))),
            ops.lt(b, b.range(40), b.full(n, (40,))),
            message="not positive",
        )

    m = module(build, I, T.i32)
    x = np.ones(40, np.int32)
    x[20] = 0
    launch(m, [x, 20])
    with pytest.raises(RuntimeError, match="not positive"):
        launch(m, [x, 21])


def test_inline_asm():
    import platform

    asm = {"aarch64": ("add ${0:w}, ${1:w}, ${2:w}", "=r,r,r"), "x86_64": ("leal ($1,$2), $0", "=r,r,r")}.get(
        platform.machine()
    )
    if asm is None:
        pytest.skip("no assembly for this machine")

    def build(b, x, y):
        v = b.get(x, (32,))
        out = ops.inline_asm(b, v, ops.mul(b, v, v), asm=asm[0], constraints=asm[1], types=(T.i32,), pure=True, pack=1)
        b.put(y, out)

    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    launch(module(build, I, I), [x, y])
    np.testing.assert_array_equal(y, x + x * x)
