"""The threads of a program: who they are, where they meet, and what they hand to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...gpu.lower.words import through_words
from ...llvm.writer import Val
from .statements import statement

if TYPE_CHECKING:
    from .target import NvLowering

_CONVERGENT = "convergent nounwind"


def index(g: NvLowering, what: str, axis: int = 0) -> Val:
    """This thread's number in its program, the program's, or the number of programs along an axis, as i32."""
    if what == "thread":
        return special_register(g, "tid.x")
    return special_register(g, f"{'n' if what == 'programs' else ''}{_program(g)}id.{'xyz'[axis]}")


def _program(g: NvLowering) -> str:
    """What a program is to the GPU: a block, or a cluster of them."""
    return "cluster" if g.module.attrs.get("num_ctas", 1) > 1 else "cta"


def special_register(g: NvLowering, name: str) -> Val:
    """A register that is the same throughout the kernel, i32."""
    full = f"llvm.nvvm.read.ptx.sreg.{name}"
    return g.once(full, lambda: g.w.call("i32", full, at=0))


def clock(g: NvLowering, what: str) -> Val:
    """Nanoseconds as i64, or the number of the multiprocessor."""
    if what in ("time", "globaltimer"):
        return statement(g, "mov.u64 $0, %globaltimer;", gives=["i64"], memory=False)[0]
    return statement(g, "mov.u32 $0, %smid;", gives=["i32"], memory=False)[0]


def barrier(g: NvLowering) -> None:
    """All threads of the program meet, or the group at work, and see each other's memory. A single warp need not go to
    the barriers of a block, which answer after some twenty cycles."""
    if g.threads == g.lanes and not g.module.attrs.get("producer_warps"):
        warp_barrier(g)
    elif g.members is None:
        g.w.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", g.int(0), attributes=_CONVERGENT)
    else:
        meet(g, g.int(1), g.members)


def meet(g: NvLowering, number: Val, warps: int, how: str = "sync") -> None:
    """Wait at a barrier until `warps` warps have arrived; with how="arrive", arrive there without waiting."""
    threads = g.int(g.lanes * warps)
    g.w.call("void", f"llvm.nvvm.barrier.cta.{how}.aligned.count", number, threads, attributes=_CONVERGENT)


def warp_barrier(g: NvLowering) -> None:
    """The lanes of a warp meet, and see each other's memory."""
    g.w.call("void", "llvm.nvvm.bar.warp.sync", g.int(-1), attributes=_CONVERGENT)


def schedule_fence(g: NvLowering) -> None:
    """ptxas issues what is before it first. Each half alone stops few loads; no thread takes the exit."""
    warp_barrier(g)
    statement(g, "{ .reg .pred p; .reg .b32 x; mov.u32 x, %laneid; setp.gt.u32 p, x, 31; @p exit; }")


def proxy_fence(g: NvLowering, everywhere: bool = False) -> None:
    """Ordinary writes to shared memory become visible to tensor cores and bulk copies, where these read it; or
    those to global memory too."""
    if g.target.sm < 90:
        return
    statement(g, f"fence.proxy.async{'' if everywhere else '.shared::cta'};")


def uniform(g: NvLowering, x: Val) -> Val:
    """A value equal in all lanes, in a register the compiler knows to be so."""
    return _shuffle(g, "idx", x, 0, at=0)


def shuffle(g: NvLowering, x: Val, how: str, lane: int | Val) -> Val:
    """The value of the lane of that number, or ("xor") whose number differs by these bits."""
    return through_words(g, x, lambda word: _shuffle(g, {"xor": "bfly", "from": "idx"}[how], word, lane))


def _shuffle(g: NvLowering, mode: str, x: Val, by: int | Val, at: int = -1) -> Val:
    lane = by if isinstance(by, Val) else g.int(by)
    name, last = f"llvm.nvvm.shfl.sync.{mode}.i32", g.int(g.lanes - 1)
    return g.w.call("i32", name, g.int(-1), x, lane, last, attributes=_CONVERGENT, at=at)


def set_registers(g: NvLowering, how: str, count: int) -> None:
    """The threads of a warpgroup have `count` registers from now on: they give some back ("dec"), or take some that
    others gave back ("inc")."""
    statement(g, f"setmaxnreg.{how}.sync.aligned.u32 {count};", memory=False)
