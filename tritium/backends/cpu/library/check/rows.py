"""The check of a row of elements: those whose lanes are alike are looked at together."""

from __future__ import annotations

__all__ = ["TEXT"]

TEXT = """
; How many lanes of a mask are on if those are the first ones; -1 for other masks.
define internal i64 @prefix(ptr %mask, i64 %n) nounwind noinline {
entry:
  br label %wide
wide:
  %v = phi i64 [0, %entry], [%v32, %wide.more]
  %v32 = add i64 %v, 32
  %v.room = icmp sle i64 %v32, %n
  br i1 %v.room, label %wide.look, label %words
wide.look:
  %v.p = getelementptr i8, ptr %mask, i64 %v
  %v.x = load <32 x i8>, ptr %v.p, align 1
  %v.off = icmp ne <32 x i8> %v.x, splat (i8 1)
  %v.any = call i1 @llvm.vector.reduce.or.v32i1(<32 x i1> %v.off)
  br i1 %v.any, label %words, label %wide.more
wide.more:
  br label %wide
words:
  %i = phi i64 [%v, %wide], [%v, %wide.look], [%i8, %more]
  %i8 = add i64 %i, 8
  %room = icmp sle i64 %i8, %n
  br i1 %room, label %word, label %bytes
word:
  %p = getelementptr i8, ptr %mask, i64 %i
  %x = load i64, ptr %p, align 1
  %ones = icmp eq i64 %x, 72340172838076673
  br i1 %ones, label %more, label %bytes
more:
  br label %words
bytes:
  %j = phi i64 [%i, %words], [%i, %word], [%j1, %on]
  %at.end = icmp sge i64 %j, %n
  br i1 %at.end, label %zeros, label %byte
byte:
  %q = getelementptr i8, ptr %mask, i64 %j
  %y = load i8, ptr %q
  %set = icmp ne i8 %y, 0
  br i1 %set, label %on, label %zeros
on:
  %j1 = add i64 %j, 1
  br label %bytes
zeros:
  %z = phi i64 [%j, %bytes], [%j, %byte], [%z8, %zmore]
  %z8 = add i64 %z, 8
  %zroom = icmp sle i64 %z8, %n
  br i1 %zroom, label %zword, label %zbytes
zword:
  %zp = getelementptr i8, ptr %mask, i64 %z
  %zx = load i64, ptr %zp, align 1
  %none = icmp eq i64 %zx, 0
  br i1 %none, label %zmore, label %other
zmore:
  br label %zeros
zbytes:
  %k = phi i64 [%z, %zeros], [%k1, %zon]
  %k.end = icmp sge i64 %k, %n
  br i1 %k.end, label %done, label %zbyte
zbyte:
  %zq = getelementptr i8, ptr %mask, i64 %k
  %zy = load i8, ptr %zq
  %clear = icmp eq i8 %zy, 0
  br i1 %clear, label %zon, label %other
zon:
  %k1 = add i64 %k, 1
  br label %zbytes
done:
  ret i64 %j
other:
  ret i64 -1
}

; Whether bytes that any parameter may hold need a closer look.
define i1 @tt.check.span(ptr %context, ptr %site, i64 %program, i64 %from, i64 %to) nounwind noinline {
entry:
  %r = call ptr @around(ptr %context, i64 %from, i64 %to)
  %r.i = ptrtoint ptr %r to i64
  %flags = load i64, field site.flags of %site, align 1
  switch i64 %r.i, label %inside [i64 0, label %nowhere i64 -1, label %yes]
inside:
  %write = icmp ne i64 %flags & flag(writes), 0
  %read.low = field region.read_low of %r
  %read.high = field region.read_high of %r
  %write.low = field region.write_low of %r
  %write.high = field region.write_high of %r
  %low.p = select i1 %write, ptr %write.low, ptr %read.low
  %high.p = select i1 %write, ptr %write.high, ptr %read.high
  %low = load i64, ptr %low.p
  %high = load i64, ptr %high.p
  %below = icmp ult i64 %from, %low
  %above = icmp ugt i64 %to, %high
  %out = or i1 %below, %above
  ret i1 %out
nowhere:
  %fine = call i1 @is_foreign(i64 %flags, i64 %from)
  %bad = xor i1 %fine, true
  ret i1 %bad
yes:
  ret i1 true
}

define void @tt.check.row(ptr %context, ptr %site, i64 %program, ptr %start, i64 %stride, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline {
entry:
  %address = ptrtoint ptr %start to i64
  %origin = load i64, field site.origin of %site, align 1
  %size = load i64, field site.size of %site, align 1
  %flags = load i64, field site.flags of %site, align 1
  %unknown = icmp slt i64 %origin, 0
  %dense = icmp eq i64 %stride, %size
  %sparse = xor i1 %dense, true
  %atomic = icmp ne i64 %flags & flag(atomic), 0
  %s.1 = or i1 %sparse, %atomic
  br i1 %s.1, label %slowly, label %count
count:
  %on = call i64 @prefix(ptr %mask, i64 %n)
  %scattered = icmp slt i64 %on, 0
  br i1 %scattered, label %slowly, label %some
some:
  %nothing = icmp eq i64 %on, 0
  br i1 %nothing, label %done, label %reach
reach:
  %bytes = mul i64 %on, %size
  %end = add i64 %address, %bytes
  br i1 %unknown, label %search, label %given
search:
  %r.found = call ptr @around(ptr %context, i64 %address, i64 %end)
  %r.i = ptrtoint ptr %r.found to i64
  switch i64 %r.i, label %rights [i64 0, label %nowhere i64 -1, label %slowly]
nowhere:
  %fine = call i1 @is_foreign(i64 %flags, i64 %address)
  br i1 %fine, label %done, label %slowly
given:
  %r.given = call ptr @region(ptr %context, i64 %origin)
  %low = load i64, field region.low of %r.given
  %high = load i64, field region.high of %r.given
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %in = and i1 %above, %below
  br i1 %in, label %rights, label %slowly
rights:
  %r = phi ptr [%r.found, %search], [%r.given, %given]
  %r.flags = load i64, field region.flags of %r
  %write = icmp ne i64 %flags & flag(writes), 0
  %holes = icmp ne i64 %r.flags & flag(holes), 0
  %fixed = icmp eq i64 %r.flags & flag(writable), 0
  %forbidden = and i1 %write, %fixed
  %t.1 = or i1 %holes, %forbidden
  br i1 %t.1, label %slowly, label %contents
contents:
  %made = icmp ne i64 %r.flags & flag(undefined), 0
  %reads = xor i1 %write, true
  %ask = and i1 %made, %reads
  br i1 %ask, label %scan, label %tracked
scan:
  %defined = call i1 @is_defined(ptr %context, ptr %r, i64 %address, i64 %bytes)
  br i1 %defined, label %tracked, label %slowly
tracked:
  %writers = load ptr, field region.writers of %r
  %free = icmp eq ptr %writers, null
  br i1 %free, label %done, label %granule
granule:
  %shift = load i64, field region.shift of %r
  %unit = shl i64 1, %shift
  %uneven = icmp ne i64 %unit, %size
  br i1 %uneven, label %slowly, label %begin
begin:
  %base = load i64, field region.storage_low of %r
  %from = sub i64 %address, %base
  %first = lshr i64 %from, %shift
  br label %fast
fast:
  %i = phi i64 [0, %begin], [%i.next, %few]
  %cell = add i64 %first, %i
  %left = sub i64 %on, %i
  %lane.now = add i64 %lane, %i
  %did = call i64 @track_row(ptr %context, ptr %site, i64 %program, ptr %r, i64 %cell, i64 %left, i64 %lane.now)
  %i.did = add i64 %i, %did
  ; then up to 8 one by one
  br label %single
single:
  %k = phi i64 [0, %fast], [%k1, %one]
  %at = add i64 %i.did, %k
  %more = icmp slt i64 %at, %on
  %few.more = icmp slt i64 %k, 8
  %go = and i1 %more, %few.more
  br i1 %go, label %one, label %few
one:
  %step = mul i64 %at, %stride
  %here = add i64 %address, %step
  %m = getelementptr i8, ptr %mask, i64 %at
  %l = add i64 %lane, %at
  call void @lane(ptr %context, ptr %site, i64 %program, i64 %here, ptr %m, i64 %l)
  %k1 = add i64 %k, 1
  br label %single
few:
  %i.next = add i64 %i.did, %k
  %again = icmp slt i64 %i.next, %on
  br i1 %again, label %fast, label %done
slowly:
  br i1 %unknown, label %each, label %several
several:
  %s.r = call ptr @region(ptr %context, i64 %origin)
  call void @scattered(ptr %context, ptr %site, i64 %program, ptr %s.r, ptr null, i64 %address, i64 %stride, i64 %n,
      ptr %mask, i64 %lane)
  ret void
each:
  %e = phi i64 [0, %slowly], [%e1, %each]
  %e.step = mul i64 %e, %stride
  %e.here = add i64 %address, %e.step
  %e.m = getelementptr i8, ptr %mask, i64 %e
  %e.l = add i64 %lane, %e
  call void @lane(ptr %context, ptr %site, i64 %program, i64 %e.here, ptr %e.m, i64 %e.l)
  %e1 = add i64 %e, 1
  %e.more = icmp slt i64 %e1, %n
  br i1 %e.more, label %each, label %done
done:
  ret void
}

; Rows of a tile, `step` bytes apart, their masks `mask.step`. Stores to memory that nobody reads are looked at here.
define void @tt.check.rows(ptr %context, ptr %site, i64 %program, ptr %start, i64 %step, i64 %rows, i64 %stride, i64 %n,
                           ptr %mask, i64 %mask.step, i64 %lane) nounwind noinline {
entry:
  %address = ptrtoint ptr %start to i64
  %origin = load i64, field site.origin of %site, align 1
  %size = load i64, field site.size of %site, align 1
  %flags = load i64, field site.flags of %site, align 1
  %known = icmp sge i64 %origin, 0
  %dense = icmp eq i64 %stride, %size
  %write = icmp ne i64 %flags & flag(writes), 0
  %plain = icmp eq i64 %flags & flag(atomic), 0
  %q.0 = and i1 %known, %dense
  %q.1 = and i1 %q.0, %write
  %q.2 = and i1 %q.1, %plain
  %k = select i1 %known, i64 %origin, i64 0
  %r = call ptr @region(ptr %context, i64 %k)
  %low = load i64, field region.low of %r
  %high = load i64, field region.high of %r
  %base = load i64, field region.storage_low of %r
  %shift = load i64, field region.shift of %r
  %r.flags = load i64, field region.flags of %r
  %writers = load ptr, field region.writers of %r
  %readers = load ptr, field region.readers of %r
  %lanes = load ptr, field region.writing_lanes of %r
  %whole = icmp eq i64 %r.flags & flag(holes), 0
  %writable = icmp ne i64 %r.flags & flag(writable), 0
  %watched = icmp ne ptr %writers, null
  %unread = icmp eq ptr %readers, null
  %unnumbered = icmp eq ptr %lanes, null
  %unit = shl i64 1, %shift
  %even = icmp eq i64 %unit, %size
  %q.3 = and i1 %q.2, %whole
  %q.4 = and i1 %q.3, %writable
  %q.5 = and i1 %q.4, %watched
  %q.6 = and i1 %q.5, %unread
  %q.7 = and i1 %q.6, %unnumbered
  %quick = and i1 %q.7, %even
  %older = load i64, field context.base of %context
  %me = call i64 @current(ptr %context, i64 %program)
  %mark.w = shl i64 %me, 1
  %mark = trunc i64 %mark.w to i32
  %old.2 = shl i64 %older, 1
  %old.1 = or i64 %old.2, 1
  %old.i = trunc i64 %old.1 to i32
  %m.0 = insertelement <32 x i32> poison, i32 %mark, i64 0
  %mine = shufflevector <32 x i32> %m.0, <32 x i32> poison, <32 x i32> zeroinitializer
  %o.0 = insertelement <32 x i32> poison, i32 %old.i, i64 0
  %old = shufflevector <32 x i32> %o.0, <32 x i32> poison, <32 x i32> zeroinitializer
  br label %each
each:
  %j = phi i64 [0, %entry], [%j1, %next]
  %j1 = add i64 %j, 1
  %far = mul i64 %j, %step
  %here = add i64 %address, %far
  %m.far = mul i64 %j, %mask.step
  %m = getelementptr i8, ptr %mask, i64 %m.far
  br i1 %quick, label %count, label %closely
count:
  %on = call i64 @prefix(ptr %m, i64 %n)
  %bytes = mul i64 %on, %size
  %end = add i64 %here, %bytes
  %some = icmp sge i64 %on, 0
  %above = icmp uge i64 %here, %low
  %below = icmp ule i64 %end, %high
  %in.0 = and i1 %above, %below
  %in = and i1 %in.0, %some
  br i1 %in, label %track, label %closely
track:
  %from = sub i64 %here, %base
  %cell = lshr i64 %from, %shift
  %cells = getelementptr i32, ptr %writers, i64 %cell
  %fine = call i1 @track_written(ptr %cells, i64 %on, <32 x i32> %mine, <32 x i32> %old)
  br i1 %fine, label %next, label %closely
closely:
  %p = inttoptr i64 %here to ptr
  %l.far = mul i64 %j, %n
  %l = add i64 %lane, %l.far
  call void @tt.check.row(ptr %context, ptr %site, i64 %program, ptr %p, i64 %stride, i64 %n, ptr %m, i64 %l)
  br label %next
next:
  %more = icmp slt i64 %j1, %rows
  br i1 %more, label %each, label %done
done:
  ret void
}
"""
