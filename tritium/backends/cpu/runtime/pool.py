"""The thread pool, in LLVM: runs the programs of a launch on all cores.

A *job* lives on the stack of the thread that launches it. That thread works too, and begins alone: no worker is woken
while the rest of the job is estimated to take less time than waking one, by what earlier launches of the kernel took
(launch_times.py); the first launch of a kernel is timed as it runs. What waking takes is measured as it happens: 10 us
on one machine, 200 us on another. Then the job is opened, and workers join it through one word,
`state`: odd means closed, otherwise it is twice the number of workers inside. All threads inside take programs from a
shared counter. The caller closes the job and waits for those inside; it never waits for a worker that has not
started, so a busy machine costs nothing.

A worker that leaves a job looks for the next one before it sleeps. It looks twice as long as jobs have been apart
lately, if that is below a millisecond, else 20 us. So launches in a loop find their workers awake, a program that
launches now and then has no thread spinning, and a pool spins for two milliseconds at most. After 20 us a worker that
looks for work yields to any thread that has some.

Where torch computes in the process, its threads may run a job instead (openmp.py). Workers sleep then: a thread of
torch's that finds its processor taken comes milliseconds late.

There is one open job at a time. A launch that finds the pool taken, by another Python thread, runs alone.

Each thread owns an arena, kept from launch to launch (arena.py).
"""

from __future__ import annotations

from ...llvm.structs import resolve
from ...llvm.target import CpuTarget
from . import arena, launch_times
from .job import HEADER, JOB
from .system import clock, system_values

__all__ = ["SYMBOLS", "pool", "system_values"]

SYMBOLS = ("tt.pool.setup", "tt.pool.reset", "tt.pool.limit", "tt.pool.spawned", "tt.pool.launches", "tt.run",
           "tt.arena", "tt.arena.key", "tt.fault.stack", "tt.assert_fail")  # fmt: skip

_STATE = """
@next = internal global i64 0, align 128          ; the first program nobody has taken
@total = internal global i64 0                    ; programs of the open job: a hint that there is work left
@state = internal global i64 1, align 128         ; odd: closed; else twice the workers inside
@open_job = internal global ptr null
@busy = internal global i32 0, align 128          ; a launch owns the pool
@tt.pool.limit = global i64 0, align 128          ; workers that may help one job
@tt.pool.spawned = global i64 0
@tt.pool.launches = global i64 0, align 128       ; so far; threads that launch at once may be counted as one
@asleep = internal global i64 0                   ; changed under the mutex
@wake_after = internal global i64 0               ; ticks of remaining work that make it worth waking somebody
@share_after = internal global i64 0              ; the same if somebody is awake
@spin_for = internal global i64 0                 ; ticks a worker looks for work, at least, before it sleeps
@gap = internal global i64 0                      ; ticks between jobs: an average of the last ones
@opened_at = internal global i64 0                ; ticks when a job was last opened, and closed
@closed_at = internal global i64 0
@tt.arena.key = dso_local global i64 0            ; of the thread's arena
@tt.fault.stack = dso_local global ptr null       ; gives the thread a stack for signals, if faults are reported
@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_setspecific(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @sched_yield()
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @usleep(i32)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.fptoui.sat.i64.f64(double)

; Once per process, before anything else.
define void @tt.pool.setup() nounwind noinline cold {
  %per_second = call i64 @frequency()
  %wake = udiv i64 %per_second, 33333             ; 30 us until a sleeping thread runs, as long as nobody knows better
  store i64 %wake, ptr @wake_after
  %share = udiv i64 %per_second, 125000           ; 8 us: five times what moves between the caches of two cores
  store i64 %share, ptr @share_after
  %spin = udiv i64 %per_second, 50000             ; 20 us
  store i64 %spin, ptr @spin_for
  %gap = udiv i64 %per_second, 250                ; 4 ms: no loop of launches yet
  store i64 %gap, ptr @gap
  %look = udiv i64 %per_second, 20                ; 50 ms
  store i64 %look, ptr @look_every
  %r = call i32 @pthread_key_create(ptr @tt.arena.key, ptr @unmap_arena)
  call void @free_pool()
  ret void
}

; In the child of a fork there is one thread, Python's main thread, and whatever the others held is free.
define void @tt.pool.reset() nounwind noinline cold {
  %self = call i64 @pthread_self()
  store i64 %self, ptr @tt.pool.main
  call void @free_pool()
  ret void
}

define internal void @free_pool() nounwind noinline cold {
  %r1 = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %r2 = call i32 @pthread_cond_init(ptr @condition, ptr null)
  store i64 0, ptr @asleep
  store i64 0, ptr @tt.pool.spawned
  store i64 1, ptr @state
  call void @forget_launches()
  call void @forget_team()
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
"""

_WORKER = """
; Run chunks of the open job until none is left; returns how many programs were run.
define internal i64 @drain(ptr %job, ptr %arena) nounwind {
entry:
  %total, %chunk = load total, chunk of job %job
take:
  %done = phi i64 [0, %entry], [%so_far, %run]
  %begin = atomicrmw add ptr @next, i64 %chunk monotonic
  %over = icmp sge i64 %begin, %total
  %stopped = call i1 @stopped(ptr %job)
  jump %leave if or i1 %over, %stopped
run:
  %to = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %to, i64 %total)
  call void @programs(ptr %job, i64 %begin, i64 %end, ptr %arena)
  call void @tt.poll(ptr %arena)
  %count = sub i64 %end, %begin
  %so_far = add i64 %done, %count
  br label %take
leave:
  ret i64 %done
}

; Whether a worker would find work: the job is open, has programs left and room for a helper.
define internal i1 @wanted(i64 %state) nounwind {
  jump %no if trunc i64 %state to i1              ; then the counter is left to those who use it
  %next = load atomic i64, ptr @next monotonic, align 8
  %total = load atomic i64, ptr @total monotonic, align 8
  %limit = load atomic i64, ptr @tt.pool.limit monotonic, align 8
  %left = icmp slt i64 %next, %total
  %inside = lshr i64 %state, 1
  %room = icmp slt i64 %inside, %limit
  ret i1 and i1 %left, %room
no:
  ret i1 false
}

; Wake up to two; each of them does the same, so that nobody wakes all the others one after another. The mutex is free:
; those who wake up want it.
define internal void @wake_two() nounwind {
  %n = load atomic i64, ptr @asleep monotonic, align 8
  jump %done unless icmp sgt i64 %n, 0
  %r1 = call i32 @pthread_cond_signal(ptr @condition)
  jump %done unless icmp sgt i64 %n, 1
  %r2 = call i32 @pthread_cond_signal(ptr @condition)
done:
  ret void
}

; How long it took a thread to wake up, since the job was opened: an average, between 10 and 300 us.
define internal void @woke() nounwind noinline cold {
  %now = call i64 @ticks()
  %opened = load atomic i64, ptr @opened_at monotonic, align 8
  %took = sub i64 %now, %opened
  %share = load i64, ptr @share_after
  %most = mul i64 %share, 38
  %bounded = call i64 @llvm.umin.i64(i64 %took, i64 %most)
  %before = load atomic i64, ptr @wake_after monotonic, align 8
  %seven = mul i64 %before, 7
  %sum = add i64 %seven, %bounded
  %average = lshr i64 %sum, 3
  %after = call i64 @llvm.umax.i64(i64 %average, i64 %share)
  store atomic i64 %after, ptr @wake_after monotonic, align 8
  ret void
}

; How long to look for work before going to sleep.
define internal i64 @patience() nounwind {
  %least = load i64, ptr @spin_for
  %gap = load atomic i64, ptr @gap monotonic, align 8
  %rare = mul i64 %least, 50                      ; 1 ms
  %often = icmp ult i64 %gap, %rare
  %twice = shl i64 %gap, 1
  %long = call i64 @llvm.umax.i64(i64 %twice, i64 %least)
  ret i64 select i1 %often, i64 %long, i64 %least
}

define internal ptr @worker(ptr %unused) nounwind {
  %floats = call i64 @own_floats()                ; not its maker's
look:
  %since = call i64 @ticks()
  %patience = call i64 @patience()
spin:
  %state = load atomic i64, ptr @state acquire, align 8
  jump %idle unless call i1 @wanted(i64 %state)
  %was = atomicrmw add ptr @state, i64 2 acq_rel  ; all at once: who would compare first would wait for all others
  %closed = trunc i64 %was to i1
  %others = lshr i64 %was, 1
  %limit = load atomic i64, ptr @tt.pool.limit monotonic, align 8
  %full = icmp sge i64 %others, %limit
  jump %inside unless or i1 %closed, %full
  %out = atomicrmw sub ptr @state, i64 2 release
  br label %spin
inside:
  %job = load ptr, ptr @open_job
  %arena = call ptr @arena_for(ptr %job, i64 0)
  %none = icmp eq ptr %arena, null                ; no memory: leave the work to those who have some
  jump %leave if %none
  %ran = call i64 @guarded(ptr %job, ptr %arena, ptr @drain)
  %header = getelementptr %header, ptr %arena, i64 -1
  call void @running(ptr %header, ptr null)
leave:
  %left = atomicrmw sub ptr @state, i64 2 release
  jump %sleep if %none else %look
idle:
  %team = load atomic i64, ptr @team.chosen monotonic, align 8
  jump %sleep if icmp ne i64 %team, 0             ; it needs the processors
  call void @pause()
  %now = call i64 @ticks()
  %spent = sub i64 %now, %since
  %least = load i64, ptr @spin_for
  jump %spin unless icmp sgt i64 %spent, %least
  %y = call i32 @sched_yield()
  jump %spin unless icmp sgt i64 %spent, %patience
sleep:
  %r1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %n1 = atomicrmw add ptr @asleep, i64 1 seq_cst
  %again = load atomic i64, ptr @state seq_cst, align 8
  jump %awake if call i1 @wanted(i64 %again)      ; opened since: its caller may have signalled already
  %r2 = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  call void @woke()
awake:
  %n2 = atomicrmw sub ptr @asleep, i64 1 monotonic
  %r3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %then = load atomic i64, ptr @state acquire, align 8
  jump %look unless call i1 @wanted(i64 %then)
  call void @wake_two()
  br label %look
}

; Threads that are made now take no signals but for their own faults: those are Python's.
; %before gets the signals that this thread takes, to be set again.
define internal void @leave_signals(ptr %before) nounwind noinline cold {
  %all = alloca [128 x i8], align 16
  %r1 = call i32 @sigfillset(ptr %all)
  %d1 = call i32 @sigdelset(ptr %all, i32 11)     ; SIGSEGV, SIGBUS, SIGFPE, SIGILL
  %d2 = call i32 @sigdelset(ptr %all, i32 {bus})
  %d3 = call i32 @sigdelset(ptr %all, i32 8)
  %d4 = call i32 @sigdelset(ptr %all, i32 4)
  %r2 = call i32 @pthread_sigmask(i32 {block}, ptr %all, ptr %before)
  ret void
}

; Threads are made when a job first wants them.
define internal void @spawn(i64 %limit) nounwind noinline cold {
  %before = alloca [128 x i8], align 16
  %thread = alloca ptr
  call void @leave_signals(ptr %before)
check:
  %n = load i64, ptr @tt.pool.spawned
  jump %done unless icmp slt i64 %n, %limit
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  jump %done if icmp ne i32 %failed, 0            ; a limit of the system: go on with those there are
  %id = load ptr, ptr %thread
  %r1 = call i32 @pthread_detach(ptr %id)
  %more = add i64 %n, 1
  store atomic i64 %more, ptr @tt.pool.spawned monotonic, align 8
  br label %check
done:
  %r2 = call i32 @pthread_sigmask(i32 {set}, ptr %before, ptr null)
  ret void
}
"""

_RUN = """
; Run a job to its end. 0: done, 1: no memory for an arena, 2: an assertion failed, 3: a signal handler raised, and the
; exception waits; from `run_together` 4: too many programs, 5: not enough threads.
define i32 @tt.run(ptr %job) nounwind {
  %raised.p = field job.raised of %job
  store i64 0, ptr %raised.p
  %stage.p = field job.stage of %job
  store i64 0, ptr %stage.p
  %floats.p = field job.floats of %job
  store i64 0, field job.due of %job
  %arena = call ptr @arena_for(ptr %job, i64 1)
  jump %begin unless icmp eq ptr %arena, null
  ret i32 1
begin:
  %launches = load atomic i64, ptr @tt.pool.launches monotonic, align 8
  %launches.now = add i64 %launches, 1
  store atomic i64 %launches.now, ptr @tt.pool.launches monotonic, align 8
  call void @enter_launch()
  %floats = call i64 @own_floats()
  store i64 %floats, ptr %floats.p
  %total, %together = load total, together of job %job
  %all = icmp ne i64 %together, 0
  %several = icmp ugt i64 %total, 1
  jump %share unless and i1 %all, %several
crowd:
  %made = call i32 @run_together(ptr %job, ptr %arena)
  br label %done
share:
  %limit = load atomic i64, ptr @tt.pool.limit monotonic, align 8
  %solo = icmp slt i64 %limit, 1
  %single = xor i1 %several, true
  %alone = or i1 %single, %solo
  %how = select i1 %alone, ptr @run_alone, ptr @share
  %r = call i64 @guarded(ptr %job, ptr %arena, ptr %how)
  %stage = load i64, ptr %stage.p
  jump %done unless icmp ne i64 %stage, 0
finish:
  call void @close(ptr %job)
done:
  %outcome = phi i32 [%made, %crowd], [0, %share], [0, %finish]
  %header = getelementptr %header, ptr %arena, i64 -1
  call void @running(ptr %header, ptr null)
  call void @leave_launch()
  %floats.then = load i64, ptr %floats.p          ; a signal handler may have set another
  call void @give_floats(i64 %floats.then)
  %stop = load atomic i64, field job.stop of %job monotonic, align 8
  jump %why if icmp ne i64 %stop, 0
  ret i32 %outcome
why:
  %raised = load i64, ptr %raised.p
  %is_raised = icmp ne i64 %raised, 0
  ret i32 select i1 %is_raised, i32 3, i32 2
}

; Programs too short to ask themselves whether they are to stop run a thousand at a time.
define internal i64 @run_alone(ptr %job, ptr %arena) nounwind {
entry:
  %kernel, %args, %grid, %total = load entry, slots, grid, total of job %job
run:
  %at = phi i64 [0, %entry], [%end, %more]
  %to = add i64 %at, 1024
  %end = call i64 @llvm.umin.i64(i64 %to, i64 %total)
  call void %kernel(ptr %args, i64 %at, i64 %end, ptr %grid, ptr %arena)
  jump %done unless icmp ult i64 %end, %total
more:
  call void @tt.poll(ptr %arena)
  br label %run
done:
  ret i64 0
}

; Programs that a thread takes at a time. Sixteen chunks for each thread level out uneven programs; a chunk of less than
; two microseconds would be spent on the counter that all threads share. If fewer than two such chunks are left for each
; thread, it has one: of 64 programs by threes, some of 16 threads would run six, and others three. Chunks of more than
; eight for each thread are shortened: neighbours in the grid run at about the same time then, so threads meet less
; often in what every 32nd program writes, say.
define internal i64 @chunk_size(i64 %total, i64 %threads, double %each) nounwind alwaysinline {
  %chunks = shl i64 %threads, 4
  %even = udiv i64 %total, %chunks
  %share = load i64, ptr @share_after
  %share.f = sitofp i64 %share to double
  %long = fmul double %share.f, 2.5e-1
  %least.f = fdiv double %long, %each
  %least = call i64 @llvm.fptoui.sat.i64.f64(double %least.f)
  %threads.f = sitofp i64 %threads to double
  %span = fmul double %share.f, %threads.f
  %greatest.f = fdiv double %span, %each
  %greatest = call i64 @llvm.fptoui.sat.i64.f64(double %greatest.f)
  %rest = add i64 %total, %threads
  %up = sub i64 %rest, 1
  %most = udiv i64 %up, %threads
  %short = call i64 @llvm.umin.i64(i64 %even, i64 %greatest)
  %twice = shl i64 %least, 1
  %few = icmp ugt i64 %twice, %most
  %enough = select i1 %few, i64 %most, i64 %least
  %some = call i64 @llvm.umax.i64(i64 %short, i64 %enough)
  %one = call i64 @llvm.umax.i64(i64 %some, i64 1)
  ret i64 call i64 @llvm.umin.i64(i64 %one, i64 1024)
}

; Ticks of work that are worth sharing: what it costs to have others help.
define internal i64 @worth_sharing(i1 %awake, i64 %threads) nounwind alwaysinline {
entry:
  %share = load i64, ptr @share_after
  %cold = load atomic i64, ptr @wake_after monotonic, align 8
  %workers = select i1 %awake, i64 %share, i64 %cold
  jump %done unless call i1 @has_team(i64 %threads)
team:
  %cost = call i64 @team_cost()
  %least = call i64 @llvm.umax.i64(i64 %cost, i64 %share)
  %best = call i64 @llvm.umin.i64(i64 %least, i64 %workers)
done:
  %ticks = phi i64 [%workers, %entry], [%best, %team]
  ret i64 %ticks
}

; A job ran alone because others were slow to help, it seems: that is believed a little less each time.
define internal void @doubt(i64 %start) nounwind noinline cold {
  %now = call i64 @ticks()
  %spent = sub i64 %now, %start
  %share = load i64, ptr @share_after
  jump %done if icmp ult i64 %spent, %share
  %wake = load atomic i64, ptr @wake_after monotonic, align 8
  %part = lshr i64 %wake, 6
  %lower = sub i64 %wake, %part
  %least = call i64 @llvm.umax.i64(i64 %lower, i64 %share)
  store atomic i64 %least, ptr @wake_after monotonic, align 8
  call void @doubt_team()
done:
  ret void
}

; A job is opened: how long the pool had none, 4 ms at most, counts for half of the average.
define internal void @note_gap(i64 %now) nounwind alwaysinline {
  store atomic i64 %now, ptr @opened_at monotonic, align 8
  %closed = load i64, ptr @closed_at
  %since = sub i64 %now, %closed
  %least = load i64, ptr @spin_for
  %most = mul i64 %least, 200
  %bounded = call i64 @llvm.umin.i64(i64 %since, i64 %most)
  %before = load atomic i64, ptr @gap monotonic, align 8
  %sum = add i64 %before, %bounded
  %average = lshr i64 %sum, 1
  store atomic i64 %average, ptr @gap monotonic, align 8
  ret void
}

; Run programs until none is left to take; the pool may be taken and open afterwards, and others inside.
define internal i64 @share(ptr %job, ptr %arena) nounwind {
  %total = load i64, field job.total of %job
  %stage.p = field job.stage of %job
  %limit = load atomic i64, ptr @tt.pool.limit monotonic, align 8
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  jump %first if extractvalue { i32, i1 } %swap, 1
  %r0 = call i64 @run_alone(ptr %job, ptr %arena)
  ret i64 0
first:
  store i64 1, ptr %stage.p
  %asleep = load atomic i64, ptr @asleep monotonic, align 8
  %there = load i64, ptr @tt.pool.spawned
  %awake = icmp slt i64 %asleep, %there
  %threads = add i64 %limit, 1
  %wake = call i64 @worth_sharing(i1 %awake, i64 %threads)
  %wake.f = sitofp i64 %wake to double
  %total.f = sitofp i64 %total to double
  %kernel = load ptr, field job.entry of %job
  %known = call ptr @known_of(ptr %kernel)
  %known.kernel = load ptr, field known.entry of %known
  %same = icmp eq ptr %known.kernel, %kernel
  %each.then = load double, field known.each of %known
  %each = select i1 %same, double %each.then, double 1.0e18
  %chunk = call i64 @chunk_size(i64 %total, i64 %threads, double %each)
  store i64 %chunk, field job.chunk of %job
  %all = fmul double %each, %total.f
  %much = fcmp ogt double %all, %wake.f
  %at_once = and i1 %same, %much
  %start = call i64 @ticks()
  %way = call i64 @settled(ptr %known, i1 %same, i64 %total)
  %several = icmp eq i64 %way, 2
  jump %open if %several
guess:
  %guessed = icmp eq i64 %way, 0
  jump %open if and i1 %at_once, %guessed
own:                                              ; alone, until the rest looks like more than waking somebody costs
  %at = phi i64 [0, %guess], [%end, %look]
  %step = phi i64 [%chunk, %guess], [%step1, %look]
  %to = add i64 %at, %step
  %end = call i64 @llvm.umin.i64(i64 %to, i64 %total)
  call void @programs(ptr %job, i64 %at, i64 %end, ptr %arena)
  %last = icmp sge i64 %end, %total
  %failed = call i1 @stopped(ptr %job)
  jump %more unless or i1 %last, %failed
  call void @learn(ptr %known, ptr %kernel, i64 %start, i64 %end)
  %over = call i64 @ticks()
  %took = sub i64 %over, %start
  call void @note_launch(ptr %known, i64 1, i64 %took)
  call void @doubt(i64 %start)
  br label %done
more:
  %now = call i64 @ticks()
  %spent = sub i64 %now, %start
  %spent.f = sitofp i64 %spent to double
  %end.f = sitofp i64 %end to double
  %left.f = fsub double %total.f, %end.f
  %each.seen = fdiv double %spent.f, %end.f
  %rest = fmul double %spent.f, %left.f           ; spent / end * left > wake
  %bound = fmul double %wake.f, %end.f
  jump %look unless fcmp ogt double %rest, %bound
late:
  %whole.f = fmul double %each.seen, %total.f
  %whole = call i64 @llvm.fptoui.sat.i64.f64(double %whole.f)
  jump %open if call i1 @is_given_up(ptr %known, i64 %way, i64 %spent, i64 %whole)
look:
  %tenfold = fmul double %rest, 1.0e1
  %short = fcmp olt double %tenfold, %bound       ; hardly worth the looking at the clock: look less often
  %double = shl i64 %step, 1
  %step1 = select i1 %short, i64 %double, i64 %step
  br label %own
open:
  %from = phi i64 [0, %first], [0, %guess], [%end, %late]
  %each.now = phi double [%each, %first], [%each, %guess], [%each.seen, %late]
  store atomic i64 %from, ptr @next monotonic, align 8
  store atomic i64 %total, ptr @total monotonic, align 8
  store ptr %job, ptr @open_job
  store i64 2, ptr %stage.p
  call void @note_gap(i64 %start)
  %all.now = fmul double %each.now, %total.f
  %team = call i64 @choose_team(i64 %threads, double %all.now)
  jump %workers unless icmp ne i64 %team, 0
team.run:
  %with_team = call i64 @run_on_team(ptr %job, i64 %threads)
  %with_team.at = load i64, ptr @team.began
  br label %ended
workers:
  %odd = atomicrmw sub ptr @state, i64 1 seq_cst
  jump %ask unless icmp slt i64 %there, %limit
  call void @spawn(i64 %limit)
ask:
  %sleeping = load atomic i64, ptr @asleep seq_cst, align 8
  jump %work unless icmp sgt i64 %sleeping, 0
signal:                                           ; the mutex is free once a worker that saw no job sleeps
  %r1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %r2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  call void @wake_two()
work:
  %opened = call i64 @ticks()                     ; waking others is not part of what programs take
  %with_workers = call i64 @drain(ptr %job, ptr %arena)
ended:
  %ran = phi i64 [%with_team, %team.run], [%with_workers, %work]
  %began = phi i64 [%with_team.at, %team.run], [%opened, %work]
  jump %done unless icmp sgt i64 %ran, 0
  call void @learn(ptr %known, ptr %kernel, i64 %began, i64 %ran)
done:
  ret i64 0
}

; The caller has nothing left to run: it lets others run, and looks for signals, once it has waited %tries times.
define internal void @wait_for_others(ptr %job, i64 %tries) nounwind {
  call void @pause()
  jump %done unless icmp sgt i64 %tries, 2000
  %r = call i32 @sched_yield()
  %now = call i64 @ticks()
  call void @look_for_signals(ptr %job, i64 %now)
done:
  ret void
}

; Give the pool back: nobody comes in any more, and those who are inside are waited for.
define internal void @close(ptr %job) nounwind {
  %stage = load i64, field job.stage of %job
  jump %release unless icmp eq i64 %stage, 2
shut:
  %inside = atomicrmw or ptr @state, i64 1 acq_rel
join:                                             ; for those who are inside
  %tries = phi i64 [0, %shut], [%tried, %more]
  %state = load atomic i64, ptr @state acquire, align 8
  jump %shut.down if icmp eq i64 %state, 1
more:
  %tried = add i64 %tries, 1
  call void @wait_for_others(ptr %job, i64 %tries)
  br label %join
shut.down:
  %now.closed = call i64 @ticks()
  store i64 %now.closed, ptr @closed_at
  call void @note_cost(i64 %now.closed)
  %kernel = load ptr, field job.entry of %job
  %known = call ptr @known_of(ptr %kernel)
  %opened = load i64, ptr @opened_at
  %took = sub i64 %now.closed, %opened
  call void @note_launch(ptr %known, i64 2, i64 %took)
release:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
"""


def pool(target: CpuTarget) -> str:
    """The pool's LLVM text for `target`; it needs those of `faults` and `alone`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "cntvct_el0" in pool(cpu_target("aarch64"))
    True
    """
    structs = (JOB, HEADER, launch_times.KNOWN)
    text = "\n".join((*(struct.definition for struct in structs), _STATE,
                      clock(target), arena.TEXT, launch_times.TEXT, _WORKER, _RUN))
    return resolve(system_values(text, target), *structs)
