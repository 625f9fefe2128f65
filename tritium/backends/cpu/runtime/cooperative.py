"""Launches whose programs wait for each other, in LLVM: `launch_cooperative_grid=True`.

All programs run at once, each on a thread of its own: the caller's, and others that live as long as the launch. None
starts before all threads and their arenas are there, so a launch that cannot be made runs nothing. A thread has the
kernel's stack alone, and waits for the start asleep.
"""

from __future__ import annotations

from ...llvm.structs import Struct, resolve
from ...llvm.target import CpuTarget
from .job import HEADER, JOB

MOST = 1024  # programs of a launch

# What a launch that was not made says: of too many programs, of threads the system did not give.
REFUSALS = {
    4: f"launch_cooperative_grid=True runs all programs at once, one thread each, and at most {MOST}; this grid has "
       "%lld: launch fewer programs, and let each do several parts of the work in a loop",
    5: "launch_cooperative_grid=True needs a thread for each of the %lld programs, and the system does not give so "
       "many: launch fewer programs, and let each do several parts of the work in a loop",
}  # fmt: skip


def refusal(status: int, programs: int) -> str | None:
    """What to say if the pool did not make a launch for this reason.

    >>> "this grid has 2000" in refusal(4, 2000)
    True
    """
    return REFUSALS[status].replace("%lld", str(programs)) if status in REFUSALS else None


_CREW = Struct(
    "crew",
    job="ptr",
    mutex="[128 x i8]",
    condition="[128 x i8]",
    next="i64",  # program
    begun="i64",  # threads
    poor="i64",  # threads without an arena
    word="i64",  # 1: run, 2: leave
    done="i64",  # threads
)

_TEXT = """
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_destroy(ptr)
declare i32 @pthread_mutex_destroy(ptr)

; Run the one program whose number stands before the arena.
define internal i64 @one_program(ptr %job, ptr %arena) nounwind {
  %number = load i64, field header.number before %arena
  %end = add i64 %number, 1
  call void @programs(ptr %job, i64 %number, i64 %end, ptr %arena)
  ret i64 0
}

define internal void @run_one(ptr %job, ptr %arena, i64 %number) nounwind {
  store i64 %number, field header.number before %arena
  %r = call i64 @guarded(ptr %job, ptr %arena, ptr @one_program)
  ret void
}

define internal ptr @member(ptr %crew) nounwind {
  %floats = call i64 @own_floats()
  %job = load ptr, field crew.job of %crew
  %arena = call ptr @arena_for(ptr %job, i64 0)
  %none = icmp eq ptr %arena, null
  %poor = zext i1 %none to i64
  %mutex = field crew.mutex of %crew
  %condition = field crew.condition of %crew
  %next.p = field crew.next of %crew
  %begun.p = field crew.begun of %crew
  %poor.p = field crew.poor of %crew
  %word.p = field crew.word of %crew
  %done.p = field crew.done of %crew
  %r1 = call i32 @pthread_mutex_lock(ptr %mutex)
  %number = load i64, ptr %next.p
  %following = add i64 %number, 1
  store i64 %following, ptr %next.p
  %poor.0 = load i64, ptr %poor.p
  %poor.1 = add i64 %poor.0, %poor
  store i64 %poor.1, ptr %poor.p
  %begun = load i64, ptr %begun.p
  %begun.1 = add i64 %begun, 1
  store i64 %begun.1, ptr %begun.p
  %r2 = call i32 @pthread_cond_broadcast(ptr %condition)
look:
  %word = load i64, ptr %word.p
  jump %go if icmp ne i64 %word, 0
  %r3 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
go:
  %r4 = call i32 @pthread_mutex_unlock(ptr %mutex)
  jump %leave unless icmp eq i64 %word, 1
  call void @run_one(ptr %job, ptr %arena, i64 %number)
  %header = getelementptr %header, ptr %arena, i64 -1
  call void @running(ptr %header, ptr null)
leave:
  %r5 = atomicrmw add ptr %done.p, i64 1 release
  ret ptr null
}

; The job with all programs at once. 0: done, 1: no memory, 4: too many programs, 5: not enough threads.
define internal i32 @run_together(ptr %job, ptr %arena) nounwind noinline cold {
  %crew = alloca %crew, align 64
  %attributes = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %total = load i64, field job.total of %job
  ret i32 4 if icmp ugt i64 %total, {most}
  %bytes = shl i64 %total, 3
  %ids = call ptr @malloc(i64 %bytes)
  ret i32 1 if icmp eq ptr %ids, null
prepare:
  store ptr %job, field crew.job of %crew
  %mutex = field crew.mutex of %crew
  %condition = field crew.condition of %crew
  %begun.p = field crew.begun of %crew
  %poor.p = field crew.poor of %crew
  %word.p = field crew.word of %crew
  %done.p = field crew.done of %crew
  store i64 1, field crew.next of %crew           ; the caller runs program 0
  store i64 0, ptr %begun.p
  store i64 0, ptr %poor.p
  store i64 0, ptr %word.p
  store i64 0, ptr %done.p
  %r1 = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %r2 = call i32 @pthread_cond_init(ptr %condition, ptr null)
  %r3 = call i32 @pthread_attr_init(ptr %attributes)
  %r4 = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 1048576)
  call void @leave_signals(ptr %before)
check:
  %made = phi i64 [0, %prepare], [%made.1, %count]
  %number = add i64 %made, 1
  jump %complete unless icmp slt i64 %number, %total
make:
  %refused = call i32 @pthread_create(item ptr %made of %ids, ptr %attributes, ptr @member, ptr %crew)
  jump %complete if icmp ne i32 %refused, 0
count:
  %made.1 = add i64 %made, 1
  br label %check
complete:
  %short = phi i1 [false, %check], [true, %make]
  %r5 = call i32 @pthread_sigmask(i32 {set}, ptr %before, ptr null)
  %r6 = call i32 @pthread_attr_destroy(ptr %attributes)
  %r7 = call i32 @pthread_mutex_lock(ptr %mutex)
gather:
  %begun = load i64, ptr %begun.p
  jump %decide unless icmp slt i64 %begun, %made
  %r8 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %gather
decide:
  %poor = load i64, ptr %poor.p
  %hungry = icmp ne i64 %poor, 0
  %cannot = or i1 %short, %hungry
  %word = select i1 %cannot, i64 2, i64 1
  store i64 %word, ptr %word.p
  %r9 = call i32 @pthread_cond_broadcast(ptr %condition)
  %r10 = call i32 @pthread_mutex_unlock(ptr %mutex)
  jump %join if %cannot
  call void @run_one(ptr %job, ptr %arena, i64 0)
watch:                                            ; the others may need to hear of a signal
  %done = load atomic i64, ptr %done.p acquire, align 8
  jump %join unless icmp slt i64 %done, %made
  %r11 = call i32 @usleep(i32 100)
  %now = call i64 @ticks()
  call void @look_for_signals(ptr %job, i64 %now)
  br label %watch
join:
  %k = phi i64 [0, %decide], [0, %watch], [%k.1, %joined]
  jump %end unless icmp slt i64 %k, %made
joined:
  %thread = load ptr, item ptr %k of %ids
  %r12 = call i32 @pthread_join(ptr %thread, ptr null)
  %k.1 = add i64 %k, 1
  br label %join
end:
  %r13 = call i32 @pthread_cond_destroy(ptr %condition)
  %r14 = call i32 @pthread_mutex_destroy(ptr %mutex)
  call void @free(ptr %ids)
  %why = select i1 %hungry, i32 1, i32 5
  ret i32 select i1 %cannot, i32 %why, i32 0
}
"""


def cooperative(target: CpuTarget) -> str:
    """The LLVM text for `target`; it stands beside the pool's.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "icmp ugt i64 %total, 1024" in cooperative(cpu_target("x86-64-v3"))
    True
    """
    from .pool import system_values

    text = f"{_CREW.definition}\n{system_values(_TEXT, target)}".replace("{most}", str(MOST))
    text = resolve(text, JOB, HEADER, _CREW)
    return text.replace(" nounwind {", " nounwind noinline cold {")  # all of it is slow anyway: it starts threads
