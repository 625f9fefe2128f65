"""Who touched an element last, and whether the two may have done so at the same time.

A cell of 4 bytes is twice the number of a *segment*, plus 1 for an atomic: one cell for who wrote an element, one for
who read it, and one for the lane that wrote it. Numbers grow from launch to launch, so cells of earlier launches are
old. The last number of a launch stands for several readers.
"""

from __future__ import annotations

_CELL = """
declare i1 @llvm.vector.reduce.or.v8i1(<8 x i1>)
declare i1 @llvm.vector.reduce.or.v32i1(<32 x i1>)

; Look at what others did to a cell; note what this program does. Reports one conflict at most.
define internal void @track(ptr %context, ptr %site, i64 %program, i64 %address, i64 %lane, ptr %region, i64 %cell,
                            i1 %told) nounwind noinline {
  %flags, %size = load flags, size of site %site, align 1
  %base = load i64, field context.base of %context
  %me = call i64 @current(ptr %context, i64 %program)
  %atomic = icmp ne i64 %flags & flag(atomic), 0
  %write = icmp ne i64 %flags & flag(writes), 0
  %twice = shl i64 %me, 1
  %one = zext i1 %atomic to i64
  %mark.w = or i64 %twice, %one
  %mark = trunc i64 %mark.w to i32
  %writers, %readers = load writers, readers of region %region
  %w.p = getelementptr i32, ptr %writers, i64 %cell
  %w = load i32, ptr %w.p
  %w.w = zext i32 %w to i64
  %writer = lshr i64 %w.w, 1
  %fresh = icmp ugt i64 %writer, %base
  %other = icmp ne i64 %writer, %me
  jump %written if and i1 %fresh, %other
own:
  ; This program has written it since its last barrier: another lane may have.
  %lanes = load ptr, field region.writing_lanes of %region
  %no.lanes = icmp eq ptr %lanes, null
  %not.mine = xor i1 %fresh, true
  jump %after if or i1 %no.lanes, %not.mine, %atomic
own.lane:
  %lane.0 = load i32, item i32 %cell of %lanes
  %lane.i = trunc i64 %lane to i32
  %same.lane = icmp eq i32 %lane.0, %lane.i
  jump %after if or i1 %same.lane, %write
tell.own:
  %lane.w = zext i32 %lane.0 to i64
  %value.0 = call i64 @peek(i64 %address, i64 %size)
  call void @report(ptr %context, ptr %site, i64 kind(race in program), i64 %program, i64 %lane, i64 %address,
      i64 %lane.w, i64 %value.0)
  br label %after
written:
  %w.atomic = icmp ne i64 %w.w & 1, 0
  jump %after if and i1 %w.atomic, %atomic
order:
  %known = call i1 @ordered(ptr %context, i64 %writer, i64 %me)
  jump %after if or i1 %known, %told
tell:
  %value = call i64 @peek(i64 %address, i64 %size)
  call void @report(ptr %context, ptr %site, i64 kind(race), i64 %program, i64 %lane, i64 %address, i64 %w.w,
      i64 %value)
after:
  %told.1 = phi i1 [%told, %own], [%told, %own.lane], [%told, %tell.own], [%told, %written], [%told, %order],
                   [true, %tell]
  jump %load unless %write
  %plain = icmp eq i64 %w.w & 1, 0
  %mine.before = icmp eq i64 %writer, %me
  %stays = and i1 %plain, %mine.before, %atomic   ; an atomic does not hide the plain store before it
  %mark.now = select i1 %stays, i32 %w, i32 %mark
  store i32 %mark.now, ptr %w.p
  %lanes.1 = load ptr, field region.writing_lanes of %region
  jump %reads if icmp eq ptr %lanes.1, null
  %lane.i1 = trunc i64 %lane to i32
  store i32 %lane.i1, item i32 %cell of %lanes.1
reads:
  ret void if icmp eq ptr %readers, null
  %r = load i32, item i32 %cell of %readers
  %r.w = zext i32 %r to i64
  %reader = lshr i64 %r.w, 1
  %r.fresh = icmp ugt i64 %reader, %base
  %r.other = icmp ne i64 %reader, %me
  %r.atomic = icmp ne i64 %r.w & 1, 0
  %r.both = and i1 %r.atomic, %atomic
  %r.plain = xor i1 %r.both, true
  %untold = xor i1 %told.1, true
  ret void unless and i1 %r.fresh, %r.other, %r.plain, %untold
  ret void if call i1 @ordered(ptr %context, i64 %reader, i64 %me)
  %r.value = call i64 @peek(i64 %address, i64 %size)
  %r.mark = or i64 %r.w, flag(by_reader)
  call void @report(ptr %context, ptr %site, i64 kind(race), i64 %program, i64 %lane, i64 %address, i64 %r.mark,
      i64 %r.value)
  ret void
load:
  ret void if icmp eq ptr %readers, null
  %n.p = getelementptr i32, ptr %readers, i64 %cell
  %n = load i32, ptr %n.p
  %n.w = zext i32 %n to i64
  %n.reader = lshr i64 %n.w, 1
  %n.old = icmp ule i64 %n.reader, %base
  %n.own = icmp eq i64 %n.reader, %me
  jump %n.put if or i1 %n.old, %n.own
  %n.ordered = call i1 @ordered(ptr %context, i64 %n.reader, i64 %me)
  %n.limit = load i64, field context.limit of %context
  %n.twice = shl i64 %n.limit, 1
  %n.many = trunc i64 %n.twice to i32
  %n.few = select i1 %n.ordered, i32 %mark, i32 %n.many
  store i32 %n.few, ptr %n.p
  ret void
n.put:
  store i32 %mark, ptr %n.p
  ret void
}

"""

# Of WIDTH cells at a time.
_CELLS = """
; The mark of a segment in WIDTH cells.
define internal <WIDTH x i32> @marks.WIDTH(i64 %segment, i64 %atomic) nounwind alwaysinline {
  %twice = shl i64 %segment, 1
  %mark = or i64 %twice, %atomic
  %x = trunc i64 %mark to i32
  ret <WIDTH x i32> splat <WIDTH x i32> %x
}

; Whether one segment wrote WIDTH cells, and all it did is known to segment %me. %last are cells that were known before.
define internal i1 @is_known.WIDTH(ptr %context, <WIDTH x i32> %cells, i64 %me, ptr %last) nounwind alwaysinline {
  %before = load <WIDTH x i32>, ptr %last
  %new = icmp ne <WIDTH x i32> %cells, %before
  ret i1 true unless call i1 @llvm.vector.reduce.or.vWIDTHi1(<WIDTH x i1> %new)
  %x = extractelement <WIDTH x i32> %cells, i64 0
  %all = splat <WIDTH x i32> %x
  %differs = icmp ne <WIDTH x i32> %cells, %all
  ret i1 false if call i1 @llvm.vector.reduce.or.vWIDTHi1(<WIDTH x i1> %differs)
  %w = zext i32 %x to i64
  %g = lshr i64 %w, 1
  ret i1 false unless call i1 @ordered(ptr %context, i64 %g, i64 %me)
  store <WIDTH x i32> %cells, ptr %last
  ret i1 true
}

; As many cells of a row as WIDTH at a time take, while there is no conflict. Returns how many lanes were done.
define internal i64 @track_row.WIDTH(ptr %context, ptr %site, i64 %program, ptr %region, i64 %cell, i64 %n, i64 %lane)
    nounwind noinline {
entry:
  %flags = load i64, field site.flags of %site, align 1
  %base, %limit = load base, limit of context %context
  %me = call i64 @current(ptr %context, i64 %program)
  %mine = call <WIDTH x i32> @marks.WIDTH(i64 %me, i64 0)
  %old = call <WIDTH x i32> @marks.WIDTH(i64 %base, i64 1)
  %many = call <WIDTH x i32> @marks.WIDTH(i64 %limit, i64 0)
  %write = icmp ne i64 %flags & flag(writes), 0
  %writers, %readers, %lanes = load writers, readers, writing_lanes of region %region
  %no.readers = icmp eq ptr %readers, null
  %no.lanes = icmp eq ptr %lanes, null
  %last.w = alloca <WIDTH x i32>
  %last.r = alloca <WIDTH x i32>
  store <WIDTH x i32> zeroinitializer, ptr %last.w
  store <WIDTH x i32> zeroinitializer, ptr %last.r
next:
  %i = phi i64 [0, %entry], [%after, %again]
  %after = add i64 %i, WIDTH
  jump %done unless icmp sle i64 %after, %n
  %c = add i64 %cell, %i
  %w.p = getelementptr i32, ptr %writers, i64 %c
  %w = load <WIDTH x i32>, ptr %w.p, align 4
  %w.new = icmp ugt <WIDTH x i32> %w, %old
  %w.other = icmp ne <WIDTH x i32> %w, %mine
  %w.bad = and <WIDTH x i1> %w.new, %w.other
  jump %ours unless call i1 @llvm.vector.reduce.or.vWIDTHi1(<WIDTH x i1> %w.bad)
  jump %reads if call i1 @is_known.WIDTH(ptr %context, <WIDTH x i32> %w, i64 %me, ptr %last.w) else %done
ours:
  %w.own.any = call i1 @llvm.vector.reduce.or.vWIDTHi1(<WIDTH x i1> %w.new)
  %may.reread = xor i1 %no.lanes, true
  %is.load = xor i1 %write, true
  jump %reads unless and i1 %w.own.any, %may.reread, %is.load
  %l = load <WIDTH x i32>, item i32 %c of %lanes, align 4
  %here.w = add i64 %lane, %i
  %here = trunc i64 %here.w to i32
  %h.1 = splat <WIDTH x i32> %here
  %h = add <WIDTH x i32> %h.1, <IOTA>
  %l.differs = icmp ne <WIDTH x i32> %l, %h
  %l.bad = and <WIDTH x i1> %l.differs, %w.new
  jump %done if call i1 @llvm.vector.reduce.or.vWIDTHi1(<WIDTH x i1> %l.bad)
reads:
  jump %put if %no.readers
both:
  %r.p = getelementptr i32, ptr %readers, i64 %c
  %r = load <WIDTH x i32>, ptr %r.p, align 4
  %r.new = icmp ugt <WIDTH x i32> %r, %old
  %r.other = icmp ne <WIDTH x i32> %r, %mine
  %r.bad = and <WIDTH x i1> %r.new, %r.other
  jump %mark.reads unless call i1 @llvm.vector.reduce.or.vWIDTHi1(<WIDTH x i1> %r.bad)
  %r.known = call i1 @is_known.WIDTH(ptr %context, <WIDTH x i32> %r, i64 %me, ptr %last.r)
  %r.conflict = xor i1 %r.known, true
  jump %done if and i1 %write, %r.conflict
mark.others:
  %crowd = select <WIDTH x i1> %r.bad, <WIDTH x i32> %many, <WIDTH x i32> %mine
  %several = select i1 %r.known, <WIDTH x i32> %mine, <WIDTH x i32> %crowd
mark.reads:
  %r.now = phi <WIDTH x i32> [%mine, %both], [%several, %mark.others]
  jump %put if %write
  store <WIDTH x i32> %r.now, ptr %r.p, align 4
  br label %again
put:
  jump %again unless %write
  store <WIDTH x i32> %mine, ptr %w.p, align 4
  jump %again if %no.lanes
  %n.here.w = add i64 %lane, %i
  %n.here = trunc i64 %n.here.w to i32
  %n.1 = splat <WIDTH x i32> %n.here
  %n.lanes = add <WIDTH x i32> %n.1, <IOTA>
  store <WIDTH x i32> %n.lanes, item i32 %c of %lanes, align 4
again:
  br label %next
done:
  ret i64 %i
}
"""

_ROW = """
declare <32 x i32> @llvm.masked.load.v32i32.p0(ptr, <32 x i1>, <32 x i32>)
declare void @llvm.masked.store.v32i32.p0(<32 x i32>, ptr, <32 x i1>)

; Whether nobody else has written the cells of a row in this launch; 32 at a time become %mine up to those that others
; wrote. What is at most %old is of earlier launches.
define internal i1 @track_written(ptr %writers, i64 %n, <32 x i32> %mine, <32 x i32> %old) nounwind noinline {
entry:
next:
  %i = phi i64 [0, %entry], [%i32, %put]
  %i32 = add i64 %i, 32
  %p = getelementptr i32, ptr %writers, i64 %i
  jump %rest unless icmp sle i64 %i32, %n
  %w = load <32 x i32>, ptr %p, align 4
  %new = icmp ugt <32 x i32> %w, %old
  %other = icmp ne <32 x i32> %w, %mine
  %bad = and <32 x i1> %new, %other
  ret i1 false if call i1 @llvm.vector.reduce.or.v32i1(<32 x i1> %bad)
put:
  store <32 x i32> %mine, ptr %p, align 4
  br label %next
rest:
  %left = sub i64 %n, %i
  ret i1 true if icmp eq i64 %left, 0
  %left.i = trunc i64 %left to i32
  %left.all = splat <32 x i32> %left.i
  %on = icmp ult <32 x i32> <IOTA>, %left.all
  %t = call <32 x i32> @llvm.masked.load.v32i32.p0(ptr align 4 %p, <32 x i1> %on, <32 x i32> zeroinitializer)
  %t.new = icmp ugt <32 x i32> %t, %old
  %t.other = icmp ne <32 x i32> %t, %mine
  %t.bad = and <32 x i1> %t.new, %t.other
  ret i1 false if call i1 @llvm.vector.reduce.or.v32i1(<32 x i1> %t.bad)
  call void @llvm.masked.store.v32i32.p0(<32 x i32> %mine, ptr align 4 %p, <32 x i1> %on)
  ret i1 true
}

; As many cells of a row as are plainly fine. Returns how many lanes were done.
define internal i64 @track_row(ptr %context, ptr %site, i64 %program, ptr %region, i64 %cell, i64 %n, i64 %lane)
    nounwind noinline {
  %most = call i64 @track_row.32(ptr %context, ptr %site, i64 %program, ptr %region, i64 %cell, i64 %n, i64 %lane)
  %cell.1 = add i64 %cell, %most
  %n.1 = sub i64 %n, %most
  %lane.1 = add i64 %lane, %most
  %few = call i64 @track_row.8(ptr %context, ptr %site, i64 %program, ptr %region, i64 %cell.1, i64 %n.1, i64 %lane.1)
  ret i64 add i64 %most, %few
}
"""


def _of(text: str, width: int) -> str:
    """A text for `width` cells at a time."""
    return text.replace("WIDTH", str(width)).replace("IOTA", ", ".join(f"i32 {k}" for k in range(width)))


TEXT = _CELL + _of(_CELLS, 8) + _of(_CELLS, 32) + _of(_ROW, 32)
