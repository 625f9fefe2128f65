"""The report of an invalid memory access: the kernel, the program, the address and the nearest arguments, in LLVM.

A handler of signals calls it (faults.py), so it allocates no memory: the text grows in a buffer and is written at once.
"""

from __future__ import annotations

from ...llvm.structs import Struct

_TEXTS = {
    "kernel": "kernel `", "read": "` read from ", "wrote": "` wrote to ", "touched": "` touched ",
    "nowhere": "` used an address that no memory can have", "signalled": "` was stopped by a signal",
    "unmapped": ", where no memory is mapped", "forbidden": ", memory that may not be ",
    "missing": ", memory that is not there",
    "as.read": "read", "as.written": "written", "as.touched": "touched so",
    "segv": " (SIGSEGV)\n", "bus": " (SIGBUS)\n",
    "program": "note: in program (", "grid": ") of a grid of (", "close": ")\n", "comma": ", ",
    "address": "note: the address is ", "past": " bytes past the start of argument `",
    "before": " bytes before argument `",
    "from": "` is loaded from here\n", "to": "` is stored to here\n", "note": "note: `", "quote": "`\n",
    "stack": "note: the stack of the thread is used up\n",
    "hint": "hint: run it with TRITON_INTERPRET=1, which checks every access\n",
}  # fmt: skip
NEAR = Struct("near", pointer="ptr", distance="i64")  # an argument, and how far an address is from it

_SAY = """
@message = internal global [8192 x i8] zeroinitializer
@length = internal global i64 0
@speaking = internal global i32 0                 ; one thread at a time
@told = internal global [2 x i64] zeroinitializer ; program counter and address of what was told last

declare i64 @write(i32, ptr, i64)

define internal void @say_byte(i8 %c) nounwind {
  %n = load i64, ptr @length
  ret void unless icmp ult i64 %n, 8192
  store i8 %c, item i8 %n of @message
  %more = add i64 %n, 1
  store i64 %more, ptr @length
  ret void
}

define internal void @say(ptr %text) nounwind {
entry:
next:
  %p = phi ptr [%text, %entry], [%q, %put]
  %c = load i8, ptr %p
  ret void if icmp eq i8 %c, 0
put:
  call void @say_byte(i8 %c)
  %q = getelementptr i8, ptr %p, i64 1
  br label %next
}

define internal void @say_number(i64 %x, i64 %base) nounwind {
entry:
  %digits = alloca [24 x i8]
divide:
  %left = phi i64 [%x, %entry], [%rest, %divide]
  %at = phi i64 [24, %entry], [%before, %divide]
  %rest = udiv i64 %left, %base
  %whole = mul i64 %rest, %base
  %digit = sub i64 %left, %whole
  %letter = icmp ugt i64 %digit, 9
  %zero = select i1 %letter, i64 87, i64 48
  %code = add i64 %digit, %zero
  %c = trunc i64 %code to i8
  %before = sub i64 %at, 1
  store i8 %c, item i8 %before of %digits
  jump %divide unless icmp eq i64 %rest, 0
put:
  %k = phi i64 [%before, %divide], [%k1, %put]
  %d = load i8, item i8 %k of %digits
  call void @say_byte(i8 %d)
  %k1 = add i64 %k, 1
  jump %put unless icmp eq i64 %k1, 24
  ret void
}

define internal void @say_address(i64 %x) nounwind {
  call void @say_byte(i8 48)
  call void @say_byte(i8 120)
  call void @say_number(i64 %x, i64 16)
  ret void
}

define internal void @say_three(i64 %x, i64 %y, i64 %z) nounwind {
  call void @say_number(i64 %x, i64 10)
  call void @say(ptr @fault.comma)
  call void @say_number(i64 %y, i64 10)
  call void @say(ptr @fault.comma)
  call void @say_number(i64 %z, i64 10)
  ret void
}

define internal void @speak() nounwind {
entry:
  %all = load i64, ptr @length
more:
  %at = phi i64 [0, %entry], [%then, %wrote]
  %left = sub i64 %all, %at
  %n = call i64 @write(i32 2, item i8 %at of @message, i64 %left)
  ret void if icmp slt i64 %n, 1
wrote:
  %then = add i64 %at, %n
  jump %more unless icmp uge i64 %then, %all
  ret void
}
"""

_REPORT = """
; The text after this one.
define internal ptr @after(ptr %text) nounwind {
entry:
next:
  %p = phi ptr [%text, %entry], [%q, %next]
  %c = load i8, ptr %p
  %q = getelementptr i8, ptr %p, i64 1
  jump %next unless icmp eq i8 %c, 0
  ret ptr %q
}

; Whether the pointer %pointer of a record is touched in a way (1: read, 2: written, 0: either).
define internal i1 @is_touched(ptr %pointer, i64 %kind) nounwind {
  %loads = call ptr @after(item i8 2 of %pointer)
  %stores = call ptr @after(ptr %loads)
  %l = load i8, ptr %loads
  %s = load i8, ptr %stores
  %read = icmp ne i8 %l, 0
  %written = icmp ne i8 %s, 0
  %either = or i1 %read, %written
  %is.read = icmp eq i64 %kind, 1
  %is.write = icmp eq i64 %kind, 2
  %r = select i1 %is.read, i1 %read, i1 %either
  ret i1 select i1 %is.write, i1 %written, i1 %r
}

; The pointer that begins nearest at or below an address, and the nearest above it: two %near.
define internal void @nearest(ptr %first, ptr %slots, i64 %address, i64 %kind, i1 %all, ptr %found) nounwind {
entry:
look:
  %p = phi ptr [%first, %entry], [%next, %on]
  %slot = load i16, ptr %p, align 1
  ret void if icmp eq i16 %slot, -1
  %loads = call ptr @after(item i8 2 of %p)
  %stores = call ptr @after(ptr %loads)
  %next = call ptr @after(ptr %stores)
  %touched = call i1 @is_touched(ptr %p, i64 %kind)
  jump %on unless or i1 %touched, %all
  %slot.w = zext i16 %slot to i64
  %base = load i64, item i64 %slot.w of %slots
  %over = sub i64 %address, %base
  %under = sub i64 %base, %address
  %is.above = icmp ugt i64 %base, %address
  %distance = select i1 %is.above, i64 %under, i64 %over
  %near = icmp ult i64 %distance, 1099511627776   ; a tebibyte: what is further away has nothing to do with it
  jump %on unless %near
  %which = zext i1 %is.above to i64
  %nearest = getelementptr %near, ptr %found, i64 %which
  %best.p = field near.pointer of %nearest
  %best.d = field near.distance of %nearest
  %best = load ptr, ptr %best.p
  %none = icmp eq ptr %best, null
  %d = load i64, ptr %best.d
  %closer = icmp ult i64 %distance, %d
  jump %on unless or i1 %none, %closer
  store ptr %p, ptr %best.p
  store i64 %distance, ptr %best.d
on:
  br label %look
}

; The lines that load from an argument, or that store to it, if there are any and that is of interest.
define internal void @say_lines(ptr %name, ptr %how, ptr %lines, i1 %wanted) nounwind {
  %c = load i8, ptr %lines
  %some = icmp ne i8 %c, 0
  ret void unless and i1 %some, %wanted
  call void @say(ptr @fault.note)
  call void @say(ptr %name)
  call void @say(ptr %how)
  call void @say(ptr %lines)
  ret void
}

; One argument: how far the address is from it, and the lines that touch it.
define internal void @say_argument(ptr %pointer, i64 %distance, ptr %how, i64 %kind) nounwind {
  %name = getelementptr i8, ptr %pointer, i64 2
  %loads = call ptr @after(ptr %name)
  %stores = call ptr @after(ptr %loads)
  call void @say(ptr @fault.address)
  call void @say_number(i64 %distance, i64 10)
  call void @say(ptr %how)
  call void @say(ptr %name)
  call void @say(ptr @fault.quote)
  %may.load = icmp ne i64 %kind, 2
  call void @say_lines(ptr %name, ptr @fault.from, ptr %loads, i1 %may.load)
  %may.store = icmp ne i64 %kind, 1
  call void @say_lines(ptr %name, ptr @fault.to, ptr %stores, i1 %may.store)
  ret void
}

define internal void @say_arguments(ptr %first, ptr %slots, i64 %address, i64 %kind) nounwind {
  %found = alloca [2 x %near]
  store [2 x %near] zeroinitializer, ptr %found
  call void @nearest(ptr %first, ptr %slots, i64 %address, i64 %kind, i1 false, ptr %found)
  %second = getelementptr %near, ptr %found, i64 1
  %below.p = field near.pointer of %found
  %above.p = field near.pointer of %second
  %b = load ptr, ptr %below.p
  %a = load ptr, ptr %above.p
  %no.b = icmp eq ptr %b, null
  %no.a = icmp eq ptr %a, null
  jump %tell unless and i1 %no.b, %no.a
  ; nobody is known to be touched so: any pointer will do
  call void @nearest(ptr %first, ptr %slots, i64 %address, i64 %kind, i1 true, ptr %found)
tell:
  %below = load ptr, ptr %below.p
  %below.d = load i64, field near.distance of %found
  %no.below = icmp eq ptr %below, null
  jump %upper if %no.below
  call void @say_argument(ptr %below, i64 %below.d, ptr @fault.past, i64 %kind)
upper:                                            ; the sizes are not known: where it is closer, it may be this one
  %above = load ptr, ptr %above.p
  %above.d = load i64, field near.distance of %second
  %no.above = icmp eq ptr %above, null
  %closer = icmp ult i64 %above.d, %below.d
  %alone = or i1 %no.below, %closer
  %silent = xor i1 %alone, true
  ret void if or i1 %no.above, %silent
  call void @say_argument(ptr %above, i64 %above.d, ptr @fault.before, i64 %kind)
  ret void
}

; All of it: what happened to whom, where, and what to do.
define internal void @report(i32 %signal, i32 %code, i64 %address, ptr %context, ptr %header, ptr %record) nounwind {
  store i64 0, ptr @length
  %job, %program = load job, program of header %header
  %slots, %grid = load slots, grid of job %job
  %place = call ptr @after(ptr %record)
  %first = call ptr @after(ptr %place)
  %seen = call i64 @fault_kind(ptr %context)
  %sent = icmp slt i32 %code, 1
  %kind = select i1 %sent, i64 0, i64 %seen
  call void @say(ptr @fault.kernel)
  call void @say(ptr %record)
  jump %fault unless %sent
signalled:                                        ; by a handler that is called before this one, and knew the address
  call void @say(ptr @fault.signalled)
  br label %named
fault:
  jump %verb unless icmp eq i32 %code, 128        ; of the system, which does not know the address either
unknown:
  call void @say(ptr @fault.nowhere)
  br label %named
verb:
  %is.read = icmp eq i64 %kind, 1
  %is.write = icmp eq i64 %kind, 2
  %did.1 = select i1 %is.read, ptr @fault.read, ptr @fault.touched
  %did = select i1 %is.write, ptr @fault.wrote, ptr %did.1
  call void @say(ptr %did)
  call void @say_address(i64 %address)
  jump %mapped unless icmp eq i32 %signal, 7
missing:
  call void @say(ptr @fault.missing)
  br label %named
mapped:
  jump %forbidden if icmp eq i32 %code, 2
unmapped:
  call void @say(ptr @fault.unmapped)
  br label %named
forbidden:
  call void @say(ptr @fault.forbidden)
  %as.1 = select i1 %is.read, ptr @fault.as.read, ptr @fault.as.touched
  %as = select i1 %is.write, ptr @fault.as.written, ptr %as.1
  call void @say(ptr %as)
named:
  %located = phi i1 [false, %signalled], [false, %unknown], [true, %missing], [true, %unmapped], [true, %forbidden]
  %by.bus = icmp eq i32 %signal, 7
  %name = select i1 %by.bus, ptr @fault.bus, ptr @fault.segv
  call void @say(ptr %name)
  call void @say(ptr %place)
  %gx = load i64, ptr %grid
  %gy = load i64, item i64 1 of %grid
  %gz = load i64, item i64 2 of %grid
  %x = urem i64 %program, %gx
  %row = udiv i64 %program, %gx
  %y = urem i64 %row, %gy
  %z = udiv i64 %row, %gy
  call void @say(ptr @fault.program)
  call void @say_three(i64 %x, i64 %y, i64 %z)
  call void @say(ptr @fault.grid)
  call void @say_three(i64 %gx, i64 %gy, i64 %gz)
  call void @say(ptr @fault.close)
  jump %end unless %located
  ; within a mebibyte below where the stack ends
  %sp = call i64 @fault_sp(ptr %context)
  %below = sub i64 %sp, %address
  %shifted = add i64 %below, 4096
  jump %arguments unless icmp ult i64 %shifted, 1052672
  call void @say(ptr @fault.stack)
  br label %end
arguments:
  call void @say_arguments(ptr %first, ptr %slots, i64 %address, i64 %kind)
end:
  call void @say(ptr @fault.hint)
  call void @speak()
  ret void
}
"""

TEXT = _SAY + "\n" + _REPORT


def constants() -> str:
    """The sentences, as constants.

    >>> constants().split("\\n")[0]
    '@fault.kernel = private unnamed_addr constant [9 x i8] c"kernel `\\\\00"'
    """
    from ...llvm.writer import escaped  # not needed where the runtime is compiled already

    return "\n".join(f'@fault.{name} = private unnamed_addr constant [{len(text) + 1} x i8] '
                     f'c"{escaped(text.encode())}\\00"' for name, text in _TEXTS.items())
