"""Launches of what wraps a kernel, in LLVM: of an autotuner whose choice is known, of heuristics.

A record with a *way* runs no kernel. It calls what another list of records stands for, over the same grid, with the
arguments of the call and some more (`Way`). Its guards are what the choice depends on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ...named_tuples import NamedTuple

SYMBOLS = ("tt.forward",)


class Way(NamedTuple):
    """Where a call goes on, and with what: the launcher reads its fields by their numbers.

    `computed` are (name, function, place): the function is called with a dict of the arguments by name, and what it
    gives is the argument at that place. With `noted`, a tuner's (attributes, configuration, arguments of threads that
    launch), the configuration becomes its `best_config`. With `kinds`, only a record that has them is taken.

    >>> Way([len], ("n", "BLOCK"), (64,)).computed
    ()
    """

    records: list[Any]
    names: tuple[str, ...]  # of all keywords, those of the call first
    added: tuple[Any, ...] = ()  # values of the names that follow
    computed: tuple[tuple[str, Callable[[dict[str, Any]], Any], int], ...] = ()
    noted: tuple[dict[str, Any], Any, dict[int, Any]] | None = None
    kinds: tuple[Any, ...] | None = None


FUNCTIONS = """
ptr PyLong_FromUnsignedLongLong(i64)
ptr PyTuple_New(i64)
i32 PyTuple_SetItem(ptr, i64, ptr)
i32 PyDict_DelItem(ptr, ptr)
void PyErr_Fetch(ptr, ptr, ptr)
void PyErr_Restore(ptr, ptr, ptr)
i64 PyThread_get_thread_ident()
"""

OBJECTS = {"py.grid": sys.intern("grid"), "py.best_config": sys.intern("best_config")}

TEXT = """
; Call the functions of %computed one after the other. Their answers go to their places in %all; the first %made of
; %owned hold references. False: one raised.
define internal i1 @compute_arguments(ptr %record, ptr %computed, ptr %grid, ptr %args, ptr %all, ptr %owned,
                            ptr %made) nounwind {
  %told.a = alloca ptr
  %defaults = load ptr, field record.defaults of %record
  %named = call ptr @PyDict_Copy(ptr %defaults)
  ret i1 false if icmp eq ptr %named, null
  %placed = call i32 @PyDict_SetItem(ptr %named, ptr @py.grid, ptr %grid)
  jump %fail if icmp ne i32 %placed, 0
  jump %fail unless call i1 @tt.name_arguments(ptr %named, ptr %record, ptr %args)
  %n = call i64 @PyTuple_Size(ptr %computed)
  %several = icmp sgt i64 %n, 1
next:
  %k = load i64, ptr %made
  jump %done unless icmp slt i64 %k, %n
  %what = call ptr @PyTuple_GetItem(ptr %computed, i64 %k)
  %name = call ptr @PyTuple_GetItem(ptr %what, i64 0)
  %function = call ptr @PyTuple_GetItem(ptr %what, i64 1)
  %place.o = call ptr @PyTuple_GetItem(ptr %what, i64 2)
  %place = call i64 @PyLong_AsLongLong(ptr %place.o)
  jump %alone unless %several
  %copied = call ptr @PyDict_Copy(ptr %named)     ; what one function does to its dict, the next does not see
  jump %fail if icmp eq ptr %copied, null
  store ptr %copied, ptr %told.a
  br label %ask
alone:
  call void @Py_IncRef(ptr %named)
  store ptr %named, ptr %told.a
ask:
  %told = load ptr, ptr %told.a
  %value = call ptr @PyObject_CallOneArg(ptr %function, ptr %told)
  call void @Py_DecRef(ptr %told)
  jump %fail if icmp eq ptr %value, null
  store ptr %value, item ptr %k of %owned
  store ptr %value, item ptr %place of %all
  %k1 = add i64 %k, 1
  store i64 %k1, ptr %made
  jump %next unless %several
  %set = call i32 @PyDict_SetItem(ptr %named, ptr %name, ptr %value)
  jump %next if icmp eq i32 %set, 0
fail:
  call void @Py_DecRef(ptr %named)
  ret i1 false
done:
  call void @Py_DecRef(ptr %named)
  ret i1 true
}

; Note what a tuner has chosen, and the positional arguments of this thread's launch where a function on the way may ask
; for them: a grid, heuristics (record.extra). The thread's number, a new reference; @tt.nobody if no arguments are
; noted; null with an exception.
define internal ptr @begin_launch(ptr %noted, ptr %record, ptr %grid, ptr %args, i64 %count) nounwind {
  %k.a = alloca i64
  store i64 0, ptr %k.a
  %scope = call ptr @PyTuple_GetItem(ptr %noted, i64 0)
  %config = call ptr @PyTuple_GetItem(ptr %noted, i64 1)
  %chosen = call i32 @PyDict_SetItem(ptr %scope, ptr @py.best_config, ptr %config)
  ret ptr null if icmp ne i32 %chosen, 0
  %type = load ptr, item i8 {type} of %grid
  %sizes = icmp eq ptr %type, @py.tuple
  %functions = load i64, field record.extra of %record
  %straight = icmp eq i64 %functions, 0
  ret ptr @tt.nobody if and i1 %sizes, %straight
  %launching = call ptr @PyTuple_GetItem(ptr %noted, i64 2)
  %number = call i64 @PyThread_get_thread_ident()
  %thread = call ptr @PyLong_FromUnsignedLongLong(i64 %number)
  ret ptr null if icmp eq ptr %thread, null
  %held = call ptr @PyTuple_New(i64 %count)
  jump %drop if icmp eq ptr %held, null
next:
  %k = load i64, ptr %k.a
  jump %note unless icmp slt i64 %k, %count
  %arg = load ptr, item ptr %k of %args
  call void @Py_IncRef(ptr %arg)
  %put = call i32 @PyTuple_SetItem(ptr %held, i64 %k, ptr %arg)
  %k1 = add i64 %k, 1
  store i64 %k1, ptr %k.a
  br label %next
note:
  %set = call i32 @PyDict_SetItem(ptr %launching, ptr %thread, ptr %held)
  call void @Py_DecRef(ptr %held)
  ret ptr %thread if icmp eq i32 %set, 0
drop:
  call void @Py_DecRef(ptr %thread)
  ret ptr null
}

; The launch is over, perhaps with an exception, which stays.
define internal void @end_launch(ptr %noted, ptr %thread) nounwind {
  %kind = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  ret void if icmp eq ptr %thread, @tt.nobody
  %launching = call ptr @PyTuple_GetItem(ptr %noted, i64 2)
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  %deleted = call i32 @PyDict_DelItem(ptr %launching, ptr %thread)
  call void @Py_DecRef(ptr %thread)
  jump %restore if icmp eq i32 %deleted, 0
  call void @PyErr_Clear()
restore:
  %kind.o = load ptr, ptr %kind
  %value.o = load ptr, ptr %value
  %trace.o = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %kind.o, ptr %value.o, ptr %trace.o)
  ret void
}

; Launch what a tuner has chosen by a record of the kernel, if the arguments that fit it are of the kinds the choice is
; for. %self is a list of records, a grid, a `Way`, and the tuner's own record.
define internal ptr @over_chosen(ptr %record, ptr %slots, ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
  %way = load ptr, item ptr 2 of %self
  %expected = call ptr @PyTuple_GetItem(ptr %way, i64 5)
  %kinds = load ptr, field record.kinds of %record
  ret ptr @tt.another unless icmp eq ptr %kinds, %expected
  %noted = call ptr @PyTuple_GetItem(ptr %way, i64 4)
  %grid = load ptr, item ptr 1 of %self
  %own = load ptr, item ptr 3 of %self
  %thread = call ptr @begin_launch(ptr %noted, ptr %own, ptr %grid, ptr %args, i64 %count)
  ret ptr null if icmp eq ptr %thread, null
  %answer = call ptr @tt.over(ptr %record, ptr %slots, ptr %self, ptr %args, i64 %count, ptr %names)
  call void @end_launch(ptr %noted, ptr %thread)
  ret ptr %answer
}

; Go on as %way says, which is a `Way`. It is what records with one run.
define ptr @tt.forward(ptr %record, ptr %way, ptr %grid, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %made = alloca i64
  %answer.a = alloca ptr
  store i64 0, ptr %made
  store ptr null, ptr %answer.a
  %inner = call ptr @PyTuple_GetItem(ptr %way, i64 0)
  %all_names = call ptr @PyTuple_GetItem(ptr %way, i64 1)
  %added = call ptr @PyTuple_GetItem(ptr %way, i64 2)
  %computed = call ptr @PyTuple_GetItem(ptr %way, i64 3)
  %noted = call ptr @PyTuple_GetItem(ptr %way, i64 4)
  %named.n = call i64 @PyTuple_Size(ptr %all_names)
  %added.n = call i64 @PyTuple_Size(ptr %added)
  %computed.n = call i64 @PyTuple_Size(ptr %computed)
  %given.n = load i64, field record.arguments of %record
  %n = add i64 %count, %named.n
  %all = alloca ptr, i64 %n
  %owned = alloca ptr, i64 %computed.n
  %bytes = shl i64 %given.n, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %all, ptr %args, i64 %bytes, i1 false)
  %nameless = icmp eq i64 %named.n, 0
  %call_names = select i1 %nameless, ptr null, ptr %all_names
add:
  %k = phi i64 [0, %entry], [%k1, %append]
  jump %added_all unless icmp slt i64 %k, %added.n
append:
  %value = call ptr @PyTuple_GetItem(ptr %added, i64 %k)
  %place = add i64 %given.n, %k
  store ptr %value, item ptr %place of %all
  %k1 = add i64 %k, 1
  br label %add
added_all:
  jump %note if icmp eq i64 %computed.n, 0
  %fine = call i1 @compute_arguments(ptr %record, ptr %computed, ptr %grid, ptr %args, ptr %all, ptr %owned, ptr %made)
  jump %drop unless %fine
note:
  jump %plain if icmp eq ptr %noted, @py.none
  %kinds = call ptr @PyTuple_GetItem(ptr %way, i64 5)
  jump %chosen unless icmp eq ptr %kinds, @py.none
  %thread = call ptr @begin_launch(ptr %noted, ptr %record, ptr %grid, ptr %args, i64 %count)
  jump %drop if icmp eq ptr %thread, null
  %seen = call ptr @tt.launch_over(ptr %inner, ptr %grid, ptr %all, i64 %count, ptr %call_names)
  store ptr %seen, ptr %answer.a
  call void @end_launch(ptr %noted, ptr %thread)
  br label %drop
chosen:
  %self = alloca [4 x ptr]
  store ptr %inner, ptr %self
  store ptr %grid, item ptr 1 of %self
  store ptr %way, item ptr 2 of %self
  store ptr %record, item ptr 3 of %self
  %served = call ptr @tt.serve(ptr %inner, ptr @over_chosen, ptr %self, ptr %all, i64 %count, ptr %call_names)
  %none = icmp eq ptr %served, @tt.nobody         ; kinds of arguments the kernel has not met yet, or another choice's
  %given = select i1 %none, ptr @tt.another, ptr %served
  store ptr %given, ptr %answer.a
  br label %drop
plain:
  %answer = call ptr @tt.launch_over(ptr %inner, ptr %grid, ptr %all, i64 %count, ptr %call_names)
  store ptr %answer, ptr %answer.a
drop:
  %left = load i64, ptr %made
  jump %end if icmp eq i64 %left, 0
  %last = sub i64 %left, 1
  %dropped = load ptr, item ptr %last of %owned
  call void @Py_DecRef(ptr %dropped)
  store i64 %last, ptr %made
  br label %drop
end:
  ret ptr load ptr, ptr %answer.a
}
"""
