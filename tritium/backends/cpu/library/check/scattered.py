"""The checks of elements at any addresses, eight at a time: those that are plainly fine are looked at together."""

TEXT = """
declare <8 x i32> @llvm.masked.gather.v8i32.v8p0(<8 x ptr>, <8 x i1>, <8 x i32>)
declare <8 x i64> @llvm.masked.gather.v8i64.v8p0(<8 x ptr>, <8 x i1>, <8 x i64>)
declare void @llvm.masked.scatter.v8i32.v8p0(<8 x i32>, <8 x ptr>, <8 x i1>)

; Whether 8 elements of a row of memory hold something that was written.
define internal i1 @are_defined(ptr %context, ptr %r, <8 x i64> %addresses, <8 x i1> %on) nounwind noinline {
  %s.low, %s.high = load storage_low, storage_high of region %r
  %pattern = load i64, field context.pattern of %context
  %lows = splat <8 x i64> %s.low
  %highs = splat <8 x i64> %s.high
  %never = splat <8 x i64> %pattern
  %whole = and <8 x i64> %addresses, splat (i64 -8)
  %ends = add <8 x i64> %whole, splat (i64 8)
  %above = icmp uge <8 x i64> %whole, %lows
  %below = icmp ule <8 x i64> %ends, %highs
  %in = and <8 x i1> %above, %below, %on
  %p = inttoptr <8 x i64> %whole to <8 x ptr>
  %x = call <8 x i64> @llvm.masked.gather.v8i64.v8p0(<8 x ptr> align 8 %p, <8 x i1> %in, <8 x i64> zeroinitializer)
  %same = icmp eq <8 x i64> %x, %never
  %any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %same)
  ret i1 xor i1 %any, true
}

; n elements of one row of memory: at %addresses, or %stride bytes apart from %start on if that is null.
define internal void @scattered(ptr %context, ptr %site, i64 %program, ptr %r, ptr %addresses, i64 %start, i64 %stride,
                             i64 %n, ptr %mask, i64 %lane) nounwind noinline {
entry:
  %size, %flags = load size, flags of site %site, align 1
  %r.flags, %writers, %readers, %lanes = load flags, writers, readers, writing_lanes of region %r
  %segments = load ptr, field context.segments of %context
  %low, %high, %base, %shift = load low, high, storage_low, shift of region %r
  %older, %limit = load base, limit of context %context
  %me = call i64 @current(ptr %context, i64 %program)
  %listed = icmp ne ptr %addresses, null
  %write = icmp ne i64 %flags & flag(writes), 0
  %atomic = icmp ne i64 %flags & flag(atomic), 0
  %holes = icmp ne i64 %r.flags & flag(holes), 0
  %fixed = icmp eq i64 %r.flags & flag(writable), 0
  %undefined = icmp ne i64 %r.flags & flag(undefined), 0
  %forbidden = and i1 %write, %fixed
  %reads = xor i1 %write, true
  %ask = and i1 %reads, %undefined
  %watched = icmp ne ptr %writers, null
  %has.readers = icmp ne ptr %readers, null
  %has.lanes = icmp ne ptr %lanes, null
  %ordered = icmp ne ptr %segments, null
  %unit = shl i64 1, %shift
  %uneven.0 = icmp ne i64 %unit, %size
  %uneven = and i1 %uneven.0, %watched
  %short = icmp slt i64 %high, %size
  %closely = or i1 %atomic, %holes, %forbidden, %uneven, %short
  %last = sub i64 %high, %size
  %lows = splat <8 x i64> %low
  %lasts = splat <8 x i64> %last
  %bases = splat <8 x i64> %base
  %shifts = splat <8 x i64> %shift
  %inner = sub i64 %size, 1
  %inners = splat <8 x i64> %inner
  %mine = call <8 x i32> @marks.8(i64 %me, i64 0)
  %old = call <8 x i32> @marks.8(i64 %older, i64 1)
  %many = call <8 x i32> @marks.8(i64 %limit, i64 0)
  %strides = splat <8 x i64> %stride
  %steps = mul <8 x i64> %strides, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
next:
  %k = phi i64 [0, %entry], [%k8, %done]
  %k8 = add i64 %k, 8
  ret void unless icmp slt i64 %k, %n
  %room = icmp sle i64 %k8, %n
  %unroomy = xor i1 %room, true
  jump %singly if or i1 %unroomy, %closely
  %m = load <8 x i8>, item i8 %k of %mask, align 1
  %on = icmp ne <8 x i8> %m, zeroinitializer
  jump %count unless %listed
read:
  %a.read = load <8 x i64>, item i64 %k of %addresses, align 8
  br label %compare
count:
  %step = mul i64 %k, %stride
  %here = add i64 %start, %step
  %heres = splat <8 x i64> %here
  %a.counted = add <8 x i64> %heres, %steps
compare:
  %a = phi <8 x i64> [%a.read, %read], [%a.counted, %count]
  %below = icmp ult <8 x i64> %a, %lows
  %above = icmp ugt <8 x i64> %a, %lasts
  %out.0 = or <8 x i1> %below, %above
  %from = sub <8 x i64> %a, %bases
  %rest = and <8 x i64> %from, %inners
  %between.0 = icmp ne <8 x i64> %rest, zeroinitializer
  %out.1 = select i1 %watched, <8 x i1> %between.0, <8 x i1> zeroinitializer
  %out.2 = or <8 x i1> %out.0, %out.1
  %out = and <8 x i1> %out.2, %on
  jump %singly if call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %out)
  jump %cells unless %ask
  jump %singly unless call i1 @are_defined(ptr %context, ptr %r, <8 x i64> %a, <8 x i1> %on)
cells:
  jump %done unless %watched
  %c = lshr <8 x i64> %from, %shifts
  %w.p = getelementptr i32, ptr %writers, <8 x i64> %c
  %w = call <8 x i32> @llvm.masked.gather.v8i32.v8p0(<8 x ptr> align 4 %w.p, <8 x i1> %on, <8 x i32> zeroinitializer)
  %w.new = icmp ugt <8 x i32> %w, %old
  %w.other = icmp ne <8 x i32> %w, %mine
  %w.bad = and <8 x i1> %w.new, %w.other
  %own = and i1 %reads, %has.lanes
  %w.stop = select i1 %own, <8 x i1> %w.new, <8 x i1> %w.bad    ; what another lane has written
  jump %singly if call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %w.stop)
  jump %note unless %has.readers
  %r.p = getelementptr i32, ptr %readers, <8 x i64> %c
  %x = call <8 x i32> @llvm.masked.gather.v8i32.v8p0(<8 x ptr> align 4 %r.p, <8 x i1> %on, <8 x i32> zeroinitializer)
  %x.new = icmp ugt <8 x i32> %x, %old
  %x.other = icmp ne <8 x i32> %x, %mine
  %x.bad = and <8 x i1> %x.new, %x.other
  %x.any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %x.bad)
  %matters = or i1 %write, %ordered
  jump %singly if and i1 %x.any, %matters
  jump %note if %write
  %x.now = select <8 x i1> %x.bad, <8 x i32> %many, <8 x i32> %mine
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %x.now, <8 x ptr> align 4 %r.p, <8 x i1> %on)
  br label %done
note:
  jump %done unless %write
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %mine, <8 x ptr> align 4 %w.p, <8 x i1> %on)
  jump %done unless %has.lanes
  %l.p = getelementptr i32, ptr %lanes, <8 x i64> %c
  %l.w = add i64 %lane, %k
  %l.first = splat <8 x i64> %l.w
  %l.all = add <8 x i64> %l.first, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
  %l = trunc <8 x i64> %l.all to <8 x i32>
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %l, <8 x ptr> align 4 %l.p, <8 x i1> %on)
  br label %done
singly:
  %stop = select i1 %room, i64 %k8, i64 %n
  call void @singly(ptr %context, ptr %site, i64 %program, ptr %addresses, i64 %start, i64 %stride, i64 %k, i64 %stop,
      ptr %mask, i64 %lane)
done:
  br label %next
}

; How many lanes are on, if their elements follow each other in memory; 0 for any others. %n is a multiple of 8.
define internal i64 @consecutive(ptr %addresses, i64 %n, ptr %mask, i64 %size, i64 %start) nounwind noinline {
entry:
  %sizes = splat <8 x i64> %size
  %before = sub i64 %start, %size
each:
  %k = phi i64 [0, %entry], [%k8, %next]
  %count = phi i64 [0, %entry], [%count1, %next]
  %m = load i64, item i8 %k of %mask, align 1
  %sums = mul i64 %m, 72340172838076673                  ; byte i: how many lanes are on up to lane i
  %ranks.8 = bitcast i64 %sums to <8 x i8>
  %ranks = zext <8 x i8> %ranks.8 to <8 x i64>
  %bytes = bitcast i64 %m to <8 x i8>
  %on = icmp ne <8 x i8> %bytes, zeroinitializer
  %done = mul i64 %count, %size
  %from = add i64 %before, %done
  %froms = splat <8 x i64> %from
  %steps = mul <8 x i64> %ranks, %sizes
  %there = add <8 x i64> %froms, %steps
  %a = load <8 x i64>, item i64 %k of %addresses, align 8
  %differs = icmp ne <8 x i64> %a, %there
  %bad = and <8 x i1> %differs, %on
  ret i64 0 if call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %bad)
next:
  %more.on = lshr i64 %sums, 56
  %count1 = add i64 %count, %more.on
  %k8 = add i64 %k, 8
  jump %each if icmp slt i64 %k8, %n
  ret i64 %count1
}

; The first lane that is on, or n.
define internal i64 @first_on(ptr %mask, i64 %n) nounwind noinline {
entry:
each:
  %k = phi i64 [0, %entry], [%k1, %next]
  ret i64 %k unless icmp slt i64 %k, %n
  %m = load i8, item i8 %k of %mask
  ret i64 %k if icmp ne i8 %m, 0
next:
  %k1 = add i64 %k, 1
  br label %each
}

; From which lane on elements are still to be looked at: those before follow each other in memory, and are fine.
define internal i64 @run(ptr %context, ptr %site, i64 %program, ptr %r, ptr %addresses, i64 %n, ptr %mask) nounwind
    noinline {
  %size, %flags = load size, flags of site %site, align 1
  %r.flags, %writers, %lanes, %shift = load flags, writers, writing_lanes, shift of region %r
  %write = icmp ne i64 %flags & flag(writes), 0
  %atomic = icmp ne i64 %flags & flag(atomic), 0
  %holes = icmp ne i64 %r.flags & flag(holes), 0
  %fixed = icmp eq i64 %r.flags & flag(writable), 0
  %unwatched = icmp eq ptr %writers, null
  %numbered = icmp ne ptr %lanes, null
  %unit = shl i64 1, %shift
  %uneven = icmp ne i64 %unit, %size
  %ragged = icmp ne i64 %n & 7, 0
  %loads = xor i1 %write, true
  ret i64 0 if or i1 %loads, %atomic, %holes, %fixed, %unwatched, %numbered, %uneven, %ragged
  %k.0 = call i64 @first_on(ptr %mask, i64 %n)
  ret i64 %n if icmp eq i64 %k.0, %n
  %start = load i64, item i64 %k.0 of %addresses
  %count = call i64 @consecutive(ptr %addresses, i64 %n, ptr %mask, i64 %size, i64 %start)
  ret i64 0 if icmp slt i64 %count, 8
  %low, %high, %base = load low, high, storage_low of region %r
  %length = mul i64 %count, %size
  %stop = add i64 %start, %length
  %from = sub i64 %start, %base
  %cell = lshr i64 %from, %shift
  %whole = shl i64 %cell, %shift
  %above = icmp uge i64 %start, %low
  %below = icmp ule i64 %stop, %high
  %even = icmp eq i64 %whole, %from
  ret i64 0 unless and i1 %above, %below, %even
track:
  %did = call i64 @track_row(ptr %context, ptr %site, i64 %program, ptr %r, i64 %cell, i64 %count, i64 0)
back:
  %k = phi i64 [%n, %track], [%k8, %step]
  %done = phi i64 [%count, %track], [%done1, %step]
  ret i64 %k unless icmp sgt i64 %done, %did
step:
  %k8 = sub i64 %k, 8
  %m = load i64, item i8 %k8 of %mask, align 1
  %sums = mul i64 %m, 72340172838076673
  %on = lshr i64 %sums, 56
  %done1 = sub i64 %done, %on
  br label %back
}

define void @tt.check.lanes(ptr %context, ptr %site, i64 %program, ptr %addresses, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline {
  %origin = load i64, field site.origin of %site, align 1
  jump %each if icmp slt i64 %origin, 0
  %r = call ptr @region(ptr %context, i64 %origin)
  %did = call i64 @run(ptr %context, ptr %site, i64 %program, ptr %r, ptr %addresses, i64 %n, ptr %mask)
  %left = sub i64 %n, %did
  %a.left = getelementptr i64, ptr %addresses, i64 %did
  %m.left = getelementptr i8, ptr %mask, i64 %did
  %l.left = add i64 %lane, %did
  call void @scattered(ptr %context, ptr %site, i64 %program, ptr %r, ptr %a.left, i64 0, i64 0, i64 %left, ptr %m.left,
      i64 %l.left)
  ret void
each:
  call void @singly(ptr %context, ptr %site, i64 %program, ptr %addresses, i64 0, i64 0, i64 0, i64 %n, ptr %mask,
      i64 %lane)
  ret void
}
"""
