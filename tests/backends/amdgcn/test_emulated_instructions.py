"""AMD's instructions in the emulator, one by one: cross-lane work, buffers with bounds, fences, few bits."""

import numpy as np
import pytest

from tritium.insight import emulator
from tritium.insight.emulator.amd import lanes
from tritium.insight.emulator.faults import Fault, Unknown
from tritium.insight.emulator.memory import Memory

HEAD = "define amdgpu_kernel void @f({}) nounwind {{\nentry:"


def run(body, args, parameters, threads=64, arch="gfx942", shared=0):
    """Run a kernel of these lines; `%t` is the thread's number."""
    lines = ["%t = call i32 @llvm.amdgcn.workitem.id.x()", *body, "ret void"]
    text = "\n".join([HEAD.format(", ".join(parameters)), *(x if x.endswith(":") else f"  {x}" for x in lines), "}\n"])
    memory = Memory(args)
    emulator.execute(text, memory, (1, 1, 1), threads, shared, make=emulator.machine_of(emulator.target_of(arch)))


def lane_numbers(line, arch="gfx942", setup=()):
    """%r of all lanes, for a line that makes it of %t."""
    threads = emulator.target_of(arch).warp_size
    out = np.full(threads, 0xFFFFFFFF, np.uint32)
    run([*setup, line, "%p = getelementptr i32, ptr addrspace(1) %out, i32 %t",
         "store i32 %r, ptr addrspace(1) %p, align 4"], [out], ["ptr addrspace(1) %out"], threads, arch)
    return out


def dpp(control, rows=15, banks=15, bound="false", arch="gfx942"):
    return lane_numbers("%r = call i32 @llvm.amdgcn.update.dpp.i32(i32 999, i32 %t, "
                        f"i32 {control}, i32 {rows}, i32 {banks}, i1 {bound})", arch)


LANE = np.arange(64)


@pytest.mark.parametrize(("control", "wanted"), [
    (0b00_01_10_11, LANE ^ 3),  # quad_perm:[3,2,1,0]
    (0x101, np.where(LANE % 16 < 15, LANE + 1, 999)),  # row_shl:1
    (0x114, np.where(LANE % 16 >= 4, LANE - 4, 999)),  # row_shr:4
    (0x128, LANE ^ 8),  # row_ror:8
    (0x121, LANE // 16 * 16 + (LANE % 16 - 1) % 16),  # row_ror:1
    (0x140, LANE ^ 15),  # row_mirror
    (0x141, LANE ^ 7),  # row_half_mirror
    (0x142, np.where(LANE >= 16, LANE // 16 * 16 - 1, 999)),  # row_bcast:15
    (0x143, np.where(LANE >= 32, 31, 999)),  # row_bcast:31
    (0x153, LANE // 16 * 16 + 3),  # row_newbcast:3
])
def test_dpp(control, wanted):
    assert (dpp(control) == wanted).all()


def test_dpp_of_rdna():
    assert (dpp(0x165, arch="gfx1100") == LANE[:32] ^ 5).all()  # row_xmask:5
    assert (dpp(0x152, arch="gfx1201") == LANE[:32] // 16 * 16 + 2).all()  # row_share:2
    with pytest.raises(Unknown):
        dpp(0x142, arch="gfx1100")  # rows are not broadcast since RDNA1
    with pytest.raises(Unknown):
        dpp(0x165)


def test_dpp_masks_and_bounds():
    assert (dpp(0x111, bound="true")[::16] == 0).all()
    assert (dpp(0x140, rows=0b1010) == np.where(LANE // 16 % 2, LANE ^ 15, 999)).all()
    assert (dpp(0x140, banks=0b0001) == np.where(LANE % 16 < 4, LANE ^ 15, 999)).all()


def test_lanes_that_are_not_there_give_nothing():
    """Behind a branch that only even lanes take, odd ones have no value to hand over."""
    out = np.zeros(64, np.uint32)
    run(["%bit = and i32 %t, 1", "%even = icmp eq i32 %bit, 0", "br i1 %even, label %yes, label %end", "yes:",
         "%r = call i32 @llvm.amdgcn.update.dpp.i32(i32 7, i32 %t, i32 177, i32 15, i32 15, i1 false)",  # [1,0,3,2]
         "%p = getelementptr i32, ptr addrspace(1) %out, i32 %t", "store i32 %r, ptr addrspace(1) %p, align 4",
         "br label %end", "end:"], [out], ["ptr addrspace(1) %out"])  # fmt: skip
    assert (out[::2] == 7).all() and (out[1::2] == 0).all()


@pytest.mark.parametrize(("line", "wanted"), [
    ("%r = call i32 @llvm.amdgcn.ds.swizzle(i32 %t, i32 1055)", LANE ^ 1),  # and 31, xor 1
    ("%r = call i32 @llvm.amdgcn.ds.swizzle(i32 %t, i32 32795)", LANE ^ 3),  # quad_perm:[3,2,1,0]
    ("%r = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %t)", LANE * 0),
    ("%r = call i32 @llvm.amdgcn.readlane.i32(i32 %t, i32 37)", LANE * 0 + 37),
    ("%r = call i32 @llvm.amdgcn.writelane.i32(i32 5, i32 37, i32 %t)", np.where(LANE == 37, 5, LANE)),
    ("%r = call i32 @llvm.amdgcn.ds.bpermute(i32 516, i32 %t)", LANE * 0 + 1),  # byte 516 is lane 129 % 64
    ("%r = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 0)", np.clip(LANE - 32, 0, 32)),
    ("%r = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 10)", 10 + np.clip(LANE, 0, 32)),
])
def test_cross_lane(line, wanted):
    assert (lane_numbers(line) == wanted).all()


def test_permutes_of_rows():
    identity, turned = (0x76543210, 0xFEDCBA98), (0x89ABCDEF, 0x01234567)
    read = lambda name, low, high: lane_numbers(
        f"%r = call i32 @llvm.amdgcn.{name}(i32 0, i32 %t, i32 {low}, i32 {high}, i1 false, i1 false)", "gfx1100")
    assert (read("permlane16.i32", *turned) == LANE[:32] ^ 15).all()
    assert (read("permlanex16.i32", *identity) == LANE[:32] ^ 16).all()
    assert (lane_numbers("%r = call i32 @llvm.amdgcn.permlane64.i32(i32 %t)", "gfx942") == LANE ^ 32).all()


@pytest.mark.parametrize("size", [16, 32])
def test_swaps(size):
    """Odd groups of the first operand trade with even groups of the second."""
    pair = f"%pair = call {{ i32, i32 }} @llvm.amdgcn.permlane{size}.swap(i32 %t, i32 %u, i1 false, i1 false)"
    setup = ["%u = add i32 %t, 100", pair]
    first, second = (lane_numbers(f"%r = extractvalue {{ i32, i32 }} %pair, {k}", "gfx950", setup) for k in range(2))
    odd = LANE // size % 2 == 1
    assert (first == np.where(odd, 100 + LANE - size, LANE)).all()
    assert (second == np.where(odd, 100 + LANE, LANE + size)).all()


def test_a_lane_that_is_not_the_same_for_all():
    with pytest.raises(Fault, match="different lanes"):
        lane_numbers("%r = call i32 @llvm.amdgcn.readlane.i32(i32 1, i32 %t)")


def test_the_first_lanes_of_shifts():
    source, there = lanes.source_of(0x13C, np.arange(64), 64, 9)  # wave_ror:1
    assert (source == (LANE - 1) % 64).all() and there.all()


# --- buffers ----------------------------------------------------------------------------------------------------------
MAKE = "llvm.amdgcn.make.buffer.rsrc.p8.p1"
RESOURCE = f"%x = call ptr addrspace(8) @{MAKE}(ptr addrspace(1) {{}}, i16 0, {{}}, i32 159744)"
BUFFER = "llvm.amdgcn.raw.ptr.buffer"


def test_loads_beyond_a_buffer_give_zero():
    """Each word of a vector has a bound of its own."""
    x, out = np.arange(1, 257, dtype=np.uint32), np.full(256, 9, np.uint32)
    run([RESOURCE.format("%in", "i32 408"), "%at = shl i32 %t, 4",
         f"%v = call <4 x i32> @{BUFFER}.load.v4i32(ptr addrspace(8) %x, i32 %at, i32 0, i32 0)",
         "%p = getelementptr i8, ptr addrspace(1) %out, i32 %at", "store <4 x i32> %v, ptr addrspace(1) %p, align 16"],
        [x, out], ["ptr addrspace(1) %in", "ptr addrspace(1) %out"])
    assert (out == np.where(np.arange(256) < 102, x, 0)).all()


def test_stores_beyond_a_buffer_are_dropped():
    out = np.zeros(64, np.uint32)
    run([RESOURCE.format("%out", "i64 160"), "%at = shl i32 %t, 2", "%odd = and i32 %t, 1",
         "%no = icmp eq i32 %odd, 1", "%off = select i1 %no, i32 -2147483648, i32 %at",
         f"call void @{BUFFER}.store.i32(i32 7, ptr addrspace(8) %x, i32 %off, i32 0, i32 0)"],
        [out], ["ptr addrspace(1) %out"])
    assert (out == np.where((np.arange(64) % 2 == 0) & (np.arange(64) < 40), 7, 0)).all()


def test_the_scalar_offset_of_a_buffer_counts():
    x, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    run([RESOURCE.format("%in", "i32 256"), "%at = shl i32 %t, 2",
         f"%v = call i32 @{BUFFER}.load.i32(ptr addrspace(8) %x, i32 %at, i32 128, i32 0)",
         "%p = getelementptr i8, ptr addrspace(1) %out, i32 %at", "store i32 %v, ptr addrspace(1) %p, align 4"],
        [x, out], ["ptr addrspace(1) %in", "ptr addrspace(1) %out"])
    assert (out[:32] == x[32:]).all() and (out[32:] == 0).all()


def test_memory_behind_a_buffer_is_still_checked():
    with pytest.raises(Fault, match="outside every buffer"):
        run([RESOURCE.format("%in", "i32 -1"), "%at = shl i32 %t, 4",
             f"%v = call i32 @{BUFFER}.load.i32(ptr addrspace(8) %x, i32 %at, i32 0, i32 0)"],
            [np.zeros(64, np.uint32)], ["ptr addrspace(1) %in"])


def test_a_buffer_may_not_end_within_a_word():
    with pytest.raises(Fault, match="within a word"):
        run([RESOURCE.format("%in", "i32 254"), "%at = shl i32 %t, 2",
             f"%v = call <2 x half> @{BUFFER}.load.v2f16(ptr addrspace(8) %x, i32 %at, i32 0, i32 0)"],
            [np.zeros(128, np.float16)], ["ptr addrspace(1) %in"])


def test_buffer_atomics():
    out = np.zeros(2, np.float32)
    run([RESOURCE.format("%out", "i32 4"), "%odd = and i32 %t, 1", "%at = shl i32 %odd, 2",
         f"%old = call float @{BUFFER}.atomic.fadd.f32(float 1.0, ptr addrspace(8) %x, i32 %at, i32 0, i32 0)"],
        [out], ["ptr addrspace(1) %out"])
    assert out.tolist() == [32, 0]


# --- shared memory ----------------------------------------------------------------------------------------------------
SHARED = ["%s = getelementptr i32, ptr addrspace(3) @smem, i32 %t", "store i32 %t, ptr addrspace(3) %s, align 4"]
READ = ["%u = xor i32 %t, 64", "%q = getelementptr i32, ptr addrspace(3) @smem, i32 %u",
        "%v = load i32, ptr addrspace(3) %q, align 4"]
MEET = ['fence syncscope("workgroup") release', "call void @llvm.amdgcn.s.barrier()",
        'fence syncscope("workgroup") acquire']


@pytest.mark.parametrize(("meet", "fault"), [
    (MEET, None), (MEET[1:], "without a fence that releases"), (MEET[:2], "without a fence that acquires"),
    ([], "race: a thread reads shared memory"),
])
def test_fences_around_barriers(meet, fault):
    if fault is None:
        run([*SHARED, *meet, *READ], [], [], 128, shared=512)
    else:
        with pytest.raises(Fault, match=fault):
            run([*SHARED, *meet, *READ], [], [], 128, shared=512)


def test_loads_that_go_straight_to_shared_memory():
    """The place is the warp's; the words come when somebody waits."""
    load = ["%g = getelementptr i32, ptr addrspace(1) %in, i32 %t",
            "call void @llvm.amdgcn.global.load.lds(ptr addrspace(1) %g, ptr addrspace(3) @smem, i32 4, i32 0, i32 0)"]
    own = ["%q = getelementptr i32, ptr addrspace(3) @smem, i32 %t", "%v = load i32, ptr addrspace(3) %q, align 4",
           "%p = getelementptr i32, ptr addrspace(1) %out, i32 %t", "store i32 %v, ptr addrspace(1) %p, align 4"]
    x, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    names = ["ptr addrspace(1) %in", "ptr addrspace(1) %out"]
    run([*load, "call void @llvm.amdgcn.s.waitcnt(i32 3952)", *own], [x, out], names, shared=256)  # vmcnt(0)
    assert (out == x).all()
    with pytest.raises(Fault, match="under way"):
        run([*load, *own], [x, out], names, shared=256)


def test_atomics_give_what_was_there():
    """Threads that meet at one place of shared memory come one after the other."""
    out = np.zeros(64, np.uint32)
    clear = ["%first = icmp eq i32 %t, 0", "br i1 %first, label %clear, label %cleared", "clear:",
             "store i32 0, ptr addrspace(3) @smem, align 4", "br label %cleared", "cleared:"]
    run([*clear, *MEET, '%old = atomicrmw add ptr addrspace(3) @smem, i32 %t syncscope("workgroup") monotonic, align 4',
         "%p = getelementptr i32, ptr addrspace(1) %out, i32 %t", "store i32 %old, ptr addrspace(1) %p, align 4"],
        [out], ["ptr addrspace(1) %out"], shared=4)
    assert (out == np.cumsum(LANE) - LANE).all()


# --- numbers ----------------------------------------------------------------------------------------------------------
def of_floats(lines, x, kind="float", arch="gfx942"):
    """%r of %v, for as many floats as a warp has lanes."""
    threads = emulator.target_of(arch).warp_size
    x = np.resize(np.asarray(x, np.float32), threads)
    out = np.zeros(threads, np.float32 if kind == "float" else np.uint32)
    run(["%p = getelementptr float, ptr addrspace(1) %in, i32 %t", "%v = load float, ptr addrspace(1) %p, align 4",
         *lines, "%q = getelementptr float, ptr addrspace(1) %out, i32 %t",
         f"store {kind} %r, ptr addrspace(1) %q, align 4"],
        [x, out], ["ptr addrspace(1) %in", "ptr addrspace(1) %out"], threads, arch)
    return x, out


def test_fast_functions():
    x, y = of_floats(["%r = call float @llvm.amdgcn.exp2.f32(float %v)"], [0, 1, -3.5, -130, 200, -np.inf])
    np.testing.assert_allclose(y[:6], [1, 2, 2**-3.5, 0, np.inf, 0], rtol=1e-6)
    x, y = of_floats(["%r = call float @llvm.amdgcn.sin.f32(float %v)"], np.linspace(-2, 2, 64))
    np.testing.assert_allclose(y, np.sin(2 * np.pi * x), atol=1e-6)
    x, y = of_floats(["%r = call float @llvm.amdgcn.fmed3.f32(float %v, float -1.0, float 1.0)"], [-5, 0.5, 3, np.nan])
    assert y[:4].tolist() == [-1, 0.5, 1, -1]
    x, y = of_floats(["%r = call float @llvm.amdgcn.fract.f32(float %v)"], [1.25, -0.25, -1e-9])
    assert y[:2].tolist() == [0.25, 0.75] and y[2] < 1


@pytest.mark.parametrize(("arch", "one", "most"), [
    ("gfx942", 0x40, 240), ("gfx950", 0x38, 448), ("gfx1201", 0x38, 448)])
def test_8_bit_floats(arch, one, most):
    """CDNA3 has finite ones without a negative zero, all others those of the Open Compute Project."""
    there = ("%r = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %v, float 1.0, i32 0, i1 true)",)
    _, codes = of_floats(there, [1.0, most, 2 * most, -0.0], "i32", arch)
    assert codes[0] == one << 16 | one << 24
    back = ("%c = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float 0.0, float %v, i32 -1, i1 false)",
            "%r = call float @llvm.amdgcn.cvt.f32.fp8(i32 %c, i32 1)")
    _, y = of_floats(back, [1.0, most, 2 * most, -3.3], arch=arch)
    assert y[:2].tolist() == [1, most] and np.isnan(y[2]) and y[3] == -3.25


def test_packed_halves_are_rounded_towards_zero():
    lines = ["%c = call <2 x half> @llvm.amdgcn.cvt.pkrtz(float %v, float 1.0)", "%r = bitcast <2 x half> %c to i32"]
    _, codes = of_floats(lines, [1 + 2**-11 + 2**-12, -1 - 2**-11 - 2**-12, 1e6], "i32")
    assert (codes[:3] & 0xFFFF).tolist() == [0x3C00, 0xBC00, 0x7BFF] and (codes >> 16 == 0x3C00).all()
