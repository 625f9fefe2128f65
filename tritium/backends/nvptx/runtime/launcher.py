"""How the shared launcher runs a kernel on an NVIDIA GPU: one cuLaunchKernel on the current stream."""

from __future__ import annotations

from ...gpu_runtime import launcher as shared
from ...gpu_runtime.launcher import INFO, RING
from ...llvm.structs import Struct
from . import implicit_args

__all__ = ["CONFIG", "DRIVER", "INFO", "RING", "SYMBOLS", "launcher"]

PREFIX = "tt.cuda"
SYMBOLS = shared.symbols(PREFIX)
DRIVER = ("cuLaunchKernel", "cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuTensorMapEncodeTiled",
          "cuTensorMapReplaceAddress")

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
"""

# What is looked at before a launch: sizes that fit 32 bits, and tensor maps.
_CHECKS = """\
  %implicit = load ptr, field info.implicit of %trusting
  %open = icmp eq ptr %implicit, null
  jump %failed if %wide
  jump %trust if %open
describe:                                         ; TMA needs tensor maps
  %yz = or i64 %gy, %gz
  jump %failed if icmp ugt i64 %yz, 65535         ; the driver would say so, but may not see this grid
  %described = call i1 @describe_all(ptr %implicit, ptr %slots, ptr %grid)
  %space = mul i64 %gx, %gy, %gz
  %few = icmp ult i64 %space, 2147483648          ; programs that share themselves out count in 32 bits
  %simple.t = and i1 %described, %few
  jump %judge unless %simple.t
"""
# Implicit arguments, and how many blocks start.
_ADDED = """\
  jump %place if %open
hide:
  %started = call i64 @add_implicit(ptr %implicit, ptr %parameters, ptr %grid, i64 %programs)
  %shares = load i64, field implicit.persistent of %implicit
  %persistent = icmp ne i64 %shares, 0
  %few.x = select i1 %persistent, i64 %started, i64 %gx
  %few.y = select i1 %persistent, i64 1, i64 %gy
  %few.z = select i1 %persistent, i64 1, i64 %gz
"""
_STARTED = """\
  %start.x = phi i64 [%gx, %count_programs], [%few.x, %hide]
  %start.y = phi i64 [%gy, %count_programs], [%few.y, %hide]
  %start.z = phi i64 [%gz, %count_programs], [%few.z, %hide]
"""
# The device's context is made current.
_ENTER = """\
  %wanted = load ptr, field info.context of %info
  store ptr null, ptr %context
  %asked = call i32 @cuCtxGetCurrent(ptr %context)
  %before = load ptr, ptr %context
  %there = icmp eq ptr %before, %wanted
  jump %go if %there
  %entered = call i32 @cuCtxSetCurrent(ptr %wanted)
"""
_SEND = """\
  %code.plain = call i32 @cuLaunchKernel(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads, i32 1, i32 1, i32 %shared,
                                         ptr %stream, ptr %parameters, ptr null)
  br label %leave
special:                                          ; the configuration says how many blocks a program has
  %blocks.32 = load i32, field config.grid[0] of %config
  %blocks = zext i32 %blocks.32 to i64
  %all.x = mul i64 %start.x, %blocks
  jump %leave if icmp ugt i64 %all.x, 2147483647
special.go:
  %own = alloca %config
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %config, i64 sizeof(config), i1 false)
  %x.blocks = trunc i64 %all.x to i32
  store i32 %x.blocks, field config.grid[0] of %own
  store i32 %y, field config.grid[1] of %own
  store i32 %z, field config.grid[2] of %own
  store ptr %stream, field config.stream of %own
  %code.special = call i32 @cuLaunchKernelEx(ptr %own, ptr %function, ptr %parameters, ptr null)
"""
# The context that was current before is so again.
_LEAVE = """\
  %code = phi i32 [%code.plain, %plain], [1, %special], [%code.special, %special.go]
  %nowhere = icmp eq ptr %before, null
  %stay = or i1 %there, %nowhere
  jump %look if %stay
  %returned = call i32 @cuCtxSetCurrent(ptr %before)
"""
_REASON = """\
  %why = phi i32 [1, %measure], [1, %describe], [%code, %look]
"""


def launcher() -> str:
    """The launcher's LLVM text for the running interpreter.

    >>> launcher().count("define ptr @tt.cuda.run(")
    1
    """
    parts = {"checks": _CHECKS, "added": _ADDED, "started": _STARTED, "enter": _ENTER, "send": _SEND, "leave": _LEAVE,
             "reason": _REASON, "invalid": "CUDA_ERROR_INVALID_VALUE", "more": str(3 + implicit_args.MOST_MAPS)}
    return shared.text(PREFIX, _FUNCTIONS, parts, (CONFIG, implicit_args.IMPLICIT), implicit_args.text())
