"""The launcher: Python builtins, in LLVM, that check arguments against records and run a kernel.

Nothing is compiled per kernel. A *record* (see `record.py`) says what each argument of a call must look like for one
specialisation of a kernel to apply, and which function runs it: the CPU's pool, or a GPU's driver. `bind` belongs to a
list whose first element is a Python function and whose others are records; `bind(grid)` gives a callable that tries the
records in turn, fills one 8-byte slot for each runtime parameter of the first that applies, and has the kernel run.
When none applies it calls the Python function with the grid and the arguments: nothing has happened then. What few
processes need are parts of their own, which call this one: `fast_paths` has the other builtins that go by records,
`wrappers` what happens to records that lead to other lists.

Objects of the interpreter come in as symbols: `py.int` is the type `int`.
"""

from __future__ import annotations

import sys

from ...knobs import HookChain
from ..llvm.structs import Struct, resolve
from . import wrappers
from .guards import RECORD, TYPE_OFFSET, guards

SYMBOLS = ("tt.def.bind", "tt.serve", "tt.over", "tt.launch_over", "tt.read_grid", "tt.name_arguments", "tt.nobody",
           "tt.another")  # fmt: skip

_FUNCTIONS = """
ptr PyObject_GetAttr(ptr, ptr)
ptr PyObject_GetItem(ptr, ptr)
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
ptr PyList_AsTuple(ptr)
ptr PyDict_Copy(ptr)
i32 PyDict_Contains(ptr, ptr)
i32 PyDict_SetItem(ptr, ptr, ptr)
i32 PyCallable_Check(ptr)
ptr PyObject_CallOneArg(ptr, ptr)
ptr PyObject_Vectorcall(ptr, ptr, i64, ptr)
ptr PyCFunction_NewEx(ptr, ptr, ptr)
ptr PyErr_Occurred()
i32 PyErr_ExceptionMatches(ptr)
void PyErr_Clear()
void Py_IncRef(ptr)
void Py_DecRef(ptr)
"""

# The names are interned strings; the dict keeps what the builtin refers to alive.
_OBJECTS = {
    "py.int": int, "py.float": float, "py.tuple": tuple, "py.list": list, "py.one": 1, "py.true": True,
    "py.false": False, "py.none": None, "py.runtime_error": RuntimeError, "py.type_error": TypeError,
    "py.dtype": sys.intern("dtype"), "py.data_ptr": sys.intern("data_ptr"), "py.is_cpu": sys.intern("is_cpu"),
    "py.device": sys.intern("device"),
    "py.get_device": sys.intern("get_device"), "py.numel": sys.intern("numel"), "py.exception": Exception,
    "py.retold": (KeyError, TypeError, AttributeError), "py.hook_chain": HookChain, "py.calls": sys.intern("calls"),
    **wrappers.OBJECTS,
}  # fmt: skip


def python_objects() -> dict[str, int]:
    """Addresses of the objects the launcher refers to; the interpreter's functions are found by name.

    >>> python_objects()["py.none"] == id(None)
    True
    """
    return {name: id(value) for name, value in _OBJECTS.items()}


_TEXTS = {
    "name.bind": "bind",
    "name.call": "call",
    "doc.bind": "bind(grid): a callable that launches the kernel on grid",
    "doc.call": "launch the kernel",
}

_METHOD = Struct("method", name="ptr", function="ptr", flags="i32", doc="ptr")  # PyMethodDef

# 128: METH_FASTCALL, 2: METH_KEYWORDS, 8: METH_O
_HEAD = """
@tt.def.bind = global %method { ptr @name.bind, ptr @bind, i32 8, ptr @doc.bind }
@def.call = internal global %method { ptr @name.call, ptr @call, i32 130, ptr @doc.call }
@tt.nobody = dso_local global i8 0
@tt.another = dso_local global i8 0
"""

_GRID = """
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)

; Read three sizes of a grid; false if one is no integer or out of range, or if there are too many programs.
define i1 @tt.read_grid(ptr %sizes, ptr %grid) nounwind {
entry:
next:
  %i = phi i64 [0, %entry], [%i1, %more]
  %before = phi i64 [1, %entry], [%total, %more]
  %size = load ptr, item ptr %i of %sizes
  %n = call i64 @PyLong_AsLongLong(ptr %size)
  jump %good unless icmp ugt i64 %n, 2147483647   ; also if it is negative
bad:
  call void @PyErr_Clear()
  ret i1 false
good:
  store i64 %n, item i64 %i of %grid
  %product = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %before, i64 %n)
  jump %bad if extractvalue { i64, i1 } %product, 1
more:
  %total = extractvalue { i64, i1 } %product, 0
  %i1 = add i64 %i, 1
  jump %next if icmp slt i64 %i1, 3
  ret i1 true
}
"""

_CALL = """
define internal ptr @bind(ptr %records, ptr %grid) nounwind {
  %self = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %records, ptr %grid)
  ret ptr null if icmp eq ptr %self, null
  %bound = call ptr @PyCFunction_NewEx(ptr @def.call, ptr %self, ptr null)
  call void @Py_DecRef(ptr %self)
  ret ptr %bound
}

; Whether a call has the form a record was made for: so many positional arguments, these keywords.
define internal i1 @same_form(ptr %record, i64 %count, ptr %names) nounwind alwaysinline {
  %n = load i64, field record.positional of %record
  ret i1 false unless icmp eq i64 %n, %count
  %expected = load ptr, field record.keywords of %record
  ret i1 true if icmp eq ptr %expected, %names
  %any = icmp ne ptr %names, null
  %some = icmp ne ptr %expected, null
  ret i1 false unless and i1 %any, %some
  %answer = call i32 @PyObject_RichCompareBool(ptr %names, ptr %expected, i32 2)
  ret i1 false unless icmp eq i32 %answer, 1
  ret i1 true
}

; The grid of a call: a tuple as it is, a function called with all parameters by name. A new reference; null: exception.
define internal ptr @grid_of(ptr %grid, ptr %record, ptr %args) nounwind alwaysinline {
  %defaults = load ptr, field record.defaults of %record
  %callable = call i32 @PyCallable_Check(ptr %grid)
  jump %collect if icmp ne i32 %callable, 0
  call void @Py_IncRef(ptr %grid)
  ret ptr %grid
collect:
  %all = call ptr @PyDict_Copy(ptr %defaults)
  ret ptr null if icmp eq ptr %all, null
  jump %drop unless call i1 @tt.name_arguments(ptr %all, ptr %record, ptr %args)
  %answer = call ptr @PyObject_CallOneArg(ptr %grid, ptr %all)
  call void @Py_DecRef(ptr %all)
  ret ptr %answer
drop:
  call void @Py_DecRef(ptr %all)
  ret ptr null
}

; Put the arguments of a call into a dict, by name; false: an exception.
define i1 @tt.name_arguments(ptr %all, ptr %record, ptr %args) nounwind {
begin:
  %own, %n = load names, arguments of record %record
next:
  %i = phi i64 [0, %begin], [%i1, %named], [%i1, %put]
  ret i1 true unless icmp slt i64 %i, %n
  %i1 = add i64 %i, 1
  %key = call ptr @PyTuple_GetItem(ptr %own, i64 %i)
  ret i1 false if icmp eq ptr %key, null
named:
  jump %next if icmp eq ptr %key, @py.none        ; an option
put:
  %arg = load ptr, item ptr %i of %args
  %r = call i32 @PyDict_SetItem(ptr %all, ptr %key, ptr %arg)
  jump %next if icmp eq i32 %r, 0
  ret i1 false
}

; Read one to three sizes in a tuple or a list, or one int; false if it is something else.
define internal i1 @read_sizes(ptr %given, ptr %grid) nounwind alwaysinline {
  %type = load ptr, item i8 {type} of %given
  jump %other unless icmp eq ptr %type, @py.tuple
  ret i1 call i1 @read_tuple(ptr %given, ptr %grid)
other:
  jump %number unless icmp eq ptr %type, @py.list
list:
  %copied = call ptr @PyList_AsTuple(ptr %given)
  br label %made
number:
  ret i1 false unless icmp eq ptr %type, @py.int
int:
  %single = call ptr (i64, ...) @PyTuple_Pack(i64 1, ptr %given)
made:
  %new = phi ptr [%copied, %list], [%single, %int]
  jump %read_new unless icmp eq ptr %new, null
  call void @PyErr_Clear()
  ret i1 false
read_new:
  %valid = call i1 @read_tuple(ptr %new, ptr %grid)
  call void @Py_DecRef(ptr %new)
  ret i1 %valid
}

; Read a tuple of one to three sizes; false if there are more or fewer.
define internal i1 @read_tuple(ptr %tuple, ptr %grid) nounwind {
entry:
  %sizes = alloca [3 x ptr]
  %n = call i64 @PyTuple_Size(ptr %tuple)
  %less = sub i64 %n, 1
  ret i1 false unless icmp ult i64 %less, 3
next:
  %i = phi i64 [0, %entry], [%i1, %set]
  jump %set unless icmp slt i64 %i, %n
take:
  %item = call ptr @PyTuple_GetItem(ptr %tuple, i64 %i)
set:
  %size = phi ptr [@py.one, %next], [%item, %take]
  store ptr %size, item ptr %i of %sizes
  %i1 = add i64 %i, 1
  jump %next if icmp slt i64 %i1, 3
  ret i1 call i1 @tt.read_grid(ptr %sizes, ptr %grid)
}

; The function of a list of records, called with the grid and the arguments.
define internal ptr @ask_python(ptr %records, ptr %grid, ptr %args, i64 %count, ptr %names) nounwind noinline cold {
  %python = call ptr @PyList_GetItem(ptr %records, i64 0)
  ret ptr null if icmp eq ptr %python, null
measure:
  jump %copy if icmp eq ptr %names, null
keywords:
  %extra.k = call i64 @PyTuple_Size(ptr %names)
copy:
  %extra = phi i64 [0, %measure], [%extra.k, %keywords]
  %n = add i64 %count, %extra
  %room = add i64 %n, 1
  %all = alloca ptr, i64 %room
  store ptr %grid, ptr %all
  %bytes = shl i64 %n, 3
  call void @llvm.memcpy.p0.p0.i64(item ptr 1 of %all, ptr %args, i64 %bytes, i1 false)
  %positional = add i64 %count, 1
  ret ptr call ptr @PyObject_Vectorcall(ptr %python, ptr %all, i64 %positional, ptr %names)
}

; Have %finish do the rest of a call for the first record that its arguments fit, their slots filled. Its answer, unless
; that is @tt.another: look for another record. @tt.nobody if there is no such record; null with an exception.
define ptr @tt.serve(ptr %records, ptr %finish, ptr %context, ptr %args, i64 %count, ptr %names) nounwind {
entry:
next:
  %i = phi i64 [1, %entry], [%i1, %skip]
  %n = call i64 @PyList_Size(ptr %records)
  ret ptr @tt.nobody unless icmp slt i64 %i, %n
  %i1 = add i64 %i, 1
  %record.o = call ptr @PyList_GetItem(ptr %records, i64 %i)
  call void @Py_IncRef(ptr %record.o)             ; a thread may empty the list while arguments are asked
  %record = call ptr @PyBytes_AsString(ptr %record.o)
  jump %raise if icmp eq ptr %record, null
  jump %skip unless call i1 @same_form(ptr %record, i64 %count, ptr %names)
  %stack = call ptr @llvm.stacksave.p0()
  %rows = load i64, field record.rows of %record
  %slots = alloca i64, i64 %rows
  %status = call i32 @fill(ptr %record, ptr %args, ptr %slots)
  switch i32 %status, label %restore [i32 0, label %found i32 2, label %raise]
restore:
  call void @llvm.stackrestore.p0(ptr %stack)
skip:
  call void @Py_DecRef(ptr %record.o)
  br label %next
found:
  %answer = call ptr %finish(ptr %record, ptr %slots, ptr %context, ptr %args, i64 %count, ptr %names)
  jump %restore if icmp eq ptr %answer, @tt.another
  call void @Py_DecRef(ptr %record.o)
  ret ptr %answer
raise:
  call void @Py_DecRef(ptr %record.o)
  ret ptr null
}

; Launch as %self says: a list of records, and a grid.
define ptr @tt.over(ptr %record, ptr %slots, ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %sizes = alloca [3 x i64]
  %grid = load ptr, item ptr 1 of %self
  %way = load ptr, field record.way of %record
  jump %kernel if icmp eq ptr %way, null
  %forward = load ptr, field record.run of %record
  ret ptr call ptr %forward(ptr %record, ptr %way, ptr %grid, ptr %args, i64 %count, ptr %names)
kernel:
  %actual = call ptr @grid_of(ptr %grid, ptr %record, ptr %args)
  jump %read unless icmp eq ptr %actual, null
  ; a name the kernel has not: Python knows which it has
  %misnamed = call i32 @PyErr_ExceptionMatches(ptr @py.retold)
  ret ptr null if icmp eq i32 %misnamed, 0
  call void @PyErr_Clear()
  ret ptr @tt.nobody
read:
  jump %odd unless call i1 @read_sizes(ptr %actual, ptr %sizes)
run:
  %result, %function = load result, run of record %record
  %returned = call ptr %function(ptr %record, ptr %slots, ptr %sizes, ptr %result)
  %quiet.w = load i64, field record.quiet of %record
  %quiet = icmp ne i64 %quiet.w, 0
  %done = icmp ne ptr %returned, null
  jump %end unless and i1 %quiet, %done
nothing:                                          ; the result was for the function that checks the launch
  call void @Py_DecRef(ptr %returned)
  call void @Py_IncRef(ptr @py.none)
  br label %end
odd:                                              ; a float, five sizes, ...: Python knows what to say
  %records = load ptr, ptr %self
  %asked = call ptr @ask_python(ptr %records, ptr %actual, ptr %args, i64 %count, ptr %names)
end:
  %answer = phi ptr [%returned, %run], [@py.none, %nothing], [%asked, %odd]
  call void @Py_DecRef(ptr %actual)
  ret ptr %answer
}

define internal ptr @call(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %records = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %grid = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  ret ptr call ptr @tt.launch_over(ptr %records, ptr %grid, ptr %args, i64 %count, ptr %names)
}

; Launch by the first record that the arguments fit, else by the function of the list.
define ptr @tt.launch_over(ptr %records, ptr %grid, ptr %args, i64 %count, ptr %names) nounwind {
  %self = alloca [2 x ptr]
  store ptr %records, ptr %self
  store ptr %grid, item ptr 1 of %self
  %answer = call ptr @tt.serve(ptr %records, ptr @tt.over, ptr %self, ptr %args, i64 %count, ptr %names)
  ret ptr %answer unless icmp eq ptr %answer, @tt.nobody
  ret ptr call ptr @ask_python(ptr %records, ptr %grid, ptr %args, i64 %count, ptr %names)
}
declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)
"""

# What further parts call.
_SHARED = """
@tt.nobody = external global i8
@tt.another = external global i8
declare i1 @tt.read_grid(ptr, ptr)
declare i1 @tt.name_arguments(ptr, ptr, ptr)
declare ptr @tt.serve(ptr, ptr, ptr, ptr, i64, ptr)
declare ptr @tt.over(ptr, ptr, ptr, ptr, i64, ptr)
declare ptr @tt.launch_over(ptr, ptr, ptr, i64, ptr)
"""


def declare(functions: str) -> str:
    """Declarations of functions written as in C, without names of parameters.

    >>> declare("i64 PyLong_AsLongLong(ptr)")
    'declare i64 @PyLong_AsLongLong(ptr)'
    """
    return "\n".join(f"declare {' @'.join(line.split(' ', 1))}" for line in functions.split("\n") if line)


def texts(named: dict[str, str]) -> str:
    """Constants that hold these texts.

    >>> texts({"greeting": "hi"})
    '@greeting = private constant [3 x i8] c"hi\\\\00"'
    """
    return "\n".join(f'@{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"' for name, text in named.items())


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter.

    >>> launcher().count("define internal ptr @bind(")
    1
    """
    return "\n".join((_declared(_TEXTS), _HEAD, guards(), _resolved(_GRID + _CALL)))


def further(text: str, named: dict[str, str], functions: str = "") -> str:
    """The LLVM text of a part that calls the launcher's, for the running interpreter.

    >>> further("@one = global i8 1", {}).count("declare ptr @tt.serve(")
    1
    """
    return "\n".join((_declared(named, functions), RECORD.definition, _SHARED, _resolved(text)))


def _declared(named: dict[str, str], functions: str = "") -> str:
    objects = [f"@{name} = external global i8" for name in _OBJECTS]
    return "\n".join((_METHOD.definition, texts(named), declare(_FUNCTIONS + functions), *objects,
                      "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"))


def _resolved(text: str) -> str:
    return resolve(text.replace("{type}", str(TYPE_OFFSET)), RECORD)
