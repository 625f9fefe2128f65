"""Atomics and what a program asks of its surroundings, compiled for this CPU and compared with the interpreter."""

import numpy as np
import pytest

from tests.backends.cpu.kernels import I, check, launch, module, rng
from tritium import ops
from tritium.backends.cpu.lower import table
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.opdef import OpKind


def test_every_op_has_a_lowering():
    table.fill()
    kinds = [k for k in vars(ops).values() if isinstance(k, OpKind)]
    assert len(kinds) > 80
    missing = [k.name for k in kinds if table.puller(k) is None and k not in table.STATEMENTS]
    assert not missing


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

    # Threads add in any order: every sum has to be exact in the type.
    x = rng.integers(0, {T.bf16: 2, T.f16: 4}.get(t, 100), 64 * 32).astype(d)
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
