"""The check of a row of elements: those whose lanes are alike are looked at together."""

TEXT = """
declare i64 @llvm.smin.i64(i64, i64)

; How many lanes of a mask are on if those are the first ones; -1 for other masks.
define internal i64 @prefix(ptr %mask, i64 %n) nounwind noinline {
entry:
wide:
  %v = phi i64 [0, %entry], [%v32, %wide.more]
  %v32 = add i64 %v, 32
  jump %words unless icmp sle i64 %v32, %n
wide.look:
  %v.x = load <32 x i8>, item i8 %v of %mask, align 1
  %v.off = icmp ne <32 x i8> %v.x, splat (i8 1)
  jump %words if call i1 @llvm.vector.reduce.or.v32i1(<32 x i1> %v.off)
wide.more:
  br label %wide
words:
  %i = phi i64 [%v, %wide], [%v, %wide.look], [%i8, %more]
  %i8 = add i64 %i, 8
  jump %bytes unless icmp sle i64 %i8, %n
word:
  %x = load i64, item i8 %i of %mask, align 1
  jump %bytes unless icmp eq i64 %x, 72340172838076673
more:
  br label %words
bytes:
  %j = phi i64 [%i, %words], [%i, %word], [%j1, %on]
  jump %zeros if icmp sge i64 %j, %n
byte:
  %y = load i8, item i8 %j of %mask
  jump %zeros unless icmp ne i8 %y, 0
on:
  %j1 = add i64 %j, 1
  br label %bytes
zeros:
  %z = phi i64 [%j, %bytes], [%j, %byte], [%z8, %zmore]
  %z8 = add i64 %z, 8
  jump %zbytes unless icmp sle i64 %z8, %n
  %zx = load i64, item i8 %z of %mask, align 1
  ret i64 -1 unless icmp eq i64 %zx, 0
zmore:
  br label %zeros
zbytes:
  %k = phi i64 [%z, %zeros], [%k1, %zon]
  ret i64 %j if icmp sge i64 %k, %n
  %zy = load i8, item i8 %k of %mask
  ret i64 -1 unless icmp eq i8 %zy, 0
zon:
  %k1 = add i64 %k, 1
  br label %zbytes
}

; Whether bytes that any parameter may hold need a closer look.
define i1 @tt.check.span(ptr %context, ptr %site, i64 %program, i64 %from, i64 %to) nounwind noinline {
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
  ret i1 or i1 %below, %above
nowhere:
  %fine = call i1 @is_foreign(i64 %flags, i64 %from)
  ret i1 xor i1 %fine, true
yes:
  ret i1 true
}

define void @tt.check.row(ptr %context, ptr %site, i64 %program, ptr %start, i64 %stride, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline {
  %address = ptrtoint ptr %start to i64
  %origin, %size, %flags = load origin, size, flags of site %site, align 1
  %unknown = icmp slt i64 %origin, 0
  %dense = icmp eq i64 %stride, %size
  %sparse = xor i1 %dense, true
  %atomic = icmp ne i64 %flags & flag(atomic), 0
  jump %slowly if or i1 %sparse, %atomic
  %on = call i64 @prefix(ptr %mask, i64 %n)
  jump %slowly if icmp slt i64 %on, 0
  jump %done if icmp eq i64 %on, 0
  %bytes = mul i64 %on, %size
  %end = add i64 %address, %bytes
  jump %given unless %unknown
search:
  %r.found = call ptr @around(ptr %context, i64 %address, i64 %end)
  %r.i = ptrtoint ptr %r.found to i64
  switch i64 %r.i, label %rights [i64 0, label %nowhere i64 -1, label %slowly]
nowhere:
  jump %done if call i1 @is_foreign(i64 %flags, i64 %address) else %slowly
given:
  %r.given = call ptr @region(ptr %context, i64 %origin)
  %low, %high = load low, high of region %r.given
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  jump %slowly unless and i1 %above, %below
rights:
  %r = phi ptr [%r.found, %search], [%r.given, %given]
  %r.flags = load i64, field region.flags of %r
  %write = icmp ne i64 %flags & flag(writes), 0
  %holes = icmp ne i64 %r.flags & flag(holes), 0
  %fixed = icmp eq i64 %r.flags & flag(writable), 0
  %forbidden = and i1 %write, %fixed
  jump %slowly if or i1 %holes, %forbidden
  %made = icmp ne i64 %r.flags & flag(undefined), 0
  %reads = xor i1 %write, true
  jump %tracked unless and i1 %made, %reads
  jump %slowly unless call i1 @is_defined(ptr %context, ptr %r, i64 %address, i64 %bytes)
tracked:
  %writers = load ptr, field region.writers of %r
  jump %done if icmp eq ptr %writers, null
  %shift = load i64, field region.shift of %r
  %unit = shl i64 1, %shift
  jump %slowly if icmp ne i64 %unit, %size
begin:
  %base = load i64, field region.storage_low of %r
  %from = sub i64 %address, %base
  %first = lshr i64 %from, %shift
fast:
  %i = phi i64 [0, %begin], [%i.next, %fast]
  %cell = add i64 %first, %i
  %left = sub i64 %on, %i
  %lane.now = add i64 %lane, %i
  %did = call i64 @track_row(ptr %context, ptr %site, i64 %program, ptr %r, i64 %cell, i64 %left, i64 %lane.now)
  %i.did = add i64 %i, %did
  %few = add i64 %i.did, 8                        ; up to 8 one by one
  %i.next = call i64 @llvm.smin.i64(i64 %few, i64 %on)
  call void @singly(ptr %context, ptr %site, i64 %program, ptr null, i64 %address, i64 %stride, i64 %i.did,
      i64 %i.next, ptr %mask, i64 %lane)
  jump %fast if icmp slt i64 %i.next, %on else %done
slowly:
  jump %each if %unknown
  %s.r = call ptr @region(ptr %context, i64 %origin)
  call void @scattered(ptr %context, ptr %site, i64 %program, ptr %s.r, ptr null, i64 %address, i64 %stride, i64 %n,
      ptr %mask, i64 %lane)
  ret void
each:
  call void @singly(ptr %context, ptr %site, i64 %program, ptr null, i64 %address, i64 %stride, i64 0, i64 %n,
      ptr %mask, i64 %lane)
done:
  ret void
}

; Rows of a tile, `step` bytes apart, their masks `mask.step`. Stores to memory that nobody reads are looked at here.
define void @tt.check.rows(ptr %context, ptr %site, i64 %program, ptr %start, i64 %step, i64 %rows, i64 %stride, i64 %n,
                           ptr %mask, i64 %mask.step, i64 %lane) nounwind noinline {
entry:
  %address = ptrtoint ptr %start to i64
  %origin, %size, %flags = load origin, size, flags of site %site, align 1
  %known = icmp sge i64 %origin, 0
  %dense = icmp eq i64 %stride, %size
  %write = icmp ne i64 %flags & flag(writes), 0
  %plain = icmp eq i64 %flags & flag(atomic), 0
  %k = select i1 %known, i64 %origin, i64 0
  %r = call ptr @region(ptr %context, i64 %k)
  %low, %high, %base, %shift, %r.flags, %writers = load low, high, storage_low, shift, flags, writers of region %r
  %readers, %lanes = load readers, writing_lanes of region %r
  %whole = icmp eq i64 %r.flags & flag(holes), 0
  %writable = icmp ne i64 %r.flags & flag(writable), 0
  %watched = icmp ne ptr %writers, null
  %unread = icmp eq ptr %readers, null
  %unnumbered = icmp eq ptr %lanes, null
  %unit = shl i64 1, %shift
  %even = icmp eq i64 %unit, %size
  %quick = and i1 %known, %dense, %write, %plain, %whole, %writable, %watched, %unread, %unnumbered, %even
  %older = load i64, field context.base of %context
  %me = call i64 @current(ptr %context, i64 %program)
  %mine = call <32 x i32> @marks.32(i64 %me, i64 0)
  %old = call <32 x i32> @marks.32(i64 %older, i64 1)
each:
  %j = phi i64 [0, %entry], [%j1, %next]
  %j1 = add i64 %j, 1
  %far = mul i64 %j, %step
  %here = add i64 %address, %far
  %m.far = mul i64 %j, %mask.step
  %m = getelementptr i8, ptr %mask, i64 %m.far
  jump %closely unless %quick
  %on = call i64 @prefix(ptr %m, i64 %n)
  %bytes = mul i64 %on, %size
  %end = add i64 %here, %bytes
  %some = icmp sge i64 %on, 0
  %above = icmp uge i64 %here, %low
  %below = icmp ule i64 %end, %high
  jump %closely unless and i1 %above, %below, %some
  %from = sub i64 %here, %base
  %cell = lshr i64 %from, %shift
  %cells = getelementptr i32, ptr %writers, i64 %cell
  jump %next if call i1 @track_written(ptr %cells, i64 %on, <32 x i32> %mine, <32 x i32> %old)
closely:
  %p = inttoptr i64 %here to ptr
  %l.far = mul i64 %j, %n
  %l = add i64 %lane, %l.far
  call void @tt.check.row(ptr %context, ptr %site, i64 %program, ptr %p, i64 %stride, i64 %n, ptr %m, i64 %l)
next:
  jump %each if icmp slt i64 %j1, %rows
  ret void
}
"""
