"""Further builtins that go by records, in LLVM: the launch of a compiled kernel as frameworks write it, and finding the
kernel of a call without launching it.

`run` and `lookup` belong to a list as `bind` does. Where no record applies they call its first element with the
arguments as they are: nothing has happened then.

    run(gx, gy, gz, stream, function, packed_metadata, launch_metadata, enter_hook, exit_hook, *args)
    lookup(*args, **kwargs)                       the `result` of the record
"""

from __future__ import annotations

__all__ = ["TEXT", "TEXTS"]

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
entry:
  %unanswered = icmp eq ptr %answer, @nobody
  br i1 %unanswered, label %find, label %end
end:
  ret ptr %answer
find:
  %python = call ptr @PyList_GetItem(ptr %records, i64 0)
  %none = icmp eq ptr %python, null
  br i1 %none, label %raise, label %ask
ask:
  %result = call ptr @PyObject_Vectorcall(ptr %python, ptr %args, i64 %count, ptr %names)
  ret ptr %result
raise:
  ret ptr null
}

; Call a hook of a launch, if there is one; false if it raised. A chain without hooks is none.
define internal i1 @tell(ptr %hook, ptr %told) nounwind {
entry:
  %none = icmp eq ptr %hook, @py.none
  br i1 %none, label %fine, label %look
look:
  %type.p = getelementptr i8, ptr %hook, i64 {type}
  %type = load ptr, ptr %type.p
  %is_chain = icmp eq ptr %type, @py.hook_chain
  br i1 %is_chain, label %chain, label %ask
chain:
  %calls = call ptr @PyObject_GetAttr(ptr %hook, ptr @py.calls)
  %unknown = icmp eq ptr %calls, null
  br i1 %unknown, label %raised, label %count
count:
  %n = call i64 @PyList_Size(ptr %calls)
  call void @Py_DecRef(ptr %calls)
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %fine, label %ask
ask:
  %answer = call ptr @PyObject_CallOneArg(ptr %hook, ptr %told)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %raised, label %answered
answered:
  call void @Py_DecRef(ptr %answer)
  br label %fine
fine:
  ret i1 true
raised:
  ret i1 false
}

; Launch as the nine objects at %head say: three sizes, stream, function, two kinds of metadata, two hooks.
define internal ptr @on_stream(ptr %record, ptr %slots, ptr %head, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %sizes = alloca [3 x i64]
  %function.a = getelementptr ptr, ptr %head, i64 4
  %function.o = load ptr, ptr %function.a
  %function = call ptr @PyLong_AsVoidPtr(ptr %function.o)
  %own.p = field record.entry of %record
  %own = load ptr, ptr %own.p
  %same = icmp eq ptr %function, %own
  br i1 %same, label %measure, label %other
other:                                            ; another function, no stream, no grid: Python knows what to say
  call void @PyErr_Clear()
  ret ptr @nobody
measure:
  %valid = call i1 @read_grid(ptr %head, ptr %sizes)
  br i1 %valid, label %place, label %other
place:
  %on_stream.p = field record.on_stream of %record
  %on_stream = load ptr, ptr %on_stream.p
  %streamless = icmp eq ptr %on_stream, null
  br i1 %streamless, label %begin, label %stream
stream:
  %stream.a = getelementptr ptr, ptr %head, i64 3
  %stream.o = load ptr, ptr %stream.a
  %handle = call ptr @PyLong_AsVoidPtr(ptr %stream.o)
  %default = icmp eq ptr %handle, null
  br i1 %default, label %doubt, label %begin
doubt:
  %error = call ptr @PyErr_Occurred()
  %quiet = icmp eq ptr %error, null
  br i1 %quiet, label %begin, label %other
begin:
  %where = phi ptr [null, %place], [%handle, %stream], [null, %doubt]
  %told.a = getelementptr ptr, ptr %head, i64 6
  %told = load ptr, ptr %told.a
  %enter.a = getelementptr ptr, ptr %head, i64 7
  %enter = load ptr, ptr %enter.a
  %leave.a = getelementptr ptr, ptr %head, i64 8
  %leave = load ptr, ptr %leave.a
  %entered = call i1 @tell(ptr %enter, ptr %told)
  br i1 %entered, label %go, label %raised
go:
  %result.p = field record.result of %record
  %result = load ptr, ptr %result.p
  br i1 %streamless, label %plain, label %placed
plain:
  %run.p = field record.run of %record
  %run = load ptr, ptr %run.p
  %ran = call ptr %run(ptr %record, ptr %slots, ptr %sizes, ptr %result)
  br label %look
placed:
  %queued = call ptr %on_stream(ptr %record, ptr %slots, ptr %sizes, ptr %result, ptr %where)
  br label %look
look:
  %returned = phi ptr [%ran, %plain], [%queued, %placed]
  %failed = icmp eq ptr %returned, null
  br i1 %failed, label %raised, label %end
end:
  call void @Py_DecRef(ptr %returned)
  %left = call i1 @tell(ptr %leave, ptr %told)
  br i1 %left, label %fine, label %raised
fine:
  call void @Py_IncRef(ptr @py.none)
  ret ptr @py.none
raised:
  ret ptr null
}

define internal ptr @run_compiled(ptr %records, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %enough = icmp sge i64 %count, 9
  %unnamed = icmp eq ptr %names, null
  %usual = and i1 %enough, %unnamed
  br i1 %usual, label %try, label %done
try:
  %own = getelementptr ptr, ptr %args, i64 9
  %own.count = sub i64 %count, 9
  %served = call ptr @serve(ptr %records, ptr @on_stream, ptr %args, ptr %own, i64 %own.count, ptr null)
  br label %done
done:
  %answer = phi ptr [@nobody, %entry], [%served, %try]
  %result = call ptr @or_ask(ptr %answer, ptr %records, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}

; What a record of `lookup` stands for.
define internal ptr @found_kernel(ptr %record, ptr %slots, ptr %context, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %result.p = field record.result of %record
  %result = load ptr, ptr %result.p
  call void @Py_IncRef(ptr %result)
  ret ptr %result
}

define internal ptr @lookup(ptr %records, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %answer = call ptr @serve(ptr %records, ptr @found_kernel, ptr null, ptr %args, i64 %count, ptr %names)
  %result = call ptr @or_ask(ptr %answer, ptr %records, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}
"""
