"""Who knows of whom: segments of programs, and what closes them.

A segment is what a program does between two releases or barriers. A release closes the segment of its program and notes
the time, which is the number of the next segment, at the hash of its address. Who acquires there knows of all segments
that were closed by then.
"""

TEXT = """
; The entry of a segment: program, when it was closed, up to when it knows of others.
define internal ptr @segment(ptr %context, i64 %g) nounwind alwaysinline {
  %segments, %base = load segments, base of context %context
  %k = sub i64 %g, %base
  ret ptr getelementptr %segment, ptr %segments, i64 %k
}

; Whether all that segment %g has done is known to segment %me.
define internal i1 @ordered(ptr %context, i64 %g, i64 %me) nounwind noinline {
  %segments = load ptr, field context.segments of %context
  ret i1 false if icmp eq ptr %segments, null
  %limit = load i64, field context.limit of %context
  ret i1 true if icmp eq i64 %g, %limit
  %theirs = call ptr @segment(ptr %context, i64 %g)
  %mine = call ptr @segment(ptr %context, i64 %me)
  %p = load i32, field segment.program of %theirs
  %q = load i32, field segment.program of %mine
  ret i1 true if icmp eq i32 %p, %q
  %closed = load atomic i32, field segment.closed of %theirs monotonic, align 4
  %seen = load atomic i32, field segment.seen of %mine monotonic, align 4
  %is.closed = icmp ne i32 %closed, 0
  %known = icmp ule i32 %closed, %seen
  ret i1 and i1 %is.closed, %known
}

define internal i64 @current(ptr %context, i64 %program) nounwind alwaysinline {
  %current = load ptr, field context.current of %context
  %g = load i32, item i32 %program of %current
  ret i64 zext i32 %g to i64
}

define internal ptr @slot(ptr %context, ptr %p) nounwind alwaysinline {
  %slots = load ptr, field context.slots of %context
  %x = ptrtoint ptr %p to i64
  %a = lshr i64 %x, 2
  %h = mul i64 %a, -7046029254386353131
  %k = lshr i64 %h, 52
  ret ptr getelementptr i32, ptr %slots, i64 %k
}

; A new segment of a program, which begins now. 0 if there is no room for one.
define internal i64 @begin(ptr %context, i64 %program) nounwind noinline {
  %segments = load ptr, field context.segments of %context
  ret i64 0 if icmp eq ptr %segments, null
  %limit = load i64, field context.limit of %context
  %g = atomicrmw add field context.next of %context, i64 1 seq_cst
  ret i64 0 unless icmp slt i64 %g, %limit
  %me = call i64 @current(ptr %context, i64 %program)
  %before = call ptr @segment(ptr %context, i64 %me)
  %after = call ptr @segment(ptr %context, i64 %g)
  %g.i = trunc i64 %g to i32
  %program.i = trunc i64 %program to i32
  store i32 %program.i, field segment.program of %after
  %seen = load i32, field segment.seen of %before
  store i32 %seen, field segment.seen of %after
  store i32 0, field segment.closed of %after
  store atomic i32 %g.i, field segment.closed of %before release, align 4
  %current = load ptr, field context.current of %context
  store i32 %g.i, item i32 %program of %current
  ret i64 %g
}

define void @tt.check.release(ptr %context, i64 %program, ptr %p) nounwind noinline {
  %g = call i64 @begin(ptr %context, i64 %program)
  ret void if icmp eq i64 %g, 0
  %slot = call ptr @slot(ptr %context, ptr %p)
  %g.i = trunc i64 %g to i32
  %old = atomicrmw umax ptr %slot, i32 %g.i release
  ret void
}

define void @tt.check.acquire(ptr %context, i64 %program, ptr %p) nounwind noinline {
  %segments = load ptr, field context.segments of %context
  ret void if icmp eq ptr %segments, null
  %slot = call ptr @slot(ptr %context, ptr %p)
  %t = load atomic i32, ptr %slot acquire, align 4
  %me = call i64 @current(ptr %context, i64 %program)
  %mine = call ptr @segment(ptr %context, i64 %me)
  %seen.p = field segment.seen of %mine
  %seen = load i32, ptr %seen.p
  ret void unless icmp ugt i32 %t, %seen
  store i32 %t, ptr %seen.p
  ret void
}

define void @tt.check.barrier(ptr %context, i64 %program) nounwind noinline {
  %g = call i64 @begin(ptr %context, i64 %program)
  ret void
}
"""
