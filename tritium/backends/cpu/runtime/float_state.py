"""The floating-point state of kernels, in LLVM: round to nearest, keep subnormals, trap nothing.

A thread's state decides how its arithmetic rounds and whether it flushes subnormals. Threads of the pool inherit the
state of the thread that starts them, and a caller may have set its own: `torch.set_flush_denormal(True)`, a library
compiled with -ffast-math. All programs of a launch run in the default state, on any thread. The caller's state is
restored after.

`@own_floats` gives the state a thread was in and leaves it in the default one, `@give_floats` restores that. Both write
the register only where it differs: reading it costs a few nanoseconds, writing it stalls.
"""

from __future__ import annotations

from ...llvm.notation import expand
from ...llvm.target import CpuTarget

# The default state, the bits that count, how the state is read and written.
_REGISTER = {
    # Traps, rounding, flushing: every bit that is not zero is somebody's wish.
    "arm": ("0", "-1", """\
  %state = call i64 @llvm.aarch64.get.fpcr()
""", """\
  call void @llvm.aarch64.set.fpcr(i64 {x})
"""),
    # The low bits note what has happened; but one of them makes zeros of subnormal operands.
    "x86": ("8064", "65472", """\
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %word = load i32, ptr %slot
  %state = zext i32 %word to i64
""", """\
  %new = trunc i64 {x} to i32
  %place = alloca i32
  store i32 %new, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
"""),
}  # fmt: skip

# Every launch runs both.
_TEXT = """
define internal i64 @own_floats() nounwind alwaysinline {
{read}  %control = and i64 %state, {mask}
  jump %done unless icmp ne i64 %control, {default}
{reset}done:
  ret i64 %state
}

define internal void @give_floats(i64 %state) nounwind alwaysinline {
  %control = and i64 %state, {mask}
  jump %done unless icmp ne i64 %control, {default}
{restore}done:
  ret void
}
"""
_DECLARED = {"arm": "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)\n",
             "x86": "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n"}  # fmt: skip


def float_state(target: CpuTarget) -> str:
    """The LLVM text for `target`.

    >>> from tritium.backends.llvm.target import cpu_target
    >>> "set.fpcr" in float_state(cpu_target("aarch64")), "ldmxcsr" in float_state(cpu_target("x86-64-v3"))
    (True, True)
    """
    kind = "arm" if target.simd == "neon" else "x86"
    default, mask, read, write = _REGISTER[kind]
    text = _DECLARED[kind] + _TEXT
    for name, said in (("read", read), ("reset", write.replace("{x}", default)), ("mask", mask), ("default", default),
                       ("restore", write.replace("{x}", "%state"))):
        text = text.replace(f"{{{name}}}", said)
    return expand(text)
