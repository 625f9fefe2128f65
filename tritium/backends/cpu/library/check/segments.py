"""Who knows of whom: segments of programs, and what closes them.

A segment is what a program does between two releases or barriers. A release closes the segment of its program and notes
the time, which is the number of the next segment, at the hash of its address. Who acquires there knows of all segments
that were closed by then.
"""

from __future__ import annotations

__all__ = ["TEXT"]

TEXT = """
; The entry of a segment: program, when it was closed, up to when it knows of others.
define internal ptr @segment(ptr %context, i64 %g) nounwind alwaysinline {
  %segments = load ptr, field context.segments of %context
  %base = load i64, field context.base of %context
  %k = sub i64 %g, %base
  %p = getelementptr %segment, ptr %segments, i64 %k
  ret ptr %p
}

; Whether all that segment %g has done is known to segment %me.
define internal i1 @ordered(ptr %context, i64 %g, i64 %me) nounwind noinline {
entry:
  %segments = load ptr, field context.segments of %context
  %none = icmp eq ptr %segments, null
  br i1 %none, label %no, label %look
look:
  %limit = load i64, field context.limit of %context
  %many = icmp eq i64 %g, %limit
  br i1 %many, label %yes, label %compare
compare:
  %theirs = call ptr @segment(ptr %context, i64 %g)
  %mine = call ptr @segment(ptr %context, i64 %me)
  %p = load i32, field segment.program of %theirs
  %q = load i32, field segment.program of %mine
  %same = icmp eq i32 %p, %q
  br i1 %same, label %yes, label %times
times:
  %closed.p = field segment.closed of %theirs
  %closed = load atomic i32, ptr %closed.p monotonic, align 4
  %seen.p = field segment.seen of %mine
  %seen = load atomic i32, ptr %seen.p monotonic, align 4
  %is.closed = icmp ne i32 %closed, 0
  %known = icmp ule i32 %closed, %seen
  %ok = and i1 %is.closed, %known
  ret i1 %ok
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i64 @current(ptr %context, i64 %program) nounwind alwaysinline {
  %current = load ptr, field context.current of %context
  %p = getelementptr i32, ptr %current, i64 %program
  %g = load i32, ptr %p
  %w = zext i32 %g to i64
  ret i64 %w
}

define internal ptr @slot(ptr %context, ptr %p) nounwind alwaysinline {
  %slots = load ptr, field context.slots of %context
  %x = ptrtoint ptr %p to i64
  %a = lshr i64 %x, 2
  %h = mul i64 %a, -7046029254386353131
  %k = lshr i64 %h, 52
  %q = getelementptr i32, ptr %slots, i64 %k
  ret ptr %q
}

; A new segment of a program, which begins now. 0 if there is no room for one.
define internal i64 @begin(ptr %context, i64 %program) nounwind noinline {
entry:
  %segments = load ptr, field context.segments of %context
  %none = icmp eq ptr %segments, null
  br i1 %none, label %full, label %take
take:
  %next.p = field context.next of %context
  %limit = load i64, field context.limit of %context
  %g = atomicrmw add ptr %next.p, i64 1 seq_cst
  %room = icmp slt i64 %g, %limit
  br i1 %room, label %make, label %full
make:
  %me = call i64 @current(ptr %context, i64 %program)
  %before = call ptr @segment(ptr %context, i64 %me)
  %after = call ptr @segment(ptr %context, i64 %g)
  %g.i = trunc i64 %g to i32
  %program.i = trunc i64 %program to i32
  %program.p = field segment.program of %after
  store i32 %program.i, ptr %program.p
  %seen = load i32, field segment.seen of %before
  %seen.q = field segment.seen of %after
  store i32 %seen, ptr %seen.q
  %open.p = field segment.closed of %after
  store i32 0, ptr %open.p
  %closed.p = field segment.closed of %before
  store atomic i32 %g.i, ptr %closed.p release, align 4
  %current = load ptr, field context.current of %context
  %c = getelementptr i32, ptr %current, i64 %program
  store i32 %g.i, ptr %c
  ret i64 %g
full:
  ret i64 0
}

define void @tt.check.release(ptr %context, i64 %program, ptr %p) nounwind noinline {
entry:
  %g = call i64 @begin(ptr %context, i64 %program)
  %none = icmp eq i64 %g, 0
  br i1 %none, label %done, label %tell
tell:
  %slot = call ptr @slot(ptr %context, ptr %p)
  %g.i = trunc i64 %g to i32
  %old = atomicrmw umax ptr %slot, i32 %g.i release
  br label %done
done:
  ret void
}

define void @tt.check.acquire(ptr %context, i64 %program, ptr %p) nounwind noinline {
entry:
  %segments = load ptr, field context.segments of %context
  %none = icmp eq ptr %segments, null
  br i1 %none, label %done, label %learn
learn:
  %slot = call ptr @slot(ptr %context, ptr %p)
  %t = load atomic i32, ptr %slot acquire, align 4
  %me = call i64 @current(ptr %context, i64 %program)
  %mine = call ptr @segment(ptr %context, i64 %me)
  %seen.p = field segment.seen of %mine
  %seen = load i32, ptr %seen.p
  %later = icmp ugt i32 %t, %seen
  br i1 %later, label %put, label %done
put:
  store i32 %t, ptr %seen.p
  br label %done
done:
  ret void
}

define void @tt.check.barrier(ptr %context, i64 %program) nounwind noinline {
  %g = call i64 @begin(ptr %context, i64 %program)
  ret void
}
"""
