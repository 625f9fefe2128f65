"""The handler of SIGSEGV and SIGBUS, for a process that crashes on an invalid memory access of a kernel.

The handler, in LLVM, tests whether its thread runs a kernel. If so, it writes a report to stderr (fault_report.py).
Then, or if no kernel runs, it calls the handler that was installed before: Python's faulthandler, a debugger's, or the
system's default action.

A kernel describes itself by a *record* (fault_record.py), bytes among its constants: texts, each closed by a zero byte.

    name, place of the definition, then for each pointer: slot (2 bytes), name, places of its loads, of its stores
    (an atomic is both); -1 in place of a slot ends it

The entry of a kernel puts the address of its record, and before each program the program's number, into the header of
its thread's arena (job.py). `TRITIUM_FAULT_HANDLER=0` leaves the signals alone.
"""

from __future__ import annotations

from ...llvm.structs import Struct, resolve
from ...llvm.target import CpuTarget
from . import fault_report
from .job import HEADER, JOB

SYMBOLS = ("tt.fault.install",)

# What Linux hands to a handler, and is told of one.
_ACTION = Struct("action", handler="ptr", mask="[128 x i8]", flags="i32", restorer="ptr")
_SIGNAL = Struct("signal", number="i32", error="i32", code="i32", address="i64")
_STACK = Struct("stack", bottom="ptr", flags="i32", size="i64")

_STUB = """
define i32 @tt.fault.install() nounwind {
  ret i32 0
}
"""

# Whether an access was a read (1), a write (2) or neither is known (0); the program counter and the stack pointer.
_CONTEXT = {
    "x86": """
define internal i64 @fault_kind(ptr %context) nounwind {
  %trap = load i64, item i8 200 of %context
  %page = icmp eq i64 %trap, 14
  %error = load i64, item i8 192 of %context
  %write = icmp ne i64 %error & 2, 0
  %kind = select i1 %write, i64 2, i64 1
  ret i64 select i1 %page, i64 %kind, i64 0
}
define internal i64 @fault_pc(ptr %context) nounwind {
  ret i64 load i64, item i8 168 of %context
}
define internal i64 @fault_sp(ptr %context) nounwind {
  ret i64 load i64, item i8 160 of %context
}
""",
    # The syndrome is one of the records after the registers, each of which begins with its kind and its size.
    "arm": """
define internal i64 @fault_kind(ptr %context) nounwind {
entry:
look:
  %at = phi i64 [464, %entry], [%after, %next]
  %p = getelementptr i8, ptr %context, i64 %at
  %magic = load i32, ptr %p
  %size = load i32, item i8 4 of %p
  switch i32 %magic, label %next [i32 0, label %unknown i32 1163088385, label %syndrome]
next:
  %size.w = zext i32 %size to i64
  %after = add i64 %at, %size.w
  %stuck = icmp eq i32 %size, 0
  %over = icmp ugt i64 %after, 4544
  jump %unknown if or i1 %stuck, %over else %look
syndrome:
  %word = load i64, item i8 8 of %p
  %class = lshr i64 %word, 27
  %data = icmp eq i64 %class & 31, 18
  %write = icmp ne i64 %word & 64, 0
  %kind = select i1 %write, i64 2, i64 1
  ret i64 select i1 %data, i64 %kind, i64 0
unknown:
  ret i64 0
}
define internal i64 @fault_pc(ptr %context) nounwind {
  ret i64 load i64, item i8 440 of %context
}
define internal i64 @fault_sp(ptr %context) nounwind {
  ret i64 load i64, item i8 432 of %context
}
""",
}

_HANDLER = """
@old.segv = internal global %action zeroinitializer, align 8
@old.bus = internal global %action zeroinitializer, align 8
@stack_key = internal global i64 0                ; of the thread's stack for signals
@tt.arena.key = external global i64
@tt.fault.stack = external global ptr

declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_setspecific(i64, ptr)
declare i32 @usleep(i32)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @sigaltstack(ptr, ptr)
declare i32 @raise(i32)
declare i32 @getpid()
declare ptr @__errno_location()

; 1 for the thread that may speak. Another waits until it is done, and says nothing; 2 s will do.
define internal i1 @may_speak() nounwind {
entry:
  %swap = cmpxchg ptr @speaking, i32 0, i32 1 acquire monotonic
  ret i1 true if extractvalue { i32, i1 } %swap, 1
wait:
  %n = phi i32 [0, %entry], [%more, %again]
  %state = load atomic i32, ptr @speaking acquire, align 4
  %done = icmp eq i32 %state, 0
  %tired = icmp sgt i32 %n, 2000
  ret i1 false if or i1 %done, %tired
again:
  %r = call i32 @usleep(i32 1000)
  %more = add i32 %n, 1
  br label %wait
}

define internal void @on_fault(i32 %signal, ptr %info, ptr %context) nounwind {
  %errno = call ptr @__errno_location()
  %saved = load i32, ptr %errno
  %code, %address = load code, address of signal %info
  %key = load i64, ptr @tt.arena.key
  %header = call ptr @pthread_getspecific(i64 %key)
  jump %chain if icmp eq ptr %header, null
  %record = load ptr, field header.record of %header
  jump %chain if icmp eq ptr %record, null
  jump %speak unless icmp slt i32 %code, 1
  ; what another process sends is not the kernel's doing
  %pid = call i32 @getpid()
  %from = trunc i64 %address to i32
  jump %chain unless icmp eq i32 %pid, %from
speak:                                            ; nobody goes on to die while another speaks
  jump %chain unless call i1 @may_speak()
  ; a handler that returns leads here again and again
  %pc = call i64 @fault_pc(ptr %context)
  %told.pc = load i64, ptr @told
  %told.at.p = getelementptr i64, ptr @told, i64 1
  %told.at = load i64, ptr %told.at.p
  %same.pc = icmp eq i64 %pc, %told.pc
  %same.at = icmp eq i64 %address, %told.at
  jump %silent if and i1 %same.pc, %same.at
  store i64 %pc, ptr @told
  store i64 %address, ptr %told.at.p
  call void @report(i32 %signal, i32 %code, i64 %address, ptr %context, ptr %header, ptr %record)
silent:
  store atomic i32 0, ptr @speaking release, align 4
chain:
  store i32 %saved, ptr %errno
  %by.bus = icmp eq i32 %signal, 7
  %old = select i1 %by.bus, ptr @old.bus, ptr @old.segv
  %handler = load ptr, field action.handler of %old
  %value = ptrtoint ptr %handler to i64
  switch i64 %value, label %call [i64 0, label %default i64 1, label %ignored]
ignored:                                          ; the system does not ignore faults, but what others send
  ret void if icmp slt i32 %code, 1
default:
  %r1 = call i32 @sigaction(i32 %signal, ptr %old, ptr null)
  ret void unless icmp slt i32 %code, 1         ; a fault happens again; what was sent must be sent again
  %r2 = call i32 @raise(i32 %signal)
  ret void
call:
  %flags = load i32, field action.flags of %old
  jump %call.short unless icmp ne i32 %flags & 4, 0
  call void %handler(i32 %signal, ptr %info, ptr %context)
  ret void
call.short:
  call void %handler(i32 %signal)
  ret void
}

define i32 @tt.fault.install() nounwind {
  %action = alloca %action, align 8
  store %action zeroinitializer, ptr %action
  store ptr @on_fault, field action.handler of %action
  store i32 134217732, field action.flags of %action ; SA_ONSTACK | SA_SIGINFO
  %r1 = call i32 @pthread_key_create(ptr @stack_key, ptr @drop_stack)
  store ptr @give_stack, ptr @tt.fault.stack
  %r2 = call i32 @sigaction(i32 11, ptr %action, ptr @old.segv)
  %r3 = call i32 @sigaction(i32 7, ptr %action, ptr @old.bus)
  ret i32 or i32 %r2, %r3
}

; A stack for the signals of this thread, where nobody gave it one: its own may be what ran out.
define internal void @give_stack() nounwind {
  %old = alloca %stack, align 8
  %r1 = call i32 @sigaltstack(ptr null, ptr %old)
  %flags.p = field stack.flags of %old
  %flags = load i32, ptr %flags.p
  ret void if icmp eq i32 %flags & 2, 0         ; SS_DISABLE
  %stack = call ptr @malloc(i64 65536)
  ret void if icmp eq ptr %stack, null
  store ptr %stack, field stack.bottom of %old
  store i32 0, ptr %flags.p
  store i64 65536, field stack.size of %old
  %r2 = call i32 @sigaltstack(ptr %old, ptr null)
  %key = load i64, ptr @stack_key
  %before = call ptr @pthread_getspecific(i64 %key) ; of a stack that somebody took away
  call void @free(ptr %before)
  %r3 = call i32 @pthread_setspecific(i64 %key, ptr %stack)
  ret void
}

define internal void @drop_stack(ptr %stack) nounwind {
  %old = alloca %stack, align 8
  %r1 = call i32 @sigaltstack(ptr null, ptr %old)
  %now = load ptr, field stack.bottom of %old
  jump %release unless icmp eq ptr %now, %stack
  store i32 2, field stack.flags of %old
  %r2 = call i32 @sigaltstack(ptr %old, ptr null)
release:
  call void @free(ptr %stack)
  ret void
}
"""


def faults(target: CpuTarget) -> str:
    """The handler's LLVM text for `target`; a part of its own. Only what Linux hands to a handler is known.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "@sigaltstack" in faults(cpu_target("aarch64"))
    True
    """
    if "linux" not in target.triple:
        return _STUB
    structs = (JOB, HEADER, _ACTION, _SIGNAL, _STACK, fault_report.NEAR)
    text = "\n".join((*(struct.definition for struct in structs), fault_report.constants(),
                      _CONTEXT["arm" if target.simd == "neon" else "x86"], fault_report.TEXT, _HANDLER))
    return resolve(text, *structs)
