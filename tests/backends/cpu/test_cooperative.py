"""`launch_cooperative_grid=True` on the CPU: all programs run at once, and may wait for each other."""

import doctest
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.cpu.runtime import cooperative, job
from tritium.backends.cpu.runtime.image import Runtime
from tritium.errors import InterpreterError
from tritium.interp import together as turns
from tritium.interp.eager import launch as interpret

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("TRITIUM_BACKEND", "cpu")


@triton.jit
def barrier(count, out):
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < tl.num_programs(0):
        pass
    tl.store(out + tl.program_id(0), 1)


@triton.jit
def shifted_sums(x, y, state, ROUNDS: tl.constexpr, N: tl.constexpr):
    """Each round, every program adds its neighbour's row to its own; a sense-reversing barrier parts the rounds."""
    p, all = tl.program_id(0), tl.num_programs(0)
    i = tl.arange(0, N)
    for r in range(ROUNDS):
        source, target = x, y
        if r % 2 == 1:
            source, target = y, x
        mine = tl.load(source + p * N + i, volatile=True)
        other = tl.load(source + (p + 1) % all * N + i, volatile=True)
        tl.store(target + p * N + i, mine + other)
        sense = tl.atomic_add(state + 1, 0)
        if tl.atomic_add(state, 1) == all - 1:
            tl.atomic_xchg(state, 0)
            tl.atomic_xchg(state + 1, 1 - sense)
        else:
            while tl.atomic_add(state + 1, 0) == sense:
                pass


@triton.jit
def fail_one(count, bad):
    p = tl.program_id(0)
    tl.device_assert(p != bad, "this one is bad")
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < tl.num_programs(0):
        pass


@triton.jit
def touch(out):
    tl.atomic_add(out, 1)


def together(programs, launch=None):
    count, out = np.zeros(1, np.int32), np.zeros(programs + 1, np.int32)
    (launch or barrier[(programs,)])(count, out, launch_cooperative_grid=True)
    return count[0] == programs and out[:programs].all() and not out[programs]


def test_docstring_examples():
    assert doctest.testmod(cooperative).failed == doctest.testmod(turns).failed == 0


@pytest.mark.parametrize("programs", [1, 2, 8, 64, 200])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_barrier_of_the_grid(programs, threads):
    """The number of threads of the pool does not matter."""
    rt = Runtime.get()
    before = rt.num_threads
    rt.set_num_threads(threads)
    try:
        for _ in range(3):
            assert together(programs)
    finally:
        rt.set_num_threads(before)


@pytest.mark.parametrize("programs", [2, 8, 16])
def test_many_barriers(programs):
    x = np.random.default_rng(0).integers(0, 9, (programs, 64)).astype(np.int64)
    expected, y = x.copy(), np.zeros_like(x)
    for _ in range(12):
        expected = expected + np.roll(expected, -1, axis=0)
    shifted_sums[(programs,)](x, y, np.zeros(2, np.int32), ROUNDS=12, N=64, launch_cooperative_grid=True)
    assert np.array_equal(x, expected)


def test_an_assertion_ends_the_wait_of_the_others():
    for bad in (0, 1, 7):
        with pytest.raises(RuntimeError, match=rf"(?s)this one is bad.*\[program \({bad}, 0, 0\)\]"):
            fail_one[(8,)](np.zeros(1, np.int32), bad, debug=True, launch_cooperative_grid=True)
    count = np.zeros(1, np.int32)
    fail_one[(8,)](count, -1, debug=True, launch_cooperative_grid=True)
    assert count[0] == 8


def test_too_many_programs_are_refused_before_any_runs():
    out = np.zeros(1, np.int32)
    touch[(1024,)](out, launch_cooperative_grid=True)
    assert out[0] == 1024
    for grid in [(1025,), (32, 33), (2**31 - 1, 2**31 - 1)]:
        out[0] = 0
        total = int(np.prod([int(n) for n in grid], dtype=object))
        with pytest.raises(RuntimeError, match=rf"at most 1024; this grid has {total}: launch fewer programs"):
            touch[grid](out, launch_cooperative_grid=True)
        assert out[0] == 0
    touch[(2000,)](out)
    assert out[0] == 2000


def test_every_road_leads_there():
    """The compiled kernel itself, and the runtime's two ways to launch."""
    count, out = np.zeros(1, np.int32), np.zeros(9, np.int32)
    kernel = barrier[(8,)](count, out, launch_cooperative_grid=True)
    assert kernel.metadata.launch_cooperative_grid
    assert together(8, lambda count, out, **_: kernel[(8, 1, 1)](count, out))
    rt = Runtime.get()
    for launch in (rt.launch_raw, rt.launch_raw_slowly):
        count[0], out[:] = 0, 0
        slots = np.array([count.ctypes.data, out.ctypes.data], np.int64).tobytes()
        launch(kernel.function, kernel.metadata.arena_bytes | job.BIT, 8, 1, 1, slots)
        assert count[0] == 8 and out[:8].all()
        with pytest.raises(RuntimeError, match="at most 1024; this grid has 1025"):
            launch(kernel.function, kernel.metadata.arena_bytes | job.BIT, 1025, 1, 1, slots)


def test_the_interpreter_lets_programs_wait_for_each_other():
    programs = 5
    x = np.random.default_rng(1).integers(0, 9, (programs, 8)).astype(np.int64)
    expected, y = x.copy(), np.zeros_like(x)
    for _ in range(4):
        expected = expected + np.roll(expected, -1, axis=0)
    options = dict(ROUNDS=4, N=8, launch_cooperative_grid=True)
    interpret(shifted_sums, (programs,), (x, y, np.zeros(2, np.int32)), options)
    assert np.array_equal(x, expected)


def test_the_interpreter_ends_the_wait_of_the_others():
    for bad in (0, 3):
        with pytest.raises(InterpreterError, match=rf"(?s)this one is bad.*program \({bad}, 0, 0\)"):
            interpret(fail_one, (4,), (np.zeros(1, np.int32), bad), dict(debug=True, launch_cooperative_grid=True))


def test_cooperative_launches_from_several_threads():
    right = []

    def work():
        right.extend(together(6) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 15


def test_threads_that_cannot_be_had_are_an_error():
    """Under a limit of the address space there is no room for so many stacks: nothing runs, and fewer programs do."""
    code = """if True:
        import mmap, resource
        import numpy as np
        from tests.backends.cpu.test_cooperative import together, touch
        assert together(4)
        out = np.zeros(1, np.int32)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
        try:
            mmap.mmap(-1, 200 << 20)
            print("no limit")
        except OSError:
            pass
        try:
            touch[(1000,)](out, launch_cooperative_grid=True)
        except (RuntimeError, MemoryError) as raised:
            print(type(raised).__name__, out[0], str(raised)[:60])
        print(together(4))
    """
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("the size of a process is read from Linux's /proc")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "TRITIUM_BACKEND": "cpu", "PYTHONPATH": str(ROOT)})  # fmt: skip
    if done.stdout.startswith("no limit"):
        pytest.skip("this system does not hold a process to its limit of address space, as under QEMU")
    first, second = done.stdout.splitlines()
    assert first.split()[:2] in (["RuntimeError", "0"], ["MemoryError", "0"]), done
    assert second == "True", done
