"""The launcher: a Python builtin, in LLVM, that checks arguments against a record and runs a kernel.

Nothing is compiled per kernel. A *record* (see `record.py`) says what each argument must look like for one
specialisation of a kernel to apply; the builtin walks it, fills one 8-byte slot per runtime parameter, releases the GIL
and hands the job to the pool. When an argument does not look as expected it returns NotImplemented, having done
nothing, and Python picks another specialisation.

Of CPython's structures only `ob_type` is read, and of NumPy's arrays `data` and `descr`, which its C API fixes. Objects
of the interpreter come in as symbols: `py.int` is the type `int`.
"""

from __future__ import annotations

import sys

__all__ = ["CODES", "SYMBOLS", "launcher", "python_objects"]

SYMBOLS = ("tt.def.launch", "tt.def.launch_raw")

# What a record may ask of an argument. `INT32` to `ANY64` give a slot with an integer, `TENSOR` and `NDARRAY` with a
# pointer, `BOOL` with 0 or 1, `FLOAT32` and `FLOAT64` with a float; the others give none.
CODES = {name: code for code, name in enumerate((
    "SKIP", "SAME", "EQUAL", "BITS", "TENSOR", "NDARRAY", "INT32", "INT64", "UINT64", "ANY64", "BOOL", "FLOAT32",
    "FLOAT64",
))}  # fmt: skip

_FUNCTIONS = """
ptr PyObject_GetAttr(ptr, ptr)
ptr PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
i32 PyObject_RichCompareBool(ptr, ptr, i32)
ptr PyBytes_AsString(ptr)
i64 PyBytes_Size(ptr)
i64 PyLong_AsLongLong(ptr)
i64 PyLong_AsLongLongAndOverflow(ptr, ptr)
i64 PyLong_AsUnsignedLongLong(ptr)
ptr PyLong_AsVoidPtr(ptr)
double PyFloat_AsDouble(ptr)
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
    "py.int": int, "py.float": float, "py.true": True, "py.false": False, "py.none": None,
    "py.not_implemented": NotImplemented, "py.runtime_error": RuntimeError, "py.type_error": TypeError,
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
    "doc.launch": "launch(record, gx, gy, gz, *args): run the kernel and return None, or NotImplemented",
    "doc.raw": "launch_raw(entry, arena_bytes, gx, gy, gz, slots): run the kernel on packed slots",
    "assertion": "device-side assert triggered: %s [program (%lld, %lld, %lld)]",
    "usage": "launch_raw takes (entry, arena_bytes, gx, gy, gz, slots): sizes are not negative, slots are bytes",
}

_HEAD = """
%method = type { ptr, ptr, i32, ptr }                     ; PyMethodDef; 128: METH_FASTCALL

@tt.def.launch = global %method { ptr @name.launch, ptr @launch, i32 128, ptr @doc.launch }
@tt.def.launch_raw = global %method { ptr @name.raw, ptr @launch_raw, i32 128, ptr @doc.raw }
"""

_FINISH = """
; Run with the GIL released, and turn the outcome into what a builtin returns.
define internal ptr @finish(ptr %job) nounwind {
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
  call void @Py_IncRef(ptr @py.none)
  ret ptr @py.none
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
  %result = call ptr @finish(ptr %job)
  ret ptr %result
}
"""

_LAUNCH = """
define internal ptr @launch(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %job = alloca %job
  %grid = alloca [3 x i64]
  %overflow = alloca i32
  %enough = icmp sge i64 %count, 4
  br i1 %enough, label %open, label %refuse
open:
  %record.o = load ptr, ptr %args
  %record = call ptr @PyBytes_AsString(ptr %record.o)
  %bad_record = icmp eq ptr %record, null
  br i1 %bad_record, label %raise, label %sizes
sizes:
  %entry.v = load ptr, ptr %record
  store ptr %entry.v, ptr %job
  %arena.w = getelementptr i64, ptr %record, i64 1
  %arena = load i64, ptr %arena.w
  %arena.p = getelementptr %job, ptr %job, i64 0, i32 5
  store i64 %arena, ptr %arena.p
  %n.w = getelementptr i64, ptr %record, i64 2
  %n = load i64, ptr %n.w
  %want = add i64 %n, 4
  %same_count = icmp eq i64 %want, %count
  br i1 %same_count, label %grids, label %refuse
grids:
  %slots = alloca i64, i64 %want
  %slots.p = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %slots, ptr %slots.p
  %dims = getelementptr ptr, ptr %args, i64 1
  %valid = call i1 @read_grid(ptr %dims, ptr %grid, ptr %job)
  br i1 %valid, label %start, label %refuse
start:
  %rows = getelementptr i64, ptr %record, i64 3
  %first = getelementptr ptr, ptr %args, i64 4
  br label %check

; -- one argument: %code says what it must be, %a and %b are the row's operands ----------------------------------------
check:
  %i = phi i64 [0, %start], [%i1, %filled], [%i1, %no_slot]
  %s = phi i64 [0, %start], [%s1, %filled], [%s, %no_slot]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %run, label %row
row:
  %i1 = add i64 %i, 1
  %at = mul i64 %i, 3
  %code.p = getelementptr i64, ptr %rows, i64 %at
  %word = load i64, ptr %code.p
  %code = and i64 %word, 255
  %flags = lshr i64 %word, 8
  %a.p = getelementptr i64, ptr %code.p, i64 1
  %a = load ptr, ptr %a.p
  %b.p = getelementptr i64, ptr %code.p, i64 2
  %b = load ptr, ptr %b.p
  %arg.p = getelementptr ptr, ptr %first, i64 %i
  %arg = load ptr, ptr %arg.p
  %type.p = getelementptr i8, ptr %arg, i64 {type}
  %type = load ptr, ptr %type.p
  switch i64 %code, label %refuse [
    i64 0, label %no_slot
    i64 1, label %same
    i64 2, label %equal
    i64 3, label %bits
    i64 4, label %tensor
    i64 5, label %ndarray
    i64 6, label %integer
    i64 7, label %integer
    i64 8, label %unsigned
    i64 9, label %integer
    i64 10, label %bool
    i64 11, label %float
    i64 12, label %float
  ]

same:                                             ; the object %a itself
  %is_same = icmp eq ptr %arg, %a
  br i1 %is_same, label %no_slot, label %refuse
equal:                                            ; the object %a, or one of its type that compares equal
  %is_equal = icmp eq ptr %arg, %a
  br i1 %is_equal, label %no_slot, label %compare
compare:
  %like.p = getelementptr i8, ptr %a, i64 {type}
  %like = load ptr, ptr %like.p
  %alike = icmp eq ptr %type, %like
  br i1 %alike, label %ask, label %refuse
ask:
  %answer = call i32 @PyObject_RichCompareBool(ptr %arg, ptr %a, i32 2)
  switch i32 %answer, label %refuse [i32 1, label %no_slot i32 -1, label %raise]
bits:                                             ; a float with the bits %a: 0.0 is not -0.0
  %bits_float = icmp eq ptr %type, @py.float
  br i1 %bits_float, label %compare_bits, label %refuse
compare_bits:
  %bits_v = call double @PyFloat_AsDouble(ptr %arg)
  %bits_i = bitcast double %bits_v to i64
  %a.i = ptrtoint ptr %a to i64
  %same_bits = icmp eq i64 %bits_i, %a.i
  br i1 %same_bits, label %no_slot, label %refuse

tensor:                                           ; of type %a and dtype %b
  %is_type = icmp eq ptr %type, %a
  br i1 %is_type, label %device, label %refuse
device:
  %ask_device = and i64 %flags, 4
  %skip_device = icmp eq i64 %ask_device, 0
  br i1 %skip_device, label %dtype, label %on_cpu
on_cpu:
  %cpu = call ptr @PyObject_GetAttr(ptr %arg, ptr @py.is_cpu)
  %no_cpu = icmp eq ptr %cpu, null
  br i1 %no_cpu, label %raise, label %cpu_known
cpu_known:
  call void @Py_DecRef(ptr %cpu)
  %here = icmp eq ptr %cpu, @py.true
  br i1 %here, label %dtype, label %refuse
dtype:
  %found = call ptr @PyObject_GetAttr(ptr %arg, ptr @py.dtype)
  %no_dtype = icmp eq ptr %found, null
  br i1 %no_dtype, label %raise, label %dtype_known
dtype_known:
  call void @Py_DecRef(ptr %found)
  %is_dtype = icmp eq ptr %found, %b
  br i1 %is_dtype, label %data, label %refuse
data:
  %pointer.o = call ptr @PyObject_VectorcallMethod(ptr @py.data_ptr, ptr %arg.p, i64 1, ptr null)
  %no_data = icmp eq ptr %pointer.o, null
  br i1 %no_data, label %raise, label %data_known
data_known:
  %tensor.v = call ptr @PyLong_AsVoidPtr(ptr %pointer.o)
  call void @Py_DecRef(ptr %pointer.o)
  %tensor.i = ptrtoint ptr %tensor.v to i64
  %null = icmp eq i64 %tensor.i, 0
  br i1 %null, label %doubt, label %aligned
doubt:                                            ; an empty tensor, or data_ptr() gave no integer
  %error = call ptr @PyErr_Occurred()
  %quiet = icmp eq ptr %error, null
  br i1 %quiet, label %aligned, label %raise
ndarray:                                          ; of type %a with descr %b
  %is_array = icmp eq ptr %type, %a
  br i1 %is_array, label %descr, label %refuse
descr:
  %descr.p = getelementptr i8, ptr %arg, i64 {descr}
  %descr.v = load ptr, ptr %descr.p
  %is_descr = icmp eq ptr %descr.v, %b
  br i1 %is_descr, label %array_data, label %refuse
array_data:
  %array.p = getelementptr i8, ptr %arg, i64 {data}
  %array.i = load i64, ptr %array.p
  br label %aligned

integer:                                          ; exactly int; %flags: 1 of 16 multiples, 2 of no such, 4 not 1
  %is_int = icmp eq ptr %type, @py.int
  br i1 %is_int, label %convert, label %refuse
convert:
  %number.v = call i64 @PyLong_AsLongLongAndOverflow(ptr %arg, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  br i1 %fits, label %width, label %refuse
width:
  %low = trunc i64 %number.v to i32
  %back = sext i32 %low to i64
  %narrow = icmp eq i64 %back, %number.v
  %wide = xor i1 %narrow, true
  %for32 = icmp eq i64 %code, 6
  %for64 = icmp eq i64 %code, 7
  %not32 = select i1 %for32, i1 %wide, i1 false
  %not64 = select i1 %for64, i1 %narrow, i1 false
  %misfit = or i1 %not32, %not64
  br i1 %misfit, label %refuse, label %special
special:
  %is_one = icmp eq i64 %number.v, 1
  %mind_one = icmp uge i64 %flags, 4
  %one = and i1 %is_one, %mind_one
  br i1 %one, label %refuse, label %aligned
unsigned:
  %is_big = icmp eq ptr %type, @py.int
  br i1 %is_big, label %big, label %refuse
big:
  %big.v = call i64 @PyLong_AsUnsignedLongLong(ptr %arg)
  %top = icmp slt i64 %big.v, 0
  br i1 %top, label %big_check, label %not_big
big_check:
  %big_error = call ptr @PyErr_Occurred()
  %big_ok = icmp eq ptr %big_error, null
  br i1 %big_ok, label %aligned, label %not_big
not_big:
  call void @PyErr_Clear()
  br label %refuse

aligned:                                          ; whether it is a multiple of 16 must be as when compiled
  %number = phi i64 [%tensor.i, %data_known], [%tensor.i, %doubt], [%array.i, %array_data], [%number.v, %special],
                    [%big.v, %big_check]
  %rest = and i64 %number, 15
  %even = icmp eq i64 %rest, 0
  %class = select i1 %even, i64 1, i64 2
  %expected = and i64 %flags, 3
  %both = and i64 %class, %expected
  %agrees = icmp ne i64 %both, 0
  %anything = icmp eq i64 %expected, 0
  %fine = or i1 %agrees, %anything
  br i1 %fine, label %filled, label %refuse

bool:
  %is_true = icmp eq ptr %arg, @py.true
  %is_false = icmp eq ptr %arg, @py.false
  %truth = zext i1 %is_true to i64
  %is_bool = or i1 %is_true, %is_false
  br i1 %is_bool, label %filled, label %refuse
float:
  %is_float = icmp eq ptr %type, @py.float
  br i1 %is_float, label %real, label %refuse
real:
  %double = call double @PyFloat_AsDouble(ptr %arg)
  %single = fptrunc double %double to float
  %single.b = bitcast float %single to i32
  %single.w = zext i32 %single.b to i64
  %double.w = bitcast double %double to i64
  %is_single = icmp eq i64 %code, 11
  %real.w = select i1 %is_single, i64 %single.w, i64 %double.w
  br label %filled

filled:
  %value = phi i64 [%number, %aligned], [%truth, %bool], [%real.w, %real]
  %slot = getelementptr i64, ptr %slots, i64 %s
  store i64 %value, ptr %slot
  %s1 = add i64 %s, 1
  br label %check
no_slot:
  br label %check

run:
  %result = call ptr @finish(ptr %job)
  ret ptr %result
refuse:
  call void @Py_IncRef(ptr @py.not_implemented)
  ret ptr @py.not_implemented
raise:
  ret ptr null
}
"""


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter; it stands after the pool's.

    >>> launcher().count("define internal ptr @launch(")
    1
    """
    head = object.__basicsize__
    declarations = [f"declare {' @'.join(line.split(' ', 1))}" for line in _FUNCTIONS.split("\n") if line]
    objects = [f"@{name} = external global i8" for name in _OBJECTS]
    texts = [f'@{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"' for name, text in _TEXTS.items()]
    # ob_type ends the head of every object; NumPy: data, nd, dimensions, strides, base, descr.
    launch = _LAUNCH.replace("{type}", str(head - 8)).replace("{data}", str(head)).replace("{descr}", str(head + 40))
    return "\n".join((_HEAD, *texts, *declarations, *objects, _FINISH, launch))
