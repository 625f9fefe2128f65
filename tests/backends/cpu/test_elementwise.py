"""Elementwise ops and casts, compiled for this CPU and compared with the interpreter."""

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cpu.kernels import F, I, check, floats, launch, module, rng
from tritium import ops
from tritium.ir import types as T


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_by_one_number(dtype):
    """Dividing a tile by a scalar rounds as a division does, whatever the scalar is."""
    t = T.f32 if dtype is np.float32 else T.f64

    def build(b, x, y, o):
        p = ops.program_id(b, axis=0)
        d = ops.load(b, ops.addptr(b, y, p))
        q = ops.div(b, b.get(x, (256,)), b.full(d, (256,)))
        b.put(ops.addptr(b, o, ops.mul(b, p, b.c(256))), q)

    info = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, 1.0, 3.0, info.tiny * 2.0**60]
    x = np.concatenate([special, rng.standard_normal(246) * 10.0 ** rng.integers(-15, 15, 246)]).astype(dtype)
    y = np.array([*special, info.smallest_subnormal, info.tiny, 0.1, -7.0, 1e20, 1e-20], dtype)
    check(build, [T.Ptr(t)] * 3, [x, y, np.zeros((len(y), 256), dtype)], (len(y),))
