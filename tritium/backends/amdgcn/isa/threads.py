"""The threads of a program: who they are, and where they meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .target import AmdLowering

TICK = 10  # nanoseconds
CONVERGENT = "convergent nounwind"


def index(g: AmdLowering, what: str, axis: int = 0) -> Val:
    """This thread's number in its program, the program's, or the number of programs along an axis, as i32."""
    if what == "programs":
        return g.once(("programs", axis), lambda: _programs(g, axis))
    name = "workitem.id.x" if what == "thread" else f"workgroup.id.{'xyz'[axis]}"
    return g.once(name, lambda: special(g, name))


def special(g: AmdLowering, name: str, type_: str = "i32") -> Val:
    """What is the same throughout the kernel, of an intrinsic without arguments."""
    return g.w.call(type_, f"llvm.amdgcn.{name}", attributes="nounwind memory(none)", at=0)


def _programs(g: AmdLowering, axis: int) -> Val:
    """The first three words of the implicit arguments: the numbers of work-groups."""
    w = g.w
    implicit = g.once("implicitarg", lambda: special(g, "implicitarg.ptr", "ptr addrspace(4)"))
    at = w.emit(implicit.type, f"getelementptr i8, {implicit.typed}, i32 {4 * axis}", implicit) if axis else implicit
    return w.effect(f"load i32, {at.typed}, align 4", "i32", at=0)


def clock(g: AmdLowering, what: str) -> Val:
    """Nanoseconds as i64, of a counter that runs at 100 MHz, or the number of the compute unit."""
    if what in ("time", "globaltimer"):
        full = "llvm.amdgcn.s.memrealtime" if g.target.generation < 11 else "llvm.readsteadycounter"
        ticks = g.w.call("i64", full, attributes="nounwind")
        return g.w.effect(f"mul i64 {ticks}, {TICK}", "i64")
    return special_register(g, *_UNIT[g.target.generation])


# The hardware register that says where a warp runs: (number, first bit, bits) of the compute unit's or WGP's number
# with those of its shader array and engine above it.
_UNIT = {9: (4, 8, 8), 10: (23, 10, 11), 11: (23, 10, 11), 12: (23, 10, 11)}


def special_register(g: AmdLowering, number: int, first: int, bits: int) -> Val:
    """Some bits of a hardware register, as i32."""
    g.w.declare("llvm.amdgcn.s.getreg", "i32", ["i32 immarg"], "nounwind")
    return g.w.effect(f"call i32 @llvm.amdgcn.s.getreg(i32 {number | first << 6 | (bits - 1) << 11})", "i32")


def barrier(g: AmdLowering) -> None:
    """All threads of the program meet, and see each other's memory.

    A fence that releases to the work-group would wait for direct copies to shared memory, which have waits of their
    own. So where there are such copies, the warp waits for its accesses to shared memory by itself.
    """
    g.w.declare("llvm.amdgcn.s.barrier", "void", [], CONVERGENT)
    if g.target.async_copies is None:
        g.w.effect('fence syncscope("workgroup") release')
    else:
        g.w.effect('fence syncscope("wavefront") release')
        wait_for(g, shared=0)
    g.w.effect("call void @llvm.amdgcn.s.barrier()")
    g.w.effect('fence syncscope("workgroup") acquire')


def wait_for(g: AmdLowering, loads: int = 63, shared: int = 15) -> None:
    """Wait until at most `loads` loads and `shared` accesses to shared memory of the warp are in flight: `s_waitcnt` of
    generation 9. The defaults wait for nothing."""
    bits = loads & 15 | loads >> 4 << 14 | shared << 8 | 7 << 4
    g.w.declare("llvm.amdgcn.s.waitcnt", "void", ["i32 immarg"], "nounwind")
    g.w.effect(f"call void @llvm.amdgcn.s.waitcnt(i32 {bits})")


def uniform(g: AmdLowering, x: Val) -> Val:
    """A value equal in all lanes, in a scalar register."""
    return g.w.call("i32", "llvm.amdgcn.readfirstlane.i32", x, attributes=CONVERGENT, at=0)
