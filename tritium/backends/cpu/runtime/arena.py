"""The arena of a thread, in LLVM: memory for its kernels, kept from launch to launch.

The header before an arena describes its use (job.py). Guard pages before and after an arena protect these from kernels
that write out of bounds.
"""

from __future__ import annotations

__all__ = ["TEXT"]

TEXT = """
; This thread's arena of at least so many bytes, 64-byte aligned; null when memory is out.
define ptr @tt.arena(i64 %bytes) nounwind {
entry:
  %key = load i64, ptr @key
  %old = call ptr @pthread_getspecific(i64 %key)
  %none = icmp eq ptr %old, null
  br i1 %none, label %grow, label %check
check:
  %capacity = load i64, field header.size of %old
  %enough = icmp uge i64 %capacity, %bytes
  br i1 %enough, label %found, label %grow
found:
  %arena = getelementptr %header, ptr %old, i64 1
  ret ptr %arena
grow:                                             ; to a power of two, so that growing kernels seldom come here
  call void @unmap_arena(ptr %old)
  %s1 = call i32 @pthread_setspecific(i64 %key, ptr null)
  %atleast = call i64 @llvm.umax.i64(i64 %bytes, i64 65536)
  %less = sub i64 %atleast, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 false)
  %log = sub i64 64, %zeros
  %size = shl i64 1, %log
  %whole = add i64 %size, 196608                  ; the header's page and two around, of the largest size there is
  %map = call ptr @mmap(ptr null, i64 %whole, i32 0, i32 {private}, i32 -1, i64 0)
  %out = icmp eq ptr %map, inttoptr (i64 -1 to ptr)
  br i1 %out, label %nothing, label %open
nothing:
  ret ptr null
open:
  %inside = getelementptr i8, ptr %map, i64 65536
  %usable = sub i64 %whole, 131072
  %failed = call i32 @mprotect(ptr %inside, i64 %usable, i32 3)
  %refused = icmp ne i32 %failed, 0
  br i1 %refused, label %undo, label %keep
undo:
  %r1 = call i32 @munmap(ptr %map, i64 %whole)
  ret ptr null
keep:
  %new = getelementptr i8, ptr %inside, i64 64
  %size.p = field header.size of %new
  store i64 %size, ptr %size.p
  call void @running(ptr %new, ptr null)
  call void @fault_stack()
  %s2 = call i32 @pthread_setspecific(i64 %key, ptr %new)
  %fresh = getelementptr %header, ptr %new, i64 1
  ret ptr %fresh
}

define internal void @unmap_arena(ptr %header) nounwind noinline cold {
entry:
  %none = icmp eq ptr %header, null
  br i1 %none, label %done, label %unmap
unmap:
  %size = load i64, field header.size of %header
  %whole = add i64 %size, 196608
  %map = getelementptr i8, ptr %header, i64 -65600
  %r = call i32 @munmap(ptr %map, i64 %whole)
  br label %done
done:
  ret void
}

; Note the kernel that runs on the arena after a header: faults of the thread are its doing until another is noted.
define internal void @running(ptr %header, ptr %record) nounwind alwaysinline {
  %record.p = field header.record of %header
  store volatile ptr %record, ptr %record.p
  ret void
}

; The arena of this thread for a job; `caller` is 1 if it is the one that launched it.
define internal ptr @arena_for(ptr %job, i64 %caller) nounwind alwaysinline {
entry:
  %bytes = load i64, field job.arena of %job
  %arena = call ptr @tt.arena(i64 %bytes)
  %none = icmp eq ptr %arena, null
  br i1 %none, label %done, label %serve
serve:
  %owner = field header.job before %arena
  store ptr %job, ptr %owner
  %caller.p = field header.caller before %arena
  store i64 %caller, ptr %caller.p
  br label %done
done:
  ret ptr %arena
}

; A kernel calls this with its arena; the first failure of a launch is kept, and the launch stops.
define void @tt.assert_fail(ptr %arena, ptr %message, i64 %program) nounwind noinline cold {
entry:
  %owner = field header.job before %arena
  %job = load ptr, ptr %owner
  %message.p = field job.message of %job
  %swap = cmpxchg ptr %message.p, ptr null, ptr %message acq_rel monotonic
  %first = extractvalue { ptr, i1 } %swap, 1
  br i1 %first, label %keep, label %done
keep:
  %program.p = field job.program of %job
  store i64 %program, ptr %program.p
  call void @stop(ptr %job)
  br label %done
done:
  ret void
}

define internal void @programs(ptr %job, i64 %begin, i64 %end, ptr %arena) nounwind alwaysinline {
  %entry = load ptr, field job.entry of %job
  %args = load ptr, field job.slots of %job
  %grid = load ptr, field job.grid of %job
  call void %entry(ptr %args, i64 %begin, i64 %end, ptr %grid, ptr %arena)
  ret void
}
"""
