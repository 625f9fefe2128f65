"""Copies of tiles to and from scratch memory, clipped at the edges of a matrix.

    tt.tile.load(ptr to, i64 to_stride, ptr from, i64 stride, i64 rows, i64 columns, i64 row_end, i64 column_end,
                 i64 row_first, i64 row_wrap, i64 column_first, i64 column_wrap, i64 size)
        to[i, j] = from[r(i), c(j)] where i < row_end and j < column_end, else 0
        r(i) = (row_first + i) % row_wrap, or row_first + i where row_wrap is 0; likewise c(j)
    tt.tile.store(ptr to, i64 to_stride, ptr from, i64 stride, i64 rows, i64 columns, i64 row_end, i64 column_end,
                  i64 size)
        to[i, j] = from[i, j] where i < row_end and j < column_end

Strides are in elements of `size` bytes; remainders have the sign of the dividend. Compiling a call takes a fraction of
the time that inline loops would take in every kernel.

Rows of a matrix are often a page or more apart, and the processor does not foresee the next one: while a row is stored,
the lines four rows below are fetched for writing.
"""

from __future__ import annotations

from ...llvm.notation import expand

SYMBOLS = ("tt.tile.load", "tt.tile.store")

_TEXT = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define internal i64 @tt.tile.inside(i64 %end, i64 %size) alwaysinline nounwind {
  %low = call i64 @llvm.smax.i64(i64 %end, i64 0)
  ret i64 call i64 @llvm.smin.i64(i64 %low, i64 %size)
}

define internal i64 @tt.tile.at(i64 %i, i64 %wrap) nounwind {
  %straight = icmp eq i64 %wrap, 0
  %by = select i1 %straight, i64 1, i64 %wrap
  %rest = srem i64 %i, %by
  ret i64 select i1 %straight, i64 %i, i64 %rest
}

define void @tt.tile.load(ptr %to, i64 %to.stride, ptr %from, i64 %stride, i64 %rows, i64 %columns, i64 %row.end,
    i64 %column.end, i64 %row.first, i64 %row.wrap, i64 %column.first, i64 %column.wrap, i64 %size) nounwind noinline {
entry:
  %inside = call i64 @tt.tile.inside(i64 %column.end, i64 %columns)
  %round = call i64 @llvm.abs.i64(i64 %column.wrap, i1 false)
  %straight = icmp eq i64 %round, 0
  %to.row = mul i64 %to.stride, %size
  %from.row = mul i64 %stride, %size
row:
  %i = phi i64 [0, %entry], [%i.next, %rest]
  %to.offset = mul i64 %i, %to.row
  %target = getelementptr i8, ptr %to, i64 %to.offset
  %taken = icmp slt i64 %i, %row.end
  %wanted = select i1 %taken, i64 %inside, i64 0
  %i.from = add i64 %row.first, %i
  %r = call i64 @tt.tile.at(i64 %i.from, i64 %row.wrap)
  %from.offset = mul i64 %r, %from.row
  %source = getelementptr i8, ptr %from, i64 %from.offset
run:  ; columns that lie side by side: up to where the remainder starts again
  %j = phi i64 [0, %row], [%j.next, %copy]
  jump %rest unless icmp slt i64 %j, %wanted
copy:
  %left = sub i64 %wanted, %j
  %j.from = add i64 %column.first, %j
  %c = call i64 @tt.tile.at(i64 %j.from, i64 %round)
  %negative = icmp slt i64 %j.from, 0
  %top = select i1 %negative, i64 1, i64 %round
  %ahead = sub i64 %top, %c
  %until = select i1 %straight, i64 %left, i64 %ahead
  %count = call i64 @llvm.smin.i64(i64 %until, i64 %left)
  %j.to.bytes = mul i64 %j, %size
  %c.bytes = mul i64 %c, %size
  %bytes = mul i64 %count, %size
  call ptr @memcpy(item i8 %j.to.bytes of %target, item i8 %c.bytes of %source, i64 %bytes)
  %j.next = add i64 %j, %count
  br label %run
rest:
  %none = sub i64 %columns, %wanted
  %none.bytes = mul i64 %none, %size
  %some.bytes = mul i64 %wanted, %size
  call ptr @memset(item i8 %some.bytes of %target, i32 0, i64 %none.bytes)
  %i.next = add i64 %i, 1
  jump %row if icmp slt i64 %i.next, %rows
  ret void
}

define void @tt.tile.store(ptr %to, i64 %to.stride, ptr %from, i64 %stride, i64 %rows, i64 %columns, i64 %row.end,
    i64 %column.end, i64 %size) nounwind noinline {
entry:
  %count = call i64 @tt.tile.inside(i64 %row.end, i64 %rows)
  %inside = call i64 @tt.tile.inside(i64 %column.end, i64 %columns)
  %bytes = mul i64 %inside, %size
  %to.row = mul i64 %to.stride, %size
  %from.row = mul i64 %stride, %size
  %odd = and i64 %bytes, 255
  %even = icmp eq i64 %odd, 0
  %short = icmp ule i64 %bytes, 4096
  %in.lines = and i1 %even, %short
  %ahead = mul i64 %to.row, 4
row:
  %i = phi i64 [0, %entry], [%i.next, %next]
  %target = phi ptr [%to, %entry], [%target.next, %next]
  %source = phi ptr [%from, %entry], [%source.next, %next]
  ret void unless icmp slt i64 %i, %count
some:
  br i1 %in.lines, label %lines, label %copy
lines:  ; a call would take longer
  %at = phi i64 [0, %some], [%at.next, %line]
  jump %next unless icmp slt i64 %at, %bytes
line:
  %p.0 = getelementptr i8, ptr %source, i64 %at
  %x.0 = load <16 x i32>, ptr %p.0, align 1
  %x.1 = load <16 x i32>, item i8 64 of %p.0, align 1
  %x.2 = load <16 x i32>, item i8 128 of %p.0, align 1
  %x.3 = load <16 x i32>, item i8 192 of %p.0, align 1
  %q.0 = getelementptr i8, ptr %target, i64 %at
  %below = getelementptr i8, ptr %q.0, i64 %ahead
  call void @llvm.prefetch.p0(ptr %below, i32 1, i32 3, i32 1)
  call void @llvm.prefetch.p0(item i8 64 of %below, i32 1, i32 3, i32 1)
  call void @llvm.prefetch.p0(item i8 128 of %below, i32 1, i32 3, i32 1)
  call void @llvm.prefetch.p0(item i8 192 of %below, i32 1, i32 3, i32 1)
  store <16 x i32> %x.0, ptr %q.0, align 1
  store <16 x i32> %x.1, item i8 64 of %q.0, align 1
  store <16 x i32> %x.2, item i8 128 of %q.0, align 1
  store <16 x i32> %x.3, item i8 192 of %q.0, align 1
  %at.next = add i64 %at, 256
  br label %lines
copy:
  call ptr @memcpy(ptr %target, ptr %source, i64 %bytes)
next:
  %i.next = add i64 %i, 1
  %target.next = getelementptr i8, ptr %target, i64 %to.row
  %source.next = getelementptr i8, ptr %source, i64 %from.row
  br label %row
}
"""


def tile_copy() -> str:
    """The LLVM text of the two functions.

    >>> tile_copy().count("define void")
    2
    """
    return expand(_TEXT)
