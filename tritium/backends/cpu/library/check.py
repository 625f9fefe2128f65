"""The sanitizer's checks of kernels, in LLVM (see lower/checks.py, which calls them, and checked.py).

    tt.check.row(context, site, program, address, stride, n, mask, lane)    n elements `stride` bytes apart
    tt.check.lanes(context, site, program, addresses, n, mask, lane)        n elements, each at its own address
    tt.check.wide(context, site, program, indices, n, mask, lane)           n indices that must fit in 32 bits
    tt.check.release(context, program, address)                             what comes before is known to who acquires
    tt.check.acquire(context, program, address)
    tt.check.barrier(context, program)                                      the lanes of a program have met
    tt.check.wait(context, program)                                         a loop that waits begins
    tt.check.patience(context, site, program) -> i1                         whether a loop may wait on
    tt.check.stored(context, site, program, address, lane, value)           memory holds something else
    tt.check.multiple(context, site, program, x)                            x is no multiple of what it must be

`mask` has a byte for each lane: those that fail are set to 0. `lane` is the number of the first in the tile.

The context is a table of words of 8 bytes, then one row for each parameter. check_cells.py has the other half: who
touches the same element.
"""

from __future__ import annotations

from . import check_cells

__all__ = ["CONTEXT", "KINDS", "PATTERN", "RECORD", "REGION", "SLOTS", "SYMBOLS", "check"]

SYMBOLS = tuple(f"tt.check.{name}" for name in ("row", "lanes", "wide", "release", "acquire", "barrier", "wait",
                                                "patience", "stored", "multiple"))  # fmt: skip

# Words of the context.
CONTEXT = ("base", "current", "segments", "next", "limit", "counts", "records", "capacity", "regions", "slots",
           "waits", "patience", "pattern", "lanes_known", "unused_1", "unused_2")  # fmt: skip
# Words of a row: the elements' extent, the storage's, the extent that may be read or written without a closer look,
# the cells of writers and of readers, the size of an element as a power of two, and (count, size, stride, ...) of a
# view with holes.
REGION = ("low", "high", "storage_low", "storage_high", "flags", "writers", "readers", "shift", "read_low",
          "read_high", "write_low", "write_high", "dims", "writing_lanes", "unused_1", "unused_2")  # fmt: skip
# A site has 4 words: number, origin (-1: any), bytes of an element, flags (1 reads, 2 writes, 4 atomic, 8 foreign).
WRITABLE, UNDEFINED, HOLES = 1, 2, 4  # flags of a row
# What a record tells, by number; 0 is no kind.
KINDS = ("", "out of bounds", "read-only", "uninitialised", "overflow", "race", "race in program", "endless wait",
         "double store", "misaligned", "missing reset", "", "", "", "", "")  # fmt: skip
RECORD = ("kind", "program", "lane", "address", "other", "value", "site", "unused")
SLOTS = 4096  # of addresses that programs synchronise on, by hash
# What memory that nobody has written holds: NaN as f32 and as f64.
PATTERN = 0xFFF7A5C3FFF7A5C3


def check(target) -> str:
    """The text.

    >>> check(None).count("define void @tt.check")
    9
    """
    return _TEXT + check_cells.TEXT


_TEXT = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()

define internal i64 @word(ptr %p, i64 %k) nounwind alwaysinline {
  %q = getelementptr i64, ptr %p, i64 %k
  %x = load i64, ptr %q, align 1
  ret i64 %x
}

define internal ptr @pointer(ptr %p, i64 %k) nounwind alwaysinline {
  %q = getelementptr ptr, ptr %p, i64 %k
  %x = load ptr, ptr %q, align 1
  ret ptr %x
}

define internal ptr @region(ptr %context, i64 %k) nounwind alwaysinline {
  %at = shl i64 %k, 7
  %after = add i64 %at, 128
  %p = getelementptr i8, ptr %context, i64 %after
  ret ptr %p
}

; Keep what is wrong, the first few of each site and kind; count the rest.
define internal void @report(ptr %context, ptr %site, i64 %kind, i64 %program, i64 %lane, i64 %address, i64 %other,
                             i64 %value) nounwind noinline cold {
entry:
  %number = call i64 @word(ptr %site, i64 0)
  %row.0 = shl i64 %number, 4
  %index = add i64 %row.0, %kind
  %counts = call ptr @pointer(ptr %context, i64 5)
  %count.p = getelementptr i64, ptr %counts, i64 %index
  %n = atomicrmw add ptr %count.p, i64 1 monotonic
  %capacity = call i64 @word(ptr %context, i64 7)
  %room = icmp slt i64 %n, %capacity
  br i1 %room, label %keep, label %done
keep:
  %records = call ptr @pointer(ptr %context, i64 6)
  %row = mul i64 %index, %capacity
  %at = add i64 %row, %n
  %r = getelementptr [8 x i64], ptr %records, i64 %at
  %r1 = getelementptr i64, ptr %r, i64 1
  %r2 = getelementptr i64, ptr %r, i64 2
  %r3 = getelementptr i64, ptr %r, i64 3
  %r4 = getelementptr i64, ptr %r, i64 4
  %r5 = getelementptr i64, ptr %r, i64 5
  %r6 = getelementptr i64, ptr %r, i64 6
  store i64 %program, ptr %r1
  store i64 %lane, ptr %r2
  store i64 %address, ptr %r3
  store i64 %other, ptr %r4
  store i64 %value, ptr %r5
  store i64 %number, ptr %r6
  store i64 %kind, ptr %r
  br label %done
done:
  ret void
}

; The bytes of an element, as far as 8 of them.
define internal i64 @peek(i64 %address, i64 %size) nounwind noinline cold {
entry:
  %p = inttoptr i64 %address to ptr
  switch i64 %size, label %eight [i64 1, label %one i64 2, label %two i64 4, label %four]
one:
  %a = load i8, ptr %p, align 1
  %a.w = zext i8 %a to i64
  ret i64 %a.w
two:
  %b = load i16, ptr %p, align 1
  %b.w = zext i16 %b to i64
  ret i64 %b.w
four:
  %c = load i32, ptr %p, align 1
  %c.w = zext i32 %c to i64
  ret i64 %c.w
eight:
  %d = load i64, ptr %p, align 1
  ret i64 %d
}

; The first row whose elements hold an access, or null.
define internal ptr @find(ptr %context, i64 %address, i64 %size) nounwind noinline {
entry:
  %n = call i64 @word(ptr %context, i64 8)
  br label %look
look:
  %k = phi i64 [0, %entry], [%k1, %next]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %try, label %none
try:
  %r = call ptr @region(ptr %context, i64 %k)
  %low = call i64 @word(ptr %r, i64 0)
  %high = call i64 @word(ptr %r, i64 1)
  %end = add i64 %address, %size
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %in = and i1 %above, %below
  br i1 %in, label %found, label %next
next:
  %k1 = add i64 %k, 1
  br label %look
found:
  ret ptr %r
none:
  ret ptr null
}

; Whether an offset lies between the elements of a view: %dims has a count, then size and stride of each axis, the
; widest stride first.
define internal i1 @is_hole(ptr %dims, i64 %offset, i64 %size) nounwind noinline {
entry:
  %n = load i64, ptr %dims
  br label %axis
axis:
  %k = phi i64 [0, %entry], [%k1, %step]
  %left = phi i64 [%offset, %entry], [%rest, %step]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %look, label %end
look:
  %two = shl i64 %k, 1
  %at = add i64 %two, 1
  %length = call i64 @word(ptr %dims, i64 %at)
  %at2 = add i64 %two, 2
  %stride = call i64 @word(ptr %dims, i64 %at2)
  %q = udiv i64 %left, %stride
  %over = icmp uge i64 %q, %length
  br i1 %over, label %yes, label %step
step:
  %whole = mul i64 %q, %stride
  %rest = sub i64 %left, %whole
  %k1 = add i64 %k, 1
  br label %axis
end:
  %itemsize.at = shl i64 %n, 1
  %last = add i64 %itemsize.at, 1
  %itemsize = call i64 @word(ptr %dims, i64 %last)
  %past = add i64 %left, %size
  %out = icmp ugt i64 %past, %itemsize
  ret i1 %out
yes:
  ret i1 true
}

; One lane: is it inside, may it be written, has it been written, who else touches it?
define internal void @lane(ptr %context, ptr %site, i64 %program, i64 %address, ptr %mask, i64 %lane)
    nounwind noinline {
entry:
  %m = load i8, ptr %mask
  %off = icmp eq i8 %m, 0
  br i1 %off, label %done, label %begin
begin:
  %origin = call i64 @word(ptr %site, i64 1)
  %size = call i64 @word(ptr %site, i64 2)
  %flags = call i64 @word(ptr %site, i64 3)
  %any = icmp slt i64 %origin, 0
  br i1 %any, label %search, label %given
search:
  %r.found = call ptr @find(ptr %context, i64 %address, i64 %size)
  %lost = icmp eq ptr %r.found, null
  br i1 %lost, label %nowhere, label %inside
nowhere:
  %foreign.bit = and i64 %flags, 8
  %foreign = icmp ne i64 %foreign.bit, 0
  %real = icmp ugt i64 %address, 65535
  %ok = and i1 %foreign, %real
  br i1 %ok, label %done, label %out
given:
  %r.given = call ptr @region(ptr %context, i64 %origin)
  %low = call i64 @word(ptr %r.given, i64 0)
  %high = call i64 @word(ptr %r.given, i64 1)
  %end = add i64 %address, %size
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %wraps = icmp uge i64 %end, %address
  %in.0 = and i1 %above, %below
  %in = and i1 %in.0, %wraps
  br i1 %in, label %inside, label %out
out:
  call void @report(ptr %context, ptr %site, i64 1, i64 %program, i64 %lane, i64 %address, i64 0, i64 0)
  store i8 0, ptr %mask
  br label %done
inside:
  %r = phi ptr [%r.found, %search], [%r.given, %given]
  %r.flags = call i64 @word(ptr %r, i64 4)
  %holes.bit = and i64 %r.flags, 4
  %holes = icmp ne i64 %holes.bit, 0
  br i1 %holes, label %hole, label %rights
hole:
  %dims = call ptr @pointer(ptr %r, i64 12)
  %r.low = call i64 @word(ptr %r, i64 0)
  %offset = sub i64 %address, %r.low
  %is.hole = call i1 @is_hole(ptr %dims, i64 %offset, i64 %size)
  br i1 %is.hole, label %out, label %rights
rights:
  %write.bit = and i64 %flags, 2
  %write = icmp ne i64 %write.bit, 0
  %writable.bit = and i64 %r.flags, 1
  %fixed = icmp eq i64 %writable.bit, 0
  %forbidden = and i1 %write, %fixed
  br i1 %forbidden, label %refuse, label %contents
refuse:
  call void @report(ptr %context, ptr %site, i64 2, i64 %program, i64 %lane, i64 %address, i64 0, i64 0)
  store i8 0, ptr %mask
  br label %done
contents:
  %read.bit = and i64 %flags, 1
  %read = icmp ne i64 %read.bit, 0
  %undefined.bit = and i64 %r.flags, 2
  %undefined = icmp ne i64 %undefined.bit, 0
  %look = and i1 %read, %undefined
  br i1 %look, label %compare, label %tracked
compare:
  %whole = and i64 %address, -8
  %s.low = call i64 @word(ptr %r, i64 2)
  %s.high = call i64 @word(ptr %r, i64 3)
  %whole.end = add i64 %whole, 8
  %w.above = icmp uge i64 %whole, %s.low
  %w.below = icmp ule i64 %whole.end, %s.high
  %w.in = and i1 %w.above, %w.below
  br i1 %w.in, label %word, label %tracked
word:
  %p = inttoptr i64 %whole to ptr
  %x = load i64, ptr %p
  %pattern = call i64 @word(ptr %context, i64 12)
  %never = icmp eq i64 %x, %pattern
  br i1 %never, label %unset, label %tracked
unset:
  call void @report(ptr %context, ptr %site, i64 3, i64 %program, i64 %lane, i64 %address, i64 0, i64 0)
  br label %tracked
tracked:
  %writers = call ptr @pointer(ptr %r, i64 5)
  %free = icmp eq ptr %writers, null
  br i1 %free, label %done, label %cells
cells:
  %base = call i64 @word(ptr %r, i64 2)
  %shift = call i64 @word(ptr %r, i64 7)
  %from = sub i64 %address, %base
  %first = lshr i64 %from, %shift
  %to.0 = add i64 %from, %size
  %to = sub i64 %to.0, 1
  %last = lshr i64 %to, %shift
  br label %cell
cell:
  %c = phi i64 [%first, %cells], [%c1, %cell]
  %later = icmp ne i64 %c, %first
  call void @track(ptr %context, ptr %site, i64 %program, i64 %address, i64 %lane, ptr %r, i64 %c, i1 %later)
  %c1 = add i64 %c, 1
  %more = icmp ule i64 %c1, %last
  br i1 %more, label %cell, label %done
done:
  ret void
}

; How many lanes of a mask are on if those are the first ones; -1 for other masks.
define internal i64 @prefix(ptr %mask, i64 %n) nounwind noinline {
entry:
  br label %words
words:
  %i = phi i64 [0, %entry], [%i8, %more]
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

; Whether no word of some bytes holds the pattern. What reaches out of the storage is left to `lane`.
define internal i1 @is_defined(ptr %context, ptr %region, i64 %address, i64 %bytes) nounwind noinline {
entry:
  %pattern = call i64 @word(ptr %context, i64 12)
  %s.low = call i64 @word(ptr %region, i64 2)
  %s.high = call i64 @word(ptr %region, i64 3)
  %first = and i64 %address, -8
  %past = add i64 %address, %bytes
  %round = add i64 %past, 7
  %last = and i64 %round, -8
  %low.in = icmp uge i64 %first, %s.low
  %high.in = icmp ule i64 %last, %s.high
  %in = and i1 %low.in, %high.in
  %p.0 = insertelement <4 x i64> poison, i64 %pattern, i64 0
  %never = shufflevector <4 x i64> %p.0, <4 x i64> poison, <4 x i32> zeroinitializer
  br i1 %in, label %fours, label %no
fours:
  %at = phi i64 [%first, %entry], [%after, %more]
  %after = add i64 %at, 32
  %room = icmp ule i64 %after, %last
  br i1 %room, label %four, label %ones
four:
  %p = inttoptr i64 %at to ptr
  %x = load <4 x i64>, ptr %p, align 8
  %same = icmp eq <4 x i64> %x, %never
  %any = call i1 @llvm.vector.reduce.or.v4i1(<4 x i1> %same)
  br i1 %any, label %no, label %more
more:
  br label %fours
ones:
  %k = phi i64 [%at, %fours], [%k1, %next]
  %left = icmp ult i64 %k, %last
  br i1 %left, label %one, label %yes
one:
  %q = inttoptr i64 %k to ptr
  %y = load i64, ptr %q
  %hit = icmp eq i64 %y, %pattern
  br i1 %hit, label %no, label %next
next:
  %k1 = add i64 %k, 8
  br label %ones
yes:
  ret i1 true
no:
  ret i1 false
}
declare i1 @llvm.vector.reduce.or.v4i1(<4 x i1>)

define void @tt.check.row(ptr %context, ptr %site, i64 %program, ptr %start, i64 %stride, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline {
entry:
  %address = ptrtoint ptr %start to i64
  %origin = call i64 @word(ptr %site, i64 1)
  %size = call i64 @word(ptr %site, i64 2)
  %flags = call i64 @word(ptr %site, i64 3)
  %unknown = icmp slt i64 %origin, 0
  %dense = icmp eq i64 %stride, %size
  %sparse = xor i1 %dense, true
  %atomic.bit = and i64 %flags, 4
  %atomic = icmp ne i64 %atomic.bit, 0
  %s.0 = or i1 %unknown, %sparse
  %s.1 = or i1 %s.0, %atomic
  br i1 %s.1, label %slowly, label %count
count:
  %on = call i64 @prefix(ptr %mask, i64 %n)
  %scattered = icmp slt i64 %on, 0
  br i1 %scattered, label %slowly, label %some
some:
  %nothing = icmp eq i64 %on, 0
  br i1 %nothing, label %done, label %region
region:
  %r = call ptr @region(ptr %context, i64 %origin)
  %low = call i64 @word(ptr %r, i64 0)
  %high = call i64 @word(ptr %r, i64 1)
  %bytes = mul i64 %on, %size
  %end = add i64 %address, %bytes
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %in = and i1 %above, %below
  br i1 %in, label %rights, label %slowly
rights:
  %r.flags = call i64 @word(ptr %r, i64 4)
  %write.bit = and i64 %flags, 2
  %write = icmp ne i64 %write.bit, 0
  %holes.bit = and i64 %r.flags, 4
  %holes = icmp ne i64 %holes.bit, 0
  %fixed.bit = and i64 %r.flags, 1
  %fixed = icmp eq i64 %fixed.bit, 0
  %forbidden = and i1 %write, %fixed
  %t.1 = or i1 %holes, %forbidden
  br i1 %t.1, label %slowly, label %contents
contents:
  %made.bit = and i64 %r.flags, 2
  %made = icmp ne i64 %made.bit, 0
  %reads = xor i1 %write, true
  %ask = and i1 %made, %reads
  br i1 %ask, label %scan, label %tracked
scan:
  %defined = call i1 @is_defined(ptr %context, ptr %r, i64 %address, i64 %bytes)
  br i1 %defined, label %tracked, label %slowly
tracked:
  %writers = call ptr @pointer(ptr %r, i64 5)
  %free = icmp eq ptr %writers, null
  br i1 %free, label %done, label %granule
granule:
  %shift = call i64 @word(ptr %r, i64 7)
  %unit = shl i64 1, %shift
  %uneven = icmp ne i64 %unit, %size
  br i1 %uneven, label %slowly, label %begin
begin:
  %base = call i64 @word(ptr %r, i64 2)
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
  br label %each
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

define void @tt.check.lanes(ptr %context, ptr %site, i64 %program, ptr %addresses, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline {
entry:
  %origin = call i64 @word(ptr %site, i64 1)
  %size = call i64 @word(ptr %site, i64 2)
  %flags = call i64 @word(ptr %site, i64 3)
  %any = icmp slt i64 %origin, 0
  %k.0 = select i1 %any, i64 0, i64 %origin
  %r = call ptr @region(ptr %context, i64 %k.0)
  %write.bit = and i64 %flags, 2
  %write = icmp ne i64 %write.bit, 0
  %low.at = select i1 %write, i64 10, i64 8
  %high.at = add i64 %low.at, 1
  %low.0 = call i64 @word(ptr %r, i64 %low.at)
  %high.0 = call i64 @word(ptr %r, i64 %high.at)
  %low = select i1 %any, i64 1, i64 %low.0        ; nothing lies in an empty extent
  %high = select i1 %any, i64 0, i64 %high.0
  br label %each
each:
  %k = phi i64 [0, %entry], [%k1, %next]
  %p = getelementptr i64, ptr %addresses, i64 %k
  %address = load i64, ptr %p
  %end = add i64 %address, %size
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %in = and i1 %above, %below
  br i1 %in, label %next, label %closer
closer:
  %m = getelementptr i8, ptr %mask, i64 %k
  %l = add i64 %lane, %k
  call void @lane(ptr %context, ptr %site, i64 %program, i64 %address, ptr %m, i64 %l)
  br label %next
next:
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %n
  br i1 %more, label %each, label %done
done:
  ret void
}

define void @tt.check.wide(ptr %context, ptr %site, i64 %program, ptr %indices, i64 %n, ptr %mask, i64 %lane)
    nounwind noinline cold {
entry:
  br label %each
each:
  %k = phi i64 [0, %entry], [%k1, %next]
  %p = getelementptr i64, ptr %indices, i64 %k
  %x = load i64, ptr %p
  %low = trunc i64 %x to i32
  %back = sext i32 %low to i64
  %differs = icmp ne i64 %back, %x
  %m = getelementptr i8, ptr %mask, i64 %k
  %on.byte = load i8, ptr %m
  %on = icmp ne i8 %on.byte, 0
  %bad = and i1 %differs, %on
  br i1 %bad, label %tell, label %next
tell:
  %l = add i64 %lane, %k
  call void @report(ptr %context, ptr %site, i64 4, i64 %program, i64 %l, i64 0, i64 0, i64 %x)
  store i8 0, ptr %m
  br label %next
next:
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %n
  br i1 %more, label %each, label %done
done:
  ret void
}

define void @tt.check.stored(ptr %context, ptr %site, i64 %program, i64 %address, i64 %lane, i64 %value)
    nounwind noinline cold {
  call void @report(ptr %context, ptr %site, i64 8, i64 %program, i64 %lane, i64 %address, i64 0, i64 %value)
  ret void
}

define void @tt.check.multiple(ptr %context, ptr %site, i64 %program, i64 %x) nounwind noinline cold {
  call void @report(ptr %context, ptr %site, i64 9, i64 %program, i64 0, i64 0, i64 0, i64 %x)
  ret void
}

define void @tt.check.wait(ptr %context, i64 %program) nounwind noinline {
  %waits = call ptr @pointer(ptr %context, i64 10)
  %w = getelementptr [2 x i64], ptr %waits, i64 %program
  store [2 x i64] zeroinitializer, ptr %w
  ret void
}

; Whether a program may wait on: it looks at the clock every now and then.
define i1 @tt.check.patience(ptr %context, ptr %site, i64 %program) nounwind noinline {
entry:
  %time = alloca [2 x i64]
  %waits = call ptr @pointer(ptr %context, i64 10)
  %w = getelementptr [2 x i64], ptr %waits, i64 %program
  %count = load i64, ptr %w
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %w
  %low = and i64 %count, 1023
  %ask = icmp eq i64 %low, 1023
  br i1 %ask, label %clock, label %yes
clock:
  %y = call i32 @sched_yield()
  %c = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time
  %ns.p = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %ns.p
  %s.ns = mul i64 %s, 1000000000
  %now = add i64 %s.ns, %ns
  %begun.p = getelementptr i64, ptr %w, i64 1
  %begun = load i64, ptr %begun.p
  %first = icmp eq i64 %begun, 0
  br i1 %first, label %begin, label %compare
begin:
  store i64 %now, ptr %begun.p
  br label %yes
compare:
  %limit = call i64 @word(ptr %context, i64 11)
  %passed = sub i64 %now, %begun
  %over = icmp sgt i64 %passed, %limit
  br i1 %over, label %tell, label %yes
tell:
  call void @report(ptr %context, ptr %site, i64 7, i64 %program, i64 0, i64 0, i64 0, i64 %count)
  store i64 0, ptr %begun.p
  store i64 0, ptr %w
  ret i1 false
yes:
  ret i1 true
}
"""
