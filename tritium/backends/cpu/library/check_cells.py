"""The other half of check.py: who touched an element last, and who knows of whom.

A cell of 4 bytes is twice the number of a *segment*, plus 1 for an atomic: one cell for who wrote an element, one for
who read it. A segment is what a program does between two releases or barriers; numbers grow from launch to launch, so
cells of earlier launches are old. The last number of a launch stands for several readers.

A release closes the segment of its program and notes the time, which is the number of the next segment, at the hash of
its address. Who acquires there knows of all segments that were closed by then.
"""

from __future__ import annotations

__all__ = ["TEXT"]

TEXT = """
; The entry of a segment: program, when it was closed, up to when it knows of others.
define internal ptr @segment(ptr %context, i64 %g) nounwind alwaysinline {
  %segments = call ptr @pointer(ptr %context, i64 2)
  %base = call i64 @word(ptr %context, i64 0)
  %k = sub i64 %g, %base
  %p = getelementptr [4 x i32], ptr %segments, i64 %k
  ret ptr %p
}

; Whether all that segment %g has done is known to segment %me.
define internal i1 @ordered(ptr %context, i64 %g, i64 %me) nounwind noinline {
entry:
  %segments = call ptr @pointer(ptr %context, i64 2)
  %none = icmp eq ptr %segments, null
  br i1 %none, label %no, label %look
look:
  %limit = call i64 @word(ptr %context, i64 4)
  %many = icmp eq i64 %g, %limit
  br i1 %many, label %yes, label %compare
compare:
  %theirs = call ptr @segment(ptr %context, i64 %g)
  %mine = call ptr @segment(ptr %context, i64 %me)
  %p = load i32, ptr %theirs
  %q = load i32, ptr %mine
  %same = icmp eq i32 %p, %q
  br i1 %same, label %yes, label %times
times:
  %closed.p = getelementptr i32, ptr %theirs, i64 1
  %closed = load atomic i32, ptr %closed.p monotonic, align 4
  %seen.p = getelementptr i32, ptr %mine, i64 2
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
  %current = call ptr @pointer(ptr %context, i64 1)
  %p = getelementptr i32, ptr %current, i64 %program
  %g = load i32, ptr %p
  %w = zext i32 %g to i64
  ret i64 %w
}

; Look at what others did to a cell; note what this program does. Reports one conflict at most.
define internal void @track(ptr %context, ptr %site, i64 %program, i64 %address, i64 %lane, ptr %region, i64 %cell,
                            i1 %told) nounwind noinline {
entry:
  %flags = call i64 @word(ptr %site, i64 3)
  %size = call i64 @word(ptr %site, i64 2)
  %base = call i64 @word(ptr %context, i64 0)
  %me = call i64 @current(ptr %context, i64 %program)
  %atomic.bits = and i64 %flags, 4
  %atomic = icmp ne i64 %atomic.bits, 0
  %write.bits = and i64 %flags, 2
  %write = icmp ne i64 %write.bits, 0
  %twice = shl i64 %me, 1
  %one = zext i1 %atomic to i64
  %mark.w = or i64 %twice, %one
  %mark = trunc i64 %mark.w to i32
  %writers = call ptr @pointer(ptr %region, i64 5)
  %readers = call ptr @pointer(ptr %region, i64 6)
  %w.p = getelementptr i32, ptr %writers, i64 %cell
  %w = load i32, ptr %w.p
  %w.w = zext i32 %w to i64
  %writer = lshr i64 %w.w, 1
  %fresh = icmp ugt i64 %writer, %base
  %other = icmp ne i64 %writer, %me
  %by.other = and i1 %fresh, %other
  br i1 %by.other, label %written, label %own
own:
  ; This program has written it since its last barrier: another lane may have.
  %lanes = call ptr @pointer(ptr %region, i64 13)
  %no.lanes = icmp eq ptr %lanes, null
  %not.mine = xor i1 %fresh, true
  %skip.0 = or i1 %no.lanes, %not.mine
  %skip = or i1 %skip.0, %atomic
  br i1 %skip, label %after, label %own.lane
own.lane:
  %lane.p = getelementptr i32, ptr %lanes, i64 %cell
  %lane.0 = load i32, ptr %lane.p
  %lane.i = trunc i64 %lane to i32
  %same.lane = icmp eq i32 %lane.0, %lane.i
  %quiet = or i1 %same.lane, %write
  br i1 %quiet, label %after, label %tell.own
tell.own:
  %lane.w = zext i32 %lane.0 to i64
  %value.0 = call i64 @peek(i64 %address, i64 %size)
  call void @report(ptr %context, ptr %site, i64 6, i64 %program, i64 %lane, i64 %address, i64 %lane.w, i64 %value.0)
  br label %after
written:
  %w.bit = and i64 %w.w, 1
  %w.atomic = icmp ne i64 %w.bit, 0
  %both = and i1 %w.atomic, %atomic
  br i1 %both, label %after, label %order
order:
  %known = call i1 @ordered(ptr %context, i64 %writer, i64 %me)
  %silent = or i1 %known, %told
  br i1 %silent, label %after, label %tell
tell:
  %value = call i64 @peek(i64 %address, i64 %size)
  call void @report(ptr %context, ptr %site, i64 5, i64 %program, i64 %lane, i64 %address, i64 %w.w, i64 %value)
  br label %after
after:
  %told.1 = phi i1 [%told, %own], [%told, %own.lane], [%told, %tell.own], [%told, %written], [%told, %order],
                   [true, %tell]
  br i1 %write, label %store, label %load
store:
  %plain.bit = and i64 %w.w, 1
  %plain = icmp eq i64 %plain.bit, 0
  %mine.before = icmp eq i64 %writer, %me
  %k.0 = and i1 %plain, %mine.before
  %stays = and i1 %k.0, %atomic                  ; an atomic does not hide the plain store before it
  %mark.now = select i1 %stays, i32 %w, i32 %mark
  store i32 %mark.now, ptr %w.p
  %lanes.1 = call ptr @pointer(ptr %region, i64 13)
  %no.lanes.1 = icmp eq ptr %lanes.1, null
  br i1 %no.lanes.1, label %reads, label %keep.lane
keep.lane:
  %lane.p1 = getelementptr i32, ptr %lanes.1, i64 %cell
  %lane.i1 = trunc i64 %lane to i32
  store i32 %lane.i1, ptr %lane.p1
  br label %reads
reads:
  %no.readers = icmp eq ptr %readers, null
  br i1 %no.readers, label %done, label %readers.look
readers.look:
  %r.p = getelementptr i32, ptr %readers, i64 %cell
  %r = load i32, ptr %r.p
  %r.w = zext i32 %r to i64
  %reader = lshr i64 %r.w, 1
  %r.fresh = icmp ugt i64 %reader, %base
  %r.other = icmp ne i64 %reader, %me
  %r.atomic.bit = and i64 %r.w, 1
  %r.atomic = icmp ne i64 %r.atomic.bit, 0
  %r.both = and i1 %r.atomic, %atomic
  %r.plain = xor i1 %r.both, true
  %r.0 = and i1 %r.fresh, %r.other
  %r.1 = and i1 %r.0, %r.plain
  %untold = xor i1 %told.1, true
  %r.2 = and i1 %r.1, %untold
  br i1 %r.2, label %r.order, label %done
r.order:
  %r.known = call i1 @ordered(ptr %context, i64 %reader, i64 %me)
  br i1 %r.known, label %done, label %r.tell
r.tell:
  %r.value = call i64 @peek(i64 %address, i64 %size)
  %r.mark = or i64 %r.w, 1099511627776
  call void @report(ptr %context, ptr %site, i64 5, i64 %program, i64 %lane, i64 %address, i64 %r.mark, i64 %r.value)
  br label %done
load:
  %no.readers.1 = icmp eq ptr %readers, null
  br i1 %no.readers.1, label %done, label %note
note:
  %n.p = getelementptr i32, ptr %readers, i64 %cell
  %n = load i32, ptr %n.p
  %n.w = zext i32 %n to i64
  %n.reader = lshr i64 %n.w, 1
  %n.old = icmp ule i64 %n.reader, %base
  %n.own = icmp eq i64 %n.reader, %me
  %n.free = or i1 %n.old, %n.own
  br i1 %n.free, label %n.put, label %n.known
n.known:
  %n.ordered = call i1 @ordered(ptr %context, i64 %n.reader, i64 %me)
  %n.limit = call i64 @word(ptr %context, i64 4)
  %n.twice = shl i64 %n.limit, 1
  %n.many = trunc i64 %n.twice to i32
  %n.few = select i1 %n.ordered, i32 %mark, i32 %n.many
  store i32 %n.few, ptr %n.p
  br label %done
n.put:
  store i32 %mark, ptr %n.p
  br label %done
done:
  ret void
}

; Whether one segment wrote 8 cells, and all it did is known to segment %me. %last are cells that were known before.
define internal i1 @is_known(ptr %context, <8 x i32> %cells, i64 %me, ptr %last) nounwind alwaysinline {
entry:
  %before = load <8 x i32>, ptr %last
  %new = icmp ne <8 x i32> %cells, %before
  %any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %new)
  br i1 %any, label %look, label %yes
look:
  %x = extractelement <8 x i32> %cells, i64 0
  %x.0 = insertelement <8 x i32> poison, i32 %x, i64 0
  %all = shufflevector <8 x i32> %x.0, <8 x i32> poison, <8 x i32> zeroinitializer
  %differs = icmp ne <8 x i32> %cells, %all
  %some = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %differs)
  br i1 %some, label %no, label %ask
ask:
  %w = zext i32 %x to i64
  %g = lshr i64 %w, 1
  %known = call i1 @ordered(ptr %context, i64 %g, i64 %me)
  br i1 %known, label %keep, label %no
keep:
  store <8 x i32> %cells, ptr %last
  ret i1 true
yes:
  ret i1 true
no:
  ret i1 false
}

; As many cells of a row as 8 at a time take, while there is no conflict. Returns how many lanes were done.
define internal i64 @track_row(ptr %context, ptr %site, i64 %program, ptr %region, i64 %cell, i64 %n, i64 %lane)
    nounwind noinline {
entry:
  %flags = call i64 @word(ptr %site, i64 3)
  %base.w = call i64 @word(ptr %context, i64 0)
  %me = call i64 @current(ptr %context, i64 %program)
  %limit = call i64 @word(ptr %context, i64 4)
  %many.w = shl i64 %limit, 1
  %many.i = trunc i64 %many.w to i32
  %mark.w = shl i64 %me, 1
  %mark = trunc i64 %mark.w to i32
  %base.2 = shl i64 %base.w, 1
  %base.3 = or i64 %base.2, 1
  %base = trunc i64 %base.3 to i32
  %m.0 = insertelement <8 x i32> poison, i32 %mark, i64 0
  %mine = shufflevector <8 x i32> %m.0, <8 x i32> poison, <8 x i32> zeroinitializer
  %b.0 = insertelement <8 x i32> poison, i32 %base, i64 0
  %old = shufflevector <8 x i32> %b.0, <8 x i32> poison, <8 x i32> zeroinitializer
  %a.0 = insertelement <8 x i32> poison, i32 %many.i, i64 0
  %many = shufflevector <8 x i32> %a.0, <8 x i32> poison, <8 x i32> zeroinitializer
  %write.bit = and i64 %flags, 2
  %write = icmp ne i64 %write.bit, 0
  %writers = call ptr @pointer(ptr %region, i64 5)
  %readers = call ptr @pointer(ptr %region, i64 6)
  %lanes = call ptr @pointer(ptr %region, i64 13)
  %no.readers = icmp eq ptr %readers, null
  %no.lanes = icmp eq ptr %lanes, null
  %last.w = alloca <8 x i32>
  %last.r = alloca <8 x i32>
  store <8 x i32> zeroinitializer, ptr %last.w
  store <8 x i32> zeroinitializer, ptr %last.r
  br label %next
next:
  %i = phi i64 [0, %entry], [%i8, %again]
  %i8 = add i64 %i, 8
  %room = icmp sle i64 %i8, %n
  br i1 %room, label %look, label %done
look:
  %c = add i64 %cell, %i
  %w.p = getelementptr i32, ptr %writers, i64 %c
  %w = load <8 x i32>, ptr %w.p, align 4
  %w.new = icmp ugt <8 x i32> %w, %old
  %w.other = icmp ne <8 x i32> %w, %mine
  %w.bad = and <8 x i1> %w.new, %w.other
  %w.any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %w.bad)
  br i1 %w.any, label %theirs, label %ours
theirs:
  %w.known = call i1 @is_known(ptr %context, <8 x i32> %w, i64 %me, ptr %last.w)
  br i1 %w.known, label %reads, label %done
ours:
  %w.own.any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %w.new)
  %may.reread = xor i1 %no.lanes, true
  %l.0 = and i1 %w.own.any, %may.reread
  %is.load = xor i1 %write, true
  %l.1 = and i1 %l.0, %is.load
  br i1 %l.1, label %compare, label %reads
compare:
  %l.p = getelementptr i32, ptr %lanes, i64 %c
  %l = load <8 x i32>, ptr %l.p, align 4
  %here.w = add i64 %lane, %i
  %here = trunc i64 %here.w to i32
  %h.0 = insertelement <8 x i32> poison, i32 %here, i64 0
  %h.1 = shufflevector <8 x i32> %h.0, <8 x i32> poison, <8 x i32> zeroinitializer
  %h = add <8 x i32> %h.1, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %l.differs = icmp ne <8 x i32> %l, %h
  %l.bad = and <8 x i1> %l.differs, %w.new
  %l.any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %l.bad)
  br i1 %l.any, label %done, label %reads
reads:
  br i1 %no.readers, label %put, label %both
both:
  %r.p = getelementptr i32, ptr %readers, i64 %c
  %r = load <8 x i32>, ptr %r.p, align 4
  %r.new = icmp ugt <8 x i32> %r, %old
  %r.other = icmp ne <8 x i32> %r, %mine
  %r.bad = and <8 x i1> %r.new, %r.other
  %r.any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %r.bad)
  br i1 %r.any, label %others, label %mark.reads
others:
  %r.known = call i1 @is_known(ptr %context, <8 x i32> %r, i64 %me, ptr %last.r)
  %r.conflict = xor i1 %r.known, true
  %stop = and i1 %write, %r.conflict
  br i1 %stop, label %done, label %mark.others
mark.others:
  %crowd = select <8 x i1> %r.bad, <8 x i32> %many, <8 x i32> %mine
  %several = select i1 %r.known, <8 x i32> %mine, <8 x i32> %crowd
  br label %mark.reads
mark.reads:
  %r.now = phi <8 x i32> [%mine, %both], [%several, %mark.others]
  br i1 %write, label %put, label %put.read
put.read:
  store <8 x i32> %r.now, ptr %r.p, align 4
  br label %again
put:
  br i1 %write, label %put.write, label %again
put.write:
  store <8 x i32> %mine, ptr %w.p, align 4
  br i1 %no.lanes, label %again, label %put.lanes
put.lanes:
  %n.p = getelementptr i32, ptr %lanes, i64 %c
  %n.here.w = add i64 %lane, %i
  %n.here = trunc i64 %n.here.w to i32
  %n.0 = insertelement <8 x i32> poison, i32 %n.here, i64 0
  %n.1 = shufflevector <8 x i32> %n.0, <8 x i32> poison, <8 x i32> zeroinitializer
  %n.lanes = add <8 x i32> %n.1, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  store <8 x i32> %n.lanes, ptr %n.p, align 4
  br label %again
again:
  br label %next
done:
  ret i64 %i
}
declare i1 @llvm.vector.reduce.or.v8i1(<8 x i1>)

define internal ptr @slot(ptr %context, ptr %p) nounwind alwaysinline {
  %slots = call ptr @pointer(ptr %context, i64 9)
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
  %segments = call ptr @pointer(ptr %context, i64 2)
  %none = icmp eq ptr %segments, null
  br i1 %none, label %full, label %take
take:
  %next.p = getelementptr i64, ptr %context, i64 3
  %limit = call i64 @word(ptr %context, i64 4)
  %g = atomicrmw add ptr %next.p, i64 1 seq_cst
  %room = icmp slt i64 %g, %limit
  br i1 %room, label %make, label %full
make:
  %me = call i64 @current(ptr %context, i64 %program)
  %before = call ptr @segment(ptr %context, i64 %me)
  %after = call ptr @segment(ptr %context, i64 %g)
  %g.i = trunc i64 %g to i32
  %program.i = trunc i64 %program to i32
  store i32 %program.i, ptr %after
  %seen.p = getelementptr i32, ptr %before, i64 2
  %seen = load i32, ptr %seen.p
  %seen.q = getelementptr i32, ptr %after, i64 2
  store i32 %seen, ptr %seen.q
  %open.p = getelementptr i32, ptr %after, i64 1
  store i32 0, ptr %open.p
  %closed.p = getelementptr i32, ptr %before, i64 1
  store atomic i32 %g.i, ptr %closed.p release, align 4
  %current = call ptr @pointer(ptr %context, i64 1)
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
  %segments = call ptr @pointer(ptr %context, i64 2)
  %none = icmp eq ptr %segments, null
  br i1 %none, label %done, label %learn
learn:
  %slot = call ptr @slot(ptr %context, ptr %p)
  %t = load atomic i32, ptr %slot acquire, align 4
  %me = call i64 @current(ptr %context, i64 %program)
  %mine = call ptr @segment(ptr %context, i64 %me)
  %seen.p = getelementptr i32, ptr %mine, i64 2
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
