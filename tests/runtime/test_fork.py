"""A process forks while its threads compile: the child compiles and launches, and its garbage collector works."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runtime.jit_kernels import X, add
from tritium import knobs, locks
from tritium.compiler.background import AsyncCompileMode
from tritium.compiler.collector import paused

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
LONG = os.environ.get("TRITIUM_TEST_LONG") == "1"
ROOT = Path(__file__).resolve().parents[2]


def in_child(work, timeout=120):
    """Fork, do `work()` in the child; it must end, and give something true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of forking beside threads
        child = os.fork()
    if child == 0:
        code = 3
        with contextlib.suppress(BaseException):
            try:
                code = 0 if work() else 1
            except BaseException:
                traceback.print_exc()
        os._exit(code)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


@contextlib.contextmanager
def beside(work):
    """Within it, another thread is in the middle of `with work():`."""
    inside, leave = threading.Event(), threading.Event()

    def run():
        with work():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    try:
        yield
    finally:
        leave.set()
        thread.join()


# -- locks -------------------------------------------------------------------------------------------------------------


def taken(lock):
    """Whether a lock was to be had."""
    return lock.acquire(timeout=60)


def test_a_child_finds_locks_free():
    guard = locks.lock()
    with beside(lambda: guard):
        in_child(lambda: taken(guard))
    assert taken(guard)


def test_a_lock_of_the_thread_that_forks_stays_its_own():
    guard = locks.lock()

    def work():
        other = threading.Thread(target=lambda: found.append(guard.acquire(blocking=False)))
        found = []
        other.start()
        other.join()
        guard.release()  # an error if it were not held
        return found == [False]

    with guard:
        in_child(lambda: (guard.acquire(), guard.release(), work())[2])


def test_a_fork_waits_for_threads_that_are_busy():
    done, begun = [], threading.Event()

    def work():
        with locks.busy():
            begun.set()
            time.sleep(0.3)
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    in_child(lambda: done == [1])
    thread.join()


def test_a_thread_that_stays_busy_does_not_stop_a_fork(monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.2)

    @locks.once
    def make():
        with locks.busy():
            return "made"

    with beside(locks.busy):
        in_child(lambda: make() == "made")
    assert make() == "made"


def test_a_thread_that_forks_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 1000.0)
    with locks.busy():
        in_child(lambda: True)
        in_child(lambda: (in_child(lambda: True), True)[1])


def test_threads_may_fork_at_once():
    errors = []

    def work():
        try:
            for _ in range(3):
                with locks.busy():
                    pass
                in_child(lambda: True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_programs_are_started_without_waiting(monkeypatch):
    """They are no copies of this process: nothing is to be put right in them."""
    monkeypatch.setattr(locks, "PATIENCE", 1000.0)
    with beside(locks.busy):
        said = subprocess.run([sys.executable, "-c", "print('here')"], capture_output=True, text=True, timeout=300)
    assert said.stdout == "here\n"


# -- the garbage collector ---------------------------------------------------------------------------------------------


def collects():
    return gc.isenabled() and gc.get_threshold()[0] > 0


def test_the_pause_of_another_thread_ends_in_the_child():
    before = gc.get_threshold()
    with beside(paused):
        assert not collects()
        in_child(lambda: collects() and gc.get_threshold() == before)
        assert not collects()
    assert collects() and gc.get_threshold() == before


def test_the_pause_of_the_thread_that_forks_goes_on():
    pause = paused()
    with beside(paused), pause:
        in_child(lambda: not collects() and (pause.__exit__(), collects())[1])
    assert collects()


def test_a_program_may_switch_the_collector_within_a_pause():
    try:
        with paused():
            gc.disable()
        assert not gc.isenabled() and gc.get_threshold()[0] > 0
        with paused():
            gc.enable()
            assert not collects()
        assert collects()
    finally:
        gc.enable()


def test_a_program_may_set_a_threshold_within_a_pause():
    before = gc.get_threshold()
    try:
        with paused():
            gc.set_threshold(12345)
        assert gc.get_threshold()[0] == 12345
        with paused():
            gc.set_threshold(23456)
            with paused():
                assert not collects()
        assert gc.get_threshold()[0] == 23456
    finally:
        gc.set_threshold(*before)


def test_an_interrupt_on_the_way_out_does_not_leave_the_collector_off():
    pause = paused()
    pause.__enter__()
    assert not collects()
    del pause  # as a `with` does whose `__exit__` is interrupted before its first instruction
    assert collects()


# -- kernels -----------------------------------------------------------------------------------------------------------

LOOP = '''
import gc, itertools, os, sys, threading, time, traceback, warnings
import numpy as np
import tritium as triton
import tritium.language as tl

warnings.simplefilter("ignore")


@triton.jit
def add(x, out, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + K)


x = np.arange(256, dtype=np.float32)


def launch(k):
    add.device_caches.clear()
    out = np.zeros_like(x)
    add[(2,)](x, out, K=k, BLOCK=128)
    assert (out == x + k).all(), out


def compile_on():
    for k in itertools.count():
        if stop:
            return
        launch(k % 5)


def child(k):
    try:
        state = gc.isenabled() and gc.get_threshold() == usual
        launch(k)
        os._exit(0 if state else 5)
    except BaseException:
        traceback.print_exc()
        os._exit(6)


usual, stop, codes = gc.get_threshold(), False, []
threads = [threading.Thread(target=compile_on, daemon=True) for _ in range({threads})]
for thread in threads:
    thread.start()
for k in range({children}):
    time.sleep(0.002 + 0.017 * (k % 4))
    pid = os.fork()
    if pid == 0:
        child(k % 5)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            codes.append(os.waitstatus_to_exitcode(status))
            break
        time.sleep(0.005)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        codes.append("hangs")
stop = True
for thread in threads:
    thread.join(60)
assert gc.isenabled() and gc.get_threshold() == usual
sys.exit(f"children: {{codes}}" if any(codes) else 0)
'''


def run_loop(tmp_path, threads, children):
    script = tmp_path / "loop.py"
    script.write_text(LOOP.format(threads=threads, children=children))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRITIUM_CACHE_DIR": str(tmp_path / "cache"),
           "TRITON_ALWAYS_COMPILE": "1", "TRITIUM_BACKEND": "cpu"}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False,
                          timeout=60 + 70 * children)
    assert done.returncode == 0, done.stderr[-4000:]


def test_children_of_a_process_that_compiles(tmp_path):
    run_loop(tmp_path, threads=2, children=6)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="takes minutes: set TRITIUM_TEST_LONG=1")
@pytest.mark.parametrize("threads", [1, 3, 8])
def test_many_children(tmp_path, threads):
    run_loop(tmp_path, threads, children=100)


def test_a_kernel_that_a_thread_of_an_executor_was_compiling():
    """The executor's threads are gone in the child, which compiles for itself."""
    leave, finished = threading.Event(), []
    with ThreadPoolExecutor(1) as pool, AsyncCompileMode(pool) as mode:
        pool.submit(leave.wait)
        waiting = mode.submit("one", lambda: "kernel", finished.append)

        def work():
            later = mode.submit("two", lambda: "another", finished.append)
            mode.__exit__(None, None, None)
            return waiting.result() == "kernel" and later.result() == "another" and finished == ["kernel", "another"]

        try:
            in_child(work)
        finally:
            leave.set()
    assert waiting.result() == "kernel" and finished == ["kernel"]


def test_a_hook_may_fork(fake, monkeypatch):
    """The thread that forks holds the lock of the compiler, and still does in the child."""
    seen = []

    def hook(**told):
        if not seen:
            seen.append(1)
            in_child(lambda: (add.device_caches.clear(), add[(1,)](X, X, 7), True)[2])

    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", hook)
    add[(1,)](X, X, 3)
    assert seen == [1] and fake.launches
