"""Launches that end before their programs do: a program for `test_interrupt.py`, which gives it time enough.

    python -m tests.backends.cpu.interrupted_launches 2          prints a line for each case, on two threads
    python -m tests.backends.cpu.interrupted_launches 2 torch    the same, on the threads that torch computes with
"""

import os
import signal
import sys
import threading
import time

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.torch_threads import on_torchs_threads
from tritium.backends.cpu.runtime.image import Runtime

# A shell that starts programs in the background has them ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)


@triton.jit
def endless(started, out):
    tl.atomic_xchg(started, 1)
    while tl.atomic_add(started, 0) != 100:
        pass
    tl.store(out, 1)


@triton.jit
def until(started, flag, out):
    """Ends when somebody sets the flag; sums up tiles on the way."""
    total = tl.zeros((256,), tl.int32)
    iterations = 0
    tl.atomic_xchg(started, 1)
    while tl.load(flag, volatile=True) == 0:
        total += tl.arange(0, 256)
        iterations += 1
    total += tl.arange(0, 256)
    tl.store(out + tl.program_id(0), tl.sum(total, 0) - iterations * 32640)


@triton.jit
def one_endless(started, out, bad):
    if tl.program_id(0) == bad:
        tl.atomic_xchg(started, 1)
        while tl.atomic_add(started, 0) != 100:
            pass
    tl.store(out + tl.program_id(0), 1)


@triton.jit(do_not_specialize=["bad"])
def one_of_two(started, count, out, bad):
    """Two programs that wait for each other, so that each has a thread of its own, if there are two; one never ends."""
    tl.atomic_add(count, 1)
    tries = 0
    while (tl.atomic_add(count, 0) < 2) & (tries < 10_000_000):
        tries += 1
    if tl.program_id(0) == bad:
        tl.atomic_xchg(started, 1)
        while tl.atomic_add(started, 0) != 100:
            pass
    tl.store(out + tl.program_id(0), 1)


@triton.jit
def barrier(started, count, out, ALL: tl.constexpr):
    tl.atomic_add(count, 1)
    tl.atomic_xchg(started, 1)
    while tl.atomic_add(count, 0) < ALL:
        pass
    tl.store(out + tl.program_id(0), 1)


@triton.jit
def short(started):
    tl.store(started, 1)


@triton.jit
def long_for(started, x, n, B: tl.constexpr):
    tl.atomic_xchg(started, 1)
    total = tl.zeros((B,), tl.float32)
    for i in range(n):
        for j in range(n):
            total += tl.load(x + tl.arange(0, B)) * (i + j)
    tl.store(x + tl.arange(0, B), total)


@triton.jit
def fails(started, out):
    if tl.program_id(0) == 1:
        tl.device_assert(tl.load(started) == 7, "seven is wanted")
    while tl.atomic_add(started, 0) != 100:
        pass
    tl.store(out, 1)


@triton.jit
def squares(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    z = tl.load(x + i[:, None] * N + i[None, :])
    tl.store(y + i[:, None] * N + i[None, :], tl.dot(z, z) + tl.sort(z))


def good():
    """Whether launches give right results, in this thread and in another."""
    def check():
        x = np.eye(32, dtype=np.float32)
        y = np.zeros_like(x)
        squares[(8,)](x, y, N=32)
        right.append(np.array_equal(y, x + np.sort(x, 1)))
    right = []
    check()
    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
    return right == [True, True]


def stopped(launch, started, wanted=KeyboardInterrupt):
    """Launch, send SIGINT once the kernel has started; whether that was raised and the process is as good as new."""
    def send():
        while not started[0]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    started[0] = 0
    thread = threading.Thread(target=send)
    thread.start()
    try:
        launch()
    except wanted:
        thread.join()
        return good()
    return False


def flags(n=64):
    return np.zeros(1, np.int32), np.zeros(n, np.int32)


def one_program():
    started, out = flags()
    return stopped(lambda: endless[(1,)](started, out), started) and not out.any()


def many_programs():
    started, out = flags()
    return [stopped(lambda: endless[(64,)](started, out), started) and not out.any() for _ in range(3)] == [True] * 3


def one_of_many():
    started, out = flags()
    one_endless[(64,)](started, out, 100)  # now its programs are known to be short
    out[:] = 0
    return stopped(lambda: one_endless[(64,)](started, out, 9), started) and not out[9]


def caller_or_other():
    """Whoever of the two runs the program that never ends."""
    started, out = flags()
    one_of_two[(2,)](started, np.full(1, -9, np.int32), out, 100)  # now its programs are known to be long

    def stops(bad):
        started, out = flags()
        count = np.zeros(1, np.int32)
        return stopped(lambda: one_of_two[(2,)](started, count, out, bad), started) and not out[bad]

    return [stops(bad) for bad in (0, 1) * 3] == [True] * 6


def spin_barrier():
    started, out = flags()
    return stopped(lambda: barrier[(64,)](started, np.zeros(1, np.int32), out, ALL=64), started) and not out.any()


def cooperative_barrier():
    started, out = flags()
    count = np.zeros(1, np.int32)
    options = dict(ALL=9, launch_cooperative_grid=True)
    return stopped(lambda: barrier[(8,)](started, count, out, **options), started) and not out.any()


def through_ctypes():
    """The way of interpreters that take no native builtins."""
    started, out = flags()
    kernel = endless.warmup(started, out, grid=(1,))
    kernel._init_handles()
    slots = np.array([started.ctypes.data, out.ctypes.data], np.int64).tobytes()

    def launch():
        Runtime.get().launch_raw_slowly(kernel.function, kernel.metadata.arena_bytes, 64, 1, 1, slots)

    return stopped(launch, started) and not out.any()


def long_grid():
    started, _ = flags()
    return stopped(lambda: short[(2**31 - 1, 65535)](started), started)


def long_loop():
    started, _ = flags()
    x = np.ones(64, np.float32)
    return stopped(lambda: long_for[(1,)](started, x, 2**31 - 1, B=64), started) and (x == 1).all()


def failed_assertion():
    """Programs that never end hear of an assertion, too."""
    started, out = flags()
    try:
        fails[(64,)](started, out, debug=True, launch_cooperative_grid=True)
    except RuntimeError as raised:
        return "seven is wanted" in str(raised) and "program (1, 0, 0)" in str(raised) and good()
    return False


def with_alarm(handler, launch):
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        launch()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def handler_that_returns():
    """The kernel runs on; the third alarm lets it end."""
    seen = []
    started, out = flags()
    flag = np.zeros(1, np.int32)

    def handler(*_):
        seen.append(1)
        flag[0] = len(seen) >= 3

    with_alarm(handler, lambda: until[(4,)](started, flag, out))
    return len(seen) >= 3 and (out[:4] == 32640).all() and good()


def handler_that_launches():
    """The outer kernel's scratch memory stays as it was; so does the pool."""
    seen = []
    started, out = flags()
    flag = np.zeros(1, np.int32)

    def handler(*_):
        seen.append(good())
        flag[0] = len(seen) >= 2

    with_alarm(handler, lambda: until[(4,)](started, flag, out))
    return len(seen) >= 2 and all(seen) and (out[:4] == 32640).all() and good()


def handler_that_raises():
    started, out = flags()

    def handler(*_):
        raise LookupError("mine")

    try:
        with_alarm(handler, lambda: endless[(4,)](started, out))
    except LookupError as raised:
        return raised.args == ("mine",) and not out.any() and good()
    return False


def other_thread():
    """The signal reaches Python's main thread; a launch from another one runs on."""
    started, out = flags()
    flag = np.zeros(1, np.int32)
    thread = threading.Thread(target=lambda: until[(4,)](started, flag, out))
    thread.start()
    try:
        while not started[0]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(60)
        return False
    except KeyboardInterrupt:
        flag[0] = 1
    thread.join()
    return (out[:4] == 32640).all() and good()


CASES = (one_program, many_programs, one_of_many, caller_or_other, spin_barrier, cooperative_barrier,
         through_ctypes, long_grid, long_loop, failed_assertion, handler_that_returns, handler_that_launches,
         handler_that_raises, other_thread)  # fmt: skip


def main(threads, torch=""):
    """Run every case."""
    triton.knobs.num_threads = threads
    if torch:
        on_torchs_threads(threads)
    for case in CASES:
        print(case.__name__, bool(case()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
