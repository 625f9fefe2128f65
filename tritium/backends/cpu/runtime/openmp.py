"""Jobs on the threads of an OpenMP library, in LLVM: for processes in which torch computes as well.

The threads of OpenMP look for work for milliseconds after each operation of torch, and do not yield. Workers of the
pool would have to share all processors with them. So a job may run on a *team* instead, the threads that torch uses. On
a machine with 16 processors, a softmax between two operations of torch takes 15 us on the team and 100 us on workers.

Which is better depends on what the process does besides, so it is measured: of each of the two, the time that jobs took
beyond their share of the work, an average of the last ones. The better one is chosen; the other is tried now and then,
less often each time it loses.

A team is used from Python's main thread, and with as many threads as OpenMP has: another number would make it start
and end threads. A child of a fork has no team.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys

from ...llvm.structs import resolve
from .job import HEADER, JOB

SYMBOLS = ("tt.team.parallel", "tt.team.threads", "tt.team.jobs", "tt.team.cost")

# Which of the two runs a job, by what jobs took beyond their share.
COSTS = """
@team.chosen = internal global i64 0              ; 1 if the last job that was opened runs on the team
@tt.team.cost = global [2 x i64] zeroinitializer  ; ticks that jobs take beyond their share: by workers, by the team
@ideal = internal global i64 0                    ; ticks of the open job, shared by all
@untried = internal global i64 0                  ; jobs since the other was tried
@try_every = internal global i64 32

define internal i64 @team_cost() nounwind {
  ret i64 load i64, item i64 1 of @tt.team.cost
}

define internal void @doubt_team() nounwind noinline cold {
  %p = getelementptr i64, ptr @tt.team.cost, i64 1
  %cost = load i64, ptr %p
  %part = lshr i64 %cost, 6
  %lower = sub i64 %cost, %part
  store i64 %lower, ptr %p
  ret void
}

; 1 if a job that takes so many ticks in all is to run on the team.
define internal i64 @choose_team(i64 %threads, double %ticks) nounwind {
  %threads.f = sitofp i64 %threads to double
  %ideal.f = fdiv double %ticks, %threads.f
  %ideal = call i64 @llvm.fptoui.sat.i64.f64(double %ideal.f)
  store i64 %ideal, ptr @ideal
  jump %workers unless call i1 @has_team(i64 %threads)
compare:
  %by.workers = load i64, ptr @tt.team.cost
  %by.team = call i64 @team_cost()
  %better = icmp ule i64 %by.team, %by.workers
  %n = load i64, ptr @untried
  %more = add i64 %n, 1
  %every = load i64, ptr @try_every
  %try = icmp uge i64 %more, %every
  %then = select i1 %try, i64 0, i64 %more
  store i64 %then, ptr @untried
  %chosen = xor i1 %better, %try
  %word = zext i1 %chosen to i64
  br label %done
workers:
done:
  %team = phi i64 [%word, %compare], [0, %workers]
  store atomic i64 %team, ptr @team.chosen monotonic, align 8
  ret i64 %team
}

; A job has ended. One that tried the other way and lost has it tried half as often, down to every 4096th job.
define internal void @note_cost(i64 %now) nounwind {
  %opened = load i64, ptr @opened_at
  %took = sub i64 %now, %opened
  %ideal = load i64, ptr @ideal
  %least = call i64 @llvm.umin.i64(i64 %ideal, i64 %took)
  %beyond = sub i64 %took, %least
  %mine = load i64, ptr @team.chosen
  %mine.p = getelementptr i64, ptr @tt.team.cost, i64 %mine
  %before = load i64, ptr %mine.p
  %spin = load i64, ptr @spin_for
  %fourfold = shl i64 %before, 2
  %usual = add i64 %fourfold, %spin               ; one job with a thread that lost its processor says little
  %longest = mul i64 %spin, 200                   ; 4 ms
  %most = call i64 @llvm.umin.i64(i64 %usual, i64 %longest)
  %sample = call i64 @llvm.umin.i64(i64 %beyond, i64 %most)
  %three = mul i64 %before, 3
  %sum = add i64 %three, %sample
  %average = lshr i64 %sum, 2
  store i64 %average, ptr %mine.p
  %untried = load i64, ptr @untried
  jump %done unless icmp eq i64 %untried, 0
  %other = xor i64 %mine, 1
  %theirs = load i64, item i64 %other of @tt.team.cost
  %won = icmp ult i64 %average, %theirs
  %every = load i64, ptr @try_every
  %twice = shl i64 %every, 1
  %rarer = call i64 @llvm.umin.i64(i64 %twice, i64 4096)
  %next = select i1 %won, i64 32, i64 %rarer
  store i64 %next, ptr @try_every
done:
  ret void
}
"""

_TEXT = """
@tt.team.parallel = global ptr null               ; GOMP_parallel, or null
@tt.team.threads = global ptr null                ; omp_get_max_threads
@tt.team.jobs = global i64 0                      ; jobs that ran on the team
@team.ran = internal global i64 0                 ; programs that the caller ran, for who is @busy like what follows
@team.began = internal global i64 0               ; when the caller began to
@team.inside = internal global i64 0              ; members beside the caller that may run programs

define internal void @forget_team() nounwind noinline cold {
  store ptr null, ptr @tt.team.parallel
  store atomic i64 0, ptr @team.inside monotonic, align 8
  ret void
}

; Whether this thread may run a job on the team of OpenMP.
define internal i1 @has_team(i64 %threads) nounwind {
  %parallel = load ptr, ptr @tt.team.parallel
  jump %no if icmp eq ptr %parallel, null
  %self = call i64 @pthread_self()
  %main = load i64, ptr @tt.pool.main
  jump %no unless icmp eq i64 %self, %main
  %ask = load ptr, ptr @tt.team.threads
  %n = call i32 %ask()
  %n.w = zext i32 %n to i64
  ret i1 icmp eq i64 %n.w, %threads
no:
  ret i1 false
}

; What each thread of the team calls; the caller is one of them. Signals leave a program, but never the team. The caller
; waits here for the others, not in OpenMP's barrier: it alone can look for signals.
define internal void @team_member(ptr %job) nounwind {
  %floats = call i64 @own_floats()
  %self = call i64 @pthread_self()
  %main = load i64, ptr @tt.pool.main
  %is_caller = icmp eq i64 %self, %main
  %caller = zext i1 %is_caller to i64
  %other = xor i64 %caller, 1
  %arena = call ptr @arena_for(ptr %job, i64 %caller)
  jump %done if icmp eq ptr %arena, null
  %came = atomicrmw add ptr @team.inside, i64 %other acq_rel
  %began = call i64 @ticks()
  %ran = call i64 @guarded(ptr %job, ptr %arena, ptr @drain)
  jump %leave unless %is_caller
mine:
  store i64 %ran, ptr @team.ran
  store i64 %began, ptr @team.began
wait:
  %tries = phi i64 [0, %mine], [%tried, %more]
  %inside = load atomic i64, ptr @team.inside acquire, align 8
  jump %done if icmp eq i64 %inside, 0
more:
  %tried = add i64 %tries, 1
  call void @wait_for_others(ptr %job, i64 %tries)
  br label %wait
leave:
  %header = getelementptr %header, ptr %arena, i64 -1
  call void @running(ptr %header, ptr null)
  %left = atomicrmw sub ptr @team.inside, i64 1 acq_rel
done:
  call void @give_floats(i64 %floats)
  ret void
}

; Run the open job on the team; returns how many programs the caller ran.
define internal i64 @run_on_team(ptr %job, i64 %threads) nounwind {
  store i64 0, ptr @team.ran
  %jobs = load i64, ptr @tt.team.jobs
  %more = add i64 %jobs, 1
  store i64 %more, ptr @tt.team.jobs
  %parallel = load ptr, ptr @tt.team.parallel
  %n = trunc i64 %threads to i32
  call void %parallel(ptr @team_member, ptr %job, i32 %n, i32 0)
  ret i64 load i64, ptr @team.ran
}
"""


def openmp() -> str:
    """The LLVM text; it stands beside the pool's.

    >>> openmp().count("define internal i64 @run_on_team")
    1
    """
    return resolve(COSTS + _TEXT, JOB, HEADER)


def find() -> tuple[int, int] | None:
    """The addresses of `GOMP_parallel` and `omp_get_max_threads` in the OpenMP library that torch computes with.

    None if torch is not loaded, or computes with threads of its own. GCC's, LLVM's and Intel's library have both
    functions.

    >>> find() is None or len(find()) == 2
    True
    """
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch is None or not sys.platform.startswith("linux"):
        return None
    try:
        with open("/proc/self/maps") as file:
            paths = dict.fromkeys(re.findall(r"\S*/lib(?:gomp|iomp5|omp)\b[^/\n]*\.so[^/\n]*", file.read()))
    except OSError:
        return None
    beside = os.path.dirname(os.path.dirname(os.path.abspath(torch))) + os.sep
    own = [path for path in paths if path.startswith(beside)] or list(paths)
    if len(own) != 1:  # nobody can tell which one
        return None
    try:
        library = ctypes.CDLL(own[0])
        return tuple(ctypes.cast(library[name], ctypes.c_void_p).value or 0
                     for name in ("GOMP_parallel", "omp_get_max_threads"))  # pyright: ignore[reportReturnType]
    except (OSError, AttributeError):
        return None
