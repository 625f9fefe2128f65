"""The emulator's named barriers: warps that synchronize, alternate, or only arrive."""

import numpy as np
import pytest

from tritium.insight.emulator import Fault, execute
from tritium.insight.emulator.memory import Memory

HEAD = """\
define ptx_kernel void @f(ptr addrspace(1) %out) nounwind {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = and i32 %t, 31
  %s = getelementptr i32, ptr addrspace(3) @smem, i32 %low
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %low
  %warp = lshr i32 %t, 5
  %first = icmp eq i32 %warp, 0
"""
WRITE = "  store i32 %t, ptr addrspace(3) %s"
READ = "  %x = load i32, ptr addrspace(3) %s\n  store i32 %x, ptr addrspace(1) %q"
INTRINSIC = "  call void @llvm.nvvm.barrier.cta.{}.aligned.count(i32 {}, i32 {})"
ASM = '  call void asm sideeffect "bar.{} {}, {};", "~{{memory}}"()'


def run(body, threads=64, out=32):
    out = np.full(out, -1, np.int32)
    execute(HEAD + "\n".join(body) + "\n}\n", Memory([out]), (1, 1, 1), threads, 128)
    return out


def parted(first, second):
    """The first warp does one thing and the others another."""
    one, two = (["  br i1 %first, label %one, label %two", "one:", *first], ["  br label %end", "two:", *second])
    return [*one, *two, "  br label %end", "end:", "  ret void"]


@pytest.mark.parametrize("spelled", [INTRINSIC, ASM])
@pytest.mark.parametrize("reader_is_first", [False, True])
def test_one_warp_says_that_it_came_and_another_waits(spelled, reader_is_first):
    written, read = [WRITE, spelled.format("arrive", 2, 64)], [spelled.format("sync", 2, 64), READ]
    out = run(parted(read, written) if reader_is_first else parted(written, read))
    assert list(out) == list(range(32, 64) if reader_is_first else range(32))


@pytest.mark.parametrize("number, count, message", [
    (3, 64, "deadlock"),  # each waits at its own
    (2, 96, "for 64 threads and for 96"),
    (2, 32, "for 64 threads and for 32"),
    (2, 128, "for 128 of a block's 96"),
    (2, 33, "for 33 of a block's 96"),
    (16, 64, "no barrier 16"),
])  # fmt: skip
def test_warps_that_do_not_meet(number, count, message):
    body = parted([WRITE, INTRINSIC.format("sync", 2, 64)], [INTRINSIC.format("sync", number, count)])
    with pytest.raises(Fault, match=message):
        run(body, threads=64 if message == "deadlock" else 96)


def test_who_only_says_that_it_came_has_heard_nothing():
    with pytest.raises(Fault, match="race"):
        run(parted([WRITE, INTRINSIC.format("sync", 2, 64)], [INTRINSIC.format("arrive", 2, 64), READ]))


def test_more_or_the_same_warps_do_not_come():
    with pytest.raises(Fault, match="more warps"):
        run([INTRINSIC.format("sync", 1, 32), "  ret void"])
    with pytest.raises(Fault, match="twice"):
        run(parted([INTRINSIC.format("arrive", 1, 64)] * 2, [INTRINSIC.format("sync", 1, 64)]))


def test_lanes_of_a_warp_come_together():
    with pytest.raises(Fault, match="not all lanes"):
        run(["  %odd = trunc i32 %t to i1", "  br i1 %odd, label %one, label %two", "one:",
             INTRINSIC.format("sync", 1, 32), "  br label %two", "two:", "  ret void"], threads=32)  # fmt: skip


def turns(release):
    """Two warps write one place in turn, the first before the second, three times; each awaits its own barrier and
    then releases the other's. The first finds its barrier released at the start."""
    loop = """\
  %mine = add i32 %warp, 2
  %other = sub i32 3, %warp
  br i1 %first, label %loop, label %open
open:
  call void asm sideeffect "bar.arrive 2, 64;", "~{memory}"()
  br label %loop
loop:
  %i = phi i32 [0, %entry], [0, %open], [%n, %next]
  call void asm sideeffect "bar.sync $0, 64;", "r,~{memory}"(i32 %mine)
  %v = load i32, ptr addrspace(3) %s
  %v2 = mul i32 %v, 2
  %v3 = add i32 %v2, %warp
  store i32 %v3, ptr addrspace(3) %s
  %last = icmp eq i32 %i, 2
  %quiet = select i1 %last, i1 %second, i1 false
  br i1 %quiet, label %next, label %tell
tell:
RELEASE  br label %next
next:
  %n = add i32 %i, 1
  %more = icmp slt i32 %n, 3
  br i1 %more, label %loop, label %end
end:
  br i1 %first, label %over, label %show
show:"""
    release = '  call void asm sideeffect "bar.arrive $0, 64;", "r,~{memory}"(i32 %other)\n' if release else ""
    return ["  %second = xor i1 %first, true", "  store i32 1, ptr addrspace(3) %s",
            "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)", loop.replace("RELEASE", release), READ,
            "  br label %over", "over:", "  ret void"]  # fmt: skip


def test_warps_alternate():
    expected = 1
    for k in range(6):
        expected = 2 * expected + k % 2
    assert (run(turns(release=True)) == expected).all()


def test_warps_that_never_signal():
    with pytest.raises(Fault, match="deadlock"):
        run(turns(release=False))


def test_a_barrier_for_all_is_one_for_all():
    both = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
    with pytest.raises(Fault, match="not all threads reach"):
        run(parted([both], [both]))
    with pytest.raises(Fault, match="not all threads"):
        run(parted([both], []))


def test_functions_wait_inside():
    """A warp that waits within a function does not keep the other from coming."""
    waiting = """\
define internal i32 @reads(ptr addrspace(3) %s) nounwind noinline {
entry:
  call void asm sideeffect "bar.sync 2, 64;", "~{memory}"()
  %x = load i32, ptr addrspace(3) %s
  ret i32 %x
}
"""
    body = parted(["  %x = call i32 @reads(ptr addrspace(3) %s)", "  store i32 %x, ptr addrspace(1) %q"],
                  [WRITE, ASM.format("arrive", 2, 64)])  # fmt: skip
    out = np.full(32, -1, np.int32)
    execute(waiting + HEAD + "\n".join(body) + "\n}\n", Memory([out]), (1, 1, 1), 64, 128)
    assert list(out) == list(range(32, 64))
