"""Guards: the part of the launcher that looks at arguments.

A record is a header and rows of three words: the first says what to check, which slot to fill, which argument to look
at and on which device it must be; the others are operands, mostly objects that must be found. Of CPython's structures
only `ob_type` is read, and of NumPy's arrays `data`, `descr` and `flags`, which its C API fixes.
"""

from __future__ import annotations

from ..llvm.structs import Struct, resolve

TYPE_OFFSET = object.__basicsize__ - 8  # ob_type ends the head of every object
_DATA = object.__basicsize__  # NumPy: data, nd, dimensions, strides, base, descr, flags
_DESCR = _DATA + 40
_FLAGS = _DATA + 48

# What a record may ask of an argument. `INT32` to `ANY64` give a slot with an integer, `TENSOR` and `NDARRAY` with a
# pointer, `BOOL` with 0 or 1, `FLOAT32` and `FLOAT64` with a float, `FIXED` with what the record holds; the others give
# none. `DEVICE` asks one more of a `TENSOR`. From `FIXED` on they look at no argument: `CAPTURED` at a variable of
# the kernel's surroundings, `LIKE` at two objects that must be equal, `ABSENT` at a dict that must not have a key.
CODES = {name: code for code, name in enumerate((
    "SKIP", "SAME", "EQUAL", "BITS", "TENSOR", "NDARRAY", "INT32", "INT64", "UINT64", "ANY64", "BOOL", "FLOAT32",
    "FLOAT64", "KIND", "DTYPE", "DEVICE", "FIXED", "CAPTURED", "LIKE", "ABSENT",
))}  # fmt: skip

# The rows come after it.
RECORD = Struct(
    "record",
    run="ptr",  # the function that runs the kernel, or goes on by `way`
    entry="ptr",  # of the kernel
    extra="i64",  # what else `run` wants to know
    rows="i64",
    arguments="i64",
    positional="i64",  # how many of the arguments are
    keywords="ptr",  # names of the other arguments
    result="ptr",  # what `call` returns
    defaults="ptr",  # of all parameters
    names="ptr",  # of the arguments, None for what is no parameter
    checks="ptr",  # what `run` must look into before it runs the kernel
    on_stream="ptr",  # the function that runs it on a given stream; null: there are none
    quiet="i64",  # whether `call` returns None in the end
    kinds="ptr",  # dtypes and classes of the arguments: one tuple for all records that have the same
    way="ptr",  # where a call goes on, if the record is of a wrapper; see `wrappers`
)

# One word, and two operands.
ROW = Struct("row", code="i8", flags="i8", slot="i16", argument="i16", device="i16", a="ptr", b="ptr")

_FILL = """
; Check arguments against a record and fill the slots. 0: done, 1: another specialisation, 2: an exception is set.
define internal i32 @fill(ptr %record, ptr %args, ptr %slots) nounwind {
start:
  %overflow = alloca i32
  %n = load i64, field record.rows of %record
  %rows = getelementptr %record, ptr %record, i64 1

; -- one row: %code says what the argument must be, %a and %b are the row's operands -----------------------------------
check:
  %i = phi i64 [0, %start], [%i1, %filled], [%i1, %no_slot]
  ret i32 0 if icmp eq i64 %i, %n
row:
  %i1 = add i64 %i, 1
  %row.p = getelementptr %row, ptr %rows, i64 %i
  %word = load i64, ptr %row.p
  %code = and i64 %word, 255
  %flags.w = lshr i64 %word, shift(row.flags)
  %flags = and i64 %flags.w, 255
  %slot.w = lshr i64 %word, shift(row.slot)
  %s = and i64 %slot.w, 65535
  %arg.w = lshr i64 %word, shift(row.argument)
  %arg.i = and i64 %arg.w, 65535
  %device.i = lshr i64 %word, shift(row.device)
  %a, %b = load a, b of row %row.p
  %a.i = ptrtoint ptr %a to i64
  jump %look if icmp ult i64 %code, {FIXED}
elsewhere:
  switch i64 %code, label %absent [i64 {FIXED}, label %filled i64 {CAPTURED}, label %captured
    i64 {LIKE}, label %alike]
alike:                                            ; %a and %b are equal
  %equals = call i32 @PyObject_RichCompareBool(ptr %a, ptr %b, i32 2)
  switch i32 %equals, label %refuse [i32 1, label %no_slot i32 -1, label %raise]
absent:                                           ; the dict %a has no %b
  %has = call i32 @PyDict_Contains(ptr %a, ptr %b)
  switch i32 %has, label %refuse [i32 0, label %no_slot i32 -1, label %raise]
captured:                                         ; the variable b[0] of the scope %a is still the object b[1]
  %name = call ptr @PyTuple_GetItem(ptr %b, i64 0)
  %was = call ptr @PyTuple_GetItem(ptr %b, i64 1)
  %now = call ptr @PyObject_GetItem(ptr %a, ptr %name)
  jump %compare_object unless icmp eq ptr %now, null
  call void @PyErr_Clear()
  br label %refuse
compare_object:
  call void @Py_DecRef(ptr %now)
  jump %no_slot if icmp eq ptr %now, %was else %refuse
look:
  %arg.p = getelementptr ptr, ptr %args, i64 %arg.i
  %arg = load ptr, ptr %arg.p
  %type = load ptr, item i8 {type} of %arg
  switch i64 %code, label %refuse [
    i64 {SKIP}, label %no_slot
    i64 {SAME}, label %same
    i64 {EQUAL}, label %equal
    i64 {BITS}, label %bits
    i64 {TENSOR}, label %tensor
    i64 {NDARRAY}, label %ndarray
    i64 {INT32}, label %integer
    i64 {INT64}, label %integer
    i64 {UINT64}, label %unsigned
    i64 {ANY64}, label %integer
    i64 {BOOL}, label %bool
    i64 {FLOAT32}, label %float
    i64 {FLOAT64}, label %float
    i64 {KIND}, label %kind
    i64 {DTYPE}, label %dtype_alone
    i64 {DEVICE}, label %device
  ]

same:                                             ; the object %a itself
  jump %no_slot if icmp eq ptr %arg, %a else %refuse
equal:                                            ; the object %a, or one of its type that compares equal
  jump %no_slot if icmp eq ptr %arg, %a
  %like = load ptr, item i8 {type} of %a
  jump %refuse unless icmp eq ptr %type, %like
  %answer = call i32 @PyObject_RichCompareBool(ptr %arg, ptr %a, i32 2)
  switch i32 %answer, label %refuse [i32 1, label %no_slot i32 -1, label %raise]
bits:                                             ; a float with the bits %a: 0.0 is not -0.0
  jump %refuse unless icmp eq ptr %type, @py.float
  %bits_v = call double @PyFloat_AsDouble(ptr %arg)
  %bits_i = bitcast double %bits_v to i64
  jump %no_slot if icmp eq i64 %bits_i, %a.i else %refuse

kind:                                             ; of type %a
  jump %no_slot if icmp eq ptr %type, %a else %refuse
dtype_alone:                                      ; of any type, and dtype %b
  %its = call ptr @PyObject_GetAttr(ptr %arg, ptr @py.dtype)
  jump %raise if icmp eq ptr %its, null
  call void @Py_DecRef(ptr %its)
  jump %no_slot if icmp eq ptr %its, %b else %refuse
device:                                           ; whose `device` equals %a
  %place = call ptr @PyObject_GetAttr(ptr %arg, ptr @py.device)
  jump %raise if icmp eq ptr %place, null
  %there = call i32 @PyObject_RichCompareBool(ptr %place, ptr %a, i32 2)
  call void @Py_DecRef(ptr %place)
  switch i32 %there, label %refuse [i32 1, label %no_slot i32 -1, label %raise]
tensor:                                           ; of type %a and dtype %b
  jump %refuse unless icmp eq ptr %type, %a
  ; %flags: 4 on the CPU, 8 on the GPU %device.i
  %where = lshr i64 %flags, 2
  switch i64 %where, label %refuse [i64 0, label %dtype i64 1, label %on_cpu i64 2, label %on_gpu]
on_gpu:
  %index.o = call ptr @PyObject_VectorcallMethod(ptr @py.get_device, ptr %arg.p, i64 1, ptr null)
  jump %raise if icmp eq ptr %index.o, null
  %index = call i64 @PyLong_AsLongLong(ptr %index.o)
  call void @Py_DecRef(ptr %index.o)
  jump %dtype if icmp eq i64 %index, %device.i else %refuse
on_cpu:
  %cpu = call ptr @PyObject_GetAttr(ptr %arg, ptr @py.is_cpu)
  jump %raise if icmp eq ptr %cpu, null
  call void @Py_DecRef(ptr %cpu)
  jump %refuse unless icmp eq ptr %cpu, @py.true
dtype:
  %found = call ptr @PyObject_GetAttr(ptr %arg, ptr @py.dtype)
  jump %raise if icmp eq ptr %found, null
  call void @Py_DecRef(ptr %found)
  jump %refuse unless icmp eq ptr %found, %b
  %pointer.o = call ptr @PyObject_VectorcallMethod(ptr @py.data_ptr, ptr %arg.p, i64 1, ptr null)
  jump %raise if icmp eq ptr %pointer.o, null
data_known:
  %tensor.v = call ptr @PyLong_AsVoidPtr(ptr %pointer.o)
  call void @Py_DecRef(ptr %pointer.o)
  %tensor.i = ptrtoint ptr %tensor.v to i64
  jump %aligned unless icmp eq i64 %tensor.i, 0
  ; an empty tensor, one without memory, or data_ptr() gave no integer
  %error = call ptr @PyErr_Occurred()
  jump %raise unless icmp eq ptr %error, null
  %count.o = call ptr @PyObject_VectorcallMethod(ptr @py.numel, ptr %arg.p, i64 1, ptr null)
  jump %raise if icmp eq ptr %count.o, null
counted:
  %elements = call i64 @PyLong_AsLongLong(ptr %count.o)
  call void @Py_DecRef(ptr %count.o)
  switch i64 %elements, label %refuse [i64 0, label %aligned i64 -1, label %raise]
ndarray:                                          ; of type %a with descr %b; %flags: 4 writeable
  jump %refuse unless icmp eq ptr %type, %a
  %descr.v = load ptr, item i8 {descr} of %arg
  jump %refuse unless icmp eq ptr %descr.v, %b
  ; 0x400 in an array's flags is NPY_ARRAY_WRITEABLE, 256 times ours
  %rights.v = load i32, item i8 {flags} of %arg
  %rights.i = zext i32 %rights.v to i64
  %own = and i64 %flags, 4
  %asked = shl i64 %own, 8
  %granted = and i64 %rights.i, %asked
  jump %refuse unless icmp eq i64 %granted, %asked
array_data:
  %array.i = load i64, item i8 {data} of %arg
  br label %aligned

integer:                                          ; exactly int; %flags: 1 of 16 multiples, 2 of no such, 4 not 1
  jump %refuse unless icmp eq ptr %type, @py.int
  %number.v = call i64 @PyLong_AsLongLongAndOverflow(ptr %arg, ptr %overflow)
  %over = load i32, ptr %overflow
  jump %refuse unless icmp eq i32 %over, 0
  %low = trunc i64 %number.v to i32
  %back = sext i32 %low to i64
  %narrow = icmp eq i64 %back, %number.v
  %wide = xor i1 %narrow, true
  %for32 = icmp eq i64 %code, {INT32}
  %for64 = icmp eq i64 %code, {INT64}
  %not32 = select i1 %for32, i1 %wide, i1 false
  %not64 = select i1 %for64, i1 %narrow, i1 false
  jump %refuse if or i1 %not32, %not64
special:
  %is_one = icmp eq i64 %number.v, 1
  %mind_one = icmp uge i64 %flags, 4
  jump %refuse if and i1 %is_one, %mind_one else %aligned
unsigned:
  jump %refuse unless icmp eq ptr %type, @py.int
  %big.v = call i64 @PyLong_AsUnsignedLongLong(ptr %arg)
  jump %not_big unless icmp slt i64 %big.v, 0
big_check:
  %big_error = call ptr @PyErr_Occurred()
  jump %aligned if icmp eq ptr %big_error, null
not_big:
  call void @PyErr_Clear()
  br label %refuse

aligned:                                          ; whether it is a multiple of 16 must be as when compiled
  %number = phi i64 [%tensor.i, %data_known], [%tensor.i, %counted], [%array.i, %array_data], [%number.v, %special],
                    [%big.v, %big_check]
  %even = icmp eq i64 %number & 15, 0
  %class = select i1 %even, i64 1, i64 2
  %expected = and i64 %flags, 3
  %agrees = icmp ne i64 %class & %expected, 0
  %anything = icmp eq i64 %expected, 0
  jump %filled if or i1 %agrees, %anything else %refuse

bool:
  %is_true = icmp eq ptr %arg, @py.true
  %is_false = icmp eq ptr %arg, @py.false
  %truth = zext i1 %is_true to i64
  jump %filled if or i1 %is_true, %is_false else %refuse
float:
  jump %refuse unless icmp eq ptr %type, @py.float
real:
  %double = call double @PyFloat_AsDouble(ptr %arg)
  %single = fptrunc double %double to float
  %single.b = bitcast float %single to i32
  %single.w = zext i32 %single.b to i64
  %double.w = bitcast double %double to i64
  %is_single = icmp eq i64 %code, {FLOAT32}
  %real.w = select i1 %is_single, i64 %single.w, i64 %double.w

filled:
  %value = phi i64 [%a.i, %elsewhere], [%number, %aligned], [%truth, %bool], [%real.w, %real]
  store i64 %value, item i64 %s of %slots
  br label %check
no_slot:
  br label %check

refuse:
  ret i32 1
raise:                                            ; the slow path meets the same error and says whose it is
  %usual = call i32 @PyErr_ExceptionMatches(ptr @py.exception)
  jump %give_up if icmp eq i32 %usual, 0
  call void @PyErr_Clear()
  br label %refuse
give_up:                                          ; KeyboardInterrupt
  ret i32 2
}
"""


def guards() -> str:
    """The LLVM text that checks arguments, for the running interpreter.

    >>> "define internal i32 @fill(" in guards()
    True
    """
    text = _FILL
    for name, number in {"type": TYPE_OFFSET, "data": _DATA, "descr": _DESCR, "flags": _FLAGS, **CODES}.items():
        text = text.replace(f"{{{name}}}", str(number))
    return resolve("\n".join((RECORD.definition, ROW.definition, text)), RECORD, ROW)
