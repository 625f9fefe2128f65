"""Registers, shared memory, occupancy and the roofline."""

import numpy as np
import pytest

from tests.insight import kernels as K
from tests.insight import slow_kernels
from tritium.backends.nvptx.assemble.ptxas import ptxas
from tritium.compiler import ASTSource
from tritium.insight.facts import trials
from tritium.insight.facts.accesses import observe
from tritium.insight.facts.coalescing import RequestMeter, requests
from tritium.insight.facts.demand import demand
from tritium.insight.facts.devices import DEVICES, devices_for
from tritium.insight.facts.liveness import liveness, most_registers, pressure
from tritium.insight.facts.resources import resources
from tritium.insight.facts.roofline import FlopMeter, minimum_bytes, roofline, traffic_of
from tritium.insight.facts.shared_memory import shared_accesses
from tritium.insight.facts.timeline import timeline
from tritium.insight.facts.timing import Work, predict
from tritium.kernels.softmax import softmax_kernel
from tritium.kernels.vector_add import add_kernel
from tritium.tools.occupancy import MACHINES

needs_ptxas = pytest.mark.skipif(ptxas() is None, reason="ptxas is not installed")


def product(target="cuda:80", size=128, **meta):
    a = K.floats(size, size, dtype=np.float16)
    blocks = dict(M=64, N=64, BK=32) | meta
    grid = size // blocks["M"], size // blocks["N"]
    return K.launched(K.product, grid, a, a, K.floats(size, size), size, size, size, size, **blocks, target=target)


def under_roofline(launch, names=()):
    meter, flops, used = RequestMeter(launch), FlopMeter(launch), resources(launch)
    facts = observe(launch, meter, flops)
    found = requests(launch, meter, facts.sites)
    traffic, shared = traffic_of(facts, found), shared_accesses(launch, flops.executed)
    work = demand(launch, facts, traffic, found, flops, used, shared, timeline(launch, traffic.misses).loops)
    devices = [DEVICES[name] for name in names] or devices_for(launch.target.arch)
    return roofline(traffic, flops.flops, [predict(d, work) for d in devices]), facts


@needs_ptxas
def test_registers_come_from_the_assembler():
    found = resources(product())
    assert not found.registers_estimated and found.spills == 0 and 32 <= found.registers <= 255
    assert found.occupancy.limits["registers"] == 65536 // (-(-found.registers // 8) * 8 * 32 * 4)


def test_registers_are_estimated_without_one(monkeypatch):
    launch = product()
    for name in ("n_regs", "n_spills"):
        launch.metadata.pop(name, None)
    found = resources(launch)
    assert found.registers_estimated and found.spills is None
    assert found.registers == most_registers(launch.stages["ttgir"]) and 40 <= found.registers <= 255


def test_shared_memory_by_buffer():
    found = resources(product())
    buffers = [(b.what, b.bytes) for b in found.buffers if not b.reused]
    assert buffers == [(f"multibuffer: 3 slots of tile<{tile}xf16>", 12288) for tile in ("64x32", "32x64")]
    assert found.shared == 24576 and found.occupancy.limits["shared memory"] == 164 * 1024 // (24576 + 1024)


def test_curves_go_through_the_point():
    found = resources(product())
    here = found.occupancy.programs
    assert {p.amount: p.programs for p in found.by_warps}[4] == here
    above = [p for p in found.by_registers if p.amount >= found.registers]
    assert above[0].programs <= here and [p.programs for p in found.by_registers] == sorted(
        (p.programs for p in found.by_registers), reverse=True)
    assert found.by_shared[0].programs >= here >= found.by_shared[-1].programs


def test_live_registers_rise_in_the_loop():
    """The accumulator of 64 x 64 floats over 128 threads is 32 registers, held through the loop."""
    live = liveness(product().stages["ttgir"])
    inside = [x.registers for x in live if x.depth == 1]
    assert min(inside) >= 32 and max(x.shared for x in live) == 24576


def test_the_tiles_that_a_thread_holds():
    """Each by its variable and line; conversions and what loops carry go by the names in the source."""
    a, out = K.floats(256, 128, dtype=np.float16), K.floats(256, 128)
    args = (a, a, out, 256)
    launch = K.launched(slow_kernels.two_sums, (2,), *args, WIDTH=128, BLOCK=128, target="cuda:90a")
    found = pressure(launch.stages["ttgir"])
    lines = {number: text.split(" = ")[0].strip() for number, text in launch.text}
    names = {h.name: h for h in found.held if h.shape == (128, 128) and h.dtype == "f32"}
    assert {"first", "second", "weights", "scores"} <= set(names) and lines[found.line] in ("first", "second")
    assert all(lines[h.line] == h.name and h.registers == 128 for h in names.values())  # of 128 threads
    assert found.registers >= 4 * 128


def test_tiles_that_are_computed_piece_by_piece_take_few_registers():
    """No op of these needs the whole tile at once: 512 elements of a thread are no reason to spill."""
    n = 1 << 16
    launch = K.launched(K.shifted, (1,), K.floats(n), K.floats(n), n, BLOCK=n, num_warps=4)
    module = launch.stages["ttgir"]
    assert max(x.registers for x in liveness(module)) > 500 and most_registers(module) < 255


def test_facts_of_a_helper_stand_at_the_line_that_calls_it():
    launch = K.launched(K.by_helpers, (1,), K.floats(64, 64, dtype=np.float16), K.floats(64, 64), N=64)
    lines, first = dict(launch.text), launch.text[0][0]
    assert {lines[s.line].strip() for s in observe(launch).sites} == {
        "total = helpers.square_of(x_ptr, N)", "helpers.put(out_ptr, total, N)"}
    passages = [s.line for s in shared_accesses(launch)] + [b.line for b in resources(launch).buffers]
    assert passages and all("helpers" in lines[line] for line in passages) and first not in passages


def test_cpu_has_scratch_only():
    found = resources(product(target="cpu"))
    assert found.occupancy is None and found.scratch >= 0 and found.limiter == ""


def test_flops_of_a_product():
    found, facts = under_roofline(product())
    assert found.flops["f16"] == 2 * 128**3 and set(found.flops) == {"f16"}
    assert found.minimum_bytes == 2 * 128 * 128 * 2 + 128 * 128 * 4 == minimum_bytes(facts)
    assert found.intensity == pytest.approx(2 * 128**3 / found.minimum_bytes)
    assert found.moved_bytes == (2 + 2) * 128 * 128 * 2 + 128 * 128 * 4  # each operand twice: two rows of programs


def test_flops_of_softmax():
    """A row of 64: subtract, exp, divide, a maximum and a sum."""
    x = K.floats(3, 64)
    found, _ = under_roofline(K.launched(softmax_kernel, (3,), x, x.copy(), 64, 64, 64, BLOCK=64))
    assert found.flops["special"] in (3 * 2 * 64, 3 * 64) and found.flops["fp32"] >= 3 * 3 * 64


def test_a_copy_is_bound_by_memory_and_a_large_product_by_tensor_cores():
    copy = predict(DEVICES["H200"], Work(2**18, 16, 4, 3 * 2**30, 3 * 2**30, flops={"fp32": 2**28}))
    assert copy.bound == "DRAM" and 3 * 2**30 / copy.seconds / 1e9 == pytest.approx(4238, rel=0.01)
    square = predict(DEVICES["H200"], Work(132 * 100, dram_bytes=3 * 2 * 8192**2, l2_bytes=8 * 2**30, pipelined=True,
                                           rounds=False, flops={"f16": 2 * 8192**3}))
    assert square.bound == "tensor cores" and 2 * 8192**3 / square.seconds / 1e12 == pytest.approx(682, rel=0.02)
    small = predict(DEVICES["H200"], Work(1, dram_bytes=4096, l2_bytes=4096, flops={"fp32": 100}))
    assert small.bound == "launch"


def test_devices_of_a_target():
    assert [d.name for d in devices_for(80)] == ["A100"] and [d.name for d in devices_for("87")] == ["RTX 3090"]
    known = {**MACHINES["cuda"], **MACHINES["hip"]}
    assert all(d.arch in known and d.source and d.dram > 100 for d in DEVICES.values())
    assert {d.arch for d in DEVICES.values()} > {90, "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}
    assert [DEVICES["MI300X"].lanes(unit) for unit in ("fp32", "fp64", "special", "integer")] == [128, 64, 16, 64]
    assert DEVICES["RX 7900 XTX"].lanes("fp32") == 256  # of two compute units, two at once
    found, _ = under_roofline(product(), names=["H200", "A100"])
    assert [p.device for p in found.predictions] == ["H200", "A100"]


def test_a_grid_that_leaves_processors_idle():
    n = 4096
    found, _ = under_roofline(K.launched(add_kernel, (4,), *(K.floats(n) for _ in range(3)), n, BLOCK=1024))
    assert found.predictions[0].busy == pytest.approx(4 / 108) and found.predictions[0].waves < 1


def test_what_does_not_compile_is_no_trial():
    """gfx942 takes 16 warps at most, and a tile has a power of two elements."""
    launch = product("hip:gfx942")
    tried = lambda source=launch.source, **options: trials._tried(launch, "", source, {**launch.options, **options})
    halved = ASTSource(launch.source.fn, launch.source.signature, {**launch.source.constants, (7,): 24})
    assert launch.fn.arg_names[7] in launch.constants and len(tried(num_warps=16)) == 1
    assert tried(num_warps=32) == [] and tried(halved) == []
