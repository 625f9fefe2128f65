"""Kernels written in tile IR, compiled for this CPU and compared with the interpreter."""

import ml_dtypes
import numpy as np
import pytest

from tritium import ops, passes
from tritium.backends.cpu import table
from tritium.backends.cpu.compile import prepare
from tritium.backends.cpu.lower import lower
from tritium.backends.cpu.record import pack
from tritium.backends.cpu.runtime import Runtime
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.opdef import KINDS
from tritium.ir.verify import verify

rng = np.random.default_rng(0)
CODES = {"i1": "BOOL", "f32": "FLOAT32", "f64": "FLOAT64"}


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
        strides = [int(np.prod(shape[k + 1:])) for k in range(len(shape))]
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
    slots = b"".join(pack(["TENSOR"], [x.ctypes.data]) if isinstance(x, np.ndarray)
                     else pack([CODES.get(a.type.name, "ANY64")], [x]) for a, x in zip(m.args, args, strict=True))
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
                np.testing.assert_allclose(y.astype(np.float64), x.astype(np.float64), rtol=tolerance, atol=tolerance,
                                           err_msg=f"argument {k}")
    return text


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


F, I = T.Ptr(T.f32), T.Ptr(T.i32)


def test_every_op_has_a_lowering():
    from tritium.backends.cpu import lower_atomics, lower_control, lower_dot, lower_program, lower_shape  # noqa: F401
    missing = [k.name for k in KINDS.values() if table.puller(k) is None and k not in table.STEP]
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
        mask = ops.and_(b, ops.lt(b, b.range(16, 0, 2, shape), b.full(m, shape)),
                        ops.lt(b, b.range(32, 1, 2, shape), b.full(n, shape)))
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
    check(build, [F, I, F, F], [floats(20, 32), rng.permutation(20)[:8].astype(np.int32),
                                np.zeros(shape, np.float32), np.zeros(20, np.float32)])


@pytest.mark.parametrize("n", [5, 16, 50, 64, 100])
def test_wrapped_index(n):
    shape = (8, 64)

    def build(b, x, y, base, n):
        column = ops.rem(b, ops.add(b, b.full(base, (64,)), b.range(64)), b.full(n, (64,)))
        row = ops.rem(b, ops.add(b, b.full(3, (8,)), b.range(8)), b.full(5, (8,)))
        at = ops.add(b, ops.broadcast(b, ops.expand_dims(b, column, axis=0), shape=shape),
                     ops.mul(b, ops.broadcast(b, ops.expand_dims(b, row, axis=1), shape=shape), b.full(n, shape)))
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
    x, y = (np.concatenate([v, rng.integers(info.min, info.max, 28, dtype=info.dtype)])[:128].copy()
            for v in (np.repeat(values, 10), np.tile(values, 10)))
    kinds = [ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.and_, ops.or_, ops.xor, ops.shl, ops.shr, ops.min_, ops.max_]

    def build(b, x, y, out):
        v, w = b.get(x, (128,)), b.get(y, (128,))
        for k, kind in enumerate(kinds):
            b.put(ops.addptr(b, out, b.c(128 * k)), kind(b, v, w))
    P = T.Ptr(t)
    check(build, [P, P, P], [x, y, np.zeros(128 * len(kinds), info.dtype)], opt=0)


def test_casts():
    kinds = [T.i8, T.i32, T.i64, T.u8, T.u32, T.f16, T.bf16, T.f32, T.f64, T.f8e5, T.f8e4nv]
    dtypes = {T.f16: np.float16, T.bf16: ml_dtypes.bfloat16, T.f32: np.float32, T.f64: np.float64,
              T.f8e5: ml_dtypes.float8_e5m2, T.f8e4nv: ml_dtypes.float8_e4m3fn}
    for source in kinds:
        targets = [t for t in kinds if t is not source and not {source, t} & {T.f8e5, T.f8e4nv} & set(kinds)
                   or t.is_float and source.is_float and t is not source]

        def build(b, x, *outs, targets=targets):
            v = b.get(x, (64,))
            for t, out in zip(targets, outs, strict=True):
                b.put(out, ops.cast(b, v, to=t))
        def dtype(t):
            return dtypes.get(t) or np.dtype(t.name.replace("u", "uint") if not t.signed else f"int{t.bits}")
        x = (rng.standard_normal(64) * 40).astype(np.float32)
        x = x.astype(dtype(source)) if source.is_float else np.clip(x, 0 if not source.signed else -100, 100).astype(dtype(source))
        check(build, [T.Ptr(source), *map(T.Ptr, targets)], [x, *[np.zeros(64, dtype(t)) for t in targets]], opt=0)


@pytest.mark.parametrize("t, dtype", [(T.f16, np.float16), (T.bf16, ml_dtypes.bfloat16), (T.f64, np.float64)], ids=str)
def test_narrow_and_wide_floats(t, dtype):
    def build(b, x, y, z):
        v, w = b.get(x, (96,)), b.get(y, (96,))
        out = ops.add(b, ops.mul(b, v, w), ops.div(b, v, b.full(3.0, (96,), t)))
        b.put(z, ops.select(b, ops.lt(b, v, w), out, ops.max_(b, v, w)))
    P = T.Ptr(t)
    check(build, [P, P, P], [floats(96, dtype=dtype), floats(96, dtype=dtype), np.zeros(96, dtype)], tolerance=0.02)


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
