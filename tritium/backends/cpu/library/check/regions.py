"""Where elements lie: the row of an access, its holes, and whether memory has been written."""

TEXT = """
declare i1 @llvm.vector.reduce.or.v4i1(<4 x i1>)

; The row of a parameter: they come after the context.
define internal ptr @region(ptr %context, i64 %k) nounwind alwaysinline {
  %rows = getelementptr %context, ptr %context, i64 1
  ret ptr getelementptr %region, ptr %rows, i64 %k
}

; The first row whose elements hold an access, or null.
define internal ptr @find(ptr %context, i64 %address, i64 %size) nounwind noinline {
entry:
  %n = load i64, field context.regions of %context
look:
  %k = phi i64 [0, %entry], [%k1, %next]
  ret ptr null unless icmp slt i64 %k, %n
  %r = call ptr @region(ptr %context, i64 %k)
  %low, %high = load low, high of region %r
  %end = add i64 %address, %size
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  ret ptr %r if and i1 %above, %below
next:
  %k1 = add i64 %k, 1
  br label %look
}

; The row whose elements hold all bytes of a span, where no other row comes first for some of them. Null if no row holds
; any of them, -1 if some do not lie as the others.
define internal ptr @around(ptr %context, i64 %from, i64 %to) nounwind noinline {
entry:
  %n = load i64, field context.regions of %context
  jump %mixed unless icmp ult i64 %from, %to
look:
  %k = phi i64 [0, %entry], [%k1, %next]
  ret ptr null unless icmp slt i64 %k, %n
  %r = call ptr @region(ptr %context, i64 %k)
  %low, %high = load low, high of region %r
  %begins = icmp ult i64 %from, %high
  %ends = icmp ugt i64 %to, %low
  jump %met if and i1 %begins, %ends
next:
  %k1 = add i64 %k, 1
  br label %look
met:
  %above = icmp uge i64 %from, %low
  %below = icmp ule i64 %to, %high
  ret ptr %r if and i1 %above, %below
mixed:
  ret ptr inttoptr (i64 -1 to ptr)
}

; Whether a span that lies in no row may be touched: pointers of no parameter may lead anywhere but near address 0.
define internal i1 @is_foreign(i64 %flags, i64 %from) nounwind alwaysinline {
  %foreign = icmp ne i64 %flags & flag(foreign), 0
  %real = icmp ugt i64 %from, 65535
  ret i1 and i1 %foreign, %real
}

; Whether an offset lies between the elements of a view: %dims has a count, then size and stride of each axis, the
; widest stride first.
define internal i1 @is_hole(ptr %dims, i64 %offset, i64 %size) nounwind noinline {
entry:
  %n = load i64, ptr %dims
axis:
  %k = phi i64 [0, %entry], [%k1, %step]
  %left = phi i64 [%offset, %entry], [%rest, %step]
  jump %end unless icmp slt i64 %k, %n
  %two = shl i64 %k, 1
  %at = add i64 %two, 1
  %length = load i64, item i64 %at of %dims
  %at2 = add i64 %two, 2
  %stride = load i64, item i64 %at2 of %dims
  %q = udiv i64 %left, %stride
  ret i1 true if icmp uge i64 %q, %length
step:
  %whole = mul i64 %q, %stride
  %rest = sub i64 %left, %whole
  %k1 = add i64 %k, 1
  br label %axis
end:
  %itemsize.at = shl i64 %n, 1
  %last = add i64 %itemsize.at, 1
  %itemsize = load i64, item i64 %last of %dims
  %past = add i64 %left, %size
  ret i1 icmp ugt i64 %past, %itemsize
}

; Whether no word of some bytes holds the pattern. What reaches out of the storage is left to `lane`.
define internal i1 @is_defined(ptr %context, ptr %region, i64 %address, i64 %bytes) nounwind noinline {
entry:
  %pattern = load i64, field context.pattern of %context
  %s.low, %s.high = load storage_low, storage_high of region %region
  %first = and i64 %address, -8
  %round = add i64 %address, %bytes, 7
  %last = and i64 %round, -8
  %low.in = icmp uge i64 %first, %s.low
  %high.in = icmp ule i64 %last, %s.high
  %in = and i1 %low.in, %high.in
  %never = splat <4 x i64> %pattern
  ret i1 false unless %in
fours:
  %at = phi i64 [%first, %entry], [%after, %more]
  %after = add i64 %at, 32
  jump %ones unless icmp ule i64 %after, %last
  %p = inttoptr i64 %at to ptr
  %x = load <4 x i64>, ptr %p, align 8
  %same = icmp eq <4 x i64> %x, %never
  ret i1 false if call i1 @llvm.vector.reduce.or.v4i1(<4 x i1> %same)
more:
  br label %fours
ones:
  %k = phi i64 [%at, %fours], [%k1, %next]
  ret i1 true unless icmp ult i64 %k, %last
  %q = inttoptr i64 %k to ptr
  %y = load i64, ptr %q
  ret i1 false if icmp eq i64 %y, %pattern
next:
  %k1 = add i64 %k, 8
  br label %ones
}
"""
