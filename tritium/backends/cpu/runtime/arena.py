"""The arena of a thread, in LLVM: memory for its kernels, kept from launch to launch.

The header before an arena describes its use (job.py). Guard pages before and after an arena protect these from kernels
that write out of bounds.
"""

from __future__ import annotations

TEXT = """
; This thread's arena of at least so many bytes, 64-byte aligned; null when memory is out.
define ptr @tt.arena(i64 %bytes) nounwind {
  %key = load i64, ptr @tt.arena.key
  %old = call ptr @pthread_getspecific(i64 %key)
  jump %grow if icmp eq ptr %old, null
  %capacity = load i64, field header.size of %old
  jump %grow unless icmp uge i64 %capacity, %bytes
  ret ptr getelementptr %header, ptr %old, i64 1
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
  ret ptr null if icmp eq ptr %map, inttoptr (i64 -1 to ptr)
  %inside = getelementptr i8, ptr %map, i64 65536
  %usable = sub i64 %whole, 131072
  %failed = call i32 @mprotect(ptr %inside, i64 %usable, i32 3)
  jump %keep unless icmp ne i32 %failed, 0
  %r1 = call i32 @munmap(ptr %map, i64 %whole)
  ret ptr null
keep:
  %new = getelementptr i8, ptr %inside, i64 64
  store i64 %size, field header.size of %new
  call void @running(ptr %new, ptr null)
  %give_stack = load ptr, ptr @tt.fault.stack
  jump %given if icmp eq ptr %give_stack, null
  call void %give_stack()
given:
  %s2 = call i32 @pthread_setspecific(i64 %key, ptr %new)
  ret ptr getelementptr %header, ptr %new, i64 1
}

define internal void @unmap_arena(ptr %header) nounwind noinline cold {
  ret void if icmp eq ptr %header, null
  %size = load i64, field header.size of %header
  %whole = add i64 %size, 196608
  %r = call i32 @munmap(item i8 -65600 of %header, i64 %whole)
  ret void
}

; Note the kernel that runs on the arena after a header: faults of the thread are its doing until another is noted.
define internal void @running(ptr %header, ptr %record) nounwind alwaysinline {
  store volatile ptr %record, field header.record of %header
  ret void
}

; The arena of this thread for a job; `caller` is 1 if it is the one that launched it.
define internal ptr @arena_for(ptr %job, i64 %caller) nounwind alwaysinline {
  %bytes = load i64, field job.arena of %job
  %arena = call ptr @tt.arena(i64 %bytes)
  jump %done if icmp eq ptr %arena, null
  store ptr %job, field header.job before %arena
  store i64 %caller, field header.caller before %arena
done:
  ret ptr %arena
}

; A kernel calls this with its arena; the first failure of a launch is kept, and the launch stops.
define void @tt.assert_fail(ptr %arena, ptr %message, i64 %program) nounwind noinline cold {
  %job = load ptr, field header.job before %arena
  %swap = cmpxchg field job.message of %job, ptr null, ptr %message acq_rel monotonic
  ret void unless extractvalue { ptr, i1 } %swap, 1
  store i64 %program, field job.program of %job
  call void @stop(ptr %job)
  ret void
}

define internal void @programs(ptr %job, i64 %begin, i64 %end, ptr %arena) nounwind alwaysinline {
  %entry, %args, %grid = load entry, slots, grid of job %job
  call void %entry(ptr %args, i64 %begin, i64 %end, ptr %grid, ptr %arena)
  ret void
}
"""
