"""How the shared launcher runs a kernel on a GPU: one call of the vendor's driver, on the current stream.

A record's `extra` points to an `INFO`. Nothing is allocated and nothing waits, so launches can be captured into graphs.
The GIL is kept: the driver only queues, and giving the GIL away would let another thread hold up every launch.

The text below is shared by vendors. `parts` fills its holes: the calls of the driver, and the checks before them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..launcher import launcher as native
from ..launcher import preconditions
from ..launcher.guards import RECORD
from ..llvm.structs import Struct, resolve

__all__ = ["INFO", "RING", "symbols", "text"]

RING = 64  # launches that are remembered, for errors that come later


# What the launcher must know of a kernel besides its arguments.
INFO = Struct(
    "info",
    context="ptr",  # of the device, as the driver knows it
    device="ptr",  # a Python int
    threads="i32",
    shared="i32",
    config="ptr",  # of launches with attributes; null for the others
    number="i64",  # stands for the kernel's name
    preconditions="ptr",  # the kernel's preconditions, see `launcher.preconditions`
    implicit="ptr",  # implicit arguments, where the vendor has such
)

_RUN = """
@{prefix}.stream = global ptr null                 ; a Python function: number of a device -> handle of its stream
@{prefix}.failed = global ptr null                 ; a Python function that raises
@{prefix}.judge = global ptr null                  ; a Python function: whether a kernel is fit for a launch
@{prefix}.ring = global [{ring} x i64] zeroinitializer
@{prefix}.count = global i64 0

; Launch a record's kernel on the current stream of its device.
define ptr @{prefix}.run(ptr %record, ptr %slots, ptr %grid, ptr %result) nounwind {
entry:
  %function = load ptr, ptr @{prefix}.stream
  %plain = icmp eq ptr %function, null
  br i1 %plain, label %launch, label %ask
ask:
  %info.p = field record.extra of %record
  %info = load ptr, ptr %info.p
  %device.p = field info.device of %info
  %device = load ptr, ptr %device.p
  %stream.o = call ptr @PyObject_CallOneArg(ptr %function, ptr %device)
  %none = icmp eq ptr %stream.o, null
  br i1 %none, label %raise, label %known
known:
  %handle = call ptr @PyLong_AsVoidPtr(ptr %stream.o)
  call void @Py_DecRef(ptr %stream.o)
  br label %launch
launch:
  %stream = phi ptr [null, %entry], [%handle, %known]
  %launched = call ptr @{prefix}.launch(ptr %record, ptr %slots, ptr %grid, ptr %result, ptr %stream)
  ret ptr %launched
raise:
  ret ptr null
}

; Launch a record's kernel on a stream; a new reference to %result, or null with an exception.
define ptr @{prefix}.launch(ptr %record, ptr %slots, ptr %grid, ptr %result, ptr %stream) nounwind {
entry:
  %context = alloca ptr
  %gx = load i64, ptr %grid
  %gy.p = getelementptr i64, ptr %grid, i64 1
  %gy = load i64, ptr %gy.p
  %gz.p = getelementptr i64, ptr %grid, i64 2
  %gz = load i64, ptr %gz.p
  %empty.x = icmp eq i64 %gx, 0
  %empty.y = icmp eq i64 %gy, 0
  %empty.z = icmp eq i64 %gz, 0
  %empty.xy = or i1 %empty.x, %empty.y
  %empty = or i1 %empty.xy, %empty.z
  br i1 %empty, label %fine, label %measure
measure:                                          ; sizes that do not fit are {invalid}
  %xy = or i64 %gx, %gy
  %xyz = or i64 %xy, %gz
  %wide = icmp ugt i64 %xyz, 2147483647
  %trusting.p = field record.extra of %record
  %trusting = load ptr, ptr %trusting.p
{checks}trust:                                            ; preconditions depend on the grid and some slots
  %preconditions.p = field info.preconditions of %trusting
  %preconditions = load ptr, ptr %preconditions.p
  %nothing = icmp eq ptr %preconditions, null
  br i1 %nothing, label %collect, label %like
like:
  %held = call i32 @hold(ptr %preconditions, ptr %slots, ptr %grid)
  %fits = icmp eq i32 %held, 0
  br i1 %fits, label %collect, label %judge
judge:
  %judge.f = load ptr, ptr @{prefix}.judge
  %slots.j = ptrtoint ptr %slots to i64
  %stream.j = ptrtoint ptr %stream to i64
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %judge.f, ptr @judged, ptr %result, i64 %gx, i64 %gy,
                                                            i64 %gz, i64 %slots.j, i64 %stream.j)
  %mute = icmp eq ptr %answer, null
  br i1 %mute, label %raised, label %answered
answered:                                         ; if it is not fit, another was launched in its place
  call void @Py_DecRef(ptr %answer)
  %fit = icmp eq ptr %answer, @py.true
  br i1 %fit, label %collect, label %fine
raised:
  ret ptr null

collect:                                          ; the driver wants the address of each slot
  %rows.p = field record.rows of %record
  %rows = load i64, ptr %rows.p
  %room = add i64 %rows, 1
  %more.room = add i64 %room, {more}
  %parameters = alloca ptr, i64 %more.room
  br label %next
next:
  %i = phi i64 [0, %collect], [%i1, %next]
  %i1 = add i64 %i, 1
  %slot = getelementptr i64, ptr %slots, i64 %i
  %parameter = getelementptr ptr, ptr %parameters, i64 %i
  store ptr %slot, ptr %parameter
  %more = icmp slt i64 %i1, %room
  br i1 %more, label %next, label %count_programs
count_programs:
  %gx.y = mul i64 %gx, %gy
  %programs = mul i64 %gx.y, %gz
{added}place:                                            ; in a new thread, or with another device current
{started}  %info.p = field record.extra of %record
  %info = load ptr, ptr %info.p
{enter}go:
  %function.p = field record.entry of %record
  %function = load ptr, ptr %function.p
  %x = trunc i64 %start.x to i32
  %y = trunc i64 %start.y to i32
  %z = trunc i64 %start.z to i32
  %config.p = field info.config of %info
  %config = load ptr, ptr %config.p
  %simple = icmp eq ptr %config, null
  br i1 %simple, label %plain, label %special
plain:
  %threads.p = field info.threads of %info
  %threads = load i32, ptr %threads.p
  %shared.p = field info.shared of %info
  %shared = load i32, ptr %shared.p
{send}leave:
{leave}look:
  %good = icmp eq i32 %code, 0
  br i1 %good, label %note, label %failed
note:                                             ; an error that comes later is one of these kernels'
  %number.p = field info.number of %info
  %number = load i64, ptr %number.p
  %count = load i64, ptr @{prefix}.count
  %count1 = add i64 %count, 1
  store i64 %count1, ptr @{prefix}.count
  %at = urem i64 %count, {ring}
  %ring.p = getelementptr i64, ptr @{prefix}.ring, i64 %at
  store i64 %number, ptr %ring.p
  br label %fine
fine:
  call void @Py_IncRef(ptr %result)
  ret ptr %result
failed:
{reason}  %raiser = load ptr, ptr @{prefix}.failed
  %slots.i = ptrtoint ptr %slots to i64
  %told = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %raiser, ptr @format, i32 %why, ptr %result, i64 %gx,
                                                            i64 %gy, i64 %gz, i64 %slots.i)
  ret ptr null
}
"""


def symbols(prefix: str) -> tuple[str, ...]:
    """What the text defines.

    >>> symbols("tt.toy")[-1]
    'tt.toy.judge'
    """
    return (*native.SYMBOLS, *(f"{prefix}.{name}" for name in ("run", "launch", "stream", "failed", "ring", "count",
                                                               "judge")))


def text(prefix: str, functions: str, parts: Mapping[str, str], structs: tuple[Struct, ...] = (),
         more: str = "") -> str:
    """The launcher's LLVM text for the running interpreter: `functions` of the driver are declared, `parts` fill it.

    `structs` are what the parts have fields of; `more` stands before the text.
    """
    run = _RUN
    for name, part in ({"prefix": prefix, "ring": str(RING)} | dict(parts)).items():
        run = run.replace(f"{{{name}}}", part)
    formats = native.texts({"format": "iOLLLL", "judged": "OLLLLL"})
    declared = native.declare(f"{functions}ptr PyObject_CallFunction(ptr, ptr, ...)\n")
    own = [struct.definition for struct in structs if f"%{struct.name} = type" not in more]
    texts = (native.launcher(), formats, declared, preconditions.text(), *([more] if more else []), INFO.definition,
             *own, resolve(run, RECORD, INFO, *structs))
    return "\n".join(texts)
