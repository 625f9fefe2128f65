"""What is wrong is kept, the first few of each site and kind; and how long a program may wait."""

TEXT = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()

; Keep what is wrong, the first few of each site and kind; count the rest.
define internal void @report(ptr %context, ptr %site, i64 %kind, i64 %program, i64 %lane, i64 %address, i64 %other,
                             i64 %value) nounwind noinline cold {
  %number = load i64, field site.number of %site, align 1
  %row.0 = mul i64 %number, kinds()
  %index = add i64 %row.0, %kind
  %counts = load ptr, field context.counts of %context
  %n = atomicrmw add item i64 %index of %counts, i64 1 monotonic
  %capacity = load i64, field context.capacity of %context
  ret void unless icmp slt i64 %n, %capacity
  %records = load ptr, field context.records of %context
  %row = mul i64 %index, %capacity
  %at = add i64 %row, %n
  %r = getelementptr %record, ptr %records, i64 %at
  store i64 %program, field record.program of %r
  store i64 %lane, field record.lane of %r
  store i64 %address, field record.address of %r
  store i64 %other, field record.other of %r
  store i64 %value, field record.value of %r
  store i64 %number, field record.site of %r
  store i64 %kind, field record.kind of %r
  ret void
}

; The bytes of an element, as far as 8 of them.
define internal i64 @peek(i64 %address, i64 %size) nounwind noinline cold {
  %p = inttoptr i64 %address to ptr
  switch i64 %size, label %eight [i64 1, label %one i64 2, label %two i64 4, label %four]
one:
  %a = load i8, ptr %p, align 1
  ret i64 zext i8 %a to i64
two:
  %b = load i16, ptr %p, align 1
  ret i64 zext i16 %b to i64
four:
  %c = load i32, ptr %p, align 1
  ret i64 zext i32 %c to i64
eight:
  ret i64 load i64, ptr %p, align 1
}

define void @tt.check.stored(ptr %context, ptr %site, i64 %program, ptr %addresses, ptr %values, i64 %n, ptr %mask,
                             i64 %lane) nounwind noinline cold {
entry:
each:
  %k = phi i64 [0, %entry], [%k1, %next]
  %m = load i8, item i8 %k of %mask
  jump %next unless icmp ne i8 %m, 0
  %address = load i64, item i64 %k of %addresses
  %value = load i64, item i64 %k of %values
  %l = add i64 %lane, %k
  call void @report(ptr %context, ptr %site, i64 kind(double store), i64 %program, i64 %l, i64 %address, i64 0,
      i64 %value)
next:
  %k1 = add i64 %k, 1
  jump %each if icmp slt i64 %k1, %n
  ret void
}

define void @tt.check.multiple(ptr %context, ptr %site, i64 %program, i64 %x) nounwind noinline cold {
  call void @report(ptr %context, ptr %site, i64 kind(misaligned), i64 %program, i64 0, i64 0, i64 0, i64 %x)
  ret void
}

define void @tt.check.wait(ptr %context, i64 %program) nounwind noinline {
  %waits = load ptr, field context.waits of %context
  store %wait zeroinitializer, item %wait %program of %waits
  ret void
}

; Whether a program may wait on: it looks at the clock every now and then.
define i1 @tt.check.patience(ptr %context, ptr %site, i64 %program) nounwind noinline {
  %time = alloca [2 x i64]
  %waits = load ptr, field context.waits of %context
  %w = getelementptr %wait, ptr %waits, i64 %program
  %count.p = field wait.count of %w
  %count = load i64, ptr %count.p
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %count.p
  ret i1 true unless icmp eq i64 %count & 1023, 1023
  %y = call i32 @sched_yield()
  %c = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time
  %ns = load i64, item i64 1 of %time
  %s.ns = mul i64 %s, 1000000000
  %now = add i64 %s.ns, %ns
  %begun.p = field wait.begun of %w
  %begun = load i64, ptr %begun.p
  jump %compare unless icmp eq i64 %begun, 0
  store i64 %now, ptr %begun.p
  ret i1 true
compare:
  %limit = load i64, field context.patience of %context
  %passed = sub i64 %now, %begun
  ret i1 true unless icmp sgt i64 %passed, %limit
  call void @report(ptr %context, ptr %site, i64 kind(endless wait), i64 %program, i64 0, i64 0, i64 0, i64 %count)
  store i64 0, ptr %begun.p
  store i64 0, ptr %count.p
  ret i1 false
}
"""
