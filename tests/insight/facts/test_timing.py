"""The time model: instructions counted in PTX, L1, phases that overlap or do not, latencies."""

import numpy as np
import pytest

from tests.insight import kernels as K
from tritium.insight.explain.explanation import explained
from tritium.insight.facts.coalescing import _Cache
from tritium.insight.facts.devices import DEVICES
from tritium.insight.facts.instructions import Instructions, instructions
from tritium.insight.facts.timing import Work, predict
from tritium.ir.core import Loc

H200 = DEVICES["H200"]


def test_sectors_that_a_program_loaded_before_are_in_l1():
    cache = _Cache(1 << 10)
    rows = np.arange(64, dtype=np.uint64) * np.uint64(4) + np.uint64(1 << 40)
    assert cache.missed(rows) == 8 and cache.missed(rows) == 0 and cache.missed(rows + np.uint64(128)) == 4
    cache.forget()
    assert cache.missed(rows) == 8
    assert cache.missed(np.arange(64, dtype=np.uint64) * np.uint64(32) + np.uint64(2 << 40)) == 64
    assert cache.missed(rows) == 8, "more came than it holds"


def test_instructions_in_nested_loops():
    """A line that was moved out of the inner loop does not make the outer one as frequent."""
    ptx = ["{", "outer:", "add.f32 %f1, %f2, %f3;", "inner:", "ld.global.b32 %r1, [%rd1];", "@%p1 bra inner;",
           "ex2.approx.f32 %f1, %f2;", "@%p2 bra outer;", "}"]  # fmt: skip
    lines = [0, 5, 6, 6, 6, 6, 5, 5, 0]
    runs = {Loc("f.py", 5, 0, 5, 1): 20.0, Loc("f.py", 6, 0, 6, 1): 600.0}
    found = instructions("\n".join(ptx), lines, runs, programs=2, warps=1)
    assert found.by_unit == {"fp32": 20.0, "load/store": 600.0, "special": 20.0}


def test_producer_warps_count_once_and_repeated_loads_are_seen():
    ptx = ("setmaxnreg.dec.sync.aligned.u32 56;\nadd.s32 %r1, %r2, %r3;\nsetmaxnreg.inc.sync.aligned.u32 224;\n"
           "add.s32 %r1, %r2, %r3;\nld.global.b32 %r4, [%rd1];\nld.global.b32 %r5, [%rd1];\nbar.sync 0;")
    found = instructions(ptx, [0] * 7, {}, programs=1, warps=8)
    assert found.by_unit["integer"] == 9 and found.repeated == 0.5 and found.synchronizes


def test_phases_are_hidden_by_other_programs():
    counted = Instructions({"special": 2e7}, synchronizes=True)
    alone, many = (predict(H200, Work(132 * 64, resident, dram_bytes=1e9, l2_bytes=1e9, instructions=counted))
                   for resident in (1, 16))
    assert alone.bound == many.bound == "DRAM" and alone.seconds > 1.3 * many.seconds
    piped = predict(H200, Work(132 * 64, 1, dram_bytes=1e9, l2_bytes=1e9, instructions=counted, pipelined=True,
                               rounds=False))
    assert piped.seconds == pytest.approx(many.seconds, rel=0.1)


def test_many_small_programs_are_bound_by_their_start_and_long_chains_by_latency():
    assert predict(H200, Work(1 << 20, 32, dram_bytes=1e6, l2_bytes=1e6)).bound == "programs"
    chain = predict(H200, Work(132, dram_bytes=1e6, l2_bytes=1e6, waits=1000))
    assert chain.bound == "latency" and chain.seconds == pytest.approx(1000 * H200.dram_latency, rel=0.05)
    assert predict(H200, Work(132, dram_bytes=100, l2_bytes=100, atomics=1e6)).bound == "atomics"


def test_short_products_run_at_the_burst_rate():
    short, long = (2 * n**3 / predict(H200, Work(132 * 4, flops={"f16": 2 * n**3}, pipelined=True)).seconds
                   for n in (4096, 8192))
    assert short > 1.1 * long


def test_overlapping_loads_come_from_l1():
    """A load that is shifted by one element brings next to nothing from L2."""
    n = 4096
    x = K.floats(n + 1)
    found = explained(K.neighbours, (4,), (x, K.floats(n), n), {"BLOCK": 1024}, "cuda:90a")
    first, second = (r for r in found.requests if r.kind == "load")
    assert first.missed == n * 4 / 32 and second.missed <= 8 and second.sectors > 100
    assert "L1" in found.prediction.parts and "instruction issue" in found.prediction.parts


def test_what_all_programs_load_comes_to_each_processor_once():
    """Of 528 programs on 132 processors, the first on each brings the weights; later ones find them in L1."""
    x, w = K.floats(528, 1024), K.floats(1024)
    found = explained(K.scaled_rows, (528,), (x, w, x.copy()), {"BLOCK": 1024}, "cuda:90a", devices=["H200"])
    rows, weights = (r.missed for r in found.requests if r.kind == "load")
    assert rows == 528 * 128 and weights == 132 * 128
    few = explained(K.scaled_rows, (64,), (x, w, x.copy()), {"BLOCK": 1024}, "cuda:90a", devices=["H200"])
    assert [r.missed for r in few.requests if r.kind == "load"] == [64 * 128, 64 * 128]
