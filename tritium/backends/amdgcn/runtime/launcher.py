"""How the shared launcher runs a kernel on an AMD GPU: one hipModuleLaunchKernel on the current stream.

The runtime copies each slot to its place in the kernel's argument segment, by the sizes and offsets that the code
object's metadata gives, and adds the hidden arguments. `INFO.context` is the number of the device; `INFO.config` is
not null for cooperative launches.
"""

from __future__ import annotations

from ...gpu_runtime import launcher as shared

PREFIX = "tt.hip"
SYMBOLS = shared.symbols(PREFIX)
DRIVER = ("hipModuleLaunchKernel", "hipModuleLaunchCooperativeKernel", "hipGetDevice", "hipSetDevice")

_FUNCTIONS = """
i32 hipModuleLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
i32 hipModuleLaunchCooperativeKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr)
i32 hipGetDevice(ptr)
i32 hipSetDevice(i32)
"""

_CHECKS = """\
  jump %failed if %wide
"""
_STARTED = """\
  %start.x = add i64 %gx, 0
  %start.y = add i64 %gy, 0
  %start.z = add i64 %gz, 0
"""
_ENTER = """\
  %wanted.64 = load i64, field info.context of %info
  %wanted = trunc i64 %wanted.64 to i32
  store i32 0, ptr %context
  %asked = call i32 @hipGetDevice(ptr %context)
  %before = load i32, ptr %context
  %there = icmp eq i32 %before, %wanted
  jump %go if %there
  %entered = call i32 @hipSetDevice(i32 %wanted)
"""
_SEND = """\
  %code.plain = call i32 @hipModuleLaunchKernel(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads, i32 1, i32 1,
                                                i32 %shared, ptr %stream, ptr %parameters, ptr null)
  br label %leave
special:                                          ; all programs are on the GPU at once
  %threads.c, %shared.c = load threads, shared of info %info
  %code.special = call i32 @hipModuleLaunchCooperativeKernel(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads.c,
                                                             i32 1, i32 1, i32 %shared.c, ptr %stream, ptr %parameters)
"""
_LEAVE = """\
  %code = phi i32 [%code.plain, %plain], [%code.special, %special]
  jump %look if %there
  %returned = call i32 @hipSetDevice(i32 %before)
"""
_REASON = """\
  %why = phi i32 [1, %measure], [%code, %look]
"""


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter.

    >>> launcher().count("define ptr @tt.hip.run(")
    1
    """
    parts = {"checks": _CHECKS, "added": "", "started": _STARTED, "enter": _ENTER, "send": _SEND, "leave": _LEAVE,
             "reason": _REASON, "invalid": "hipErrorInvalidValue", "more": "0"}
    return shared.text(PREFIX, _FUNCTIONS, parts)
