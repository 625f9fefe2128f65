"""Early termination of a launch, in LLVM: by Ctrl-C or by a failed assertion.

Kernels poll by calling `tt.poll`: in loops that may run for long, and between programs. The thread that launched
the kernel lets Python run its signal handlers there, every 50 ms; if one raises, the job's `stop` is set. Every thread
that finds it set leaves its program at once: `longjmp` to the frame that runs programs. A program that was left in
a loop must not be continued after it: the code that follows relies on the results of the loop.

Python runs signal handlers in its main thread only. A launch from another thread is not stopped by a signal, and never
waits for the GIL.

A handler may launch kernels itself. The arena of the thread is in use then, so it is put aside and the handler's
launches make another.
"""

from __future__ import annotations

import sys

from ...llvm.structs import resolve
from .job import HEADER, JOB

SYMBOLS = ("tt.poll", "tt.pool.main", "tt.run.released")

# How CPython is asked to run the handlers of signals, and how a job is run with Python's lock released.
PYTHON = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()

; Not 0 if a handler has raised; the exception waits then.
define internal i32 @run_handlers(ptr %thread) nounwind {
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  %same = call ptr @PyEval_SaveThread()
  ret i32 %raised
}

define i32 @tt.run.released(ptr %job) nounwind {
  %thread = call ptr @PyEval_SaveThread()
  store ptr %thread, field job.thread of %job
  %status = call i32 @tt.run(ptr %job)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %status
}
"""

# Other interpreters: there is nobody to ask, and ctypes releases the lock if there is one.
DEAF = """
define internal i32 @run_handlers(ptr %thread) nounwind {
  ret i32 0
}

define i32 @tt.run.released(ptr %job) nounwind {
  store ptr null, field job.thread of %job
  ret i32 call i32 @tt.run(ptr %job)
}
"""
IS_CPYTHON = sys.implementation.name == "cpython"

# For kernels outside of a Python process: nothing stops them.
IDLE = """
define void @tt.poll(ptr %arena) nounwind {
  ret void
}
"""

_TEXT = """
@tt.pool.main = global i64 0                      ; pthread_self of the thread that runs Python's signal handlers
@look_every = internal global i64 0               ; ticks from one look for signals to the next

declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare i64 @pthread_self()

define internal i1 @stopped(ptr %job) nounwind alwaysinline {
  %stop = load atomic i64, field job.stop of %job monotonic, align 8
  ret i1 icmp ne i64 %stop, 0
}

define internal void @stop(ptr %job) nounwind {
  store atomic i64 1, field job.stop of %job release, align 8
  ret void
}

; Call a function of the job and the arena; `tt.poll` leaves it here. Nothing is needed afterwards that a register held.
define internal i64 @guarded(ptr %job, ptr %arena, ptr %function) nounwind noinline {
  %place = alloca [512 x i8], align 16            ; a jmp_buf has 312 bytes at most
  store ptr %place, field header.frame before %arena
  %left = call i32 @_setjmp(ptr %place) returns_twice
  ret i64 0 if icmp ne i32 %left, 0
  ret i64 call i64 %function(ptr %job, ptr %arena)
}

; Have Python run the handlers of signals that have come, where that is possible and the last time is long ago.
define internal void @look_for_signals(ptr %job, i64 %now) nounwind noinline cold {
  %thread = load ptr, field job.thread of %job
  ret void if icmp eq ptr %thread, null
  ; an exception that waits must not be lost
  %raised.p = field job.raised of %job
  %raised = load i64, ptr %raised.p
  ret void if icmp ne i64 %raised, 0
  %due.p = field job.due of %job
  %due = load i64, ptr %due.p
  %every = load i64, ptr @look_every
  jump %compare unless icmp eq i64 %due, 0
  %later = add i64 %now, %every
  store i64 %later, ptr %due.p
  ret void
compare:
  %left = sub i64 %due, %now
  ret void if icmp sgt i64 %left, 0
  %self = call i64 @pthread_self()
  %main = load i64, ptr @tt.pool.main
  ret void unless icmp eq i64 %self, %main
  %key = load i64, ptr @tt.arena.key
  %arena = call ptr @pthread_getspecific(i64 %key)
  %r1 = call i32 @pthread_setspecific(i64 %key, ptr null)
  %floats.p = field job.floats of %job
  %floats = load i64, ptr %floats.p
  call void @give_floats(i64 %floats)
  %failed = call i32 @run_handlers(ptr %thread)
  %floats.now = call i64 @own_floats()
  store i64 %floats.now, ptr %floats.p
  %theirs = call ptr @pthread_getspecific(i64 %key)
  call void @unmap_arena(ptr %theirs)
  %r2 = call i32 @pthread_setspecific(i64 %key, ptr %arena)
  ; Other Python threads may hold the GIL for milliseconds: a fortieth of the time may go into waiting for it.
  %after = call i64 @ticks()
  %spent = sub i64 %after, %now
  %rare = mul i64 %spent, 40
  %most = shl i64 %every, 3
  %rarer = call i64 @llvm.umin.i64(i64 %rare, i64 %most)
  %wait = call i64 @llvm.umax.i64(i64 %rarer, i64 %every)
  %next = add i64 %after, %wait
  store i64 %next, ptr %due.p
  ret void if icmp eq i32 %failed, 0
  store i64 1, ptr %raised.p
  call void @stop(ptr %job)
  ret void
}

; Leave the program if the job is to stop. Programs of a cooperative launch wait for each other: they let others run.
; Mostly there is nothing to do, and nothing is stored, not even a return address: a store to a second cache line
; between two programs has Neoverse cores read the lines that the next one writes from memory.
define void @tt.poll(ptr %arena) nounwind noinline {
  %job = load ptr, field header.job before %arena
  jump %act if call i1 @stopped(ptr %job)
  %together = load i64, field job.together of %job
  jump %act if icmp ne i64 %together, 0
  %caller = load i64, field header.caller before %arena
  ret void unless icmp ne i64 %caller, 0
  %now = call i64 @ticks()
  %due = load i64, field job.due of %job
  %left = sub i64 %due, %now
  %early = icmp sgt i64 %left, 0
  %known = icmp ne i64 %due, 0
  ret void if and i1 %early, %known
act:
  tail call void @poll_slowly(ptr %arena)
  ret void
}

define internal void @poll_slowly(ptr %arena) nounwind noinline cold {
  %job = load ptr, field header.job before %arena
  jump %leave if call i1 @stopped(ptr %job)
  %together = load i64, field job.together of %job
  jump %mine unless icmp ne i64 %together, 0
  %r = call i32 @sched_yield()
mine:
  %caller = load i64, field header.caller before %arena
  ret void unless icmp ne i64 %caller, 0
  %now = call i64 @ticks()
  call void @look_for_signals(ptr %job, i64 %now)
  jump %leave if call i1 @stopped(ptr %job)
  ret void
leave:
  %place = load ptr, field header.frame before %arena
  call void @longjmp(ptr %place, i32 1)
  unreachable
}
"""


def interrupt() -> str:
    """The LLVM text; it stands beside the pool's.

    >>> interrupt().count("define void @tt.poll(ptr %arena)")
    1
    """
    return resolve(_TEXT + (PYTHON if IS_CPYTHON else DEAF), JOB, HEADER)
