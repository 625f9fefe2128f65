"""What launches of a kernel have taken, in LLVM: whether one thread or several run the next one.

A program that runs beside others, with its operands in another core's cache, takes longer than alone, and threads may
be slow to come. So launches of a kernel with the same number of programs are timed as a whole, by one thread and by
several. The slower way is tried now and then.
"""

from __future__ import annotations

from ...llvm.structs import Struct

__all__ = ["KNOWN", "TEXT"]

# A kernel, the ticks of one program in its last launch, how many programs it had, ticks of launches with so many by one
# thread and by several (0: not known), launches since the slower was tried, and after how many it is.
KNOWN = Struct("known", entry="ptr", each="double", total="i64", alone="i64", shared="i64", since="i64", every="i64")

TEXT = """
@known = internal global [256 x %known] zeroinitializer, align 64 ; by a few bits of the entry; belongs to who is @busy
@tried = internal global i64 0                    ; the way of the open launch, if it was taken to see; see @settled

define internal ptr @known_of(ptr %entry) nounwind alwaysinline {
  %address = ptrtoint ptr %entry to i64
  %high = lshr i64 %address, 12
  %low = lshr i64 %address, 4
  %mixed = xor i64 %low, %high
  %slot = and i64 %mixed, 255
  ret ptr getelementptr %known, ptr @known, i64 %slot
}

define internal void @learn(ptr %known, ptr %entry, i64 %since, i64 %programs) nounwind alwaysinline {
  %now = call i64 @ticks()
  %spent = sub i64 %now, %since
  %spent.f = sitofp i64 %spent to double
  %programs.f = sitofp i64 %programs to double
  %each = fdiv double %spent.f, %programs.f
  store ptr %entry, field known.entry of %known
  store double %each, field known.each of %known
  ret void
}

; Ticks of work that are worth sharing, whatever it costs: 512 us.
define internal i64 @always_shared() nounwind alwaysinline {
  %share = load i64, ptr @share_after
  ret i64 shl i64 %share, 6
}

; Who runs a launch, by what such launches have taken: 1: this thread alone, 2: several, 0: not known, or a long one.
; The slower way is tried now and then, and so is one that is not known.
define internal i64 @settled(ptr %known, i1 %same, i64 %total) nounwind {
  store i64 0, ptr @tried
  jump %anew unless %same
  %before = load i64, field known.total of %known
  jump %anew unless icmp eq i64 %before, %total
  %alone, %shared = load alone, shared of known %known
  %share = load i64, ptr @share_after
  %long = call i64 @always_shared()
  %longer = call i64 @llvm.umax.i64(i64 %alone, i64 %shared)
  jump %open if icmp ugt i64 %longer, %long
  %since = load i64, field known.since of %known
  %more = add i64 %since, 1
  %every = load i64, field known.every of %known
  %due = icmp uge i64 %more, %every
  %then = select i1 %due, i64 0, i64 %more
  store i64 %then, field known.since of %known
  jump %new.alone if icmp eq i64 %alone, 0
  jump %new.shared if icmp eq i64 %shared, 0
  %better = icmp ule i64 %alone, %shared
  %by.one = xor i1 %better, %due
  %way = select i1 %by.one, i64 1, i64 2
  %noted = select i1 %due, i64 %way, i64 0
  store i64 %noted, ptr @tried
  ret i64 %way
new.alone:
  jump %open unless %due
  store i64 1, ptr @tried
  ret i64 1
new.shared:                                       ; what one thread does in so short a time is not worth sharing
  %little = icmp ult i64 %alone, %share
  %not.due = xor i1 %due, true
  jump %open if or i1 %little, %not.due
  store i64 2, ptr @tried
  ret i64 2
anew:
  store i64 %total, field known.total of %known
  store i64 0, field known.alone of %known
  store i64 0, field known.shared of %known
  store i64 0, field known.since of %known
  store i64 32, field known.every of %known
open:
  ret i64 0
}

; A launch has taken these ticks: %way is 1 if one thread ran it, 2 if several did. One slow launch says little. If the
; other way was tried and lost, it is tried half as often, down to every 4096th launch.
define internal void @note_launch(ptr %known, i64 %way, i64 %ticks) nounwind {
  %alone.p = field known.alone of %known
  %shared.p = field known.shared of %known
  %by.one = icmp eq i64 %way, 1
  %mine.p = select i1 %by.one, ptr %alone.p, ptr %shared.p
  %other.p = select i1 %by.one, ptr %shared.p, ptr %alone.p
  %before = load i64, ptr %mine.p
  %unknown = icmp eq i64 %before, 0
  %twofold = shl i64 %before, 1
  %sample = call i64 @llvm.umin.i64(i64 %ticks, i64 %twofold)
  %three = mul i64 %before, 3
  %sum = add i64 %three, %sample
  %average = lshr i64 %sum, 2
  %new = select i1 %unknown, i64 %ticks, i64 %average
  store i64 %new, ptr %mine.p
  %tried = load i64, ptr @tried
  jump %done unless icmp eq i64 %tried, %way
  %other = load i64, ptr %other.p
  %won = icmp ult i64 %new, %other
  %every = load i64, field known.every of %known
  %twice = shl i64 %every, 1
  %rarer = call i64 @llvm.umin.i64(i64 %twice, i64 4096)
  %next = select i1 %won, i64 32, i64 %rarer
  store i64 %next, field known.every of %known
done:
  ret void
}
"""
