"""What launches of a kernel have taken, in LLVM: whether one thread or several run the next one.

A program that runs beside others, with its operands in another core's cache, takes longer than alone, and threads may
be slow to come. So launches of a kernel with the same number of programs are timed as a whole, by one thread and by
several. The slower way is tried now and then, in a few launches that follow each other: threads that have slept come
late to the first of them, and are there at once for the others. The last of them count most. Several threads have to
save an eighth of the time: if none comes, the thread that launches does all the work, in about the same time.

A long launch is begun by one thread now and then, which goes on while it looks as if it took less time than several:
updates of tiles that are atomic beside other threads may be plain ones alone (alone.py), and take a tenth of the time.
"""

from __future__ import annotations

from ...llvm.structs import Struct

# A kernel, the ticks of one program in its last launch, how many programs it had, ticks of launches with so many by one
# thread and by several (0: not known), launches since the slower was tried, and after how many it is; the way that is
# being tried, if any, and how many launches of that are left.
KNOWN = Struct("known", entry="ptr", each="double", total="i64", alone="i64", shared="i64", since="i64", every="i64",
               trying="i64", left="i64")

_TRIAL, _LATE = 6, 2  # launches of a trial; the first ones, which do not count
_SOON = 16  # launches after which the other way is tried, at first and where it won

TEXT = """
@known = internal global [256 x %known] zeroinitializer, align 64 ; by a few bits of the entry; belongs to who is @busy

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

; Whether several threads are slower than one, or save little.
define internal i1 @slower(i64 %shared, i64 %alone) nounwind alwaysinline {
  %eighth = lshr i64 %alone, 3
  %enough = sub i64 %alone, %eighth
  ret i1 icmp uge i64 %shared, %enough
}

; Count a launch; whether the other way is to be tried in it.
define internal i1 @is_due(ptr %known) nounwind alwaysinline {
  %since = load i64, field known.since of %known
  %more = add i64 %since, 1
  %every = load i64, field known.every of %known
  %due = icmp uge i64 %more, %every
  %then = select i1 %due, i64 0, i64 %more
  store i64 %then, field known.since of %known
  ret i1 %due
}

; A trial was lost: the next one is due after twice as many launches.
define internal void @rarer(ptr %known) nounwind alwaysinline {
  %every = load i64, field known.every of %known
  %twice = shl i64 %every, 1
  %rarer = call i64 @llvm.umin.i64(i64 %twice, i64 4096)
  store i64 %rarer, field known.every of %known
  ret void
}

; The next launches go this way; returns it.
define internal i64 @begin_trial(ptr %known, i64 %way) nounwind alwaysinline {
  store i64 %way, field known.trying of %known
  store i64 {trial}, field known.left of %known
  ret i64 %way
}

; Who runs a launch, by what such launches have taken: 1: this thread alone, 2: several, 3: this thread, while that
; looks faster, 0: not known, or a long one. The slower way is tried now and then, and so is one that is not known.
define internal i64 @settled(ptr %known, i1 %same, i64 %total) nounwind {
  jump %anew unless %same
  %before = load i64, field known.total of %known
  jump %anew unless icmp eq i64 %before, %total
  %alone, %shared = load alone, shared of known %known
  %long = call i64 @always_shared()
  %new = icmp eq i64 %alone, 0
  %timed = xor i1 %new, true
  %work = select i1 %new, i64 %shared, i64 %alone ; several threads may have taken long to come
  %slow = call i1 @slower(i64 %shared, i64 %alone)
  %trying = load i64, field known.trying of %known
  jump %lengthy if icmp ugt i64 %work, %long
  ret i64 %trying if icmp ne i64 %trying, 0
  %share = load i64, ptr @share_after
  %short = icmp ult i64 %work, %share
  ret i64 1 if and i1 %short, %timed              ; it is not worth sharing, nor trying to
  %due = call i1 @is_due(ptr %known)
  %by.one = xor i1 %slow, %due
  %way = select i1 %by.one, i64 1, i64 2
  %untimed = select i1 %new, i64 1, i64 2
  %not.shared = icmp eq i64 %shared, 0
  %unknown = or i1 %new, %not.shared
  jump %try if %due
  ret i64 0 if %unknown
  ret i64 %way
try:
  %other = select i1 %unknown, i64 %untimed, i64 %way
  ret i64 call i64 @begin_trial(ptr %known, i64 %other)
lengthy:                                          ; one thread is not tried, it only begins
  ret i64 2 if icmp eq i64 %trying, 2
  store i64 0, field known.trying of %known
  %look = call i1 @is_due(ptr %known)
  %one.won = and i1 %slow, %timed
  jump %share.again if and i1 %look, %one.won
  %usual = zext i1 %one.won to i64
  ret i64 select i1 %look, i64 3, i64 %usual
share.again:
  ret i64 call i64 @begin_trial(ptr %known, i64 2)
anew:
  store i64 %total, field known.total of %known
  store i64 0, field known.alone of %known
  store i64 0, field known.shared of %known
  store i64 0, field known.since of %known
  store i64 {soon}, field known.every of %known
  store i64 0, field known.trying of %known
  ret i64 0
}

; Whether a launch that one thread began is shared, as %spent ticks tell that it alone took %whole; the way is what
; @settled said.
define internal i1 @is_given_up(ptr %known, i64 %way, i64 %spent, i64 %whole) nounwind {
  ret i1 true if icmp eq i64 %way, 0
  %alone, %shared = load alone, shared of known %known
  jump %look if icmp eq i64 %way, 3
  %twice = shl i64 %alone, 1
  %long = call i64 @always_shared()
  %most = call i64 @llvm.umax.i64(i64 %twice, i64 %long)
  ret i1 icmp ugt i64 %spent, %most               ; another launch than those that one thread ran
look:
  %part = lshr i64 %shared, 3
  ret i1 false if icmp ult i64 %spent, %part
  ret i1 false if call i1 @slower(i64 %shared, i64 %whole)
  call void @rarer(ptr %known)
  ret i1 true
}

; A launch has taken these ticks: %way is 1 if one thread ran it, 2 if several did. One slow launch says little, but a
; trial ends where it takes eight times as long. If the other way was tried and lost, it is tried half as often, down to
; every 4096th launch. Once it is the better one, the two are compared often again.
define internal void @note_launch(ptr %known, i64 %way, i64 %ticks) nounwind {
  %one.p = field known.alone of %known
  %several.p = field known.shared of %known
  %by.one = icmp eq i64 %way, 1
  %mine.p = select i1 %by.one, ptr %one.p, ptr %several.p
  %before = load i64, ptr %mine.p
  %trying = load i64, field known.trying of %known
  %tried = icmp eq i64 %trying, %way
  %left = load i64, field known.left of %known
  %other.p = select i1 %by.one, ptr %several.p, ptr %one.p
  %other = load i64, ptr %other.p
  %eight = shl i64 %other, 3
  %eightfold = sub i64 %eight, 1                  ; of none that is known: any time is less
  %some.left = sub i64 %left, 1
  %hopeless = icmp ugt i64 %ticks, %eightfold
  %late = icmp ugt i64 %left, {late}              ; threads may have slept until then
  %on = xor i1 %late, true
  %over = and i1 %hopeless, %on
  %fewer = select i1 %over, i64 0, i64 %some.left
  %both = add i64 %before, %ticks
  %half = lshr i64 %both, 1
  %in.trial = select i1 %late, i64 %ticks, i64 %half
  %twofold = shl i64 %before, 1
  %sample = call i64 @llvm.umin.i64(i64 %ticks, i64 %twofold)
  %three = mul i64 %before, 3
  %sum = add i64 %three, %sample
  %average = lshr i64 %sum, 2
  %unknown = icmp eq i64 %before, 0
  %usual = select i1 %unknown, i64 %ticks, i64 %average
  %mine = select i1 %tried, i64 %in.trial, i64 %usual
  store i64 %mine, ptr %mine.p
  %alone, %shared = load alone, shared of known %known
  %slow = call i1 @slower(i64 %shared, i64 %alone)
  %best = icmp eq i1 %slow, %by.one               ; the way of this launch is
  jump %trial if %tried
  jump %again unless %best
  ret void
trial:
  store i64 %fewer, field known.left of %known
  ret void if icmp ne i64 %fewer, 0
  store i64 0, field known.trying of %known
  jump %again if %best
  call void @rarer(ptr %known)
  ret void
again:
  store i64 {soon}, field known.every of %known
  ret void
}
""".replace("{trial}", str(_TRIAL)).replace("{late}", str(_TRIAL - _LATE)).replace("{soon}", str(_SOON))
