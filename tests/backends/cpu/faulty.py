"""Kernels that touch memory out of bounds, for test_faults.py: `python faulty.py '[["far_store", {}], ...]'`."""

import ctypes
import json
import mmap
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.backends.llvm.target import compile_text, cpu_target, llvm

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)


@triton.jit
def shifted_copy(x, y, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)  # the load
    tl.store(y + i + shift, v, mask=i < n)  # the store


@triton.jit
def put(p, value):
    tl.store(p, value)  # in the device function


@triton.jit(noinline=True)
def put_apart(p, value):
    tl.store(p, value)  # in the function that is called


@triton.jit
def through_functions(x, y, n, APART: tl.constexpr):
    p = y
    for _ in range(4):
        p += n
    v = tl.load(x)
    if APART:
        put_apart(p, v)
    else:
        put(p, v)


@triton.jit
def one_bad_program(x, y, bx, by, bz, far, rounds):
    px, py, pz = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    v = tl.load(x)
    for _ in range(rounds):
        v = v * 0.5 + 1.0
    bad = (bx < 0) | (px == bx) & (py == by) & (pz == bz)
    tl.store(y + tl.where(bad, far, 0), v)


@triton.jit
def gather(x, index, y):
    tl.store(y, tl.load(x + tl.load(index)))


@triton.jit
def follow(address, y):
    tl.store(y, tl.load(tl.load(address).to(tl.pointer_type(tl.float32))))


@triton.jit
def add_three(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i) + tl.load(b + i))


def ones(n=1024):
    return np.ones(n, np.float32)


def pages(count):
    """Fresh pages as an array, and their address."""
    memory = mmap.mmap(-1, count * PAGE)
    array = np.frombuffer(memory, np.float32)
    return array, array.ctypes.data


def protect(address, size, protection):
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection) == 0


def far_store():
    shifted_copy[(4,)](ones(), ones(), 64, 0, BLOCK=16)
    shifted_copy[(4,)](ones(), ones(), 64, 1 << 30, BLOCK=16)


def far_load():
    gather[(1,)](ones(), np.array([1 << 30], np.int64), ones())


def over_the_heap():
    """All that lies behind a small array is overwritten, up to where the heap ends."""
    shifted_copy[(1 << 28,)](np.lib.stride_tricks.as_strided(ones(), (1 << 40,)), ones(), 1 << 30, 0, BLOCK=16)


def bad_program():
    one_bad_program[(8, 16, 8)](ones(), ones(), 3, 5, 7, 1 << 30, 20000)


def all_programs():
    """After a launch that took long, the next one begins on all threads at once."""
    for far in (0, 1 << 30):
        one_bad_program[(8, 16, 8)](ones(), ones(), -1, 0, 0, far, 20000)


def inlined():
    through_functions[(2,)](ones(), ones(), 1 << 28, APART=False)


def called():
    through_functions[(2,)](ones(), ones(), 1 << 28, APART=True)


def no_address():
    follow[(1,)](np.array([0x7FFF << 48 | 8], np.int64), ones())


def null():
    follow[(1,)](np.zeros(1, np.int64), ones())


def guarded():
    """[ a | guard | c ] with b elsewhere: reading on from `a` meets the guard, right before `c`."""
    array, address = pages(3)
    protect(address + PAGE, PAGE, 0)
    n = PAGE // 4
    add_three[(1,)](array[:n], ones(2 * n), array[2 * n:], n, BLOCK=2 * n)


def guarded_below():
    """[ guard | y ]: storing before `y`."""
    array, address = pages(2)
    protect(address, PAGE, 0)
    shifted_copy[(1,)](ones(), array[PAGE // 4:], 16, -8, BLOCK=16)


def read_only():
    array, address = pages(1)
    protect(address, PAGE, mmap.PROT_READ)
    shifted_copy[(1,)](array, array, 16, 0, BLOCK=16)


def truncated():
    """A mapped file that is cut short."""
    fd = os.memfd_create("cut")
    os.ftruncate(fd, 2 * PAGE)
    array = np.frombuffer(mmap.mmap(fd, 2 * PAGE), np.float32)
    os.ftruncate(fd, PAGE)
    shifted_copy[(1,)](array[PAGE // 4:], ones(), 16, 0, BLOCK=16)


DEEP = r"""
@record = private constant [8 x i8] c"deep\00\00\FF\FF"
define void @deep(ptr %args, i64 %begin, i64 %end, ptr %grid, ptr %arena) {
  %room = alloca [67108864 x i8]
  %record = getelementptr i8, ptr %arena, i64 -40
  store ptr @record, ptr %record
  %program = getelementptr i8, ptr %arena, i64 -48
  store i64 %begin, ptr %program
  store volatile i8 1, ptr %room
  ret void
}
"""


def deep():
    """A kernel that needs more stack than its thread has: 64 MB, for nothing else lies in the 128 MB below a stack."""
    from tritium.backends.cpu.runtime.image import Runtime

    library = Runtime.get().load(compile_text(DEEP, cpu_target(), passes=()))
    Runtime.get().launch_raw(library.address("deep"), 64, 1, 1, 1, b"")


def in_a_thread():
    thread = threading.Thread(target=far_store)
    thread.start()
    thread.join()


def in_a_fork():
    shifted_copy[(4,)](ones(), ones(), 64, 0, BLOCK=16)
    child = os.fork()
    if not child:
        far_store()
    _, status = os.waitpid(child, 0)
    print("child", os.waitstatus_to_exitcode(status))


def faulthandler_before():
    import faulthandler

    faulthandler.enable()
    far_store()


def faulthandler_after():
    import faulthandler

    shifted_copy[(4,)](ones(), ones(), 64, 0, BLOCK=16)
    faulthandler.enable()
    far_store()


def handler_before():
    """`_exit` as the handler: the status is the number of the signal."""
    libc.signal(signal.SIGSEGV, libc._exit)
    far_store()


def outside():
    shifted_copy[(4,)](ones(), ones(), 64, 0, BLOCK=16)
    ctypes.string_at(0)


def sent():
    shifted_copy[(4,)](ones(), ones(), 64, 0, BLOCK=16)
    os.kill(os.getpid(), signal.SIGSEGV)


def in_a_process(scenario, env):
    """(status, what was written) of a scenario in a child of this process."""
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            os.environ.update(env)
            try:
                globals()[scenario]()
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        return status, out.read().decode()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    llvm()  # what takes longest is done once
    print(json.dumps([(name, env, *in_a_process(name, env)) for name, env in json.loads(sys.argv[1])]))
