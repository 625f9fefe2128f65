"""How the shared launcher runs a kernel on an NVIDIA GPU: one cuLaunchKernel on the current stream.

A record's `extra` points to an `INFO`. Nothing is allocated and nothing waits, so launches can be captured into graphs.
The GIL is kept: the driver only queues, and giving the GIL away would let another thread hold up every launch.
"""

from __future__ import annotations

from ...launcher import launcher as native
from ...launcher import preconditions
from ...launcher.guards import RECORD
from ...llvm.structs import Struct, resolve
from . import implicit_args

__all__ = ["CONFIG", "DRIVER", "INFO", "SYMBOLS", "launcher"]

SYMBOLS = (*native.SYMBOLS, "tt.cuda.run", "tt.cuda.launch", "tt.cuda.stream", "tt.cuda.failed", "tt.cuda.ring",
           "tt.cuda.count", "tt.cuda.judge")  # fmt: skip
DRIVER = ("cuLaunchKernel", "cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuTensorMapEncodeTiled",
          "cuTensorMapReplaceAddress")
RING = 64  # launches that are remembered, for errors that come later


# What the launcher must know of a kernel besides its arguments.
INFO = Struct(
    "info",
    context="ptr",
    device="ptr",  # a Python int
    threads="i32",
    shared="i32",
    config="ptr",  # CONFIG of one program, for launches with attributes
    number="i64",  # stands for the kernel's name
    preconditions="ptr",  # the kernel's preconditions, see `launcher.preconditions`
    implicit="ptr",  # implicit arguments, see `implicit_args.ImplicitArguments`
)

# CUlaunchConfig
CONFIG = Struct("config", grid="[3 x i32]", block="[3 x i32]", shared="i32", stream="ptr", attributes="ptr",
                count="i32")

_FUNCTIONS = """
i32 cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
i32 cuLaunchKernelEx(ptr, ptr, ptr, ptr)
i32 cuCtxGetCurrent(ptr)
i32 cuCtxSetCurrent(ptr)
i32 cuTensorMapEncodeTiled(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32)
i32 cuTensorMapReplaceAddress(ptr, ptr)
ptr PyObject_CallFunction(ptr, ptr, ...)
"""

_RUN = """
@tt.cuda.stream = global ptr null                 ; a Python function: number of a device -> handle of its stream
@tt.cuda.failed = global ptr null                 ; a Python function that raises
@tt.cuda.judge = global ptr null                  ; a Python function: whether a kernel is fit for a launch
@tt.cuda.ring = global [{ring} x i64] zeroinitializer
@tt.cuda.count = global i64 0

; Launch a record's kernel on the current stream of its device.
define ptr @tt.cuda.run(ptr %record, ptr %slots, ptr %grid, ptr %result) nounwind {
entry:
  %function = load ptr, ptr @tt.cuda.stream
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
  %launched = call ptr @tt.cuda.launch(ptr %record, ptr %slots, ptr %grid, ptr %result, ptr %stream)
  ret ptr %launched
raise:
  ret ptr null
}

; Launch a record's kernel on a stream; a new reference to %result, or null with an exception.
define ptr @tt.cuda.launch(ptr %record, ptr %slots, ptr %grid, ptr %result, ptr %stream) nounwind {
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
measure:                                          ; sizes that do not fit are CUDA_ERROR_INVALID_VALUE
  %xy = or i64 %gx, %gy
  %xyz = or i64 %xy, %gz
  %wide = icmp ugt i64 %xyz, 2147483647
  %trusting.p = field record.extra of %record
  %trusting = load ptr, ptr %trusting.p
  %implicit.p = field info.implicit of %trusting
  %implicit = load ptr, ptr %implicit.p
  %open = icmp eq ptr %implicit, null
  br i1 %wide, label %failed, label %tensors
tensors:
  br i1 %open, label %trust, label %describe
describe:                                         ; TMA needs tensor maps
  %yz = or i64 %gy, %gz
  %high = icmp ugt i64 %yz, 65535                 ; the driver would say so, but may not see this grid
  br i1 %high, label %failed, label %tell
tell:
  %described = call i1 @describe_all(ptr %implicit, ptr %slots)
  %plane = mul i64 %gx, %gy
  %space = mul i64 %plane, %gz
  %few = icmp ult i64 %space, 2147483648          ; programs that share themselves out count in 32 bits
  %simple.t = and i1 %described, %few
  br i1 %simple.t, label %trust, label %judge

trust:                                            ; preconditions depend on the grid and some slots
  %preconditions.p = field info.preconditions of %trusting
  %preconditions = load ptr, ptr %preconditions.p
  %nothing = icmp eq ptr %preconditions, null
  br i1 %nothing, label %collect, label %like
like:
  %held = call i32 @hold(ptr %preconditions, ptr %slots, ptr %grid)
  %fits = icmp eq i32 %held, 0
  br i1 %fits, label %collect, label %judge
judge:
  %judge.f = load ptr, ptr @tt.cuda.judge
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
  %more.room = add i64 %room, {implicit}
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
  br i1 %open, label %place, label %hide
hide:
  %started = call i64 @add_implicit(ptr %implicit, ptr %parameters, ptr %grid, i64 %programs)
  %shares.p = field implicit.persistent of %implicit
  %shares = load i64, ptr %shares.p
  %persistent = icmp ne i64 %shares, 0
  %few.x = select i1 %persistent, i64 %started, i64 %gx
  %few.y = select i1 %persistent, i64 1, i64 %gy
  %few.z = select i1 %persistent, i64 1, i64 %gz
  br label %place

place:                                            ; in a new thread, or with another device current
  %start.x = phi i64 [%gx, %count_programs], [%few.x, %hide]
  %start.y = phi i64 [%gy, %count_programs], [%few.y, %hide]
  %start.z = phi i64 [%gz, %count_programs], [%few.z, %hide]
  %info.p = field record.extra of %record
  %info = load ptr, ptr %info.p
  %wanted.p = field info.context of %info
  %wanted = load ptr, ptr %wanted.p
  store ptr null, ptr %context
  %asked = call i32 @cuCtxGetCurrent(ptr %context)
  %before = load ptr, ptr %context
  %there = icmp eq ptr %before, %wanted
  br i1 %there, label %go, label %enter
enter:
  %entered = call i32 @cuCtxSetCurrent(ptr %wanted)
  br label %go

go:
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
  %code.plain = call i32 @cuLaunchKernel(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads, i32 1, i32 1, i32 %shared,
                                         ptr %stream, ptr %parameters, ptr null)
  br label %leave
special:                                          ; the configuration says how many blocks a program has
  %blocks.p = field config.grid[0] of %config
  %blocks.32 = load i32, ptr %blocks.p
  %blocks = zext i32 %blocks.32 to i64
  %all.x = mul i64 %start.x, %blocks
  %many = icmp ugt i64 %all.x, 2147483647
  br i1 %many, label %leave, label %special.go
special.go:
  %own = alloca %config
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %config, i64 sizeof(config), i1 false)
  %x.blocks = trunc i64 %all.x to i32
  %own.x = field config.grid[0] of %own
  store i32 %x.blocks, ptr %own.x
  %own.y = field config.grid[1] of %own
  store i32 %y, ptr %own.y
  %own.z = field config.grid[2] of %own
  store i32 %z, ptr %own.z
  %own.stream = field config.stream of %own
  store ptr %stream, ptr %own.stream
  %code.special = call i32 @cuLaunchKernelEx(ptr %own, ptr %function, ptr %parameters, ptr null)
  br label %leave

leave:
  %code = phi i32 [%code.plain, %plain], [1, %special], [%code.special, %special.go]
  %nowhere = icmp eq ptr %before, null
  %stay = or i1 %there, %nowhere
  br i1 %stay, label %look, label %back
back:
  %returned = call i32 @cuCtxSetCurrent(ptr %before)
  br label %look
look:
  %good = icmp eq i32 %code, 0
  br i1 %good, label %note, label %failed
note:                                             ; an error that comes later is one of these kernels'
  %number.p = field info.number of %info
  %number = load i64, ptr %number.p
  %count = load i64, ptr @tt.cuda.count
  %count1 = add i64 %count, 1
  store i64 %count1, ptr @tt.cuda.count
  %at = urem i64 %count, {ring}
  %ring.p = getelementptr i64, ptr @tt.cuda.ring, i64 %at
  store i64 %number, ptr %ring.p
  br label %fine
fine:
  call void @Py_IncRef(ptr %result)
  ret ptr %result
failed:
  %why = phi i32 [1, %measure], [1, %describe], [%code, %look]
  %raiser = load ptr, ptr @tt.cuda.failed
  %slots.i = ptrtoint ptr %slots to i64
  %told = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %raiser, ptr @format, i32 %why, ptr %result, i64 %gx,
                                                            i64 %gy, i64 %gz, i64 %slots.i)
  ret ptr null
}
"""


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter.

    >>> launcher().count("define ptr @tt.cuda.run(")
    1
    """
    run = _RUN.replace("{ring}", str(RING)).replace("{implicit}", str(3 + implicit_args.MOST_MAPS))
    formats = native.texts({"format": "iOLLLL", "judged": "OLLLLL"})
    texts = (native.launcher(), formats, native.declare(_FUNCTIONS), preconditions.text(), implicit_args.text(),
             INFO.definition, CONFIG.definition, resolve(run, RECORD, INFO, CONFIG, implicit_args.IMPLICIT))
    return "\n".join(texts)
