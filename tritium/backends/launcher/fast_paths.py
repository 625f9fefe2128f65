"""Further builtins that go by records, in LLVM: the launch of a compiled kernel as frameworks write it, and finding the
kernel of a call without launching it.

`run` and `lookup` belong to a list as `bind` does. Where no record applies they call its first element with the
arguments as they are: nothing has happened then.

    run(gx, gy, gz, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args)
    lookup(*args, **kwargs)                       the `result` of the record
"""

from __future__ import annotations

SYMBOLS = ("tt.def.run", "tt.def.lookup")

TEXTS = {
    "name.run": "run",
    "doc.run": "run(gx, gy, gz, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args): "
    "launch the kernel",
    "name.lookup": "lookup",
    "doc.lookup": "lookup(*args, **kwargs): the compiled kernel of these arguments",
}

TEXT = """
@tt.def.run = global %method { ptr @name.run, ptr @run_compiled, i32 130, ptr @doc.run }
@tt.def.lookup = global %method { ptr @name.lookup, ptr @lookup, i32 130, ptr @doc.lookup }

; An answer of `serve`; if no record gave one, that of the list's function, called with the arguments as they are.
define internal ptr @or_ask(ptr %answer, ptr %records, ptr %args, i64 %count, ptr %names) nounwind {
  jump %find if icmp eq ptr %answer, @tt.nobody
  ret ptr %answer
find:
  %python = call ptr @PyList_GetItem(ptr %records, i64 0)
  ret ptr null if icmp eq ptr %python, null
  ret ptr call ptr @PyObject_Vectorcall(ptr %python, ptr %args, i64 %count, ptr %names)
}

; Call a hook of a launch, if there is one; false if it raised. A chain without hooks is none.
define internal i1 @tell(ptr %hook, ptr %told) nounwind {
  ret i1 true if icmp eq ptr %hook, @py.none
  %type = load ptr, item i8 {type} of %hook
  jump %ask unless icmp eq ptr %type, @py.hook_chain
  %calls = call ptr @PyObject_GetAttr(ptr %hook, ptr @py.calls)
  ret i1 false if icmp eq ptr %calls, null
  %n = call i64 @PyList_Size(ptr %calls)
  call void @Py_DecRef(ptr %calls)
  ret i1 true if icmp eq i64 %n, 0
ask:
  %answer = call ptr @PyObject_CallOneArg(ptr %hook, ptr %told)
  ret i1 false if icmp eq ptr %answer, null
  call void @Py_DecRef(ptr %answer)
  ret i1 true
}

; Launch as the nine objects at %head say: three sizes, stream, function, two kinds of metadata, two hooks.
define internal ptr @on_stream(ptr %record, ptr %slots, ptr %head, ptr %args, i64 %count, ptr %names) nounwind {
  %sizes = alloca [3 x i64]
  %function.o = load ptr, item ptr 4 of %head
  %function = call ptr @PyLong_AsVoidPtr(ptr %function.o)
  %own = load ptr, field record.entry of %record
  jump %measure if icmp eq ptr %function, %own
other:                                            ; another function, no stream, no grid: Python knows what to say
  call void @PyErr_Clear()
  ret ptr @tt.nobody
measure:
  jump %other unless call i1 @tt.read_grid(ptr %head, ptr %sizes)
place:
  %on_stream = load ptr, field record.on_stream of %record
  %streamless = icmp eq ptr %on_stream, null
  jump %begin if %streamless
stream:
  %stream.o = load ptr, item ptr 3 of %head
  %handle = call ptr @PyLong_AsVoidPtr(ptr %stream.o)
  jump %begin unless icmp eq ptr %handle, null
doubt:
  %error = call ptr @PyErr_Occurred()
  jump %other unless icmp eq ptr %error, null
begin:
  %where = phi ptr [null, %place], [%handle, %stream], [null, %doubt]
  %told = load ptr, item ptr 6 of %head
  %enter = load ptr, item ptr 7 of %head
  %leave = load ptr, item ptr 8 of %head
  ret ptr null unless call i1 @tell(ptr %enter, ptr %told)
  %result = load ptr, field record.result of %record
  jump %placed unless %streamless
plain:
  %run = load ptr, field record.run of %record
  %ran = call ptr %run(ptr %record, ptr %slots, ptr %sizes, ptr %result)
  br label %look
placed:
  %queued = call ptr %on_stream(ptr %record, ptr %slots, ptr %sizes, ptr %result, ptr %where)
look:
  %returned = phi ptr [%ran, %plain], [%queued, %placed]
  ret ptr null if icmp eq ptr %returned, null
  call void @Py_DecRef(ptr %returned)
  ret ptr null unless call i1 @tell(ptr %leave, ptr %told)
  call void @Py_IncRef(ptr @py.none)
  ret ptr @py.none
}

define internal ptr @run_compiled(ptr %records, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %enough = icmp sge i64 %count, 9
  %unnamed = icmp eq ptr %names, null
  jump %done unless and i1 %enough, %unnamed
try:
  %own.count = sub i64 %count, 9
  %served = call ptr @tt.serve(ptr %records, ptr @on_stream, ptr %args, item ptr 9 of %args, i64 %own.count, ptr null)
done:
  %answer = phi ptr [@tt.nobody, %entry], [%served, %try]
  ret ptr call ptr @or_ask(ptr %answer, ptr %records, ptr %args, i64 %count, ptr %names)
}

; What a record of `lookup` stands for.
define internal ptr @found_kernel(ptr %record, ptr %slots, ptr %context, ptr %args, i64 %count, ptr %names) nounwind {
  %result = load ptr, field record.result of %record
  call void @Py_IncRef(ptr %result)
  ret ptr %result
}

define internal ptr @lookup(ptr %records, ptr %args, i64 %count, ptr %names) nounwind {
  %answer = call ptr @tt.serve(ptr %records, ptr @found_kernel, ptr null, ptr %args, i64 %count, ptr %names)
  ret ptr call ptr @or_ask(ptr %answer, ptr %records, ptr %args, i64 %count, ptr %names)
}
"""
