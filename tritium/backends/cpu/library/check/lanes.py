"""The checks of an access lane by lane: extent, rights, contents, and who else touches the element."""

TEXT = """
; One lane: is it inside, may it be written, has it been written, who else touches it?
define internal void @lane(ptr %context, ptr %site, i64 %program, i64 %address, ptr %mask, i64 %lane)
    nounwind noinline {
  %m = load i8, ptr %mask
  jump %done if icmp eq i8 %m, 0
  %origin, %size, %flags = load origin, size, flags of site %site, align 1
  jump %given unless icmp slt i64 %origin, 0
search:
  %r.found = call ptr @find(ptr %context, i64 %address, i64 %size)
  jump %inside unless icmp eq ptr %r.found, null
  jump %done if call i1 @is_foreign(i64 %flags, i64 %address) else %out
given:
  %r.given = call ptr @region(ptr %context, i64 %origin)
  %low, %high = load low, high of region %r.given
  %end = add i64 %address, %size
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %wraps = icmp uge i64 %end, %address
  jump %inside if and i1 %above, %below, %wraps
out:
  call void @report(ptr %context, ptr %site, i64 kind(out of bounds), i64 %program, i64 %lane, i64 %address, i64 0,
      i64 0)
  store i8 0, ptr %mask
  br label %done
inside:
  %r = phi ptr [%r.found, %search], [%r.given, %given]
  %r.flags = load i64, field region.flags of %r
  jump %rights unless icmp ne i64 %r.flags & flag(holes), 0
  %dims, %r.low = load dims, low of region %r
  %offset = sub i64 %address, %r.low
  jump %out if call i1 @is_hole(ptr %dims, i64 %offset, i64 %size)
rights:
  %write = icmp ne i64 %flags & flag(writes), 0
  %fixed = icmp eq i64 %r.flags & flag(writable), 0
  jump %contents unless and i1 %write, %fixed
  call void @report(ptr %context, ptr %site, i64 kind(read-only), i64 %program, i64 %lane, i64 %address, i64 0, i64 0)
  store i8 0, ptr %mask
  br label %done
contents:
  %read = icmp ne i64 %flags & flag(reads), 0
  %undefined = icmp ne i64 %r.flags & flag(undefined), 0
  jump %tracked unless and i1 %read, %undefined
  %whole = and i64 %address, -8
  %s.low, %s.high = load storage_low, storage_high of region %r
  %whole.end = add i64 %whole, 8
  %w.above = icmp uge i64 %whole, %s.low
  %w.below = icmp ule i64 %whole.end, %s.high
  jump %tracked unless and i1 %w.above, %w.below
  %p = inttoptr i64 %whole to ptr
  %x = load i64, ptr %p
  %pattern = load i64, field context.pattern of %context
  jump %tracked unless icmp eq i64 %x, %pattern
  call void @report(ptr %context, ptr %site, i64 kind(uninitialised), i64 %program, i64 %lane, i64 %address, i64 0,
      i64 0)
tracked:
  %writers = load ptr, field region.writers of %r
  jump %done if icmp eq ptr %writers, null
cells:
  %base, %shift = load storage_low, shift of region %r
  %from = sub i64 %address, %base
  %first = lshr i64 %from, %shift
  %to.0 = add i64 %from, %size
  %to = sub i64 %to.0, 1
  %last = lshr i64 %to, %shift
cell:
  %c = phi i64 [%first, %cells], [%c1, %cell]
  %later = icmp ne i64 %c, %first
  call void @track(ptr %context, ptr %site, i64 %program, i64 %address, i64 %lane, ptr %r, i64 %c, i1 %later)
  %c1 = add i64 %c, 1
  jump %cell if icmp ule i64 %c1, %last
done:
  ret void
}

; Lanes from %from to below %to, one by one: at %addresses, or %stride bytes apart from %start on if that is null.
define internal void @singly(ptr %context, ptr %site, i64 %program, ptr %addresses, i64 %start, i64 %stride, i64 %from,
                             i64 %to, ptr %mask, i64 %lane) nounwind noinline {
entry:
  %listed = icmp ne ptr %addresses, null
next:
  %k = phi i64 [%from, %entry], [%k1, %look]
  ret void unless icmp slt i64 %k, %to
count:
  %step = mul i64 %k, %stride
  %counted = add i64 %start, %step
  jump %look unless %listed
read:
  %found = load i64, item i64 %k of %addresses
look:
  %address = phi i64 [%counted, %count], [%found, %read]
  %l = add i64 %lane, %k
  call void @lane(ptr %context, ptr %site, i64 %program, i64 %address, item i8 %k of %mask, i64 %l)
  %k1 = add i64 %k, 1
  br label %next
}

define void @tt.check.wide(ptr %context, ptr %site, i64 %program, ptr %indices, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline cold {
entry:
each:
  %k = phi i64 [0, %entry], [%k1, %next]
  %x = load i64, item i64 %k of %indices
  %low = trunc i64 %x to i32
  %back = sext i32 %low to i64
  %differs = icmp ne i64 %back, %x
  %m = getelementptr i8, ptr %mask, i64 %k
  %on.byte = load i8, ptr %m
  %on = icmp ne i8 %on.byte, 0
  jump %next unless and i1 %differs, %on
  %l = add i64 %lane, %k
  call void @report(ptr %context, ptr %site, i64 kind(overflow), i64 %program, i64 %l, i64 0, i64 0, i64 %x)
  store i8 0, ptr %m
next:
  %k1 = add i64 %k, 1
  jump %each if icmp slt i64 %k1, %n
  ret void
}
"""
