"""What differs between processors and systems in the runtime's LLVM text: the clock, and values of C's constants."""

from __future__ import annotations

from ...llvm.target import CpuTarget

# Ticks of a steady counter and their number per second; what to do while spinning.
_CLOCK = {
    # Without assembly, for which LLVM has no parser on machines of another kind.
    "arm": """
declare i64 @llvm.read_volatile_register.i64(metadata)
declare i64 @llvm.read_register.i64(metadata)
declare void @llvm.aarch64.isb(i32)
define internal i64 @ticks() nounwind alwaysinline {
  %t = call i64 @llvm.read_volatile_register.i64(metadata !{!"cntvct_el0"})
  ret i64 %t
}
define internal i64 @frequency() nounwind {
  %f = call i64 @llvm.read_register.i64(metadata !{!"cntfrq_el0"})
  ret i64 %f
}
define internal void @pause() nounwind {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}
""",
    # The time stamp counter runs at 2 to 4 GHz; the thresholds below need no more than that.
    "x86": """
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()
define internal i64 @ticks() nounwind alwaysinline {
  %t = call i64 @llvm.readcyclecounter()
  ret i64 %t
}
define internal i64 @frequency() nounwind {
  ret i64 3000000000
}
define internal void @pause() nounwind {
  call void @llvm.x86.sse2.pause()
  ret void
}
""",
}

# Values of SIG_BLOCK, SIG_SETMASK, SIGBUS and MAP_PRIVATE | MAP_ANONYMOUS, on macOS and Linux.
_NUMBERS = ("{block}", "{set}", "{bus}", "{private}")
_VALUES = {True: ("1", "3", "10", "4098"), False: ("0", "2", "7", "34")}


def clock(target: CpuTarget) -> str:
    """The functions `ticks`, `frequency` and `pause` for `target`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "cntvct_el0" in clock(cpu_target("aarch64"))
    True
    """
    return _CLOCK["arm" if target.simd == "neon" else "x86"]


def system_values(text: str, target: CpuTarget) -> str:
    """A text with the system's values of what {block}, {set}, {bus} and {private} stand for.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> system_values("i32 {block}", cpu_target("x86-64-v3")) in ("i32 0", "i32 1")
    True
    """
    for name, number in zip(_NUMBERS, _VALUES["darwin" in target.triple or "apple" in target.triple]):
        text = text.replace(name, number)
    return text
