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

__all__ = ["SYMBOLS", "faults"]

SYMBOLS = ("tt.fault.install",)

# What Linux hands to a handler, and is told of one.
_ACTION = Struct("action", handler="ptr", mask="[128 x i8]", flags="i32", restorer="ptr")
_SIGNAL = Struct("signal", number="i32", error="i32", code="i32", address="i64")
_STACK = Struct("stack", bottom="ptr", flags="i32", size="i64")

_STUB = """
define i32 @tt.fault.install() nounwind {
  ret i32 0
}
define internal void @fault_stack() nounwind {
  ret void
}
"""

# Whether an access was a read (1), a write (2) or neither is known (0); the program counter and the stack pointer.
_CONTEXT = {
    "x86": """
define internal i64 @fault_kind(ptr %context) nounwind {
  %trap.p = getelementptr i8, ptr %context, i64 200
  %trap = load i64, ptr %trap.p
  %page = icmp eq i64 %trap, 14
  %error.p = getelementptr i8, ptr %context, i64 192
  %error = load i64, ptr %error.p
  %bit = and i64 %error, 2
  %write = icmp ne i64 %bit, 0
  %kind = select i1 %write, i64 2, i64 1
  %known = select i1 %page, i64 %kind, i64 0
  ret i64 %known
}
define internal i64 @fault_pc(ptr %context) nounwind {
  %p = getelementptr i8, ptr %context, i64 168
  %pc = load i64, ptr %p
  ret i64 %pc
}
define internal i64 @fault_sp(ptr %context) nounwind {
  %p = getelementptr i8, ptr %context, i64 160
  %sp = load i64, ptr %p
  ret i64 %sp
}
""",
    # The syndrome is one of the records after the registers, each of which begins with its kind and its size.
    "arm": """
define internal i64 @fault_kind(ptr %context) nounwind {
entry:
  br label %look
look:
  %at = phi i64 [464, %entry], [%after, %next]
  %p = getelementptr i8, ptr %context, i64 %at
  %magic = load i32, ptr %p
  %size.p = getelementptr i8, ptr %p, i64 4
  %size = load i32, ptr %size.p
  switch i32 %magic, label %next [i32 0, label %unknown i32 1163088385, label %syndrome]
next:
  %size.w = zext i32 %size to i64
  %after = add i64 %at, %size.w
  %stuck = icmp eq i32 %size, 0
  %over = icmp ugt i64 %after, 4544
  %stop = or i1 %stuck, %over
  br i1 %stop, label %unknown, label %look
syndrome:
  %word.p = getelementptr i8, ptr %p, i64 8
  %word = load i64, ptr %word.p
  %class = lshr i64 %word, 27
  %low = and i64 %class, 31
  %data = icmp eq i64 %low, 18
  %bit = and i64 %word, 64
  %write = icmp ne i64 %bit, 0
  %kind = select i1 %write, i64 2, i64 1
  %known = select i1 %data, i64 %kind, i64 0
  ret i64 %known
unknown:
  ret i64 0
}
define internal i64 @fault_pc(ptr %context) nounwind {
  %p = getelementptr i8, ptr %context, i64 440
  %pc = load i64, ptr %p
  ret i64 %pc
}
define internal i64 @fault_sp(ptr %context) nounwind {
  %p = getelementptr i8, ptr %context, i64 432
  %sp = load i64, ptr %p
  ret i64 %sp
}
""",
}

_HANDLER = """
@old.segv = internal global %action zeroinitializer, align 8
@old.bus = internal global %action zeroinitializer, align 8
@stack_key = internal global i64 0                ; of the thread's stack for signals
@is_installed = internal global i1 false

declare i32 @sigaction(i32, ptr, ptr)
declare i32 @sigaltstack(ptr, ptr)
declare i32 @raise(i32)
declare i32 @getpid()
declare ptr @__errno_location()

; 1 for the thread that may speak. Another waits until it is done, and says nothing; 2 s will do.
define internal i1 @may_speak() nounwind {
entry:
  %swap = cmpxchg ptr @speaking, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %yes, label %wait
wait:
  %n = phi i32 [0, %entry], [%more, %again]
  %state = load atomic i32, ptr @speaking acquire, align 4
  %done = icmp eq i32 %state, 0
  %tired = icmp sgt i32 %n, 2000
  %stop = or i1 %done, %tired
  br i1 %stop, label %no, label %again
again:
  %r = call i32 @usleep(i32 1000)
  %more = add i32 %n, 1
  br label %wait
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @on_fault(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %errno = call ptr @__errno_location()
  %saved = load i32, ptr %errno
  %code = load i32, field signal.code of %info
  %address = load i64, field signal.address of %info
  %key = load i64, ptr @key
  %header = call ptr @pthread_getspecific(i64 %key)
  %idle = icmp eq ptr %header, null
  br i1 %idle, label %chain, label %served
served:
  %record = load ptr, field header.record of %header
  %outside = icmp eq ptr %record, null
  br i1 %outside, label %chain, label %inside
inside:
  %sent = icmp slt i32 %code, 1
  br i1 %sent, label %sender, label %turn
sender:                                           ; what another process sends is not the kernel's doing
  %pid = call i32 @getpid()
  %from = trunc i64 %address to i32
  %own = icmp eq i32 %pid, %from
  br i1 %own, label %turn, label %chain
turn:                                             ; nobody goes on to die while another speaks
  %mine = call i1 @may_speak()
  br i1 %mine, label %again, label %chain
again:                                            ; a handler that returns leads here again and again
  %pc = call i64 @fault_pc(ptr %context)
  %told.pc = load i64, ptr @told
  %told.at.p = getelementptr i64, ptr @told, i64 1
  %told.at = load i64, ptr %told.at.p
  %same.pc = icmp eq i64 %pc, %told.pc
  %same.at = icmp eq i64 %address, %told.at
  %same = and i1 %same.pc, %same.at
  br i1 %same, label %silent, label %speak
speak:
  store i64 %pc, ptr @told
  store i64 %address, ptr %told.at.p
  call void @report(i32 %signal, i32 %code, i64 %address, ptr %context, ptr %header, ptr %record)
  br label %silent
silent:
  store atomic i32 0, ptr @speaking release, align 4
  br label %chain
chain:
  store i32 %saved, ptr %errno
  %by.bus = icmp eq i32 %signal, 7
  %old = select i1 %by.bus, ptr @old.bus, ptr @old.segv
  %handler = load ptr, field action.handler of %old
  %value = ptrtoint ptr %handler to i64
  switch i64 %value, label %call [i64 0, label %default i64 1, label %ignored]
ignored:                                          ; the system does not ignore faults, but what others send
  %from.others = icmp slt i32 %code, 1
  br i1 %from.others, label %done, label %default
default:
  %r1 = call i32 @sigaction(i32 %signal, ptr %old, ptr null)
  %lost = icmp slt i32 %code, 1                   ; a fault happens again; what was sent must be sent again
  br i1 %lost, label %resend, label %done
resend:
  %r2 = call i32 @raise(i32 %signal)
  br label %done
call:
  %flags = load i32, field action.flags of %old
  %bit = and i32 %flags, 4
  %long = icmp ne i32 %bit, 0
  br i1 %long, label %call.long, label %call.short
call.long:
  call void %handler(i32 %signal, ptr %info, ptr %context)
  br label %done
call.short:
  call void %handler(i32 %signal)
  br label %done
done:
  ret void
}

define i32 @tt.fault.install() nounwind {
  %action = alloca %action, align 8
  store %action zeroinitializer, ptr %action
  %handler.p = field action.handler of %action
  store ptr @on_fault, ptr %handler.p
  %flags.p = field action.flags of %action
  store i32 134217732, ptr %flags.p               ; SA_ONSTACK | SA_SIGINFO
  %r1 = call i32 @pthread_key_create(ptr @stack_key, ptr @drop_stack)
  store i1 true, ptr @is_installed
  %r2 = call i32 @sigaction(i32 11, ptr %action, ptr @old.segv)
  %r3 = call i32 @sigaction(i32 7, ptr %action, ptr @old.bus)
  %r = or i32 %r2, %r3
  ret i32 %r
}

; A stack for the signals of this thread, where nobody gave it one: its own may be what ran out.
define internal void @fault_stack() nounwind {
entry:
  %old = alloca %stack, align 8
  %installed = load i1, ptr @is_installed
  br i1 %installed, label %ask, label %done
ask:
  %r1 = call i32 @sigaltstack(ptr null, ptr %old)
  %flags.p = field stack.flags of %old
  %flags = load i32, ptr %flags.p
  %bit = and i32 %flags, 2                        ; SS_DISABLE
  %has = icmp eq i32 %bit, 0
  br i1 %has, label %done, label %make
make:
  %stack = call ptr @malloc(i64 65536)
  %none = icmp eq ptr %stack, null
  br i1 %none, label %done, label %give
give:
  %bottom.p = field stack.bottom of %old
  store ptr %stack, ptr %bottom.p
  store i32 0, ptr %flags.p
  %size.p = field stack.size of %old
  store i64 65536, ptr %size.p
  %r2 = call i32 @sigaltstack(ptr %old, ptr null)
  %key = load i64, ptr @stack_key
  %before = call ptr @pthread_getspecific(i64 %key) ; of a stack that somebody took away
  call void @free(ptr %before)
  %r3 = call i32 @pthread_setspecific(i64 %key, ptr %stack)
  br label %done
done:
  ret void
}

define internal void @drop_stack(ptr %stack) nounwind {
entry:
  %old = alloca %stack, align 8
  %r1 = call i32 @sigaltstack(ptr null, ptr %old)
  %bottom.p = field stack.bottom of %old
  %now = load ptr, ptr %bottom.p
  %ours = icmp eq ptr %now, %stack
  br i1 %ours, label %disable, label %release
disable:
  %flags.p = field stack.flags of %old
  store i32 2, ptr %flags.p
  %r2 = call i32 @sigaltstack(ptr %old, ptr null)
  br label %release
release:
  call void @free(ptr %stack)
  ret void
}
"""


def faults(target: CpuTarget) -> str:
    """The handler's LLVM text for `target`; it stands after the pool's. Only what Linux hands to a handler is known.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "@sigaltstack" in faults(cpu_target("aarch64"))
    True
    """
    if "linux" not in target.triple:
        return _STUB
    own = (_ACTION, _SIGNAL, _STACK, fault_report.NEAR)
    text = "\n".join((*(struct.definition for struct in own), fault_report.constants(),
                      _CONTEXT["arm" if target.simd == "neon" else "x86"], fault_report.TEXT, _HANDLER))
    text = resolve(text, JOB, HEADER, *own)
    return text.replace(" nounwind {", " nounwind noinline cold {")  # it runs once
