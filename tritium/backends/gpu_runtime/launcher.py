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
  jump %launch if %plain
  %info = load ptr, field record.extra of %record
  %device = load ptr, field info.device of %info
  %stream.o = call ptr @PyObject_CallOneArg(ptr %function, ptr %device)
  ret ptr null if icmp eq ptr %stream.o, null
known:
  %handle = call ptr @PyLong_AsVoidPtr(ptr %stream.o)
  call void @Py_DecRef(ptr %stream.o)
launch:
  %stream = phi ptr [null, %entry], [%handle, %known]
  ret ptr call ptr @{prefix}.launch(ptr %record, ptr %slots, ptr %grid, ptr %result, ptr %stream)
}

; Launch a record's kernel on a stream; a new reference to %result, or null with an exception.
define ptr @{prefix}.launch(ptr %record, ptr %slots, ptr %grid, ptr %result, ptr %stream) nounwind {
  %context = alloca ptr
  %gx = load i64, ptr %grid
  %gy = load i64, item i64 1 of %grid
  %gz = load i64, item i64 2 of %grid
  %empty.x = icmp eq i64 %gx, 0
  %empty.y = icmp eq i64 %gy, 0
  %empty.z = icmp eq i64 %gz, 0
  jump %fine if or i1 %empty.x, %empty.y, %empty.z
measure:                                          ; sizes that do not fit are {invalid}
  %xyz = or i64 %gx, %gy, %gz
  %wide = icmp ugt i64 %xyz, 2147483647
  %trusting = load ptr, field record.extra of %record
{checks}trust:                                            ; preconditions depend on the grid and some slots
  %preconditions = load ptr, field info.preconditions of %trusting
  jump %collect if icmp eq ptr %preconditions, null
  %held = call i32 @hold(ptr %preconditions, ptr %slots, ptr %grid)
  jump %collect if icmp eq i32 %held, 0
judge:
  %judge.f = load ptr, ptr @{prefix}.judge
  %slots.j = ptrtoint ptr %slots to i64
  %stream.j = ptrtoint ptr %stream to i64
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %judge.f, ptr @judged, ptr %result, i64 %gx, i64 %gy,
                                                            i64 %gz, i64 %slots.j, i64 %stream.j)
  ret ptr null if icmp eq ptr %answer, null
  ; if it is not fit, another was launched in its place
  call void @Py_DecRef(ptr %answer)
  jump %fine unless icmp eq ptr %answer, @py.true

collect:                                          ; the driver wants the address of each slot
  %rows = load i64, field record.rows of %record
  %room = add i64 %rows, 1
  %more.room = add i64 %room, {more}
  %parameters = alloca ptr, i64 %more.room
next:
  %i = phi i64 [0, %collect], [%i1, %next]
  %i1 = add i64 %i, 1
  %slot = getelementptr i64, ptr %slots, i64 %i
  store ptr %slot, item ptr %i of %parameters
  jump %next if icmp slt i64 %i1, %room
count_programs:
  %programs = mul i64 %gx, %gy, %gz
{added}place:                                            ; in a new thread, or with another device current
{started}  %info.p = field record.extra of %record
  %info = load ptr, ptr %info.p
{enter}go:
  %function = load ptr, field record.entry of %record
  %x = trunc i64 %start.x to i32
  %y = trunc i64 %start.y to i32
  %z = trunc i64 %start.z to i32
  %config = load ptr, field info.config of %info
  jump %special unless icmp eq ptr %config, null
plain:
  %threads, %shared = load threads, shared of info %info
{send}leave:
{leave}look:
  jump %failed unless icmp eq i32 %code, 0
  ; an error that comes later is one of these kernels'
  %number = load i64, field info.number of %info
  %count = load i64, ptr @{prefix}.count
  %count1 = add i64 %count, 1
  store i64 %count1, ptr @{prefix}.count
  %at = urem i64 %count, {ring}
  %ring.p = getelementptr i64, ptr @{prefix}.ring, i64 %at
  store i64 %number, ptr %ring.p
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
