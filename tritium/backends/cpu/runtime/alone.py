"""Detection of a single running thread, in LLVM: its atomic updates need no atomic instructions.

An atomic instruction costs as much as a cache miss on most machines, and rules out vector updates. A kernel calls
`tt.alone` before it updates a tile, and `tt.shared` after: in between it holds the lock `@alone`, and a launch that
begins meanwhile, from another Python thread, waits for it. `tt.alone` fails while workers of the pool run the job, in a
cooperative launch, or while another launch runs.

The holder looks at the number of launches after it has taken `@alone`, a launch at `@alone` after it has counted
itself: one of them sees the other. No program is left and no signal handler runs while it holds `@alone`, so that it is
always released soon. Other processes are not considered: kernels that update memory shared with them use
`scope="sys"`.
"""

from __future__ import annotations

from ...llvm.structs import resolve
from .job import HEADER, JOB

SYMBOLS = ("tt.alone", "tt.shared")

# For kernels outside of a Python process: others may run programs without saying so.
IDLE = """
define i1 @tt.alone(ptr %arena) nounwind {
  ret i1 false
}
define void @tt.shared() nounwind {
  ret void
}
"""

_TEXT = """
@launches = internal global i64 0, align 128      ; that run now
@alone = internal global ptr null, align 128      ; the arena of who updates without atomic instructions

; Count a launch, and wait until nobody counts on being alone.
define internal void @enter_launch() nounwind alwaysinline {
entry:
  %before = atomicrmw add ptr @launches, i64 1 seq_cst
look:
  %tries = phi i64 [0, %entry], [%tried, %again]
  %holder = load atomic ptr, ptr @alone seq_cst, align 8
  ret void if icmp eq ptr %holder, null
  call void @pause()
  %tried = add i64 %tries, 1
  jump %again unless icmp sgt i64 %tries, 1000
  %r = call i32 @sched_yield()
again:
  br label %look
}

define internal void @leave_launch() nounwind alwaysinline {
  %before = atomicrmw sub ptr @launches, i64 1 release
  ret void
}

; In the child of a fork: if anything ran, nobody knows what of it goes on, and nobody is ever alone.
define internal void @forget_launches() nounwind noinline cold {
  %n = load i64, ptr @launches
  %some = icmp ne i64 %n, 0
  %many = select i1 %some, i64 1099511627776, i64 0
  store i64 %many, ptr @launches
  store ptr null, ptr @alone
  ret void
}

; True if nobody else runs programs until `tt.shared` is called.
define i1 @tt.alone(ptr %arena) nounwind noinline {
  %job = load ptr, field header.job before %arena
  %stage = load i64, field job.stage of %job
  %open = icmp eq i64 %stage, 2
  %together = load i64, field job.together of %job
  %crowd = icmp ne i64 %together, 0
  ret i1 false if or i1 %open, %crowd
  %swap = cmpxchg ptr @alone, ptr null, ptr %arena seq_cst monotonic
  ret i1 false unless extractvalue { ptr, i1 } %swap, 1
  %n = load atomic i64, ptr @launches seq_cst, align 8
  ret i1 true if icmp eq i64 %n, 1
  store atomic ptr null, ptr @alone release, align 8
  ret i1 false
}

define void @tt.shared() nounwind noinline {
  store atomic ptr null, ptr @alone release, align 8
  ret void
}
"""


def alone() -> str:
    """The text; it needs that of the pool.

    >>> "@tt.alone" in alone()
    True
    """
    return resolve(_TEXT, JOB, HEADER)
