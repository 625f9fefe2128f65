"""The emulator's clusters: cluster barriers, distributed shared memory, and multicast."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.test_clusters import CASES, product
from tritium.insight import emulator
from tritium.insight.emulator import Fault, execute
from tritium.insight.emulator.memory import Memory
from tritium.insight.emulator.tma import TensorMap
from tritium.interp.machine import interpret

pytestmark = pytest.mark.sampled

rng = np.random.default_rng(5)

MEET = '  call void asm sideeffect "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "~{memory}"()'
COME = '  call void asm sideeffect "barrier.cluster.arrive.aligned;", "~{memory}"()'
WAIT = '  call void asm sideeffect "barrier.cluster.wait.aligned;", "~{memory}"()'
BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"

SREG = "call i32 @llvm.nvvm.read.ptx.sreg."
HEAD = f"""\
define ptx_kernel void @f(ptr addrspace(1) %out, ptr addrspace(1) %in, i64 %map) nounwind {{
entry:
  %t = {SREG}tid.x()
  %rank = {SREG}cluster.ctarank()
  %home = icmp eq i32 %rank, 0
  %s = getelementptr i32, ptr addrspace(3) @smem, i32 %t
  %tens = mul i32 %rank, 100
  %mine = add i32 %tens, %t
"""
WRITE = "  store i32 %mine, ptr addrspace(3) %s"
READ = """\
  %next = xor i32 %rank, 1
  %there = call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"(ptr addrspace(3) %s, i32 %next)
  %x = call i32 asm sideeffect "ld.shared::cluster.b32 $0, [$1];", "=r,r,~{memory}"(i32 %there)"""
SHOW = f"""\
  %c = {SREG}ctaid.x()
  %row = mul i32 %c, 64
  %place = add i32 %row, %t
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %place
  store i32 %x, ptr addrspace(1) %q"""
END = "  ret void"


def run(body, grid=1, threads=64, shared=1024, blocks=2):
    """What a kernel stores; `body` is its lines."""
    out, source = np.full((grid * blocks, 64), -1, np.int32), np.arange(1024, dtype=np.int32)
    memory = Memory([out, source])
    box = TensorMap(int(memory.arguments[1]), [32, 32], [128, 4], [8, 32], "i32", 4, 0)
    execute(HEAD + "\n".join(body) + "\n}\n", memory, (grid, 1, 1), threads, shared, [box], blocks)
    return out


def only(condition, *lines, name="there"):
    """Lines for some threads alone."""
    return [f"  br i1 %{condition}, label %go.{name}, label %past.{name}", f"go.{name}:", *lines,
            f"  br label %past.{name}", f"past.{name}:"]  # fmt: skip


# --- where a block is -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name, expected", [
    ("clusterid.x", [0, 0, 1, 1, 2, 2]),
    ("ctaid.x", [0, 1, 2, 3, 4, 5]),
    ("cluster.ctarank", [0, 1] * 3),
    ("nclusterid.x", [3] * 6),
    ("nctaid.x", [6] * 6),
    ("clusterid.y", [0] * 6),
    ("nclusterid.z", [1] * 6),
])  # fmt: skip
def test_registers(name, expected):
    out = run([f"  %x = {SREG}{name}()", SHOW, END], grid=3)
    assert out.tolist() == [[x] * 64 for x in expected]


def test_threads_are_numbered_in_each_block():
    assert run([f"  %x = {SREG}tid.x()", SHOW, END], blocks=4).tolist() == [list(range(64))] * 4


# --- meeting and reading ----------------------------------------------------------------------------------------------
def test_blocks_read_each_other():
    out = run([WRITE, MEET, READ, MEET, SHOW, END], grid=2, blocks=4)
    assert out.tolist() == [[100 * (k % 4 ^ 1) + t for t in range(64)] for k in range(8)]


@pytest.mark.parametrize("bits, letter", [(8, "h"), (16, "h"), (32, "r"), (64, "l")])
def test_widths(bits, letter):
    """Behind a constant; bytes come in registers of 16 bits."""
    kind = f"i{max(bits, 16)}"
    read = READ.replace("%s", "@smem").replace("b32 $0, [$1]", f"b{bits} $0, [$1+8]")
    read = read.replace("%x = call i32", f"%y = call {kind}").replace("=r,r,~", f"={letter},r,~")
    out = run([WRITE, MEET, read, f"  %x = {'trunc' if bits > 32 else 'zext'} {kind} %y to i32", MEET, SHOW, END])
    assert out.tolist() == [[102] * 64, [2] * 64]


def test_reading_before_meeting_is_a_race():
    with pytest.raises(Fault, match="wrote since they met"):
        run([WRITE, BARRIER, READ, MEET, SHOW, END])


def test_overwriting_before_meeting_is_a_race():
    with pytest.raises(Fault, match="another block read since they met"):
        run([WRITE, MEET, READ, BARRIER, WRITE, MEET, SHOW, END])
    again = run([WRITE, MEET, READ, MEET, WRITE, MEET, SHOW, END])
    assert (again[0] == np.arange(100, 164)).all()


def test_a_block_does_not_end_before_it_was_read():
    with pytest.raises(Fault, match="ends while another may still use its shared memory"):
        run([WRITE, MEET, READ, SHOW, END])


def test_a_block_that_has_ended_is_not_read():
    body = [WRITE, MEET, *only("home", READ, SHOW), END]
    with pytest.raises(Fault, match=r"may still use"):  # who reads is first here
        run(body)
    early = ["  br i1 %home, label %late, label %over", "over:", END, "late:", READ, SHOW, END]
    with pytest.raises(Fault, match="of a block that has ended"):
        run([WRITE, MEET, *early])


def test_each_block_has_its_memory():
    with pytest.raises(Fault, match="before anybody wrote it"):
        run([*only("home", WRITE), MEET, READ, MEET, SHOW, END])


def test_blocks_that_are_not_there():
    with pytest.raises(Fault, match="block 3 of a cluster of 2"):
        run([WRITE, MEET, READ.replace("xor i32 %rank, 1", "or i32 %rank, 3"), MEET, SHOW, END])
    with pytest.raises(Fault, match="outside a block's 128 bytes"):
        run([READ, MEET, SHOW, END], shared=128)


def test_a_barrier_of_each_block_is_its_own():
    """One block meets by itself while the other is elsewhere."""
    turn = WRITE.replace("%s", "%mirror")
    body = [WRITE, "  %turned = xor i32 %t, 63", "  %mirror = getelementptr i32, ptr addrspace(3) @smem, i32 %turned",
            *only("home", BARRIER, "  %old = load i32, ptr addrspace(3) %mirror", BARRIER, turn), MEET, READ, MEET,
            SHOW, END]  # fmt: skip
    out = run(body)
    assert (out[0] == np.arange(100, 164)).all() and (out[1] == np.arange(64)[::-1]).all()


def test_coming_and_waiting_apart():
    assert (run([WRITE, COME, WAIT, READ, COME, SHOW, WAIT, END])[1] == np.arange(64)).all()
    with pytest.raises(Fault, match="twice before it waits"):
        run([COME, COME, END])
    with pytest.raises(Fault, match="did not come"):
        run([WAIT, END])
    with pytest.raises(Fault, match="wrote since they met"):  # what was written after one came
        run([COME, WRITE, WAIT, READ, MEET, SHOW, END])


def test_who_has_ended_is_not_waited_for():
    early = ["  br i1 %home, label %late, label %over", "over:", END, "late:", MEET, "  %x = add i32 %t, 0", SHOW, END]
    assert (run(early)[0] == np.arange(64)).all()


def test_who_does_not_come_is_waited_for():
    apart = ["  %warp = lshr i32 %t, 5", '  call void asm sideeffect "bar.sync $0, 64;", "r"(i32 %warp)', END]
    with pytest.raises(Fault, match="deadlock"):
        run(["  br i1 %home, label %late, label %lost", "lost:", *apart, "late:", MEET, END])


# --- global memory ----------------------------------------------------------------------------------------------------
def places(*lines):
    """Lines with %p, the thread's place in a row of the output that both blocks use, and %q, one in their own row."""
    return [f"  %c = {SREG}ctaid.x()", "  %row = mul i32 %c, 64", "  %place = add i32 %row, %t",
            "  %q = getelementptr i32, ptr addrspace(1) %out, i32 %place",
            "  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t", *lines, END]  # fmt: skip


PUT, GET = "  store i32 %mine, ptr addrspace(1) %p", "  %y = load i32, ptr addrspace(1) %p"
KEEP, SAME = "  store i32 %y, ptr addrspace(1) %q", PUT.replace("%mine", "%t")
ADD = '  %z = call i32 asm sideeffect "atom.relaxed.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r"(ptr %p, i32 1)'


def test_what_one_block_writes_another_reads_after_they_met():
    out = run(places(*only("home", PUT), MEET, GET, MEET, KEEP))
    assert out.tolist() == [list(range(64))] * 2
    with pytest.raises(Fault, match="reads global memory that another wrote since they met"):
        run(places(*only("home", PUT), BARRIER, GET, MEET, KEEP))


def test_what_one_block_reads_another_overwrites_after_they_met():
    assert run(places(GET, MEET, *only("home", PUT)))[0].tolist() == list(range(64))
    with pytest.raises(Fault, match="overwrites global memory that another read since they met"):
        run(places(GET, BARRIER, *only("home", PUT)))


def test_blocks_write_the_same_or_different_places():
    assert run(places(SAME))[0].tolist() == list(range(64))
    with pytest.raises(Fault, match="two blocks write different values"):
        run(places(PUT))


def test_atomics_need_no_meeting_among_themselves():
    assert (run(places(ADD))[0] == 1).all()
    for mixed in ([*only("home", PUT), ADD], [ADD, GET], [GET, ADD]):
        with pytest.raises(Fault, match="race"):
            run(places(*mixed))


# --- kernels of the language ------------------------------------------------------------------------------------------
@triton.jit
def rewritten(x, y, out, N: tl.constexpr):
    """Loads that are cut one way and stores that are cut another: `x` may only change when all have read it."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(x + at, tl.zeros((N, N), tl.float32))
    tl.store(out + at, tl.dot(b, a, tl.dot(a, b)))


SQUARES = [rng.integers(-3, 3, (32, 32)).astype(np.float32) for _ in range(2)]
KERNELS = {**CASES, "rewritten": (rewritten, (*SQUARES, np.zeros((32, 32), np.float32), 32), 1)}


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("case", KERNELS)
def test_kernels(case, blocks):
    kernel, args, programs = KERNELS[case]
    module, values = module_of(kernel, args)
    mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
    interpret(module, theirs, (programs,))
    emulator.run(module, mine, (programs,), num_ctas=blocks)
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def half(*shape):
    return rng.integers(-3, 3, shape).astype(np.float16)


@pytest.mark.parametrize(
    "gone, message", [(None, ""), (0, "not heard of it"), (1, r"of a block that has ended|may still use")]
)
def test_kernels_that_copy_for_each_other_meet_twice(monkeypatch, gone, message):
    """Once when the barriers are made and once before a block ends; without either there is a race."""
    args = half(128, 128), half(128, 128), np.zeros((128, 128), np.float32), 128, 128, 64, 2
    module, values = module_of(product, args)
    text, metadata = emulator.llvm_of(module, num_ctas=2)
    meetings = list(re.finditer(r"^.*barrier\.cluster.*\n", text, re.M))
    assert "multicast::cluster" in text and len(meetings) == 2
    if gone is None:
        emulator.run(module, values, num_ctas=2)
        np.testing.assert_array_equal(values[2], args[0].astype(np.float32) @ args[1].astype(np.float32))
        return
    text = text[: meetings[gone].start()] + text[meetings[gone].end() :]
    monkeypatch.setattr(emulator, "llvm_of", lambda *_, **__: (text, metadata))
    with pytest.raises(Fault, match=message):
        emulator.run(module, values, num_ctas=2)


# --- copies to several blocks -----------------------------------------------------------------------------------------
def asm(body, letters, *arguments, kind="void"):
    return f'call {kind} asm sideeffect "{body}", "{letters},~{{memory}}"({", ".join(arguments)})'


SLOTS, FULL, EMPTY = 0, 2048, 2056  # two slots, each a box of 1024 bytes that one of the blocks brings; and barriers
POINTERS = f"""\
  %full = getelementptr i8, ptr addrspace(3) @smem, i32 {FULL}
  %empty = getelementptr i8, ptr addrspace(3) @smem, i32 {EMPTY}
  %at = mul i32 %rank, 1024
  %slot = getelementptr i8, ptr addrspace(3) @smem, i32 %at
  %one = icmp eq i32 %t, 0
  %last = icmp eq i32 %t, 63"""
MADE = only("one", *[f"  {asm(f'mbarrier.init.shared::cta.b64 [$0], {count};', 'r', f'ptr addrspace(3) {name}')}"
                     for name, count in (("%full", 1), ("%empty", 2))],
            f"  {asm('fence.mbarrier_init.release.cluster;', 'r', 'i32 0')}", name="make")  # fmt: skip
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def bring(round, mask=3, announced=2048):
    """A thread of each block announces both boxes and brings one of them to both blocks."""
    expect = f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], {announced};"
    copy = f"{COPY}.multicast::cluster [$0], [$1, {{$3, $4}}], [$2], $5;"
    inputs = "ptr addrspace(3) %slot", "i64 %map", "ptr addrspace(3) %full", "i32 0", f"i32 %row.{round}", f"i16 {mask}"
    return [f"  %eight.{round} = mul i32 %rank, 8", f"  %row.{round} = add i32 %eight.{round}, {16 * round}",
            f"  {asm(expect, 'r', 'ptr addrspace(3) %full')}",
            f"  {asm('mbarrier.arrive.shared::cta.b64 _, [$0];', 'r', 'ptr addrspace(3) %full')}",
            f"  {asm(copy, 'r,l,r,r,r,h', *inputs)}"]  # fmt: skip


def wait(barrier, parity, name):
    body = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.b32 $0, 1, 0, p; }"
    return [f"  br label %{name}", f"{name}:",
            f"  %over.{name} = {asm(body, '=r,r,r', f'ptr addrspace(3) {barrier}', f'i32 {parity}', kind='i32')}",
            f"  %yes.{name} = icmp ne i32 %over.{name}, 0", f"  br i1 %yes.{name}, label %go.{name}, label %{name}",
            f"go.{name}:"]  # fmt: skip


def release(to=(0, 1), how=""):
    """A thread of each block says to both that it has read."""
    lines = []
    for k in to:
        place = f'call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"(ptr addrspace(3) %empty, i32 {k})'
        arrive = asm(f"mbarrier.arrive{how}.shared::cluster.b64 _, [$0];", "r", f"i32 %to.{k}")
        lines += [f"  %to.{k} = {place}", f"  {arrive}"]
    return lines


def take(round):
    """Thread t adds word t of what the first block brought and word t of what the second did."""
    kept = "0" if not round else f"%sum.{round - 1}"
    lines = [f"  %sum.x{round} = add i32 0, {kept}"]
    for k in range(2):
        lines += [f"  %p.{round}{k} = getelementptr i32, ptr addrspace(3) %s, i32 {256 * k}",
                  f"  %v.{round}{k} = load i32, ptr addrspace(3) %p.{round}{k}"]  # fmt: skip
    return [*lines, f"  %both.{round} = add i32 %v.{round}0, %v.{round}1",
            f"  %sum.{round} = add i32 %sum.x{round}, %both.{round}"]  # fmt: skip


FIRST = [POINTERS, *MADE, MEET, *only("one", *bring(0), name="first"), *wait("%full", 0, "filled"), *take(0), BARRIER]
AGAIN = only("one", *wait("%empty", 0, "emptied"), *bring(1), name="again")
SECOND = [*AGAIN, *wait("%full", 1, "refilled"), *take(1), "  %x = add i32 0, %sum.1", MEET, SHOW, END]


@pytest.mark.parametrize("how", ["", ".release.cluster"])
def test_blocks_copy_for_each_other(how):
    """Row r of the tensor begins with 32 r; the boxes of the second iteration lie 16 rows further down."""
    out = run([*FIRST, *only("last", *release(how=how), name="free"), *SECOND], shared=4096)
    t = np.arange(64)
    assert (out == (t + (256 + t)) + (512 + t) + (768 + t)).all()


def test_copies_into_what_another_block_still_reads():
    """It is not enough that a block's own threads have read a slot."""
    alone = [line.replace("[$0], 2;", "[$0], 1;") for line in FIRST]
    own = f"  {asm('mbarrier.arrive.shared::cta.b64 _, [$0];', 'r', 'ptr addrspace(3) %empty')}"
    with pytest.raises(Fault, match="race"):
        run([*alone, *only("last", own, name="free"), *SECOND], shared=4096)


def test_who_is_not_released_waits():
    with pytest.raises(Fault, match="deadlock"):
        run([*FIRST, *only("last", *release(to=(0,)), name="free"), *SECOND], shared=4096)


def test_barriers_are_known_to_the_cluster_first():
    with pytest.raises(Fault, match="not heard of it"):
        run([BARRIER if line == MEET else line for line in FIRST] + [END], shared=4096)
    with pytest.raises(Fault, match="without a fence"):
        run([*[line for line in FIRST if "fence.mbarrier_init" not in line], END], shared=4096)


def test_the_mask_names_blocks_of_the_cluster():
    for mask, named in ((0, "blocks 0 "), (7, "blocks 111 ")):
        with pytest.raises(Fault, match=named):
            run([POINTERS, *MADE, MEET, *only("one", *bring(0, mask), name="first"), MEET, END], shared=4096)


def test_a_block_does_not_end_before_copies_to_it():
    """Nor before others have arrived at its barriers."""
    with pytest.raises(Fault, match="ends while a copy into its shared memory"):
        run([POINTERS, *MADE, MEET, *only("one", *bring(0), name="first"), MEET, END], shared=4096)
    with pytest.raises(Fault, match=r"may still use its shared memory|of a block that has ended"):
        run([*FIRST, *only("last", *release(), name="free"), END], shared=4096)


def test_copies_to_blocks_that_have_ended():
    body = [POINTERS, *MADE, MEET, "  br i1 %home, label %late, label %over", "over:", END, "late:",
            *only("one", *bring(0), name="first"), END]  # fmt: skip
    with pytest.raises(Fault, match="block that has ended"):
        run(body, shared=4096)
