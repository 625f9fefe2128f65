"""The launcher: Python builtins, in LLVM, that check arguments against a record and run a kernel.

Nothing is compiled per kernel. A *record* (see `record.py`) says what each argument must look like for one
specialisation of a kernel to apply; `launch` walks it, fills one 8-byte slot per runtime parameter, releases the GIL
and hands the job to the pool. When an argument does not look as expected it returns NotImplemented, having done
nothing, and Python picks another specialisation.

`bind` and `call` are the same for `kernel[grid](...)` with no Python in between: `bind` belongs to a list whose first
element is a Python function and whose others are records; `bind(grid)` gives a callable that tries the records in turn
and, when none applies, calls the function with the grid and the arguments.

Objects of the interpreter come in as symbols: `py.int` is the type `int`.
"""

from __future__ import annotations

import sys

from .guards import TYPE_OFFSET, guards

__all__ = ["SYMBOLS", "launcher", "python_objects"]

SYMBOLS = ("tt.def.launch", "tt.def.launch_raw", "tt.def.bind")

_FUNCTIONS = """
ptr PyObject_GetAttr(ptr, ptr)
ptr PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
i32 PyObject_RichCompareBool(ptr, ptr, i32)
ptr PyBytes_AsString(ptr)
i64 PyLong_AsLongLong(ptr)
i64 PyLong_AsLongLongAndOverflow(ptr, ptr)
i64 PyLong_AsUnsignedLongLong(ptr)
ptr PyLong_AsVoidPtr(ptr)
double PyFloat_AsDouble(ptr)
ptr PyTuple_Pack(i64, ...)
ptr PyTuple_GetItem(ptr, i64)
i64 PyTuple_Size(ptr)
ptr PyList_GetItem(ptr, i64)
i64 PyList_Size(ptr)
ptr PyDict_Copy(ptr)
i32 PyDict_SetItem(ptr, ptr, ptr)
i32 PyCallable_Check(ptr)
ptr PyObject_CallOneArg(ptr, ptr)
ptr PyObject_Vectorcall(ptr, ptr, i64, ptr)
ptr PyCFunction_NewEx(ptr, ptr, ptr)
ptr PyErr_Occurred()
void PyErr_Clear()
ptr PyErr_NoMemory()
ptr PyErr_Format(ptr, ptr, ...)
void PyErr_SetString(ptr, ptr)
void Py_IncRef(ptr)
void Py_DecRef(ptr)
ptr PyEval_SaveThread()
void PyEval_RestoreThread(ptr)
"""

# The names are interned strings; the dict keeps what the builtin refers to alive.
_OBJECTS = {
    "py.int": int, "py.float": float, "py.tuple": tuple, "py.one": 1, "py.true": True, "py.false": False,
    "py.none": None, "py.not_implemented": NotImplemented, "py.runtime_error": RuntimeError, "py.type_error": TypeError,
    "py.dtype": sys.intern("dtype"), "py.data_ptr": sys.intern("data_ptr"), "py.is_cpu": sys.intern("is_cpu"),
}  # fmt: skip


def python_objects() -> dict[str, int]:
    """Addresses of the objects the launcher refers to; the interpreter's functions are found by name.

    >>> python_objects()["py.none"] == id(None)
    True
    """
    return {name: id(value) for name, value in _OBJECTS.items()}


_TEXTS = {
    "name.launch": "launch",
    "name.raw": "launch_raw",
    "name.bind": "bind",
    "name.call": "call",
    "doc.bind": "bind(grid): a callable that launches the kernel on grid",
    "doc.call": "launch the kernel",
    "doc.launch": "launch(record, gx, gy, gz, *args): run the kernel and return None, or NotImplemented",
    "doc.raw": "launch_raw(entry, arena_bytes, gx, gy, gz, slots): run the kernel on packed slots",
    "assertion": "device-side assert triggered: %s [program (%lld, %lld, %lld)]",
    "usage": "launch_raw takes (entry, arena_bytes, gx, gy, gz, slots): sizes are not negative, slots are bytes",
}

_HEAD = """
%method = type { ptr, ptr, i32, ptr }             ; PyMethodDef; 128: METH_FASTCALL, 2: METH_KEYWORDS, 8: METH_O

@tt.def.launch = global %method { ptr @name.launch, ptr @launch, i32 128, ptr @doc.launch }
@tt.def.launch_raw = global %method { ptr @name.raw, ptr @launch_raw, i32 128, ptr @doc.raw }
@tt.def.bind = global %method { ptr @name.bind, ptr @bind, i32 8, ptr @doc.bind }
@def.call = internal global %method { ptr @name.call, ptr @call, i32 130, ptr @doc.call }
"""

_FINISH = """
; Run with the GIL released, and turn the outcome into what a builtin returns.
define internal ptr @finish(ptr %job, ptr %result) nounwind {
entry:
  %total.p = getelementptr %job, ptr %job, i64 0, i32 3
  %total = load i64, ptr %total.p
  %message.p = getelementptr %job, ptr %job, i64 0, i32 6
  store ptr null, ptr %message.p
  %nothing = icmp eq i64 %total, 0
  br i1 %nothing, label %fine, label %run
run:
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 @tt.run(ptr %job)
  call void @PyEval_RestoreThread(ptr %thread)
  switch i32 %status, label %failed [i32 0, label %fine i32 1, label %no_memory]
fine:
  call void @Py_IncRef(ptr %result)
  ret ptr %result
no_memory:
  %r1 = call ptr @PyErr_NoMemory()
  ret ptr null
failed:
  %message = load ptr, ptr %message.p
  %program.p = getelementptr %job, ptr %job, i64 0, i32 7
  %program = load i64, ptr %program.p
  %grid.p = getelementptr %job, ptr %job, i64 0, i32 2
  %grid = load ptr, ptr %grid.p
  %gx = load i64, ptr %grid
  %gy.p = getelementptr i64, ptr %grid, i64 1
  %gy = load i64, ptr %gy.p
  %x = urem i64 %program, %gx
  %row = udiv i64 %program, %gx
  %y = urem i64 %row, %gy
  %z = udiv i64 %row, %gy
  %r2 = call ptr (ptr, ptr, ...) @PyErr_Format(ptr @py.runtime_error, ptr @assertion, ptr %message,
                                               i64 %x, i64 %y, i64 %z)
  ret ptr null
}

; Read three sizes of a grid and their product into a job; false if one is no integer or is negative.
define internal i1 @read_grid(ptr %sizes, ptr %grid, ptr %job) nounwind {
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%i1, %good]
  %total = phi i64 [1, %entry], [%total1, %good]
  %size.p = getelementptr ptr, ptr %sizes, i64 %i
  %size = load ptr, ptr %size.p
  %n = call i64 @PyLong_AsLongLong(ptr %size)
  %negative = icmp slt i64 %n, 0
  br i1 %negative, label %bad, label %good
bad:
  call void @PyErr_Clear()
  ret i1 false
good:
  %slot = getelementptr i64, ptr %grid, i64 %i
  store i64 %n, ptr %slot
  %total1 = mul i64 %total, %n
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, 3
  br i1 %more, label %next, label %done
done:
  %grid.p = getelementptr %job, ptr %job, i64 0, i32 2
  store ptr %grid, ptr %grid.p
  %total.p = getelementptr %job, ptr %job, i64 0, i32 3
  store i64 %total1, ptr %total.p
  ret i1 true
}

define internal ptr @launch_raw(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %job = alloca %job
  %grid = alloca [3 x i64]
  %six = icmp eq i64 %count, 6
  br i1 %six, label %numbers, label %wrong
wrong:
  call void @PyErr_SetString(ptr @py.type_error, ptr @usage)
  ret ptr null
numbers:
  %entry.o = load ptr, ptr %args
  %address = call ptr @PyLong_AsVoidPtr(ptr %entry.o)
  store ptr %address, ptr %job
  %arena.a = getelementptr ptr, ptr %args, i64 1
  %arena.o = load ptr, ptr %arena.a
  %arena = call i64 @PyLong_AsLongLong(ptr %arena.o)
  %arena.p = getelementptr %job, ptr %job, i64 0, i32 5
  store i64 %arena, ptr %arena.p
  %slots.a = getelementptr ptr, ptr %args, i64 5
  %slots.o = load ptr, ptr %slots.a
  %slots = call ptr @PyBytes_AsString(ptr %slots.o)
  %slots.p = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %slots, ptr %slots.p
  %error = call ptr @PyErr_Occurred()
  %ok = icmp eq ptr %error, null
  br i1 %ok, label %sizes, label %raise
raise:
  ret ptr null
sizes:
  %dims = getelementptr ptr, ptr %args, i64 2
  %valid = call i1 @read_grid(ptr %dims, ptr %grid, ptr %job)
  br i1 %valid, label %run, label %wrong
run:
  %result = call ptr @finish(ptr %job, ptr @py.none)
  ret ptr %result
}
"""

_LAUNCH = """
; What a record says of the job.
define internal void @prepare(ptr %record, ptr %slots, ptr %job) nounwind {
  %entry = load ptr, ptr %record
  store ptr %entry, ptr %job
  %slots.p = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %slots, ptr %slots.p
  %arena.w = getelementptr %record, ptr %record, i64 0, i32 1
  %arena = load i64, ptr %arena.w
  %arena.p = getelementptr %job, ptr %job, i64 0, i32 5
  store i64 %arena, ptr %arena.p
  ret void
}

define internal ptr @launch(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %job = alloca %job
  %grid = alloca [3 x i64]
  %enough = icmp sge i64 %count, 4
  br i1 %enough, label %open, label %refuse
open:
  %record.o = load ptr, ptr %args
  %record = call ptr @PyBytes_AsString(ptr %record.o)
  %bad_record = icmp eq ptr %record, null
  br i1 %bad_record, label %raise, label %counts
counts:
  %n.w = getelementptr %record, ptr %record, i64 0, i32 3
  %n = load i64, ptr %n.w
  %want = add i64 %n, 4
  %same_count = icmp eq i64 %want, %count
  br i1 %same_count, label %sizes, label %refuse
sizes:
  %dims = getelementptr ptr, ptr %args, i64 1
  %valid = call i1 @read_grid(ptr %dims, ptr %grid, ptr %job)
  br i1 %valid, label %check, label %refuse
check:
  %rows.w = getelementptr %record, ptr %record, i64 0, i32 2
  %rows = load i64, ptr %rows.w
  %slots = alloca i64, i64 %rows
  %first = getelementptr ptr, ptr %args, i64 4
  %status = call i32 @fill(ptr %record, ptr %first, ptr %slots)
  switch i32 %status, label %refuse [i32 0, label %run i32 2, label %raise]
run:
  call void @prepare(ptr %record, ptr %slots, ptr %job)
  %result = call ptr @finish(ptr %job, ptr @py.none)
  ret ptr %result
refuse:
  call void @Py_IncRef(ptr @py.not_implemented)
  ret ptr @py.not_implemented
raise:
  ret ptr null
}
"""

_CALL = """
define internal ptr @bind(ptr %records, ptr %grid) nounwind {
entry:
  %self = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %records, ptr %grid)
  %none = icmp eq ptr %self, null
  br i1 %none, label %raise, label %make
make:
  %bound = call ptr @PyCFunction_NewEx(ptr @def.call, ptr %self, ptr null)
  call void @Py_DecRef(ptr %self)
  ret ptr %bound
raise:
  ret ptr null
}

; Whether a call has the form a record was made for: so many positional arguments, these keywords.
define internal i1 @same_form(ptr %record, i64 %count, ptr %names) nounwind {
entry:
  %n.p = getelementptr %record, ptr %record, i64 0, i32 4
  %n = load i64, ptr %n.p
  %same_n = icmp eq i64 %n, %count
  br i1 %same_n, label %keywords, label %no
keywords:
  %names.p = getelementptr %record, ptr %record, i64 0, i32 5
  %expected = load ptr, ptr %names.p
  %identical = icmp eq ptr %expected, %names
  br i1 %identical, label %yes, label %compare
compare:
  %any = icmp ne ptr %names, null
  %some = icmp ne ptr %expected, null
  %both = and i1 %any, %some
  br i1 %both, label %ask, label %no
ask:
  %answer = call i32 @PyObject_RichCompareBool(ptr %names, ptr %expected, i32 2)
  %equal = icmp eq i32 %answer, 1
  br i1 %equal, label %yes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The grid of a call: a tuple as it is, a function called with all parameters by name. A new reference; null: exception.
define internal ptr @grid_of(ptr %grid, ptr %record, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %defaults.p = getelementptr %record, ptr %record, i64 0, i32 7
  %defaults = load ptr, ptr %defaults.p
  %callable = call i32 @PyCallable_Check(ptr %grid)
  %function = icmp ne i32 %callable, 0
  br i1 %function, label %collect, label %ready
ready:
  call void @Py_IncRef(ptr %grid)
  ret ptr %grid
collect:
  %all = call ptr @PyDict_Copy(ptr %defaults)
  %no_dict = icmp eq ptr %all, null
  br i1 %no_dict, label %raise, label %begin
begin:
  %own.p = getelementptr %record, ptr %record, i64 0, i32 8
  %own = load ptr, ptr %own.p
  %n.p = getelementptr %record, ptr %record, i64 0, i32 3
  %n = load i64, ptr %n.p
  br label %next
next:
  %i = phi i64 [0, %begin], [%i1, %put]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %name, label %ask
name:
  %by_place = icmp slt i64 %i, %count
  %from = select i1 %by_place, ptr %own, ptr %names
  %before = select i1 %by_place, i64 0, i64 %count
  %k = sub i64 %i, %before
  %key = call ptr @PyTuple_GetItem(ptr %from, i64 %k)
  %no_key = icmp eq ptr %key, null
  br i1 %no_key, label %drop, label %put
put:
  %arg.p = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.p
  %r = call i32 @PyDict_SetItem(ptr %all, ptr %key, ptr %arg)
  %i1 = add i64 %i, 1
  %good = icmp eq i32 %r, 0
  br i1 %good, label %next, label %drop
ask:
  %answer = call ptr @PyObject_CallOneArg(ptr %grid, ptr %all)
  call void @Py_DecRef(ptr %all)
  ret ptr %answer
drop:
  call void @Py_DecRef(ptr %all)
  br label %raise
raise:
  ret ptr null
}

; Read a tuple of one to three sizes; false if it is something else.
define internal i1 @read_tuple(ptr %tuple, ptr %grid, ptr %job) nounwind {
entry:
  %sizes = alloca [3 x ptr]
  %type.p = getelementptr i8, ptr %tuple, i64 {type}
  %type = load ptr, ptr %type.p
  %is_tuple = icmp eq ptr %type, @py.tuple
  br i1 %is_tuple, label %measure, label %no
measure:
  %n = call i64 @PyTuple_Size(ptr %tuple)
  %less = sub i64 %n, 1
  %few = icmp ult i64 %less, 3
  br i1 %few, label %next, label %no
next:
  %i = phi i64 [0, %measure], [%i1, %set]
  %given = icmp slt i64 %i, %n
  br i1 %given, label %take, label %set
take:
  %item = call ptr @PyTuple_GetItem(ptr %tuple, i64 %i)
  br label %set
set:
  %size = phi ptr [@py.one, %next], [%item, %take]
  %place = getelementptr ptr, ptr %sizes, i64 %i
  store ptr %size, ptr %place
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, 3
  br i1 %more, label %next, label %read
read:
  %valid = call i1 @read_grid(ptr %sizes, ptr %grid, ptr %job)
  ret i1 %valid
no:
  ret i1 false
}

; The function of a list of records, called with the grid and the arguments.
define internal ptr @ask_python(ptr %records, ptr %grid, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %python = call ptr @PyList_GetItem(ptr %records, i64 0)
  %none = icmp eq ptr %python, null
  br i1 %none, label %raise, label %measure
measure:
  %plain = icmp eq ptr %names, null
  br i1 %plain, label %copy, label %keywords
keywords:
  %extra.k = call i64 @PyTuple_Size(ptr %names)
  br label %copy
copy:
  %extra = phi i64 [0, %measure], [%extra.k, %keywords]
  %n = add i64 %count, %extra
  %room = add i64 %n, 1
  %all = alloca ptr, i64 %room
  store ptr %grid, ptr %all
  %rest = getelementptr ptr, ptr %all, i64 1
  %bytes = shl i64 %n, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 %bytes, i1 false)
  %positional = add i64 %count, 1
  %result = call ptr @PyObject_Vectorcall(ptr %python, ptr %all, i64 %positional, ptr %names)
  ret ptr %result
raise:
  ret ptr null
}

define internal ptr @call(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %job = alloca %job
  %sizes = alloca [3 x i64]
  %records = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %grid = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  br label %next
next:
  %i = phi i64 [1, %entry], [%i1, %skip]
  %n = call i64 @PyList_Size(ptr %records)
  %more = icmp slt i64 %i, %n
  br i1 %more, label %try, label %python
try:
  %i1 = add i64 %i, 1
  %record.o = call ptr @PyList_GetItem(ptr %records, i64 %i)
  call void @Py_IncRef(ptr %record.o)             ; a thread may empty the list while arguments are asked
  %record = call ptr @PyBytes_AsString(ptr %record.o)
  %bad_record = icmp eq ptr %record, null
  br i1 %bad_record, label %raise, label %form
form:
  %fits = call i1 @same_form(ptr %record, i64 %count, ptr %names)
  br i1 %fits, label %check, label %skip
check:
  %stack = call ptr @llvm.stacksave.p0()
  %rows.w = getelementptr %record, ptr %record, i64 0, i32 2
  %rows = load i64, ptr %rows.w
  %slots = alloca i64, i64 %rows
  %status = call i32 @fill(ptr %record, ptr %args, ptr %slots)
  switch i32 %status, label %restore [i32 0, label %found i32 2, label %raise]
restore:
  call void @llvm.stackrestore.p0(ptr %stack)
  br label %skip
skip:
  call void @Py_DecRef(ptr %record.o)
  br label %next
found:
  call void @prepare(ptr %record, ptr %slots, ptr %job)
  %actual = call ptr @grid_of(ptr %grid, ptr %record, ptr %args, i64 %count, ptr %names)
  %no_grid = icmp eq ptr %actual, null
  br i1 %no_grid, label %raise, label %read
read:
  %valid = call i1 @read_tuple(ptr %actual, ptr %sizes, ptr %job)
  br i1 %valid, label %run, label %odd
run:
  %result.p = getelementptr %record, ptr %record, i64 0, i32 6
  %result = load ptr, ptr %result.p
  %returned = call ptr @finish(ptr %job, ptr %result)
  br label %end
odd:                                              ; a list, a float, ...: Python knows what to say
  %asked = call ptr @ask_python(ptr %records, ptr %actual, ptr %args, i64 %count, ptr %names)
  br label %end
end:
  %answer = phi ptr [%returned, %run], [%asked, %odd]
  call void @Py_DecRef(ptr %actual)
  call void @Py_DecRef(ptr %record.o)
  ret ptr %answer
python:
  %last = call ptr @ask_python(ptr %records, ptr %grid, ptr %args, i64 %count, ptr %names)
  ret ptr %last
raise:
  call void @Py_DecRef(ptr %record.o)
  ret ptr null
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)
"""


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter; it stands after the pool's.

    >>> launcher().count("define internal ptr @launch(")
    1
    """
    declarations = [f"declare {' @'.join(line.split(' ', 1))}" for line in _FUNCTIONS.split("\n") if line]
    objects = [f"@{name} = external global i8" for name in _OBJECTS]
    texts = [f'@{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"' for name, text in _TEXTS.items()]
    call = _CALL.replace("{type}", str(TYPE_OFFSET))
    return "\n".join((_HEAD, *texts, *declarations, *objects, guards(), _FINISH, _LAUNCH, call))
