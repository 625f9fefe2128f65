"""Launches on the threads that torch computes with: a program for `test_openmp.py`, and its parts.

    python -m tests.backends.cpu.torch_threads          prints a line for each case, on two threads
"""

import ctypes
import itertools
import os
import sys
import threading

import tritium as triton
import tritium.language as tl
from tritium.backends.cpu.runtime.image import Runtime

THREADS = 2
NEVER = 1 << 40  # ticks


def _symbol(kind, name):
    return kind.from_address(Runtime.get().core[f"tt.team.{name}"])


def on_torchs_threads(threads):
    """Have all jobs run on torch's threads that may, as if workers were slow."""
    import torch

    torch.set_num_threads(threads)
    torch.exp(torch.ones(1 << 20))  # it loads its library
    Runtime.get()._find_team()
    _symbol(ctypes.c_int64 * 2, "cost")[0] = NEVER


@triton.jit
def add_up(out, n, BLOCK: tl.constexpr):
    """Every program adds 1 to one element, after `n` steps."""
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += i
    tl.store(out + tl.program_id(0), tl.load(out + tl.program_id(0)) + 1 + tl.min(total, 0) * 0)


@triton.jit
def halve(x, out):
    """A subnormal result, which threads that flush would lose."""
    tl.store(out + tl.program_id(0), tl.load(x) * 0.5)


SIZES = itertools.cycle(range(256, 260))  # what is known of launches with so many programs is forgotten in between


def launch(n=200):
    """(whether every program ran once, jobs that ran on torch's threads meanwhile)."""
    import torch

    programs = next(SIZES)
    before, out = _symbol(ctypes.c_int64, "jobs").value, torch.zeros(programs)
    for _ in range(4):
        add_up[(programs,)](out, n, BLOCK=1024)
    return bool((out == 4).all()), _symbol(ctypes.c_int64, "jobs").value - before


def found():
    return launch() == (True, 4)


def between_operations_of_torch():
    import torch

    x = torch.randn(1 << 18)
    wanted = torch.exp(x)
    return all(torch.equal(torch.exp(x), wanted) and launch()[0] for _ in range(20))


def the_other_is_tried():
    """With nothing known of either, both have been used after a while."""
    cost = _symbol(ctypes.c_int64 * 2, "cost")
    cost[0] = cost[1] = 0
    used = sum(launch()[1] for _ in range(40))
    cost[0] = NEVER
    return 0 < used < 160


def another_number_of_threads():
    import torch

    torch.set_num_threads(THREADS + 1)
    try:
        return launch() == (True, 0)
    finally:
        torch.set_num_threads(THREADS)


def another_python_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(launch()))
    thread.start()
    thread.join()
    return results == [(True, 0)] and launch() == (True, 4)


def child_of_a_fork():
    pid = os.fork()
    if not pid:
        os._exit(0 if launch() == (True, 0) else 1)
    return os.waitpid(pid, 0)[1] == 0 and launch() == (True, 4)


def flushed_subnormals():
    """torch's threads may flush subnormals; kernels do not, and leave torch's setting as it was."""
    import torch

    if not torch.set_flush_denormal(True):  # not on this processor
        return True
    torch.exp(torch.ones(1 << 20))
    x, out = torch.frombuffer(bytearray(b"\x00\x00\x80\x00"), dtype=torch.float32), torch.zeros(4096)
    try:
        for _ in range(4):
            halve[(4096,)](x, out)
        return bool((out.view(torch.int32) == 0x400000).all())
    finally:
        torch.set_flush_denormal(False)


def failed_program():
    """Out of memory in no thread, but an assertion in one: it is told, and the team goes on."""
    import torch

    try:
        fails[(256,)](torch.zeros(256), 2000, BLOCK=1024, debug=True)
    except RuntimeError as error:
        return "no seven" in str(error) and launch() == (True, 4)
    return False


@triton.jit
def fails(out, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += i
    tl.device_assert(tl.program_id(0) != 200, "no seven")
    tl.store(out + tl.program_id(0), tl.max(total, 0))


CASES = (found, between_operations_of_torch, the_other_is_tried, another_number_of_threads, another_python_thread,
         child_of_a_fork, flushed_subnormals, failed_program)  # fmt: skip


def main():
    """Run every case."""
    triton.knobs.num_threads = THREADS
    on_torchs_threads(THREADS)
    for case in CASES:
        print(case.__name__, bool(case()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
