"""The CPU part of the shared launcher: runs a kernel on the pool, with the GIL released.

A record's `extra` is the number of bytes of scratch memory each worker needs, with `job.BIT` set if all
programs run at once; its `checks` are null for a kernel without preconditions.
"""

from __future__ import annotations

from ...launcher import launcher as native
from ...launcher import preconditions
from ...launcher.guards import RECORD
from ...llvm.structs import resolve
from . import cooperative
from .job import BIT, CHECKS, JOB

SYMBOLS = (*native.SYMBOLS, "tt.finish", "tt.judge", "tt.def.launch_raw")

_FUNCTIONS = """
ptr PyErr_NoMemory()
ptr PyObject_CallFunction(ptr, ptr, ...)
ptr PyErr_Format(ptr, ptr, ...)
void PyErr_SetString(ptr, ptr)
"""

_TEXTS = {
    "name.raw": "launch_raw",
    "doc.raw": "launch_raw(entry, arena_bytes, gx, gy, gz, slots): run the kernel on packed slots",
    "judged": "OLLLL",
    "too_many": cooperative.REFUSALS[4],
    "too_few": cooperative.REFUSALS[5],
    "assertion": "device-side assert triggered: %s [program (%lld, %lld, %lld)]",
    "usage": "launch_raw takes (entry, arena_bytes, gx, gy, gz, slots): sizes are below 2**31 and not negative, "
    "their product is below 2**63, slots are bytes",
}

_RUN = """
@tt.judge = global ptr null                       ; a Python function: check the preconditions of a launch
@tt.def.launch_raw = global %method { ptr @name.raw, ptr @launch_raw, i32 128, ptr @doc.raw }

; Run a record's kernel, or its fallback variant if the launch breaks a precondition.
define ptr @tt.finish(ptr %record, ptr %slots, ptr %grid, ptr %result) nounwind {
entry:
  %function, %arena, %checks = load entry, extra, checks of record %record
  jump %run if icmp eq ptr %checks, null
check:
  %preconditions = load ptr, field checks.preconditions of %checks
  %held = call i32 @hold(ptr %preconditions, ptr %slots, ptr %grid)
  switch i32 %held, label %judge [i32 0, label %run i32 2, label %unfit]
unfit:
  %other, %other.arena = load other, other_arena of checks %checks
  jump %run unless icmp eq ptr %other, null
judge:                                            ; if they do not hold, it has launched the fallback variant
  %gx = load i64, ptr %grid
  %gy = load i64, item i64 1 of %grid
  %gz = load i64, item i64 2 of %grid
  %judge.f = load ptr, ptr @tt.judge
  %slots.i = ptrtoint ptr %slots to i64
  %answer = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %judge.f, ptr @judged, ptr %result, i64 %gx, i64 %gy,
                                                            i64 %gz, i64 %slots.i)
  ret ptr null if icmp eq ptr %answer, null
answered:
  call void @Py_DecRef(ptr %answer)
  jump %run if icmp eq ptr %answer, @py.true
  call void @Py_IncRef(ptr %result)
  ret ptr %result
run:
  %chosen = phi ptr [%function, %entry], [%function, %check], [%function, %answered], [%other, %unfit]
  %room = phi i64 [%arena, %entry], [%arena, %check], [%arena, %answered], [%other.arena, %unfit]
  ret ptr call ptr @run(ptr %chosen, i64 %room, ptr %slots, ptr %grid, ptr %result)
}

; Run a kernel with the GIL released, and turn the outcome into what a builtin returns.
define internal ptr @run(ptr %function, i64 %arena, ptr %slots, ptr %grid, ptr %result) nounwind {
  %job = alloca %job
  store ptr %function, field job.entry of %job
  store ptr %slots, field job.slots of %job
  store ptr %grid, field job.grid of %job
  %gx = load i64, ptr %grid
  %gy = load i64, item i64 1 of %grid
  %gz = load i64, item i64 2 of %grid
  %total = mul i64 %gx, %gy, %gz
  store i64 %total, field job.total of %job
  %bytes = and i64 %arena, {bytes}
  store i64 %bytes, field job.arena of %job
  %message.p = field job.message of %job
  store ptr null, ptr %message.p
  store i64 0, field job.stop of %job
  %together = and i64 %arena, {together}
  store i64 %together, field job.together of %job
  jump %fine if icmp eq i64 %total, 0
  %status = call i32 @tt.run.released(ptr %job)
  switch i32 %status, label %failed [i32 0, label %fine i32 1, label %no_memory i32 3, label %raised
                                     i32 4, label %refused i32 5, label %refused]
fine:
  call void @Py_IncRef(ptr %result)
  ret ptr %result
no_memory:
  %r1 = call ptr @PyErr_NoMemory()
  ret ptr null
raised:
  ret ptr null
refused:
  %many = icmp eq i32 %status, 4
  %why = select i1 %many, ptr @too_many, ptr @too_few
  %r3 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr @py.runtime_error, ptr %why, i64 %total)
  ret ptr null
failed:
  %message = load ptr, ptr %message.p
  %program = load i64, field job.program of %job
  %x = urem i64 %program, %gx
  %row = udiv i64 %program, %gx
  %y = urem i64 %row, %gy
  %z = udiv i64 %row, %gy
  %r2 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr @py.runtime_error, ptr @assertion, ptr %message,
                                               i64 %x, i64 %y, i64 %z)
  ret ptr null
}

define internal ptr @launch_raw(ptr %self, ptr %args, i64 %count) nounwind noinline cold {
  %grid = alloca [3 x i64]
  jump %numbers if icmp eq i64 %count, 6
wrong:
  call void @PyErr_SetString(ptr @py.type_error, ptr @usage)
  ret ptr null
numbers:
  %entry.o = load ptr, ptr %args
  %address = call ptr @PyLong_AsVoidPtr(ptr %entry.o)
  %arena.o = load ptr, item ptr 1 of %args
  %arena = call i64 @PyLong_AsLongLong(ptr %arena.o)
  %slots.o = load ptr, item ptr 5 of %args
  %slots = call ptr @PyBytes_AsString(ptr %slots.o)
  %error = call ptr @PyErr_Occurred()
  jump %sizes if icmp eq ptr %error, null
  ret ptr null
sizes:
  %dims = getelementptr ptr, ptr %args, i64 2
  jump %wrong unless call i1 @tt.read_grid(ptr %dims, ptr %grid)
  ret ptr call ptr @run(ptr %address, i64 %arena, ptr %slots, ptr %grid, ptr @py.none)
}
"""


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter; it stands after the pool's.

    >>> launcher().count("define ptr @tt.finish(")
    1
    """
    run = _RUN.replace("{bytes}", str(BIT - 1)).replace("{together}", str(BIT))
    return "\n".join((native.launcher(), native.texts(_TEXTS), native.declare(_FUNCTIONS), preconditions.text(),
                      CHECKS.definition, resolve(run, RECORD, JOB, CHECKS)))
