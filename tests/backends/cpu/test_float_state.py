"""Programs of a launch run in one floating-point state, the default one, and leave the caller's as it was."""

import ctypes
import ctypes.util
import signal
import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.llvm.target import compile_text, cpu_target
from tritium.interp.eager import launch as interpret

TINY = np.float32(1e-40)  # subnormal
IS_ARM = cpu_target().simd == "neon"
FLUSH, UP = (1 << 24, 1 << 22) if IS_ARM else (0x8040, 0x4000)
_CODE = {
    True: """
define i64 @read() { %x = call i64 asm sideeffect "mrs $0, fpcr", "=r"() ret i64 %x }
define void @write(i64 %x) { call void asm sideeffect "msr fpcr, $0", "r"(i64 %x) ret void }
""",
    False: """
define i64 @read() {
  %p = alloca i32
  call void asm sideeffect "stmxcsr $0", "=*m"(ptr elementtype(i32) %p)
  %w = load i32, ptr %p
  %c = and i32 %w, 65472
  %x = zext i32 %c to i64
  ret i64 %x
}
define void @write(i64 %x) {
  %p = alloca i32
  %w = trunc i64 %x to i32
  store i32 %w, ptr %p
  call void asm sideeffect "ldmxcsr $0", "*m"(ptr elementtype(i32) %p)
  ret void
}
""",
}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("TRITIUM_BACKEND", "cpu")


@pytest.fixture(scope="module")
def control():
    """(read, write) of this thread's state; flags of what has happened are left out."""
    library = Runtime.get().load(compile_text(_CODE[IS_ARM], cpu_target()), "read", "write").pin()
    return (ctypes.PYFUNCTYPE(ctypes.c_int64)(library.address("read")),
            ctypes.PYFUNCTYPE(None, ctypes.c_int64)(library.address("write")))


@pytest.fixture(params=[FLUSH, UP, FLUSH | UP], ids=["flushing", "rounding up", "both"])
def odd(request, control):
    """This thread in another state than the default one."""
    read, write = control
    before = read()
    write(before | request.param)
    yield before | request.param
    write(before)


@triton.jit
def scale(x, y, N: tl.constexpr, ROUNDS: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    z = tl.load(x + i)
    for _ in range(ROUNDS):
        z = z * 1.0000001
    tl.store(y + i, z)


@triton.jit
def third(x, y):
    tl.store(y, tl.load(x) / 3)


@triton.jit
def check(x):
    tl.device_assert(tl.load(x) > 0, "positive")


@triton.jit
def wait(flag, x, y):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.store(y, tl.load(x) * 0.5)


def test_all_programs_keep_subnormals(odd):
    """Those on the caller's thread and those on others', which may have been made just now."""
    n, rt = 1 << 16, Runtime.get()
    before = rt.num_threads
    x, y = np.full(n, TINY), np.zeros(n, np.float32)
    try:
        for threads in (1, 2, 4):
            rt.set_num_threads(threads)
            for _ in range(2):
                y[:] = -1
                scale[(n // 256,)](x, y, N=256, ROUNDS=100)
                assert (y.view(np.int32) == TINY.view(np.int32)).all()
    finally:
        rt.set_num_threads(before)


def test_cooperative_programs_keep_subnormals(odd):
    x, y = np.full(1024, TINY), np.zeros(1024, np.float32)
    scale[(4,)](x, y, N=256, ROUNDS=3, launch_cooperative_grid=True)
    assert (y.view(np.int32) == TINY.view(np.int32)).all()


def test_rounding_is_to_nearest(odd):
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    third[(1,)](x, y)
    assert y.view(np.int32)[0] == 0x3EAAAAAB


def test_the_caller_keeps_its_state(odd, control):
    read, _ = control
    x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    for options in ({}, {"launch_cooperative_grid": True}):
        scale[(4,)](x, y, N=256, ROUNDS=3, **options)
        assert read() == odd
    with pytest.raises(RuntimeError, match="positive"):
        check[(4,)](np.zeros(1, np.float32), debug=True)
    assert read() == odd


def test_the_default_state_stays(control):
    read, _ = control
    before = read()
    scale[(1,)](np.ones(256, np.float32), np.zeros(256, np.float32), N=256, ROUNDS=3)
    assert read() == before


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
def test_handlers_of_signals_run_in_the_callers_state(odd, control):
    """And the kernel goes on in its own; one that raises gives the caller's back, too."""
    read, _ = control
    flag, x, y = np.zeros(1, np.int32), np.full(1, TINY), np.ones(1, np.float32)
    seen = []

    def handler(*_):
        seen.append(read())
        flag[0] = 1
        if len(seen) > 1:
            raise LookupError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        wait[(1,)](flag, x, y)
        assert seen == [odd] and read() == odd and y.view(np.int32)[0] == TINY.view(np.int32) // 2
        flag[0] = 0
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(LookupError):
            wait[(1,)](flag, x, y)
        assert seen == [odd, odd] and read() == odd
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_interpreter_computes_in_the_default_state(odd, control):
    read, _ = control
    x, y = np.full(256, TINY), np.zeros(256, np.float32)
    interpret(scale, (1,), (x, y), dict(N=256, ROUNDS=3))
    assert (y.view(np.int32) == TINY.view(np.int32)).all()
    third_of = np.zeros(1, np.float32)
    interpret(third, (1,), (np.ones(1, np.float32), third_of), {})
    assert third_of.view(np.int32)[0] == 0x3EAAAAAB
    assert read() == odd


@triton.jit
def product(a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i)))


@pytest.mark.parametrize("what", ["operand", "product"])
def test_subnormals_in_products_of_bf16(what):
    """The tile unit takes subnormal operands and results for zero; without one they are exact."""
    torch = pytest.importorskip("torch")
    small = 2.0**-130 if what == "operand" else 2.0**-70
    a = torch.eye(32, dtype=torch.float32).mul_(small).to(torch.bfloat16)
    b = torch.full((32, 32), 1.0 if what == "operand" else 2.0**-70).to(torch.bfloat16)
    c = torch.full((32, 32), -1.0)
    product[(1,)](a, b, c, N=32)
    exact = torch.full((32, 32), small if what == "operand" else 2.0**-140)
    if "bf16" in cpu_target().amx:
        assert bool(((c == exact) | (c == 0)).all())
    else:
        assert torch.equal(c, exact)


@pytest.mark.parametrize("left, right", [(2.0**-24, 1.0), (2.0**-24, 2.0**-24), (-3 * 2.0**-24, 60000.0)])
def test_subnormals_in_products_of_f16(left, right):
    """They are exact with a tile unit and without."""
    a, b = np.eye(32, dtype=np.float16) * np.float16(left), np.full((32, 32), right, np.float16)
    c = np.full((32, 32), -1, np.float32)
    product[(1,)](a, b, c, N=32)
    assert (c == np.float32(left) * np.float32(b[0, 0])).all()
